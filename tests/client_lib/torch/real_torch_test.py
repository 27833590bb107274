"""Operators of a real torch, as the library records them and as torch.profiler does, of the same
steps: both watch at the same time.

Runs with the torch of this Python, or of PROFD_TORCH_PYTHON; without one it skips.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
PYTHON = os.environ.get("PROFD_TORCH_PYTHON", sys.executable)
SKIPPED = 77
COMPARED = "what is compared"
NAMES, SHAPES = 1, 2  # OperatorsMode
STACKS_AND_MODULES = 1 << 2 | 1 << 3  # kArmTorch*
BACKWARD = 1  # OperatorScope
FEATURES = 0x1fff  # All of wire::TorchFeature that is about operators.


# ---- The program.


def work(torch, model, optimizer, data):
    optimizer.zero_grad()
    hidden = model(data)
    joined = torch.cat([hidden, hidden.detach()], dim=1)
    loss = torch.nn.functional.gelu(joined).clamp(-0.5, 3).mean()
    loss.backward()
    optimizer.step()


def input_of(value):
    """An input as torch.profiler has it: sizes, a list of sizes, a number, or None."""
    if isinstance(value, list):
        return [list(each.sizes) for each in value]
    return list(value.sizes) if hasattr(value, "sizes") else value


def rows_of(event, depth=0):
    """The operators below `event`, in the order of their begins."""
    for child_event in event.children:
        name, fields = child_event.name, child_event.extra_fields
        inputs = fields.inputs
        yield {"name": name if isinstance(name, str) else name(), "depth": depth,
               "sequence": fields.sequence_number, "scope": int(fields.scope),
               # Before 2.1 there are sizes alone, none of lists.
               "shapes": inputs.shapes if hasattr(inputs, "shapes") else None,
               "inputs": None if hasattr(inputs, "shapes") else list(map(input_of, inputs))}
        yield from rows_of(child_event, depth + 1)


def child():
    try:
        import torch
    except ImportError as error:
        print("SKIP: this Python has no torch: %s" % error)
        sys.exit(SKIPPED)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = torch.randn(16, 64)
    work(torch, model, optimizer, data)
    print(json.dumps({"version": torch.__version__}), flush=True)
    sys.stdin.readline()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                record_shapes=True) as profile:
        with torch.profiler.record_function(COMPARED):
            for _ in range(3):
                work(torch, model, optimizer, data)
    rows = []
    for event in profile.profiler.kineto_results.experimental_event_tree():
        if (event.name if isinstance(event.name, str) else event.name()) == COMPARED:
            rows.extend(rows_of(event))
    print(json.dumps(rows), flush=True)
    sys.stdin.readline()


# ---- The tests.


def as_torch_profiler(operator):
    """Our inputs as input_of() has torch.profiler's."""
    shown = []
    inputs = iter(operator.inputs)
    for kind, value in inputs:
        if kind == "tensor":
            shown.append(list(value[1]))
        elif kind == "list":
            shown.append([list(next(inputs)[1][1]) for _ in range(value)])
        else:
            shown.append(value if kind in ("int", "double", "bool") else None)
    return shown


