"""Real programs on temporary sockets: profd, profctl and targets, for the end-to-end tests.

Everything lives below one temporary folder and ends with the test. Waiting is for events
(an answer on a pipe, a state of a capture), each with a deadline that only a defect meets.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE_DIR = pathlib.Path(os.environ.get('PROFD_SOURCE_DIR', pathlib.Path(__file__).parents[2]))
BUILD_DIR = pathlib.Path(os.environ.get('PROFD_BUILD_DIR', SOURCE_DIR / 'build/release'))
PROFD = BUILD_DIR / 'bin/profd'
PROFCTL = BUILD_DIR / 'bin/profctl'
TARGET = BUILD_DIR / 'tests/bin/scripted_target'
MLP = BUILD_DIR / 'bin/mlp_train'
LIBRARY = BUILD_DIR / 'lib/libprofd_client.so'
PATIENCE_S = float(os.environ.get('PROFD_TEST_PATIENCE_S', 60))

# Statuses that profctl documents.
DONE, FAILED, USAGE, PARTIAL, REFUSED, NO_DAEMON, INTERRUPTED = 0, 1, 2, 4, 5, 6, 130


def until(condition, what):
    """Polls where there is nothing to wait on; returns what `condition` gave."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.005)
    raise AssertionError(f'never came: {what}')


def is_sanitized():
    cache = BUILD_DIR / 'CMakeCache.txt'
    return cache.exists() and re.search(r'^PROFD_SANITIZE:\w+=.', cache.read_text(), re.M)


class Daemon:
    """A profd of our own; `flags` replace the defaults."""

    prefix = ()  # Before its command: what puts it somewhere.

    def __init__(self, folder, *flags, env=None, preexec=None):
        self.folder = pathlib.Path(folder)
        self.data_dir = self.folder / 'data'
        self.socket_dir = self.folder / 'run'
        self.log_path = self.folder / 'profd.log'
        self.flags = flags
        self.env = env or {}
        self.preexec = preexec
        self.process = None

    def start(self):
        log = open(self.log_path, 'ab')
        self.process = subprocess.Popen(
            [*self.prefix, PROFD, '--data-dir', self.data_dir, '--socket-dir', self.socket_dir,
             '--log-level', 'debug', *self.flags],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.env},
            preexec_fn=self.preexec)
        log.close()
        until(self.answers, f'profd answers; its log:\n{self.log()}')
        return self

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f'profd ended with {self.process.returncode}:\n{self.log()}')
        return self.ctl('node').status == DONE

    def ctl(self, *arguments, env=None):
        return run_profctl(self.socket_dir, *arguments, env=env)

    def log(self):
        return self.log_path.read_text(errors='replace') if self.log_path.exists() else ''

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def terminate(self):
        """SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def stop(self):
        if self.process is not None and self.process.poll() not in (None, 0, -signal.SIGKILL):
            # It ended by itself, which is why the test fails; why it did only its log says.
            print(f'profd ended with {self.process.returncode}:\n{self.log()[-20000:]}', flush=True)
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Result:
    def __init__(self, completed):
        self.status = completed.returncode
        self.out = completed.stdout.decode('utf-8')
        self.err = completed.stderr.decode('utf-8', 'replace')

    @property
    def json(self):
        return json.loads(self.out)


def environment(socket_dir, env=None):
    """What is None in `env` is unset. No copies of captures are left in the user's cache."""
    base = {k: v for k, v in os.environ.items() if k not in ('PROFD_ADDRESS', 'XDG_RUNTIME_DIR')}
    ours = {'PROFD_SOCKET_DIR': str(socket_dir), 'PROFD_CACHE_DIR': ''}
    return {k: v for k, v in {**base, **ours, **(env or {})}.items() if v is not None}


def run_profctl(socket_dir, *arguments, env=None, prefix=()):
    completed = subprocess.run([*prefix, PROFCTL, *map(str, arguments)], stdin=subprocess.DEVNULL,
                               capture_output=True, timeout=2 * PATIENCE_S,
                               env=environment(socket_dir, env))
    return Result(completed)


