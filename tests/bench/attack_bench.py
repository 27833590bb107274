"""How long other users wait while attackers use up one core. Prints one table. Needs root.

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/attack_bench.py [--calls N] [NAME...]

Per attack: N calls each (default 100) of a user who is not the attacker: `profctl node`, arming
(start of `profctl trace` to armed), and `profctl ops` of a capture of 1 million events (--events).
All attackers are one user's and share the last CPU of this machine. profd has 512 MiB, where a
memory cgroup can be made and profd is built without a sanitizer. Ends with 1 if profd did.

  none        for comparison
  resets      6 processes begin HTTP/2 calls on control.sock and reset them
  tcp         the same on the plaintext port, where frames are not counted
  calls       300 ListAudit calls in flight
  silent      2 processes open connections to agent.sock and say nothing
  scrapes     2 processes ask for /metrics byte by byte, on as many connections as they get
  imports     6 processes import a trace of the attacker's capture
  reports     6 processes ask for reports of the attacker's capture, which is as large
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'e2e'))
import harness  # noqa: E402
from hostile_socket_test import RAPID_RESET  # noqa: E402
from observe_test import free_port  # noqa: E402
from remote_test import Port  # noqa: E402

ATTACKER, USER = harness.NOBODY, 65533
FOREVER_S = '86400'

# Opens connections and replaces those that are closed.
SILENT = r'''
import select, socket, sys
held = {}
poll = select.poll()
while True:
    while len(held) < 200:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.connect(sys.argv[1])
        held[peer.fileno()] = peer
        poll.register(peer, select.POLLIN | select.POLLHUP)
    for number, _ in poll.poll():
        poll.unregister(number)
        held.pop(number).close()
'''

# Sends its requests byte by byte, and connects again when it is thrown out.
SCRAPES = r'''
import socket, sys, time
held = []
while True:
    while len(held) < 40:
        peer = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
        peer.setblocking(False)
        held.append([peer, iter(b'GET /metrics HTTP/1.1\r\nHost: x\r\nX: ' + 10000 * b'x')])
    for each in list(held):
        try:
            each[0].send(bytes([next(each[1])]))
        except BlockingIOError:
            pass
        except (OSError, StopIteration):
            each[0].close()
            held.remove(each)
    time.sleep(0.01)
'''

IMPORTS = r'''
import subprocess, sys
while True:
    subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
'''

# Asks again and again, each time for another number of rows: profd keeps its answers.
REPORTS = r'''
import itertools, os, subprocess, sys
for rows in itertools.count(1 + 1_000_000 * os.getpid()):
    subprocess.run([*sys.argv[1:], '--limit', str(rows)], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
'''


class Failed(Exception):
    """A call of the user."""


class Stage:
    """A daemon, and one stored capture of `event_count` events for each user."""

    def __init__(self, event_count):
        self.event_count = event_count

    def __enter__(self):
        self.rows = 0
        self.stack = contextlib.ExitStack()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_bench_'))
        self.stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        self.metrics_port = free_port()
        self.daemon = harness.Daemon(self.folder, '--plaintext-listen', '127.0.0.1:0',
                                     '--metrics-listen', f'127.0.0.1:{self.metrics_port}')
        self.memory = self._limit_memory()
        self.stack.callback(self.daemon.stop)
        self.daemon.start()
        self.target = self._target(USER)
        self.captures = {uid: self._capture(uid) for uid in (ATTACKER, USER)}
        self.target.do('train 1')
        self.trace = self.folder / 'attackers.json'
        self.daemon.ctl('export', self.captures[ATTACKER], '-o', self.trace)
        self.trace.chmod(0o644)
        return self

    def __exit__(self, *_):
        self.stack.close()

    def _limit_memory(self):
        """The daemon's MemoryGroup; None if it has no limit."""
        if harness.is_sanitized():
            print('profd has no limit of memory: a sanitizer needs several times as much')
            return None
        memory = harness.MemoryGroup(512 << 20)
        if memory.why_not:
            print('profd has no limit of memory:', memory.why_not)
            return None
        self.stack.callback(memory.remove)
        self.daemon.memory = memory
        return memory

    def _target(self, uid):
        target = harness.Target(self.daemon, as_uid=uid)
        self.stack.callback(target.end)
        return target.connect()

    def _capture(self, uid):
        target = self.target if uid == USER else self._target(uid)
        tracing = subprocess.Popen(
            [harness.PROFCTL, 'trace', '--pid', str(target.pid), '--duration', '10s', '--json'],
            stdout=subprocess.PIPE, env=harness.environment(self.daemon.socket_dir),
            **harness.as_user(uid))
        target.do('await-recording', f'busy 5 {self.event_count // 5}')
        capture = self.daemon.ctl('captures', '--json', '--limit', '1').json['captures'][0]['id']
        self.daemon.ctl('cancel', capture, as_uid=uid)
        tracing.communicate()
        return capture

    def attack(self, name, stack):
        """Starts the attackers; they end with the stack."""
        socket_dir = self.daemon.socket_dir
        python = [sys.executable, '-c']
        commands = {
            'none': [],
            'resets': [[*python, RAPID_RESET, str(socket_dir / 'control.sock'), FOREVER_S]] * 6,
            'tcp': [[*python, RAPID_RESET, str(Port(self.daemon, 'plaintext').number),
                     FOREVER_S]] * 6,
            'calls': [[harness.BUILD_DIR / 'tests/bin/greedy_caller', 'calls', '300', '6']],
            'silent': [[*python, SILENT, str(socket_dir / 'agent/agent.sock')]] * 2,
            'scrapes': [[*python, SCRAPES, str(self.metrics_port)]] * 2,
            'imports': [[*python, IMPORTS, str(harness.PROFCTL), 'import', str(self.trace)]] * 6,
            'reports': [[*python, REPORTS, str(harness.PROFCTL), 'ops',
                         self.captures[ATTACKER]]] * 6,
        }[name]
        last_cpu = str(max(os.sched_getaffinity(0)))
        for command in commands:
            process = subprocess.Popen(
                ['taskset', '-c', last_cpu, *command], stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, env=harness.environment(socket_dir),
                start_new_session=True, **harness.as_user(ATTACKER))
            stack.callback(process.wait)
            stack.callback(process.kill)

    def timed(self, *arguments):
        """(seconds, result); raises Failed."""
        begin = time.perf_counter()
        result = self.daemon.ctl(*arguments, as_uid=USER)
        if result.status != harness.DONE:
            raise Failed(f'{arguments[0]}: {result.status}: {result.err}')
        return time.perf_counter() - begin, result

    def ops_s(self):
        """Of another number of rows each time: profd keeps its answers."""
        self.rows += 1
        return self.timed('ops', self.captures[USER], '--limit', str(self.rows))[0]

    def arming_s(self):
        begin_ns = time.time_ns()
        _, result = self.timed('trace', '--pid', self.target.pid, '--steps', '1', '--warmup', '0',
                               '--json')
        return (result.json['armed_unix_ns'] - begin_ns) / 1e9


