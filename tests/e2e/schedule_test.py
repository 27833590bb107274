"""Scheduled sampling, end to end: real daemons, real targets, windows on the real clock.

The shortest schedule is ten seconds, so what can be is seen in the first window.
"""

import time

import cluster_harness
import harness


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
        # The one thing that cannot be had without waiting: a window without a daemon.
        time.sleep(11)
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
        self.assertEqual([(d['node'], d['problem']) for d in listed.json['drift']],
                         [('node1', 'is missing')])

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
