"""Real programs on temporary sockets: profd, profctl and targets, for the end-to-end tests.

Everything lives below one temporary folder and ends with the test. Waiting is for events
(an answer on a pipe, a state of a capture), each with a deadline that only a defect meets.

Another user: `as_uid=NOBODY` runs profctl, a trace, a target, or a script as that user:
    self.need_uid()                          # Skips where the test cannot become NOBODY.
    self.daemon.ctl('ps', as_uid=NOBODY)
    self.trace('--pid', pid, as_uid=NOBODY)  # also self.target(as_uid=NOBODY)
    peer = self.raw_client('agent/agent.sock', as_uid=NOBODY)  # peer.sockets[0], peer.pid
    self.python(script, *arguments, as_uid=NOBODY)             # A subprocess.Popen.

Little memory: `memory_max_bytes = 512 << 20` in a test class runs its daemon inside a memory cgroup
(v1 or v2); `self.memory.peak_bytes()` and `.oom_kill_count()` say what happened in it.

A small disk: `disk_bytes = 24 << 20` in a test class mounts a tmpfs of that size at `self.disk`
and puts the data directory into it.

Each of these skips the test, with the reason, where the machine does not allow it.
"""

import collections
import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
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

NOBODY = 65534  # An ordinary user that exists everywhere.

# Statuses that profctl documents.
DONE, FAILED, USAGE, CONDITION, PARTIAL, REFUSED, NO_DAEMON, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130


