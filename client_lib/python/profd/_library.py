"""Finds libprofd_client.so, binds its functions, and stands in for it where it is missing.

The rest of the package takes from here: `flag` (flag[0] is 0 while nothing records), the C
functions in `lib`, `range_open`, `range_open_with` and `range_close`, `annotate_function`,
`intern_name`, and `namer`. Without a library `flag` is (0,) for good, so nothing that asks it
first reaches `lib`.
"""

import ctypes
import importlib.util
import operator
import os
import re
import sys
import threading
import warnings
from typing import Any, Dict, NamedTuple, Optional, Sequence, Union

_LIBRARY_NAME = "libprofd_client.so"
PACKAGE_DIR = os.path.dirname(os.path.abspath(__file__))
_LOG_LEVELS = {"error": 1, "warning": 2, "info": 3, "debug": 4}

# Compiled at its first use: a job starts without it.
_METADATA_KEY = r"[a-z][a-z0-9_.]{0,62}\Z"
_MAX_METADATA_VALUE_BYTES = 255
_MAX_THREAD_NAME_BYTES = 63

# profd_result in profd.h.
_OK = 0


class MemoryEvent(ctypes.Structure):
    """profd_memory_event."""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_int64),
        ("total_allocated_bytes", ctypes.c_int64),
        ("total_reserved_bytes", ctypes.c_int64),
        ("device_type", ctypes.c_uint16),
        ("device_index", ctypes.c_int16),
        ("category", ctypes.c_uint16),
        ("reserved", ctypes.c_uint16),
    ]


class _StatusStruct(ctypes.Structure):
    """profd_status."""

    _fields_ = [
        ("size_bytes", ctypes.c_uint32),
        ("connected", ctypes.c_uint32),
        ("recording", ctypes.c_uint32),
        ("disabled", ctypes.c_uint32),
        ("step_count", ctypes.c_uint64),
        ("dropped_event_count", ctypes.c_uint64),
        ("capture_count", ctypes.c_uint64),
    ]


class RangeHandle(ctypes.c_uint64):
    """What profd_range_open_id() returns through ctypes. As a class of its own it stays what it is:
    turning it into an int and back would take as long as the call."""


_PROTOTYPES = {
    "profd_init": (ctypes.c_int, []),
    "profd_set_metadata": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p]),
    "profd_step": (None, []),
    "profd_step_count": (ctypes.c_uint64, []),
    "profd_intern": (ctypes.c_uint32, [ctypes.c_char_p, ctypes.c_size_t]),
    # Its argument is always an id of ours, which fits an int: undeclared, as the check of a
    # declared type makes the call twice as long.
    "profd_range_open_id": (RangeHandle, None),
    "profd_range_close": (None, None),  # Its argument is always such a handle.
    "profd_instant_id": (None, [ctypes.c_uint32]),
    "profd_counter_id": (None, [ctypes.c_uint32, ctypes.c_double]),
    "profd_alloc": (None, [ctypes.POINTER(MemoryEvent)]),
    "profd_free": (None, [ctypes.POINTER(MemoryEvent)]),
    "profd_thread_name": (None, [ctypes.c_char_p]),
    "profd_version": (ctypes.c_char_p, []),
    "profd_get_status": (ctypes.c_int, [ctypes.POINTER(_StatusStruct)]),
    "profd_recording_flag": (ctypes.c_void_p, []),
}


def log(level: str, text: str) -> None:
    wanted = _LOG_LEVELS.get(os.environ.get("PROFD_LOG", "").lower(), 0)
    if _LOG_LEVELS[level] <= wanted:
        warnings.warn("profd: " + text, RuntimeWarning, stacklevel=2)


def candidates() -> Sequence[str]:
    explicit = os.environ.get("PROFD_CLIENT_LIB")
    if explicit:
        return [explicit]
    checkout = os.path.dirname(os.path.dirname(os.path.dirname(PACKAGE_DIR)))
    built = os.path.join(checkout, "build", "release", "lib", _LIBRARY_NAME)
    beside = os.path.join(PACKAGE_DIR, _LIBRARY_NAME)
    return [path for path in (beside, built) if os.path.exists(path)] + [_LIBRARY_NAME]


