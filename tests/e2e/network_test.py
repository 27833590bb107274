"""Nodes in network namespaces of their own, by mutual TLS, on a network that is slow, loses
packets, or ends in the middle (wire.py). Skips, saying why, where no such network can be made.
"""

import json
import sys

import harness
import wire
from cluster_harness import JOB, NODE_TIMEOUT, ClusterTest
from harness import DONE, NO_DAEMON, PARTIAL


class NetworkTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.wire = wire.Wire(seed=5)
        self.addCleanup(self.wire.close)

    def cluster(self, **kwargs):
        return super().cluster(wire=self.wire, **kwargs)

    def assert_all_ranks_are_listed(self, cluster):
        result = cluster.ctl('ps', '--json')
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual({(row['node'], row['pid']) for row in result.json['targets']},
                         {(rank.node.name, rank.pid) for rank in cluster.ranks})

    def trace(self, cluster, rank):
        """A capture of one rank, made next to the network."""
        result = harness.run_profctl(rank.node.socket_dir, 'trace', '--pid', rank.pid, '--steps', '5',
                                     '--json')
        self.assertEqual(result.status, DONE, result.err)
        return result.json

    def test_a_slow_network_costs_time_and_nothing_else(self):
        cluster = self.cluster(nodes=4, ranks_per_node=2)
        # More jitter than delay: packets overtake each other.
        self.wire.delay_s, self.wire.jitter_s = 0.02, 0.03
        self.assert_all_ranks_are_listed(cluster)
        capture = self.trace(cluster, cluster.ranks[5])
        listed = cluster.ctl('captures', '--json')
        self.assertEqual([(row['node'], row['id']) for row in listed.json['captures']],
                         [('node2', capture['id'])], listed.err)

    def test_a_network_that_loses_packets_costs_time_and_nothing_else(self):
        cluster = self.cluster(nodes=4, ranks_per_node=1)
        capture = self.trace(cluster, cluster.ranks[1])
        self.wire.delay_s, self.wire.loss = 0.002, 0.03
        for _ in range(3):
            self.assert_all_ranks_are_listed(cluster)
        path = self.folder / 'taken.profd'
        # profctl holds what arrives against the sha256 of what was stored.
        fetched = cluster.ctl('fetch', capture['id'], '-o', path, '--json')
        self.assertEqual(fetched.status, DONE, fetched.err)
        self.assertEqual(fetched.json['node'], 'node1')
        self.assertEqual(path.stat().st_size, capture['file_bytes'])
        self.assertGreater(self.wire.lost, 0)

    def test_a_node_that_is_cut_off_is_named_until_it_is_back(self):
        cluster = self.cluster(nodes=3, ranks_per_node=1)
        self.wire.cut(cluster.hosts['node1'])
        result = cluster.ctl('ps', '--json', '--node-timeout', NODE_TIMEOUT)
        self.assertEqual(result.status, PARTIAL, result.err)
        self.assertEqual([node['ok'] for node in result.json['nodes']], [True, False, True])
        self.assertEqual({row['node'] for row in result.json['targets']}, {'node0', 'node2'})
        self.assertIn('node1', result.err)
        self.wire.heal(cluster.hosts['node1'])
        self.assert_all_ranks_are_listed(cluster)

    def test_a_network_that_is_gone_leaves_no_node(self):
        cluster = self.cluster(nodes=2, ranks_per_node=1)
        for host in cluster.hosts.values():
            self.wire.cut(host)
        result = cluster.ctl('ps', '--json', '--node-timeout', '500ms')
        self.assertEqual(result.status, NO_DAEMON, result.err)
        self.assertEqual(json.loads(result.out)['targets'], [])

    def trace_job(self, cluster, *arguments):
        """The group that came of it, with all its captures over."""
        result = cluster.ctl('trace', '--job', JOB, '--steps', '5', '--json', *arguments)
        self.assertIn(result.status, (DONE, PARTIAL), result.err)
        harness.until(lambda: not cluster.live_captures(), 'nothing stays armed')
        return result, result.json

    def assert_the_same_steps(self, cluster, group, ranks):
        self.assertEqual({capture['rank'] for capture in group['captures']
                          if capture['state'] == 'COMPLETE'}, set(ranks))
        rows = cluster.ctl('captures', '--group', group['id'], '--json').json['captures']
        self.assertEqual({tuple(step['index'] for step in row['steps']) for row in rows
                          if row['state'] == 'COMPLETE'},
                         {tuple(range(group['first_step'], group['first_step'] + 5))})

    def test_a_job_is_captured_over_a_bad_network(self):
        cluster = self.cluster(nodes=4, ranks_per_node=1)
        self.wire.delay_s, self.wire.jitter_s, self.wire.loss = 0.01, 0.01, 0.02
        result, group = self.trace_job(cluster)
        self.assertEqual(result.status, DONE, result.err)
        self.assert_the_same_steps(cluster, group, range(4))
        # Half of a round trip is the most that a clock can be off.
        self.assertGreater(group['clock']['residual_ns'], 0)

    def test_ranks_of_a_node_that_is_cut_off_are_missed_and_nothing_stays_armed(self):
        cluster = self.cluster(nodes=3, ranks_per_node=1)
        self.wire.cut(cluster.hosts['node2'])
        result, group = self.trace_job(cluster, '--node-timeout', NODE_TIMEOUT)
        self.assertEqual(result.status, PARTIAL, result.err)
        self.assertIn('node2', result.err)
        self.wire.heal(cluster.hosts['node2'])
        self.assertEqual(cluster.live_captures(), [])
        self.assert_the_same_steps(cluster, group, range(2))


if __name__ == '__main__':
    reason = wire.why_not()
    if reason:
        print(f'SKIP: {reason}')
        sys.exit(77)
    harness.main()
