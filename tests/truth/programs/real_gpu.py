"""Trains on a real GPU with PyTorch, with one injected cause.

    real_gpu.py CAUSE --truth FILE [--ms MS] [--wait] [--device cpu]

--wait: after its first steps it prints "ready" and goes on with the next line of stdin, so that
programs that take long to start do so together, and run alone. --device cpu is for trying this file.
Where no optimizer says so, the program marks its steps with the Python package.
"""

import argparse
import sys
import time

import torch
from torch import nn
from torch.nn import functional

import measuring

WARM_UP_STEPS = 20
VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH, BATCH = 8192, 768, 6, 12, 512, 16
SMALL = 512, 64, 2, 4, 64, 4  # The same on a CPU.


class Block(nn.Module):
    def __init__(self, width, heads, is_fused):
        super().__init__()
        self.heads, self.is_fused = heads, is_fused
        self.norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, q, k, v):
        if self.is_fused:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return ((q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5).softmax(-1) @ v

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        a = self.attention(*qkv.permute(2, 0, 3, 1, 4))
        x = x + self.out(a.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.second_norm(x))))


class Transformer(nn.Module):
    def __init__(self, vocabulary, width, layers, heads, length, is_fused):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads, is_fused) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))


class Training:
    """A transformer in bfloat16, a batch from pinned memory in each step, a fused optimizer."""

    is_fused = True
    is_pinned = True
    batch_size = BATCH

    def __init__(self, arguments, measurement):
        self.arguments, self.measurement = arguments, measurement
        self.is_gpu = arguments.device == 'cuda'
        self.index = 0
        vocabulary, width, layers, heads, self.length, batch = (
            (VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH, self.batch_size) if self.is_gpu else SMALL)
        self.model = self.made_model(vocabulary, width, layers, heads).to(arguments.device)
        self.data = torch.randint(0, vocabulary, (64, batch, self.length + 1))
        if self.is_gpu and self.is_pinned:
            self.data = self.data.pin_memory()
        self.optimizer = self.made_optimizer()

    def made_model(self, vocabulary, width, layers, heads):
        return Transformer(vocabulary, width, layers, heads, self.length, self.is_fused)

    def made_optimizer(self):
        return torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=self.is_gpu or None)

    def sync(self):
        if self.is_gpu:
            torch.cuda.synchronize()

    def batch(self):
        return self.data[self.index % len(self.data)].to(self.arguments.device, non_blocking=True)

    def look_at(self, output):
        """What a training does with its output before the backward pass."""

    def loss(self):
        tokens = self.batch()
        with torch.autocast(self.arguments.device, dtype=torch.bfloat16, enabled=self.is_gpu):
            output = self.model(tokens[:, :-1])
            loss = functional.cross_entropy(output.flatten(0, 1).float(), tokens[:, 1:].flatten())
        self.look_at(output)
        return loss

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        self.optimizer.step()
        self.index += 1

    def run(self):
        for _ in range(WARM_UP_STEPS):
            self.step()
        self.sync()
        if self.arguments.wait:
            print('ready', flush=True)
            sys.stdin.readline()
        while True:
            self.step()


class Large(Training):
    """Enough work for the GPU: the host is ahead."""

    batch_size = 4 * BATCH


class Unpinned(Large):
    """Copies its batches from pageable memory, which waits for the GPU."""

    is_pinned = False


class Python(Training):
    """Computes in Python between two steps."""

    def step(self):
        super().step()
        with self.measurement.cause():
            measuring.spin(self.arguments.ms)


class SlowData(Training):
    """Each batch comes late, and nothing computes meanwhile."""

    def batch(self):
        with self.measurement.cause():
            measuring.sleep(self.arguments.ms)
        return super().batch()


class Dataset(torch.utils.data.Dataset):
    def __init__(self, length, vocabulary, ms):
        self.length, self.vocabulary, self.ms = length, vocabulary, ms

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        measuring.spin(self.ms)
        return torch.randint(0, self.vocabulary, (self.length + 1,))


class Loader(Training):
    """A DataLoader without workers decodes each batch: --ms for all of it."""

    def __init__(self, arguments, measurement):
        super().__init__(arguments, measurement)
        batch = self.data.shape[1]
        self.batches = iter(torch.utils.data.DataLoader(
            Dataset(self.length, 512, arguments.ms / batch), batch_size=batch))

    def batch(self):
        with self.measurement.cause():
            tokens = next(self.batches)
        return tokens.to(self.arguments.device)