def _load() -> Optional[ctypes.PyDLL]:
    if os.environ.get("PROFD_DISABLE", "") not in ("", "0"):
        return None
    problems = []
    for path in candidates():
        try:
            # PyDLL, not CDLL: to drop the GIL and take it back can cost milliseconds.
            library = ctypes.PyDLL(path)
            for name, (result, arguments) in _PROTOTYPES.items():
                function = getattr(library, name)
                function.restype = result
                if arguments is not None:
                    function.argtypes = arguments
            return library
        except (OSError, AttributeError) as error:
            problems.append(str(error))
    log("warning", "nothing will be recorded: %s could not be loaded (%s); "
         "set PROFD_CLIENT_LIB to its path" % (_LIBRARY_NAME, "; ".join(problems)))
    return None


def _view_flag(library: Optional[ctypes.PyDLL]) -> Sequence[int]:
    if library is None:
        return (0,)
    # A memoryview is the quickest way from Python to a word of memory (20 ns). The word
    # is the library's for the life of the process.
    word = (ctypes.c_uint32 * 1).from_address(library.profd_recording_flag())
    return memoryview(word).cast("B").cast("I")


def _range_function(which: int, name: str) -> Any:
    """The C function `name`, as a function of Python's own where this Python can have one.

    A call of that takes a quarter of one through ctypes.
    """
    try:
        make = lib.profd_python_range_function
    except AttributeError:  # An older library.
        return getattr(lib, name)
    make.restype, make.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_uint32]
    return _object_at(make(None, which)) or getattr(lib, name)


def _object_at(address: Optional[int]) -> Any:
    """The object that a C function made, for good. None: it made none, as this is not CPython.

    As a result of the type py_object, null makes ctypes crash.
    """
    return address and ctypes.cast(address, ctypes.py_object).value


def _open_with_function() -> Any:
    """profd_range_open_with(), as range_close() takes what it returns."""
    if not hasattr(lib, "profd_range_open_with"):
        return lambda name_id, *_: range_open(name_id)  # A library that knows no arguments.
    function = _range_function(2, "profd_range_open_with")
    if function is not lib.profd_range_open_with:
        return function
    function.restype = RangeHandle
    return lambda name_id, inputs, *counts: function(name_id, inputs, len(inputs), *counts)


def annotate_function(ranges: dict, any_call: Any, block: type) -> Any:
    """annotate() as client_lib/core/python_calls.h has it; `any_call` where this Python cannot."""
    # The function borrows from `ranges`, which without the GIL another thread may empty.
    is_locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    if lib is None or not is_locked:
        return any_call
    try:
        make = lib.profd_python_annotate
    except AttributeError:  # An older library.
        return any_call
    make.restype, make.argtypes = ctypes.c_void_p, [ctypes.py_object] * 2 + [ctypes.c_char_p]
    parts = (ranges, any_call, block, sys.intern("_shared"), sys.intern("_opened"), None)
    about = "annotate(name, /, **arguments)\n--\n\n%s" % (any_call.__doc__ or "")  # -OO: none.
    # None also where this package is loaded once more, as in another interpreter.
    return _object_at(make(parts, any_call.__module__, about.encode())) or any_call


lib: Any = _load()
flag = _view_flag(lib)
# Handles are ints, or RangeHandles of ctypes: for range_close() only.
range_open: Any = None if lib is None else _range_function(0, "profd_range_open_id")
range_close: Any = None if lib is None else _range_function(1, "profd_range_close")
range_open_with: Any = None if lib is None else _open_with_function()


def require_name(name: object, what: str) -> None:
    """TypeError unless `name` is a str."""
    if not isinstance(name, str):
        raise TypeError("%s must be a str, not %s" % (what, type(name).__name__))


