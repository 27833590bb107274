"""Data-parallel training on gloo; some ranks have an injected cause.

    ranks.py CAUSE --ranks N --truth FILE [--slow RANK]... [--ms MS]

Starts its ranks itself. Rank R writes what it measured to FILE.R.
"""

import argparse
import os
import pathlib
import random
import tempfile

import measuring

WIDTH = 64
CAUSES = 'none', 'compute', 'data', 'alternating', 'late-start', 'varying', 'third'


def train(arguments, rank):
    import torch  # Only ranks: the launcher is no target.

    measurement = measuring.Measurement('%s.%d' % (arguments.truth, rank))
    torch.manual_seed(1)
    torch.set_num_threads(1)
    if arguments.cause == 'late-start' and rank in arguments.slow:
        measuring.sleep(1000)
    torch.distributed.init_process_group('gloo', init_method=arguments.meeting_point, rank=rank,
                                         world_size=arguments.ranks)
    nn = torch.nn
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(256, WIDTH)

    class Items(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 30

        def __getitem__(self, index):
            if arguments.cause == 'data' and rank in arguments.slow:
                measuring.sleep(arguments.ms)
            return x

    def work(step):
        if arguments.cause == 'compute' and rank in arguments.slow:
            return True
        if arguments.cause == 'varying' and rank in arguments.slow:
            return True
        return arguments.cause == 'alternating' and step % arguments.ranks == rank

    def extra_ms():
        # Inputs of another length in each step: up to twice --ms.
        return 2 * arguments.ms * random.random() if arguments.cause == 'varying' else arguments.ms

    loader = iter(torch.utils.data.DataLoader(Items(), batch_size=None))
    step = 0
    while True:
        if arguments.cause == 'data' and rank in arguments.slow:
            with measurement.cause():
                batch = next(loader)
        else:
            batch = next(loader)
        optimizer.zero_grad()
        loss = (model(batch) - batch).square().mean()
        if work(step):
            with measurement.cause():
                # In operators, as a rank with more data has it; the sleep leaves the CPU to others.
                with torch.autograd.profiler.record_function('extra work'):
                    torch.mm(x, x.t())
                    measuring.sleep(extra_ms())
        loss.backward()
        optimizer.step()
        if arguments.cause == 'third' and rank in arguments.slow and step % 3 == 0:
            with measurement.cause():  # Such as a checkpoint: after the step's last collective.
                measuring.sleep(arguments.ms)
        step += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('cause', choices=CAUSES)
    parser.add_argument('--truth', required=True)
    parser.add_argument('--ranks', type=int, default=3)
    parser.add_argument('--slow', type=int, action='append', default=[])
    parser.add_argument('--ms', type=float, default=30)
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
