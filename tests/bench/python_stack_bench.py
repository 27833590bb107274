"""What Python stacks and modules add to an operator of a capture, in one run.

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/python_stack_bench.py [--rounds N]

The operator is that of the stand-in for torch, which does nothing but announce itself. Samples of
all variants take turns; figures are medians of a thread's CPU time per operator, in ns, and what is
added to a capture of names alone (--best: the lowest samples instead, for a machine with other load):

    same      operators from one line, one after the other: the stack is compared and found equal
    nested    three operators of four are inside of another
    changing  every operator comes from another function than the one before

each at depths of 6 and 20 frames, for a capture of stacks, of modules, and of both; one frame of
three is a call of a module. --smoke runs one short round, for ctest.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))

# proto/wire/frame.h, event.h
STACKS, MODULES = 1 << 2, 1 << 3
FEATURES = (1 << 18) | (1 << 19)
CAPTURES = {"names": 0, "stacks": STACKS, "modules": MODULES, "both": STACKS | MODULES}
DEPTHS = (6, 20)


class Module:
    """As torch.nn.Module, as far as calls go."""

    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        left, body = args
        return down(left - 2, body)

    __call__ = _wrapped_call_impl


MODEL = Module()


def down(left, body):
    """Runs `body` below `left` more frames."""
    if left >= 3:
        return MODEL(left - 1, body)
    if left > 1:
        return down(left - 1, body)
    return body()


class Bench:

    def __init__(self, directory, count):
        self.count = count
        path = str(BUILD / "tests" / "bin" / "stack_harness.so")
        self.harness = ctypes.PyDLL(path)
        self.harness.harness_start_daemon(directory.encode())
        profd = ctypes.CDLL(str(BUILD / "lib" / "libprofd_client.so"))
        torch = ctypes.CDLL(str(BUILD / "tests" / "bin" / "fake_torch" / "full" / "libtorch_cpu.so"))
        self.harness.harness_attach.restype = ctypes.c_uint32
        self.harness.harness_attach.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p]
        self.harness.harness_loop.restype = ctypes.c_double
        self.harness.harness_cpu_ns.restype = ctypes.c_double
        module = types.ModuleType("torch.nn.modules.module")
        module.Module = Module
        sys.modules["torch.nn.modules.module"] = module
        features = self.harness.harness_attach(profd._handle, torch._handle, b"2.6.0")
        if features & FEATURES != FEATURES:
            sys.exit("stacks or modules do not work here: features %#x" % features)

    def same(self):
        return self.harness.harness_loop(self.count, 0)

    def nested(self):
        return self.harness.harness_loop(self.count // 4, 3)

    def changing(self):
        op = self.harness.harness_op

        def first():
            op(b"aten::copy_")

        def second():
            op(b"aten::copy_")

        start = self.harness.harness_cpu_ns()
        for _ in range(self.count // 2):
            first()
            second()
        return (self.harness.harness_cpu_ns() - start) / (self.count // 2 * 2)

    def sample(self, capture, body, depth):
        """In a window of its own; the frames above the body's are the benchmark's."""
        own = 0
        frame = sys._getframe()
        while frame is not None:
            own, frame = own + 1, frame.f_back
        # `changing` has a frame more than the others.
        left = depth - own - (2 if body.__name__ == "changing" else 1)
        self.harness.harness_arm(CAPTURES[capture], 64, 0)
        try:
            down(left, lambda: None)
            body_count, self.count = self.count, max(self.count // 10, 10)
            down(left, body)  # Warm: first chunks, caches.
            self.count = body_count
            return down(left, body)
        finally:
            self.harness.harness_finish(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=100000)
    parser.add_argument("--best", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.count = 1, 1000
    samples = {}
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(directory, args.count)
        for _ in range(args.rounds):
            for depth in DEPTHS:
                for body in (bench.same, bench.nested, bench.changing):
                    for capture in CAPTURES:
                        key = (depth, body.__name__, capture)
                        samples.setdefault(key, []).append(bench.sample(capture, body, depth))
    middle = min if args.best else statistics.median
    medians = {key: middle(values) for key, values in samples.items()}
    if args.json:
        print(json.dumps({"%d %s %s" % key: round(value, 1) for key, value in medians.items()}))
        return
    print("Python %d.%d, %d rounds of %d operators" % (*sys.version_info[:2], args.rounds, args.count))
    print("%-6s %-9s %10s" % ("depth", "operators", "names, ns") +
          "".join("%22s" % capture for capture in list(CAPTURES)[1:]))
    for depth in DEPTHS:
        for name in ("same", "nested", "changing"):
            base = medians[depth, name, "names"]
            print("%-6d %-9s %10.1f" % (depth, name, base) + "".join(
                "%+13.1f (x%.2f)" % (medians[depth, name, capture] - base,
                                     medians[depth, name, capture] / base)
                for capture in list(CAPTURES)[1:]))


if __name__ == "__main__":
    main()
