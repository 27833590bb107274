"""Files that were damaged, are somebody else's, or come from a newer profd."""

import shutil
import sqlite3
import subprocess

import harness
from harness import DONE, FAILED


class CaptureFileTest(harness.EndToEndTest):

    def fetched(self):
        target = self.target()
        target.do('train 1')
        capture = self.trace_five_steps(target)
        target.do('rest')
        path = self.folder / 'good.profd'
        self.assertEqual(self.daemon.ctl('fetch', capture['id'], '-o', path).status, DONE)
        return path

    def assert_refused(self, path, what):
        for command in ('ops', 'steps', 'memory', 'show'):
            result = self.daemon.ctl(command, path, '--json')
            self.assertIn(result.status, (DONE, FAILED), f'{what}: {command}: {result.err}')
            if result.status == FAILED:
                self.assertTrue(result.err, what)
        return result

    def test_damaged_files_are_refused_or_read_right(self):
        good = self.fetched()
        whole = good.read_bytes()
        expected = self.daemon.ctl('ops', good, '--json').json
        refused = 0
        for i in range(40):
            position = (i * 7919 + 101) % len(whole)
            damaged = bytearray(whole)
            damaged[position] ^= 0x41
            path = self.folder / 'damaged.profd'
            path.write_bytes(damaged)
            result = self.daemon.ctl('ops', path, '--json')
            self.assertIn(result.status, (DONE, FAILED), f'byte {position}: {result.err}')
            if result.status == FAILED:
                refused += 1
                self.assertTrue(result.err)
            else:
                self.assertEqual(result.json, expected, f'byte {position} changed the answer')
        self.assertGreater(refused, 0)
        for cut in (0, 100, 4096, len(whole) // 2, len(whole) - 1):
            path = self.folder / 'cut.profd'
            path.write_bytes(whole[:cut])
            self.assertEqual(self.daemon.ctl('ops', path, '--json').status, FAILED, f'cut {cut}')

    def test_foreign_files_are_refused(self):
        good = self.fetched()
        other = self.folder / 'other.profd'
        with sqlite3.connect(other) as database:
            database.execute('create table t(x)')
        text = self.folder / 'text.profd'
        text.write_text('not a capture')
        extra = self.folder / 'extra.profd'
        shutil.copy(good, extra)
        with sqlite3.connect(extra) as database:
            database.execute('create view chunks_too as select 1')
        newer = self.folder / 'newer.profd'
        shutil.copy(good, newer)
        with sqlite3.connect(newer) as database:
            version, = database.execute('pragma user_version').fetchone()
            database.execute(f'pragma user_version = {version + 1}')
        for path in (other, text, extra, newer, self.folder / 'none.profd', self.folder):
            result = self.daemon.ctl('ops', path, '--json')
            self.assertEqual(result.status, FAILED, f'{path}: {result.err}')
            self.assertTrue(result.err)

    def test_a_file_damaged_on_the_node_is_an_error_not_a_wrong_answer(self):
        target = self.target()
        target.do('train 1')
        broken = self.trace_five_steps(target)
        whole = self.trace_five_steps(target)
        path = self.daemon.data_dir / 'captures' / f"{broken['id']}.profd"
        damaged = bytearray(path.read_bytes())
        damaged[:100] = b'\0' * 100
        path.write_bytes(damaged)
        self.assertEqual(self.daemon.ctl('ops', broken['id']).status, FAILED)
        self.assertEqual(self.ops(whole['id'])['work']['calls'], 50)
        self.assert_still_serves(target)


class CatalogTest(harness.EndToEndTest):

    def test_a_catalog_from_a_newer_version_is_refused_and_left_alone(self):
        target = self.target()
        target.do('train 1')
        capture = self.trace_five_steps(target)
        self.daemon.stop()
        catalog = self.daemon.data_dir / 'catalog.db'
        database = sqlite3.connect(catalog)
        version, = database.execute('pragma user_version').fetchone()
        database.execute(f'pragma user_version = {version + 1}')
        database.commit()
        database.close()
        done = subprocess.run([harness.PROFD, '--data-dir', self.daemon.data_dir,
                               '--socket-dir', self.daemon.socket_dir],
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b'newer', done.stderr)
        database = sqlite3.connect(catalog)
        database.execute(f'pragma user_version = {version}')
        database.commit()
        database.close()
        self.daemon.start()
        self.assertEqual(self.show(capture['id'])['state'], 'COMPLETE')

    def test_data_outlives_the_daemon(self):
        target = self.target()
        target.do('train 1')
        captures = [self.trace_five_steps(target) for _ in range(3)]
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual({c['id'] for c in self.captures()}, {c['id'] for c in captures})
        for capture in captures:
            self.assertEqual(self.ops(capture['id'])['work']['calls'], 50)
        modes = {oct(p.stat().st_mode & 0o777)
                 for p in (self.daemon.data_dir / 'captures').glob('*.profd')}
        self.assertEqual(modes, {'0o600'})
        self.assertEqual(oct(self.daemon.data_dir.stat().st_mode & 0o777), '0o700')


if __name__ == '__main__':
    harness.main()
