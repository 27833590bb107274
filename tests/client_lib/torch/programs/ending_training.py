"""Trains, and forks children that end as any program does while the package's own thread answers the
library again and again.

    ending_training.py CHILDREN

Prints "ok STATUS...": how each child ended.
"""

import os
import random
import sys
import time
from _thread import start_new_thread

import torch
from profd import _torch
from torch import nn

MOST_TRAINING_S = 0.05
ANY_FEATURE = 0xffffffff


def answer_at_once(wanted):
    """In place of the library's profd_torch_wait(): there is always a capture to collect for."""
    time.sleep(0.001)
    wanted._obj.value = ANY_FEATURE
    return _torch._COLLECT


def main():
    children = int(sys.argv[1])
    random.seed(children)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(100)])
    optimizer = torch.optim.Adam(model.parameters())

    def step():
        optimizer.zero_grad()
        model(torch.randn(2, 8)).sum().backward()
        optimizer.step()

    step()
    assert _torch.attach(torch) != 0, 'not under profctl run'
    statuses = []
    for _ in range(children):
        end = random.uniform(0, MOST_TRAINING_S)
        child = os.fork()
        if child == 0:
            _torch._wait = answer_at_once
            start_new_thread(_torch._serve, (False,))
            end += time.monotonic()
            while time.monotonic() < end:
                step()
            return
        statuses.append(os.waitpid(child, 0)[1])
    print('ok', *statuses, flush=True)


if __name__ == '__main__':
    main()
