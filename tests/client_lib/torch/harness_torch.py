"""Programs in PyTorch, unmodified, under `profctl run`: for the tests of this folder.

The Python is PROFD_TORCH_PYTHON's, else /usr/bin/python3. Without torch in it a test skips and
says so.
"""

import collections
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / 'programs'
TESTS = HERE.parents[1]
sys.path.insert(0, str(TESTS / 'e2e'))
import harness  # noqa: E402

MOST_ERROR_BYTES = 4000
PYTHON = os.environ.get('PROFD_TORCH_PYTHON', '/usr/bin/python3')


def torch_version():
    """(1, 13) and its whole name; None: this Python has no torch."""
    found = subprocess.run([PYTHON, '-c', 'import torch; print(torch.__version__)'],
                           capture_output=True, text=True)
    if found.returncode != 0:
        return None
    name = found.stdout.strip()
    major, minor = name.split('.')[:2]
    return (int(major), int(minor)), name


VERSION = torch_version()


def descendants(ancestor):
    """The pids of all processes below that one, the nearest first."""
    children = collections.defaultdict(list)
    for entry in pathlib.Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(OSError):
            # Behind the command, which may hold anything: the state and the parent.
            children[int(entry.read_text().rpartition(')')[2].split()[1])].append(
                int(entry.parent.name))
    found = [ancestor]
    for pid in found:
        found += children[pid]
    return found[1:]


class Program:
    """One of the programs; with `traced` under `profctl run`. `python`: its Python, and what
    stands between that and the program's name."""

    def __init__(self, socket_dir, script, *arguments, traced=True, env=None, python=(PYTHON,)):
        command = [*map(str, python), str(PROGRAMS / script), *map(str, arguments)]
        if traced:
            command = [str(harness.PROFCTL), 'run', '--socket-dir', str(socket_dir), '--', *command]
        library = {'PROFD_CLIENT_LIB': str(harness.LIBRARY)} if traced else {'PROFD_DISABLE': '1'}
        self.start(command, {**harness.environment(socket_dir), **library, **(env or {})})

    def start(self, command, env):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={'PYTHONFAULTHANDLER': '1', **env}, start_new_session=True)
        self.pid = self.process.pid  # `profctl run` becomes the program.

    def answer(self):
        """The words after the next "ok"."""
        for line in self.process.stdout:
            if line.startswith('ok'):
                return line.split()[1:]
        raise AssertionError(
            f'{self.process.args} ended with {self.process.wait()}: {self.last_errors()}')

    def send(self, command):
        self.process.stdin.write(command + '\n')
        self.process.stdin.flush()

    def do(self, command):
        self.send(command)
        return self.answer()

    def end(self):
        """Its exit status, once it has ended by itself."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.stdout.read()
        status = self.process.wait(harness.PATIENCE_S)
        if status != 0:
            print(f'{self.process.args} ended with {status}: {self.last_errors()}', flush=True)
        return status

    def last_errors(self):
        """The end of what it wrote on standard error, and where Python was when it crashed."""
        length = os.fstat(self.errors.fileno()).st_size
        start = max(0, length - MOST_ERROR_BYTES)
        return os.pread(self.errors.fileno(), MOST_ERROR_BYTES, start).decode(errors='replace')

    def close(self):
        """Ends it, and the ranks and workers that it has started, also those in sessions of their
        own, as torchrun's are."""
        for pid in descendants(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.errors.close()
        for pipe in (self.process.stdin, self.process.stdout):
            if not pipe.closed:
                pipe.close()


class TorchTest(harness.EndToEndTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if VERSION is None:
            print(f'SKIP: {PYTHON} has no torch', flush=True)
            raise SystemExit(77)

    def program(self, script, *arguments, **kwargs):
        program = Program(self.daemon.socket_dir, script, *arguments, **kwargs)
        self.addCleanup(program.close)
        return program

    def target_of(self, pid):
        """What `profctl ps` says of it; None: it is not there."""
        targets = self.daemon.ctl('ps', '--json').json['targets']
        return next((t for t in targets if t['pid'] == pid), None)

    def await_target(self, program, source=None):
        """Waits until it is a target, and its steps come from `source`."""
        def there():
            target = self.target_of(program.pid)
            return target if target and (source is None or target['step_source'] == source) else None
        return harness.until(there, f'{program.process.args} is a target with steps of {source}; '
                             f'ps: {self.daemon.ctl("ps", "--json").out}')

    def export(self, capture, kind='chrome'):
        path = self.folder / f'{capture["id"]}.{kind}.json'
        result = self.daemon.ctl('export', capture['id'], '--format', kind, '-o', path)
        self.assertEqual(result.status, harness.DONE, result.err)
        return path
