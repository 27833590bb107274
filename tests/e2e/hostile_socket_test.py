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


# What the attackers begin with. Arguments: a path or a port, seconds, how many connections, and for TLS
# the files of the authority, the certificate, and its key.
CALLER = r"""
import socket, ssl, struct, sys, time

def literal(name, value):
    return b'\0' + b''.join(bytes([len(t)]) + t.encode() for t in (name, value))

def frame(kind, flags, stream, payload):
    return (struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) +
            struct.pack('>I', stream) + payload)

HEADERS = b''.join(literal(*pair) for pair in (
    (':method', 'POST'), (':scheme', 'http'), (':path', '/profd.v1.NodeService/GetNode'),
    (':authority', 'x'), ('te', 'trailers'), ('content-type', 'application/grpc')))
place, end, count = sys.argv[1], time.monotonic() + float(sys.argv[2]), int(sys.argv[3])
context = None
if len(sys.argv) > 4:
    context = ssl.create_default_context(cafile=sys.argv[4])
    context.load_cert_chain(*sys.argv[5:])
    context.set_alpn_protocols(['h2'])
    context.check_hostname = False

def connection():
    is_path = place.startswith('/')
    plain = socket.socket(socket.AF_UNIX if is_path else socket.AF_INET)
    plain.settimeout(5)
    peer = context.wrap_socket(plain) if context else plain
    try:
        peer.connect(place if is_path else ('127.0.0.1', int(place)))
        peer.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b''))
    except OSError:
        peer.close()
        raise
    return peer
"""

# Begins calls and resets them at once, never waiting for an answer, and connects again when it is
# thrown out. Prints how often it was.
RAPID_RESET = CALLER + r"""
ended = 0
while time.monotonic() < end:
    stream = 1
    try:
        with connection() as peer:
            peer.settimeout(2)
            peer.sendall(frame(4, 1, 0, b''))
            while time.monotonic() < end:
                burst = b''
                for _ in range(100):
                    burst += frame(1, 4, stream, HEADERS)
                    burst += frame(3, 0, stream, struct.pack('>I', 8))
                    stream += 2
                peer.sendall(burst)
    except OSError:
        ended += stream > 1  # If it was let in.
print(ended)
"""


# Begins calls on each connection, and sends their messages as fast as it is let, but never their ends.
ENDLESS_MESSAGES = CALLER + r"""
MESSAGE_BYTES, CALLS = 4_000_000, 60

class Connection:
    def __init__(self):
        self.socket = connection()
        self.received, self.window, self.first_window = b'', 65535, 65535
        self.windows, self.left = {}, {}
        while not self.read():
            pass
        for stream in range(1, 2 * CALLS, 2):
            begun = frame(0, 0, stream, b'\0' + struct.pack('>I', MESSAGE_BYTES))
            self.socket.sendall(frame(1, 4, stream, HEADERS) + begun)
            self.windows[stream] = self.windows.get(stream, 0) + self.first_window - 5
            self.left[stream] = MESSAGE_BYTES - 1
            self.window -= 5

    def read(self):  # Whether there were settings.
        self.received += self.socket.recv(65536) or self.end()
        settings = False
        while len(self.received) >= 9:
            length, kind, flags = int.from_bytes(self.received[:3], 'big'), *self.received[3:5]
            stream = int.from_bytes(self.received[5:9], 'big')
            if len(self.received) < 9 + length:
                break
            payload, self.received = self.received[9:9 + length], self.received[9 + length:]
            if kind == 4 and not flags:
                settings = True
                for at in range(0, length, 6):
                    setting, value = struct.unpack('>HI', payload[at:at + 6])
                    if setting == 4:
                        for each in self.windows:
                            self.windows[each] += value - self.first_window
                        self.first_window = value
                self.socket.sendall(frame(4, 1, 0, b''))
            elif kind == 6 and not flags:
                self.socket.sendall(frame(6, 1, 0, payload))
            elif kind == 8 and stream:
                self.windows[stream] = self.windows.get(stream, 0) + int.from_bytes(payload, 'big')
            elif kind == 8:
                self.window += int.from_bytes(payload, 'big')
            elif kind == 3:
                self.left.pop(stream, None)
            elif kind == 7:
                self.end()
        return settings

    def end(self):
        raise OSError

    def send(self):
        self.socket.settimeout(0.01)
        try:
            self.read()
        except TimeoutError:
            pass
        self.socket.settimeout(2)
        for stream in self.left:
            size = min(16384, self.left[stream], self.windows[stream], self.window)
            if size < 256:
                continue
            self.socket.sendall(frame(0, 0, stream, bytes(size)))
            self.left[stream] -= size
            self.windows[stream] -= size
            self.window -= size

connections = set()
while time.monotonic() < end:
    for each in [*connections, *[None] * (count - len(connections))]:
        try:
            each = each or Connection()
            connections.add(each)
            each.send()
        except OSError:
            connections.discard(each)
            time.sleep(0.05)  # There is a limit of new ones.
"""

