"""Pipeline-parallel training on gloo: stages exchange activations and gradients by send and receive.

    pipeline.py CAUSE --ranks N --truth FILE [--slow RANK]... [--ms MS]

Each rank is a stage. With the cause "compute", a slow one works for MS longer per step. Starts its
ranks itself. Rank R writes what it measured to FILE.R.
"""

import argparse
import os
import pathlib
import tempfile

import measuring

WIDTH = 64
MICROBATCHES = 4
CAUSES = 'none', 'compute'


def train(arguments, rank):
    import torch  # Only ranks: the launcher is no target.

    measurement = measuring.Measurement('%s.%d' % (arguments.truth, rank))
    torch.manual_seed(1)
    torch.set_num_threads(1)
    distributed = torch.distributed
    distributed.init_process_group('gloo', init_method=arguments.meeting_point, rank=rank,
                                   world_size=arguments.ranks)
    stage = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(8)])
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
    is_first, is_last = rank == 0, rank == arguments.ranks - 1

    def extra_work(x):
        if arguments.cause == 'compute' and rank in arguments.slow:
            with measurement.cause():
                with torch.autograd.profiler.record_function('extra work'):
                    torch.mm(x, x.t())
                    measuring.sleep(arguments.ms / MICROBATCHES)

    while True:
        optimizer.zero_grad()
        ins, outs = [], []
        for _ in range(MICROBATCHES):
            x = torch.randn(256, WIDTH)
            if not is_first:
                distributed.recv(x, rank - 1)
                x.requires_grad_()
            extra_work(x)
            y = stage(x)
            if not is_last:
                distributed.send(y.detach(), rank + 1)
            ins.append(x)
            outs.append(y)
        for x, y in zip(ins, outs):
            if is_last:
                y.square().mean().backward()
            else:
                gradient = torch.empty_like(y)
                distributed.recv(gradient, rank + 1)
                y.backward(gradient)
            if not is_first:
                distributed.send(x.grad, rank - 1)
        optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('cause', choices=CAUSES)
    parser.add_argument('--truth', required=True)
    parser.add_argument('--ranks', type=int, default=4)
    parser.add_argument('--slow', type=int, action='append', default=[])
    parser.add_argument('--ms', type=float, default=40)
    parser.add_argument('--meeting-point')
    arguments = parser.parse_args()
    if arguments.meeting_point:
        train(arguments, int(os.environ['RANK']))
        return
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = (pathlib.Path(folder) / 'ranks').as_uri()
        measuring.launch_ranks(arguments.ranks, meeting_point)


if __name__ == '__main__':
    main()
