#!/usr/bin/python3
"""How long an import takes, beside others' reading of the same file, taking turns in one run.

    import_bench.py [--trace TRACE.json.gz] [--rounds N]

Ours is a stored, checked and synced capture, in one process that has started already
(profd_bench import); the start of `profctl import` is shown apart. Theirs: json.load of Python after
gzip, and the parse of one trace by Holistic Trace Analysis, where it is installed. Medians; nothing is
asserted.
"""

import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build/release"))
DATA = pathlib.Path(os.environ.get("PROFD_TEST_DATA", ROOT.parent / "shared" / "data"))


def timed(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def read_json(trace):
    opened = gzip.open(trace) if trace.suffix == ".gz" else open(trace, "rb")
    with opened as file:
        json.load(file)


def hta_parser():
    """A call that parses one trace as HTA does, or None where it is not installed."""
    try:
        from hta.common.trace_parser import parse_trace_dataframe
        from hta.configs.parser_config import ParserConfig
    except ImportError:
        return None
    config = ParserConfig(ParserConfig.get_minimum_args())
    return lambda trace: parse_trace_dataframe(trace, config)


def import_once(trace, folder):
    """Seconds of the import itself, as the program that does it says."""
    out = subprocess.run([BUILD / "tests/bin/profd_bench", "import", trace, folder, "1"], check=True,
                         capture_output=True, text=True)
    return float(out.stdout.split()[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=pathlib.Path,
                        default=DATA / "traces/h100_owlv2_large.json.gz")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if not options.trace.exists():
        print(f"SKIP: no {options.trace}")
        return 77
    hta = hta_parser()
    figures = {"profd": [], "profctl import, with its start": [], "json.load": [], "HTA": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            figures["profd"].append(import_once(options.trace, folder))
            figures["profctl import, with its start"].append(timed(lambda: subprocess.run(
                [BUILD / "bin/profctl", "import", options.trace, "-o",
                 pathlib.Path(folder) / "x.profd"], check=True, capture_output=True)))
            figures["json.load"].append(timed(lambda: read_json(options.trace)))
            if hta is not None:
                figures["HTA"].append(timed(lambda: hta(str(options.trace))))
    ours = statistics.median(figures["profd"])
    for what, seconds in figures.items():
        if not seconds:
            print(f"{what:32} not installed")
            continue
        median = statistics.median(seconds)
        print(f"{what:32} {median:8.3f} s   {median / ours:6.1f} times ours")
    return 0


if __name__ == "__main__":
    sys.exit(main())
