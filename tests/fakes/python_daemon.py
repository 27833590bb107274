"""A daemon in Python, for tests of the client side: it speaks proto/wire and no more.

    with FakeDaemon(socket_dir) as daemon:
        target = daemon.wait_target()          # a process that said HELLO
        capture = target.arm()
        capture.fire()                         # by time: the window opens at once
        capture.wait_recording()
        ...
        events = capture.finish()              # STOP, DRAINED, read, RELEASE

The layouts are those of proto/wire/*.h, spelled out a second time on purpose: a change
there that forgets its readers fails here.

Errors: whatever does not come within DEADLINE_S raises AssertionError and says what.
"""

import array
import fcntl
import mmap
import os
import queue
import socket
import struct
import threading
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

DEADLINE_S = 60.0  # Only ever waited out in full by a test that fails.

FRAME_MAGIC = 0x46444650
HELLO, WELCOME, REFUSE, ARM, ARMED, ARM_FAILED = 1, 2, 3, 4, 5, 6
FIRE, STOP, DRAINED, RELEASE, METADATA = 7, 8, 9, 10, 11
_FRAME = struct.Struct("=IHHII")
_FIELD = struct.Struct("=HH")
NEXT_STEP = 2**64 - 1

PHASE_WAITING, PHASE_RECORDING, PHASE_ENDED = 2, 4, 5
CHUNK_BYTES = 64 * 1024
MAX_RANGE_DEPTH = 128
_CHUNK_DATA_OFFSET = 64 + 16 * MAX_RANGE_DEPTH
_CHUNK_FREE, _CHUNK_OWNED, _CHUNK_FULL = 0, 1, 2
_HEADER_BYTES = 4096
_MAX_NAMES = 65536
_MAX_NAME_AREA_BYTES = 16 << 20


class Range(NamedTuple):
    name: str
    start: int
    duration: int
    depth: int
    thread: int  # OS thread id


class Instant(NamedTuple):
    name: str
    time: int
    thread: int


class Counter(NamedTuple):
    name: str
    time: int
    value: float
    thread: int


class Memory(NamedTuple):
    time: int
    is_free: bool
    address: int
    bytes: int
    total_allocated: int
    total_reserved: int
    device_type: int
    device_index: int
    category: int


class Step(NamedTuple):
    step: int
    time: int


class ThreadName(NamedTuple):
    thread: int
    name: str


class Operator(NamedTuple):
    start: int
    sequence: int
    depth: int
    scope: int
    input_count: int
    thread: int
    torch_thread: int = 0
    forward_thread: int = 0
    inputs: tuple = ()  # (kind, value) each; see _inputs().
    stack: int = 0  # StackFrame.stack of the same thread.


class Note(NamedTuple):
    time: int
    subject: Optional[str]
    text: Optional[str]
    value: int
    kind: int


class Block(NamedTuple):
    address: int
    bytes: int
    name: Optional[str]
    category: int
    device_type: int
    device_index: int


class TorchStatus(NamedTuple):
    version: Optional[str]
    wanted: int
    recorded: int
    step_source: int


class StackFrame(NamedTuple):
    thread: int
    stack: int
    parent: int
    file: Optional[str]
    name: Optional[str]
    line: int
    module: int
    class_name: Optional[str]


class Module(NamedTuple):
    address: int
    root: int
    path: Optional[str]  # None for the root.
    class_name: Optional[str]


class Events:
    """What one capture's memory held."""

    def __init__(self) -> None:
        self.all: list = []
        self.open_ranges: List[str] = []
        self.drops: List[int] = []

    def of(self, kind: type) -> list:
        return [event for event in self.all if isinstance(event, kind)]

    @property
    def ranges(self) -> List[Range]:
        return self.of(Range)

    def range_names(self) -> List[str]:
        return [event.name for event in self.ranges]

    def thread_names(self) -> Dict[int, str]:
        return {event.thread: event.name for event in self.of(ThreadName)}


