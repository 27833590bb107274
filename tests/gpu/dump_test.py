"""PROFD_CUPTI_DUMP: CUPTI's buffers as they came, decoded again with the same result."""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'e2e'))
import harness  # noqa: E402
from harness import DONE, EndToEndTest  # noqa: E402

STANDIN = harness.BUILD_DIR / 'lib/cupti_standin'
REPLAY = harness.BUILD_DIR / 'tests/bin/replay_dump'
KERNEL, RUNTIME, DEVICE = '10', '5', '8'


def replay(path):
    done = subprocess.run([REPLAY, path], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


class DumpTest(EndToEndTest):
    def capture(self, dump, *arguments, cupti='13.0/libcupti.so.13', captures=1, env=None):
        """Captures a target on the simulated GPU; returns the files that it dumped."""
        wanted = {'PROFD_CUPTI_DUMP': None if dump is None else str(dump)}
        target = self.target(env={**wanted, **(env or {})})
        target.do(f'gpu load {STANDIN / cupti}', 'train 2')
        for _ in range(captures):
            result = self.trace('--pid', target.pid, '--steps', '4', *arguments).result()
            self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-3000:])
            self.assertEqual(result.json['dropped_event_count'], 0)
        self.target_pid = target.pid
        return sorted(self.folder.glob('dump.*'))

    def test_buffers_decode_to_what_was_recorded(self):
        for cupti in ('13.0/libcupti.so.13', '12.4/libcupti.so.12', '11.8/libcupti.so.11.8'):
            for mode in ('default', 'full', 'light'):
                with self.subTest(cupti=cupti, mode=mode):
                    for old in self.folder.glob('dump.*'):
                        old.unlink()
                    files = self.capture(self.folder / 'dump', '--gpu', mode, cupti=cupti)
                    self.assertEqual([f.name for f in files], [f'dump.{self.target_pid}.1'])
                    self.assertEqual(files[0].stat().st_mode & 0o777, 0o600)
                    status, found = replay(files[0])
                    self.assertEqual(status, 0, found)
                    self.assertTrue(found['simulated'])
                    self.assertFalse(found['truncated'])
                    self.assertGreater(found['records'][KERNEL], 0)
                    self.assertEqual(mode != 'light', RUNTIME in found['records'])
                    self.assertGreater(found['recorded']['events'], 0)

    def test_a_device_that_the_driver_described_first_is_one_event(self):
        # CUPTI's own record of the device comes when arming no longer waits for it.
        for cupti in ('13.0/libcupti.so.13', '11.8/libcupti.so.11.8'):
            with self.subTest(cupti=cupti):
                for old in self.folder.glob('dump.*'):
                    old.unlink()
                file, = self.capture(self.folder / 'dump', cupti=cupti, env={'SGPU_LATE_MS': '300'})
                status, found = replay(file)
                self.assertEqual(status, 0, found)
                self.assertGreater(found['records'][DEVICE], 0)

    def test_each_capture_has_its_own_file(self):
        files = self.capture(self.folder / 'dump', captures=2)
        self.assertEqual([f.name for f in files],
                         [f'dump.{self.target_pid}.{n}' for n in (1, 2)])
        for file in files:
            self.assertEqual(replay(file)[0], 0)

    def test_without_the_variable_nothing_is_written(self):
        self.assertEqual(self.capture(None), [])

    def test_what_exists_is_neither_overwritten_nor_followed(self):
        victim = self.folder / 'victim'
        victim.write_text('as it was')
        target = self.target(env={'PROFD_CUPTI_DUMP': str(self.folder / 'dump')})
        link = self.folder / f'dump.{target.pid}.1'
        link.symlink_to(victim)
        dangling = self.folder / f'dump.{target.pid}.2'
        dangling.symlink_to(self.folder / 'not there')
        target.do(f'gpu load {STANDIN}/13.0/libcupti.so.13', 'train 2')
        for _ in range(2):
            result = self.trace('--pid', target.pid, '--steps', '3').result()
            self.assertEqual(result.status, DONE, result.err)
            self.assertEqual(result.json['state'], 'COMPLETE')
        self.assertEqual(victim.read_text(), 'as it was')
        self.assertTrue(link.is_symlink() and dangling.is_symlink())
        self.assertFalse((self.folder / 'not there').exists())

    def test_a_changed_record_is_noticed(self):
        file, = self.capture(self.folder / 'dump')
        data = bytearray(file.read_bytes())
        at = len(data) // 2
        data[at:at + 4096] = bytes(min(4096, len(data) - at))
        broken = self.folder / 'broken'
        broken.write_bytes(data)
        self.assertEqual(replay(broken)[0], 1)
        broken.write_bytes(file.read_bytes()[:-5])
        self.assertEqual(replay(broken)[0], 1)


if __name__ == '__main__':
    if not os.access(REPLAY, os.X_OK):
        sys.exit(f'{REPLAY} is not built')
    harness.main()