# Sends messages of 60 MiB in 60 KB.
BOMBS = CALLER + r"""
import zlib
packer = zlib.compressobj(9, zlib.DEFLATED, 31)
body = b''.join(packer.compress(bytes(1 << 20)) for _ in range(60)) + packer.flush()
message = b'\1' + struct.pack('>I', len(body)) + body
headers = HEADERS + literal('grpc-encoding', 'gzip')
sent, end = 0, time.monotonic() + float(sys.argv[2])  # Packing took a while.
while time.monotonic() < end:
    try:
        with connection() as peer:
            bytes_left = 65535
            for stream in range(1, 2 * count, 2):
                peer.sendall(frame(1, 4, stream, headers))
                for at in range(0, len(message), 16384):
                    part = message[at:at + 16384]
                    if len(part) > bytes_left:
                        break
                    bytes_left -= len(part)
                    peer.sendall(frame(0, int(at + 16384 >= len(message)), stream, part))
                    sent += at + 16384 >= len(message)
            peer.settimeout(1)
            while peer.recv(65536):
                pass
    except OSError:
        pass
print(sent)
"""


# Watches all targets, COUNT times, by requests that take 20 to 30 times as much memory once they are
# parsed: groups of no field of ours. Prints how many were begun, and keeps them.
LARGE_WATCHES = CALLER + r"""
request = b'\x7b\x7c' * 30_000
message = b'\0' + struct.pack('>I', len(request)) + request
headers = HEADERS.replace(literal(':path', '/profd.v1.NodeService/GetNode'),
                          literal(':path', '/profd.v1.TargetService/WatchTargets'))
begun, peers = 0, []
while begun < count:
    peer = connection()
    peers.append(peer)
    peer.sendall(frame(4, 1, 0, b''))
    room, data = 65535, b''
    for stream in range(1, 2 * min(60, count - begun), 2):
        while room < len(message):
            data += peer.recv(65536) or sys.exit('the connection ended')
            while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], 'big'):
                length, kind = int.from_bytes(data[:3], 'big'), data[3]
                if kind == 8 and not any(data[5:9]):
                    room += int.from_bytes(data[9:13], 'big')
                data = data[9 + length:]
        peer.sendall(frame(1, 4, stream, headers))
        for at in range(0, len(message), 16384):
            peer.sendall(frame(0, int(at + 16384 >= len(message)), stream, message[at:at + 16384]))
        room -= len(message)
        begun += 1
print(begun, flush=True)
time.sleep(600)
"""


# Fills the audit log with refusals of its own, then asks for it COUNT times, and takes no answer. Prints how
# many were sent, and keeps the connections.
UNREAD_ANSWERS = CALLER + r"""
def headers(method):
    return HEADERS.replace(literal(':path', '/profd.v1.NodeService/GetNode'), literal(':path', method))

def ask(peer, stream, method, request):
    peer.sendall(frame(1, 4, stream, headers(method)) +
                 frame(0, 1, stream, b'\0' + struct.pack('>I', len(request)) + request))
    data = b''
    while True:  # Until its HEADERS come, which nothing holds back.
        data += peer.recv(65536) or sys.exit('the connection ended')
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], 'big'):
            length, kind, answered = int.from_bytes(data[:3], 'big'), data[3], int.from_bytes(data[5:9], 'big')
            data = data[9 + length:]
            if kind in (1, 3) and answered == stream:
                return kind

peer = connection()
peer.sendall(frame(4, 1, 0, b''))
for each in range(1200):
    name = f'captures/{each:026d}'.encode()
    method = ('GetCapture', 'CancelCapture')[each % 2]
    ask(peer, 2 * each + 1, '/profd.v1.CaptureService/' + method, b'\x0a' + bytes([len(name)]) + name)
peers, sent = [], 0
while sent < count:
    peer = connection()
    peers.append(peer)
    peer.sendall(frame(4, 0, 0, struct.pack('>HI', 4, 0)) + frame(4, 1, 0, b''))  # A window of 0.
    for stream in range(1, 2 * min(60, count - sent), 2):
        ask(peer, stream, '/profd.v1.NodeService/ListAudit', b'\x08\xe8\x07')
        sent += 1
print(sent, flush=True)
time.sleep(600)
"""


