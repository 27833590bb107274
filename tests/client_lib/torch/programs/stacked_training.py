"""Trains a model on command and, when told to, under torch.profiler with with_stack and with_modules.

    stacked_training.py OUT [--model blocks|convnet|generated|repeated|compiled] [--worker]

Its batches come from a generator, its loss is a function of autograd of the program's own, and with
--worker a thread of its own computes at each step. A program that knows nothing of profd.

Commands on standard input, each answered with a line "ok" when done:
    train N     N steps
    profile N   N steps under torch.profiler, whose Chrome trace is then in OUT
"""

import argparse
import queue
import sys
import threading

import reproducible

torch = reproducible.torch
BATCH = 4


class Block(torch.nn.Module):

    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.GELU(),
                                       torch.nn.Linear(2 * width, width))

    def forward(self, x):
        shifted = [part + 1 for part in x.split(8, dim=1)]
        return x + self.mlp(self.norm(torch.cat(shifted, dim=1)))


class Blocks(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(16) for _ in range(3))
        self.head = torch.nn.Linear(16, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Convnet(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
        self.classifier = torch.nn.Linear(4 * 3 * 3, 1)

    def forward(self, x):
        return self.classifier(self.features(x.view(-1, 1, 8, 8)).flatten(1))


class Generated(torch.nn.Module):
    """Its layers come from a generator, and one module runs twice."""

    def __init__(self):
        super().__init__()
        self.first, self.shared = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
        self.last = torch.nn.Linear(16, 1)

    def layers(self):
        yield self.first
        yield from (self.shared for _ in range(2))
        yield lambda x: torch.tanh(x)

    def forward(self, x):
        for layer in self.layers():
            x = layer(x)
        return self.last(sum(part for part in sorted(x.split(1), key=lambda row: row.sum().item())))


class Repeated(torch.nn.Module):
    """Calls the same modules several times in a row: from one line, in a loop, and by a module."""

    def __init__(self):
        super().__init__()
        self.shared, self.last = torch.nn.Linear(16, 16), torch.nn.Linear(16, 1)
        self.inner = torch.nn.Sequential(torch.nn.Linear(16, 16))
        self.block = Block(16)

    def forward(self, x):
        x = self.shared(self.shared(x))
        for _ in range(3):
            x = self.inner(x)
        for _ in range(2):
            x = self.block(x)
        x = torch.tanh(self.shared(x))
        return self.last(self.shared(input=x))


class Squares(torch.autograd.Function):
    """The loss, whose backward is Python that the engine of autograd calls."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x.pow(2).mean()

    @staticmethod
    def backward(context, gradient):
        x, = context.saved_tensors
        return gradient * scaled(x)


def scaled(x):
    return 2 * x / x.numel()


def make_model(name):
    if name == 'compiled':
        return torch.compile(Blocks(), backend='aot_eager'), 16
    model, width = {'blocks': (Blocks, 16), 'convnet': (Convnet, 64), 'generated': (Generated, 16),
                    'repeated': (Repeated, 16)}[name]
    return model(), width


def batches(width):
    while True:
        yield torch.randn(BATCH, width)


class Worker(threading.Thread):
    """Computes once for each number that it is given."""

    def __init__(self):
        super().__init__(daemon=True)
        self.numbers, self.done = queue.Queue(), queue.Queue()
        self.start()

    def run(self):
        while True:
            self.done.put(self.compute(self.numbers.get()))

    def compute(self, number):
        with torch.profiler.record_function('worker %d' % number):
            return torch.stack([torch.ones(4) * factor for factor in range(3)]).sum()

    def run_once(self, number):
        self.numbers.put(number)
        self.done.get()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('out')
    parser.add_argument('--model', choices=('blocks', 'convnet', 'generated', 'repeated', 'compiled'),
                        default='blocks')
    parser.add_argument('--worker', action='store_true')
    arguments = parser.parse_args()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    model, width = make_model(arguments.model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data, worker, done = batches(width), Worker() if arguments.worker else None, 0

    def step():
        nonlocal done
        done += 1
        with torch.profiler.record_function('step %d' % done):
            optimizer.zero_grad()
            loss = Squares.apply(model(next(data)))
            loss.backward()
            optimizer.step()
        if worker is not None:
            worker.run_once(done)

    for line in sys.stdin:
        command, count = line.split()
        if command == 'train':
            for _ in range(int(count)):
                step()
        elif command == 'profile':
            # Also the worker, which exists already.
            config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                        with_stack=True, with_modules=True,
                                        experimental_config=config) as profiler:
                for _ in range(int(count)):
                    step()
            profiler.export_chrome_trace(arguments.out)
        else:
            raise SystemExit(f'unknown command {command!r}')
        print('ok', flush=True)


if __name__ == '__main__':
    main()
