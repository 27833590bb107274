"""Tools of others open what profctl exports: Perfetto's trace processor and HTA.

Both are made use of where they are installed (`perfetto` and `HolisticTraceAnalysis` from PyPI),
and nothing is fetched by the test: without either, or where the perfetto package cannot get its
own binary, it skips.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(os.environ["PROFD_BUILD_DIR"]) / "bin"
STEPS = 5


def has(module):
    return importlib.util.find_spec(module) is not None


def run(*command, env):
    return subprocess.run([str(part) for part in command], env=env, check=True, timeout=120,
                          stdout=subprocess.PIPE).stdout


def poll(what, check, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if check():
            return
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def captured(folder):
    """Captures five steps of the demo; returns the files that profctl made of them."""
    env = dict(os.environ, PROFD_SOCKET_DIR=str(folder / "run"))
    (folder / "run").mkdir(mode=0o700)
    daemon = subprocess.Popen([BIN / "profd", "--data-dir", folder / "data", "--socket-dir",
                               folder / "run"], env=env)
    demo = None
    try:
        poll("profd serves", lambda: subprocess.run(
            [BIN / "profctl", "node", "--json"], env=env, capture_output=True).returncode == 0)
        demo = subprocess.Popen([BIN / "mlp_train", "--steps", "0", "--step-ms", "20"], env=env,
                                stdout=subprocess.DEVNULL)
        poll("the demo marks steps", lambda: any(
            target["pid"] == demo.pid and target["current_step"] >= 1 for target in
            json.loads(run(BIN / "profctl", "ps", "--json", env=env))["targets"]))
        chrome, perfetto = folder / "trace.json", folder / "trace.pftrace"
        done = json.loads(run(BIN / "profctl", "trace", "--pid", demo.pid, "--steps", STEPS,
                              "-o", chrome, "--json", env=env))
        run(BIN / "profctl", "export", done["id"], "--format", "perfetto", "-o", perfetto, env=env)
        return chrome, perfetto
    finally:
        for process in (demo, daemon):
            if process:
                process.terminate()
                process.wait(30)


def check_trace_processor(files):
    """Returns the reason why it could not be asked, if it could not."""
    from perfetto.trace_processor import TraceProcessor
    try:
        TraceProcessor().close()
    except Exception as error:  # whatever its downloader and its start may raise
        return f"perfetto: the trace processor does not start here: {error}"
    for file in files:
        processor = TraceProcessor(trace=str(file))
        try:
            steps = list(processor.query(
                "select distinct name from slice where name glob 'ProfilerStep#*'"))
            assert len(steps) == STEPS, (file, [step.name for step in steps])
            errors = list(processor.query(
                "select name, value from stats where severity = 'error' and value > 0"))
            assert not errors, (file, [(error.name, error.value) for error in errors])
        finally:
            processor.close()
    return None


def check_hta(chrome):
    from hta.trace_analysis import TraceAnalysis
    analysis = TraceAnalysis(trace_files={0: str(chrome)})
    names = set(analysis.t.symbol_table.get_sym_table())
    assert sum(name.startswith("ProfilerStep#") for name in names) == STEPS, sorted(names)


def main():
    # The readers are libraries for whichever Python has them; ours is needed for nothing here.
    readers = [name for name in ("perfetto", "hta") if has(name)]
    if not readers:
        print(f"SKIP: {sys.executable} has neither perfetto nor HolisticTraceAnalysis")
        sys.exit(77)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="profd-readers."))
    try:
        chrome, perfetto = captured(folder)
        missed = check_trace_processor([chrome, perfetto]) if "perfetto" in readers else None
        if "hta" in readers:
            check_hta(chrome)
        elif missed:
            print("SKIP: " + missed)
            sys.exit(77)
        if missed:
            readers.remove("perfetto")
        print(f"read by {' and '.join(readers)}; missed: {missed or 'nothing'}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