class UnderAttack:
    """A daemon in little memory that others go on to use."""

    memory_max_bytes = 512 << 20

    def attack(self, *command, as_uid=None, nice=10):
        """ATTACKERS processes, which end with the test. On machines of their own they would not take the
        daemon's CPUs, so by default they leave them to it."""
        self.before = self.resident_bytes()
        self.attackers = [
            subprocess.Popen([sys.executable, '-c', *map(str, command)], stdout=subprocess.PIPE,
                             preexec_fn=lambda: os.nice(nice), **harness.as_user(as_uid))
            for _ in range(ATTACKERS)]
        self.addCleanup(self.stop_attackers)
        self.slowest, self.calls, self.late = 0, 0, 0

    def stop_attackers(self):
        for attacker in self.attackers:
            attacker.kill()
            attacker.wait()
            attacker.stdout.close()

    def use(self):
        """Makes a call; whether it was answered."""
        begin = time.monotonic()
        answer = self.daemon.ctl('node')
        self.calls += 1
        if answer.status != DONE:  # On a busy machine the 15 s that profctl waits may be too few.
            self.assertIn('does not answer', answer.err, self.state())
            self.assertIsNone(self.daemon.process.poll(), self.state())
            self.late += 1
            return False
        self.slowest = max(self.slowest, time.monotonic() - begin)
        return True

    def resident_bytes(self):
        status = pathlib.Path(f'/proc/{self.daemon.process.pid}/status').read_text()
        return int(re.search(r'VmHWM:\s+(\d+) kB', status).group(1)) << 10

    def state(self):
        return (f'profd ended with {self.daemon.process.poll()}; {self.memory.oom_kill_count()} killed '
                f'for memory; {self.late} calls unanswered\n{self.daemon.log()[-3000:]}')

    def assert_survived(self):
        self.grown = self.resident_bytes() - self.before
        print(f'{ATTACKERS} attackers: profd grew by {self.grown >> 20} MiB to '
              f'{self.resident_bytes() >> 20} MiB; {self.calls} calls of `profctl node`, the slowest '
              f'{self.slowest:.2f} s, {self.late} unanswered', flush=True)
        self.assertIsNone(self.daemon.process.poll(), self.state())
        self.assertEqual(self.memory.oom_kill_count(), 0)


class RapidResets(UnderAttack):

    def reset_calls(self, place, *certificate, as_uid=None):
        """For ATTACK_SECONDS, while local callers are answered."""
        self.attack(RAPID_RESET, place, ATTACK_SECONDS, 1, *certificate, as_uid=as_uid)
        while any(attacker.poll() is None for attacker in self.attackers):
            self.use()
        ended = sum(int(attacker.stdout.read()) for attacker in self.attackers)
        print(f'{ended} connections ended', flush=True)
        self.assertGreater(ended, 0, 'the attack ran into no limit')
        self.assertLess(2 * self.late, self.calls, self.state())

    def assert_stayed_small(self, who):
        self.assert_survived()
        self.assertRegex(self.daemon.log(), f'{who}: connection ended: more than .* per second')
        if not harness.is_sanitized():
            self.assertLess(self.grown, 200 << 20)


class RapidResetTest(RapidResets, EndToEndTest):
    """By control.sock, of another user."""

    def test_the_daemon_stays_small_and_answers_others(self):
        self.need_uid(NOBODY)
        self.reset_calls(self.daemon.socket_dir / 'control.sock', as_uid=NOBODY)
        self.assertEqual(self.late, 0, self.state())
        self.assert_stayed_small(r'control\.sock: uid \d+ pid \d+')


class PlaintextTest(EndToEndTest):

    def setUp(self):
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            self.port = probe.getsockname()[1]
        self.flags = ('--plaintext-listen', f'127.0.0.1:{self.port}')
        super().setUp()


class RapidResetOverTcpTest(RapidResets, PlaintextTest):

    def test_the_daemon_stays_small_and_answers_others(self):
        self.reset_calls(self.port)
        self.assert_stayed_small(rf'127\.0\.0\.1:{self.port}: ipv4:127\.0\.0\.1:\d+')


@unittest.skipIf(shutil.which('openssl') is None, 'openssl, which makes certificates, is missing')
class RapidResetOverMutualTlsTest(RapidResets, remote_test.RemoteTest):
    """By callers with certificates."""

    def test_the_daemon_stays_small_and_serves_others_with_certificates(self):
        site = self.pki / 'site'
        self.reset_calls(self.port.number, site / 'ca.crt', site / 'bob.crt', site / 'bob.key')
        self.assertTrue(self.is_known(self.remote('node')))  # Another's certificate.
        self.assert_stayed_small('mutual TLS: bob')