def until(condition, what):
    """Polls where there is nothing to wait on; returns what `condition` gave. `what` may be a function."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.005)
    raise AssertionError(f'never came: {what() if callable(what) else what}')


def is_sanitized():
    cache = BUILD_DIR / 'CMakeCache.txt'
    return cache.exists() and re.search(r'^PROFD_SANITIZE:\w+=.', cache.read_text(), re.M)


def as_user(as_uid):
    """What makes subprocess.Popen run a program as that user; None: as ourselves."""
    return {} if as_uid is None else {'user': as_uid, 'group': as_uid, 'extra_groups': []}


class MemoryGroup:
    """A memory cgroup. `why_not` says why this machine has none; otherwise it is empty."""

    def __init__(self, max_bytes):
        self.why_not = ''
        self.folder = None
        self.is_v2 = False
        for parent, is_v2 in self._parents():
            try:
                self._create(parent, is_v2, max_bytes)
                return
            except OSError as error:
                self.why_not = f'cannot create a memory cgroup in {parent}: {error}'
        self.why_not = self.why_not or 'this machine has no memory cgroups'

    @staticmethod
    def _parents():
        """Where one may be created, the likeliest first."""
        own = {}
        for line in pathlib.Path('/proc/self/cgroup').read_text().splitlines():
            _, controllers, path = line.split(':', 2)
            for controller in controllers.split(','):
                own[controller] = path.lstrip('/')
        root = pathlib.Path('/sys/fs/cgroup')
        if (root / 'memory/memory.limit_in_bytes').exists():
            return [(root / 'memory' / own.get('memory', ''), False), (root / 'memory', False)]
        with contextlib.suppress(OSError):
            if 'memory' in (root / 'cgroup.controllers').read_text().split():
                return [(root / own.get('', ''), True), (root, True)]
        return []

    def _create(self, parent, is_v2, max_bytes):
        if is_v2 and 'memory' not in (parent / 'cgroup.subtree_control').read_text().split():
            (parent / 'cgroup.subtree_control').write_text('+memory')
        folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_e2e_', dir=parent))
        try:
            if is_v2:
                (folder / 'memory.max').write_text(str(max_bytes))
                self._write_if_there(folder / 'memory.swap.max', '0')
            else:
                (folder / 'memory.limit_in_bytes').write_text(str(max_bytes))
                self._write_if_there(folder / 'memory.memsw.limit_in_bytes', str(max_bytes))
        except OSError:
            folder.rmdir()
            raise
        self.folder, self.is_v2 = folder, is_v2

    @staticmethod
    def _write_if_there(path, text):
        if path.exists():
            path.write_text(text)

    def join(self):
        """For preexec: the calling process joins the cgroup."""
        (self.folder / 'cgroup.procs').write_text('0')

    def peak_bytes(self):
        """None on kernels that do not report it (v2 before 5.19)."""
        path = self.folder / ('memory.peak' if self.is_v2 else 'memory.max_usage_in_bytes')
        return int(path.read_text()) if path.exists() else None

    def oom_kill_count(self):
        text = (self.folder / ('memory.events' if self.is_v2 else 'memory.oom_control')).read_text()
        return int(re.search(r'^oom_kill (\d+)', text, re.M).group(1))

    def remove(self):
        def removed():
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            return not self.folder.exists()
        until(removed, f'the last process leaves {self.folder}')


# Connects as whoever runs it, hands the sockets over, and lives until its input ends: the daemon
# sees this process and its user as the peer.
_RAW_CLIENT = '''
import socket, sys
hand_over = socket.socket(fileno=int(sys.argv[1]))
for _ in range(int(sys.argv[4])):
    peer = socket.socket(socket.AF_UNIX, getattr(socket, sys.argv[3]))
    peer.connect(sys.argv[2])
    socket.send_fds(hand_over, [b"s"], [peer.fileno()])
    peer.close()
hand_over.close()
sys.stdin.read()
'''


class RawClient:
    """`count` connections to a unix socket, made by a process of the given user."""

    def __init__(self, path, as_uid=None, kind='SOCK_SEQPACKET', count=1):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.process = subprocess.Popen(
                [sys.executable, '-c', _RAW_CLIENT, str(theirs.fileno()), path, kind, str(count)],
                stdin=subprocess.PIPE, pass_fds=[theirs.fileno()], **as_user(as_uid))
            theirs.close()
            self.pid = self.process.pid
            self.sockets = []
            ours.settimeout(PATIENCE_S)
            while len(self.sockets) < count:
                data, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
                if not data:
                    break
                self.sockets += [socket.socket(fileno=fd) for fd in descriptors]
        for peer in self.sockets:
            peer.settimeout(PATIENCE_S)
        if len(self.sockets) < count:
            self.end()
            raise AssertionError(f'only {len(self.sockets)} of {count} connections to {path}')

    def end(self):
        for peer in self.sockets:
            peer.close()
        self.process.communicate(timeout=PATIENCE_S)


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
        self.memory = None  # A MemoryGroup to start in.
        self.process = None

    def _before_exec(self):
        if self.memory is not None:
            self.memory.join()
        if self.preexec is not None:
            self.preexec()

    def start(self):
        log = open(self.log_path, 'ab')
        self.process = subprocess.Popen(
            [*self.prefix, PROFD, '--data-dir', self.data_dir, '--socket-dir', self.socket_dir,
             '--log-level', 'debug', '--user', 'root', *self.flags],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.env},
            preexec_fn=self._before_exec if self.memory or self.preexec else None)
        log.close()
        until(self.answers, f'profd answers; its log:\n{self.log()}')
        return self

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f'profd ended with {self.process.returncode}:\n{self.log()}')
        return self.ctl('node').status == DONE

    def ctl(self, *arguments, env=None, as_uid=None):
        return run_profctl(self.socket_dir, *arguments, env=env, as_uid=as_uid)

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


@functools.cache
def schemas():
    """What `profctl schema` prints, by command. Each title is "profctl COMMAND ... --json"."""
    printed = subprocess.run([PROFCTL, 'schema'], check=True, capture_output=True).stdout
    by_command = collections.defaultdict(list)
    for schema in json.loads(printed).values():
        by_command[schema['title'].split()[1]].append(schema)
    return by_command


JSON_TYPES = {'integer': int, 'number': (int, float), 'boolean': bool, 'string': str,
              'array': list, 'object': dict, 'null': type(None)}


def has_type(value, name):
    return isinstance(value, JSON_TYPES[name]) and isinstance(value, bool) == (name == 'boolean')


def violations(value, schema, at='$'):
    """Yields what of `value` does not keep to `schema`, which uses what those of profctl use."""
    types = schema['type'] if isinstance(schema['type'], list) else [schema['type']]
    if not any(has_type(value, name) for name in types):
        yield f'{at}: {str(value)[:100]} is not of type {types}'
    elif isinstance(value, dict):
        properties, more = schema.get('properties', {}), schema['additionalProperties']
        yield from (f'{at} lacks {key}' for key in schema.get('required', ()) if key not in value)
        for key, member in value.items():
            if key in properties:
                yield from violations(member, properties[key], f'{at}.{key}')
            elif more is False:
                yield f'{at} has {key}'
            else:
                yield from violations(member, more, f'{at}.{key}')
    elif isinstance(value, list) and 'prefixItems' in schema:
        if len(value) != len(schema['prefixItems']):
            yield f'{at} has {len(value)} items'
        for item, of_item in zip(value, schema['prefixItems']):
            yield from violations(item, of_item, f'{at}[]')
    elif isinstance(value, list):
        for item in value:
            yield from violations(item, schema['items'], f'{at}[]')


def check_schema(words, answer):
    """Raises unless the --json of `profctl WORDS` keeps to a schema of the command."""
    command = next((word for word in words if word in schemas()), None)
    if command is None:
        raise AssertionError(f'no schema of the JSON of: {words}')
    found = [list(violations(answer, schema)) for schema in schemas()[command]]
    if all(found):
        raise AssertionError(f'{words}: {min(found, key=len)[:20]}')


class Result:
    """What profctl printed. `json` has been checked against the schemas of the command."""

    def __init__(self, completed):
        self.status = completed.returncode
        self.out = completed.stdout.decode('utf-8')
        self.err = completed.stderr.decode('utf-8', 'replace')
        words = list(map(str, completed.args))
        self.words = words[words.index(str(PROFCTL)) + 1:] if str(PROFCTL) in words else words

    @functools.cached_property
    def json(self):
        answer = json.loads(self.out)
        if '--json' in self.words:
            check_schema(self.words, answer)
        return answer


def environment(socket_dir, env=None):
    """What is None in `env` is unset. No copies of captures are left in the user's cache."""
    base = {k: v for k, v in os.environ.items() if k not in ('PROFD_ADDRESS', 'XDG_RUNTIME_DIR')}
    ours = {'PROFD_SOCKET_DIR': str(socket_dir), 'PROFD_CACHE_DIR': ''}
    return {k: v for k, v in {**base, **ours, **(env or {})}.items() if v is not None}


