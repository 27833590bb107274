"""Trains on command, and at each step has the profiler's library look for its daemon at once, if the
library is there: so a daemon that hangs up is found again without the wait in between.

    restless_training.py

Commands on standard input, each answered with one line:
    train N     "ok LOSS...": the losses of N steps, as hexadecimal floats, to the bit
    digest      "ok DIGEST": of all that training changed, the optimizer's state included
"""

import ctypes
import os
import sys

import reproducible
import torch
from torch import nn


def find_looker():
    """profd_init() of the library, or a function that does nothing."""
    path = os.environ.get('PROFD_CLIENT_LIB')
    if not path or os.environ.get('PROFD_DISABLE'):
        return lambda: None
    return ctypes.CDLL(path).profd_init


def main():
    arguments = reproducible.parser(__doc__.split('\n')[0], 0).parse_args()
    reproducible.start(arguments)
    look = find_looker()
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.2),
                          nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        look()
        images, labels = torch.randn(4, 3, 16, 16), torch.randint(10, (4,))
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item().hex()

    for line in sys.stdin:
        command, *words = line.split()
        if command == 'train':
            print('ok', *(step() for _ in range(int(words[0]))), flush=True)
        elif command == 'digest':
            state = [tensor for of_one in optimizer.state_dict()['state'].values()
                     for tensor in of_one.values() if torch.is_tensor(tensor)]
            print('ok', reproducible.digest(*model.state_dict().values(), *state), flush=True)
        else:
            raise SystemExit(f'unknown command {command!r}')


if __name__ == '__main__':
    main()
