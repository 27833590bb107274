"""What unprivileged peers of profd's sockets may try: nobody else notices.

The long form runs the HTTP/2 attack for 30 s: PROFD_LONG_ATTACK=1 tests/e2e/hostile_socket_test.py
"""

import array
import contextlib
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
import unittest

import harness
import remote_test
from harness import DONE, EndToEndTest, MemoryGroup

ATTACK_SECONDS = 30 if os.environ.get('PROFD_LONG_ATTACK') else 3
ATTACKERS = 6
NOBODY = 65534


def lingering_socket():
    """A TCP socket whose last close() waits ten minutes, and its peer, who never reads."""
    listener = socket.socket()
    listener.bind(('127.0.0.1', 0))
    listener.listen(1)
    lingering = socket.socket()
    lingering.connect(listener.getsockname())
    peer, _ = listener.accept()
    listener.close()
    lingering.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            lingering.send(b'x' * 65536)
    lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 600))
    return lingering, peer


def hello():
    """The frame by which a target registers (proto/wire/frame.h)."""
    body = struct.pack('<HHIIIQQ', 1, 1, 1, os.getpid(), 0, 0, 0)
    return struct.pack('<IHHII', 0x46444650, 1, 0, 16 + len(body), 1) + body


def connect_as_target(daemon):
    target = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    target.settimeout(harness.PATIENCE_S)
    target.connect(str(daemon.socket_dir / 'agent/agent.sock'))
    return target


def send_with_file(connection, data, file):
    """Sends `data` with a descriptor; False: the kernel refuses it."""
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [file.fileno()]))
    try:
        connection.sendmsg([data], [rights])
    except PermissionError:
        return False
    return True


def close_at_once(lingering):
    """Closes a lingering socket that may be this process's alone."""
    lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 0, 0))
    lingering.close()


class PassedFilesTest(EndToEndTest):

    def pass_lingering_socket(self, connection, data):
        lingering, peer = lingering_socket()
        self.addCleanup(peer.close)
        if send_with_file(connection, data, lingering):
            lingering.close()  # The daemon's is the last one now.
        else:
            close_at_once(lingering)
            connection.sendall(data)

    def test_a_target_that_passes_a_lingering_socket_holds_up_nobody(self):
        hostile = connect_as_target(self.daemon)
        self.addCleanup(hostile.close)
        self.pass_lingering_socket(hostile, hello())
        target = self.target()
        self.assertEqual(self.daemon.ctl('trace', '--pid', target.pid, '--duration', '10ms').status,
                         DONE)
        self.assertEqual(self.daemon.terminate(), 0)

    def test_a_caller_that_passes_a_lingering_socket_holds_up_nobody(self):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(self.daemon.socket_dir / 'control.sock'))
            self.pass_lingering_socket(caller, b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' +
                                       b'\0\0\0\4\0\0\0\0\0')
            self.assertEqual(self.daemon.ctl('node').status, DONE)
        self.assertEqual(self.daemon.ctl('node').status, DONE)
        self.assertEqual(self.daemon.terminate(), 0)


def frame(kind, flags, stream, payload):
    return (struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) +
            struct.pack('>I', stream) + payload)


def call(method, request, ends=True):
    """HTTP/2 of a connection that makes one call, of a request as it is on the wire. `ends`: no further
    messages follow."""
    headers = b''.join(
        b'\0' + b''.join(bytes([len(text)]) + text.encode() for text in pair) for pair in (
            (':method', 'POST'), (':scheme', 'http'), (':path', method), (':authority', 'x'),
            ('te', 'trailers'), ('content-type', 'application/grpc')))
    return (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b'') + frame(1, 4, 1, headers) +
            frame(0, int(ends), 1, b'\0' + struct.pack('>I', len(request)) + request))


def has_answer(data):
    """Whether the server's frames end the call: END_STREAM of HEADERS, or RST_STREAM."""
    while len(data) >= 9:
        length, kind, flags = int.from_bytes(data[:3], 'big'), data[3], data[4]
        if kind == 3 or kind == 1 and flags & 1:
            return True
        data = data[9 + length:]
    return False


