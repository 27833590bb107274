"""The attacks of attack_bench.py. Each is a function with @attack(what it does): given the stage, it
returns the command lines of its processes, which go on until they are killed.

How do I add one?  A function below; share scripts and bytes with the tests of tests/e2e. Commands
run as a user who may not read this repository: scripts are passed with -c, bytes as hexadecimal digits.
"""

import inspect
import os
import ssl
import sys

import harness
import hostile_socket_test
from hostile_socket_test import RAPID_RESET, call

FOREVER_S = '86400'
PYTHON = [sys.executable, '-c']
ULID = '0' * 26  # HOLD puts another in its place for each connection.
ATTACKS = {}


def attack(what, memory_bytes=512 << 20, seconds=0):
    """`memory_bytes`: the daemon's limit; `seconds`: how long it lasts at least."""
    def add(function):
        function.what, function.memory_bytes, function.seconds = what, memory_bytes, seconds
        ATTACKS[function.__name__] = function
        return function
    return add


# Keeps COUNT connections on which it sends DATA once and reads nothing. Replaces those that the
# daemon closed, and those older than LIFE_S. Over TCP it closes them with a reset.
# Arguments: KIND ADDRESS DATA COUNT LIFE_S
HOLD = r'''
import random, select, socket, struct, sys, time
kind, address, life_s = sys.argv[1], sys.argv[2], float(sys.argv[5])
data, count = bytes.fromhex(sys.argv[3]), int(sys.argv[4])
held = {}
poll = select.poll()
while True:
    while len(held) < count:
        if kind == 'TCP':
            peer, place = socket.socket(), ('127.0.0.1', int(address))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        else:
            peer, place = socket.socket(socket.AF_UNIX, getattr(socket, kind)), address
        peer.settimeout(2)
        try:
            peer.connect(place)
            ulid = '0' + ''.join(random.choice('123456789ABCDEFGHJKMNPQRSTVWXYZ') for _ in range(25))
            peer.sendall(data.replace(b'0' * 26, ulid.encode()))
        except OSError:
            peer.close()
            continue
        held[peer.fileno()] = peer, time.monotonic() + life_s
        poll.register(peer, select.POLLRDHUP)
    first_s = min(end for _, end in held.values()) - time.monotonic()
    ended = {number for number, _ in poll.poll(min(max(0, 1000 * first_s), 1000))}
    ended |= {number for number, (_, end) in held.items() if end <= time.monotonic()}
    for number in ended:
        poll.unregister(number)
        held.pop(number)[0].close()
'''

# Registers, and sends frames of all types with random bodies until the daemon ends the connection.
FRAMES = inspect.getsource(hostile_socket_test.hello) + r'''
while True:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(2)
    try:
        peer.connect(sys.argv[1])
        peer.send(hello())
        peer.recv(65536)
        for kind in itertools.cycle(range(2, 14)):
            body = os.urandom(random.randrange(64))
            peer.send(struct.pack('<IHHII', 0x46444650, kind, 0, 16 + len(body), 1) + body)
    except OSError:
        pass
    peer.close()
'''
FRAMES = 'import itertools, os, random, socket, struct, sys\n' + FRAMES

# A target that is captured all the time. "flood": it records as fast as it can. "lie": random words
# are written into the memory that it shares with the daemon, most of them into the first page of each
# part, where the counters are. Arguments: PROFCTL TARGET flood|lie
RECORD = r'''
import os, random, re, subprocess, sys, time
def start():
    target = subprocess.Popen([sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    def do(command):
        target.stdin.write(command + '\n')
        target.stdin.flush()
        return target.stdout.readline()
    for command in ('init', 'await-connected', 'train 1'):
        do(command)
    return target, do
def lie(target):
    with open(f'/proc/{target.pid}/maps') as maps:
        parts = [[int(word, 16) for word in line.split()[0].split('-')] for line in maps
                 if 'memfd:profd-' in line]
    with open(f'/proc/{target.pid}/mem', 'r+b', 0) as memory:
        for low, high in parts * 100:
            high = random.choice((low + 512, low + 4096, high))
            memory.seek(random.randrange(low, high, 8))
            memory.write(random.choice((os.urandom(8), b'\xff' * 8, b'\0' * 7 + b'\x7f')))
target, do = start()
while True:
    if target.poll() is not None:
        target, do = start()
    lies = sys.argv[3] == 'lie'
    tracing = subprocess.Popen(
        [sys.argv[1], 'trace', '--pid', str(target.pid), '--duration', '2s' if lies else '1h',
         '--timeout', '2h', '--buffer', '16MiB'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if lies:
            do('await-recording')
        while tracing.poll() is None:
            if lies:
                lie(target)
            else:
                do('busy 10 100000')
    except OSError:  # The target ended.
        pass
    tracing.wait()
'''

