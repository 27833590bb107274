"""Trains on command; in each step something goes wrong that the training survives.

    faulty_training.py FAULT

Commands on standard input, each answered with a line "ok":
    train N     N steps
    digest      "ok DIGEST": of all parameters
    exit        ends the interpreter while another thread computes; not answered

Faults:
    none
    operator    an operator throws: sizes that do not fit, also below record_function()
    backward    a node of the backward pass throws, on a second graph
    names       a record_function() with a name of 4 KiB, and one that is no ASCII
    threads     threads compute and end; one leaves by an exception out of an operator
    fork        a child is forked, which trains a step and ends
    allocation  a tensor that no memory has room for
"""

import contextlib
import os
import sys
import threading

import reproducible

torch = reproducible.torch


class FailsBackward(torch.autograd.Function if torch else object):

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise ValueError('no gradient')


class Training:

    def __init__(self, fault):
        self._fault = getattr(self, f'_{fault}')
        self.model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(),
                                         torch.nn.Linear(32, 1))
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self._x, self._y = torch.randn(16, 32), torch.randn(16, 1)

    def step(self):
        self._optimizer.zero_grad()
        ((self.model(self._x) - self._y) ** 2).mean().backward()
        self._fault()
        self._optimizer.step()

    def _none(self):
        pass

    def _operator(self):
        for around in (contextlib.nullcontext(), torch.autograd.profiler.record_function('fails')):
            with contextlib.suppress(RuntimeError), around:
                torch.mm(self._x, self._x)

    def _backward(self):
        with contextlib.suppress(ValueError):
            FailsBackward.apply(self.model(self._x)).sum().backward()

    def _names(self):
        for name in ('n' * 4096, 'größer \u2603\0 as \U0001f600'):
            with torch.autograd.profiler.record_function(name):
                torch.relu(self._x)

    def _threads(self):
        def fail():
            with contextlib.suppress(RuntimeError):
                torch.mm(self._x, self._x)
            raise SystemExit  # Ends the thread quietly.

        threads = [threading.Thread(target=work) for work in (self._x.prod, fail)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _fork(self):
        child = os.fork()
        if child == 0:
            with torch.no_grad():
                self.model(self._x)
            os._exit(7)
        assert os.waitpid(child, 0)[1] == 7 << 8

    def _allocation(self):
        try:
            torch.empty(1 << 50)
        except RuntimeError:
            return
        raise AssertionError('there was room for 4 PiB')

    def compute_for_ever(self):
        while True:
            torch.mm(self._x, self._x.t())


FAULTS = 'none', 'operator', 'backward', 'names', 'threads', 'fork', 'allocation'


def main():
    parser = reproducible.parser(__doc__.split('\n')[0], steps=0)
    parser.add_argument('fault', choices=FAULTS)
    arguments = parser.parse_args()
    reproducible.start(arguments)
    training = Training(arguments.fault)
    for line in sys.stdin:
        command, *words = line.split()
        answer = ''
        if command == 'train':
            for _ in range(int(words[0])):
                training.step()
        elif command == 'digest':
            answer = reproducible.digest(*training.model.parameters())
        elif command == 'exit':
            threading.Thread(target=training.compute_for_ever, daemon=True).start()
            return
        print('ok', answer, flush=True)


if __name__ == '__main__':
    main()
