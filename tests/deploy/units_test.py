"""The systemd units permit what profd calls, forbid the rest, and are what the documents say.

System call groups are resolved by systemd-analyze, as systemd does; without it those tests skip.
tests/other/systemd_units_test.sh has systemd read the units.
"""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(os.environ.get('PROFD_SOURCE_DIR', pathlib.Path(__file__).parents[2]))
UNITS = ROOT / 'deploy/systemd'
DAEMON, HELPER = UNITS / 'profd.service', UNITS / 'profd-helper@.service'
DOCUMENTS = [ROOT / 'deploy/README.md', ROOT / 'daemon/access/SECURITY.md']
ANALYZE = shutil.which('systemd-analyze')

# What the daemon and profd-report, its child, call beyond any program with threads and sockets:
# pidfds of peers, shared memory, the report program's sandbox and niceness, the clock's state.
DAEMON_CALLS = {
    'adjtimex', 'clock_adjtime', 'clone3', 'execve', 'fallocate', 'ftruncate', 'getsockopt',
    'ioprio_set', 'memfd_create', 'pidfd_open', 'pidfd_send_signal', 'prctl', 'prlimit64',
    'renameat2', 'setpriority', 'signalfd4', 'statfs',
}
# What nobody may do with a daemon that was taken over, privileges apart.
NOBODYS_CALLS = {
    'bpf', 'chroot', 'clock_settime', 'init_module', 'kexec_load', 'mount', 'open_by_handle_at',
    'perf_event_open', 'pivot_root', 'process_vm_readv', 'process_vm_writev', 'ptrace', 'reboot',
    'setgroups', 'sethostname', 'settimeofday', 'setuid', 'swapon', 'umount2', 'userfaultfd',
}


def settings(unit):
    """The [Service] settings of a unit: name -> its values, in order."""
    found = collections.defaultdict(list)
    section = ''
    for line in unit.read_text().splitlines():
        if line.startswith('['):
            section = line
        elif section == '[Service]' and line and not line.startswith('#'):
            name, _, value = line.partition('=')
            found[name].append(value)
    return found


def analyze(*arguments):
    if ANALYZE is None:
        raise unittest.SkipTest('systemd-analyze is not installed')
    done = subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, check=False,
                          timeout=60)
    if done.returncode != 0:
        raise unittest.SkipTest(f'systemd-analyze {arguments[0]}: {done.stderr[-200:]}')
    return done.stdout


def members(word):
    """The system calls of a group (@clock), or the call itself."""
    if not word.startswith('@'):
        return {word}
    calls = set()
    for line in analyze('syscall-filter', word).splitlines()[1:]:
        name = line.strip()
        if name and not name.startswith('#'):
            calls |= members(name)
    return calls


def allowed_calls(unit):
    """As systemd.exec(5) puts several lines together: later ones add to or take from earlier ones."""
    allowed = set()
    for value in settings(unit)['SystemCallFilter']:
        calls = set().union(*(members(word) for word in value.lstrip('~').split()))
        allowed = allowed - calls if value.startswith('~') else allowed | calls
    return allowed


class SystemCallsTest(unittest.TestCase):

    def test_the_daemon_may_call_what_it_calls(self):
        self.assertEqual(DAEMON_CALLS - allowed_calls(DAEMON), set())

    def test_nobody_may_call_what_only_an_attacker_would(self):
        for unit in DAEMON, HELPER:
            with self.subTest(unit=unit.name):
                self.assertEqual(NOBODYS_CALLS & allowed_calls(unit), set())

    def test_the_clock_is_read_by_the_daemon_alone(self):
        # `profctl node` says how well the clock is synchronized. ProtectClock=yes would refuse that.
        self.assertNotIn('ProtectClock', settings(DAEMON))
        self.assertEqual(settings(HELPER)['ProtectClock'], ['yes'])
        self.assertNotIn('adjtimex', allowed_calls(HELPER))
        # Setting it needs CAP_SYS_TIME, which profd does not have.
        self.assertEqual(settings(DAEMON)['CapabilityBoundingSet'], [''])

    def test_a_refused_call_fails_and_ends_nothing(self):
        for unit in DAEMON, HELPER:
            self.assertEqual(settings(unit)['SystemCallErrorNumber'], ['EPERM'], unit.name)


class DocumentsTest(unittest.TestCase):

    def test_privileges_are_those_of_the_documents(self):
        self.assertEqual(settings(DAEMON)['User'], ['profd'])
        self.assertEqual(settings(HELPER)['CapabilityBoundingSet'],
                         ['CAP_SYS_PTRACE CAP_DAC_READ_SEARCH'])
        for unit in DAEMON, HELPER:
            self.assertEqual(settings(unit)['NoNewPrivileges'], ['yes'], unit.name)
        security = (ROOT / 'daemon/access/SECURITY.md').read_text()
        self.assertIn('| `profd-helper` | root | CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH;', security)
        self.assertIn('| `profd`, started by root or systemd | `profd` | none;', security)

    def test_what_is_off_on_purpose_is_off_and_documented(self):
        # profd knows its peers from the kernel and /proc; its clients are on the network.
        readme = (ROOT / 'deploy/README.md').read_text()
        for name in 'ProtectProc', 'PrivateUsers', 'ProtectClock':
            self.assertNotIn(name, settings(DAEMON))
            self.assertIn(f'`{name}=`', readme)

    def test_limits_are_those_of_the_documents(self):
        limits = settings(DAEMON)
        self.assertEqual((limits['CPUQuota'], limits['MemoryMax'], limits['WatchdogSec']),
                         (['200%'], ['2G'], ['3min']))
        readme = (ROOT / 'deploy/README.md').read_text()
        self.assertIn('two cores and 2 GiB (`CPUQuota=`, `MemoryMax=`)', readme)
        self.assertIn('`WatchdogSec=3min`', readme)

    def test_the_exposure_is_the_one_in_the_documents(self):
        version = re.match(r'systemd (\d+)', analyze('--version'))
        for document in DOCUMENTS:
            text = ' '.join(document.read_text().split())
            measured = re.search(r'`systemd-analyze security --offline=true` \(systemd (\d+)[^)]*\): '
                                 r'(?:([0-9.]+) for `profd.service`|`profd.service` ([0-9.]+)), '
                                 r'(?:([0-9.]+) for `profd-helper@.service`|'
                                 r'`profd-helper@.service` ([0-9.]+))', text)
            self.assertTrue(measured, f'{document} has no figure')
            release, *numbers = measured.groups()
            if version is None or version.group(1) != release:
                self.skipTest(f'the documents have figures of systemd {release}')
            figures = [number for number in numbers if number is not None]
            for unit, figure in zip((DAEMON, HELPER), figures):
                output = analyze('security', '--offline=true', str(unit))
                found = re.search(r'Overall exposure level for .*: ([0-9.]+) ', output)
                self.assertEqual(found.group(1), figure, f'{document}: {unit.name}')


if __name__ == '__main__':
    unittest.main(verbosity=2)
