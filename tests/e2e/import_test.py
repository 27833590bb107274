"""`profctl import` into a daemon and into files."""

import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import unittest

import harness
from harness import DONE, NO_DAEMON, PARTIAL, USAGE

WORLD_SIZE = 4
SLOW_RANK = 2
STEPS = 3

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


def write_rank(path, rank, world_size=WORLD_SIZE, clock_us=0):
    """A trace of one rank of a job whose steps end in an all-reduce that all leave together, which
    the slow rank enters last. Its host's clock is ahead by so much."""
    events = []

    def add(category, name, start_us, duration_us, **args):
        events.append({'ph': 'X', 'cat': category, 'name': name, 'pid': 100 + rank, 'tid': 7,
                       'ts': start_us, 'dur': duration_us, 'args': args})

    for step in range(STEPS):
        begin = 1000 + step * 1000
        own = 800 if rank == SLOW_RANK else 300
        add('user_annotation', f'ProfilerStep#{step}', begin, 1000)
        add('cpu_op', 'aten::mm', begin + 10, own - 20)
        add('user_annotation', 'all_reduce', begin + own, 900 - own)  # Until it is done.
        add('cpu_op', 'record_param_comms', begin + own, 900 - own, **{
            'Collective name': 'allreduce', 'dtype': 'Float', 'In msg nelems': 64,
            'Out msg nelems': 64, 'Group size': world_size, 'Global rank start': 0,
            'Global rank stride': 1, 'In split size': '[]', 'Out split size': '[]',
            'Process Group Name': '0'})
    path.write_text(json.dumps({
        'schemaVersion': 1, 'host_name': f'host{rank}',
        'distributedInfo': {'backend': 'nccl', 'rank': rank, 'world_size': world_size},
        'baseTimeNanoseconds': 1_790_000_000 * 10**9 + clock_us * 1000, 'traceEvents': events}))
    return path


def write_nsys(path, pids=(41, 42)):
    """An export of Nsight Systems: processes with a kernel and its launch each, and calls of the C
    library, which are not imported."""
    connection = sqlite3.connect(path)
    connection.executescript("""
        CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
          contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
          demangledName INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
          globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
        CREATE TABLE OSRT_API (start INTEGER, end INTEGER, globalTid INTEGER);
        INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'add(float *)');""")
    for pid in pids:
        global_pid = (1 << 48) + (pid << 24)
        connection.execute('INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 4000, 0, 1, 7, 5, '
                           '?, 2)', (global_pid,))
        connection.execute('INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (500, 600, 0, ?, 5, 1, 0)',
                           (global_pid + pid,))
        connection.execute('INSERT INTO OSRT_API VALUES (1, 2, ?)', (global_pid + pid,))
    connection.commit()
    connection.close()
    return path


