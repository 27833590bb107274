"""Holds stacks and modules of operators against torch.profiler's own, of the same operators: both
watch the same steps of a small model.

torch.profiler names functions by file, first line, and name, and calls of modules by object and
class; so that is what is compared, for each frame. The Python is PROFD_TORCH_PYTHON's, else
/usr/bin/python3.
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
PYTHON = os.environ.get("PROFD_TORCH_PYTHON", "/usr/bin/python3")
SKIPPED = 77
# Markers around what is compared.
COMPARED, AFTER = "## compared ##", "## after ##"
LEAST_EQUAL = 0.999
OUTERMOST = 2  # child() and the module.
STACKS, MODULES = 1 << 2, 1 << 3
FEATURES = (1 << 18) | (1 << 19)


def make_model(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(16)
            self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

        def forward(self, x):
            shifted = [part + 1 for part in x.split(8, dim=1)]
            return x + self.mlp(self.norm(torch.cat(shifted, dim=1)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(3))
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    return Model()


def step(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return sorted([x.sum(), x.mean()], key=lambda value: value.item())


def frames_of(event):
    """(file, first line, function) of the event's Python frames, innermost first; the modules."""
    frames, modules = [], []
    while event is not None:
        if event.tag.name == "PyCall":
            call = event.typed[1]
            frames.append((call.callsite.file_name, call.callsite.line_number,
                           call.callsite.function_name))
            if call.module is not None:
                modules.append((call.module.self_ptr, call.module.cls_name))
        event = event.parent
    return frames, modules


def is_same_stack(ours, theirs):
    """torch.profiler leaves folders of sys.path out of files. Of functions that ran when it began,
    the test's own outermost two, it has the line of that moment."""
    return len(ours) == len(theirs) and all(
        file.endswith(their_file) and function == their_function and
        (line == their_line or at >= len(ours) - OUTERMOST)
        for at, ((file, line, function), (their_file, their_line, their_function))
        in enumerate(zip(ours, theirs)))


def name_of(event):
    return event.name if isinstance(event.name, str) else event.name()


def operators_of(events):
    """Every operator, in no order: (start, thread, name, frames, modules)."""
    left = list(events)
    while left:
        event = left.pop()
        left.extend(event.children)
        if event.tag.name == "TorchOp":
            yield (event.start_time_ns, event.start_tid, name_of(event), *frames_of(event))


def between_markers(operators):
    """Those of the markers' thread between them, as (name, frames, modules), in their order."""
    operators = sorted(operators, key=lambda each: each[0])
    thread, = {each[1] for each in operators if each[2] == COMPARED}
    operators = [each for each in operators if each[1] == thread]
    names = [each[2] for each in operators]
    return [each[2:] for each in operators[names.index(COMPARED) + 1:names.index(AFTER)]]


def read_ours(path):
    frames, ops = {}, []
    for line in path.read_text().splitlines():
        kind, *words = line.split("\t")
        if kind == "frame":
            frames[words[0], words[1]] = words
        elif kind == "op":
            ops.append(words)
    for thread, stack, name in ops:
        found, modules = [], []
        while stack != "0":
            words = frames[thread, stack]
            found.append((words[3], int(words[6]), words[5].split(".")[-1]))
            if words[7] != "0":
                modules.append((int(words[7]), words[8]))
            stack = words[2]
        yield thread, name, found, modules


def attach(harness, profd, torch):
    """As the package does: from a function with arguments, which show where those are."""
    return harness.harness_attach(profd._handle, None, torch.__version__.encode())


def child():
    try:
        import torch
    except ImportError as error:
        print("SKIP: this Python has no torch: %s" % error)
        os._exit(SKIPPED)
    with tempfile.TemporaryDirectory() as directory:
        harness = ctypes.PyDLL(str(BUILD / "tests" / "bin" / "stack_harness.so"))
        harness.harness_start_daemon(directory.encode())
        profd = ctypes.CDLL(str(BUILD / "lib" / "libprofd_client.so"))
        harness.harness_attach.restype = ctypes.c_uint32
        harness.harness_attach.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p]
        features = attach(harness, profd, torch)
        assert features & FEATURES == FEATURES, "stacks do not work here: %#x" % features
        torch.manual_seed(1)
        torch.set_num_threads(1)
        model = make_model(torch)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        data = torch.randn(8, 16)
        step(model, optimizer, data)
        config = torch._C._profiler._ExperimentalConfig(verbose=True)
        harness.harness_arm(STACKS | MODULES, 64, 1)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                    with_stack=True, with_modules=True,
                                    experimental_config=config) as profile:
            with torch.profiler.record_function(COMPARED):
                pass
            for _ in range(3):
                step(model, optimizer, data)
            with torch.profiler.record_function(AFTER):
                pass
        harness.harness_finish(1)
        tree = profile.profiler.kineto_results.experimental_event_tree()
        if not hasattr(tree[0], "typed"):
            print("SKIP: torch %s does not show its profiler's Python frames" % torch.__version__)
            sys.stdout.flush()
            os._exit(SKIPPED)
        theirs = between_markers(operators_of(tree))
        ours = between_markers(
            (order, *row) for order, row in
            enumerate(read_ours(pathlib.Path(directory) / "contents")))
    print(json.dumps({"version": torch.__version__, "theirs": theirs, "ours": ours}))
    sys.stdout.flush()
    os._exit(0)


class PythonStacksTest(unittest.TestCase):
    maxDiff = 3000

    @classmethod
    def setUpClass(cls):
        done = subprocess.run([PYTHON, __file__, "--child"], capture_output=True, text=True)
        if done.returncode == SKIPPED:
            print(done.stdout.strip())
            sys.exit(SKIPPED)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout.splitlines()[-1])
        cls.theirs, cls.ours = said["theirs"], said["ours"]
        print("torch %s, %d operators" % (said["version"], len(cls.theirs)))

    def test_the_operators_are_the_same(self):
        self.assertGreater(len(self.theirs), 300)
        self.assertEqual([name for name, _, _ in self.ours], [name for name, _, _ in self.theirs])

    def share(self, which, is_same):
        """Of operators that have the same; says where the first differs."""
        equal = [is_same(ours[which], theirs[which])
                 for ours, theirs in zip(self.ours, self.theirs)]
        if not all(equal):
            at = equal.index(False)
            print("differs: %s\n  ours   %s\n  theirs %s" %
                  (self.ours[at][0], self.ours[at][which], self.theirs[at][which]))
        print("%d of %d equal" % (sum(equal), len(equal)))
        return sum(equal) / len(equal)

    def test_stacks_are_those_of_torch_profiler(self):
        self.assertGreaterEqual(self.share(1, is_same_stack), LEAST_EQUAL)

    def test_modules_are_those_of_torch_profiler(self):
        self.assertGreater(len([row for row in self.ours if row[2]]), 50)
        self.assertGreaterEqual(self.share(2, list.__eq__), LEAST_EQUAL)


if __name__ == "__main__":
    if "--child" in sys.argv:
        child()
    elif subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        print("SKIP: this Python has no torch")
        sys.exit(SKIPPED)
    else:
        unittest.main()
