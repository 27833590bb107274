"""One capture of a job on many nodes: every rank records the same steps, or is named."""

import os
import random
import signal
import threading
import time

import harness
from cluster_harness import JOB, NODE_TIMEOUT, ClusterTest
from harness import DONE, FAILED, INTERRUPTED, PARTIAL, USAGE

TERMINAL = ('COMPLETE', 'PARTIAL', 'FAILED', 'CANCELLED')
# Of the rounds with something that goes wrong; PROFD_CHAOS_SEED runs another course.
CHAOS_ROUNDS = int(os.environ.get('PROFD_CHAOS_ROUNDS', 4))
CHAOS_SEED = int(os.environ.get('PROFD_CHAOS_SEED', 20261120))
# Coordinators that are killed at a moment of their own. Each may cost a lease.
KILLED_COORDINATORS = int(os.environ.get('PROFD_KILLED_COORDINATORS', 2))
LONGEST_ARMED_S = 30


def rows_of(cluster):
    """The captures that each daemon, asked by itself, has."""
    return [row for node in cluster.nodes if node.process.poll() is None
            for row in node.ctl('captures', '--json').json['captures']]


def live_of(cluster):
    return [row for row in rows_of(cluster) if row['state'] not in TERMINAL]


def ended_of(cluster):
    """All rows, once none is live."""
    rows = rows_of(cluster)
    return rows if rows and all(row['state'] in TERMINAL for row in rows) else None


def await_waiting(cluster, count):
    """Until so many captures know the step to start at. In a halted job none misses that step, and
    all wait until the job goes on."""
    harness.until(lambda: [row['state'] for row in live_of(cluster)] == count * ['WAITING_STEP'],
                  f'{count} captures wait for their step')


def rejoin(cluster, victim):
    """A new process for a rank that is dead, at the step that the others are at."""
    rank = cluster.replace(victim)
    cluster.halt()
    marks = {row['pid']: row['step_mark_count'] for row in cluster.targets()}
    rank.do(f'busy {max(marks.values()) - marks[rank.pid]} 0')
    cluster.go()


