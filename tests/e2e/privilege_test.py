"""A profd that root starts gives root up: what it keeps, what still works, and what it refuses."""

import os
import pathlib
import re
import select
import subprocess
import sys

import harness
from harness import DONE, FAILED, NOBODY, PROFD, REFUSED, USAGE

if os.geteuid() != 0:
    print('SKIP: needs root, which starts the daemon and gives itself up')
    sys.exit(77)

CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH = 1 << 19, 1 << 2
OTHER = 65533  # A user that is neither root nor the daemon.


def status_of(pid):
    text = pathlib.Path(f'/proc/{pid}/status').read_text()
    return dict(re.findall(r'^(\w+):\s+(.*)$', text, re.M))


def children_of(pid):
    return [int(path.name) for path in pathlib.Path('/proc').iterdir() if path.name.isdigit()
            and path.joinpath('stat').exists()
            and int(path.joinpath('stat').read_text().rsplit(')', 1)[1].split()[1]) == pid]


class PrivilegeTest(harness.EndToEndTest):

    flags = ('--user', 'nobody')

    def setUp(self):
        # mkdtemp() makes it 0700, and the daemon must reach its data directory.
        self.old_mkdtemp, mkdtemp = harness.tempfile.mkdtemp, harness.tempfile.mkdtemp

        def open_folder(*args, **kwargs):
            folder = mkdtemp(*args, **kwargs)
            os.chmod(folder, 0o755)
            return folder
        harness.tempfile.mkdtemp = open_folder
        try:
            super().setUp()
        finally:
            harness.tempfile.mkdtemp = self.old_mkdtemp

    def helper_pid(self):
        helpers = [pid for pid in children_of(self.daemon.process.pid)
                   if status_of(pid)['Name'] == 'profd-helper']
        self.assertEqual(len(helpers), 1)
        return helpers[0]

    def test_the_daemon_has_no_privileges_and_the_helper_two(self):
        daemon = status_of(self.daemon.process.pid)
        self.assertEqual(daemon['Uid'].split(), [str(NOBODY)] * 4)
        self.assertEqual(daemon['Name'], 'profd')
        for kind in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb', 'CapBnd'):
            self.assertEqual(int(daemon[kind], 16), 0, kind)
        self.assertEqual(daemon['NoNewPrivs'], '1')

        helper = status_of(self.helper_pid())
        for kind in ('CapPrm', 'CapEff'):
            self.assertEqual(int(helper[kind], 16), CAP_SYS_PTRACE | CAP_DAC_READ_SEARCH, kind)
        self.assertEqual(helper['NoNewPrivs'], '1')
        if not harness.is_sanitized():
            self.assertEqual(helper['Seccomp'], '2')
        for name in ('control.sock', 'agent/agent.sock', 'agent'):
            self.assertEqual((self.daemon.socket_dir / name).stat().st_uid, 0, name)
        self.assertEqual(self.daemon.data_dir.stat().st_uid, NOBODY)

    def test_the_helper_ends_with_the_daemon(self):
        helper = self.helper_pid()
        pidfd = os.pidfd_open(helper)
        self.addCleanup(os.close, pidfd)
        self.daemon.kill()
        readable, _, _ = select.select([pidfd], [], [], harness.PATIENCE_S)
        self.assertEqual(readable, [pidfd], 'the helper still runs')

    def test_every_users_target_is_captured_and_root_still_counts_as_root(self):
        self.need_uid(OTHER)
        targets = [self.target(), self.target(as_uid=OTHER), self.target(as_uid=NOBODY)]
        rows = {row['pid']: row for row in self.daemon.ctl('ps', '--json').json['targets']}
        self.assertEqual({pid: row['uid'] for pid, row in rows.items()},
                         {targets[0].pid: 0, targets[1].pid: OTHER, targets[2].pid: NOBODY})
        for target in targets:
            target.do('train 1')
            self.trace_five_steps(target)
            target.do('rest')
        # Root administers; others see what is theirs, the daemon's own user included.
        self.assertEqual(self.daemon.ctl('node', '--forbid-captures', 'x').status, DONE)
        self.assertEqual(self.daemon.ctl('node', '--allow-captures').status, DONE)
        for uid, target in ((OTHER, targets[1]), (NOBODY, targets[2])):
            mine = self.daemon.ctl('ps', '--json', as_uid=uid)
            self.assertEqual([row['pid'] for row in mine.json['targets']], [target.pid], mine.err)
            refused = self.daemon.ctl('node', '--forbid-captures', 'x', as_uid=uid)
            self.assertEqual(refused.status, REFUSED, refused.err)

    def test_roots_data_directory_is_taken_over_once(self):
        target = self.target()
        target.do('train 1')
        self.assertEqual(self.daemon.terminate(), 0)
        for path in (self.daemon.data_dir, *self.daemon.data_dir.rglob('*')):
            os.chown(path, 0, 0)
        outside = self.folder / 'outside'
        outside.write_text('x')
        (self.daemon.data_dir / 'captures/link').symlink_to(outside)

        self.daemon.flags = ('--user', 'root')
        self.daemon.start()
        target.do('await-connected')
        capture = self.trace_five_steps(target)
        self.assertEqual(self.daemon.terminate(), 0)
        self.assertEqual(self.daemon.data_dir.stat().st_uid, 0)

        self.daemon.flags = self.flags
        self.daemon.start()
        self.assertIn(capture['id'], [row['id'] for row in self.captures()])
        self.ops(capture['id'])
        for path in (self.daemon.data_dir, *self.daemon.data_dir.rglob('*')):
            if not path.is_symlink():
                self.assertEqual(path.stat().st_uid, NOBODY, path)
        self.assertEqual(outside.stat().st_uid, 0)
        target.do('rest')

    def test_accounts_and_folders_that_do_not_fit_are_refused_with_the_remedy(self):
        def run(*arguments):
            done = subprocess.run(
                [PROFD, '--socket-dir', self.folder / 'other', *arguments],
                capture_output=True, timeout=harness.PATIENCE_S, check=False)
            return done.returncode, done.stderr.decode()
        status, err = run('--user', 'no-such-user', '--data-dir', self.folder / 'x')
        self.assertEqual(status, USAGE)
        self.assertIn('useradd', err)
        foreign = self.folder / 'foreign'
        foreign.mkdir()
        (foreign / 'file').touch()
        os.chmod(foreign, 0o777)
        status, err = run('--user', 'nobody', '--data-dir', foreign)
        self.assertEqual(status, FAILED)
        self.assertIn('--data-dir', err)
        self.assertEqual((foreign.stat().st_uid, foreign.stat().st_mode & 0o777), (0, 0o777))


if __name__ == '__main__':
    harness.main()
