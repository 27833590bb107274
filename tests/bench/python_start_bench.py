"""What the hook adds to the start of a Python, and what attaching adds to `import torch`.

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/python_start_bench.py [--json]

Pairs of processes, one with the hook's folder on PYTHONPATH and one without, in turns: wall time of
the whole process. Best of each and the median of the pairs' differences; on a shared machine the
difference of the bests is the one to trust. No daemon runs. --smoke runs few pairs, for ctest.
"""

import argparse
import importlib.util
import json
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
BARS_MS = {"python": 2.0, "import torch": 5.0}


def environment(hooked):
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("PROFD_", "PYTHON"))}
    env["PROFD_SOCKET_DIR"] = "/nonexistent"
    if hooked:
        env["PYTHONPATH"] = str(INJECT)
        env["PROFD_CLIENT_LIB"] = str(BUILD / "lib" / "libprofd_client.so")
    return env


def run_ms(program, hooked):
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], env=environment(hooked), check=True)
    return (time.perf_counter() - begin) * 1e3


def measure(program, pairs):
    run_ms(program, True)  # Its compiled files are written now, as an installation has them.
    without, hooked = [], []
    for _ in range(pairs):
        without.append(run_ms(program, False))
        hooked.append(run_ms(program, True))
    return {"pairs": pairs, "best_ms": min(without), "best_hooked_ms": min(hooked),
            "added_best_ms": min(hooked) - min(without),
            "added_median_ms": statistics.median(b - a for a, b in zip(without, hooked))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    results = {"python": measure("pass", 2 if arguments.smoke else 200)}
    if importlib.util.find_spec("torch") is None:
        print("import torch: not measured, this Python has no torch", file=sys.stderr)
    else:
        results["import torch"] = measure("import torch", 1 if arguments.smoke else 15)
    if arguments.json:
        print(json.dumps({"python": platform.python_version(), "results": results}))
        return
    print("Python %s, %s" % (platform.python_version(), platform.machine()))
    for name, result in results.items():
        print("%-13s %8.2f ms, with the hook %8.2f: %+.2f ms (median of %d pairs %+.2f), "
              "at most %.0f" % (name, result["best_ms"], result["best_hooked_ms"],
                                result["added_best_ms"], result["pairs"],
                                result["added_median_ms"], BARS_MS[name]))


if __name__ == "__main__":
    main()
