"""Scheduled sampling, end to end: real daemons, real targets, windows on the real clock.

The shortest schedule is ten seconds, so what can be is seen in the first window.
"""

import json
import subprocess
import time

import cluster_harness
import harness

FIRST = '01HZZZZZZZZZZZZZZZZZZZZZZA'
SECOND = '01HZZZZZZZZZZZZZZZZZZZZZZB'


class ScheduleTest(harness.EndToEndTest):

    def create(self, *flags):
        result = self.daemon.ctl('schedule', 'create', '--json', *flags)
        self.assertEqual(result.status, harness.DONE, result.err)
        return result.json['id']

    def history(self, schedule):
        result = self.daemon.ctl('schedule', 'history', schedule, '--json')
        self.assertEqual(result.status, harness.DONE, result.err)
        return result.json['windows']

    def await_window(self, schedule, outcome):
        def found():
            return [w for w in self.history(schedule) if w['outcome'] == outcome]
        return harness.until(found, f'a window that is {outcome}; log:\n' + self.daemon.log())[0]

    def test_a_window_is_captured_and_says_whose_it_is(self):
        target = self.target()
        target.do('train 1')
        schedule = self.create('--every', '10s', '--steps', '3', '--label', 'why=sampling')
        window = self.await_window(schedule, 'captured')
        self.assertEqual(window['pid'], target.pid)
        self.assertEqual(window['sampling_weight'], 1)
        harness.until(lambda: self.show(window['capture'])['state'] == 'COMPLETE', 'its end')
        capture = self.show(window['capture'])
        self.assertEqual(capture['schedule'], schedule)
        self.assertEqual(capture['schedule_window_unix_ns'], window['time_unix_ns'])
        self.assertEqual(len(capture['steps']), 3)
        self.assertEqual(capture['labels'], {'why': 'sampling'})
        target.do('rest')

    def test_it_survives_a_restart_and_records_what_it_missed(self):
        schedule = self.create('--every', '10s', '--align')
        self.await_window(schedule, 'no_target')
        self.daemon.terminate()
        # A window without a daemon: --align puts them at the full ten seconds.
        window = (time.time() // 10 + 1) * 10
        harness.until(lambda: time.time() > window, 'a window without a daemon')
        self.daemon.start()
        self.await_window(schedule, 'missed')
        self.assertEqual(self.daemon.ctl('schedule', 'show', schedule[:20], '--json')
                         .json['schedules'][0]['state'], 'ACTIVE')

    def test_an_operator_goes_first(self):
        target = self.target()
        target.do('step')  # Marks no more: the schedule's capture waits for a step.
        schedule = self.create('--every', '10s', '--steps', '1000')
        window = self.await_window(schedule, 'captured')
        harness.until(lambda: self.show(window['capture'])['state'] == 'WAITING_STEP', 'it waits')
        tracing = self.trace('--pid', target.pid, '--steps', '2')
        harness.until(lambda: self.show(window['capture'])['state'] == 'CANCELLED', 'it gives way')
        self.assertEqual(self.show(window['capture'])['ended_by'], 'preempted')
        target.do('train 1')
        result = tracing.result()
        self.assertEqual(result.status, harness.DONE, result.err)
        self.assertEqual(result.json['state'], 'COMPLETE')
        target.do('rest')

    def test_paused_and_deleted(self):
        schedule = self.create('--every', '10s')
        for verb, state in (('pause', 'PAUSED'), ('resume', 'ACTIVE'), ('delete', 'DELETED')):
            result = self.daemon.ctl('schedule', verb, schedule, '--json')
            self.assertEqual(result.status, harness.DONE, result.err)
            self.assertEqual(result.json['schedules'][0]['state'], state)
        self.assertEqual(self.daemon.ctl('schedule', 'list', '--json').json['schedules'], [])
        self.assertEqual(self.daemon.ctl('schedule', 'resume', schedule).status, harness.FAILED)

    def test_what_cannot_be_is_refused_with_its_name(self):
        for flags, says in ((['--every', '1s'], 'every'), (['--cron', '61 * * * *'], 'minute'),
                            (['--every', '30m', '--fraction', '5', ], '--fraction'),
                            (['--every', '30m', '--count', '3'], 'names of all nodes'),
                            ([], '--every')):
            result = self.daemon.ctl('schedule', 'create', *flags)
            self.assertNotEqual(result.status, harness.DONE, flags)
            self.assertIn(says, result.err)
        self.assertEqual(self.daemon.ctl('schedule', 'show', '01ZZZ').status, harness.FAILED)
        self.assertEqual(self.daemon.ctl('schedule', 'show', '../x').status, harness.USAGE)


class ManyNodesTest(cluster_harness.ClusterTest):

    def test_placed_on_all_sampled_together_and_drift_is_told(self):
        cluster = self.cluster(nodes=3, ranks_per_node=1)
        created = cluster.ctl('schedule', 'create', '--every', '10s', '--steps', '2', '--json')
        self.assertEqual(created.status, harness.DONE, created.err)
        schedule = created.json['id']
        self.assertEqual({s['id'] for s in created.json['schedules']}, {schedule})
        self.assertEqual(len(created.json['schedules']), 3)
        self.assertTrue(all(node['ok'] for node in created.json['nodes']))

        def captured_together():
            by_time = {}
            for window in cluster.ctl('schedule', 'history', schedule, '--json').json['windows']:
                if window['outcome'] == 'captured':
                    by_time.setdefault(window['time_unix_ns'], set()).add(window['node'])
            # A node that another is ahead of by a window has its row of that window later.
            return {'node0', 'node1', 'node2'} in by_time.values()
        harness.until(captured_together, 'a window that all nodes captured')

        listed = cluster.ctl('schedule', 'list', '--json')
        self.assertEqual(listed.status, harness.DONE, listed.err)
        self.assertEqual(listed.json['drift'], [])
        cluster.nodes[1].ctl('schedule', 'delete', schedule)
        listed = cluster.ctl('schedule', 'list', '--json')
        self.assertEqual(listed.status, harness.PARTIAL)
        self.assertEqual(
            [(d['node'], d['problem']) for d in listed.json['drift']],
            [(node, 'is not deleted, as it is on other nodes (version 2)')
             for node in ('node0', 'node2')])
        self.assertEqual(cluster.ctl('schedule', 'delete', schedule).status, harness.DONE)
        self.assertEqual(cluster.ctl('schedule', 'list', '--json').json['drift'], [])

    def declare(self, *schedules):
        path = self.folder / 'schedules.json'
        path.write_text(json.dumps({'schedules': schedules}))
        return path

    def statuses(self, cluster, *flags):
        return {row['id']: row for row in
                cluster.ctl('schedule', 'status', '--json', *flags).json['statuses']}

    def test_a_file_makes_every_node_what_it_declares(self):
        cluster = self.cluster(nodes=3, ranks_per_node=1)
        first = {'name': 'schedules/' + FIRST, 'version': 1,
                 'spec': {'every': '1800s', 'capture': {'steps': 3}, 'display_name': 'nightly'}}
        second = {'name': 'schedules/' + SECOND, 'version': 1,
                  'spec': {'cron': '0 3 * * *', 'capture': {'steps': 5}}}
        file = self.declare(first, second)
        late = cluster.nodes[2]
        late.terminate()

        before = cluster.ctl('schedule', 'diff', '-f', file, '--json', nodes=cluster.nodes[:2])
        self.assertEqual(before.status, harness.CONDITION, before.err)
        self.assertEqual({row['change'] for row in before.json['declarations']}, {'created'})
        self.assertEqual(cluster.ctl('schedule', 'apply', '-f', file).status, harness.PARTIAL)
        again = cluster.ctl('schedule', 'apply', '-f', file, '--json', nodes=cluster.nodes[:2])
        self.assertEqual(again.status, harness.DONE, again.err)
        self.assertEqual({row['change'] for row in again.json['declarations']}, {'unchanged'})
        self.assertEqual(cluster.ctl('schedule', 'diff', '-f', file,
                                     nodes=cluster.nodes[:2]).status, harness.DONE)

        late.start()
        status = self.statuses(cluster)
        self.assertEqual((status[FIRST]['nodes_current'], status[FIRST]['nodes_expected']), (2, 3))
        self.assertIn('missing: node2', status[FIRST]['behind'])
        begun = time.monotonic()
        joined = late.ctl('schedule', 'apply', '-f', file)
        self.assertEqual(joined.status, harness.DONE, joined.err)
        self.assertEqual(self.statuses(cluster)[FIRST]['nodes_current'], 3)
        self.assertLess(time.monotonic() - begun, 5)

        first['version'], first['spec']['every'] = 2, '3600s'
        file = self.declare(first, second)
        changed = cluster.ctl('schedule', 'apply', '-f', file, '--json', nodes=cluster.nodes[:1])
        self.assertEqual([row['change'] for row in changed.json['declarations']],
                         ['updated', 'unchanged'])
        self.assertIn('version 1: node1, node2', self.statuses(cluster)[FIRST]['behind'])
        self.assertEqual(cluster.ctl('schedule', 'apply', '-f', file).status, harness.DONE)
        self.assertEqual(self.statuses(cluster)[FIRST]['behind'], '')

    def test_what_is_deleted_never_comes_back(self):
        cluster = self.cluster(nodes=3, ranks_per_node=1)
        file = self.declare({'name': 'schedules/' + FIRST, 'version': 1,
                             'spec': {'every': '1800s', 'capture': {'steps': 3}}})
        self.assertEqual(cluster.ctl('schedule', 'apply', '-f', file, nodes=cluster.nodes[:2]).status,
                         harness.DONE)
        cluster.nodes[1].terminate()
        deleted = cluster.ctl('schedule', 'delete', FIRST)
        self.assertEqual(deleted.status, harness.PARTIAL, deleted.err)
        self.assertIn('may still have the schedule', deleted.err)
        # Neither where it was, nor where it never was.
        for node in (cluster.nodes[0], cluster.nodes[2]):
            refused = node.ctl('schedule', 'apply', '-f', file, '--json')
            self.assertEqual(refused.status, harness.FAILED, refused.err)
            self.assertEqual(refused.json['declarations'][0]['error_reason'], 'STALE_VERSION')
            node.terminate()
            node.start()
            self.assertEqual(node.ctl('schedule', 'list', '--json').json['schedules'], [])
        cluster.nodes[1].start()
        behind = self.statuses(cluster)[FIRST]
        self.assertEqual((behind['version'], behind['state'], behind['behind']),
                         (2, 'DELETED', 'version 1: node1'))
        self.assertEqual(cluster.ctl('schedule', 'delete', FIRST).status, harness.DONE)
        self.assertEqual(self.statuses(cluster, '--deleted')[FIRST]['nodes_current'], 3)
        self.assertEqual(self.statuses(cluster), {})

    def test_a_file_that_is_wrong_changes_nothing_and_says_where(self):
        cluster = self.cluster(nodes=1, ranks_per_node=1)
        good = {'name': 'schedules/' + FIRST, 'version': 1,
                'spec': {'every': '1800s', 'capture': {'steps': 3}}}
        other = {**good, 'name': 'schedules/' + SECOND}
        for spoilt, says in (({**other, 'versions': 2}, 'versions'),
                             ({**other, 'version': 0}, 'version'),
                             ({**other, 'name': 'nightly'}, 'schedules/ULID'),
                             ({**other, 'deleted': True}, 'mutually exclusive'),
                             ({'name': other['name'], 'version': 1}, 'spec'),
                             (good, 'twice'),
                             # Which only the daemon knows.
                             ({**other, 'spec': {'every': '1s', 'capture': {'steps': 3}}}, SECOND)):
            result = cluster.ctl('schedule', 'apply', '-f', self.declare(good, spoilt))
            self.assertEqual(result.status, harness.USAGE, result.err)
            self.assertIn(says, result.err)
        missing = cluster.ctl('schedule', 'apply', '-f', self.folder / 'none.json')
        self.assertEqual(missing.status, harness.USAGE)
        self.assertEqual(cluster.ctl('schedule', 'list', '--json').json['schedules'], [])

    def await_group(self, cluster, schedule, ranks):
        """The ID of the first group of so many ranks that have all ended."""
        def found():
            rows = cluster.ctl('captures', '--schedule', schedule, '--json').json['captures']
            groups = {}
            for row in rows:
                if row['state'] == 'COMPLETE' and row['group']:
                    groups.setdefault(row['group'], []).append(row)
            return [group for group, members in groups.items() if len(members) == ranks]
        return harness.until(found, f'a group of {ranks} ranks; log:\n' + cluster.nodes[0].log())[0]

    def test_ranks_of_a_job_begin_a_window_at_the_same_step(self):
        cluster = self.cluster(nodes=3, ranks_per_node=2)
        created = cluster.ctl('schedule', 'create', '--every', '10s', '--steps', '4', '--json')
        self.assertEqual(created.status, harness.DONE, created.err)
        schedule = created.json['id']
        group = self.await_group(cluster, schedule, 6)

        listed = cluster.ctl('captures', '--group', group, '--json').json['captures']
        self.assertEqual({row['target']['pid'] for row in listed},
                         {rank.pid for rank in cluster.ranks})
        steps = [(window['first_step'], window['end_step'])
                 for row in listed for window in row['windows']]
        self.assertEqual(steps, 6 * [steps[0]])
        shown = cluster.ctl('show', group, '--json')
        self.assertEqual(shown.status, harness.DONE, shown.err)
        self.assertEqual(shown.json['first_step'], steps[0][0])
        self.assertEqual([member['rank'] for member in shown.json['members']], list(range(6)))
        self.assertEqual(shown.json['missed'], [])
        for report in ('stragglers', 'report', 'steps'):
            result = cluster.ctl(report, group, '--json')
            self.assertEqual(result.status, harness.DONE, (report, result.err))
            self.assertEqual([row['rank'] for row in result.json['members']], list(range(6)))
        windows = cluster.ctl('schedule', 'history', schedule, '--json').json['windows']
        of_group = [window for window in windows if window['group'] == group]
        self.assertEqual(len(of_group), 6)
        self.assertEqual({window['first_step'] for window in of_group}, {steps[0][0]})

    def test_ranks_wait_for_a_window_that_runs_and_begin_the_next_one_together(self):
        cluster = self.cluster(nodes=2, ranks_per_node=2, step_ms=20)
        # Due at the same moments; the second begins up to 7 s after the first.
        for schedule, grid, lead in ((FIRST, 16, 16), (SECOND, 256, 64)):
            created = cluster.ctl('schedule', 'create', '--id', schedule, '--every', '10s', '--align',
                                  '--steps', '3', '--step-grid', str(grid), '--step-lead', str(lead))
            self.assertEqual(created.status, harness.DONE, created.err)

        def windows(schedule):
            by_time = {}
            for row in cluster.ctl('schedule', 'history', schedule, '--json').json['windows']:
                if row['first_step'] is not None:
                    by_time.setdefault(row['time_unix_ns'], []).append(row)
            return {time: rows for time, rows in by_time.items() if len(rows) == 4}

        def both_recorded():
            first, second = windows(FIRST), windows(SECOND)
            return [(first[time], second[time]) for time in first if time in second]
        first, second = harness.until(both_recorded, lambda: 'both windows on all ranks; log:\n'
                                      + cluster.nodes[0].log())[0]
        self.assertEqual(len({row['group'] for row in second}), 1)
        self.assertEqual(len({row['first_step'] for row in second}), 1)
        # At least the lead lies between them, and a warm-up step.
        self.assertGreaterEqual(second[0]['first_step'], max(row['first_step'] for row in first) + 3 + 64)

    def test_a_rank_that_counts_other_steps_is_named_and_never_mixed_in(self):
        cluster = self.cluster(nodes=2, ranks_per_node=2)
        # Rank 3 starts again, at step 0: far behind the others.
        cluster.await_steps(400)
        cluster.ranks[3].kill()
        replaced = cluster.replace(3)
        created = cluster.ctl('schedule', 'create', '--every', '10s', '--steps', '2',
                              '--step-lead', '32', '--json')
        self.assertEqual(created.status, harness.DONE, created.err)
        group = self.await_group(cluster, created.json['id'], 3)

        def beside():
            return [member for member in cluster.ctl('show', group, '--json').json['members']
                    if member['rank'] == 3]
        # Its step may come later.
        harness.until(lambda: 'it began at another step' in beside()[0]['error'],
                      'the end of rank 3')
        self.assertEqual([member['pid'] for member in beside()], [replaced.pid])
        shown = cluster.ctl('show', group, '--json').json
        self.assertEqual([row['target']['pid'] for row in shown['captures']],
                         [rank.pid for rank in cluster.ranks[:3]])
        stragglers = cluster.ctl('stragglers', group, '--json')
        self.assertEqual(stragglers.status, harness.PARTIAL, stragglers.err)
        self.assertIn('it began at another step', stragglers.err)
        # Asked of one node, too.
        self.assertIn('it began at another step', cluster.nodes[1].ctl('show', group).out)

    def test_a_rank_that_had_no_capture_in_the_window_is_named(self):
        cluster = self.cluster(nodes=2, ranks_per_node=1)
        traced = subprocess.Popen(
            [harness.PROFCTL, 'trace', '--pid', str(cluster.ranks[1].pid), '--duration', '5m'],
            env=harness.environment(cluster.nodes[1].socket_dir), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(traced.wait)
        self.addCleanup(traced.kill)
        harness.until(lambda: cluster.nodes[1].ctl('captures', '--json').json['captures'],
                      'the capture of rank 1')
        created = cluster.ctl('schedule', 'create', '--every', '10s', '--steps', '2', '--json')
        self.assertEqual(created.status, harness.DONE, created.err)
        group = self.await_group(cluster, created.json['id'], 1)
        members = cluster.ctl('show', group, '--json').json['members']
        self.assertEqual([(member['pid'], member['rank']) for member in members],
                         [(rank.pid, i) for i, rank in enumerate(cluster.ranks)])
        self.assertEqual(members[0]['error'], '')
        self.assertIn('no capture (busy)', members[1]['error'])
        steps = cluster.ctl('steps', group, '--json')
        self.assertEqual(steps.status, harness.PARTIAL, steps.err)
        self.assertIn('no capture (busy)', steps.err)

    def test_a_node_that_does_not_answer_has_a_row(self):
        cluster = self.cluster(nodes=2, ranks_per_node=1)
        cluster.nodes[1].terminate()
        created = cluster.ctl('schedule', 'create', '--every', '30m', '--json')
        self.assertEqual(created.status, harness.PARTIAL, created.err)
        self.assertEqual([node['ok'] for node in created.json['nodes']], [True, False])
        self.assertEqual(created.json['schedules'][0]['nodes'], ['node0', 'node1'])
        cluster.nodes[1].start()
        listed = cluster.ctl('schedule', 'list', '--json')
        self.assertEqual([d['node'] for d in listed.json['drift']], ['node1'])
        again = cluster.ctl('schedule', 'create', '--every', '30m', '--id', created.json['id'])
        self.assertEqual(again.status, harness.DONE, again.err)
        self.assertEqual(cluster.ctl('schedule', 'list').status, harness.DONE)


if __name__ == '__main__':
    harness.main()
