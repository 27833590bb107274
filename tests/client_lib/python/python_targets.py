"""Runs small Python programs that use the package, for the tests next to this file."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "fakes"))

# What the tests need of it, they import from here.
from python_daemon import (Counter, DEADLINE_S, Events, FakeDaemon, Instant, Memory,  # noqa: E402
                           Operator, Step, Target)

_BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
LIBRARY = os.environ.get("PROFD_CLIENT_LIB", str(_BUILD / "lib" / "libprofd_client.so"))

_PRELUDE = """
import json, os, sys, threading, time
def say(value):
    print(json.dumps(value), flush=True)
def pause():
    say("pause")
    sys.stdin.readline()
def wait_connected():
    # The library tells nobody when it is, so there is no event to wait for.
    deadline = time.monotonic() + %r
    while not profd.status().connected:
        assert time.monotonic() < deadline, "no daemon"
        time.sleep(0.001)
""" % DEADLINE_S


def environment(**changes: str) -> dict:
    """The test's own environment with the package on the path and nothing of a real daemon."""
    result = {key: value for key, value in os.environ.items()
              if not key.startswith(("PROFD_", "SLURM_")) and key not in ("RANK", "WORLD_SIZE")}
    result["PYTHONPATH"] = str(ROOT / "client_lib" / "python")
    result["PYTHONDONTWRITEBYTECODE"] = "1"
    result.update(changes)
    return result


class Program:
    """A running Python program. It prints JSON with say(), and waits at each pause()."""

    def __init__(self, body: str, env: dict) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PRELUDE + textwrap.dedent(body)], env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self.said = []

    def wait_pause(self) -> None:
        """Reads what it says up to its next pause()."""
        for line in self._process.stdout:
            value = json.loads(line)
            if value == "pause":
                return
            self.said.append(value)
        raise AssertionError("the program ended early: %s" % self._process.communicate()[1])

    def resume(self) -> None:
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def finish(self) -> list:
        """Waits for its end; what it said. It must end well and write nothing to stderr."""
        out, err = self._process.communicate(timeout=DEADLINE_S)
        assert self._process.returncode == 0 and not err, (self._process.returncode, err)
        self.said += [json.loads(line) for line in out.splitlines()]
        return self.said

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class ProgramTest(unittest.TestCase):
    """A test whose programs are gone at its end."""

    def start(self, body: str, **env: str) -> Program:
        program = Program(body, environment(**env))
        self.addCleanup(program.kill)
        return program

    def run_program(self, body: str, **env: str) -> list:
        return self.start(body, **env).finish()


class DaemonTest(ProgramTest):
    """A test with a daemon that programs find."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="profd-py-")
        self.addCleanup(folder.cleanup)
        self.daemon_env = {"PROFD_SOCKET_DIR": folder.name, "PROFD_CLIENT_LIB": LIBRARY}
        self.daemon = FakeDaemon(folder.name)
        self.addCleanup(self.daemon.close)

    def start_target(self, body: str, setup: str = "") -> "tuple[Program, Target]":
        program = self.start(
            "import profd\n" + textwrap.dedent(setup) +
            "profd.init()\nwait_connected()\npause()\n" + textwrap.dedent(body) + "\npause()\n",
            **self.daemon_env)
        target = self.daemon.wait_target(program.pid)
        program.wait_pause()
        return program, target

    def record(self, body: str, setup: str = "",
               memory_bytes: int = 4 << 20) -> "tuple[Events, list]":
        """Captures a program while it runs `body`: the events, and what it said."""
        program, target = self.start_target(body, setup)
        capture = target.arm(memory_bytes)
        capture.fire()
        capture.wait_recording()
        program.resume()
        program.wait_pause()
        events = capture.finish()
        program.resume()
        return events, program.finish()