class GroupTest(ClusterTest):

    def assert_same_steps(self, group, ranks):
        """Exactly `ranks` have all steps, and these are the same ones."""
        complete = [row for row in group['captures'] if row['state'] == 'COMPLETE']
        self.assertEqual(sorted(row['rank'] for row in complete), sorted(ranks), group)
        self.assertEqual({row['first_step'] for row in complete}, {group['first_step']})
        self.assertEqual(len({(row['first_step'], row['end_step']) for row in complete}), 1)

    def test_every_rank_records_the_same_steps(self):
        cluster = self.cluster(nodes=4, ranks_per_node=2)
        result = cluster.ctl('trace', '--job', JOB, '--steps', 3, '--json')
        self.assertEqual(result.status, DONE, result.err)
        group = result.json
        self.assertEqual(group['state'], 'COMPLETE')
        self.assert_same_steps(group, range(8))
        self.assertEqual(group['missed'], [])
        self.assertEqual({row['node'] for row in group['captures']},
                         {node.name for node in cluster.nodes})
        self.assertGreaterEqual(group['clock']['residual_ns'], 0)
        self.assertEqual([node['ok'] for node in group['nodes']], [True] * 4)

    def test_any_member_answers_for_the_group(self):
        cluster = self.cluster(nodes=3, ranks_per_node=2)
        group = cluster.ctl('trace', '--all', '--steps', 2, '--json').json
        for node in cluster.nodes:
            shown = node.ctl('show', group['id'], '--json')
            self.assertEqual(shown.status, DONE, shown.err)
            members = shown.json['members']
            self.assertEqual([member['rank'] for member in members], list(range(6)))
            self.assertEqual({member['state'] for member in members}, {'COMPLETE'})
            self.assertEqual(shown.json['first_step'], group['first_step'])
            self.assertEqual({row['node'] for row in shown.json['captures']}, {node.name})

    def test_a_group_is_shown_by_all_its_nodes_and_those_out_of_reach_are_named(self):
        cluster = self.cluster(nodes=3, ranks_per_node=1)
        group = cluster.ctl('trace', '--all', '--steps', 2, '--json').json
        cluster.nodes[1].kill()
        shown = cluster.ctl('show', group['id'], '--json')
        self.assertEqual(shown.status, PARTIAL, shown.err)
        self.assertEqual([row['node'] for row in shown.json['captures']], ['node0', 'node2'])
        self.assertEqual([row['state'] for row in shown.json['members']], ['COMPLETE'] * 3)
        self.assertEqual([node['ok'] for node in shown.json['nodes']], [True, False, True])

    def test_other_jobs_are_left_alone(self):
        cluster = self.cluster(nodes=2, ranks_per_node=2)
        other = harness.Target(cluster.nodes[0], env={'PROFD_JOB': 'another'})
        self.addCleanup(other.end)
        other.connect()
        group = cluster.ctl('trace', '--job', JOB, '--steps', 2, '--json').json
        self.assert_same_steps(group, range(4))
        self.assertNotIn(other.pid, [row['pid'] for row in group['captures']])
        none = cluster.ctl('trace', '--job', 'nobody', '--steps', 2)
        self.assertEqual(none.status, FAILED, none.err)
        self.assertIn('nobody', none.err)

    def test_captures_by_time_begin_together(self):
        cluster = self.cluster(nodes=2, ranks_per_node=2)
        result = cluster.ctl('trace', '--job', JOB, '--duration', '100ms', '--json')
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual([row['state'] for row in result.json['captures']], ['COMPLETE'] * 4)

    def test_a_node_that_is_gone_is_named_and_the_others_record(self):
        cluster = self.cluster(nodes=3, ranks_per_node=2)
        cluster.nodes[1].kill()
        result = cluster.ctl('trace', '--job', JOB, '--steps', 2, '--json')
        self.assertEqual(result.status, PARTIAL, result.err)
        self.assert_same_steps(result.json, [0, 1, 4, 5])
        self.assertEqual([node['ok'] for node in result.json['nodes']], [True, False, True])
        self.assertIn('node1', result.err)

    def test_a_quorum_that_is_not_met_captures_nothing(self):
        cluster = self.cluster(nodes=3, ranks_per_node=1)
        cluster.nodes[2].kill()
        for quorum in ('all', '3', '90%'):
            result = cluster.ctl('trace', '--all', '--steps', 2, '--quorum', quorum)
            self.assertEqual(result.status, FAILED, result.err)
            self.assertIn('2 of 3', result.err)
            self.assertIn('node2', result.err)
        self.assertEqual(live_of(cluster), [])
        enough = cluster.ctl('trace', '--all', '--steps', 2, '--quorum', '60%', '--json')
        self.assertEqual(enough.status, PARTIAL, enough.err)
        self.assert_same_steps(enough.json, [0, 1])

    def test_a_node_that_is_gone_is_no_rank_of_a_job_that_has_all_its_ranks(self):
        cluster = self.cluster(nodes=3, ranks_per_node=1, empty_nodes=1)
        cluster.nodes[3].kill()
        result = cluster.ctl('trace', '--job', JOB, '--steps', 2, '--quorum', 'all', '--json')
        self.assertEqual(result.status, PARTIAL, result.err)  # A node did not answer.
        self.assert_same_steps(result.json, range(3))
        cluster.ranks[2].kill()
        refused = cluster.ctl('trace', '--job', JOB, '--steps', 2, '--quorum', 'all')
        self.assertEqual(refused.status, FAILED, refused.err)
        self.assertIn('2 of 3 ranks are ready', refused.err)
        self.assertRegex(refused.err, r'ready, and released again: .*rank 0, .*rank 1')

    def test_a_rank_that_is_captured_already_is_named(self):
        cluster = self.cluster(nodes=2, ranks_per_node=2)
        cluster.halt()
        first = harness.Tracing(cluster.nodes[0], '--all', '--steps', 2)
        await_waiting(cluster, 2)
        process = cluster.begin('trace', '--job', JOB, '--steps', 2, '--lead', '200ms', '--json')
        await_waiting(cluster, 4)
        cluster.go()
        second = cluster.finish(process)
        self.assertEqual(second.status, PARTIAL, second.err)
        self.assert_same_steps(second.json, [2, 3])
        self.assertEqual([(row['rank'], row['error_reason']) for row in second.json['missed']],
                         [(0, 'TARGET_BUSY'), (1, 'TARGET_BUSY')])
        self.assertEqual(first.result().status, DONE)

    def test_a_rank_that_dies_before_the_step_is_named(self):
        cluster = self.cluster(nodes=2, ranks_per_node=2)
        cluster.halt()
        process = cluster.begin('trace', '--job', JOB, '--steps', 2, '--lead', '200ms', '--json')
        await_waiting(cluster, 4)
        cluster.ranks[3].kill()
        cluster.go()
        result = cluster.finish(process)
        self.assertEqual(result.status, PARTIAL, result.err)
        self.assert_same_steps(result.json, [0, 1, 2])
        self.assertEqual([row['rank'] for row in result.json['missed']], [3])
        self.assertEqual(result.json['missed'][0]['error_reason'], 'TARGET_EXITED')

    def test_an_interrupt_leaves_nothing_armed(self):
        cluster = self.cluster(nodes=2, ranks_per_node=2)
        cluster.halt()
        process = cluster.begin('trace', '--job', JOB, '--steps', 2, '--wait', 100000, '--json')
        # Committed, too: before that, there is nothing to tell of.
        await_waiting(cluster, 4)
        process.send_signal(signal.SIGINT)
        result = cluster.finish(process)
        self.assertEqual(result.status, INTERRUPTED, result.err)
        self.assertEqual({row['state'] for row in result.json['captures']}, {'CANCELLED'})
        self.assertEqual(live_of(cluster), [])

    def test_a_coordinator_that_dies_leaves_nothing_armed(self):
        # Killed while a node keeps it from committing; what the others hold lapses.
        cluster = self.cluster(nodes=2, ranks_per_node=1)
        held = cluster.ranks[1]
        held.pause()
        self.addCleanup(held.resume)
        cluster.march.is_over.set()
        process = cluster.begin('trace', '--all', '--steps', 2, '--gpu', 'off',
                                '--node-timeout', NODE_TIMEOUT)
        harness.until(lambda: cluster.nodes[0].ctl('captures', '--json').json['captures'],
                      'the first rank is prepared')
        process.kill()
        process.communicate()
        held.resume()
        rows = harness.until(
            lambda: ended_of(cluster), 'the lease is over')
        self.assertIn('lease_expired', {row['ended_by'] for row in rows})

    def test_a_coordinator_that_dies_after_the_commit_leaves_nothing_armed(self):
        cluster = self.cluster(nodes=2, ranks_per_node=1)
        process = cluster.begin('trace', '--job', JOB, '--steps', 2, '--wait', 100000, '--json')
        await_waiting(cluster, 2)
        process.kill()
        process.communicate()
        rows = harness.until(lambda: ended_of(cluster), 'the lease is over')
        self.assertEqual({row['ended_by'] for row in rows}, {'lease_expired'})

    def test_a_coordinator_that_is_killed_at_any_moment_leaves_nothing_armed(self):
        dice = random.Random(CHAOS_SEED)
        cluster = self.cluster(nodes=2, ranks_per_node=2)
        for number in range(KILLED_COORDINATORS):
            # Half of them while the ranks stand still: those captures would wait for ever.
            if number % 2 == 1:
                cluster.halt()
            process = cluster.begin('trace', '--job', JOB, '--steps', 2, '--wait', 100000, '--json',
                                    '--gpu', 'off', '--lead', '400ms')
            after_s = dice.uniform(0, 0.9)
            time.sleep(after_s)
            process.kill()
            process.communicate()
            killed = time.monotonic()
            # Until then a daemon may be about to arm what it was asked for.
            harness.until(lambda: not any(node.callers() for node in cluster.nodes),
                          'the daemons have seen its end')
            harness.until(lambda: not live_of(cluster), f'nothing is armed, after {after_s} s')
            armed_s = time.monotonic() - killed
            self.assertLess(armed_s, LONGEST_ARMED_S)
            print(f'killed after {after_s:.2f} s: nothing armed {armed_s:.1f} s later', flush=True)
            cluster.go()
        ends = {row['ended_by'] for row in rows_of(cluster)}
        self.assertLessEqual(ends, {'steps', 'lease_expired', 'cancelled', ''})

    def test_a_cancel_by_the_groups_id_ends_it_on_every_node(self):
        cluster = self.cluster(nodes=2, ranks_per_node=2)
        process = cluster.begin('trace', '--job', JOB, '--steps', 2, '--wait', 100000, '--json')
        rows = harness.until(lambda: (lambda live: live if len(live) == 4 else None)(
            cluster.live_captures()), 'all are on their way')
        cancelled = cluster.ctl('cancel', rows[0]['group'], '--json')
        self.assertEqual(cancelled.status, DONE, cancelled.err)
        result = cluster.finish(process)
        self.assertEqual({row['state'] for row in result.json['captures']}, {'CANCELLED'})
        self.assertEqual(live_of(cluster), [])

    def test_a_group_is_fetched_as_one_file_a_rank(self):
        cluster = self.cluster(nodes=2, ranks_per_node=2)
        group = cluster.ctl('trace', '--job', JOB, '--steps', 2, '--json').json
        folder = self.folder / 'fetched'
        folder.mkdir()
        fetched = cluster.ctl('fetch', group['id'], '-o', folder / 'job.profd')
        self.assertEqual(fetched.status, DONE, fetched.err)
        self.assertEqual(sorted(path.name for path in folder.iterdir()),
                         [f'job-rank{rank}.profd' for rank in range(4)])

    def test_ranks_whose_steps_take_a_microsecond_record_the_same_ones_or_are_named(self):
        cluster = self.cluster(nodes=2, ranks_per_node=1)
        cluster.halt()
        for rank in cluster.ranks:
            rank.do('train 0')  # Each at its own pace.
        for lead in ('1us', '500ms'):
            result = cluster.ctl('trace', '--job', JOB, '--steps', 2, '--lead', lead,
                                 '--warmup', 0, '--gpu', 'off', '--json')
            self.assertIn(result.status, (DONE, PARTIAL, FAILED), result.err)
            group = result.json
            complete = [row['rank'] for row in group['captures'] if row['state'] == 'COMPLETE']
            if complete:
                self.assert_same_steps(group, complete)
            self.assertEqual(sorted(complete + [row['rank'] for row in group['missed']]), [0, 1])
            for row in group['missed']:
                self.assertEqual(row['error_reason'], 'MISSED_START', group)
            self.assertEqual(live_of(cluster), [])
        for rank in cluster.ranks:
            rank.do('rest')

    def test_what_makes_no_sense_is_refused(self):
        cluster = self.cluster(nodes=2, ranks_per_node=1)
        for arguments in (['--steps', 2], ['--pid', cluster.ranks[0].pid],
                          ['--all', '--quorum', 'most'], ['--all', '--lead', '0s']):
            result = cluster.ctl('trace', *arguments)
            self.assertEqual(result.status, USAGE, arguments)
        self.assertEqual(live_of(cluster), [])


