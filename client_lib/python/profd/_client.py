"""Client, Report and capture(): the daemon's captures, for notebooks and scripts.

    client = profd.Client()
    report = client.trace(41213, steps=5)     # as `profctl trace --pid 41213 --steps 5`
    report.ops(by="input_shape").head(20)

Where pandas is installed every table is a DataFrame, else a list of objects with the same
fields. Times are in ns; those that are moments count from the start of the capture.

Threads: any, but one Report on one thread at a time. Fork: a child makes its own Client.
Errors:  ProfdError for what the daemon refuses; ImportError without gRPC, when a Client is made.
"""

import inspect
import os
import time
import uuid
from collections import namedtuple
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import (TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Tuple, Type,
                    Union)

from profd import _library
from profd._api import Api, ProfdError, make_tls, seconds_of

if TYPE_CHECKING:
    import pandas

_OPERATORS = {"auto": 0, "off": 1, "names": 2, "shapes": 3}
_GPU_MODES = {"auto": 0, "off": 1, "light": 2, "default": 3, "full": 4}
_FORMATS = {"chrome": 1, "chrome.gz": 2, "perfetto": 3}
_GROUPINGS = ("name", "step", "input_shape", "module", "source", "stack", "arguments", "thread")
_TERMINAL = {"COMPLETE", "PARTIAL", "FAILED", "CANCELLED"}
_NOT_ARMED = {"PENDING", "ARMING"}
# How long capture() waits for this process to be known to the daemon.
_REGISTER_WAIT_S = 10.0
# The daemon's own limit.
_LONGEST_S = 3600.0


@dataclass(frozen=True)
class Target:
    """A process that can be captured."""

    pid: int
    command: str
    metadata: Dict[str, str]  # "rank", "world_size", "job", ...: what it says of itself.
    current_step: int  # -1: it has marked none.
    steps_per_second: float  # 0: not known.
    step_source: str  # none, marks, optimizer, profiler, dataloader
    is_capturing: bool


@dataclass(frozen=True)
class MemoryRow:
    """What the blocks of one category took of one device over the window."""

    device: str  # "cpu:0", "cuda:1"
    category: str  # parameter, gradient, optimizer_state, buffer, input, activation, ...
    peak_bytes: int
    byte_seconds: float
    block_count: int


Table = Union["pandas.DataFrame", List[MemoryRow]]
# Of a report that describes its own columns: the rows are named tuples.
DescribedTable = Union["pandas.DataFrame", List[Any]]


