"""A compiled model that torch.compile cannot take whole: for torch from 2.0 on.

Its forward branches on a tensor's value (a graph break, on the line marked below), and the batch
grows at some steps: a guard on the size fails and the code is compiled again. Where the
program cannot run as said, it says why and exits with 77.
"""

import sys

import reproducible

torch = reproducible.torch

WIDTH = 32


def model():
    nn = torch.nn

    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(WIDTH, WIDTH)
            self.second = nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            hidden = torch.relu(self.first(x))
            if hidden.sum() < 0:  # The break: never true, and Dynamo cannot know.
                hidden = -hidden
            return self.second(torch.tanh(hidden))

    return Broken()


def check_that_it_compiles():
    if not hasattr(torch, 'compile'):
        reproducible.skip('torch %s has no torch.compile' % torch.__version__)
    try:
        torch.compile(torch.neg, backend='eager')(torch.zeros(1))
    except RuntimeError as error:
        # Dynamo knows a Python some releases after the other way round.
        reproducible.skip('torch %s cannot compile on Python %s: %s'
                          % (torch.__version__, sys.version.split()[0], error))


def main():
    parser = reproducible.parser(__doc__, steps=20)
    parser.add_argument('--backend', default='aot_eager',
                        help='inductor needs a C++ compiler (default %(default)s)')
    parser.add_argument('--recompile-at', type=int, nargs='*', default=[8, 12], metavar='STEP',
                        help='the steps from which on the batch is larger (default 8 12)')
    arguments = parser.parse_args()
    reproducible.start(arguments)
    check_that_it_compiles()

    network = model()
    # Not dynamic: each size is code of its own.
    compiled = torch.compile(network, backend=arguments.backend, dynamic=False)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    batch = 16
    for step in reproducible.steps(arguments):
        batch += 8 * arguments.recompile_at.count(step)
        x = torch.randn(batch, WIDTH)
        optimizer.zero_grad()
        loss = (compiled(x) - x).square().mean()
        loss.backward()
        optimizer.step()
    reproducible.report_model(network)


if __name__ == '__main__':
    main()
