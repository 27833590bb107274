"""What a group says: operators by rank, steps, the straggler, and one trace of all ranks."""

import json
import threading
import time

import harness
from cluster_harness import JOB, ClusterTest
from harness import DONE, FAILED, PARTIAL, USAGE

SLOW_RANK = 2
SLOW_S = 0.02


class Training(threading.Thread):
    """Steps of all ranks that end in an all-reduce, which none leaves before the slow one, whose
    own work takes `slow_s` more, has entered it.

    Whatever holds the ranks up, the slow one has the most own work of every step: it marks the step
    last, and works for slow_s and for as long as the marks of the others took. That its work
    stands out from the noise takes more: slow_s is ten times the longest of the steps without it.
    """

    STEPS_TO_MEASURE = 10

    def __init__(self, ranks):
        super().__init__(name='training', daemon=True)
        self.slow = ranks[SLOW_RANK]
        self.others = [rank for rank in ranks if rank is not self.slow]
        self.is_over = threading.Event()
        self.slow_s = max(SLOW_S, 10 * max(self.step(0) for _ in range(self.STEPS_TO_MEASURE)))

    def run(self):
        while not self.is_over.is_set():
            self.step(self.slow_s)

    def step(self, work_s):
        """Returns how long it took."""
        begin = time.monotonic()
        for rank in (*self.others, self.slow):
            rank.do('step', 'range forward 5')
        marks_s = time.monotonic() - begin
        for rank in self.others:
            rank.do('open all_reduce')
        self.slow.do('open backward')
        if work_s:
            time.sleep(work_s + marks_s)  # Its work; nothing waits for the clock.
        self.slow.do('close', 'open all_reduce', 'close')
        for rank in self.others:
            rank.do('close')
        return time.monotonic() - begin

    def halt(self):
        self.is_over.set()
        self.join(harness.PATIENCE_S)


class GroupReportsTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.cluster_ = self.cluster(nodes=4, ranks_per_node=1)
        self.cluster_.halt()
        training = Training(self.cluster_.ranks)
        self.slow_ns = training.slow_s * 1e9
        # Nobody steps before all know the step to start at, so that it may be the next one.
        tracing = self.cluster_.begin('trace', '--job', JOB, '--steps', 4, '--lead', '1us', '--json')
        harness.until(lambda: [row['state'] for row in self.cluster_.live_captures()] ==
                      4 * ['WAITING_STEP'], 'all wait for their step')
        training.start()
        try:
            traced = self.cluster_.finish(tracing)
        finally:
            training.halt()
        self.assertEqual(traced.status, DONE, traced.err)
        self.group = traced.json['id']

    def report(self, *arguments, status=DONE):
        result = self.cluster_.ctl(*arguments, '--json')
        self.assertEqual(result.status, status, result.err)
        return result.json

    def test_reports_compare_the_ranks(self):
        stragglers = self.report('stragglers', self.group)
        self.assertEqual([row['rank'] for row in stragglers['members']], [0, 1, 2, 3])
        self.assertEqual(stragglers['matched_count'], 4)
        self.assertEqual([row['rank'] for row in stragglers['ranks'] if row['straggler']],
                         [SLOW_RANK])
        first = stragglers['ranks'][0]
        self.assertEqual(first['rank'], SLOW_RANK)
        self.assertEqual(stragglers['verdict'], 'straggler')
        self.assertEqual(first['last_count'], 4)
        self.assertRegex(stragglers['more_of'], f'^Compared with 3 other ranks, rank {SLOW_RANK} .*backward')
        self.assertTrue(stragglers['more_of_advice'])
        report = self.report('report', self.group)
        self.assertEqual(report['more_of'], stragglers['more_of'])
        self.assertGreater(first['caused_wait_ns'], 3 * self.slow_ns / 2)
        for row in stragglers['ranks']:
            self.assertEqual(row['step_count'], 4)
            if row['rank'] != SLOW_RANK:
                self.assertGreater(row['wait_ns'], first['wait_ns'])
                self.assertLess(row['own_ns'], first['own_ns'])

        steps = self.report('steps', self.group)
        self.assertEqual(len(steps['steps']), 4)
        for row in steps['steps']:
            self.assertEqual(row['member_count'], 4)
            self.assertEqual(row['slowest'], SLOW_RANK)
            self.assertNotEqual(row['waited_most'], SLOW_RANK)
        for step in (step for member in steps['by_member'] for step in member):
            self.assertEqual(step['own_ns'] + step['transfer_ns'] + step['wait_ns'],
                             step['duration_ns'])

        ops = {row['name']: row for row in self.report('ops', self.group)['rows']}
        self.assertEqual(ops['forward']['member_count'], 4)
        self.assertEqual(ops['forward']['median_calls'], 20)
        self.assertEqual(ops['backward']['member_count'], 1)
        self.assertEqual(ops['backward']['slowest'], SLOW_RANK)
        self.assertEqual(ops['backward']['by_member'][0], 0)

        # One capture of it is reported by itself, wherever it is.
        one = self.report('steps', stragglers['members'][3]['id'])
        self.assertEqual(one['id'], stragglers['members'][3]['id'])
        not_a_group = self.cluster_.ctl('stragglers', stragglers['members'][3]['id'])
        self.assertEqual(not_a_group.status, USAGE)
        for_people = self.cluster_.ctl('stragglers', self.group)
        self.assertIn('1 straggler', for_people.out)

    def test_the_history_of_ranks_outlives_the_events(self):
        stragglers = self.report('stragglers', self.group)

        def history():
            answer = self.report('history', '--stragglers', '--job', JOB)
            self.assertEqual([window['group'] for window in answer['windows']], [self.group])
            return answer

        def check(answer):
            window, = answer['windows']
            for key in ('verdict', 'reason', 'matched_count', 'rejected_count'):
                self.assertEqual(window[key], stragglers[key], key)
            self.assertEqual(window['common_step_count'], len(stragglers['common_steps']))
            self.assertEqual(window['not_compared'], [])
            self.assertEqual(window['left_out_step_count'], 0)
            for kept, compared in zip(window['ranks'], stragglers['ranks'], strict=True):
                member = stragglers['members'][compared.pop('member')]
                self.assertEqual(kept.pop('capture'), member['id'])
                self.assertEqual(kept.pop('slow'), compared['straggler'])
                self.assertEqual(kept, compared)
                compared['member'] = stragglers['members'].index(member)
            slow = {row['rank']: (row['slow_count'], row['verdict_count'])
                    for row in answer['ranks']}
            self.assertEqual(slow, {rank: (int(rank == SLOW_RANK), 1) for rank in range(4)})

        check(history())
        # All that is kept of the captures now are their summaries.
        for member in stragglers['members']:
            deleted = self.cluster_.ctl('delete', member['id'])
            self.assertEqual(deleted.status, DONE, deleted.err)
        self.assertNotEqual(self.cluster_.ctl('stragglers', self.group).status, DONE)
        check(history())
        for_people = self.cluster_.ctl('history', '--stragglers')
        self.assertIn('1 window, 1 with a verdict', for_people.out)
        csv = self.cluster_.ctl('history', '--stragglers', '--csv')
        self.assertEqual(len(csv.out.splitlines()), 1 + 4)
        # A node that is down takes its rank along; the others are compared without it.
        self.cluster_.nodes[0].kill()
        answer = self.report('history', '--stragglers', status=PARTIAL)
        window, = answer['windows']
        self.assertEqual([row['rank'] for row in window['ranks']][0], SLOW_RANK)
        self.assertEqual(window['compared_count'], 3)
        self.assertEqual([node['ok'] for node in answer['nodes']], [False, True, True, True])

    def test_one_trace_holds_all_ranks_also_offline(self):
        path = self.folder / 'job.json'
        exported = self.report('export', self.group, '-o', path)
        self.assertEqual(exported['clock']['collectives'], 4)
        # A rank that the machine kept from running ends its collectives late: beyond the bound of
        # its probe, the probe counts.
        bases = [row['basis'] for row in exported['clock']['members']]
        self.assertEqual(len(bases), 4)
        self.assertLessEqual(set(bases), {'collectives', 'probe'})
        self.assertIsNotNone(exported['clock']['residual_ns'])
        trace = json.loads(path.read_text())
        self.assertEqual(trace['profd']['group'], self.group)
        names = {event['pid']: event['args']['name'] for event in trace['traceEvents']
                 if event['name'] == 'process_name'}
        self.assertEqual(sorted(name.split(':')[0] for name in names.values()),
                         ['rank 0', 'rank 1', 'rank 2', 'rank 3'])
        self.assertEqual([entry.name for entry in self.folder.iterdir()
                          if entry.name.startswith('.profctl')], [])

        fetched = self.cluster_.ctl('fetch', self.group, '-o', self.folder / 'job.profd')
        self.assertEqual(fetched.status, DONE, fetched.err)
        files = sorted(self.folder.glob('job-rank*.profd'))
        self.assertEqual(len(files), 4)
        online = self.report('stragglers', self.group)
        offline = self.report('stragglers', *files)
        self.assertEqual(offline['group'], self.group)
        self.assertEqual(offline['ranks'], online['ranks'])
        perfetto = self.folder / 'job.pftrace'
        self.report('export', *files, '-o', perfetto)
        self.assertGreater(perfetto.stat().st_size, 0)
        twice = self.cluster_.ctl('steps', files[0], files[0])
        self.assertEqual(twice.status, USAGE)

    def test_a_node_out_of_reach_is_named_and_any_other_answers(self):
        # By the addresses that each was told, without --nodes.
        alone = self.cluster_.nodes[0].ctl('steps', self.group, '--json')
        self.assertEqual([row['rank'] for row in alone.json['members']], [0, 1, 2, 3])
        self.cluster_.nodes[1].kill()
        result = self.cluster_.ctl('steps', self.group, '--json')
        self.assertEqual(result.status, PARTIAL, result.err)
        missing = [row['rank'] for row in result.json['members'] if row['missing']]
        self.assertEqual(missing, [1])
        self.assertIn('missing rank 1 (node1', result.err)
        for node in self.cluster_.nodes:
            if node.process.poll() is None:
                node.kill()
        gone = self.cluster_.ctl('steps', self.group)
        self.assertNotIn(gone.status, (DONE, FAILED, PARTIAL), gone.err)


if __name__ == '__main__':
    harness.main()
