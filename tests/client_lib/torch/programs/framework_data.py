"""What the programs on top of Lightning, transformers' Trainer and Accelerate train with: the same
network, the same data, and a loop that stops where it is told to until somebody has had a look.
"""

import sys
import time

import reproducible

torch = reproducible.torch

WIDTH = 32
ROWS = 96  # Of an epoch.


def parser(description):
    result = reproducible.parser(description, steps=40)
    result.add_argument('--batch', type=int, default=8)
    result.add_argument('--accumulate', type=int, default=1, help='batches for each step')
    result.add_argument('--pause-at', type=int, nargs='*', default=[], metavar='BATCH',
                        help='when this batch is made, say "ok STEPS", the steps of optimizers so '
                        'far, and wait for a line on standard input')
    return result


def network():
    nn = torch.nn
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))


class Rows:
    """A map-style data set; the row is made from its index."""

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        x = torch.sin(torch.arange(WIDTH) * (index + 1) / 7)
        return {'x': x, 'labels': x[:1] * x[-1:]}


class Collator:
    """Makes batches, at the pace of --step-ms; pauses at --pause-at."""

    def __init__(self, arguments):
        self._optimizer_steps = 0
        from torch.optim.optimizer import register_optimizer_step_post_hook
        register_optimizer_step_post_hook(self._count)
        self._wait_s = arguments.step_ms / 1000 / arguments.accumulate
        self._pause_at = arguments.pause_at
        self._made = 0

    def _count(self, *_):
        self._optimizer_steps += 1

    def __call__(self, rows):
        if self._made in self._pause_at:
            print('ok', self._optimizer_steps, flush=True)
            sys.stdin.readline()
        self._made += 1
        time.sleep(self._wait_s)
        return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def loader(arguments):
    return torch.utils.data.DataLoader(Rows(), batch_size=arguments.batch,
                                       collate_fn=Collator(arguments))