class UnreadLogTest(EndToEndTest):
    """The daemon's stderr is a pipe that is full from the start."""

    def setUp(self):
        self.reader, writer = os.pipe()
        self.addCleanup(os.close, self.reader)
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b'x' * 4096)
        os.set_blocking(writer, True)
        self.addCleanup(os.close, writer)
        real = harness.Daemon
        self.addCleanup(setattr, harness, 'Daemon', real)
        harness.Daemon = lambda folder, *flags: real(folder, *flags,
                                                     preexec=lambda: os.dup2(writer, 2))
        super().setUp()

    def test_targets_and_callers_are_served_and_the_daemon_ends(self):
        for _ in range(3):
            target = self.target()
            self.assertEqual(
                self.daemon.ctl('trace', '--pid', target.pid, '--duration', '10ms').status, DONE)
            target.end()
        self.assertEqual(self.daemon.terminate(), 0)

    def test_a_request_that_is_not_utf8_is_answered(self):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(harness.PATIENCE_S)
            caller.connect(str(self.daemon.socket_dir / 'control.sock'))
            caller.sendall(call('/profd.v1.CaptureService/GetCapture', b'\x0a\x01\xff'))
            answer = b''
            while not has_answer(answer):
                answer += caller.recv(4096)
        self.assertEqual(self.daemon.ctl('node').status, DONE)
        self.assertEqual(self.daemon.terminate(), 0)


# Begins calls and resets them at once, never waiting for an answer, and connects again when it is
# thrown out. Prints how often it was. Arguments: a path or a port, seconds, and for TLS the files of
# the authority, the certificate, and its key.
RAPID_RESET = r"""
import socket, ssl, struct, sys, time

def literal(name, value):
    return b'\0' + b''.join(bytes([len(t)]) + t.encode() for t in (name, value))

def frame(kind, flags, stream, payload):
    return (struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) +
            struct.pack('>I', stream) + payload)

HEADERS = b''.join(literal(*pair) for pair in (
    (':method', 'POST'), (':scheme', 'http'), (':path', '/profd.v1.NodeService/GetNode'),
    (':authority', 'x'), ('te', 'trailers'), ('content-type', 'application/grpc')))
place, seconds = sys.argv[1], float(sys.argv[2])
is_path = place.startswith('/')
family, address = ((socket.AF_UNIX, place) if is_path else
                   (socket.AF_INET, ('127.0.0.1', int(place))))
end = time.monotonic() + seconds
ended = 0
context = None
if len(sys.argv) > 3:
    context = ssl.create_default_context(cafile=sys.argv[3])
    context.load_cert_chain(*sys.argv[4:])
    context.set_alpn_protocols(['h2'])
    context.check_hostname = False
while time.monotonic() < end:
    plain = socket.socket(family)
    plain.settimeout(2)
    with context.wrap_socket(plain) if context else plain as peer:
        try:
            peer.connect(address)
            peer.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b'') +
                         frame(4, 1, 0, b''))
            stream = 1
            while time.monotonic() < end:
                burst = b''
                for _ in range(100):
                    burst += frame(1, 4, stream, HEADERS)
                    burst += frame(3, 0, stream, struct.pack('>I', 8))
                    stream += 2
                peer.sendall(burst)
        except OSError:
            ended += 1
print(ended)
"""


class RapidResetTest(EndToEndTest):
    """Six processes of another user against a daemon in 512 MiB."""

    def setUp(self):
        self.group = MemoryGroup(512 << 20)
        if self.group.folder is not None:
            self.addCleanup(self.group.remove)
            real = harness.Daemon

            def in_group(folder, *flags):
                daemon = real(folder, *flags)
                daemon.memory = self.group
                return daemon
            self.addCleanup(setattr, harness, 'Daemon', real)
            harness.Daemon = in_group
        super().setUp()
        if self.group.folder is not None:
            self.addCleanup(self.daemon.stop)  # Before its cgroup is removed.

    def resident_bytes(self):
        status = pathlib.Path(f'/proc/{self.daemon.process.pid}/status').read_text()
        return int(re.search(r'VmHWM:\s+(\d+) kB', status).group(1)) << 10

    def test_the_daemon_stays_small_and_answers_others(self):
        as_nobody = harness.as_user(NOBODY) if os.geteuid() == 0 else {}
        before = self.resident_bytes()
        attackers = [
            subprocess.Popen([sys.executable, '-c', RAPID_RESET,
                              str(self.daemon.socket_dir / 'control.sock'), str(ATTACK_SECONDS)],
                             stdout=subprocess.PIPE, **as_nobody) for _ in range(ATTACKERS)]
        slowest, calls = 0, 0
        while any(attacker.poll() is None for attacker in attackers):
            start = time.monotonic()
            self.assertEqual(self.daemon.ctl('node').status, DONE)
            slowest, calls = max(slowest, time.monotonic() - start), calls + 1
        ended = sum(int(attacker.communicate()[0]) for attacker in attackers)
        grown = self.resident_bytes() - before
        print(f'{ATTACKERS} attackers, {ATTACK_SECONDS} s: {ended} connections ended; profd grew by '
              f'{grown >> 20} MiB to {self.resident_bytes() >> 20} MiB; {calls} calls of '
              f'`profctl node`, the slowest {slowest:.2f} s', flush=True)
        self.assertGreater(ended, 0, 'the attack ran into no limit')
        if not harness.is_sanitized():
            self.assertLess(grown, 200 << 20)
        self.assertIsNone(self.daemon.process.poll())
        if self.group.folder is not None:
            self.assertEqual(self.group.oom_kill_count(), 0)