class Report:
    """A capture, while it runs and when it is stored; its tables wait for its end.

    From Client.trace(), Client.report(), Client.captures() or capture().
    """

    def __init__(self, api: Api, capture: Any) -> None:
        self._api = api
        self._capture = capture

    @property
    def id(self) -> str:
        """Its ULID; `profctl ops ID` and all other commands take it."""
        return self._capture.name.rpartition("/")[2]

    @property
    def state(self) -> str:
        """As of now: "RECORDING", "COMPLETE", "FAILED", ..."""
        if self._state() not in _TERMINAL:
            self._capture = self._api.call("CaptureService", "GetCapture", name=self._name())
        return self._state()

    @property
    def error(self) -> str:
        """Why it failed, and what to do; empty: it did not."""
        return self._capture.error_message

    @property
    def quality(self) -> str:
        """How far its numbers can be trusted: "A" to "D", "-". As stored when it was sealed."""
        return self._capture.quality

    @property
    def quality_reasons(self) -> List[str]:
        """Why it is not graded "A", in sentences."""
        return [check.sentence for check in self._capture.quality_checks if check.grade != "A"]

    @property
    def slowdown(self) -> Optional[Tuple[float, float]]:
        """How much longer steps took through recording: the bounds of a 95 % interval, as shares
        (0.05 is 5 % longer); None if unknown."""
        slowdown = self._capture.slowdown
        return (slowdown.low, slowdown.high) if slowdown.known else None

    @property
    def step_count(self) -> int:
        """Complete steps that it covers."""
        return self._capture.covered_steps

    @property
    def dropped_event_count(self) -> int:
        """Events that were lost; 0 on a healthy node."""
        return self._capture.dropped_event_count

    @property
    def missing(self) -> Dict[str, str]:
        """What of PyTorch was asked for and is not in it, and why."""
        return {item.feature: item.reason for item in self._capture.torch.missing}

    def wait(self, timeout: Union[float, str, None] = None) -> "Report":
        """Returns when it has ended, however it did. Returns itself.

        Raises TimeoutError after `timeout`, seconds or a text such as "90s"; the capture goes on.
        """
        self._watch(_TERMINAL, None if timeout is None else seconds_of(timeout))
        return self

    def stop(self) -> "Report":
        """Ends it now, as CANCELLED, and waits; what was recorded is kept. Returns itself."""
        if self._state() not in _TERMINAL:
            self._capture = self._api.call("CaptureService", "CancelCapture", name=self._name())
        return self.wait()

    def ops(self, by: str = "name", *, step: Optional[int] = None,
            limit: int = 0) -> "DescribedTable":
        """The operator table, most self time first: of the GPU, where there is one.

        by      "name", or a row for each name and "step", "input_shape", "module", "source",
                "stack" ("stack:3": of three lines), "thread", or "arguments": those of the
                annotate() around it ("arguments:batch": only that one).
        step    only what begins inside this step.
        limit   rows; 0: all.
        """
        if by.partition(":")[0] not in _GROUPINGS:
            raise ValueError("by must be one of %s, not %r" % (", ".join(_GROUPINGS), by))
        only = {} if step is None else {"step": step}
        return self.table("ops", group_by=by, limit=limit, **only)

    def table(self, report: str, part: str = "", **options: Any) -> "DescribedTable":
        """A report by its name, with the columns of `profctl REPORT ID --json`; "findings" and
        "memory" have tables of their own.

        report   "findings" (of `profctl report`), "ops", "modules", "steps", "memory", "time",
                 "kernels", "copies", "syncs", "idle", "compile", "collectives".
        part     which of its tables: "streams" of "idle", "graph_breaks" of "compile"; default:
                 its first.
        options  "sort", "limit", and the report's own: step=120.

        What is not known is None. `profctl explain --table REPORT` says what the columns mean.
        """
        answer = self._answer(report, **options)
        found = [table for table in answer.tables if table.key == (part or answer.tables[0].key)]
        if not found:
            raise ValueError("part must be one of %s, not %r" %
                             (", ".join(table.key for table in answer.tables), part))
        return _described(report, found[0])

    def steps(self) -> "DescribedTable":
        """Every step and how long it took."""
        return self.table("steps")

    def kernels(self, *, step: Optional[int] = None, limit: int = 0) -> "DescribedTable":
        """GPU kernels, most time first. Empty without a GPU."""
        only = {} if step is None else {"step": step}
        return self.table("kernels", limit=limit, **only)

    def memory(self) -> "Table":
        """Memory by device and category. Raises ProfdError, reason NO_MEMORY, without any."""
        answer = self._answer("memory", max_points=4)
        tables = {table.key: table for table in answer.tables}
        if not tables["devices"].row_count:
            raise ProfdError("FAILED_PRECONDITION", "capture %s recorded no memory; record it with "
                             "profd.capture(memory=True) or `profctl trace --with memory`" %
                             self.id, "NO_MEMORY")
        uses = tables["categories"]
        cells = {column.key: _cells(column, values)
                 for column, values in zip(uses.columns, uses.cells)}
        return _frame(MemoryRow, [MemoryRow(*row) for row in zip(
            cells["device"], cells["name"], cells["peak_bytes"], cells["byte_seconds"],
            cells["block_count"])])

    def export(self, path: Union[str, "os.PathLike[str]"], format: Optional[str] = None) -> None:
        """Writes a trace file: "chrome" (JSON), "chrome.gz" or "perfetto".

        Without `format` the path says: ".gz" and ".json" are Chrome's, all else is Perfetto's.
        """
        name = os.fspath(path)
        if format is None:
            format = ("chrome.gz" if name.endswith(".gz") else
                      "chrome" if name.endswith(".json") else "perfetto")
        if format not in _FORMATS:
            raise ValueError("format must be one of %s, not %r" % (", ".join(_FORMATS), format))
        self.wait()
        with open(name, "wb") as file:
            for piece in self._api.stream("ExportService", "ExportTrace", capture=self._name(),
                                          format=_FORMATS[format]):
                file.write(piece.data)

    def delete(self) -> None:
        """Removes what it recorded from the daemon's disk."""
        self._api.call("CaptureService", "DeleteCapture", name=self._name())

    def __enter__(self) -> "Report":
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        """Ends it, if it has not ended."""
        self.stop()

    def __repr__(self) -> str:
        return "<profd.Report %s %s, %d steps>" % (self.id, self._state(), self.step_count)

    def _name(self) -> str:
        return self._capture.name

    def _state(self) -> str:
        states = self._capture.DESCRIPTOR.enum_types_by_name["State"].values_by_number
        known = states.get(self._capture.state)
        return known.name if known is not None else str(self._capture.state)

    def _answer(self, report: str, **options: Any) -> Any:
        self.wait()
        return self._api.call("ReportService", "GetReport", capture=self._name(), report=report,
                              options={name: str(value) for name, value in options.items()})

    def _watch(self, until: Iterable[str], timeout_s: Optional[float] = None) -> None:
        if self._state() in until:
            return
        watch = self._api.stream("CaptureService", "WatchCapture", timeout_s, name=self._name())
        try:
            for self._capture in watch:
                if self._state() in until:
                    return
        except ProfdError as error:
            if timeout_s is None or error.code != "DEADLINE_EXCEEDED":
                raise
            raise TimeoutError("capture %s has not ended within %g s: it is %s" %
                               (self.id, timeout_s, self._state())) from None
        finally:
            watch.close()

    def _wait_armed(self) -> None:
        self._watch(set(self._capture.DESCRIPTOR.enum_types_by_name["State"].values_by_name) -
                    _NOT_ARMED)

    def _raise_if_failed(self) -> None:
        if self._state() == "FAILED":
            raise ProfdError("FAILED_PRECONDITION", self.error, self._capture.error_reason)


