"""Trains on command and sleeps at five known places of each step, between operators.

Commands on standard input, each answered with one line:
    train N            N steps
    slept N            N steps; "ok MEDIAN...", how long the sleep at each place took, ns
"""

import statistics
import sys
import time

import torch
from torch import nn

SLEEPS_MS = {'forward': 20, 'loss': 27, 'backward': 36, 'optimizer': 48, 'log': 64}


class Model(nn.Module):

    def __init__(self, sleep):
        super().__init__()
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 8)
        self.sleep = sleep

    def forward(self, x):
        hidden = self.first(x)
        self.sleep('forward')
        return self.last(torch.tanh(hidden))


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    took = {place: [] for place in SLEEPS_MS}

    def sleep(place):
        begin = time.perf_counter_ns()
        time.sleep(SLEEPS_MS[place] / 1000)
        took[place].append(time.perf_counter_ns() - begin)

    model = Model(sleep)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(16, 64), torch.randn(16, 8)

    def step():
        output = model(x)
        sleep('loss')
        loss = nn.functional.mse_loss(output, y)
        sleep('backward')
        loss.backward()
        sleep('optimizer')
        optimizer.step()
        sleep('log')
        optimizer.zero_grad(set_to_none=False)

    print('ok', flush=True)
    for line in sys.stdin:
        command, count = line.split()
        for times in took.values():
            times.clear()
        for _ in range(int(count)):
            step()
        medians = [] if command == 'train' else [int(statistics.median(took[p])) for p in took]
        print('ok', *medians, flush=True)


if __name__ == '__main__':
    main()
