"""What `with profd.annotate("name"): pass` costs, idle and recorded, in one run.

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/python_annotate_bench.py [--json]

Beside it, in the same loop and the same rounds: the empty loop, and a context manager written
in Python that does nothing. The loop's best time is taken off every figure. Best and median of the rounds;
the best is the one to compare on a shared machine. --smoke runs one short round, for ctest.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fakes"))
sys.path.insert(0, str(ROOT / "client_lib" / "python"))

BARS_NS = {"idle": 300, "recorded": 1000}
# Chunks are not given back during this capture: all ranges of all rounds must fit.
MEMORY_BYTES = 256 << 20
MAX_RANGES = 5_000_000


class Nothing:
    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        pass


NOTHING = {"name": Nothing()}


def nothing(name):
    return NOTHING[name]


# The two loops are spelled out twice, so that the interpreter specialises each for what it calls.


def run_loop(count, _):
    for _ in range(count):
        pass


def run_nothing(count, manager):
    for _ in range(count):
        with manager("name"):
            pass


def run_annotate(count, manager):
    for _ in range(count):
        with manager("name"):
            pass


def nanoseconds(run, count, manager):
    begin = time.perf_counter_ns()
    run(count, manager)
    return (time.perf_counter_ns() - begin) / count


def measure(count, rounds, annotate):
    """Per round: the loop, the empty context manager and annotate, one after the other."""
    rows = []
    for _ in range(rounds):
        rows.append((nanoseconds(run_loop, count, None), nanoseconds(run_nothing, count, nothing),
                     nanoseconds(run_annotate, count, annotate)))
    return rows


def child(count, rounds):
    """The measured process: idle, then recorded once told that a capture runs."""
    import profd
    profd.init()
    with profd.annotate("name"):
        pass
    print(json.dumps(measure(count, rounds, profd.annotate)), flush=True)
    sys.stdin.readline()
    assert profd.is_recording()
    print(json.dumps(measure(count, rounds, profd.annotate)), flush=True)
    sys.stdin.readline()


def run(count, rounds):
    from python_daemon import FakeDaemon
    build = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
    with tempfile.TemporaryDirectory(prefix="profd-bench-") as folder:
        env = dict(os.environ, PROFD_SOCKET_DIR=folder)
        env.setdefault("PROFD_CLIENT_LIB", str(build / "lib" / "libprofd_client.so"))
        with FakeDaemon(folder) as daemon:
            process = subprocess.Popen(
                [sys.executable, __file__, "--child", "--count", str(count), "--rounds",
                 str(rounds)], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            with process:
                target = daemon.wait_target(process.pid)
                idle = json.loads(process.stdout.readline())
                capture = target.arm(MEMORY_BYTES)
                capture.fire()
                capture.wait_recording()
                process.stdin.write("\n")
                process.stdin.flush()
                recorded = json.loads(process.stdout.readline())
                events = capture.finish()
                process.stdin.write("\n")
    kept = len(events.ranges)
    if kept != count * rounds or sum(events.drops):
        sys.exit("recorded %d of %d ranges, drops %s" % (kept, count * rounds, events.drops))
    return idle, recorded


def summarise(count, rounds):
    idle, recorded = run(count, rounds)
    loop = min(row[0] for row in idle + recorded)
    columns = {
        "empty loop": [row[0] for row in idle + recorded],
        "empty context manager": [row[1] - loop for row in idle + recorded],
        "idle": [row[2] - loop for row in idle],
        "recorded": [row[2] - loop for row in recorded],
    }
    return {name: {"best_ns": round(min(values), 1),
                   "median_ns": round(statistics.median(values), 1)}
            for name, values in columns.items()}


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--smoke", action="store_true", help="one short round, no bars")
    parser.add_argument("--count", type=int, default=100_000, help="ranges per round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.smoke:
        options.count, options.rounds = 1000, 1
    if not 0 < options.count * options.rounds <= MAX_RANGES:
        parser.error("--count times --rounds must be from 1 to %d" % MAX_RANGES)
    if options.child:
        child(options.count, options.rounds)
        return

    figures = summarise(options.count, options.rounds)
    machine = "Python %s, %s, %s" % (platform.python_version(), cpu_model(),
                                     time.strftime("%Y-%m-%d"))
    if options.json:
        print(json.dumps({"machine": machine, "count": options.count, "rounds": options.rounds,
                          "bars_ns": BARS_NS, "figures": figures}))
        return
    print("%s: ns, best and median of %d rounds of %d" % (machine, options.rounds, options.count))
    for name, figure in figures.items():
        bar = "   (bar %d)" % BARS_NS[name] if name in BARS_NS else ""
        print("  %-22s %7.1f %7.1f%s" % (name, figure["best_ns"], figure["median_ns"], bar))


if __name__ == "__main__":
    main()
