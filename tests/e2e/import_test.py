"""`profctl import` into a daemon and into a store that no daemon has; and what is in such a store."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest

import harness
from harness import DONE, FAILED, NO_DAEMON, USAGE


def write_trace(path, name='aten::mm', count=100):
    """A trace as torch.profiler writes it: one thread, one operator, two steps."""
    events = [{'ph': 'X', 'cat': 'user_annotation', 'name': f'ProfilerStep#{step}', 'pid': 7,
               'tid': 7, 'ts': 1000 + step * count * 10, 'dur': count * 10} for step in range(2)]
    events += [{'ph': 'X', 'cat': 'cpu_op', 'name': name, 'pid': 7, 'tid': 7,
                'ts': 1001 + i * 20, 'dur': 10, 'args': {'External id': i + 1}}
               for i in range(count)]
    events.append({'ph': 'Q', 'name': 'odd', 'pid': 7, 'tid': 7, 'ts': 1})
    path.write_text(json.dumps({'schemaVersion': 1, 'baseTimeNanoseconds': 1_790_000_000 * 10**9,
                                'traceEvents': events}))
    return path


class ImportIntoADaemonTest(harness.EndToEndTest):

    def setUp(self):
        super().setUp()
        self.trace_file = write_trace(self.folder / 'trace.json')

    def imported(self, *arguments):
        result = self.daemon.ctl('import', self.trace_file, '--json', *arguments)
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-2000:])
        return result.json['captures'][0]

    def test_it_is_a_capture_like_any_other(self):
        imported = self.imported()
        self.assertEqual(imported['source'], 'trace.json')
        self.assertEqual(sum(imported['not_understood'].values()), 1)
        self.assertNotIn('path', imported)
        capture = self.show(imported['id'])
        self.assertEqual(capture['state'], 'COMPLETE')
        self.assertEqual(capture['imported']['source'], 'trace.json')
        self.assertEqual(capture['requested_by_uid'], os.geteuid())
        self.assertEqual(len(capture['steps']), 2)
        self.assertEqual(self.ops(imported['id'])['aten::mm']['calls'], 100)
        self.assertIn('trace.json', self.daemon.ctl('show', imported['id']).out)
        self.assertEqual([c['id'] for c in self.captures()], [imported['id']])

        copy = self.folder / 'copy.profd'
        self.assertEqual(self.daemon.ctl('fetch', imported['id'], '-o', copy).status, DONE)
        self.assertEqual(self.ops(copy), self.ops(imported['id']))
        audit = self.daemon.ctl('audit', '--json').json
        self.assertIn('ImportCapture', json.dumps(audit))
        self.assertEqual(self.daemon.ctl('delete', imported['id']).status, DONE)
        self.assertEqual(self.captures(), [])

    def test_the_id_is_printed_for_people(self):
        result = self.daemon.ctl('import', self.trace_file)
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(result.out.strip(), self.captures()[0]['id'])

    def test_a_fetched_capture_of_an_import_says_where_it_came_from(self):
        copy = self.folder / 'copy.profd'
        self.daemon.ctl('fetch', self.imported()['id'], '-o', copy)
        self.assertEqual(self.daemon.ctl('show', copy, '--json').json['imported']['source'],
                         'trace.json')

    def test_several_at_once_all_come(self):
        results = []
        threads = [threading.Thread(
            target=lambda: results.append(self.daemon.ctl('import', self.trace_file, '--json')))
            for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([r.status for r in results], [DONE] * 4, [r.err for r in results])
        self.assertEqual(len({r.json['captures'][0]['id'] for r in results}), 4)
        self.assertEqual(len(self.captures()), 4)

    def test_it_outlives_the_daemon(self):
        imported = self.imported()
        self.daemon.kill()
        # What an upload that was cut off with the daemon leaves.
        stray = self.daemon.data_dir / 'captures' / (imported['id'] + '.upload')
        stray.write_text('half')
        self.daemon.start()
        self.assertEqual(self.ops(imported['id'])['aten::mm']['calls'], 100)
        self.assertFalse(stray.exists())

    def test_a_data_directory_that_the_daemon_has_is_refused(self):
        imported = self.imported()
        for command in (['import', self.trace_file], ['ops', imported['id']], ['captures'],
                        ['delete', imported['id']]):
            result = self.daemon.ctl(*command, '--data-dir', self.daemon.data_dir)
            self.assertEqual(result.status, FAILED, command)
            self.assertIn(f'in use by pid {self.daemon.process.pid}', result.err)
        self.assertEqual(len(self.captures()), 1)


class ImportWithoutRoomTest(harness.EndToEndTest):
    """A daemon whose disk is, by its settings, as good as full."""

    flags = ('--min-free-percent', '90')

    def test_it_says_so_and_leaves_nothing(self):
        disk = shutil.disk_usage(self.folder)
        if disk.free > disk.total * 0.9:
            self.skipTest('more than 90 % of this disk are free')
        result = self.daemon.ctl('import', write_trace(self.folder / 'trace.json'))
        self.assertNotEqual(result.status, DONE)
        self.assertIn('no room', result.err)
        self.assertEqual(self.captures(), [])
        self.assertEqual(list((self.daemon.data_dir / 'captures').iterdir()), [])


class StoreWithoutADaemonTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_e2e_'))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.trace_file = write_trace(self.folder / 'trace.json')
        self.data_dir = self.folder / 'data'

    def ctl(self, *arguments, env=None):
        base = {k: v for k, v in os.environ.items() if not k.startswith(('PROFD_', 'XDG_'))}
        completed = subprocess.run(
            [harness.PROFCTL, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=harness.PATIENCE_S,
            env={**base, 'HOME': str(self.folder), 'XDG_RUNTIME_DIR': str(self.folder / 'none'),
                 **(env or {})})
        return harness.Result(completed)

    def stored(self, *arguments):
        return self.ctl(*arguments, '--data-dir', self.data_dir)

    def imported(self):
        result = self.stored('import', self.trace_file, '--json')
        self.assertEqual(result.status, DONE, result.err)
        return result.json['captures'][0]['id']

    def test_ids_work_in_every_command(self):
        capture = self.imported()
        for command in ('show', 'ops', 'steps', 'memory', 'kernels', 'copies', 'syncs', 'idle',
                        'compile'):
            result = self.stored(command, capture, '--json')
            self.assertEqual(result.status, DONE, f'{command}: {result.err}')
            short = self.stored(command, capture[:20])
            self.assertEqual(short.status, DONE, f'{command}: {short.err}')
        self.assertEqual(self.stored('show', capture, '--json').json['imported']['source'],
                         'trace.json')
        listed = self.stored('captures', '--json').json['captures']
        self.assertEqual([c['id'] for c in listed], [capture])
        self.assertEqual(len(listed[0]['steps']), 2)

    def test_it_can_be_copied_exported_and_deleted(self):
        capture = self.imported()
        copy = self.folder / 'copy.profd'
        trace = self.folder / 'out.json'
        self.assertEqual(self.stored('fetch', capture, '-o', copy).status, DONE)
        self.assertEqual(self.stored('ops', capture, '--json').json['rows'],
                         self.ctl('ops', copy, '--json').json['rows'])
        self.assertEqual(self.stored('export', capture, '-o', trace).status, DONE)
        self.assertIn('aten::mm', trace.read_text())
        self.assertEqual(self.stored('delete', capture).status, DONE)
        self.assertEqual(self.stored('captures', '--json').json['captures'], [])
        gone = self.stored('ops', capture)
        self.assertEqual(gone.status, FAILED)
        self.assertIn('deleted', gone.err)

    def test_a_daemon_that_is_started_on_it_has_them(self):
        capture = self.imported()
        daemon = harness.Daemon(self.folder)
        self.addCleanup(daemon.stop)
        daemon.start()
        self.assertEqual(daemon.ctl('ops', capture, '--json').status, DONE)
        self.assertEqual(len(daemon.ctl('captures', '--json').json['captures']), 1)

    def test_what_a_daemon_left_can_be_read(self):
        daemon = harness.Daemon(self.folder)
        self.addCleanup(daemon.stop)
        daemon.start()
        capture = daemon.ctl('import', self.trace_file, '--json').json['captures'][0]['id']
        daemon.kill()
        self.assertEqual(self.stored('ops', capture, '--json').status, DONE)

    def test_many_at_once_wait_for_each_other(self):
        self.imported()
        results = []
        threads = [threading.Thread(target=lambda: results.append(
            self.stored('import', self.trace_file, '--json'))) for _ in range(4)]
        threads += [threading.Thread(target=lambda: results.append(
            self.stored('captures', '--json'))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([r.status for r in results], [DONE] * 8, [r.err for r in results])
        self.assertEqual(len(self.stored('captures', '--json').json['captures']), 5)

    def test_without_a_daemon_the_users_own_store_is_used(self):
        if os.path.exists('/run/profd/control.sock'):
            self.skipTest('a profd runs on this machine')
        env = {'STATE_DIRECTORY': str(self.data_dir)}
        none = self.ctl('captures', env=env)
        self.assertEqual(none.status, NO_DAEMON)
        self.assertFalse(self.data_dir.exists(), 'asking makes no store')
        result = self.ctl('import', self.trace_file, '--json', env=env)
        self.assertEqual(result.status, DONE, result.err)
        self.assertIn(str(self.data_dir), result.err)
        capture = result.json['captures'][0]['id']
        ops = self.ctl('ops', capture, '--json', env=env)
        self.assertEqual(ops.status, DONE, ops.err)
        self.assertIn('No profd answers', ops.err)
        # Who names a daemon means it.
        named = self.ctl('ops', capture, '--address', f'unix:{self.folder}/none.sock', env=env)
        self.assertEqual(named.status, NO_DAEMON)

    def test_wrong_words_say_what_is_wrong(self):
        capture = self.imported()
        for command, status, words in (
                (['ops', capture, '--data-dir', self.folder / 'nowhere'], FAILED, 'no captures'),
                (['ops', capture, '--data-dir', self.data_dir, '--nodes', 'a'], USAGE, '--nodes'),
                (['captures', '--data-dir', self.data_dir, '--address', 'unix:/x'], USAGE,
                 '--address'),
                (['captures', '--data-dir', ''], USAGE, '--data-dir'),
                (['cancel', capture, '--data-dir', self.data_dir], USAGE, 'data-dir'),
                (['--data-dir', self.data_dir, 'ps'], USAGE, '--data-dir'),
                (['import', self.trace_file, '-o', self.folder / 'x.profd', '--data-dir',
                  self.data_dir], USAGE, '-o'),
                (['ops', '01HZZZZZZZZZZZZZZZZZZZZZZA', '--data-dir', self.data_dir], FAILED,
                 'no capture')):
            result = self.ctl(*command)
            self.assertEqual(result.status, status, f'{command}: {result.err}')
            self.assertIn(words, result.err)
        self.assertFalse((self.folder / 'nowhere').exists())

    def test_the_flag_may_stand_before_the_command(self):
        self.imported()
        result = self.ctl('--data-dir', self.data_dir, 'captures', '--json')
        self.assertEqual(len(result.json['captures']), 1, result.err)


if __name__ == '__main__':
    harness.main()
