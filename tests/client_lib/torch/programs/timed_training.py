"""Trains on command and says how long each step took, for tests/bench/torch_bench.py.

    timed_training.py [--model mlp|transformer] [--layers N] [--width N] [--batch N] [--threads N]

Commands on standard input, each answered with one line:
    run N              N steps; "ok MEDIAN P90 EVENTS", step times in µs
    profile KIND N     the same with torch.profiler on; KIND: cpu, stack, shapes
                       or memory
    path N             N steps under torch.profiler with shapes, then what a person waits for:
                       "ok STOP_S TABLE_S EVENTS", stopping it and printing key_averages()
"""

import argparse
import statistics
import sys
import time

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--model', choices=('mlp', 'transformer'), default='mlp')
    parser.add_argument('--layers', type=int, default=3)
    parser.add_argument('--width', type=int, default=64)
    parser.add_argument('--batch', type=int, default=16)
    parser.add_argument('--threads', type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(7)
    torch.set_num_threads(arguments.threads)
    width = arguments.width
    if arguments.model == 'transformer':
        model = nn.Sequential(*(
            nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
            for _ in range(arguments.layers)))
        shape = arguments.batch, 32, width
    else:
        hidden = [nn.Linear(width, width) if i % 2 == 0 else nn.ReLU()
                  for i in range(2 * arguments.layers - 2)]
        model = nn.Sequential(*hidden, nn.Linear(width, width))
        shape = arguments.batch, width
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(shape), torch.randn(shape)

    def step():
        optimizer.zero_grad(set_to_none=True)
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()

    def run(steps):
        times = []
        for _ in range(steps):
            begin = time.perf_counter_ns()
            step()
            times.append((time.perf_counter_ns() - begin) / 1000)
        times.sort()
        return f'{statistics.median(times):.3f} {times[int(len(times) * 0.9)]:.3f}'

    def profiler(kind):
        return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                      record_shapes=kind in ('shapes', 'memory'),
                                      profile_memory=kind == 'memory', with_stack=kind == 'stack')

    run(20)
    print('ok', flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        if command == 'run':
            answer = run(int(words[0]))
        elif command == 'profile':
            with profiler(words[0]):
                answer = run(int(words[1]))
        elif command == 'path':
            watcher = profiler('shapes')
            watcher.start()
            run(int(words[0]))
            begin = time.perf_counter()
            watcher.stop()
            stopped = time.perf_counter()
            table = watcher.key_averages().table(sort_by='self_cpu_time_total', row_limit=100)
            done = time.perf_counter()
            assert 'aten::addmm' in table
            answer = f'{stopped - begin:.3f} {done - stopped:.3f} {len(watcher.events())}'
        else:
            raise SystemExit(f'unknown command {command!r}')
        print('ok', answer, flush=True)


if __name__ == '__main__':
    main()
