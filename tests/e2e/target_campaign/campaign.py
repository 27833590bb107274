"""Runs programs with and without the client library and compares what they print and return.

A Program is one line of the campaign, a situation what its daemon does meanwhile:

    alive      captures it again and again
    killed     captures it and is killed while the program is at work
    hung       captures it and is stopped (SIGSTOP) while the program is at work
    hostile    sends garbage and writes nonsense into the memory that it handed over
    absent     was never started

In the first three, the work begins after one complete capture, usually in the next one.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import harness  # noqa: E402
from hostile_daemon import HostileDaemon  # noqa: E402

HERE = pathlib.Path(__file__).parent
HOST = harness.BUILD_DIR / 'tests/bin/campaign_host'
# The library has threads before main().
AT_ITS_START = {'PROFD_START': '1'}
# What a program may await of the library.
NONE_OF_OURS, SECOND_RECORDING = 'nothing', 'second recording'
SITUATIONS = ('alive', 'killed', 'hung', 'hostile', 'absent')


class Unavailable(Exception):
    """What this machine lacks for a program."""


@dataclasses.dataclass
class Program:
    """`command` may have '{folder}' in it. `awaits`: the state of the library before its work."""
    command: list
    awaits: str = SECOND_RECORDING
    env: dict = dataclasses.field(default_factory=dict)
    limits: dict = dataclasses.field(default_factory=dict)  # resource.RLIMIT_* -> value
    as_uid: int = None
    ignored: str = '(?!)'  # A pattern of lines that may differ.
    capture_after: bool = False  # A capture must succeed after its output has ended.

    def start(self, folder, socket_dir, with_us):
        command = [str(word).replace('{folder}', str(folder)) for word in self.command]
        env = {k: v for k, v in os.environ.items() if not k.startswith('PROFD_')}
        env.update({'PROFD_CAMPAIGN_AWAIT': self.awaits, 'PYTHONDONTWRITEBYTECODE': '1', **self.env})
        if with_us:
            command = [str(harness.PROFCTL), 'run', '--preload', '--socket-dir', str(socket_dir),
                       '--', *command]

        def limit():
            for which, value in self.limits.items():
                resource.setrlimit(which, (value, value))
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=env, cwd=folder, preexec_fn=limit,
                                **harness.as_user(self.as_uid))


@dataclasses.dataclass
class Outcome:
    status: int
    out: bytes
    err: bytes
    capture_error: str = ''

    def differs_from(self, other):
        """What differs, in words; empty: nothing."""
        if (self.status, self.out, self.err) == (other.status, other.out, other.err):
            return self.capture_error
        return (f'exit {other.status} became {self.status}; output {other.out[-1000:]!r} became '
                f'{self.out[-1000:]!r}; stderr {other.err[-1000:]!r} became {self.err[-3000:]!r}')


class Capturer(threading.Thread):
    """Captures a process as often as it can, until end()."""

    def __init__(self, daemon, pid):
        super().__init__(daemon=True)
        self.daemon_under_test = daemon
        self.pid = pid
        self.is_over = threading.Event()
        self.count = 0  # Of complete captures.
        self.error = ''  # Of the last one that is not.
        self.start()

    def run(self):
        while not self.is_over.is_set():
            # The second one lasts: in it the work of the program begins.
            duration = '200ms' if self.count == 1 else '40ms'
            result = self.daemon_under_test.ctl('trace', '--pid', self.pid, '--duration', duration,
                                                '--buffer', '1MiB', '--timeout', '5s')
            if result.status == harness.DONE:
                self.count += 1
            else:
                self.error = result.err
                self.is_over.wait(0.01)

    def end(self):
        self.is_over.set()
        self.join()


class Campaign:
    """A daemon, a folder, and the outcomes without us, each of which is found once."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_campaign_'))
        self.folder.chmod(0o755)
        self.daemon = harness.Daemon(self.folder)
        self.baselines = {}
        self.run_count = 0
        self.capture_count = 0
        self.hostile_session_count = 0

    def __enter__(self):
        self.daemon.start()
        return self

    def __exit__(self, *unused):
        self.daemon.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def baseline(self, name, program):
        if name not in self.baselines:
            self.baselines[name] = self._run(program, None)
            if self.baselines[name].status < 0:
                raise AssertionError(f'{name} ends by a signal without us: {self.baselines[name]}')
        return self.baselines[name]

    def difference(self, name, program, situation, seed=0):
        """Runs it once with us; returns what differs, in words. Empty: nothing."""
        expected = self.baseline(name, program)
        self.run_count += 1
        if situation == 'hostile':
            program = dataclasses.replace(program, awaits=program.awaits.removeprefix('second '))
            sockets = self.folder / f'hostile{self.run_count}'
            hostile = HostileDaemon(sockets, seed)
            try:
                outcome = self._run(program, sockets)
            finally:
                hostile.end()
                self.hostile_session_count += hostile.session_count
            return outcome.differs_from(expected)
        if situation == 'absent':
            alone = dataclasses.replace(program, awaits=NONE_OF_OURS)
            return self._run(alone, self.folder / 'absent').differs_from(expected)
        meddle = {'alive': None, 'killed': self.daemon.kill,
                  'hung': lambda: self.daemon.process.send_signal(signal.SIGSTOP)}[situation]
        try:
            outcome = self._run(program, self.daemon.socket_dir, meddle)
        finally:
            if situation == 'killed' and self.daemon.process.poll() is not None:
                self.daemon.start()
        if self.daemon.process.poll() is not None:
            return f'profd ended with {self.daemon.process.returncode}'
        return outcome.differs_from(expected)

    def _run(self, program, socket_dir, meddle=None):
        folder = pathlib.Path(tempfile.mkdtemp(prefix='run', dir=self.folder))
        folder.chmod(0o777)
        process = program.start(folder, socket_dir, socket_dir is not None)
        capturer = None
        if socket_dir == self.daemon.socket_dir:
            capturer = Capturer(self.daemon, process.pid)
        timer = threading.Timer(harness.PATIENCE_S, process.kill)
        timer.start()
        try:
            return self._watch(program, process, folder, capturer, meddle)
        finally:
            timer.cancel()
            process.kill()
            process.wait()
            if meddle is not None and self.daemon.process.poll() is None:
                self.daemon.process.send_signal(signal.SIGCONT)
            if capturer is not None:
                capturer.end()
                self.capture_count += capturer.count
            shutil.rmtree(folder, ignore_errors=True)

    def _watch(self, program, process, folder, capturer, meddle):
        errors, capture_error = [], ''
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
        reader.start()
        # A program that fails before it is ready ends.
        harness.until(lambda: (folder / 'ready').exists() or process.poll() is not None, 'ready')
        if program.awaits == SECOND_RECORDING and capturer is not None:
            harness.until(lambda: capturer.count > 0 or process.poll() is not None,
                          lambda: f'a capture before its work: {capturer.error}')
            if capturer.count == 0:
                capture_error = f'it ended before a capture was complete: {capturer.error}'
        if meddle is not None:
            meddle()
        (folder / 'go').touch()
        out = process.stdout.read()
        if program.capture_after and capturer is not None and meddle is None:
            capture_error = capture_error or self._capture_error(capturer, process.pid)
        (folder / 'seen').touch()
        status = process.wait()
        reader.join()
        process.stdout.close()
        process.stderr.close()
        return Outcome(status, self._clean(program, out), self._clean(program, errors[0]),
                       capture_error)

    def _capture_error(self, capturer, pid):
        capturer.end()
        result = self.daemon.ctl('trace', '--pid', pid, '--steps', '2', '--timeout', '10s')
        return '' if result.status == harness.DONE else f'no capture afterwards: {result.err}'

    @staticmethod
    def _clean(program, text):
        """Without what profctl says before it becomes the program."""
        ignored = re.compile(b'^profctl: |' + program.ignored.encode())
        return b''.join(line for line in text.splitlines(True) if not ignored.match(line))