class EndlessMessages(UnderAttack):
    """Calls with messages that never end: connections end while their caller has too many bytes of them."""

    memory_max_bytes = 256 << 20

    def send_endlessly(self, place, connections, who, *certificate, as_uid=None):
        self.attack(ENDLESS_MESSAGES, place, 10 * harness.PATIENCE_S, connections, *certificate,
                    as_uid=as_uid, nice=0)
        ended = re.compile(f'{who}: connection ended: more than 16 MiB of messages without an end')
        harness.until(lambda: self.use() and ended.search(self.daemon.log()),
                      lambda: f'a connection is ended\n{self.state()}')
        end = time.monotonic() + ATTACK_SECONDS
        while time.monotonic() < end:
            self.use()
        self.stop_attackers()
        self.assert_survived()


class EndlessMessagesTest(EndlessMessages, EndToEndTest):
    """By control.sock, of another user."""

    def test_the_daemon_stays_small_and_answers_others(self):
        self.need_uid(NOBODY)
        self.send_endlessly(self.daemon.socket_dir / 'control.sock', 30,
                            r'control\.sock: uid \d+ pid \d+', as_uid=NOBODY)
        self.assertEqual(self.late, 0, self.state())


class EndlessMessagesOverTcpTest(EndlessMessages, PlaintextTest):

    def test_the_daemon_stays_small_and_answers_others(self):
        self.send_endlessly(self.port, 8, rf'127\.0\.0\.1:{self.port}: ipv4:127\.0\.0\.1:\d+')


@unittest.skipIf(shutil.which('openssl') is None, 'openssl, which makes certificates, is missing')
class EndlessMessagesOverMutualTlsTest(EndlessMessages, remote_test.RemoteTest):
    """By callers with certificates."""

    def test_the_daemon_stays_small_and_serves_others_with_certificates(self):
        site = self.pki / 'site'
        self.send_endlessly(self.port.number, 8, 'mutual TLS: bob', site / 'ca.crt', site / 'bob.crt',
                            site / 'bob.key')
        self.assertTrue(self.is_known(self.remote('node')))  # Another's certificate.


class KeptMessages(UnderAttack):
    """Calls that the attackers begin and never end."""

    memory_max_bytes = 512 << 20

    def keep_calls(self, script, count, quota_name, most_grown_bytes):
        self.need_uid(NOBODY)
        self.attack(script, self.daemon.socket_dir / 'control.sock', 1, count, as_uid=NOBODY)
        for attacker in self.attackers:
            self.assertEqual(int(attacker.stdout.readline()), count)
        for _ in range(3):
            self.assertTrue(self.use())
        self.assert_survived()
        if not harness.is_sanitized():
            self.assertLess(self.grown, most_grown_bytes)
        quota = next(each for each in self.daemon.ctl('node', '--quotas', '--json').json['quotas']
                     if each['name'] == quota_name)
        print(f"{quota['used'] >> 20} MiB of {quota_name} are used", flush=True)
        self.assertGreater(quota['used'], 0)
        self.assertLessEqual(quota['used'], quota['capacity'])
        return quota


class LargeRequestsTest(KeptMessages, EndToEndTest):
    """A request of a stream lives as long as the stream."""

    def test_the_memory_of_requests_is_limited(self):
        quota = self.keep_calls(LARGE_WATCHES, 120, 'request-memory', 160 << 20)
        self.assertGreater(quota['refused_count'], 0)


class UnreadAnswersTest(KeptMessages, EndToEndTest):
    """Answers whose caller never takes them."""

    def test_the_memory_of_answers_is_limited(self):
        self.keep_calls(UNREAD_ANSWERS, 150, 'answer-memory', 200 << 20)


class CompressedMessagesTest(UnderAttack, EndToEndTest):
    """gRPC would inflate a message before it looks at its size."""

    memory_max_bytes = 256 << 20

    def test_they_are_refused_before_they_grow(self):
        self.need_uid(NOBODY)
        self.attack(BOMBS, self.daemon.socket_dir / 'control.sock', ATTACK_SECONDS, 16, as_uid=NOBODY)
        while any(attacker.poll() is None for attacker in self.attackers):
            self.use()
        self.assertGreater(sum(int(attacker.stdout.read()) for attacker in self.attackers), 0)
        self.assert_survived()
        self.assertEqual(self.late, 0, self.state())
        if not harness.is_sanitized():
            self.assertLess(self.grown, 32 << 20)


if __name__ == '__main__':
    unittest.main()
