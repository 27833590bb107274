"""What observing an operator of torch costs the thread that runs it, in one run.

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/torch_op_benchmark.py [--fake]

The operator is copy_() between two tensors of 16 x 64, with three inputs, called from C++. Samples
of all variants take turns; figures are medians of a thread's CPU time per operator, in ns:

    bare            nobody observes
    idle            libprofd_client attached, no capture
    empty           an observer that does nothing
    empty, inputs   one that does nothing and asks for inputs: what torch leaves as the floor
    names, shapes   a capture of ours
    torch.profiler  torch's own, with record_shapes; --no-peer leaves it out

--fake uses tests/client_lib/torch/fake_torch, whose operator does nothing but announce itself. --smoke runs
one short round, for ctest.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
OPERATORS_WANTED = (1 << 1) | (1 << 7)  # kTorchOperators, kTorchShapes


def load_helper():
    helper = ctypes.CDLL(str(BUILD / "tests" / "bin" / "torch_op_loop.so"))
    pointer = ctypes.c_void_p
    helper.bench_ask_daemon.argtypes = [ctypes.c_char]
    helper.bench_ask_daemon.restype = ctypes.c_char
    helper.bench_add_empty.argtypes = [pointer, ctypes.c_int]
    helper.bench_add_empty.restype = ctypes.c_uint64
    helper.bench_enable.argtypes = [pointer, ctypes.c_uint64, ctypes.c_int]
    helper.bench_loop_copy.argtypes = [pointer, pointer, pointer, ctypes.c_int]
    helper.bench_loop_copy.restype = ctypes.c_double
    helper.bench_loop_fake.argtypes = [pointer, ctypes.c_int]
    helper.bench_loop_fake.restype = ctypes.c_double
    helper.bench_attach_fake.argtypes = [pointer]
    helper.bench_attach_fake.restype = ctypes.c_uint32
    return helper


class Probe(ctypes.Structure):
    """profd_torch_probe of client_lib/torch/torch_api.h."""
    _fields_ = [("size_bytes", ctypes.c_uint32), ("reserved", ctypes.c_uint32)] + [
        (name, ctypes.c_void_p) for name in (
            "float_tensor", "long_tensor", "deep_tensor", "float_data", "long_data", "deep_data")]


class FakeTorch:
    """The stand-in."""

    def __init__(self, helper):
        self.helper = helper
        self.library = ctypes.CDLL(str(BUILD / "tests" / "bin" / "fake_torch" / "full" / "libtorch_cpu.so"))
        self.version = "stand-in"

    def attach(self, _):
        return self.helper.bench_attach_fake(self.library._handle)

    def loop(self, count):
        return self.helper.bench_loop_fake(self.library._handle, count)


class RealTorch:
    """The torch of this Python."""

    def __init__(self, helper):
        import torch
        torch.set_num_threads(1)
        self.torch = torch
        self.helper = helper
        self.version = torch.__version__
        self.library = ctypes.CDLL(str(
            pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        self.to, self.source = torch.zeros(16, 64), torch.ones(16, 64)

    def attach(self, profd):
        torch = self.torch
        profd.profd_torch_attach(torch.__version__.encode())
        a = torch.empty(1237, 3, 5)
        b = torch.ones(1237, 3, 5, dtype=torch.int64)
        deep = torch.empty(3, 5, 1237, 1, 2, 1, 1)
        probe = Probe(ctypes.sizeof(Probe), 0, a._cdata, b._cdata, deep._cdata,
                      a.data_ptr(), b.data_ptr(), deep.data_ptr())
        profd.profd_torch_probe_begin(ctypes.byref(probe))
        torch.cat([a, b], 1)
        torch.clamp(a, 0.25, 7)
        torch.sum(a, 1, True)
        torch.div(a, b, rounding_mode="floor")
        return profd.profd_torch_probe_end()

    def loop(self, count):
        return self.helper.bench_loop_copy(
            self.library._handle, self.to._cdata, self.source._cdata, count)


class Bench:

    def __init__(self, args, folder):
        self.helper = load_helper()
        self.helper.bench_start_daemon(folder.encode())
        self.profd = ctypes.CDLL(str(BUILD / "lib" / "libprofd_client.so"))
        self.torch = FakeTorch(self.helper) if args.fake else RealTorch(self.helper)
        handle = self.torch.library._handle
        self.empty = {wants: self.helper.bench_add_empty(handle, wants) for wants in (0, 1)}
        self.count = args.count
        self.has_peer = not args.fake and not args.no_peer
        self.dropped = 0

    def attach(self):
        features = self.torch.attach(self.profd)
        if features & OPERATORS_WANTED != OPERATORS_WANTED:
            sys.exit("torch %s: only features %#x work" % (self.torch.version, features))
        self.profd.profd_init()

    @contextlib.contextmanager
    def observer(self, wants_inputs):
        handle = self.torch.library._handle
        self.helper.bench_enable(handle, self.empty[wants_inputs], 1)
        yield
        self.helper.bench_enable(handle, self.empty[wants_inputs], 0)

    @contextlib.contextmanager
    def capture(self, mode):
        self.helper.bench_ask_daemon(mode)
        yield
        self.dropped += self.helper.bench_ask_daemon(b"x") == b"d"

    def peer(self):
        return self.torch.torch.profiler.profile(
            activities=[self.torch.torch.profiler.ProfilerActivity.CPU], record_shapes=True)

    def sample(self, around):
        with around:
            self.torch.loop(self.count // 10)  # Warm: first chunks, caches.
            return self.torch.loop(self.count)

    def run(self, rounds):
        bare = [self.sample(contextlib.nullcontext()) for _ in range(rounds)]
        self.attach()
        variants = {
            "idle": contextlib.nullcontext,
            "empty": lambda: self.observer(0),
            "empty, inputs": lambda: self.observer(1),
            "names": lambda: self.capture(b"n"),
            "shapes": lambda: self.capture(b"s"),
        }
        if self.has_peer:
            variants["torch.profiler"] = self.peer
        samples = {name: [] for name in variants}
        for _ in range(rounds):
            for name, around in variants.items():
                samples[name].append(self.sample(around()))
        return {"bare": bare, **samples}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=41)
    args = parser.parse_args()
    if args.smoke:
        args.count, args.rounds = 1000, 2
    with tempfile.TemporaryDirectory(prefix="profd-bench-") as folder:
        bench = Bench(args, folder)
        samples = bench.run(args.rounds)
    medians = {name: round(statistics.median(values), 1) for name, values in samples.items()}
    if args.json:
        print(json.dumps(medians))
        return
    print("torch %s, %d rounds of %d operators" % (bench.torch.version, args.rounds, args.count))
    for name, median in medians.items():
        print("%-16s %8.1f ns  %+8.1f" % (name, median, median - medians["bare"]))
    print("shapes beyond the empty observer with inputs: %.1f ns" %
          (medians["shapes"] - medians["empty, inputs"]))
    if bench.dropped:
        print("%d captures dropped events" % bench.dropped)


if __name__ == "__main__":
    main()