# ---- The programs

def host(case, **kwargs):
    return lambda: Program([HOST, case, '{folder}'], **kwargs)


def as_root(make):
    def checked():
        if os.geteuid() != 0:
            raise Unavailable('needs root')
        return make()
    return checked


def as_nobody(make):
    def checked():
        program = as_root(make)()
        if subprocess.run([harness.PROFCTL, 'version'], capture_output=True,
                          **harness.as_user(harness.NOBODY)).returncode == 126:
            raise Unavailable(f'user {harness.NOBODY} cannot reach the programs under test')
        program.as_uid = harness.NOBODY
        return program
    return checked


def need_program(name):
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f'{name} is not installed')
    return found


_BUILT = {}


def built(name, *compiler, source='host_program.c'):
    """The host program, or another source file, as this compiler makes it."""
    if name not in _BUILT:
        need_program(compiler[0])
        folder = tempfile.mkdtemp(prefix='profd_campaign_')
        os.chmod(folder, 0o755)
        done = subprocess.run([*compiler, '-O1', HERE / source, '-o', f'{folder}/{name}',
                               '-pthread'], capture_output=True, text=True)
        if done.returncode != 0:
            raise Unavailable(f'{compiler[0]} cannot build it: {done.stderr[-200:]}')
        _BUILT[name] = f'{folder}/{name}'
    return _BUILT[name]


