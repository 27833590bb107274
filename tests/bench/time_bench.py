"""All of HTA's analyses that `profctl time --as hta` answers, beside HTA itself, on one trace.

  python3 tests/bench/time_bench.py TRACE.json.gz [ROUNDS] [--hta PYTHON]

PYTHON is an interpreter with HolisticTraceAnalysis; default: this one. HTA's parse of the trace is
not counted, our import neither; ours opens the capture file anew for every report. The two take
turns, and the best round of each counts.
"""

import argparse
import json
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
best = None
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    trace.get_temporal_breakdown(visualize=False)
    trace.get_idle_time_breakdown(ranks=[rank], visualize=False)
    trace.get_comm_comp_overlap(visualize=False)
    trace.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True)
    trace.get_cuda_kernel_launch_stats(ranks=[rank], visualize=False)
    trace.get_queue_length_summary(ranks=[rank])
    took = time.perf_counter() - start
    best = took if best is None else min(best, took)
import json
print(json.dumps({"analyses_s": best, "start_and_parse_s": parsed - begin}))
"""


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
        ours = subprocess.run([BUILD / "tests" / "bin" / "time_benchmark", capture,
                               str(10 * args.rounds)], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        print(ours, end="")
        hta = subprocess.run([args.hta, "-c", HTA, traces, str(args.rounds)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if hta.returncode != 0:
            print("HTA: not measured:", hta.stderr.strip().splitlines()[-1:])
            return
        figures = json.loads(hta.stdout.splitlines()[-1])
        print(f"HTA, start and parse: {figures['start_and_parse_s'] * 1e3:.0f} ms")
        print(f"HTA, analyses alone: {figures['analyses_s'] * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
