"""Several daemons on this machine as the nodes of a cluster, with the ranks of one training job.

Every node is a profd with folders and a name of its own. Ranks are scripted targets that march in
step: like ranks that wait for each other in a collective, none begins step k+1 before all have
begun step k, so a rank that is held up holds up all. One that dies leaves the march; the others
go on.

    class MyTest(ClusterTest):
        def test_something(self):
            cluster = self.cluster(nodes=4, ranks_per_node=2)
            result = cluster.ctl('ps', '--json')     # profctl --nodes node0=...,node1=... ps --json
            cluster.ranks[3].kill()
            cluster.nodes[1].pause()                 # SIGSTOP; resume() goes on

profctl reaches the nodes by their sockets; with a Pki by mutual TLS, as cn:alice, whom `policy`
(lines of the policy file) allows everything; and with a Wire, too, in network namespaces.
"""

import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import harness

JOB = '88123'
# Of --node-timeout, where a node never answers: the time that the others have. The test takes that
# long, and the others take it only where something is wrong with them.
NODE_TIMEOUT = '8s'
ALICE_MAY_ALL = 'allow cn:alice all all\n'


class Pki:
    """Certificates of nodes by these names and addresses, and of alice."""

    def __init__(self, folder, names, addresses=()):
        self.folder = pathlib.Path(folder)
        nodes = [['--node', ','.join([name, '127.0.0.1', *addresses])] for name in names]
        subprocess.run([harness.SOURCE_DIR / 'deploy/pki/make_test_pki.sh', folder, *sum(nodes, []),
                        '--user', 'alice'], check=True, stdout=subprocess.DEVNULL)
        (self.folder / 'policy').write_text(ALICE_MAY_ALL)

    def node_flags(self, name, listen):
        return ('--listen', listen, '--policy-file', self.folder / 'policy',
                '--tls-cert', self.folder / f'{name}.crt', '--tls-key', self.folder / f'{name}.key',
                '--tls-ca', self.folder / 'ca.crt')

    @property
    def environment(self):
        """Of profctl."""
        return {'PROFD_TLS_CA': str(self.folder / 'ca.crt'),
                'PROFD_TLS_CERT': str(self.folder / 'alice.crt'),
                'PROFD_TLS_KEY': str(self.folder / 'alice.key')}


class Node(harness.Daemon):
    """A daemon of the cluster. With `pki` it serves remote callers, on loopback or as `host`."""

    def __init__(self, folder, name, *flags, pki=None, host=None, **kwargs):
        listen = f'{host.address}:7411' if host else '127.0.0.1:0'
        remote = pki.node_flags(name, listen) if pki else ()
        super().__init__(folder, '--node-name', name, *remote, *flags, **kwargs)
        self.name = name
        self.is_remote = pki is not None
        self.prefix = host.prefix if host else ()

    @property
    def address(self):
        """What profctl calls it by."""
        if not self.is_remote:
            return str(self.socket_dir / 'control.sock')
        # The last one: a daemon that was started again may have another.
        found = re.findall(r'listening .*?on (\S+:\d+) \(mutual TLS', self.log())
        return found[-1]

    @property
    def member(self):
        """As --nodes takes it."""
        return f'{self.name}={self.address}'

    def callers(self):
        """How many connections of local callers it has open."""
        # The kernel shows the name that the socket had before it was renamed.
        path, connected = str(self.socket_dir / '.control.sock.new'), '03'
        sockets = pathlib.Path('/proc/net/unix').read_text().splitlines()[1:]
        return sum(fields[5] == connected and fields[7:] == [path]
                   for fields in map(str.split, sockets))

    def pause(self):
        """It is there and silent, until resume()."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


class Rank:
    """A rank of the job. Its commands (harness.Target.do) and the march take turns."""

    def __init__(self, rank, node, world_size, job, env=None):
        self.rank = rank
        self.node = node
        self.lock = threading.Lock()
        self.hold_s = 0
        self.is_dead = False
        self.target = harness.Target(node, env={
            'RANK': str(rank), 'LOCAL_RANK': str(rank % 8), 'WORLD_SIZE': str(world_size),
            'PROFD_JOB': job, **(env or {})})
        self.pid = self.target.pid

    def do(self, *commands):
        with self.lock:
            return self.target.do(*commands)

    def delay(self, seconds):
        """Its next step begins that much later, and with it everybody's next but one."""
        self.hold_s = seconds

    def pause(self):
        self.target.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.target.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.is_dead = True
        self.target.kill()


class March(threading.Thread):
    """Takes the ranks through the steps together, one step every `step_s` at best."""

    def __init__(self, ranks, step_s, ranges):
        super().__init__(name='march', daemon=True)
        self.ranks = ranks
        self.step_s = step_s
        self.command = f'busy 1 {ranges}\n'.encode()
        self.is_over = threading.Event()

    def run(self):
        next_at = time.monotonic()
        while not self.is_over.is_set():
            marching = [rank for rank in self.ranks if not rank.is_dead]
            if not marching:
                return
            for rank in marching:
                rank.lock.acquire()
            try:
                self.step(marching)
            finally:
                for rank in marching:
                    rank.lock.release()
            next_at = max(next_at + self.step_s, time.monotonic())
            self.is_over.wait(next_at - time.monotonic())

    def step(self, marching):
        # Those that are held up come last, so that the others begin the step without them.
        begun = []
        for rank in sorted(marching, key=lambda rank: rank.hold_s):
            if rank.hold_s:
                self.is_over.wait(rank.hold_s)
                rank.hold_s = 0
            try:
                rank.target.process.stdin.write(self.command)
                rank.target.process.stdin.flush()
                begun.append(rank)
            except (OSError, ValueError):  # Its pipe is broken, or closed by now.
                rank.is_dead = True
        for rank in begun:
            try:
                answer = rank.target.process.stdout.readline()
            except ValueError:
                answer = b''
            if not answer.startswith(b'ok'):
                rank.is_dead = True

    def halt(self):
        self.is_over.set()
        self.join(harness.PATIENCE_S)