class Client:
    """The daemon of this machine, or of another.

    address    "unix:PATH", a path or "HOST:PORT"; default: as profctl finds it (PROFD_ADDRESS,
               PROFD_SOCKET_DIR, /run/profd, $XDG_RUNTIME_DIR/profd).
    timeout_s  for each call but those that wait for a capture.
    tls_ca, tls_cert, tls_key   PEM files, for a daemon of another machine: who signs the
               daemons' certificates, ours and its key; default: PROFD_TLS_CA, PROFD_TLS_CERT,
               PROFD_TLS_KEY.
    tls_server_name   in the daemon's certificate, where it is not the host of the address.

    >>> client = profd.Client()
    >>> [target.pid for target in client.targets()] == [pid]
    True
    >>> report = client.trace(pid, steps=3)
    >>> report.state, report.step_count, len(report.steps())
    ('COMPLETE', 3, 3)
    >>> "forward" in list(report.ops(by="step", limit=100)["name"])
    True
    >>> client.captures(limit=1)[0].id == report.id
    True
    >>> client.report(report.id[:10])
    <profd.Report ... COMPLETE, 3 steps>

    What cannot be done says why, and has a reason to branch on:

    >>> client.trace(999999999, steps=3)
    Traceback (most recent call last):
    ...
    profd.ProfdError: ...
    """

    def __init__(self, address: Optional[str] = None, *, timeout_s: float = 30.0,
                 tls_ca: Optional[str] = None, tls_cert: Optional[str] = None,
                 tls_key: Optional[str] = None, tls_server_name: Optional[str] = None) -> None:
        self._api = Api(address, timeout_s,
                        make_tls(tls_ca, tls_cert, tls_key, tls_server_name))

    def targets(self) -> List[Target]:
        """The processes that can be captured, by pid; of this user, or all if it is root."""
        return [_target(message) for message in self._pages("TargetService", "ListTargets",
                                                            "targets")]

    def captures(self, limit: int = 100) -> List[Report]:
        """Stored and live captures, newest first."""
        pages = self._pages("CaptureService", "ListCaptures", "captures", limit)
        return [Report(self._api, capture) for capture in pages]

    def report(self, id: str) -> Report:
        """A capture by its id, or by the beginning of it where that is unique."""
        return Report(self._api, self._api.call("CaptureService", "GetCapture",
                                                name="captures/" + id))

    def trace(self, pid: Optional[int] = None, *, steps: Optional[int] = None,
              duration: Union[float, str, None] = None, **options: Any) -> Report:
        """Captures a process and waits for the end, as `profctl trace`.

        pid       the process, or a launcher above it; None: the only target there is.
        steps     complete steps; or `duration`, seconds or a text such as "500ms" or "2m".
        options   as for capture().

        Raises ProfdError if it could not be begun, or failed. When interrupted, so is the capture.
        """
        report = self._start([] if pid is None else [pid], steps, duration, options)
        try:
            report.wait()
        except BaseException:
            report.stop()
            raise
        report._raise_if_failed()
        return report

    def close(self) -> None:
        """Ends the connection; its Reports are of no more use."""
        self._api.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self.close()

    def _start(self, pids: List[int], steps: Optional[int], duration: Union[float, str, None],
               options: Mapping[str, Any]) -> Report:
        _check_options(options)
        spec = _spec(self._api, steps, duration, **options)
        targets = self._api.call("TargetService", "ResolveTargets", pids=pids).targets
        if len(targets) != 1:
            raise ProfdError("FAILED_PRECONDITION", "there are %d targets below %s; name one: %s" %
                             (len(targets), pids or "this user",
                              ", ".join(str(target.pid) for target in targets[:10])))
        capture = self._api.call("CaptureService", "CreateCapture", target=targets[0].name,
                                 spec=spec, request_id=str(uuid.uuid4()))
        return Report(self._api, capture)

    def _pages(self, service: str, method: str, field: str, limit: int = 1 << 30) -> List[Any]:
        items: List[Any] = []
        token = ""
        while len(items) < limit:
            answer = self._api.call(service, method, page_token=token,
                                    page_size=min(1000, limit - len(items)))
            items += getattr(answer, field)
            token = answer.next_page_token
            if not token:
                break
        return items


