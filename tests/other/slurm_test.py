"""profctl finds the nodes of a job on a real Slurm: four slurmd on this machine, a profd for each,
and a job of eight ranks that srun starts.

The node names that squeue gives are known to profctl alone: it runs below a mount of its own over
/etc/hosts, where each is another address of loopback.
"""

import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'e2e'))

import harness  # noqa: E402
import slurm_cluster  # noqa: E402
from cluster_harness import Pki  # noqa: E402
from harness import DONE, FAILED  # noqa: E402
from slurm_cluster import NODES  # noqa: E402

RANKS = 8
PORT = 7411  # Where profctl looks for the daemons of hosts that are named without one.
# In the task's environment: the rank, and the daemon of the node that Slurm put it on.
TASK = ('export RANK=$SLURM_PROCID PROFD_SOCKET_DIR={folder}/$SLURMD_NODENAME/run; '
        '(echo init; echo train 5; exec sleep 600) | exec {target}')


class SlurmTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_slurm_'))
        self.folder.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addresses = {name: f'127.77.0.{number + 1}' for number, name in enumerate(NODES)}
        self.pki = Pki(self.folder / 'pki', NODES)
        for name in NODES:
            self.start_daemon(name)
        self.slurm = slurm_cluster.SlurmCluster(self.folder)
        self.addCleanup(self.slurm.stop)
        self.slurm.start()
        (self.folder / 'hosts').write_text('127.0.0.1 localhost\n' + ''.join(
            f'{address} {name}\n' for name, address in self.addresses.items()))

    def start_daemon(self, name):
        folder = self.folder / name
        folder.mkdir()
        listen = f'{self.addresses[name]}:{PORT}'
        daemon = harness.Daemon(folder, '--node-name', name, *self.pki.node_flags(name, listen))
        self.addCleanup(daemon.stop)
        daemon.start()

    def submit(self, ranks=RANKS):
        """The job's id, once all its ranks march."""
        task = TASK.format(folder=self.folder, target=harness.TARGET)
        self.slurm.begin('srun', '--nodes', len(NODES), '--ntasks', ranks, '--overcommit', 'sh', '-c',
                         task)
        listed = harness.until(lambda: self.slurm.run('squeue', '--noheader', '--format=%i %T'),
                               'a job')
        job = listed.split()[0]

        def all_train():
            rows = self.ctl('ps', '--job', job, '--json')
            return rows.status == DONE and [
                row['step_mark_count'] > 1 for row in rows.json['targets']] == [True] * ranks
        harness.until(all_train, f'{ranks} ranks; {self.slurm.log()}')
        return job

    def ctl(self, *arguments):
        mount = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return harness.run_profctl(
            self.folder / 'none', *arguments,
            # Nothing but the job says where to look.
            env={**self.slurm.environment, **self.pki.environment, 'PROFD_SOCKET_DIR': ''},
            prefix=['unshare', '--mount', 'sh', '-c', mount, self.folder / 'hosts'])

    def test_a_job_is_found_on_the_nodes_that_it_runs_on(self):
        job = self.submit()
        result = self.ctl('ps', '--job', job, '--json')
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual([node['node'] for node in result.json['nodes']], NODES)
        rows = result.json['targets']
        self.assertEqual({row['rank'] for row in rows}, set(range(RANKS)))
        self.assertEqual({row['job'] for row in rows}, {job})
        self.assertEqual({row['node'] for row in rows}, set(NODES))

    def test_a_job_that_slurm_does_not_know_is_said(self):
        result = self.ctl('ps', '--job', '4711')
        self.assertEqual(result.status, FAILED, result.err)
        self.assertIn('--job 4711', result.err)


if __name__ == '__main__':
    os.environ['PATH'] += ':/usr/sbin'
    reason = slurm_cluster.why_not()
    if reason:
        print(f'SKIP: {reason}')
        sys.exit(77)
    harness.main()