class GroupOfRanksTest(harness.EndToEndTest):
    """What imported ranks of a job say together."""

    def write_ranks(self, count=WORLD_SIZE):
        return [write_rank(self.folder / f'rank{rank}.json', rank, clock_us=rank * 10_000)
                for rank in range(count)]

    def import_ranks(self, *arguments, status=DONE):
        result = self.daemon.ctl('import', *arguments, '--json')
        self.assertEqual(result.status, status, result.err)
        return result

    def test_ranks_of_a_job_are_a_group(self):
        # Given in any order, reported by rank.
        result = self.import_ranks(*reversed(self.write_ranks()))
        group = result.json['group']
        self.assertIn(f'Group {group}: 4 of 4 ranks', result.err)
        ids = {c['source']: c['id'] for c in result.json['captures']}

        ops = self.daemon.ctl('ops', group, '--json')
        self.assertEqual(ops.status, DONE, ops.err)
        self.assertEqual([m['rank'] for m in ops.json['members']], [0, 1, 2, 3])
        self.assertEqual([m['id'] for m in ops.json['members']],
                         [ids[f'rank{rank}.json'] for rank in range(4)])
        mm = next(row for row in ops.json['rows'] if row['name'] == 'aten::mm')
        self.assertEqual(mm['slowest'], SLOW_RANK)
        self.assertTrue(ops.json['per_step'])
        self.assertEqual(ops.json['step_counts'], [STEPS] * 4)
        self.assertEqual([STEPS * ns for ns in mm['by_member']], [840_000, 840_000, 2_340_000, 840_000])

        steps = self.daemon.ctl('steps', group, '--json')
        self.assertEqual(steps.status, DONE, steps.err)
        self.assertEqual(len(steps.json['steps']), STEPS)
        for row in steps.json['steps']:
            self.assertEqual((row['member_count'], row['slowest']), (4, SLOW_RANK))
        stragglers = self.daemon.ctl('stragglers', group, '--json')
        self.assertEqual(stragglers.json['ranks'][0]['rank'], SLOW_RANK)
        report = self.daemon.ctl('report', group, '--json')
        self.assertEqual(report.status, DONE, report.err)
        self.assertEqual(report.json['reported_member'], SLOW_RANK)
        schema = harness.run_profctl(self.folder, 'schema', 'report').json
        self.assertLessEqual(set(report.json), set(schema['properties']))
        self.assertLessEqual(set(schema['required']), set(report.json))
        self.assertEqual(set(report.json['members'][0]),
                         set(schema['properties']['members']['items']['required']))
        self.assertEqual(report.json['id'], ids[f'rank{SLOW_RANK}.json'])
        straggler = next(f for f in report.json['findings'] if f['rule'] == 'STRAGGLER_RANK')
        self.assertEqual(straggler['value'], stragglers.json['ranks'][0]['score'])
        self.assertEqual([e['name'] for e in straggler['evidence']],
                         [f'rank {SLOW_RANK}', 'operators on the host', 'aten::mm'])
        self.assertIn('aten::mm takes 780 us instead of 280 us, in as many calls', straggler['measured'])
        shown = self.daemon.ctl('report', group)
        self.assertIn(f': rank {SLOW_RANK} has 500.000us more own work per step', shown.out)
        # Of one rank by itself the rule says what it needs.
        alone = self.daemon.ctl('report', ids['rank0.json'], '--json')
        self.assertNotIn('reported_member', alone.json)
        self.assertIn('STRAGGLER_RANK', [rule['rule'] for rule in alone.json['skipped']])

        # Hosts' clocks that nobody measured are aligned on what all ranks ended together.
        trace = self.folder / 'job.json'
        exported = self.daemon.ctl('export', group, '-o', trace, '--json')
        self.assertEqual(exported.status, DONE, exported.err)
        self.assertEqual([m['basis'] for m in exported.json['clock']['members']],
                         ['collectives'] * 4)
        merged = json.loads(trace.read_text())
        self.assertEqual(merged['profd']['group'], group)
        ends = {round(e['ts'] + e['dur'], 3) for e in merged['traceEvents']
                if e['name'] == 'record_param_comms'}
        self.assertEqual(len(ends), STEPS, ends)

    def test_ranks_without_a_trace_are_missing(self):
        result = self.import_ranks(*self.write_ranks(count=3))
        self.assertIn('3 of 4 ranks; it is PARTIAL, without rank 3', result.err)
        ops = self.daemon.ctl('ops', result.json['group'], '--json')
        self.assertEqual(ops.status, PARTIAL)
        self.assertIn('missing rank 3: no trace of it was imported', ops.err)
        self.assertEqual([bool(m['missing']) for m in ops.json['members']],
                         [False, False, False, True])
        self.assertEqual((result.json['missing_ranks'], result.json['missing_rank_count']), ([3], 1))
        shown = self.daemon.ctl('show', result.json['group'])
        self.assertEqual(shown.status, DONE, shown.err)
        self.assertIn('It is PARTIAL, without rank 3: no trace of it was imported', shown.out)
        shown = self.daemon.ctl('show', result.json['group'], '--json')
        self.assertEqual([(row['rank'], row['error_reason'], row['id'])
                          for row in shown.json['missed']], [(3, 'NO_TRACE', '')])

    def test_traces_of_different_days_are_compared_only_if_forced(self):
        day_us = 86_400 * 10**6
        result = self.import_ranks(*[
            write_rank(self.folder / f'rank{rank}.json', rank, clock_us=rank * day_us)
            for rank in range(WORLD_SIZE)])
        self.assertIn('Reports will not compare them', result.err)
        group = result.json['group']
        for command in ('stragglers', 'steps', 'ops', 'report'):
            refused = self.daemon.ctl(command, group)
            self.assertNotEqual(refused.status, DONE, command)
            self.assertIn('--group', refused.err)
        forced = self.daemon.ctl('stragglers', group, '--group', '--json')
        self.assertEqual(forced.status, DONE, forced.err)
        self.assertEqual((forced.json['matched_count'], forced.json['rejected_count']), (0, STEPS))
        self.assertEqual((forced.json['verdict'], forced.json['reason']), ('withheld', 'no_matches'))
        self.assertIsNone(forced.json['ranks'][0]['wait_ns'])

    def test_each_import_is_a_group_of_its_own(self):
        ranks = self.write_ranks()
        groups = {self.import_ranks(*ranks).json['group'] for _ in range(2)}
        self.assertEqual(len(groups), 2)
        for group in groups:
            steps = self.daemon.ctl('steps', group, '--json')
            self.assertEqual([m['rank'] for m in steps.json['members']], [0, 1, 2, 3])

    def test_who_contradicts_is_no_group(self):
        ranks = self.write_ranks()
        other = write_rank(self.folder / 'other.json', 1, world_size=2)
        plain = write_trace(self.folder / 'plain.json')
        for traces, why in (((ranks[0], ranks[0]), 'are both of rank 0'),
                            ((ranks[0], other), 'of a job of 4 ranks'),
                            ((ranks[0], plain), 'does not say its rank')):
            result = self.import_ranks(*traces)
            self.assertIsNone(result.json['group'])
            self.assertIn(f'No group: {self.folder}', result.err)
            self.assertIn(why, result.err)
        for arguments in ((*ranks, '--no-group'), (ranks[0],), (plain, plain)):
            result = self.import_ranks(*arguments)
            self.assertIsNone(result.json['group'])
            self.assertNotIn('roup', result.err)


    def test_files_of_ranks_are_a_group_too(self):
        self.import_ranks(*self.write_ranks(), '--output-dir', self.folder)
        files = [self.folder / f'rank{rank}.profd' for rank in range(4)]
        steps = self.daemon.ctl('steps', *files, '--json')
        self.assertEqual(steps.status, DONE, steps.err)
        self.assertTrue(steps.json['group'])
        self.assertEqual(steps.json['steps'][0]['slowest'], SLOW_RANK)

    def test_the_group_outlives_the_daemon_and_is_shown(self):
        group = self.import_ranks(*self.write_ranks()).json['group']
        self.daemon.kill()
        self.daemon.start()
        shown = self.daemon.ctl('show', group, '--json')
        self.assertEqual(shown.status, DONE, shown.err)
        self.assertEqual([m['rank'] for m in shown.json['members']], [0, 1, 2, 3])
        self.assertEqual(shown.json['missed'], [])


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
        self.assertIn(': 1 event not understood: ph:Q 1\n', result.err)

    def test_a_fetched_capture_of_an_import_says_where_it_came_from(self):
        copy = self.folder / 'copy.profd'
        self.daemon.ctl('fetch', self.imported()['id'], '-o', copy)
        self.assertEqual(self.daemon.ctl('show', copy, '--json').json['imported']['source'],
                         'trace.json')

    def test_a_file_that_is_cut_off_is_imported_and_not_taken_for_a_whole_one(self):
        whole = self.daemon.ctl('import', self.trace_file)
        self.assertEqual(whole.status, DONE, whole.err)
        cut = self.folder / 'cut.json'
        text = self.trace_file.read_text()
        cut.write_text(text[:len(text) * 3 // 4])
        result = self.daemon.ctl('import', cut, '--json')
        self.assertEqual(result.status, PARTIAL, result.err)
        imported = result.json['captures'][0]['id']
        self.assertEqual(self.daemon.ctl('show', imported, '--json').json['state'], 'PARTIAL')

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


class NsysImportTest(harness.EndToEndTest):

    def test_each_process_is_a_capture_of_a_group(self):
        report = write_nsys(self.folder / 'report.sqlite')
        result = self.daemon.ctl('import', report, '--json')
        self.assertEqual(result.status, DONE, result.err)
        group = result.json['group']
        self.assertIn(f'Group {group}: 2 processes of report.sqlite', result.err)
        self.assertEqual([c['not_understood'] for c in result.json['captures']],
                         [{'OSRT_API': 1}] * 2)
        for capture, pid in zip(result.json['captures'], (41, 42)):
            shown = self.show(capture['id'])
            self.assertEqual(shown['target']['pid'], pid)
            self.assertEqual(shown['group'], group)
            self.assertIn('1 OSRT_API', self.daemon.ctl('show', capture['id']).out)
            kernels = self.daemon.ctl('kernels', capture['id'], '--json')
            self.assertEqual(kernels.status, DONE, kernels.err)
            self.assertIn('add(float *)', kernels.out)
        self.assertEqual(self.daemon.ctl('report', group).status, DONE)
        apart = self.daemon.ctl('import', report, '--no-group', '--json')
        self.assertIsNone(apart.json['group'])

    def test_files_are_named_after_the_process(self):
        report = write_nsys(self.folder / 'report.sqlite')
        result = self.daemon.ctl('import', report, '--output-dir', self.folder)
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual([pathlib.Path(line).name for line in result.out.split()],
                         ['report-41.profd', 'report-42.profd'])
        refused = self.daemon.ctl('import', report, '-o', self.folder / 'one.profd')
        self.assertEqual(refused.status, USAGE)
        self.assertIn('holds 2 processes', refused.err)
        single = write_nsys(self.folder / 'single.sqlite', pids=(7,))
        result = self.daemon.ctl('import', single, '-o', self.folder / 'one.profd', '--json')
        self.assertEqual(result.status, DONE, result.err)
        self.assertIsNone(result.json['group'])


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


class NoDaemonTest(unittest.TestCase):

    def setUp(self):
        if os.path.exists('/run/profd/control.sock'):
            self.skipTest('a profd runs on this machine')
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_e2e_'))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.trace_file = write_trace(self.folder / 'traces.json')
        self.here = self.folder / 'here'
        self.here.mkdir()

    def ctl(self, *arguments):
        base = {k: v for k, v in os.environ.items() if not k.startswith(('PROFD_', 'XDG_'))}
        return harness.Result(subprocess.run(
            [harness.PROFCTL, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=harness.PATIENCE_S, cwd=self.here,
            env={**base, 'HOME': str(self.folder), 'XDG_RUNTIME_DIR': str(self.folder / 'none')}))

    def test_a_trace_becomes_a_file_in_this_folder(self):
        result = self.ctl('import', self.trace_file)
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(result.out, 'traces.profd\n')
        self.assertIn('No profd answers', result.err)
        self.assertEqual([path.name for path in self.here.iterdir()], ['traces.profd'])
        ops = self.ctl('ops', 'traces.profd', '--json')
        self.assertEqual(ops.status, DONE, ops.err)
        self.assertEqual({row['name']: row['calls'] for row in ops.json['rows']}['aten::mm'], 100)

    def test_processes_of_one_file_become_files_in_this_folder(self):
        report = write_nsys(self.folder / 'report.sqlite')
        result = self.ctl('import', report)
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(result.out.split(), ['report-41.profd', 'report-42.profd'])
        again = self.ctl('import', report)
        self.assertEqual(again.status, USAGE)
        self.assertIn("'report-41.profd' is there already", again.err)

    def test_a_file_that_is_there_is_kept(self):
        kept = self.here / 'traces.profd'
        kept.write_text('mine')
        result = self.ctl('import', self.trace_file)
        self.assertEqual(result.status, USAGE)
        self.assertIn('is there already', result.err)
        self.assertEqual(kept.read_text(), 'mine')
        # Whose name was chosen is replaced, as by any other command.
        self.assertEqual(self.ctl('import', self.trace_file, '-o', kept).status, DONE)
        self.assertNotEqual(kept.read_bytes(), b'mine')

    def test_a_daemon_that_was_named_is_meant(self):
        result = self.ctl('import', self.trace_file, '--address', f'unix:{self.folder}/none.sock')
        self.assertEqual(result.status, NO_DAEMON)
        self.assertEqual(list(self.here.iterdir()), [])

    def test_what_a_daemon_left_is_read_from_its_files(self):
        daemon = harness.Daemon(self.folder)
        self.addCleanup(daemon.stop)
        daemon.start()
        capture = daemon.ctl('import', self.trace_file, '--json').json['captures'][0]['id']
        daemon.kill()
        by_id = self.ctl('ops', capture)
        self.assertEqual(by_id.status, NO_DAEMON)
        self.assertIn('captures/ID.profd', by_id.err)
        by_file = self.ctl('ops', daemon.data_dir / 'captures' / f'{capture}.profd', '--json')
        self.assertEqual(by_file.status, DONE, by_file.err)


if __name__ == '__main__':
    harness.main()