# Sends its requests byte by byte, and connects again when it is thrown out.
SCRAPES = r'''
import socket, sys, time
held = []
while True:
    while len(held) < 40:
        peer = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
        peer.setblocking(False)
        held.append([peer, iter(b'GET /metrics HTTP/1.1\r\nHost: x\r\nX: ' + 10000 * b'x')])
    for each in list(held):
        try:
            each[0].send(bytes([next(each[1])]))
        except BlockingIOError:
            pass
        except (OSError, StopIteration):
            each[0].close()
            held.remove(each)
    time.sleep(0.01)
'''

# Runs a command again and again.
LOOP = r'''
import subprocess, sys
while True:
    subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
'''

# Asks again and again, each time for another number of rows: profd keeps its answers.
REPORTS = r'''
import itertools, os, subprocess, sys
for rows in itertools.count(1 + 1_000_000 * os.getpid()):
    subprocess.run([*sys.argv[1:], '--limit', str(rows)], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
'''


def field(number, value):
    """A field of a protobuf message: a text, or a message as bytes."""
    value = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(value)]) + value


def client_hello():
    """The first bytes of a TLS handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(['h2'])
    sent = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return sent.read()


def hold(kind, address, data, count, life_s):
    return [*PYTHON, HOLD, kind, str(address), data.hex(), str(count), str(life_s)]


def hold_call(stage, count, life_s, method, request, ends=True):
    """Calls that are made, each on a connection of its own, and whose answers are not read."""
    return hold('SOCK_STREAM', stage.socket_dir / 'control.sock',
                call(f'/profd.v1.{method}', request, ends), count, life_s)


# ---- connections ----

@attack('nothing: for comparison')
def none(_):
    return []


@attack('only CPU time: 3 busy processes on each CPU')
def busy(_):
    every_cpu = ','.join(map(str, os.sched_getaffinity(0)))
    return [['taskset', '-c', every_cpu, *PYTHON, 'while True: pass']] * 3 * os.cpu_count()


@attack('6 processes begin HTTP/2 calls on control.sock and reset them', seconds=30)
def resets(stage):
    return [[*PYTHON, RAPID_RESET, str(stage.socket_dir / 'control.sock'), FOREVER_S, '1']] * 6


@attack('the same on the plaintext port', memory_bytes=1 << 30, seconds=30)
def tcp(stage):
    return [[*PYTHON, RAPID_RESET, str(stage.port('plaintext')), FOREVER_S, '1']] * 6


@attack('the same over mutual TLS, with a certificate', memory_bytes=1 << 30, seconds=30)
def tls(stage):
    return [[*PYTHON, RAPID_RESET, str(stage.port('mutual TLS')), FOREVER_S, '1',
             *(str(stage.certificates / name) for name in ('ca.crt', 'bob.crt', 'bob.key'))]] * 6


@attack('2 processes keep 400 TLS handshakes half-way')
def handshakes(stage):
    return [hold('TCP', stage.port('mutual TLS'), client_hello(), 400, FOREVER_S)] * 2


@attack('6 processes begin TLS handshakes and reset the TCP connection at once', seconds=30)
def aborts(stage):
    return [hold('TCP', stage.port('mutual TLS'), client_hello(), 20, 0)] * 6


@attack('2 processes keep 200 connections to control.sock and say nothing')
def connects(stage):
    return [hold('SOCK_STREAM', stage.socket_dir / 'control.sock', b'', 200, FOREVER_S)] * 2


@attack('2 processes keep 200 connections to agent.sock and say nothing')
def silent(stage):
    return [hold('SOCK_SEQPACKET', stage.socket_dir / 'agent/agent.sock', b'', 200, FOREVER_S)] * 2


@attack('2 processes ask for /metrics byte by byte, on as many connections as they get')
def scrapes(stage):
    return [[*PYTHON, SCRAPES, str(stage.metrics_port)]] * 2


# ---- calls ----

@attack('300 ListAudit calls in flight')
def calls(_):
    return [[harness.BUILD_DIR / 'tests/bin/greedy_caller', 'calls', '300', '6']]


@attack('200 WatchTargets and 50 WatchCapture streams that are not read, anew every 5 s')
def watches(stage):
    return [hold_call(stage, 200, 5, 'TargetService/WatchTargets', b''),
            hold_call(stage, 50, 5, 'CaptureService/WatchCapture',
                      field(1, f'captures/{stage.attackers_capture}'))]


@attack('50 exports and 50 downloads of a large capture that are not read, anew every 5 s')
def readers(stage):
    capture = field(1, f'captures/{stage.attackers_capture}')
    return [hold_call(stage, 50, 5, 'ExportService/ExportTrace', capture + b'\x10\x01'),
            hold_call(stage, 50, 5, 'CaptureService/DownloadCapture', capture)]


@attack('50 PrepareGroup streams of a target of theirs, a lease of 10 minutes each, anew every 1 s')
def groups(stage):
    request = (field(1, f'groups/{ULID}') + field(2, f'targets/{stage.new_target()[0]}') +
               field(3, b'\x08\x01') +        # One step.
               field(5, b'\x08\xd8\x04'))     # 600 s without a caller.
    return [hold_call(stage, 50, 1, 'CaptureService/PrepareGroup', request)]


@attack('6 processes import a trace of a capture as large as that of `ops`')
def imports(stage):
    return [[*PYTHON, LOOP, str(harness.PROFCTL), 'import', str(stage.attackers_trace())]] * 6


@attack('60 imports that stop after their first message, anew every 10 s')
def uploads(stage):
    first = b'\x08\x80\x80\x40' + field(2, 'f' * 64) + field(4, 'S')  # 1 MiB is announced.
    return [hold_call(stage, 60, 10, 'CaptureService/ImportCapture', first, ends=False)]


@attack('6 processes ask for reports of a capture as large as that of `ops`')
def reports(stage):
    return [[*PYTHON, REPORTS, str(harness.PROFCTL), 'ops', stage.attackers_capture]] * 6


@attack('6 processes capture 6 targets of theirs for 10 ms, again and again')
def captures(stage):
    return [[*PYTHON, LOOP, str(harness.PROFCTL), 'trace', '--pid', str(pid),
             '--duration', '10ms'] for _, pid in (stage.new_target() for _ in range(6))]


@attack('3 processes create schedules')
def schedules(_):
    return [[*PYTHON, LOOP, str(harness.PROFCTL), 'schedule', 'create', '--every', '1h', '--steps',
             '1']] * 3


# ---- targets ----

@attack('2 targets send random frames until their connection ends, again and again')
def frames(stage):
    return [[*PYTHON, FRAMES, str(stage.socket_dir / 'agent/agent.sock')]] * 2


@attack('2 targets that are captured record as fast as they can')
def floods(_):
    return [[*PYTHON, RECORD, str(harness.PROFCTL), str(harness.TARGET), 'flood']] * 2


@attack('2 targets that are captured overwrite the memory and counters that profd reads')
def liars(_):
    return [[*PYTHON, RECORD, str(harness.PROFCTL), str(harness.TARGET), 'lie']] * 2
