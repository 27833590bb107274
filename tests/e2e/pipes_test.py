"""Peers and readers that go away: no program of ours ends with SIGPIPE."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading

import harness
from cluster_harness import NODE_TIMEOUT, Node, Pki
from harness import DONE, PARTIAL

STDOUT_CLOSED = 141


class ClosingNode(threading.Thread):
    """Listens on loopback; closes each connection after reading `read_bytes`.

    An end of file and then a reset: after these two, a write is what raises SIGPIPE."""

    def __init__(self, read_bytes):
        super().__init__(daemon=True)
        self.read_bytes = read_bytes
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.address = f'127.0.0.1:{self.listener.getsockname()[1]}'
        self.accepted = 0

    def run(self):
        with contextlib.suppress(OSError):  # The listener was closed.
            while True:
                peer, _ = self.listener.accept()
                self.accepted += 1
                with peer, contextlib.suppress(OSError):
                    if self.read_bytes:
                        peer.recv(self.read_bytes)
                    peer.shutdown(socket.SHUT_WR)
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.join(harness.PATIENCE_S)


class FanOutTest(harness.EndToEndTest):

    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_e2e_'))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.folder = folder
        self.pki = Pki(folder / 'pki', ['node0'])
        self.node = Node(folder, 'node0', pki=self.pki)
        self.addCleanup(self.node.stop)
        self.node.start()

    def closing_node(self, read_bytes):
        node = ClosingNode(read_bytes)
        node.start()
        self.addCleanup(node.end)
        return node

    def test_a_node_that_closes_the_connection_fails_alone(self):
        for read_bytes in (0, 1, 65536):
            with self.subTest(read_bytes=read_bytes):
                bad = [self.closing_node(read_bytes) for _ in range(8)]
                members = [self.node.member, *(f'bad{i}={node.address}'
                                               for i, node in enumerate(bad))]
                result = harness.run_profctl(
                    self.node.socket_dir, '--nodes', ','.join(members), '--node-timeout', NODE_TIMEOUT,
                    'ps', '--json', env=self.pki.environment)
                self.assertEqual(result.status, PARTIAL, result.err)
                self.assertEqual([row['node'] for row in result.json['nodes'] if row['ok']],
                                 ['node0'])
                self.assertTrue(all(node.accepted for node in bad))


class StdoutTest(harness.EndToEndTest):

    def with_closed_stdout(self, *arguments, **kwargs):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = subprocess.run([harness.PROFCTL, *arguments], stdout=writer,
                                  stderr=subprocess.PIPE, timeout=2 * harness.PATIENCE_S,
                                  env=harness.environment(self.daemon.socket_dir), **kwargs)
        finally:
            os.close(writer)
        return done.returncode, done.stderr.decode()

    def test_a_reader_that_has_had_enough_is_no_error(self):
        target = self.target()
        target.do('train 1')
        capture = self.trace_five_steps(target)
        target.do('rest')
        for arguments in (['ops', capture['id']], ['ops', capture['id'], '--json'], ['ps'],
                          ['export', capture['id'], '--format', 'chrome', '-o', '-'],
                          ['help'], ['ops', '--help']):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.with_closed_stdout(*arguments), (STDOUT_CLOSED, ''))
        piped = subprocess.run(
            ['sh', '-c', f'{harness.PROFCTL} ops {capture["id"]} | head -n 1'],
            capture_output=True, env=harness.environment(self.daemon.socket_dir))
        self.assertEqual((piped.returncode, piped.stderr), (0, b''))
        self.assertEqual(piped.stdout.count(b'\n'), 1)

    def test_it_is_an_error_where_the_caller_ignores_sigpipe(self):
        status, error = self.with_closed_stdout(
            'node', restore_signals=False,
            preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
        self.assertEqual(status, harness.FAILED)
        self.assertIn('Broken pipe', error)

    def test_a_closed_stderr_ends_no_trace(self):
        target = self.target()
        target.do('train 1')
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([harness.PROFCTL, 'trace', '--pid', str(target.pid), '--steps', '3'],
                              stdout=subprocess.PIPE, stderr=writer,
                              env=harness.environment(self.daemon.socket_dir))
        os.close(writer)
        target.do('rest')
        self.assertEqual(done.returncode, DONE)
        self.assertEqual([c['state'] for c in self.captures()], ['COMPLETE'])

    def test_programs_under_run_have_the_callers_sigpipe(self):
        command = [harness.PROFCTL, 'run', '--', 'sh', '-c', 'kill -s PIPE $$; echo alive']
        env = harness.environment(self.daemon.socket_dir)
        default = subprocess.run(command, stdout=subprocess.PIPE, env=env)
        self.assertEqual((default.returncode, default.stdout), (-signal.SIGPIPE, b''))
        ignored = subprocess.run(
            command, stdout=subprocess.PIPE, env=env, restore_signals=False,
            preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
        self.assertEqual((ignored.returncode, ignored.stdout), (0, b'alive\n'))


class DaemonLogTest(harness.EndToEndTest):

    def test_profd_outlives_the_reader_of_its_log(self):
        self.daemon.stop()
        reader, writer = os.pipe()
        self.daemon.preexec = lambda: os.dup2(writer, 2)
        self.daemon.start()
        os.close(writer)
        os.close(reader)
        target = self.target()  # Registering is logged.
        self.assert_still_serves(target)


if __name__ == '__main__':
    harness.main()
