"""What the hook adds to the start of a Python, and what attaching adds to `import torch`.

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/python_start_bench.py [--json]

Pairs of processes, one with the hook's folder on PYTHONPATH and one without, first now the one and
now the other. Start-up is the wall time until the program's own code goes on; whole, until the process
is gone, and cpu what it used. A pair's difference is mostly the machine's, so many are taken: their
mean without the tenth at either end, and how far off that may be (95 %). No daemon runs. --pairs N
sets the pairs of `import torch`; --smoke runs few, for ctest.
"""

import argparse
import importlib.util
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
INJECT = ROOT / "client_lib" / "python" / "profd" / "_inject"
BARS_MS = {"python": 2.0, "import torch": 5.0}  # Of the start-up.
CLOCKS = ("start-up", "whole", "cpu")


def environment(hooked):
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("PROFD_", "PYTHON"))}
    env["PROFD_SOCKET_DIR"] = "/nonexistent"
    if hooked:
        env["PYTHONPATH"] = str(INJECT)
        env["PROFD_CLIENT_LIB"] = str(BUILD / "lib" / "libprofd_client.so")
    return env


def run_ms(program, hooked):
    """Start-up, whole and CPU time."""
    code = program + "; import os, time; os.write(1, b'%.9f' % time.perf_counter())"
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code], env=environment(hooked),
                               stdout=subprocess.PIPE)
    with process.stdout as told:
        ready = told.read()
    _, status, usage = os.wait4(process.pid, 0)
    end = time.perf_counter()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{program}: exit {process.returncode}")
    return {"start-up": (float(ready) - begin) * 1e3, "whole": (end - begin) * 1e3,
            "cpu": (usage.ru_utime + usage.ru_stime) * 1e3}


def added(differences):
    """Trimmed mean of differences, and the half width of its 95 % interval."""
    trim = len(differences) // 10
    kept = sorted(differences)[trim:len(differences) - trim]
    if len(kept) < 3:
        return {"added_ms": statistics.mean(kept), "interval_ms": None}
    lowest, highest = kept[0], kept[-1]
    # What was cut counts as the nearest that was not: Winsor's variance, Tukey and McLaughlin 1963.
    spread = statistics.stdev([min(max(value, lowest), highest) for value in differences])
    error = spread / (len(kept) / len(differences) * math.sqrt(len(differences)))
    return {"added_ms": statistics.mean(kept), "interval_ms": 1.96 * error}


def measure(program, pairs):
    run_ms(program, True)  # Its compiled files are written now, as an installation has them.
    without, hooked = [], []
    for i in range(pairs):
        for side in (False, True) if i % 2 else (True, False):
            (hooked if side else without).append(run_ms(program, side))
    return {"pairs": pairs} | {
        clock: {"without_ms": statistics.median(run[clock] for run in without),
                **added([b[clock] - a[clock] for a, b in zip(without, hooked)])}
        for clock in CLOCKS}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--pairs", type=int, default=100)
    arguments = parser.parse_args()
    results = {"python": measure("pass", 2 if arguments.smoke else 200)}
    if importlib.util.find_spec("torch") is None:
        print("import torch: not measured, this Python has no torch", file=sys.stderr)
    else:
        results["import torch"] = measure("import torch", 1 if arguments.smoke else arguments.pairs)
    if arguments.json:
        print(json.dumps({"python": platform.python_version(), "results": results}))
        return
    print("Python %s, %s" % (platform.python_version(), platform.machine()))
    for name, result in results.items():
        for clock in CLOCKS:
            bar = ", at most %.0f" % BARS_MS[name] if clock == "start-up" else ""
            interval = result[clock]["interval_ms"]
            print("%-13s %-8s %8.2f ms, the hook adds %+.2f ms +- %s (%d pairs)%s" % (
                name, clock, result[clock]["without_ms"], result[clock]["added_ms"],
                "?" if interval is None else "%.2f" % interval, result["pairs"], bar))


if __name__ == "__main__":
    main()
