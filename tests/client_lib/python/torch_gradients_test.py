"""Whose gradients are which memory: read where the program's optimizers end their steps.

Runs with the torch of this Python; without one it skips. The library is off, but for the look at
the program's objects.
"""

import ctypes
import functools
import importlib.util
import os
import pathlib
import subprocess
import sys
import threading
import types
import unittest
import unittest.mock

if importlib.util.find_spec("torch") is None:
    print("SKIP: this Python has no torch")
    sys.exit(77)
if "t" in sys.abiflags:
    print("SKIP: objects are not looked for in a free-threaded Python")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client_lib" / "python"))
os.environ["PROFD_DISABLE"] = "1"

import torch  # noqa: E402

from profd import _objects, _torch_blocks, _torch_optimizers  # noqa: E402
from profd._torch_blocks import GRADIENT  # noqa: E402

BUILD_DIR = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
LIBRARY = BUILD_DIR / "lib" / "libprofd_client.so"
_objects._library = types.SimpleNamespace(lib=ctypes.PyDLL(str(LIBRARY)))


def address_of(tensor):
    return _torch_blocks._storage(torch, tensor).data_ptr()


def step_ends_of(*hooked):
    return _torch_optimizers.StepEnds(lambda optimizer: optimizer in hooked)


class GradientsTest(unittest.TestCase):
    """Of a program that goes on meanwhile: in another thread, or in a process of its own."""

    def gradients(self, step_ends, body):
        """The gradients that are reported while another thread calls body() repeatedly."""
        has_ended = threading.Event()

        def go_on():
            while not has_ended.is_set():
                body()
        thread = threading.Thread(target=go_on)
        thread.start()
        owners = _torch_blocks.Owners(torch, step_ends)
        try:
            blocks = list(owners.blocks())
        finally:
            has_ended.set()
            thread.join()
        return [block for block in blocks if block.category == GRADIENT], owners.lack_of_gradients

    def test_they_are_named_after_their_parameter(self):
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(2, 4)).sum().backward()
        step_ends = step_ends_of(optimizer)
        blocks, lack = self.gradients(step_ends, lambda: step_ends.at(optimizer))
        self.assertEqual({block.name: (block.address, block.bytes) for block in blocks}, {
            name + ".grad": (address_of(parameter.grad), 4 * parameter.grad.numel())
            for name, parameter in model.named_parameters()})
        self.assertIsNone(lack)

    def test_a_sparse_one_is_two_blocks(self):
        model = torch.nn.Embedding(10, 3, sparse=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.tensor([1, 2])).sum().backward()
        step_ends = step_ends_of(optimizer)
        blocks, _ = self.gradients(step_ends, lambda: step_ends.at(optimizer))
        self.assertEqual({block.address for block in blocks},
                         {address_of(model.weight.grad._indices()),
                          address_of(model.weight.grad._values())})

    def test_they_are_read_on_the_thread_of_the_step_alone(self):
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        threads = []

        class Noting(_torch_optimizers.StepEnds):
            def await_each(self, optimizers, do, patience_s=60):
                def noting(optimizer):
                    threads.append(threading.get_ident())
                    do(optimizer)
                return super().await_each(optimizers, noting, patience_s)
        step_ends = Noting(lambda _: True)
        ran = []

        def body():
            ran.append(threading.get_ident())
            step_ends.at(optimizer)
        self.gradients(step_ends, body)
        self.assertEqual(threads, ran[:1])
        self.assertNotIn(threading.get_ident(), threads)

    def test_those_of_an_optimizer_that_does_no_step_are_missing(self):
        models = [torch.nn.Linear(4, 3) for _ in range(3)]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
        for model in models:
            model(torch.ones(2, 4)).sum().backward()
        # The second one's steps are not reported, the third does none.
        step_ends = step_ends_of(optimizers[0], optimizers[2])
        step_ends.await_each = functools.partial(step_ends.await_each, patience_s=0.1)
        blocks, lack = self.gradients(step_ends, lambda: step_ends.at(optimizers[0]))
        self.assertEqual({block.name for block in blocks}, {"Linear.weight.grad", "Linear.bias.grad"})
        self.assertEqual(lack, "2 of 3 optimizers did no step after the window")
        self.assertEqual(step_ends.wanted, {})

    def test_without_optimizers_nothing_is_waited_for(self):
        step_ends = step_ends_of()
        self.assertEqual(step_ends.await_each([], None, patience_s=1e9), 0)

    def test_a_step_does_not_fail_with_what_is_read(self):
        optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
        step_ends = step_ends_of(optimizer)
        called, late = [], []

        def fail_at_first(which):
            called.append(which)
            if len(called) == 1:
                raise RuntimeError("reading failed")
        thread = threading.Thread(
            target=lambda: late.append(step_ends.await_each([optimizer], fail_at_first, 60)))
        thread.start()
        while thread.is_alive():
            step_ends.at(optimizer)
        self.assertEqual(called, [optimizer, optimizer])
        self.assertEqual(late, [0])

    def test_what_is_still_being_read_is_waited_for(self):
        optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
        step_ends = step_ends_of(optimizer)
        seen = []

        def look(_):
            seen.append(dict(step_ends.wanted))
        thread = threading.Thread(target=lambda: step_ends.await_each([optimizer], look, 60))
        thread.start()
        while thread.is_alive():
            step_ends.at(optimizer)
        self.assertEqual([list(wanted) for wanted in seen], [[id(optimizer)]])

    def test_a_step_is_held_up_for_a_moment_at_most(self):
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(2, 4)).sum().backward()
        step_ends = step_ends_of(optimizer)
        with unittest.mock.patch.object(_torch_blocks, "_MOST_READ_S", -1):
            blocks, lack = self.gradients(step_ends, lambda: step_ends.at(optimizer))
        self.assertEqual(blocks, [])
        self.assertEqual(lack, "reading all would have held a step up; 2 were not read")

    @unittest.skipIf(not hasattr(sys.modules.get("torch.optim.optimizer"),
                                 "register_optimizer_step_post_hook"),
                     "torch before 2.1 has no hooks after an optimizer's step")
    def test_those_that_are_let_go_all_the_time_are_read_without_harm(self):
        # torch 2.15 crashed where one was read while it was let go.
        program = """
import ctypes, sys, threading, types
sys.path.insert(0, %r)
import torch
from profd import _objects, _torch, _torch_blocks, _torch_optimizers
_objects._library = types.SimpleNamespace(lib=ctypes.PyDLL(%r))
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(20)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
step_ends = _torch._hook_optimizers(torch, lambda *told: None)
x = torch.randn(4, 8)
seen = []
def look():
    while len(seen) < 15:
        blocks = _torch_blocks.Owners(torch, step_ends).blocks()
        seen.append(sum(block.category == _torch_blocks.GRADIENT for block in blocks))
thread = threading.Thread(target=look)
optimizer.zero_grad()
optimizer.step()  # Its hook is known from here on.
thread.start()
while thread.is_alive():
    optimizer.zero_grad(set_to_none=True)
    model(x).square().mean().backward()
    optimizer.step()
assert seen == [40] * 15, seen
""" % (str(ROOT / "client_lib" / "python"), str(LIBRARY))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=300, check=False, env={**os.environ, "PROFD_DISABLE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
