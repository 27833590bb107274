"""What `with profd.annotate("name"): pass` costs, idle and recorded, in one run.

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/python_annotate_bench.py [--json]

Beside it, in the same loop and the same rounds: the empty loop, and a context manager written
in Python that does nothing. The loop's best time is taken off every figure. Best and median of the rounds;
the best is the one to compare on a shared machine. --smoke runs one short round, for ctest.

--against FOLDER compares with another version of the package, such as that of an earlier commit:
it is imported next to this one, on the same library, and both take turns. FOLDER contains `profd`.
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


# The same loop is spelled out for each manager, so that the interpreter specialises each for what it calls.


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


def run_other(count, manager):
    for _ in range(count):
        with manager("name"):
            pass


def nanoseconds(run, count, manager):
    begin = time.perf_counter_ns()
    run(count, manager)
    return (time.perf_counter_ns() - begin) / count


def measure(count, rounds, annotate, other):
    """Per round: the loop, the empty context manager, annotate, and the other version's, in turn."""
    rows = []
    for _ in range(rounds):
        rows.append((nanoseconds(run_loop, count, None), nanoseconds(run_nothing, count, nothing),
                     nanoseconds(run_annotate, count, annotate),
                     0 if other is None else nanoseconds(run_other, count, other)))
    return rows


def other_annotate(folder):
    """annotate() of the package in `folder`, with modules of its own."""
    ours = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "profd"}
    for name in ours:
        del sys.modules[name]
    sys.path.insert(0, folder)
    import profd
    sys.path.remove(folder)
    if pathlib.Path(profd.__file__).parent.parent != pathlib.Path(folder).resolve():
        sys.exit("%s has no package profd" % folder)
    for name in [name for name in sys.modules if name.split(".")[0] == "profd"]:
        del sys.modules[name]
    sys.modules.update(ours)
    return profd.annotate


def child(count, rounds, against):
    """The measured process: idle, then recorded once told that a capture runs."""
    import profd
    other = None if against is None else other_annotate(against)
    profd.init()
    for annotate in filter(None, (profd.annotate, other)):
        with annotate("name"):
            pass
    print(json.dumps(measure(count, rounds, profd.annotate, other)), flush=True)
    sys.stdin.readline()
    assert profd.is_recording()
    print(json.dumps(measure(count, rounds, profd.annotate, other)), flush=True)
    sys.stdin.readline()


def run(count, rounds, against):
    from python_daemon import FakeDaemon
    build = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
    with tempfile.TemporaryDirectory(prefix="profd-bench-") as folder:
        env = dict(os.environ, PROFD_SOCKET_DIR=folder)
        env.setdefault("PROFD_CLIENT_LIB", str(build / "lib" / "libprofd_client.so"))
        with FakeDaemon(folder) as daemon:
            process = subprocess.Popen(
                [sys.executable, __file__, "--child", "--count", str(count), "--rounds",
                 str(rounds)] + (["--against", against] if against else []),
                env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
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
    kept, expected = len(events.ranges), count * rounds * (2 if against else 1)
    if kept != expected or sum(events.drops):
        sys.exit("recorded %d of %d ranges, drops %s" % (kept, expected, events.drops))
    return idle, recorded


def summarise(count, rounds, against):
    idle, recorded = run(count, rounds, against)
    loop = min(row[0] for row in idle + recorded)
    columns = {
        "empty loop": [row[0] for row in idle + recorded],
        "empty context manager": [row[1] - loop for row in idle + recorded],
        "idle": [row[2] - loop for row in idle],
        "recorded": [row[2] - loop for row in recorded],
    }
    if against:
        columns["idle, the other"] = [row[3] - loop for row in idle]
        columns["recorded, the other"] = [row[3] - loop for row in recorded]
    return {name: {"best_ns": round(min(values), 1),
                   "median_ns": round(statistics.median(values), 1)}
            for name, values in columns.items()}


def ratio(figures, name):
    """This version's time as a share of the other's: of the best rounds, and of the medians."""
    return tuple(round(figures[name][of] / figures[name + ", the other"][of], 3)
                 for of in ("best_ns", "median_ns"))


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
    parser.add_argument("--against", metavar="FOLDER", help="another version of the package")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.smoke:
        options.count, options.rounds = 1000, 1
    most = MAX_RANGES // 2 if options.against else MAX_RANGES
    if not 0 < options.count * options.rounds <= most:
        parser.error("--count times --rounds must be from 1 to %d" % most)
    if options.child:
        child(options.count, options.rounds, options.against)
        return

    figures = summarise(options.count, options.rounds, options.against)
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
    if options.against:
        for name in ("idle", "recorded"):
            print("  %s, this / the other: %.2f of the best, %.2f of the medians" %
                  (name, *ratio(figures, name)))


if __name__ == "__main__":
    main()
