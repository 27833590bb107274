"""A small deterministic training, for gpu_frameworks.py. Needs torch with CUDA (or JAX: --case jax).

    gpu_torch_job.py --case CASE --steps N --losses FILE
        CASE: eager, sync (a sync in each step), graphs (torch.compile, reduce-overhead), triton,
        nccl (DistributedDataParallel of one rank), jax
    --profd                 import profd; profd.step() before each step
    --pause K               before step K: prints "paused", goes on with the next line of stdin. May
                            be repeated
    --init-profiler         torch.profiler's _init_for_cuda_graphs() before anything else: it takes
                            CUPTI's subscription and keeps it
    --profile FIRST:LAST:FILE   torch.profiler over these steps, after a sync and up to one; writes
                            {name: [count, total ns]} of the GPU's work. May be repeated
    --device cpu            for trying this script where there is no GPU
    --times FILE            the wall time of each step in ns, a sync in each
"""

import argparse
import json
import os
import sys
import time


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument('--case', required=True)
    parser.add_argument('--steps', type=int, required=True)
    parser.add_argument('--losses', required=True)
    parser.add_argument('--profd', action='store_true')
    parser.add_argument('--pause', type=int, action='append', default=[])
    parser.add_argument('--init-profiler', action='store_true')
    parser.add_argument('--profile', action='append', default=[])
    parser.add_argument('--times')
    parser.add_argument('--device', default='cuda')
    return parser.parse_args()


def torch_step(case, device):
    """Returns (what does one step and gives the loss, what waits for the GPU)."""
    import torch
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    width, batch = (2048, 2048) if device == 'cuda' else (64, 64)
    model = torch.nn.Sequential(*[layer for _ in range(4) for layer in (
        torch.nn.Linear(width, width), torch.nn.ReLU())]).to(device)
    data = torch.randn(batch, width, device=device)
    target = torch.randn(batch, width, device=device)
    if case == 'nccl':
        import torch.distributed as dist
        dist.init_process_group('nccl', init_method=f'file://{os.getcwd()}/nccl.{os.getpid()}',
                                rank=0, world_size=1)
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    if case == 'graphs':
        model = torch.compile(model, mode='reduce-overhead')
    extra = triton_add(torch) if case == 'triton' else None
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        output = model(data)
        if extra is not None:
            output = output + extra(output.detach(), data)
        loss = torch.nn.functional.mse_loss(output, target)
        loss.backward()
        optimizer.step()
        if case == 'nccl':
            torch.distributed.all_reduce(loss.detach())
        if case == 'sync':
            loss.item()
        return loss.detach().clone()

    return step, torch.cuda.synchronize if device == 'cuda' else lambda: None


def triton_add(torch):
    import triton
    import triton.language as tl

    @triton.jit
    def add_kernel(x_ptr, y_ptr, out_ptr, count, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < count
        total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, total, mask=mask)

    def add(x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out
    return add


def jax_step():
    import jax
    import jax.numpy as jnp
    key = jax.random.PRNGKey(0)
    data = jax.random.normal(key, (2048, 2048))
    state = {'weights': jax.random.normal(key, (2048, 2048)) / 45}

    @jax.jit
    def update(weights):
        def loss_of(w):
            return jnp.mean((jnp.tanh(data @ w) - data) ** 2)
        loss, gradient = jax.value_and_grad(loss_of)(weights)
        return weights - 0.1 * gradient, loss

    def step():
        state['weights'], loss = update(state['weights'])
        return loss
    return step, lambda: state['weights'].block_until_ready()


class TorchProfile:
    def __init__(self, text):
        first, last, self.path = text.split(':', 2)
        self.first, self.last = int(first), int(last)
        self.profiler = None

    def before(self, step, synchronize):
        import torch
        if step == self.first:
            synchronize()
            self.profiler = torch.profiler.profile(activities=[
                torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA])
            self.profiler.start()
        elif step == self.last and self.profiler is not None:
            synchronize()
            self.profiler.stop()
            trace = self.path + '.trace.json'
            self.profiler.export_chrome_trace(trace)
            with open(trace, encoding='utf-8') as file:
                content = json.load(file)
            # A torch without Kineto (CPU only) writes the list alone.
            events = content['traceEvents'] if isinstance(content, dict) else content
            os.remove(trace)
            totals = {}
            for event in events:
                if event.get('cat') == 'kernel':
                    row = totals.setdefault(event['name'], [0, 0])
                    row[0] += 1
                    row[1] += event['dur'] * 1000
            with open(self.path, 'w', encoding='utf-8') as file:
                json.dump(totals, file)
            self.profiler = None


def main():
    options = parse()
    os.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8')
    if options.profd:
        import profd
        profd.init()
    if options.init_profiler:
        import torch
        torch.profiler._utils._init_for_cuda_graphs()
    step, synchronize = jax_step() if options.case == 'jax' else torch_step(options.case, options.device)
    profiles = [TorchProfile(text) for text in options.profile]
    losses, times = [], []
    for index in range(options.steps + 1):
        for profile in profiles:
            profile.before(index, synchronize)
        if index in options.pause:
            synchronize()
            print('paused', flush=True)
            sys.stdin.readline()
        if options.profd:
            profd.step()
        if index == options.steps:
            break
        began = time.perf_counter_ns()
        losses.append(step())
        if options.times:
            synchronize()
            times.append(time.perf_counter_ns() - began)
    synchronize()
    with open(options.losses, 'w', encoding='utf-8') as file:
        json.dump([float(loss).hex() for loss in losses], file)
    if options.times:
        with open(options.times, 'w', encoding='utf-8') as file:
            json.dump(times, file)
    print('done', flush=True)


if __name__ == '__main__':
    main()
