"""A daemon that means harm: what a process of the same user could answer to the library.

It answers HELLO properly, or not, and then sends frames that are right, wrong in some bytes, or
noise; it hands over memory, and writes nonsense into it while the library records there.
"""

import contextlib
import mmap
import os
import pathlib
import random
import socket
import struct
import threading

FRAME_MAGIC = 0x46444650
WELCOME, REFUSE, ARM, ARMED, ARM_FAILED, FIRE, STOP, RELEASE = 2, 3, 4, 5, 6, 7, 8, 10
TORCH_FIELD = 5
PAGE_BYTES = 4096
PAGE_MAGIC = 0x50475450
MEMORY_MAGIC = 0x4d434450
MEMORY_BYTES = 1 << 20
CHUNK_BYTES = 64 << 10
NEXT_STEP = 2 ** 64 - 1
SHRINK, GROW, SEAL = 0x2, 0x4, 0x1
ADD_SEALS = 1033
# Offsets in the header of capture memory that a daemon may write at any time.
FREE_HEAD, FILLED_BYTES, PHASE, NAME_AREA_USED = 128, 136, 192, 256


def frame(kind, body, request_id=1):
    return struct.pack('<IHHII', FRAME_MAGIC, kind, 0, 16 + len(body), request_id) + body


def sealed_memory(size, seals=SHRINK | GROW | SEAL):
    fd = os.memfd_create('hostile', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if seals:
        import fcntl
        fcntl.fcntl(fd, ADD_SEALS, seals)
    return fd


def layout(total_bytes):
    """As LayoutFor() in proto/wire/capture_memory.h, below 16 MiB."""
    def up(n):
        return (n + 4095) // 4096 * 4096
    names = max(1, 65536 // 16)
    area = total_bytes // 4
    table = 4096
    index = table + up(total_bytes // CHUNK_BYTES * 16)
    name_area = index + names * 4
    chunks = up(name_area + area)
    return names, area, table, index, name_area, chunks, (total_bytes - chunks) // CHUNK_BYTES


def write_header(memory, number):
    names, area, table, index, name_area, chunks, count = layout(MEMORY_BYTES)
    struct.pack_into('<IIQQIIIIQQQQ', memory, 0, MEMORY_MAGIC, 1, number, MEMORY_BYTES, CHUNK_BYTES,
                     count, names, area, table, index, name_area, chunks)
    for i in range(count):
        struct.pack_into('<II', memory, table + 16 * i, 0, i + 2 if i + 1 < count else 0)
    struct.pack_into('<Q', memory, FREE_HEAD, 1)


class Session:
    """One connection of the library."""

    def __init__(self, peer, rng, is_over, welcomes):
        self.peer = peer
        self.welcomes = welcomes
        self.rng = rng
        self.is_over = is_over
        self.number = 0
        self.armed_count = 0  # As the library says.
        self.answer = 0  # The kind of what it sent last.
        self.memory = None

    def send(self, data, fds=()):
        socket.send_fds(self.peer, [data or b'\0'], list(fds), socket.MSG_DONTWAIT)

    def mutated(self, data):
        data = bytearray(data)
        for _ in range(self.rng.randint(1, 4)):
            data[self.rng.randrange(len(data))] = self.rng.randrange(256)
        return bytes(data[:self.rng.choice((len(data), self.rng.randint(1, len(data))))])

    def maybe(self, data):
        return self.mutated(data) if self.rng.random() < 0.3 else data

    def welcome(self):
        page = sealed_memory(self.rng.choice((PAGE_BYTES, PAGE_BYTES, PAGE_BYTES, 0, 100, 1 << 20)),
                             self.rng.choice((SHRINK | GROW | SEAL,) * 3 + (0,)))
        with open(page, 'r+b', buffering=0, closefd=True):
            with contextlib.suppress(OSError):
                os.pwrite(page, struct.pack('<II', PAGE_MAGIC, 1), 0)
            fds = [page] * self.rng.choice((1, 1, 1, 0, 2, 20))
            self.send(self.maybe(frame(WELCOME, struct.pack('<HHIQ', 1, 0, 0, 1))), fds)
            if self.rng.random() < 0.2:
                with contextlib.suppress(OSError):
                    os.ftruncate(page, 0)

    def welcome_properly(self):
        page = sealed_memory(PAGE_BYTES)
        os.pwrite(page, struct.pack('<II', PAGE_MAGIC, 1), 0)
        self.send(frame(WELCOME, struct.pack('<HHIQ', 1, 0, 0, 1)), [page])
        os.close(page)

    def arm(self):
        self.number += 1
        fd = sealed_memory(MEMORY_BYTES)
        self.forget_memory()
        self.memory = mmap.mmap(fd, MEMORY_BYTES)
        write_header(self.memory, self.number)
        if self.rng.random() < 0.2:
            self.memory[self.rng.randrange(128)] = self.rng.randrange(256)
        gpu_mode = self.rng.choice((0, 0, 0, 3, 77))
        body = struct.pack('<QQQQQIIII', self.number, MEMORY_BYTES, self.rng.choice((0, MEMORY_BYTES)),
                           1 << 20, 1000, gpu_mode, 0, 100, 0)
        if self.rng.random() < 0.8:
            body += self.torch_field()
        fds = [fd] * self.rng.choice((1, 1, 1, 1, 0, 3))
        self.send(self.maybe(frame(ARM, body)), fds)
        os.close(fd)

    def torch_field(self):
        """Operators, mostly with their inputs; memory, stacks, modules; steps of any source."""
        operators = self.rng.choice((0, 1, 2, 2, 2, 77))
        flags = self.rng.choice((0, 15, 15, self.rng.getrandbits(32)))
        source = self.rng.choice((0, 0, 0, 1, 2, 5, 99))
        return struct.pack('<HHIIII', TORCH_FIELD, 16, operators, flags, source, 0)

    def receive(self):
        """What the library sends; empty: it has hung up."""
        data = self.peer.recv(16384)
        self.answer = struct.unpack_from('<H', data, 4)[0] if len(data) >= 6 else 0
        self.armed_count += self.answer == ARMED
        return data

    def await_arming(self):
        """Gives the library time to arm, so that it records what follows."""
        self.peer.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            while self.receive() and self.answer not in (ARMED, ARM_FAILED):
                pass
        self.peer.settimeout(0.002)

    def fire(self):
        body = struct.pack('<QQQIIII', self.number, self.rng.choice((NEXT_STEP, 0, 5)),
                           self.rng.choice((0, 1, 1000, 2 ** 63)), 0, self.rng.choice((0, 1)),
                           self.rng.choice((1, 1, 64, 2 ** 31)), 0)
        self.send(self.maybe(frame(FIRE, body)))

    def stop(self):
        self.send(self.maybe(frame(STOP, struct.pack('<Q', self.number))))

    def release(self):
        self.send(self.maybe(frame(RELEASE, struct.pack('<Q', self.number))))

    def noise(self):
        self.send(os.urandom(self.rng.randint(1, 600)))

    def scribble(self):
        """What the daemon may write while the library records, with any value."""
        if self.memory is None:
            return
        _, _, table, index, _, _, count = layout(MEMORY_BYTES)
        offset = self.rng.choice((FREE_HEAD, FILLED_BYTES, PHASE, NAME_AREA_USED,
                                  table + 16 * self.rng.randrange(count) + 4,
                                  table + 16 * self.rng.randrange(count),
                                  index + 4 * self.rng.randrange(64), self.rng.randrange(4096)))
        value = self.rng.choice((0, 1, self.rng.randrange(count + 3), 0xffffffff,
                                 self.rng.getrandbits(32)))
        struct.pack_into('<I', self.memory, offset, value)

    def run(self):
        self.peer.settimeout(1)
        self.peer.recv(16384)
        if self.welcomes:
            self.welcome_properly()
        elif self.rng.random() < 0.1:
            self.noise()
        elif self.rng.random() < 0.1:
            self.send(frame(REFUSE, struct.pack('<IHH', self.rng.randrange(6), 1, 1)))
        else:
            self.welcome()
        self.peer.settimeout(0.002)
        for _ in range(self.rng.randint(5, 60)):
            if self.is_over.is_set():
                break
            if self.memory is None or self.rng.random() < 0.1:
                self.arm()
                if self.rng.random() < 0.7:
                    self.await_arming()
                self.fire()
            action = self.rng.choice((self.scribble,) * 6 + (self.fire, self.stop, self.release,
                                                             self.noise))
            action()
            with contextlib.suppress(TimeoutError):
                if not self.receive():
                    break

    def forget_memory(self):
        if self.memory is not None:
            self.memory.close()
            self.memory = None


class HostileDaemon(threading.Thread):
    """Listens where a daemon with that socket directory would. `welcomes`: each session begins as it
    should, so that more of them come to a capture."""

    def __init__(self, socket_dir, seed, welcomes=False):
        super().__init__(daemon=True)
        self.rng = random.Random(seed)
        self.welcomes = welcomes
        self.is_over = threading.Event()
        self.session_count = 0
        self.armed_count = 0
        folder = pathlib.Path(socket_dir) / 'agent'
        folder.mkdir(parents=True)
        for path in (folder.parent, folder):
            path.chmod(0o755)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(folder / 'agent.sock'))
        (folder / 'agent.sock').chmod(0o666)
        self.listener.listen(64)
        self.listener.settimeout(0.1)
        self.start()

    def run(self):
        while not self.is_over.is_set():
            try:
                peer, _ = self.listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self.session_count += 1
            session = Session(peer, random.Random(self.rng.getrandbits(64)), self.is_over,
                              self.welcomes)
            threading.Thread(target=self._serve, args=(session,), daemon=True).start()

    def _serve(self, session):
        with session.peer:
            # The library hangs up on what it does not understand.
            with contextlib.suppress(OSError):
                session.run()
            session.forget_memory()
        self.armed_count += session.armed_count

    def end(self):
        self.is_over.set()
        self.join()
        self.listener.close()
