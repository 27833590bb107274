"""Data-parallel training on gloo, two ranks on this machine.

    torchrun --nproc_per_node 2 ddp.py       ranks as torchrun starts them
    python ddp.py                            ranks of its own, by multiprocessing's spawn

Gradients are summed in buckets while the backward pass runs; each step also gathers the loss.
Every rank prints its digest, which is the same for all.
"""

import os
import pathlib
import tempfile

import reproducible

torch = reproducible.torch

WIDTH = 64


def train(rank, arguments, ranks, meeting_point):
    reproducible.start(arguments)
    if arguments.torch_profiler:
        arguments.torch_profiler = '%s.rank%d' % (arguments.torch_profiler, rank)
    torch.distributed.init_process_group('gloo', init_method=meeting_point, rank=rank,
                                         world_size=ranks)
    nn = torch.nn
    # The same for all ranks, from the same seed; then each has data of its own.
    network = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
    torch.manual_seed(arguments.seed + 1 + rank)
    parallel = nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05, momentum=0.9)
    for _ in reproducible.steps(arguments):
        x = torch.randn(16, WIDTH)
        optimizer.zero_grad()
        loss = (parallel(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        losses = [torch.zeros(()) for _ in range(ranks)]
        torch.distributed.all_gather(losses, loss.detach())
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    reproducible.report_model(network, who='rank %d: ' % rank)


def main():
    parser = reproducible.parser(__doc__, steps=20)
    parser.add_argument('--ranks', type=int, default=2, help='without torchrun')
    arguments = parser.parse_args()
    if torch is None:
        reproducible.skip('this Python has no torch')
    if not torch.distributed.is_available():
        reproducible.skip('torch %s was built without torch.distributed' % torch.__version__)

    if 'WORLD_SIZE' in os.environ:
        train(int(os.environ['RANK']), arguments, int(os.environ['WORLD_SIZE']), 'env://')
        return
    with tempfile.TemporaryDirectory() as folder:
        # A file of its own: no port that somebody else could have taken.
        meeting_point = (pathlib.Path(folder) / 'ranks').as_uri()
        torch.multiprocessing.spawn(train, (arguments, arguments.ranks, meeting_point),
                                    nprocs=arguments.ranks)


if __name__ == '__main__':
    main()
