"""What tests share that hold our figures of imported traces against those of another tool."""

import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["PROFD_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ.get("PROFD_SOURCE_DIR", "."))
DATA = pathlib.Path(os.environ.get("PROFD_TEST_DATA", SOURCE.resolve().parent / "shared" / "data"))
PROFCTL = BUILD / "bin" / "profctl"


def skip(why):
    print("SKIP: " + why)
    sys.exit(77)


def output(*command):
    return subprocess.run([str(part) for part in command], check=True, timeout=300,
                          stdout=subprocess.PIPE).stdout


def python_with(module, variable):
    """The interpreter that `variable` names, or this one; skips where it has no `module`."""
    python = os.environ.get(variable, sys.executable)
    if subprocess.run([python, "-c", "import " + module], capture_output=True).returncode != 0:
        skip(f"{python} has no {module}; {variable} may name one that has")
    return python


def imported(names):
    """Of each trace its name, its file and the capture made of it, while that is asked for; skips
    where there are no traces."""
    if not (DATA / "traces").is_dir():
        skip(f"no traces in {DATA}; set PROFD_TEST_DATA")
    with tempfile.TemporaryDirectory(prefix="profd-imported-") as folder:
        for name in names:
            trace = DATA / "traces" / (name + ".json.gz")
            capture = pathlib.Path(folder) / (name + ".profd")
            output(PROFCTL, "import", trace, "-o", capture)
            yield name, trace, capture