def make_memfd(name: str, size: int) -> int:
    """A sealed memfd of `size` zero bytes, as the daemon makes them."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS,
                fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return fd


def frame(frame_type: int, body: bytes, request_id: int = 0) -> bytes:
    return _FRAME.pack(FRAME_MAGIC, frame_type, 0, _FRAME.size + len(body), request_id) + body


def _round_up(value: int, to: int) -> int:
    return (value + to - 1) // to * to


class Layout:
    """LayoutFor() of capture_memory.h."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.name_capacity = _MAX_NAMES if total_bytes >= 16 << 20 else _MAX_NAMES // 16
        self.name_area_bytes = min(total_bytes // 4, _MAX_NAME_AREA_BYTES)
        self.chunk_table = _HEADER_BYTES
        table_bytes = _round_up(total_bytes // CHUNK_BYTES * 16, 4096)
        self.name_index = self.chunk_table + table_bytes
        self.name_area = self.name_index + self.name_capacity * 4
        self.chunks = _round_up(self.name_area + self.name_area_bytes, 4096)
        self.chunk_count = (total_bytes - self.chunks) // CHUNK_BYTES


class CaptureMemory:
    """One capture's shared memory, made and read as the daemon does.

    Chunks are read when the capture is over and never given back before, so a test must
    fit into `total_bytes`.
    """

    _HEAD = struct.Struct("=IIQQIIIIQQQQ")

    def __init__(self, capture_number: int, total_bytes: int) -> None:
        self.layout = Layout(total_bytes)
        self.fd = make_memfd("fake-capture", total_bytes)
        self._map = mmap.mmap(self.fd, total_bytes)
        self._write_header(capture_number)

    def _write_header(self, capture_number: int) -> None:
        layout = self.layout
        self._HEAD.pack_into(self._map, 0, 0x4D434450, 1, capture_number, layout.total_bytes,
                             CHUNK_BYTES, layout.chunk_count, layout.name_capacity,
                             layout.name_area_bytes, layout.chunk_table, layout.name_index,
                             layout.name_area, layout.chunks)
        for index in range(layout.chunk_count):
            following = index + 2 if index + 1 < layout.chunk_count else 0
            struct.pack_into("=II", self._map, layout.chunk_table + 16 * index, _CHUNK_FREE,
                             following)
        struct.pack_into("=Q", self._map, 128, 1)  # free_head: chunk 0

    def phase(self) -> int:
        return struct.unpack_from("=I", self._map, 192)[0]

    def name(self, name_id: int) -> str:
        assert 0 < name_id < self.layout.name_capacity, "name id %d" % name_id
        offset, = struct.unpack_from("=I", self._map, self.layout.name_index + 4 * name_id)
        assert offset != 0, "name id %d has no name" % name_id
        length, = struct.unpack_from("=I", self._map, offset)
        return self._map[offset + 8:offset + 8 + length].decode("utf-8", "surrogateescape")

    def read(self) -> Events:
        events = Events()
        events.drops = list(struct.unpack_from("=8Q", self._map, 320))
        for index in self._used_chunks():
            self._read_chunk(self.layout.chunks + index * CHUNK_BYTES, events)
        return events

    def _used_chunks(self) -> List[int]:
        """Chunks that hold events, in the order each thread wrote them."""
        used = []
        for index in range(self.layout.chunk_count):
            state, = struct.unpack_from("=I", self._map, self.layout.chunk_table + 16 * index)
            if state != _CHUNK_FREE:
                base = self.layout.chunks + index * CHUNK_BYTES
                serial, _, sequence = struct.unpack_from("=III", self._map, base + 8)
                used.append((serial, sequence, index))
        return [index for _, _, index in sorted(used)]

    def _read_chunk(self, base: int, events: Events) -> None:
        published, depth, _, thread = struct.unpack_from("=IIII", self._map, base)
        for slot in range(depth):
            _, name_id = struct.unpack_from("=QI", self._map, base + 64 + 16 * slot)
            events.open_ranges.append(self.name(name_id))
        position = base + _CHUNK_DATA_OFFSET
        end = position + published
        while position < end:
            size, kind, flags, _ = struct.unpack_from("=HBBI", self._map, position)
            assert size >= 8 and size % 8 == 0 and position + size <= end, "record of %d" % size
            event = self._event(kind, flags, thread, position + 8)
            if event is not None:
                events.all.append(event)
            position += size

    def _event(self, kind: int, flags: int, thread: int, at: int) -> Optional[tuple]:
        if kind == 1:
            start, duration, name_id, depth = struct.unpack_from("=QQIH", self._map, at)
            return Range(self.name(name_id), start, duration, depth, thread)
        if kind == 2:
            ticks, name_id = struct.unpack_from("=QI", self._map, at)
            return Instant(self.name(name_id), ticks, thread)
        if kind == 3:
            ticks, value, name_id = struct.unpack_from("=QdI", self._map, at)
            return Counter(self.name(name_id), ticks, value, thread)
        if kind == 4:
            fields = struct.unpack_from("=QQqqqHhH", self._map, at)
            return Memory(fields[0], bool(flags & 1), *fields[1:])
        if kind == 5:
            ticks, step = struct.unpack_from("=QQ", self._map, at)
            return Step(step, ticks)
        if kind == 6:
            name_id, = struct.unpack_from("=I", self._map, at)
            return ThreadName(thread, self.name(name_id))
        return self._torch_event(kind, thread, at)

    def _torch_event(self, kind: int, thread: int, at: int) -> Optional[tuple]:
        def name_or_none(name_id):
            return self.name(name_id) if name_id != 0 else None

        if kind == 32:
            (start, sequence, forward_thread, torch_thread, depth, scope, inputs, described,
             stack) = struct.unpack_from("=QqQIHBBII", self._map, at)
            return Operator(start, sequence, depth, scope, inputs, thread, torch_thread,
                            forward_thread, self._inputs(at + 40, described), stack)
        if kind == 33:
            ticks, subject, text, value, note_kind = struct.unpack_from("=QIIqH", self._map, at)
            return Note(ticks, name_or_none(subject), name_or_none(text), value, note_kind)
        if kind == 34:
            address, size, name_id, *rest = struct.unpack_from("=QqIHHh", self._map, at)
            return Block(address, size, name_or_none(name_id), *rest)
        if kind == 35:
            version_id, *rest = struct.unpack_from("=IIII", self._map, at)
            return TorchStatus(name_or_none(version_id), *rest)
        if kind == 36:
            (module, stack, parent, file, name, line, _,
             class_name) = struct.unpack_from("=QIIIIIII", self._map, at)
            return StackFrame(thread, stack, parent, name_or_none(file), name_or_none(name), line,
                              module, name_or_none(class_name))
        if kind == 37:
            address, root, path, class_name = struct.unpack_from("=QQII", self._map, at)
            return Module(address, root, name_or_none(path), name_or_none(class_name))
        return None

    def _inputs(self, at: int, count: int) -> tuple:
        """("tensor", (type, sizes)), ("list", tensors in it), ("int", 7), ("ints", (1, 2)), ...

        The tensors of a list follow it. Storages and strides are passed over.
        """
        def words(code, number):
            nonlocal at
            at += 8 * number
            return struct.unpack_from("=%d%s" % (number, code), self._map, at - 8 * number)

        inputs = []
        for _ in range(count):
            kind, dtype, rank, flags, number = struct.unpack_from("=BbBBI", self._map, at)
            at += 8
            if kind == 1:
                words("Q", flags & 1)
                inputs.append(("tensor", (dtype, words("q", rank))))
                words("q", rank if flags & 2 else 0)
            elif kind == 2:
                inputs.append(("list", number))
            elif kind == 6:
                text = b"".join(struct.pack("=q", word) for word in words("q", (number + 7) // 8))
                inputs.append(("string", text[:number].decode()))
            elif kind in (3, 4, 5):
                inputs.append((("int", "double", "bool")[kind - 3],
                               words("d" if kind == 4 else "q", 1)[0]))
            elif kind in (7, 8, 9):
                inputs.append((("ints", "doubles", "bools")[kind - 7],
                               words("d" if kind == 8 else "q", number)))
            else:
                assert kind in (0, 15), "an input of kind %d" % kind
                inputs.append(("none" if kind == 0 else "other", None))
        return tuple(inputs)

    def close(self) -> None:
        self._map.close()
        os.close(self.fd)


class Capture:
    """One capture of one target."""

    def __init__(self, target: "Target", number: int, total_bytes: int) -> None:
        self._target = target
        self.number = number
        self.memory = CaptureMemory(number, total_bytes)

    def fire(self, steps: int = 0, base_step: int = NEXT_STEP, warmup: int = 0, wait: int = 0,
             repeat: int = 1) -> None:
        """Starts it: `steps` recorded steps, or by time (0) until finish()."""
        self._target.send(FIRE, struct.pack("=QQQIIII", self.number, base_step, steps, wait,
                                            warmup, repeat, 0))

    def wait_planned(self) -> None:
        """Until the target has its plan: the next mark counts."""
        self._wait_phase(PHASE_WAITING)

    def wait_recording(self) -> None:
        self._wait_phase(PHASE_RECORDING)

    def wait_ended(self) -> None:
        self._wait_phase(PHASE_ENDED)

    def _wait_phase(self, phase: int) -> None:
        # Nothing is sent during a window: the phase in shared memory is all there is.
        deadline = time.monotonic() + DEADLINE_S
        while self.memory.phase() < phase:  # A phase may be over when we look.
            assert time.monotonic() < deadline, (
                "capture is in phase %d, not %d" % (self.memory.phase(), phase))
            time.sleep(0.001)

    def finish(self) -> Events:
        self._target.send(STOP, struct.pack("=Q", self.number))
        self._target.expect(DRAINED)
        return self.abandon()

    def abandon(self) -> Events:
        """As finish(), of a target that has died."""
        events = self.memory.read()
        self._target.try_send(RELEASE, struct.pack("=Q", self.number))
        self.memory.close()
        return events


class Target:
    """A process that has registered."""

    def __init__(self, connection: socket.socket, hello: bytes) -> None:
        self._connection = connection
        self._frames: "queue.Queue" = queue.Queue()
        self._next_capture = 1
        (self.version_min, self.version_max, self.clock_kind, self.own_pid, self.parent_pid,
         self.step_mark_count, _) = struct.unpack_from("=HHIIIQQ", hello)
        self.fields = _parse_fields(hello[32:])
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self.pid = struct.unpack("=III", credentials)[0]
        self.metadata = _metadata_of(self.fields)
        self._page_fd = make_memfd("fake-status", 4096)
        self._page = mmap.mmap(self._page_fd, 4096)
        struct.pack_into("=II", self._page, 0, 0x50475450, 1)

    def arm(self, memory_bytes: int = 4 << 20,
            torch: Optional[Tuple[int, int, int]] = None) -> Capture:
        """`torch`: operators, flags and step source, as ArmTorchField has them."""
        capture = Capture(self, self._next_capture, memory_bytes)
        self._next_capture += 1
        body = struct.pack("=QQQQQIIII", capture.number, memory_bytes, min(memory_bytes, 2 << 20), 0, 0,
                           0, 0, 0, 0)
        if torch is not None:
            body += _FIELD.pack(5, 16) + struct.pack("=IIII", *torch, 0)
        self.send(ARM, body, capture.memory.fd)
        self.expect(ARMED)
        return capture

    def marked_steps(self) -> int:
        return struct.unpack_from("=Q", self._page, 64)[0]

    def welcome(self) -> None:
        self.send(WELCOME, struct.pack("=HHIQ", 1, 0, 0, self.pid), self._page_fd)

    def send(self, frame_type: int, body: bytes, fd: Optional[int] = None) -> None:
        rights = [] if fd is None else [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        self._connection.sendmsg([frame(frame_type, body)], rights)

    def try_send(self, frame_type: int, body: bytes) -> None:
        try:
            self.send(frame_type, body)
        except OSError:
            pass

    def expect(self, frame_type: int) -> bytes:
        """The body of the next frame of that type."""
        while True:
            try:
                got, body = self._frames.get(timeout=DEADLINE_S)
            except queue.Empty:
                raise AssertionError("no frame of type %d from %d" % (frame_type, self.pid))
            assert got is not None, "target %d went away" % self.pid
            if got == frame_type:
                return body
            assert got != ARM_FAILED, "target %d could not be armed" % self.pid

    def wait_metadata(self, key: str) -> str:
        while key not in self.metadata:
            self.metadata.update(_metadata_of(_parse_fields(self.expect(METADATA))))
        return self.metadata[key]

    def receive_until_gone(self) -> None:
        """Queues what the target says; runs on the connection's own thread."""
        while True:
            received = _receive(self._connection)
            self._frames.put(received or (None, b""))
            if received is None:
                return

    def hang_up(self) -> None:
        """Ends the connection; its thread notices."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # The target went first.

    def close(self) -> None:
        """Once its thread has ended."""
        self._connection.close()
        self._page.close()
        os.close(self._page_fd)


def _receive(connection: socket.socket) -> Optional[tuple]:
    """(type, body) of the next frame, or None at the end."""
    try:
        packet = connection.recv(16 * 1024)
    except OSError:
        return None
    if not packet:
        return None
    magic, frame_type, _, length, _ = _FRAME.unpack_from(packet)
    assert magic == FRAME_MAGIC and length == len(packet), "damaged frame: %r" % packet[:32]
    return frame_type, packet[_FRAME.size:]


def _parse_fields(data: bytes) -> List[tuple]:
    fields = []
    while data:
        tag, length = _FIELD.unpack_from(data)
        fields.append((tag, data[4:4 + length]))
        data = data[4 + length:]
    return fields


def _metadata_of(fields: List[tuple]) -> Dict[str, str]:
    texts = [value.decode("utf-8", "surrogateescape") for tag, value in fields if tag == 2]
    return dict(text.split("=", 1) for text in texts)


class FakeDaemon:
    """Listens on `socket_dir`/agent/agent.sock and welcomes everyone.

    Threads: one accepts, one per target receives; all end with close().
    """

    def __init__(self, socket_dir: str) -> None:
        os.makedirs(os.path.join(socket_dir, "agent"), exist_ok=True)
        self._arrivals: "queue.Queue[Target]" = queue.Queue()
        self._targets: List[Target] = []
        self._serving: List[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(os.path.join(socket_dir, "agent", "agent.sock"))
        self._listener.listen(64)
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._serving.append(threading.Thread(target=self._serve, args=(connection,)))
            self._serving[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        received = _receive(connection)
        if received is None or received[0] != HELLO:
            connection.close()
            return
        target = Target(connection, received[1])
        self._targets.append(target)
        target.welcome()
        self._arrivals.put(target)
        target.receive_until_gone()

    def wait_target(self, pid: Optional[int] = None) -> Target:
        """The next process to register, or the next with that pid."""
        while True:
            try:
                target = self._arrivals.get(timeout=DEADLINE_S)
            except queue.Empty:
                raise AssertionError("no target came")
            if pid is None or target.pid == pid:
                return target

    def no_arrivals(self) -> bool:
        return self._arrivals.empty()

    def close(self) -> None:
        """Ends every connection, as a daemon that dies does. Idempotent."""
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(DEADLINE_S)
        self._listener.close()
        for target in self._targets:
            target.hang_up()
        for thread in self._serving:
            thread.join(DEADLINE_S)
        for target in self._targets:
            target.close()

    def __enter__(self) -> "FakeDaemon":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
