"""Modules that call each other as those of torch.nn do."""

import sys
import types


class Module:
    """As torch.nn.Module, as far as calls go."""

    hook = None

    def _wrapped_call_impl(self, *args, **kwargs):
        if self.hook is not None:
            self.hook(kwargs)
            self.hook(kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        def inner():
            return self.forward(*args, **kwargs)
        return inner()

    __call__ = _wrapped_call_impl


class Leaf(Module):
    def forward(self, capture):
        capture.op()


class Single(Module):
    def __init__(self):
        self.child = Leaf()

    def forward(self, capture, twice=False):
        for _ in range(1 + twice):
            self.child(capture)


class Pair(Module):
    def __init__(self):
        self.children = [Leaf(), Leaf(), Leaf()]

    def forward(self, capture):
        for child in self.children:
            child(capture)
        capture.op()


class Chain(Module):
    """As many modules inside each other as wanted, with operators in all, on many lines."""

    def __init__(self, dice):
        self.dice = dice

    def work(self, capture):
        turn = self.dice.randrange(5)
        if turn == 0:
            capture.op()
        elif turn == 1:
            capture.op()
            capture.op()
        elif turn == 2:
            for _ in self.yielding(capture):
                capture.op()
        elif turn == 3:
            Leaf()(capture)

    def yielding(self, capture):
        yield capture.op()
        capture.op()
        yield

    def hook(self, kwargs):
        self.work(kwargs["capture"])
        if self.dice.random() < 0.3:
            kwargs["more"] = True

    def forward(self, capture, left, more=False):
        self.work(capture)
        if left > 0:
            self(capture=capture, left=left - 1)
            self.work(capture)
        if left > 0 and self.dice.random() < 0.1:
            Chain(self.dice)(capture=capture, left=min(left - 1, 3))
        self.work(capture)
        if more:
            self.work(capture)


def install_modules():
    module = types.ModuleType("torch.nn.modules.module")
    module.Module = Module
    sys.modules["torch.nn.modules.module"] = module
