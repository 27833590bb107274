"""How long other users wait while attackers use up one core. Prints one table. Needs root.

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/attack_bench.py [--calls N] [NAME...]

--help lists the attacks (attackers.py). Each has a daemon of its own. In turns, for --calls (100) rounds
and as long as the attack is to last, but at most --most-seconds (60): `profctl node`, arming (start of
`profctl trace` to armed), and `profctl ops` of a capture of 1 million events (--events), of a user who
is not the attacker. All attackers are one user's and share the last CPU of this machine. profd has
512 MiB (1 GiB for attacks over TCP), where a memory cgroup can be made and profd is built without a
sanitizer.

Each row: median and 99th percentile of each call in seconds; calls that failed; the peak of the cgroup
(with files in the page cache) and of profd's resident memory; CPU time of profd in percent of one
core; load of the machine. Ends with 1 if profd ended or attackers did.
"""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'e2e'))
import harness  # noqa: E402
from attackers import ATTACKS  # noqa: E402
from observe_test import free_port  # noqa: E402
from remote_test import Port, make_pki  # noqa: E402

ATTACKER, USER = harness.NOBODY, 65533


class Failed(Exception):
    """A call of the user."""


class Stage:
    """A daemon, and one stored capture of `event_count` events for each user."""

    def __init__(self, event_count, memory_bytes, certificates):
        self.event_count = event_count
        self.memory_bytes = memory_bytes
        self.certificates = certificates

    def __enter__(self):
        self.rows = 0
        self.stack = contextlib.ExitStack()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_bench_'))
        self.stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        self.metrics_port = free_port()
        tls = [] if self.certificates is None else [
            '--listen', '127.0.0.1:0', '--tls-cert', self.certificates / 'gpu001.crt',
            '--tls-key', self.certificates / 'gpu001.key', '--tls-ca', self.certificates / 'ca.crt']
        self.daemon = harness.Daemon(self.folder, '--plaintext-listen', '127.0.0.1:0',
                                     '--metrics-listen', f'127.0.0.1:{self.metrics_port}', *tls)
        self.socket_dir = self.daemon.socket_dir
        self.memory = self._limit_memory()
        self.stack.callback(self.daemon.stop)
        self.daemon.start()
        self.target = self._target(USER)
        self.attackers_capture, self.users_capture = map(self._capture, (ATTACKER, USER))
        self.target.do('train 1')
        return self

    def __exit__(self, *_):
        self.stack.close()

    def _limit_memory(self):
        """The daemon's MemoryGroup; None if it has no limit."""
        if harness.is_sanitized():
            return None  # A sanitizer needs several times as much.
        memory = harness.MemoryGroup(self.memory_bytes)
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

    # ---- what attacks use ----

    def port(self, kind):
        return Port(self.daemon, kind).number

    def new_target(self):
        """(number, pid) of a new target of the attacker, which trains."""
        target = self._target(ATTACKER)
        target.do('train 1')
        pid = target.pid
        pattern = re.compile(rf'target=(\d+) pid={pid}\b')
        return int(harness.until(lambda: pattern.search(self.daemon.log()), 'its number')[1]), pid

    def attackers_trace(self):
        trace = self.folder / 'attackers.json'
        self.daemon.ctl('export', self.attackers_capture, '-o', trace)
        trace.chmod(0o644)
        return trace

    def start_attackers(self, attack, stack):
        """They end with the stack, or with this process."""
        last_cpu = str(max(os.sched_getaffinity(0)))
        processes = []
        for command in attack(self):
            process = subprocess.Popen(
                ['setpriv', '--pdeathsig', 'KILL', 'taskset', '-c', last_cpu, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, env=harness.environment(self.socket_dir),
                start_new_session=True, **harness.as_user(ATTACKER))
            processes.append(process)
            stack.callback(process.wait)
            stack.callback(os.killpg, process.pid, 9)
        return processes

    # ---- the user's calls ----

    def timed(self, *arguments):
        """(seconds, result); raises Failed."""
        begin = time.perf_counter()
        result = self.daemon.ctl(*arguments, as_uid=USER)
        if result.status != harness.DONE:
            raise Failed(f'{arguments[0]}: {result.status}: {result.err}')
        return time.perf_counter() - begin, result

    def node_s(self):
        return self.timed('node')[0]

    def ops_s(self):
        """Of another number of rows each time: profd keeps its answers."""
        self.rows += 1
        return self.timed('ops', self.users_capture, '--limit', str(self.rows))[0]

    def arming_s(self):
        begin_ns = time.time_ns()
        _, result = self.timed('trace', '--pid', self.target.pid, '--steps', '1', '--warmup', '0',
                               '--json')
        return (result.json['armed_unix_ns'] - begin_ns) / 1e9

    # ---- what profd uses ----

    def cpu_s(self):
        words = pathlib.Path(f'/proc/{self.daemon.process.pid}/stat').read_text().rsplit(')')[-1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK')

    def most_resident_bytes(self):
        status = pathlib.Path(f'/proc/{self.daemon.process.pid}/status').read_text()
        return int(re.search(r'VmHWM:\s+(\d+) kB', status).group(1)) << 10


def measure(stage, rounds, seconds, most_seconds):
    """(times of each call that succeeded by its name, errors of the others)"""
    calls = {'node': stage.node_s, 'arming': stage.arming_s, 'ops': stage.ops_s}
    times, errors = {name: [] for name in calls}, []
    begin = time.monotonic()
    while ((rounds > 0 or time.monotonic() - begin < seconds) and
           time.monotonic() - begin < most_seconds):
        rounds -= 1
        for name, call in calls.items():
            try:
                times[name].append(call())
            except Failed as error:
                errors.append(str(error))
    return times, errors


def quantile(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def mebibytes(count):
    return 'unknown' if count is None else f'{count >> 20} MiB'


def run(name, arguments, certificates):
    """Prints the row of one attack; returns what must not happen."""
    attack = ATTACKS[name]
    with Stage(arguments.events, attack.memory_bytes, certificates) as stage:
        with contextlib.ExitStack() as stack:
            attackers = stage.start_attackers(attack, stack)
            begin, cpu_s = time.monotonic(), stage.cpu_s()
            times, errors = measure(stage, arguments.calls, attack.seconds,
                                    arguments.most_seconds)
            if stage.daemon.process.poll() is not None:
                return [f'{name}: profd ended with {stage.daemon.process.poll()}']
            share = (stage.cpu_s() - cpu_s) / (time.monotonic() - begin)
            ended = sum(attacker.poll() is not None for attacker in attackers)
        cells = [f'{statistics.median(of):.2f}, {quantile(of, 0.99):.2f} s' if of else 'none succeeded'
                 for of in times.values()]
        peak = stage.memory.peak_bytes() if stage.memory else None
        print(f'| {name} | ' + ' | '.join(cells) + f' | {len(errors)} of '
              f'{len(errors) + sum(map(len, times.values()))} | {mebibytes(peak)}, '
              f'{mebibytes(stage.most_resident_bytes())} | {share:.0%} | {os.getloadavg()[0]:.1f} |',
              flush=True)
        for error in errors[:1]:
            print('  the first that failed:', error)
        return ([f'{name}: {ended} of {len(attackers)} attackers ended'] if ended else []) + (
            [f'{name}: killed for memory'] if stage.memory and stage.memory.oom_kill_count() else [])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog='attacks:\n' + '\n'.join(f'  {name:<12}{attack.what}' for name, attack in ATTACKS.items()))
    parser.add_argument('--calls', type=int, default=100)
    parser.add_argument('--most-seconds', type=float, default=60)
    parser.add_argument('--events', type=int, default=1_000_000)
    parser.add_argument('names', nargs='*', metavar='NAME')
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in ATTACKS:
            parser.error(f"unknown attack '{name}' (choose from {', '.join(ATTACKS)})")
    if os.geteuid() != 0:
        print('SKIP: only root can act as two other users')
        sys.exit(77)
    with contextlib.ExitStack() as stack:
        certificates = None
        if shutil.which('openssl'):
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='profd_pki_')))
            certificates = folder / 'site'
            make_pki(certificates, '--node', 'gpu001,localhost', '--user', 'bob')
            subprocess.run(['chmod', '-R', 'a+rX', folder], check=True)  # Attackers are other users.
        print('| Attack | `node` | arming | `ops` | failed | peak, RSS | CPU | load |\n'
              '| --- | --- | --- | --- | --- | --- | --- | --- |')
        wrong = []
        for name in arguments.names or ATTACKS:
            if certificates is None and name in ('tls', 'handshakes', 'aborts'):
                print(f'SKIP: {name}: openssl, which makes certificates, is missing')
            else:
                wrong += run(name, arguments, certificates)
    sys.exit('\n'.join(wrong) if wrong else 0)


if __name__ == '__main__':
    main()