class RealTorchTest(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(ROOT / "tests" / "fakes"))

    def start(self, folder):
        from python_daemon import FakeDaemon
        inject = ROOT / "client_lib" / "python" / "profd" / "_inject"
        environment = dict(os.environ, PROFD_SOCKET_DIR=folder, PYTHONPATH=str(inject),
                           PROFD_CLIENT_LIB=str(BUILD / "lib" / "libprofd_client.so"))
        daemon = self.enterContext(FakeDaemon(folder))
        process = self.enterContext(subprocess.Popen(
            [PYTHON, __file__, "--child"], env=environment, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE))
        said = process.stdout.readline()
        if said.startswith("SKIP:"):
            self.skipTest(said.strip())
        self.version = json.loads(said)["version"]
        return process, daemon.wait_target(process.pid)

    def enterContext(self, manager):  # unittest has it from Python 3.11 on.
        result = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return result

    def record(self, mode, flags=0):
        """What torch.profiler says, and the ranges and operators of the same."""
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="profd-torch-"))
        process, target = self.start(folder)
        capture = target.arm(64 << 20, torch=(mode, flags, 0))
        capture.fire()
        capture.wait_recording()
        process.stdin.write("\n")
        process.stdin.flush()
        rows = json.loads(process.stdout.readline())
        events = capture.finish()
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(sum(events.drops), 0)
        return rows, events

    def below_compared(self, events):
        """(range, operator) in the order of their begins, of what is inside of COMPARED."""
        from python_daemon import Operator
        around, = (each for each in events.ranges if each.name == COMPARED)
        operators = {(each.thread, each.start, each.depth): each for each in events.of(Operator)}
        inside = [each for each in events.ranges
                  if each.thread == around.thread and each.depth > around.depth
                  and around.start <= each.start < around.start + around.duration]
        inside.sort(key=lambda each: (each.start, each.depth))
        return around, [(each, operators[each.thread, each.start, each.depth]) for each in inside]

    def test_operators_are_those_of_torch_profiler(self):
        from python_daemon import TorchStatus
        rows, events = self.record(SHAPES)
        status = events.of(TorchStatus)[-1]
        self.assertEqual(status.version, self.version)
        self.assertEqual(status.recorded & FEATURES, status.wanted & FEATURES)
        around, ours = self.below_compared(events)
        self.assertGreater(len(rows), 100)
        self.assertEqual([(each.name, each.depth - around.depth - 1) for each, _ in ours],
                         [(row["name"], row["depth"]) for row in rows])
        # torch.profiler gives these the numbers of the node that each evaluates, afterwards.
        own = [(operator, row) for (_, operator), row in zip(ours, rows)
               if not row["name"].startswith("autograd::engine::evaluate_function: ")]
        self.assertEqual([operator.sequence for operator, _ in own],
                         [row["sequence"] for _, row in own])
        self.assertEqual([operator.scope for _, operator in ours], [row["scope"] for row in rows])
        for row, (each, operator) in zip(rows, ours):
            inputs = as_torch_profiler(operator)
            if row["inputs"] is not None:
                self.assertEqual(inputs, row["inputs"], each.name)
                continue
            for shape, given in zip(row["shapes"], inputs):
                if shape:
                    self.assertEqual(given, shape, each.name)
            self.assertEqual(len(inputs), len(row["shapes"]), each.name)

    def test_backward_nodes_know_their_forward_threads(self):
        _, events = self.record(SHAPES)
        _, ours = self.below_compared(events)
        backward = [operator for _, operator in ours if operator.scope == BACKWARD]
        self.assertGreater(len(backward), 10)
        main = ours[0][1].torch_thread
        linked = [operator for operator in backward if operator.sequence >= 0]
        self.assertEqual({operator.forward_thread for operator in linked}, {main})

    def test_inputs_are_what_was_given(self):
        _, events = self.record(SHAPES)
        _, ours = self.below_compared(events)
        by_name = {each.name: operator for each, operator in ours}
        self.assertEqual(by_name["aten::cat"].inputs,
                         (("list", 2), ("tensor", (6, (16, 8))), ("tensor", (6, (16, 8))),
                          ("int", 1)))
        self.assertEqual(by_name["aten::gelu"].inputs,
                         (("tensor", (6, (16, 16))), ("string", "none")))
        clamp = by_name["aten::clamp"].inputs
        self.assertEqual(clamp, (("tensor", (6, (16, 16))), ("double", -0.5), ("int", 3)))

    def test_stacks_lead_to_the_line_and_to_the_layer(self):
        from python_daemon import Module, StackFrame, TorchStatus
        _, events = self.record(NAMES, STACKS_AND_MODULES)
        status = events.of(TorchStatus)[-1]
        wanted = status.wanted & 7 << 18
        self.assertEqual(wanted, 7 << 18)  # Stacks, modules, paths.
        self.assertEqual(status.recorded & wanted, wanted)
        frames = {(each.thread, each.stack): each for each in events.of(StackFrame)}
        paths = {each.address: each.path for each in events.of(Module)}
        _, ours = self.below_compared(events)
        layers = set()
        for each, operator in ours:
            stack, names, modules = operator.stack, [], []
            while stack != 0:
                frame = frames[operator.thread, stack]
                names.append(frame.name.split(".")[-1])
                if frame.module != 0:
                    modules.append((paths[frame.module], frame.class_name))
                stack = frame.parent
            self.assertEqual(names[-2:], ["child", "<module>"], each.name)
            if each.name == "aten::linear" or each.name == "aten::relu":
                self.assertIn("work", names)
                layers.add(tuple(modules))
        self.assertEqual(layers, {(("0", "Linear"), (None, "Sequential")),
                                  (("1", "ReLU"), (None, "Sequential")),
                                  (("2", "Linear"), (None, "Sequential"))})

    def test_names_alone_have_no_inputs(self):
        rows, events = self.record(NAMES)
        _, ours = self.below_compared(events)
        self.assertEqual([each.name for each, _ in ours], [row["name"] for row in rows])
        self.assertTrue(all(operator.inputs == () for _, operator in ours))


if __name__ == "__main__":
    if "--child" in sys.argv:
        child()
    else:
        probe = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, text=True)
        if probe.returncode != 0:
            print("SKIP: this Python has no torch")
            sys.exit(SKIPPED)
        unittest.main()
