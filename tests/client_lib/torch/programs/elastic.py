"""Ranks that torchrun starts again: one of the first generation kills itself.

    torchrun --standalone --nproc_per_node 2 --max_restarts 1 elastic.py --die-when FILE

Rank 1 of the first generation ends by SIGKILL at the first step at which FILE is there. The second
trains on from the beginning.
"""

import os
import pathlib
import signal

import reproducible

torch = reproducible.torch
WIDTH = 32


def main():
    parser = reproducible.parser(__doc__, steps=20)
    parser.add_argument('--die-when', type=pathlib.Path, required=True, metavar='FILE')
    arguments = parser.parse_args()
    reproducible.start(arguments)
    torch.distributed.init_process_group('gloo')
    rank = torch.distributed.get_rank()
    dies = rank == 1 and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'
    network = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(WIDTH, WIDTH))
    torch.manual_seed(arguments.seed + 1 + rank)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for _ in reproducible.steps(arguments):
        if dies and arguments.die_when.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        x = torch.randn(16, WIDTH)
        optimizer.zero_grad()
        (network(x) - x).square().mean().backward()
        optimizer.step()
    torch.distributed.destroy_process_group()
    reproducible.report_model(network, who='rank %d: ' % rank)


if __name__ == '__main__':
    main()