class ResetsOverTcp:
    """Attackers over TCP, where gRPC's frames are not counted: connections are closed while profd uses
    more than half of its memory."""

    memory_max_bytes = 1 << 30
    CLOSED = 'closed the remote connection that received most'

    def attack(self, port, *certificate):
        """Returns once a connection was closed, at the earliest after ATTACK_SECONDS; the attackers
        go on. Local callers are answered meanwhile."""
        # On machines of their own they would not take the daemon's CPUs.
        self.attackers = [
            subprocess.Popen([sys.executable, '-c', RAPID_RESET, str(port),
                              str(10 * harness.PATIENCE_S), *map(str, certificate)],
                             preexec_fn=lambda: os.nice(10))
            for _ in range(ATTACKERS)]
        self.addCleanup(self.stop_attackers)
        begin = time.monotonic()
        self.slowest, self.late = 0, 0

        def is_relieved():
            start = time.monotonic()
            answer = self.daemon.ctl('node')
            if answer.status != DONE:  # On a busy machine the 15 s that profctl waits may be too few.
                self.assertIn('does not answer', answer.err, self.state())
                self.assertIsNone(self.daemon.process.poll(), self.state())
                self.late += 1
                return False
            self.slowest = max(self.slowest, time.monotonic() - start)
            return self.CLOSED in self.daemon.log() and start - begin > ATTACK_SECONDS
        harness.until(is_relieved, lambda: f'a connection is closed\n{self.state()}')

    def state(self):
        return (f'profd ended with {self.daemon.process.poll()}; {self.memory.oom_kill_count()} killed '
                f'for memory; {self.late} calls unanswered\n{self.daemon.log()[-3000:]}')

    def stop_attackers(self):
        for attacker in self.attackers:
            attacker.kill()
            attacker.wait()

    def assert_survived(self):
        self.stop_attackers()
        print(f'{ATTACKERS} attackers over TCP: {self.daemon.log().count(self.CLOSED)} connections '
              f'closed; peak of the cgroup {self.memory.peak_bytes() >> 20} MiB; slowest call '
              f'{self.slowest:.2f} s, {self.late} unanswered', flush=True)
        self.assertIsNone(self.daemon.process.poll())
        self.assertEqual(self.memory.oom_kill_count(), 0)
        audit = self.daemon.ctl('audit', '--json').out
        self.assertIn('CloseConnection', audit)
        self.assertIn('MEMORY_HIGH', audit)


class RapidResetOverTcpTest(ResetsOverTcp, EndToEndTest):
    """By the plaintext port."""

    def setUp(self):
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            self.port = probe.getsockname()[1]
        self.flags = ('--plaintext-listen', f'127.0.0.1:{self.port}')
        super().setUp()

    def test_the_daemon_outlives_it_and_says_whom_it_closed(self):
        self.attack(self.port)
        self.assert_survived()


@unittest.skipIf(shutil.which('openssl') is None, 'openssl, which makes certificates, is missing')
class RapidResetOverMutualTlsTest(ResetsOverTcp, remote_test.RemoteTest):
    """By callers with certificates."""

    def test_the_daemon_outlives_it_and_serves_others_with_certificates(self):
        self.attack(self.port.number, *(self.pki / 'site' / name
                                        for name in ('ca.crt', 'bob.crt', 'bob.key')))
        # Several tries: the attackers have the CPUs, and a handshake may time out.
        tries = []

        def is_served():
            begin = time.monotonic()
            result = self.remote('node')
            tries.append(f'{time.monotonic() - begin:.1f} s: {result.status} {result.err.strip()}')
            return self.is_known(result)
        try:
            harness.until(is_served, 'alice is served')
        except AssertionError as error:
            raise AssertionError('\n'.join([str(error), *tries, self.daemon.log()[-3000:]])) from error
        self.assert_survived()


if __name__ == '__main__':
    unittest.main()
