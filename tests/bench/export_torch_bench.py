"""Chrome export beside torch.profiler's export_chrome_trace, of the same events.

    PROFD_BUILD_DIR=build/release python3 tests/bench/export_torch_bench.py [--steps N] [--rounds N]

Trains a small network on the CPU under torch.profiler with record_shapes, writes its trace, imports
that, and exports it again: both sides write the same events with the same arguments, in turn. Ours
is tests/bin/export_benchmark, in one process, to a file, without its start-up; torch's is the call
alone. PROFD_TORCH_PYTHON is a Python that has torch (default: this one); without one it skips.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", "build/release"))
PYTHON = os.environ.get("PROFD_TORCH_PYTHON", sys.executable)

HAS_KINETO = "import torch; assert torch.profiler.kineto_available()"

# Waits for a line between rounds, so that both sides take turns; a profile can be saved once.
EXPORTER = """
import sys, time, torch
from torch.profiler import ProfilerActivity, profile
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print(torch.__version__, flush=True)
for _ in sys.stdin:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        for _ in range(int(sys.argv[2])):
            optimizer.zero_grad()
            model(torch.ones(8, 16)).sum().backward()
            optimizer.step()
    start = time.perf_counter()
    prof.export_chrome_trace(sys.argv[1])
    print(time.perf_counter() - start, flush=True)
"""


def ours(capture):
    """Nanoseconds per event, and how many, of one round."""
    text = subprocess.run([BUILD / "tests/bin/export_benchmark", capture, "1"], check=True,
                          capture_output=True, text=True).stdout
    figures = re.findall(r"([0-9.e+]+)\s*(ns/event|GB/s)", text)
    events = float(re.search(r"events\D*([0-9.e+]+)", text).group(1))
    return float(figures[0][0]), float(figures[2][0]), events


def slices_of(path):
    return len(re.findall(r'"ph":\s*"X"', path.read_text()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if subprocess.run([PYTHON, "-c", HAS_KINETO], capture_output=True).returncode != 0:
        print(f"SKIP: {PYTHON} has no torch with Kineto; name one that has with PROFD_TORCH_PYTHON")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="profd_bench_") as name:
        folder = pathlib.Path(name)
        trace, capture, again = folder / "torch.json", folder / "c.profd", folder / "ours.json"
        torch = subprocess.Popen([PYTHON, "-c", EXPORTER, trace, str(arguments.steps)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)

        def torch_round():
            torch.stdin.write("\n")
            torch.stdin.flush()
            return float(torch.stdout.readline())

        version = torch.stdout.readline().strip()
        torch_round()
        slices = slices_of(trace)
        profctl = BUILD / "bin/profctl"
        subprocess.run([profctl, "import", trace, "-o", capture], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([profctl, "export", capture, "-o", again], check=True,
                       stdout=subprocess.DEVNULL)
        assert abs(slices_of(again) - slices) <= 0.01 * slices, (slices_of(again), slices)
        theirs, mine, rates = [], [], []
        for _ in range(arguments.rounds):
            theirs.append(torch_round() / slices * 1e9)
            ns_per_event, gb_per_s, _ = ours(capture)
            mine.append(ns_per_event * ours_events_per_slice(again, slices))
            rates.append(gb_per_s)
        torch.stdin.close()
        torch.wait()
        print(f"slices                                   {slices}")
        print(f"torch {version} export_chrome_trace      {statistics.median(theirs):8.1f} ns/slice, "
              f"{trace.stat().st_size / slices:.0f} bytes")
        print(f"profd Chrome export, to a file           {statistics.median(mine):8.1f} ns/slice, "
              f"{again.stat().st_size / slices:.0f} bytes, {statistics.median(rates):.2f} GB/s of CPU time")
        print(f"ratio                                    "
              f"{statistics.median(theirs) / statistics.median(mine):8.1f}")


def ours_events_per_slice(path, slices):
    """Arrows and rows' names are lines as well: all that was written counts for the slices."""
    return path.read_text().count("\n") / slices


if __name__ == "__main__":
    main()
