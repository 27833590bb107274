"""Many daemons from one command: what of each node is shown, and what if one does not answer."""

import harness
from cluster_harness import JOB, NODE_TIMEOUT, ClusterTest
from harness import DONE, NO_DAEMON, PARTIAL, USAGE


class NodesTest(ClusterTest):

    def test_ps_shows_the_ranks_of_all_nodes_in_one_table(self):
        cluster = self.cluster(nodes=3, ranks_per_node=2)
        result = cluster.ctl('ps', '--json')
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(
            {(row['node'], row['pid'], row['rank'], row['job'])
             for row in result.json['targets']},
            {(rank.node.name, rank.pid, rank.rank, JOB) for rank in cluster.ranks})
        self.assertEqual(result.json['nodes'],
                         [{'node': f'node{i}', 'ok': True, 'error': ''} for i in range(3)])

        table = cluster.ctl('ps')
        self.assertEqual(table.status, DONE, table.err)
        self.assertEqual(table.err, '')
        rows = [line.split() for line in table.out.splitlines()]
        self.assertEqual(rows[0][:2], ['NODE', 'PID'])
        self.assertIn('JOB', rows[0])
        self.assertEqual([row[0] for row in rows[-6:]],
                         [rank.node.name for rank in cluster.ranks])

    def test_ps_of_a_job_shows_its_ranks_only(self):
        cluster = self.cluster(nodes=2, ranks_per_node=1)
        self.assertEqual(len(cluster.ctl('ps', '--job', JOB, '--json').json['targets']), 2)
        other = cluster.ctl('ps', '--job', '7', '--json')
        self.assertEqual(other.json['targets'], [])
        self.assertTrue(all(node['ok'] for node in other.json['nodes']))

    def test_a_capture_is_found_by_its_id_wherever_it_is(self):
        cluster = self.cluster(nodes=3, ranks_per_node=1)
        ids = []
        for node, rank in zip(cluster.nodes, cluster.ranks):
            traced = node.ctl('trace', '--pid', rank.pid, '--steps', '2', '--json')
            self.assertEqual(traced.status, DONE, traced.err)
            ids.append(traced.json['id'])
        listed = cluster.ctl('captures', '--json')
        self.assertEqual([(row['node'], row['id']) for row in listed.json['captures']],
                         [('node2', ids[2]), ('node1', ids[1]), ('node0', ids[0])])
        self.assertEqual(cluster.ctl('show', ids[1], '--json').json['node'], 'node1')
        self.assertEqual(len(cluster.ctl('steps', ids[1], '--json').json['steps']), 2)

        path = self.folder / 'taken.profd'
        fetched = cluster.ctl('fetch', ids[1], '-o', path, '--json')
        self.assertEqual(fetched.status, DONE, fetched.err)
        self.assertEqual(harness.run_profctl(self.folder, 'show', path, '--json').json['id'], ids[1])

        deleted = cluster.ctl('delete', ids[0], ids[2], '--json')
        self.assertEqual(deleted.status, DONE, deleted.err)
        self.assertEqual([row['node'] for row in deleted.json['captures']], ['node0', 'node2'])
        self.assertEqual([row['id'] for row in cluster.ctl('captures', '--json').json['captures']],
                         [ids[1]])

    def test_a_node_that_is_gone_is_named_and_the_others_are_shown(self):
        cluster = self.cluster(nodes=3, ranks_per_node=1)
        cluster.nodes[1].kill()
        result = cluster.ctl('ps', '--json')
        self.assertEqual(result.status, PARTIAL, result.err)
        self.assertEqual({row['node'] for row in result.json['targets']}, {'node0', 'node2'})
        self.assertEqual([node['ok'] for node in result.json['nodes']], [True, False, True])
        self.assertIn('nothing is listening', result.json['nodes'][1]['error'])
        self.assertIn('node node1: no profd answers', result.err)
        self.assertNotIn('node0', result.err)

    def test_a_node_that_is_silent_costs_no_more_than_the_timeout(self):
        cluster = self.cluster(nodes=2, ranks_per_node=1)
        cluster.nodes[0].pause()
        self.addCleanup(cluster.nodes[0].resume)
        result = cluster.ctl('ps', '--json', '--node-timeout', NODE_TIMEOUT)
        self.assertEqual(result.status, PARTIAL, result.err)
        self.assertIn('does not answer', result.json['nodes'][0]['error'])
        self.assertEqual([row['node'] for row in result.json['targets']], ['node1'])

    def test_the_exit_code_is_that_of_all_if_all_failed(self):
        cluster = self.cluster(nodes=2, ranks_per_node=0)
        for node in cluster.nodes:
            node.kill()
        self.assertEqual(cluster.ctl('ps').status, NO_DAEMON)

    def test_a_list_that_names_nothing_is_refused(self):
        for wrong in ('', ',', 'gpu[3-1]', 'gpu[1-2', 'a=b=c', 'gpu1:0', '@/no/such/file'):
            result = harness.run_profctl(self.folder, '--nodes', wrong, 'ps')
            self.assertIn(result.status, (USAGE, 1), wrong)
            self.assertIn('profctl: ', result.err)
            self.assertEqual(result.out, '')


if __name__ == '__main__':
    harness.main()