def measure(call, count):
    """(seconds of those that succeeded, errors of the others)"""
    times, errors = [], []
    for _ in range(count):
        try:
            times.append(call())
        except Failed as error:
            errors.append(str(error))
    return times, errors


def quantile(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


ATTACKS = ('none', 'resets', 'tcp', 'calls', 'silent', 'scrapes', 'imports', 'reports')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--calls', type=int, default=100)
    parser.add_argument('--events', type=int, default=1_000_000)
    parser.add_argument('names', nargs='*')
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in ATTACKS:
            parser.error(f"unknown attack '{name}' (choose from {', '.join(ATTACKS)})")
    if os.geteuid() != 0:
        print('SKIP: only root can act as two other users')
        sys.exit(77)
    print(f'load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs')
    with Stage(arguments.events) as stage:
        print(f"{'attack':<10}{'call':<8}{'median':>9}{'p99':>9}{'max':>9}{'failed':>8}{'load':>7}")
        for name in arguments.names or ATTACKS:
            with contextlib.ExitStack() as stack:
                stage.attack(name, stack)
                for name_of_call, call in (
                        ('node', lambda: stage.timed('node')[0]),
                        ('arming', stage.arming_s),
                        ('ops', stage.ops_s)):
                    times, errors = measure(call, arguments.calls)
                    if not times:
                        sys.exit(f'{name_of_call}: none succeeded: {errors[0]}')
                    print(f'{name:<10}{name_of_call:<8}{statistics.median(times):>7.2f} s'
                          f'{quantile(times, 0.99):>7.2f} s{max(times):>7.2f} s{len(errors):>8}'
                          f'{os.getloadavg()[0]:>7.1f}', flush=True)
                    if errors:
                        print('  the first that failed:', errors[0])
            if stage.daemon.process.poll() is not None:
                sys.exit('profd has ended')
        if stage.memory:
            peak = stage.memory.peak_bytes()
            print('peak of the cgroup:', 'unknown' if peak is None else f'{peak >> 20} MiB',
                  'with files in the page cache; killed for memory:',
                  stage.memory.oom_kill_count())


if __name__ == '__main__':
    main()