class Target:
    """A scripted target (tests/e2e/scripted_target.cc)."""

    def __init__(self, daemon, env=None, preexec=None):
        self.process = subprocess.Popen([TARGET], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment(daemon.socket_dir, env),
                                        preexec_fn=preexec)
        self.pid = self.process.pid

    def send(self, command):
        self.process.stdin.write(command.encode() + b'\n')
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline().decode().strip()
        if not line.startswith('ok'):
            raise AssertionError(f'target: {line or "ended"}')
        return line.split()[1:]

    def do(self, *commands):
        answer = []
        for command in commands:
            self.send(command)
            answer = self.answer()
        return answer

    def connect(self):
        self.do('init', 'await-connected')
        return self

    def status(self):
        names = ('connected', 'recording', 'step_count', 'dropped', 'captures')
        return dict(zip(names, map(int, self.do('status'))))

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(BrokenPipeError):  # Of a command that never went out.
            self.process.stdin.close()
        self.process.stdout.close()


class Tracing:
    """A `profctl trace` that runs while the test goes on."""

    def __init__(self, daemon, *arguments, json_output=True):
        flags = ['--json'] if json_output else []
        self.process = subprocess.Popen(
            [PROFCTL, 'trace', *map(str, arguments), *flags], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(daemon.socket_dir))

    def result(self):
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return Result(subprocess.CompletedProcess([], self.process.returncode, out, err))


class EndToEndTest(unittest.TestCase):
    """Starts a daemon per test; `self.flags` are added to its command line."""

    flags = ()

    @classmethod
    def setUpClass(cls):
        for program in (PROFD, PROFCTL, TARGET):
            if not program.exists():
                raise AssertionError(f'{program} is not built')

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_e2e_'))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.daemon = Daemon(self.folder, *self.flags)
        self.addCleanup(self.daemon.stop)
        self.daemon.start()

    def target(self, **kwargs):
        target = Target(self.daemon, **kwargs)
        self.addCleanup(target.end)
        return target.connect()

    def trace(self, *arguments, **kwargs):
        tracing = Tracing(self.daemon, *arguments, **kwargs)

        def finish():
            if tracing.process.poll() is None:
                tracing.process.kill()
                tracing.process.communicate()
        self.addCleanup(finish)
        return tracing

    def captures(self, *filters):
        result = self.daemon.ctl('captures', '--json', *filters)
        self.assertEqual(result.status, DONE, result.err)
        return result.json['captures']

    def live_state(self):
        live = [c for c in self.captures()
                if c['state'] not in ('COMPLETE', 'PARTIAL', 'FAILED', 'CANCELLED')]
        return live[0]['state'] if live else None

    def await_state(self, *states):
        return until(lambda: self.live_state() in states, f'state {states}; log:\n' +
                     self.daemon.log()[-4000:])

    def show(self, capture_id):
        result = self.daemon.ctl('show', capture_id, '--json')
        self.assertEqual(result.status, DONE, result.err)
        return result.json

    def ops(self, where, *arguments):
        result = self.daemon.ctl('ops', where, '--json', *arguments)
        self.assertEqual(result.status, DONE, result.err)
        return {row['name']: row for row in result.json['rows']}

    def trace_five_steps(self, target):
        """A whole capture of a target whose `train` runs."""
        result = self.trace('--pid', target.pid, '--steps', '5').result()
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-2000:])
        self.assertEqual(result.json['state'], 'COMPLETE')
        self.assertEqual(len(result.json['steps']), 5)
        return result.json

    def assert_still_serves(self, target):
        """What must hold after every fault: the target lives and can be captured again."""
        self.assertIsNone(target.process.poll(), 'the target ended')
        target.do('await-connected', 'train 1')
        capture = self.trace_five_steps(target)
        target.do('rest')
        return capture


def main():
    sys.stdout.reconfigure(line_buffering=True)
    unittest.main(verbosity=2)