def intern_name(name: str) -> int:
    """The library's id of `name`. Only while `lib` is there."""
    # Lone surrogates pass as the bytes they stand for: a name must not raise.
    text = name.encode("utf-8", "surrogatepass")
    return lib.profd_intern(text, len(text))


def _encode_cut(text: str, limit_bytes: int) -> bytes:
    encoded = text.encode("utf-8", "replace")[:limit_bytes]
    return encoded.decode("utf-8", "ignore").encode("utf-8")


class _ThreadNamer(threading.local):
    """Tells the library the name of each Python thread, once.

    Reading `named` runs __init__ the first time a thread does it, and costs 20 ns from
    then on. Nothing is said of the main thread, whose name is the program's.
    """

    named = True

    def __init__(self) -> None:
        # threading.current_thread() would register foreign threads for good, and
        # threading.enumerate() takes a lock that this thread may already hold.
        thread = getattr(threading, "_active", {}).get(threading.get_ident())
        if lib is None or thread is None or thread is threading.main_thread():
            return
        lib.profd_thread_name(_encode_cut(thread.name, _MAX_THREAD_NAME_BYTES))


namer = _ThreadNamer()


class Status(NamedTuple):
    """What the library knows about itself."""

    connected: bool  # Registered with a daemon now.
    recording: bool  # Events are being kept now.
    disabled: bool  # Off for good in this process: PROFD_DISABLE, no library, or no set-up.
    step_count: int  # As step_count().
    dropped_event_count: int  # Events lost in all captures of this process.
    capture_count: int  # Captures armed so far.


def init() -> bool:
    """Connects this process to the daemon, in the background. Idempotent.

    Returns at once: False if the library is missing or disabled, else True, also when
    no daemon runs (the library then keeps trying). A process that never calls it is not
    a target, unless it calls step(), which implies it. PyTorch, imported before or after,
    is recorded from then on, as it is below `profctl run`.
    """
    if lib is None or lib.profd_init() != _OK:
        return False
    _watch_for_torch()
    return True


def _watch_for_torch() -> None:
    """What a process that was started without the hook in _inject/ has missed of it."""
    try:
        torch = sys.modules.get("torch")
        if torch is None:
            _install_torch_hook()
        elif not getattr(torch.__spec__, "_initializing", False):
            from profd import _torch
            _torch.attach(torch)
    except Exception as error:
        log("warning", "PyTorch is not recorded: %r" % error)