def remove_built():
    for path in _BUILT.values():
        shutil.rmtree(pathlib.Path(path).parent, ignore_errors=True)
    _BUILT.clear()


def musl():
    return Program([built('musl', 'musl-gcc'), 'fork_children', '{folder}'], awaits=NONE_OF_OURS)


def musl_below_a_shell():
    return Program(['sh', '-c', f'{built("musl", "musl-gcc")} allocations {{folder}}; echo $?'],
                   awaits=NONE_OF_OURS)


def static():
    return Program([built('static', 'cc', '-static', '-DCAMPAIGN_STATIC'), 'fork_children',
                    '{folder}'], awaits=NONE_OF_OURS)


def setuid_program():
    path = pathlib.Path(built('setuid', 'cc'))
    os.chown(path, 0, 0)
    path.chmod(0o4755)
    return Program([path, 'work_for_a_while', '{folder}'], awaits=NONE_OF_OURS)


def address_sanitizer_program():
    return Program([built('asan', 'cc', '-fsanitize=address', '-fno-sanitize=leak'), 'allocations',
                    '{folder}'], env={'ASAN_OPTIONS': 'detect_leaks=0'})


def thread_sanitizer_program():
    program = built('tsan', 'cc', '-fsanitize=thread')
    alone = subprocess.run(['setarch', '-R', program], capture_output=True)  # Without a case: 2.
    if alone.returncode != 2:
        raise Unavailable('ThreadSanitizer does not run here: ' + alone.stderr.decode()[-200:])
    return Program(['setarch', '-R', program, 'allocations', '{folder}'])


def preloaded(library, package):
    def make():
        found = sorted(pathlib.Path('/usr/lib').glob(f'*/{library}'))
        if not found:
            raise Unavailable(f'{package} is not installed')
        return Program([HOST, 'allocations', '{folder}'], env={'LD_PRELOAD': str(found[0])})
    return make


def memory_tool():
    tool = built('memory_tool.so', 'cc', '-shared', '-fPIC', source='memory_tool.c')
    return Program([HOST, 'allocations', '{folder}'], env={'LD_PRELOAD': tool})


def preloaded_address_sanitizer():
    found = subprocess.run(['cc', '-print-file-name=libasan.so'], capture_output=True, text=True)
    path = found.stdout.strip()
    if not os.path.isabs(path):
        raise Unavailable('the compiler has no libasan.so')
    # A text file for the linker, in some installations.
    real = next((p for p in pathlib.Path(path).resolve().parent.glob('libasan.so*')
                 if p.read_bytes()[:4] == b'\x7fELF'), pathlib.Path(path).resolve())
    return Program([HOST, 'allocations', '{folder}'],
                   env={'LD_PRELOAD': str(real), 'ASAN_OPTIONS': 'detect_leaks=0'})


def find_python(version):
    """A Python of that version: on PATH, or one of pyenv's."""
    pyenv = pathlib.Path(os.environ.get('PYENV_ROOT', pathlib.Path.home() / '.pyenv')) / 'versions'
    number = version.rstrip('t')
    pattern = f'{number}.*t' if version.endswith('t') else f'{number}.*[0-9]'
    candidates = [str(path / 'bin' / f'python{version}') for path in sorted(pyenv.glob(pattern))]
    for candidate in [*candidates, shutil.which(f'python{version}')]:
        if candidate and subprocess.run([candidate, '-c', 'pass'], capture_output=True,
                                        check=False).returncode == 0:
            return candidate
    raise Unavailable(f'Python {version} is not installed')


def python(version, case='threads'):
    # Nothing in it uses the library. Python 3.12 and later warn of fork() in a process with a
    # second thread, whosever it is.
    return lambda: Program([find_python(version), HERE / 'python_program.py', '{folder}', case],
                           env={**AT_ITS_START, 'PYTHONWARNINGS': 'ignore::DeprecationWarning'})


def registered_at_its_start(*command):
    """A program of the system."""
    def make():
        return Program([need_program(command[0]), *command[1:]], awaits=NONE_OF_OURS,
                       env=AT_ITS_START)
    return make


def heaptrack():
    need_program('heaptrack')
    return Program(['heaptrack', '-o', '{folder}/heap', HOST, 'allocations', '{folder}'],
                   ignored='heaptrack|starting application|injecting|NOTE: |  *heaptrack|$|'
                           '.*(profd_campaign_|allocations|leaked|time[: ]|memory)')