def capture(*, steps: Optional[int] = None, duration: Union[float, str, None] = None,
            **options: Any) -> Report:
    """Begins a capture of this very process and returns at once when it is armed.

    steps       complete steps from the next on; the loop goes on marking them (PyTorch's
                optimizers do).
    duration    seconds, or a text such as "500ms", from now on. With neither: until Report.stop(),
                at most an hour.
    ops         what of PyTorch's operators: "auto", "off", "names", "shapes".
    memory, strides   also events of torch's allocators; also strides of inputs.
    stacks, modules   also the Python lines that called each operator; also the torch.nn.Module
                that it ran in.
    gpu         "auto", "off", "light", "default", "full".
    warmup      steps recorded and thrown away first; default 1.
    step_marker, step_source   what a step is, where it is not what the process says: the name
                of a range, or "optimizer", "dataloader", "profiler",
                "periodicity", "marks".
    name, labels   to find it again.

    The Report's tables wait for the end, so ask for them after the loop:

    >>> report = profd.capture(steps=3)
    >>> for step in range(8):
    ...     train()
    >>> len(report.steps())
    3
    >>> with profd.capture() as report:     # what is done inside, without steps
    ...     train()
    >>> "forward" in list(report.ops()["name"])
    True

    Raises ProfdError, reason NO_STEPS, for `steps` where no step was marked yet.
    """
    if not _library.init():
        raise ProfdError("FAILED_PRECONDITION", "libprofd_client.so is off or was not found; "
                         "PROFD_CLIENT_LIB can name it")
    client = Client()
    _wait_connected()
    if steps is None and duration is None:
        duration = _LONGEST_S
        options = dict(options, timeout=2 * _LONGEST_S)
    report = client._start([os.getpid()], steps, duration, options)
    report._wait_armed()
    report._raise_if_failed()
    return report