class Items(Large):
    """Looks for a NaN in each gradient: so many waits for the GPU in each step."""

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        with self.measurement.cause():
            for parameter in self.model.parameters():
                parameter.grad.isnan().any().item()
        self.optimizer.step()
        self.index += 1


class Readback(Training):
    """Copies its output to pageable memory of the host, and waits for the copy."""

    def look_at(self, output):
        self.sync()  # The cause is the copy, not the work before it.
        with self.measurement.cause():
            output.detach().cpu()


class Pageable(Training):
    """Copies 256 MiB from pageable memory in each step."""

    def __init__(self, arguments, measurement):
        super().__init__(arguments, measurement)
        self.large = torch.randn(64, 1024, 1024 if self.is_gpu else 8)

    def batch(self):
        self.sync()
        with self.measurement.cause():
            self.copy = self.large.to(self.arguments.device)
        return super().batch()


class WrittenOut(Training):
    """Attention as bmm, div, softmax, bmm."""

    is_fused = False


class LargeWrittenOut(WrittenOut):
    batch_size = 2 * BATCH


class Unfused(Training):
    """One kernel for each parameter and operation of the optimizer."""

    def made_optimizer(self):
        return torch.optim.AdamW(self.model.parameters(), lr=1e-4, foreach=False, fused=False)


class ManySmall(Training):
    """60 small layers: launching takes longer than computing."""

    def made_model(self, *_):
        return nn.Sequential(*[layer for _ in range(60) for layer in (nn.Linear(64, 64), nn.ReLU())])

    def loss(self):
        if self.index == 0:
            self.input = torch.randn(64, 64, device=self.arguments.device)
        return self.model(self.input).square().mean()


class Graphs(Training):
    """torch.compile with CUDA graphs."""

    def made_model(self, *sizes):
        model = super().made_model(*sizes).to(self.arguments.device)
        return torch.compile(model, mode='reduce-overhead')


class Compiled(Training):
    def made_model(self, *sizes):
        return torch.compile(super().made_model(*sizes).to(self.arguments.device))


class Leak(Training):
    """Keeps a copy of its output for each step. The size is in bytes."""

    MOST = 60

    def __init__(self, arguments, measurement):
        super().__init__(arguments, measurement)
        self.kept = []

    def look_at(self, output):
        start_ns = time.time_ns()
        self.kept.append(output.detach().float())
        self.measurement.add(start_ns, self.kept[-1].numel() * 4)
        if len(self.kept) > self.MOST:  # A GPU that others use too has to last.
            self.kept.clear()


class Matmul(Training):
    """20 products and sums of one size, and a sync in each step."""

    size = 64

    def __init__(self, arguments, measurement):
        self.arguments, self.measurement = arguments, measurement
        self.is_gpu = arguments.device == 'cuda'
        size = self.size if self.is_gpu else 64
        self.matrices = [torch.randn(size, size, device=arguments.device, dtype=torch.bfloat16)
                         for _ in range(3)]
        import profd
        profd.init()
        self.mark = profd.step

    def step(self):
        x, w, b = self.matrices
        self.mark()
        for _ in range(20):
            torch.add(torch.matmul(x, w), b)
        self.sync()


class LargeMatmul(Matmul):
    size = 4096


CAUSES = {
    'none': Training, 'large': Large, 'unpinned': Unpinned, 'python': Python,
    'slow-data': SlowData, 'loader': Loader, 'items': Items, 'readback': Readback,
    'pageable': Pageable, 'written-out': WrittenOut, 'large-written-out': LargeWrittenOut,
    'unfused': Unfused, 'many-small': ManySmall, 'graphs': Graphs, 'compiled': Compiled,
    'leak': Leak, 'matmul': Matmul, 'large-matmul': LargeMatmul}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('cause', choices=CAUSES)
    parser.add_argument('--truth', required=True)
    parser.add_argument('--ms', type=float, default=20)
    parser.add_argument('--wait', action='store_true')
    parser.add_argument('--device', default='cuda')
    arguments = parser.parse_args()
    torch.manual_seed(0)
    CAUSES[arguments.cause](arguments, measuring.Measurement(arguments.truth)).run()


if __name__ == '__main__':
    main()