def memray():
    for candidate in filter(None, [os.environ.get('PROFD_MEMRAY_PYTHON'), sys.executable]):
        if subprocess.run([candidate, '-c', 'import memray'], capture_output=True).returncode == 0:
            return Program([candidate, '-m', 'memray', 'run', '-q', '--native', '-o',
                            '{folder}/memray.bin', HERE / 'python_program.py', '{folder}',
                            'asyncio'], env=AT_ITS_START, ignored='Memray WARNING: Correcting symbol')
    raise Unavailable('memray is not installed; PROFD_MEMRAY_PYTHON can name a Python with it')


# Cases of host_program.c.
HOST_CASES = {
    'descriptors_closed_and_reused': host('descriptors_reused'),
    'closefrom_in_a_thread': host('closefrom_in_a_thread'),
    'standard_files_closed': host('standard_files_closed'),
    'rlimit_nofile': host('few_descriptors'),
    'rlimit_as': host('little_address_space'),
    'rlimit_nproc': as_nobody(host('no_processes', awaits=NONE_OF_OURS,
                                   limits={resource.RLIMIT_NPROC: 0})),
    'rlimit_stack': host('small_stacks', limits={resource.RLIMIT_STACK: 256 << 10}),
    'seccomp_errno': host('seccomp_errno'),
    'seccomp_errno_from_the_start': host('seccomp_errno_from_the_start'),
    'seccomp_kill_from_the_start': host('seccomp_kill_from_the_start'),
    'seccomp_kill_in_a_capture': host('seccomp_kill_in_a_capture'),
    'seccomp_kill_next_to_unshare': host('seccomp_kill_next_to_unshare', awaits=NONE_OF_OURS),
    'seccomp_refused': host('seccomp_refused'),
    'seccomp_with_a_listener': host('seccomp_with_a_listener'),
    'vfork': host('vfork_children'),
    'clone': host('clone_children'),
    'bare_fork': host('bare_fork_children'),
    'fork': host('fork_children'),
    'exec_storm': host('exec_storm'),
    'setuid_drop': as_root(host('setuid_drop')),
    'asynchronous_cancellation': host('captures_after_cancelled_writers', capture_after=True),
    'siglongjmp': host('jumps_out_of_writes'),
    'signal_storm': host('signal_storm'),
    'own_signals': host('own_signals'),
    'strict_seccomp': host('strict_seccomp'),
    'pthread_exit_in_main': host('pthread_exit_in_main'),
    'raw_exit_in_main': host('raw_exit_in_main'),
    'terminated_after_main': host('terminated_after_main'),
    'raw_exit_alone': host('raw_exit_alone'),
    'worker_starts_the_library': host('worker_starts_the_library', awaits=NONE_OF_OURS),
    'worker_starts_the_library_later': host('worker_starts_the_library_later', awaits=NONE_OF_OURS),
    'user_namespace': host('user_namespace'),
    'mount_namespace': as_root(host('mount_namespace')),
    'user_namespace_with_a_thread': host('user_namespace_with_a_thread'),
    'user_namespace_of_a_child': host('user_namespace_of_a_child'),
}

PROGRAMS = {
    **HOST_CASES,
    'jemalloc': preloaded('libjemalloc.so.2', 'libjemalloc2'),
    'tcmalloc': preloaded('libtcmalloc_minimal.so.4', 'libtcmalloc-minimal4'),
    'mimalloc': preloaded('libmimalloc.so.2*', 'libmimalloc2.0'),
    'memory_tool': memory_tool,
    'address_sanitizer_preloaded': preloaded_address_sanitizer,
    'address_sanitizer_built_in': address_sanitizer_program,
    'thread_sanitizer_built_in': thread_sanitizer_program,
    'musl': musl,
    'musl_below_a_shell': musl_below_a_shell,
    'static': static,
    'setuid_program': as_nobody(setuid_program),
    'unshare_program': registered_at_its_start('unshare', '-Ur', 'id', '-u'),
    'nsenter_program': as_root(registered_at_its_start('nsenter', '-m/proc/self/ns/mnt', 'echo',
                                                       'entered')),
    'asyncio': python('3', 'asyncio'),
    'heaptrack': heaptrack,
    'memray': memray,
    **{f'python_{version.replace(".", "_")}': python(version)
       for version in ('3.9', '3.10', '3.11', '3.12', '3.13', '3.14', '3.13t', '3.14t')},
}