class ChaosTest(ClusterTest):
    """Rounds in which something goes wrong at random: always the same steps, or the rank that
    did not record them is named; and afterwards nothing is armed."""

    def test_chaos(self):
        print(f'{CHAOS_ROUNDS} rounds, seed {CHAOS_SEED}', flush=True)
        dice = random.Random(CHAOS_SEED)
        cluster = self.cluster(nodes=8, ranks_per_node=1, ranges_per_step=2)
        outcomes = {}
        for number in range(CHAOS_ROUNDS):
            what = dice.choice(['kill rank', 'stop daemon', 'kill daemon', 'delay rank',
                                'delay daemon'])
            victim = dice.randrange(8)
            after = dice.uniform(0, 1.0)
            with self.subTest(round=number, what=what, victim=victim, after=round(after, 3)):
                state = self.chaos_round(cluster, what, victim, after)
                outcomes[(what, state)] = outcomes.get((what, state), 0) + 1
        for (what, state), count in sorted(outcomes.items()):
            print(f'{what}: {count} times {state}', flush=True)

    def chaos_round(self, cluster, what, victim, after):
        process = cluster.begin('trace', '--job', JOB, '--steps', 2, '--json', '--gpu', 'off',
                                '--node-timeout', '2s', '--timeout', '20s')
        injector = threading.Timer(after, self.inject, [cluster, what, victim])
        injector.start()
        result = cluster.finish(process)
        injector.join()
        self.heal(cluster, what, victim)
        self.assertIn(result.status, (DONE, PARTIAL, FAILED), result.err)
        state = self.judge(result)
        harness.until(lambda: not cluster.live_captures(), 'nothing is armed')
        return state

    def judge(self, result):
        if not result.out:  # Nothing was begun: nobody could be prepared.
            self.assertEqual(result.status, FAILED, result.err)
            self.assertTrue(result.err)
            return 'nothing'
        group = result.json
        complete = [row for row in group['captures'] if row['state'] == 'COMPLETE']
        named = {row['rank'] for row in group['missed']}
        out_of_reach = {row['node'] for row in group['nodes'] if not row['ok']}
        for row in complete:
            self.assertEqual((row['first_step'], row['end_step']),
                             (group['first_step'], group['first_step'] + 2), group)
        for rank in range(8):
            has_all = any(row['rank'] == rank for row in complete)
            self.assertTrue(has_all or rank in named or f'node{rank}' in out_of_reach, group)
            self.assertFalse(has_all and rank in named, group)
        # A node that goes away once its rank is through is named, and takes nothing back.
        self.assertEqual(result.status == DONE, len(complete) == 8, group)
        return group['state']

    @staticmethod
    def inject(cluster, what, victim):
        if what == 'kill rank':
            cluster.ranks[victim].kill()
        elif what == 'stop daemon':
            cluster.nodes[victim].pause()
        elif what == 'kill daemon':
            cluster.nodes[victim].kill()
        elif what == 'delay rank':
            cluster.ranks[victim].delay(0.3)
        else:
            cluster.nodes[victim].pause()
            time.sleep(0.3)
            cluster.nodes[victim].resume()

    @staticmethod
    def heal(cluster, what, victim):
        if what == 'kill rank':
            rejoin(cluster, victim)
        elif what == 'stop daemon':
            cluster.nodes[victim].resume()
        elif what == 'kill daemon':
            cluster.nodes[victim].start()
            cluster.await_steps(1)


if __name__ == '__main__':
    harness.main()