def run_profctl(socket_dir, *arguments, env=None, prefix=(), as_uid=None):
    completed = subprocess.run([*prefix, PROFCTL, *map(str, arguments)], stdin=subprocess.DEVNULL,
                               capture_output=True, timeout=2 * PATIENCE_S,
                               env=environment(socket_dir, env), **as_user(as_uid))
    return Result(completed)


class Target:
    """A scripted target (tests/e2e/scripted_target.cc)."""

    def __init__(self, daemon, env=None, preexec=None, as_uid=None):
        self.process = subprocess.Popen([TARGET], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment(daemon.socket_dir, env),
                                        preexec_fn=preexec, **as_user(as_uid))
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

    def __init__(self, daemon, *arguments, json_output=True, as_uid=None):
        flags = ['--json'] if json_output else []
        self.process = subprocess.Popen(
            [PROFCTL, 'trace', *map(str, arguments), *flags], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(daemon.socket_dir),
            **as_user(as_uid))

    def result(self):
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return Result(subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err))


class EndToEndTest(unittest.TestCase):
    """Starts a daemon per test; `self.flags` are added to its command line."""

    flags = ()
    daemon_env = {}          # Added to the daemon's environment.
    memory_max_bytes = None  # Of the daemon's memory cgroup; None: none of its own.
    disk_bytes = None        # Of the file system with the data directory; None: no such limit.

    @classmethod
    def setUpClass(cls):
        for program in (PROFD, PROFCTL, TARGET):
            if not program.exists():
                raise AssertionError(f'{program} is not built')

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_e2e_'))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.daemon = Daemon(self.folder, *self.flags)
        self.daemon.env.update(self.daemon_env)
        if self.disk_bytes is not None:
            self._use_small_disk(self.disk_bytes)
        if self.memory_max_bytes is not None:
            self._use_little_memory(self.memory_max_bytes)
        self.addCleanup(self.daemon.stop)
        self.daemon.start()

    def _use_small_disk(self, size_bytes):
        if os.geteuid() != 0:
            self.skipTest('needs root, to mount a small tmpfs')
        self.disk = self.folder / 'disk'
        self.disk.mkdir()
        mounted = subprocess.run(
            ['mount', '-t', 'tmpfs', '-o', f'size={size_bytes}', 'tmpfs', self.disk],
            capture_output=True)
        if mounted.returncode != 0:
            self.skipTest('cannot mount a tmpfs here: ' + mounted.stderr.decode())
        self.addCleanup(subprocess.run, ['umount', '-l', self.disk])
        self.daemon.data_dir = self.disk / 'data'

    def _use_little_memory(self, max_bytes):
        if is_sanitized():
            self.skipTest('a sanitizer needs more memory than the cgroup allows')
        self.memory = MemoryGroup(max_bytes)
        if self.memory.why_not:
            self.skipTest(self.memory.why_not)
        self.addCleanup(self.memory.remove)
        self.daemon.memory = self.memory

    def need_uid(self, as_uid=NOBODY):
        """Skips unless the test can run the programs under test as that user. Opens the test's
        folder (not the data directory) to it."""
        if os.geteuid() != 0:
            self.skipTest('needs root, to run programs as another user')
        self.folder.chmod(0o755)
        try:
            if run_profctl(self.daemon.socket_dir, 'version', as_uid=as_uid).status == DONE:
                return
        except PermissionError:
            pass
        self.skipTest(f'user {as_uid} cannot reach the programs below {BUILD_DIR}')

    def raw_client(self, socket_name, **kwargs):
        """See RawClient; `socket_name` is below the socket directory."""
        client = RawClient(str(self.daemon.socket_dir / socket_name), **kwargs)
        self.addCleanup(client.end)
        return client

    def python(self, script, *arguments, as_uid=None, **kwargs):
        """Starts a Python script (its text); it ends with the test."""
        process = subprocess.Popen(
            [sys.executable, '-c', script, *map(str, arguments)],
            env=environment(self.daemon.socket_dir), **as_user(as_uid), **kwargs)

        def end():
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        self.addCleanup(end)
        return process

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