def _wait_connected() -> None:
    deadline = time.monotonic() + _REGISTER_WAIT_S
    while not _library.status().connected:
        if time.monotonic() > deadline:
            raise ProfdError("UNAVAILABLE", "this process could not register: no daemon of "
                             "root's or of this user's answers; is profd running?")
        time.sleep(0.001)


def _check_options(options: Mapping[str, Any]) -> None:
    valid = [name for name, parameter in inspect.signature(_spec).parameters.items()
             if parameter.kind == parameter.KEYWORD_ONLY]
    wrong = [name for name in options if name not in valid]
    if wrong:
        raise TypeError("unknown option %r; valid: steps, duration, %s" %
                        (wrong[0], ", ".join(valid)))


def _spec(api: Api, steps: Optional[int], duration: Union[float, str, None], *, ops: str = "auto",
          memory: bool = False, strides: bool = False, stacks: bool = False,
          modules: bool = False, gpu: str = "auto",
          warmup: Optional[int] = None, step_marker: str = "", step_source: str = "",
          name: str = "", labels: Optional[Mapping[str, str]] = None,
          timeout: Union[float, str, None] = None) -> Any:
    if (steps is None) == (duration is None):
        raise ValueError("say either steps or duration")
    given: Dict[str, Any] = {}
    if steps is not None:
        given["steps"] = steps
        if warmup is not None:
            given["warmup_steps"] = warmup
    if duration is not None:
        given["duration"] = api.duration(duration)
    if timeout is not None:
        given["timeout"] = api.duration(timeout)
    return api.message(
        "CaptureSpec", display_name=name, labels=dict(labels or {}), step_marker=step_marker,
        torch=api.message("TorchSpec", operators=_choice("ops", ops, _OPERATORS), memory=memory,
                          strides=strides, stacks=stacks, modules=modules,
                          step_source=step_source),
        gpu=api.message("GpuSpec", mode=_choice("gpu", gpu, _GPU_MODES)), **given)


def _choice(what: str, value: str, choices: Mapping[str, int]) -> int:
    if value not in choices:
        raise ValueError("%s must be one of %s, not %r" % (what, ", ".join(choices), value))
    return choices[value]


def _target(message: Any) -> Target:
    return Target(message.pid, message.command, dict(message.metadata), message.current_step,
                  message.steps_per_second, message.step_source or "none", message.state == 2)


def _frame(kind: Type[MemoryRow], rows: List[MemoryRow]) -> "Table":
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows, columns=[field.name for field in fields(kind)])


def _cells(column: Any, cells: Any) -> List[Any]:
    """The cells of one column, by row, as reports.proto encodes them."""
    types = column.DESCRIPTOR.enum_types_by_name["Type"].values_by_number
    kind = types[column.type].name if column.type in types else ""
    values: List[Any]
    if kind == "INT":
        # Differences modulo 2^64.
        values = [(value + (1 << 63)) % (1 << 64) - (1 << 63)
                  for value in accumulate(cells.int_deltas)]
    elif kind == "REAL":
        values = list(cells.reals)
    elif kind == "BOOL":
        values = list(cells.bools)
    elif kind == "TEXT":
        words = [word.decode("utf-8", "replace") for word in cells.words]
        values = [words[text] for text in cells.texts]
    elif kind == "SIZES":
        values = [tuple(cells.sizes[i:i + 3]) for i in range(0, len(cells.sizes), 3)]
    else:
        raise ProfdError("UNIMPLEMENTED", "the column %s has a type that this version of profd's "
                         "Python package does not know" % column.key)
    if column.nullable:
        values = [None if value < 0 else value for value in values]
    return values


def _described(report: str, table: Any) -> "DescribedTable":
    names = [column.key for column in table.columns]
    cells = [_cells(column, cells) for column, cells in zip(table.columns, table.cells)]
    try:
        import pandas
    except ImportError:
        row = namedtuple(report, names)  # type: ignore[misc]
        return [row(*values) for values in zip(*cells)]
    return pandas.DataFrame(dict(zip(names, cells)), columns=names)
