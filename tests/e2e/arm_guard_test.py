"""Programs that a capture would end or starve are not captured, and go on."""

import os
import subprocess

import harness
from harness import FAILED

HOST = harness.BUILD_DIR / 'tests/bin/campaign_host'


class ArmGuardTest(harness.EndToEndTest):

    def start(self, case):
        """`case` of the campaign's programs, with the library, and as it is once it has changed."""
        folder = self.folder / case
        folder.mkdir()
        (folder / 'go').touch()
        program = subprocess.Popen(
            [harness.PROFCTL, 'run', '--preload', '--socket-dir', self.daemon.socket_dir, '--', HOST,
             case, folder], env={**os.environ, 'PROFD_CAMPAIGN_AWAIT': 'connected'},
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(program.kill)
        harness.until((folder / 'changed').exists, f'{case} has changed')
        return program, folder

    def end(self, program, folder):
        (folder / 'end').touch()
        return program.communicate(timeout=harness.PATIENCE_S)[0], program.returncode

    def trace(self, program, *flags):
        return self.daemon.ctl('trace', '--pid', program.pid, '--duration', '50ms', *flags)

    def test_a_filter_for_all_threads_that_came_later(self):
        program, folder = self.start('filter_for_all_threads')
        for _ in range(3):
            result = self.trace(program)
            self.assertEqual(result.status, FAILED, result.err)
            self.assertIn('seccomp filter', result.err)
        self.assertEqual(self.end(program, folder), ('filtered\n', 11))

    def test_an_address_space_with_little_left(self):
        program, folder = self.start('tight_address_space')
        for buffer in '64MiB', '1MiB':
            result = self.trace(program, '--buffer', buffer)
            self.assertEqual(result.status, FAILED, result.err)
            self.assertIn('of address space', result.err)
        self.assertEqual(self.end(program, folder), ('18 blocks\n', 7))


if __name__ == '__main__':
    harness.main()
