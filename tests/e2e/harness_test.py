"""The harness itself: another user, little memory, a small disk."""

import os
import pathlib
import signal
import subprocess
import sys

import harness
from harness import DONE, NOBODY, REFUSED


class AnotherUserTest(harness.EndToEndTest):

    def setUp(self):
        super().setUp()
        self.need_uid()

    def test_targets_and_commands_run_as_that_user(self):
        theirs, ours = self.target(as_uid=NOBODY), self.target()
        uids = {row['pid']: row['uid'] for row in self.daemon.ctl('ps', '--json').json['targets']}
        self.assertEqual(uids, {theirs.pid: NOBODY, ours.pid: os.getuid()})
        theirs.do('train 1')
        result = self.trace('--pid', theirs.pid, '--steps', '2', as_uid=NOBODY).result()
        self.assertEqual(result.status, DONE, result.err)
        result = self.trace('--pid', ours.pid, '--steps', '2', as_uid=NOBODY).result()
        self.assertEqual(result.status, REFUSED, result.err)

    def test_raw_clients_and_scripts_are_that_user(self):
        client = self.raw_client('agent/agent.sock', as_uid=NOBODY, count=2)
        self.assertEqual(len(client.sockets), 2)
        status = pathlib.Path(f'/proc/{client.pid}/status').read_text()
        self.assertIn(f'Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}', status)
        script = self.python('import os; print(os.getuid(), os.getgroups())', as_uid=NOBODY,
                             stdout=subprocess.PIPE)
        self.assertEqual(script.communicate()[0], f'{NOBODY} []\n'.encode())


class LittleMemoryTest(harness.EndToEndTest):

    memory_max_bytes = 512 << 20

    def test_the_daemon_runs_inside_the_cgroup(self):
        pids = (self.memory.folder / 'cgroup.procs').read_text().split()
        names = {pathlib.Path(f'/proc/{pid}/comm').read_text().strip()
                 for pid in pids if pid != str(self.daemon.process.pid)}
        self.assertIn(str(self.daemon.process.pid), pids)
        self.assertLessEqual(names, {'profd-report'})  # Which it starts.
        self.assertEqual(self.memory.oom_kill_count(), 0)
        self.assertLess(self.memory.peak_bytes() or 0, 512 << 20)

    def test_what_needs_more_is_killed(self):
        hog = subprocess.run([sys.executable, '-c', 'b = bytearray(600 << 20)'],
                             preexec_fn=self.memory.join)
        self.assertEqual(hog.returncode, -signal.SIGKILL)
        # Both profd-report, for reports and for seals, ask to be killed first.
        self.assertIn(self.memory.oom_kill_count(), (1, 2, 3))
        self.assertIsNone(self.daemon.process.poll())


class SmallDiskTest(harness.EndToEndTest):

    flags = ('--min-free-percent', '0')
    disk_bytes = 16 << 20

    def test_the_data_directory_is_on_it(self):
        space = os.statvfs(self.daemon.data_dir)
        self.assertEqual(space.f_blocks * space.f_frsize, 16 << 20)


if __name__ == '__main__':
    harness.main()