def _install_torch_hook() -> None:
    name = "_profd_hook"
    if name not in sys.modules:
        spec: Any = importlib.util.spec_from_file_location(
            name, os.path.join(PACKAGE_DIR, "_inject", name + ".py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    sys.modules[name].install()


class _StepTask(NamedTuple):
    """The asyncio task of a thread whose marks are steps."""

    task: Any  # A weak reference.
    other: Any = None  # Likewise: the last other task that marked.
    other_marks: int = 0  # Its marks in a row.


# So many marks of another task in a row, and its marks are the steps: the one before marked a warm-up,
# and waits for it.
_MARKS_OF_ANOTHER_TASK = 20
_step_tasks: Dict[int, _StepTask] = {}  # By thread.


def _is_other_task(asyncio: Any) -> bool:
    """Whether the steps are those of another task of the event loop that runs on this thread."""
    try:
        loop = asyncio._get_running_loop()
        if loop is None:
            return False
        import weakref  # asyncio has imported it.
        task = asyncio.current_task(loop)  # None in callbacks of the loop.
        thread = threading.get_ident()
        known = _step_tasks.get(thread)
        step_task = None if known is None else known.task()
        if step_task is not None and step_task is not task:
            if not step_task.done() and step_task.get_loop() is loop:
                if task is None:
                    return True
                is_same = known.other is not None and known.other() is task
                marks = known.other_marks + 1 if is_same else 1
                if marks < _MARKS_OF_ANOTHER_TASK:
                    _step_tasks[thread] = _StepTask(known.task, weakref.ref(task), marks)
                    return True
        if task is not None and (task is not step_task or known.other_marks > 0):
            _step_tasks[thread] = _StepTask(weakref.ref(task))
    except Exception as error:  # Of an event loop with tasks of its own.
        log("debug", "asyncio tasks are not told apart: %r" % error)
    return False


def step() -> None:
    """Marks the start of the next training step.

    Call it once per step on the thread that drives training: the first thread that
    calls it (marks on others are counted and move nothing). Steps count from 0 at the
    first call; captures start and end exactly at marks.

    Among asyncio tasks, the first that calls it drives training until it has ended, or until another
    has called it 20 times in a row: marks of the others are counted and move nothing, too.
    """
    if lib is not None:
        asyncio = sys.modules.get("asyncio")
        is_other = asyncio is not None and _is_other_task(asyncio)
        if is_other and hasattr(lib, "profd_step_of_other_task"):
            lib.profd_step_of_other_task()
        else:
            lib.profd_step()


def step_count() -> int:
    """The number of steps of the process's present source of steps.

    It begins anew when a better source takes over: step() after steps of PyTorch, or an optimizer
    after batches.
    """
    return 0 if lib is None else lib.profd_step_count()


def set_metadata(key: str, value: Union[str, int]) -> bool:
    """Tells the daemon something about this process: for display and grouping only.

    `key` is "job", "rank", "world_size" or another name of [a-z][a-z0-9_.]*, at most 63
    characters; `value` is a str of at most 255 bytes of UTF-8 without NUL, or an int.
    RANK, LOCAL_RANK, WORLD_SIZE, SLURM_JOB_ID and SLURM_PROCID are read from the
    environment without being asked.

    Returns False if it was not kept: 32 keys are set already, or the library is off.
    Raises ValueError for a key or value outside these bounds, TypeError for other types.
    """
    require_name(key, "metadata key")
    if not isinstance(value, str):
        value = str(operator.index(value))
    if not re.match(_METADATA_KEY, key):
        raise ValueError("metadata key %r does not match [a-z][a-z0-9_.]{0,62}" % key)
    encoded = value.encode("utf-8", "surrogatepass")
    if len(encoded) > _MAX_METADATA_VALUE_BYTES or b"\0" in encoded:
        raise ValueError("metadata value of %r is over %d bytes of UTF-8, or has a NUL" %
                         (key, _MAX_METADATA_VALUE_BYTES))
    return lib is not None and lib.profd_set_metadata(key.encode("ascii"), encoded) == _OK


def thread_name(name: str) -> None:
    """Names the calling thread in reports; at most 63 bytes of UTF-8, the rest is cut.

    Threads started with `threading` need no call: the name they have at their first
    event is taken. Raises ValueError for a name with a NUL.
    """
    require_name(name, "thread name")
    if "\0" in name:
        raise ValueError("thread name has a NUL")
    if lib is not None:
        namer.named  # So that the thread's own name does not replace this one later.
        lib.profd_thread_name(_encode_cut(name, _MAX_THREAD_NAME_BYTES))


def is_recording() -> bool:
    """Whether events are being kept now: for guarding what is costly to compute."""
    return flag[0] != 0 and status().recording


def status() -> Status:
    """What the library knows about itself; for diagnosis and tests."""
    if lib is None:
        return Status(False, False, True, 0, 0, 0)
    raw = _StatusStruct(size_bytes=ctypes.sizeof(_StatusStruct))
    lib.profd_get_status(ctypes.byref(raw))
    return Status(bool(raw.connected), bool(raw.recording), bool(raw.disabled), raw.step_count,
                  raw.dropped_event_count, raw.capture_count)


def library_version() -> Optional[str]:
    """The version of libprofd_client.so, or None if it is not loaded."""
    return None if lib is None else lib.profd_version().decode("ascii", "replace")