class Cluster:
    """`nodes` daemons with `ranks_per_node` ranks each, and `empty_nodes` more without any; rank r is
    on node r // ranks_per_node."""

    def __init__(self, folder, nodes=4, ranks_per_node=2, step_ms=5, ranges_per_step=10, job=JOB,
                 flags=(), env=None, rank_env=None, tls=False, wire=None, empty_nodes=0):
        self.job = job
        self.world_size = nodes * ranks_per_node
        self.step_ms = step_ms
        self.ranges_per_step = ranges_per_step
        self.rank_env = rank_env
        self.ranks_per_node = ranks_per_node
        names = [f'node{i}' for i in range(nodes + empty_nodes)]
        hosts = [wire.attach(name) if wire else None for name in names]
        pki = None
        if tls or wire:
            pki = Pki(pathlib.Path(folder) / 'pki', names, [host.address for host in hosts if host])
        self.prefix = wire.attach('client').prefix if wire else ()
        self.client_env = pki.environment if pki else {}
        self.hosts = dict(zip(names, hosts))
        self.nodes = [Node(pathlib.Path(folder) / name, name, *flags, env=env, pki=pki,
                           host=self.hosts[name]) for name in names]
        self.ranks = []
        self.march = None

    def start(self):
        for node in self.nodes:
            node.folder.mkdir(parents=True, exist_ok=True)
            node.start()
        for rank in range(self.world_size):
            node = self.nodes[rank // self.ranks_per_node]
            self.ranks.append(Rank(rank, node, self.world_size, self.job, self.rank_env))
        for rank in self.ranks:
            rank.target.send('init')
            rank.target.send('await-connected')
        for rank in self.ranks:
            rank.target.answer()
            rank.target.answer()
        if self.ranks:
            self.go()
            self.await_steps(2)
        return self

    def stop(self):
        if self.march is not None:
            self.march.is_over.set()
        for rank in self.ranks:
            rank.is_dead = True
            rank.target.end()
        if self.march is not None:
            self.march.halt()
        for node in self.nodes:
            node.stop()

    def go(self):
        """The march goes on; start() has begun it."""
        self.march = March(self.ranks, self.step_ms / 1000, self.ranges_per_step)
        self.march.start()

    def halt(self):
        """No rank begins another step, until go()."""
        self.march.halt()

    def replace(self, rank):
        """A new process for a rank that is dead, on the same node and in the march."""
        self.halt()
        old = self.ranks[rank]
        old.target.end()
        new = Rank(rank, old.node, len(self.ranks), self.job, self.rank_env)
        new.target.connect()
        self.ranks[rank] = new
        self.go()
        return new

    @property
    def node_list(self):
        """What --nodes takes to mean all of them."""
        return ','.join(node.member for node in self.nodes)

    def ctl(self, *arguments, env=None, nodes=None):
        """profctl --nodes ALL ARGUMENTS; or the nodes given."""
        members = self.node_list if nodes is None else ','.join(node.member for node in nodes)
        return harness.run_profctl(self.nodes[0].folder / 'none', '--nodes', members, *arguments,
                                   env={**self.client_env, **(env or {})}, prefix=self.prefix)

    def begin(self, *arguments, env=None):
        """As ctl(), running next to the test: a Popen; finish() gives its harness.Result."""
        return subprocess.Popen(
            [*self.prefix, harness.PROFCTL, '--nodes', self.node_list, *map(str, arguments)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=harness.environment(self.nodes[0].folder / 'none',
                                    {**self.client_env, **(env or {})}))

    @staticmethod
    def finish(process):
        out, err = process.communicate(timeout=2 * harness.PATIENCE_S)
        return harness.Result(subprocess.CompletedProcess(process.args, process.returncode, out, err))

    def targets(self):
        """Rows of `ps`, of the nodes that answer."""
        return self.ctl('ps', '--json').json['targets']

    def await_steps(self, count):
        """Until every live rank has marked `count` steps."""
        live = {rank.pid for rank in self.ranks if not rank.is_dead}

        def have_marked():
            rows = {row['pid']: row['step_mark_count'] for row in self.targets()}
            return all(rows.get(pid, 0) >= count for pid in live)
        harness.until(have_marked, f'{count} steps of every rank')

    def live_captures(self):
        """What is not over on any node that answers; empty: nothing is armed."""
        rows = self.ctl('captures', '--json').json['captures']
        return [row for row in rows
                if row['state'] not in ('COMPLETE', 'PARTIAL', 'FAILED', 'CANCELLED')]


class ClusterTest(unittest.TestCase):
    """Makes clusters that end with the test."""

    def setUp(self):
        for program in (harness.PROFD, harness.PROFCTL, harness.TARGET):
            if not program.exists():
                raise AssertionError(f'{program} is not built')
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_cluster_'))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def cluster(self, **kwargs):
        cluster = Cluster(tempfile.mkdtemp(dir=self.folder), **kwargs)
        self.addCleanup(cluster.stop)
        return cluster.start()
