"""All of HTA's analyses that `profctl time --as hta` answers, beside HTA itself, on one trace.

  python3 tests/bench/time_bench.py TRACE.json.gz [ROUNDS] [--hta PYTHON]

PYTHON is an interpreter with HolisticTraceAnalysis; default: this one. HTA's parse of the trace is
not counted, our import neither; ours opens the capture file anew for every report. The two take
turns, and the best round of each counts.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["PROFD_BUILD_DIR"])

HTA = """
import logging, sys, time
logging.disable(logging.CRITICAL)
begin = time.perf_counter()
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis(trace_dir=sys.argv[1])
parsed = time.perf_counter()
rank = list(trace.t.traces)[0]
print(parsed - begin, flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    trace.get_temporal_breakdown(visualize=False)
    trace.get_idle_time_breakdown(ranks=[rank], visualize=False)
    trace.get_comm_comp_overlap(visualize=False)
    trace.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True)
    trace.get_cuda_kernel_launch_stats(ranks=[rank], visualize=False)
    trace.get_queue_length_summary(ranks=[rank])
    print(time.perf_counter() - start, flush=True)
"""


class Hta:
    """HTA with the trace parsed; each round() is all its analyses once."""

    def __init__(self, python, traces):
        self.process = subprocess.Popen([python, "-c", HTA, traces], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.start_and_parse_s = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("HTA ended: " + self.process.stderr.read().strip()[-200:])
        return float(line)

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def our_round(capture):
    """The figures of the time benchmark, in ms, best of ten."""
    output = subprocess.run([BUILD / "tests" / "bin" / "time_benchmark", capture, "10"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    return {line[:60].strip(): float(line.split()[-2]) for line in output.splitlines()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--hta", default=sys.executable)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="profd-time-bench-") as name:
        folder = pathlib.Path(name)
        traces = folder / "traces"
        traces.mkdir()
        os.symlink(pathlib.Path(args.trace).resolve(), traces / pathlib.Path(args.trace).name)
        capture = folder / "capture.profd"
        subprocess.run([BUILD / "bin" / "profctl", "import", args.trace, "-o", capture], check=True,
                       stdout=subprocess.DEVNULL)
        try:
            hta = Hta(args.hta, traces)
        except RuntimeError as why:
            print("HTA: not measured:", why)
            hta = None
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(our_round(capture))
            if hta:
                theirs.append(hta.round() * 1e3)
        for what in ours[0]:
            print(f"{what}: {min(figures[what] for figures in ours):.2f} ms")
        if hta:
            hta.close()
            print(f"HTA, start and parse: {hta.start_and_parse_s * 1e3:.0f} ms")
            print(f"HTA, analyses alone: {min(theirs):.1f} ms")


if __name__ == "__main__":
    main()
