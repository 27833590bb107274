"""Trains a model that torch.compile compiles with Inductor, for compiled_sources_test.py.

    compiled_training.py OUT

Its operators are calls of torch's own matrix product, so that no C++ compiler is needed.
Commands on standard input, each answered with "ok":
    train N    N steps
    sources    writes to OUT what torch says itself of each line of generated code: JSON,
               {file: {line: "compiled_training.py(12): forward"}}
"""

import argparse
import json
import sys

import torch

WIDTH = 32


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH)
        self.b = torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH)

    def first(self, x):
        return torch.mm(x, self.a)

    def forward(self, x):
        x = self.first(x)
        y = torch.mm(x, self.b)
        return torch.mm(y, x)


def place_of(frames):
    return frames and '%s(%d): %s' % (frames[0]['filename'], frames[0]['line'], frames[0]['name'])


def sources():
    from torch._inductor.codecache import PyCodeCache
    found = {}
    for file in PyCodeCache.linemaps:
        with open(file) as code:
            count = len(code.readlines())
        found[file] = {line: place_of(PyCodeCache.stack_frames_for_code(file, line))
                       for line in range(1, count + 1)}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('out')
    arguments = parser.parse_args()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    net = Net()
    compiled = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    x, gradient = torch.randn(WIDTH, WIDTH), torch.ones(WIDTH, WIDTH)
    for line in sys.stdin:
        words = line.split()
        if words[0] == 'train':
            for _ in range(int(words[1])):
                optimizer.zero_grad()
                compiled(x).backward(gradient)
                optimizer.step()
        elif words[0] == 'sources':
            with open(arguments.out, 'w') as out:
                json.dump(sources(), out)
        else:
            raise SystemExit(f'unknown command {line!r}')
        print('ok', flush=True)


if __name__ == '__main__':
    main()
