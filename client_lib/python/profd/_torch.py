"""Attaches the library to torch, and answers what only Python knows of a job.

attach() runs once, when `import torch` is done (see _inject/_profd_hook.py). The library then finds
torch's symbols and proves what its objects look like; we give it tensors to look at. What it
records from then on needs no Python: it asks for five things only, and a thread of ours, which
sleeps without the GIL, answers: who owns which memory (_torch_blocks), what modules are called
(_torch_modules), what torch.compile did (_torch_compile), what frameworks on top call the step
(_torch_labels), and, of loops that seem to have several optimizers of one class, how many there are
(_torch_optimizers, which also numbers those that torch's hooks tell of). It answers as long as the
interpreter lives (_answering).

Threads: attach() on the thread that imports torch. The answers are given on our own thread, which
    is no threading.Thread: the program's thread counts and its shutdown know nothing of it.
Errors:  none leaves this module; PROFD_LOG=warning shows them.
Fork:    a child gets a thread of its own, but for workers of a DataLoader.
"""

import atexit
import ctypes
import os
import signal
import sys
import time
from _thread import start_new_thread
from types import FrameType
from typing import Any, Callable, Optional

from profd import _answering, _library, _torch_optimizers, _torch_profilers
from profd._objects import NotLooked

# wire::TorchFeature in proto/wire/event.h.
FEATURE_BLOCKS = 1 << 16
FEATURE_COMPILE = 1 << 17
FEATURE_STACKS = 1 << 18
FEATURE_MODULE_PATHS = 1 << 20

# torch_api.h.
_QUIT, _ARMED, _COLLECT, _IDLE, _COUNT = 0, 1, 2, 3, 4
_NOTE_MISSING = 6
_NOTE_STEP_LABEL = 5
_NOTE_GENERATED_CODE = 8

_SOURCES = "source lines of compiled code"

# Programs that import torch and only start others: what they start are the targets.
_LAUNCHERS = {
    "torchrun", "torch.distributed.run", "torch.distributed.launch",
    "accelerate", "accelerate.commands.launch", "accelerate.commands.accelerate_cli",
    "deepspeed", "deepspeed.launcher.runner", "deepspeed.launcher.launch",
}
# How often a child that multiprocessing is still putting together is looked at.
_SPAWN_POLL_S = 0.02


class _Probe(ctypes.Structure):
    """profd_torch_probe."""

    _fields_ = [
        ("size_bytes", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("float_tensor", ctypes.c_void_p),
        ("long_tensor", ctypes.c_void_p),
        ("deep_tensor", ctypes.c_void_p),
        ("float_data", ctypes.c_void_p),
        ("long_data", ctypes.c_void_p),
        ("deep_data", ctypes.c_void_p),
    ]


_PROTOTYPES = {
    "profd_torch_attach": (ctypes.c_uint32, [ctypes.c_char_p]),
    "profd_torch_probe_begin": (ctypes.c_int, [ctypes.POINTER(_Probe)]),
    "profd_torch_probe_end": (ctypes.c_uint32, []),
    "profd_torch_leave": (None, []),
    "profd_torch_features": (ctypes.c_uint32, []),
    "profd_torch_block": (None, [
        ctypes.c_uint64, ctypes.c_int64, ctypes.c_uint16, ctypes.c_int16, ctypes.c_uint16,
        ctypes.c_char_p]),
    "profd_torch_note": (None, [
        ctypes.c_uint16, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64]),
    "profd_torch_compiling": (None, [ctypes.c_int]),
    "profd_torch_optimizers": (None, [ctypes.c_char_p, ctypes.c_uint32]),
    "profd_torch_optimizer_hook": (None, [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]),
    "profd_torch_module": (None, [
        ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_char_p]),
    "profd_torch_done": (None, []),
}

# The library with the functions above, and those of them that give up the GIL.
_lib: Any = None
_wait: Any = None
_profiler: Any = None
# None: this torch has no hooks there.
_step_ends: Optional[_torch_optimizers.StepEnds] = None


def attach(torch: Any) -> int:
    """Attaches to `torch`, which was imported just now. Idempotent.

    Returns the wire::TorchFeature that work; 0: none, and PROFD_LOG=warning says why.
    """
    global _step_ends
    attached: Any = _lib
    if attached is not None:
        return attached.profd_torch_features()
    problem = _reason_against(torch)
    if problem is None:
        problem = _bind()
    if problem is None and _lib.profd_torch_attach(str(torch.__version__).encode()) == 0:
        problem = "the library does not know this torch"
    if problem is not None:
        _library.log("warning", "PyTorch is not recorded: " + problem)
        return 0
    features = _probe(torch)
    _step_ends = _hook_optimizers(torch, _lib.profd_torch_optimizer_hook)
    if _torch_profilers.hook(_profiler):
        _profiler(0)  # From now on, those that use CUPTI are reported.
    atexit.register(_leave)
    os.register_at_fork(after_in_child=_after_fork_in_child)
    is_spawning = _is_spawning()
    if not is_spawning and not _is_launcher():
        _lib.profd_init()
    _start_serving(is_spawning)
    return features


def _start_serving(is_spawning: bool) -> None:
    """Starts the package's thread, in which no signal of the program is handled.

    A program may block a signal in all its threads, and look for it with sigpending() or signalfd:
    the kernel would give the signal to a thread that does not block it, and end the program.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        start_new_thread(_serve, (is_spawning,))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _reason_against(torch: Any) -> Optional[str]:
    if os.environ.get("PROFD_TORCH", "") == "0":
        return "PROFD_TORCH=0"
    if not hasattr(torch, "_C") or not hasattr(torch, "__version__"):
        return "what was imported as torch has no torch._C"
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = api.PyInterpreterState_Main.restype = ctypes.c_void_p
    if api.PyInterpreterState_Get() != api.PyInterpreterState_Main():
        return "it was imported in a sub-interpreter, which has not been tested"
    if _library.lib is None:
        return "libprofd_client.so is off or was not found"
    return None


def _bind() -> Optional[str]:
    """Sets _lib, _wait, and _profiler; what is wrong otherwise."""
    global _lib, _wait, _profiler
    library: Any = _library.lib
    try:
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
        # CDLL drops the GIL for the time of a call. It is the same library: the loader's handle.
        unlocked = ctypes.CDLL(library._name, handle=library._handle)
        wait = unlocked.profd_torch_wait
        wait.restype = ctypes.c_int
        wait.argtypes = [ctypes.POINTER(ctypes.c_uint32)]
        profiler = unlocked.profd_torch_profiler
        profiler.restype = None
        profiler.argtypes = [ctypes.c_int]
    except AttributeError as error:
        return "the library is too old for this package (%s)" % error
    _lib, _wait, _profiler = library, wait, profiler
    return None


def _probe(torch: Any) -> int:
    """Shows the library tensors it can tell by their sizes. Returns the features that work."""
    def make(*sizes, dtype):
        return torch.empty(sizes, dtype=dtype, device="cpu")

    floats = make(1237, 3, 5, dtype=torch.float32)
    longs = make(1237, 3, 5, dtype=torch.int64)
    deep = make(3, 5, 1237, 1, 2, 1, 1, dtype=torch.float32)
    probe = _Probe(
        size_bytes=ctypes.sizeof(_Probe),
        float_tensor=floats._cdata, long_tensor=longs._cdata, deep_tensor=deep._cdata,
        float_data=floats.data_ptr(), long_data=longs.data_ptr(), deep_data=deep.data_ptr())
    _lib.profd_torch_probe_begin(ctypes.byref(probe))
    try:
        # Operators whose inputs it knows from here: a list, scalars, None, a string.
        torch.cat([floats, longs], 1)
        torch.clamp(floats, 0.25, 7)
        torch.sum(floats, 1, True)
        torch.div(floats, longs, rounding_mode="floor")
    finally:
        features = _lib.profd_torch_probe_end()
    return features


def _hook_optimizers(torch: Any, tell: Callable[[int, int, int], None]
                     ) -> Optional[_torch_optimizers.StepEnds]:
    """Reports each Optimizer.step() to the library, through torch's own global hooks.

    In code that torch.compile compiles they do nothing, because a call would break its graph.
    """
    optim = sys.modules.get("torch.optim.optimizer")  # torch.optim deletes its own name of it.
    hook_begin = getattr(optim, "register_optimizer_step_pre_hook", None)
    hook_end = getattr(optim, "register_optimizer_step_post_hook", None)
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    if hook_begin is None or hook_end is None or is_compiling is None:
        return None  # torch before 2.1: the library goes by torch's ranges alone.

    numbers = _torch_optimizers.Numbers()
    number_of = numbers.of
    step_ends = _torch_optimizers.StepEnds(numbers.knows)

    def profd_step_begins(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not is_compiling():
            tell(id(type(optimizer)), number_of(optimizer), 1)

    def profd_step_ends(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not is_compiling():
            tell(id(type(optimizer)), number_of(optimizer), 0)
            if step_ends.wanted:
                step_ends.at(optimizer)

    hook_begin(profd_step_begins)
    hook_end(profd_step_ends)
    return step_ends


def _command() -> list:
    """The words of this process's command line; sys.argv is not set yet below `python -m`."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return file.read().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return sys.argv


def _is_launcher() -> bool:
    words = _command()[1:]
    while words:
        word = words.pop(0)
        if word == "-m" or not word.startswith("-"):
            program = words[0] if word == "-m" and words else os.path.basename(word)
            return program in _LAUNCHERS
        if word == "-c":
            return False
        if word in ("-W", "-X"):
            words = words[1:]
    return False


def _is_spawning() -> bool:
    """Whether multiprocessing imports what this child needs, and has not begun what it is for."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and getattr(process.current_process(), "_inheriting", False)


def _works_for_dataloader(process: Any) -> bool:
    """Whether a multiprocessing.Process is a worker of a DataLoader, which is no target."""
    module = getattr(getattr(process, "_target", None), "__module__", None)
    return isinstance(module, str) and module.startswith("torch.utils.data.")


def _was_spawned_for_dataloader() -> bool:
    """As soon as that is known."""
    process: Any = sys.modules["multiprocessing.process"]
    while process.parent_process() is None:
        time.sleep(_SPAWN_POLL_S)
    return _works_for_dataloader(process.current_process())


def _was_forked_for_dataloader() -> bool:
    """Says the stack that forked, just now."""
    frame: Optional[FrameType] = sys._getframe()
    while frame is not None:
        process = frame.f_locals.get("process_obj") if frame.f_code.co_name == "_launch" else None
        if process is not None:
            return _works_for_dataloader(process)
        frame = frame.f_back
    return False


def _leave() -> None:
    """The interpreter ends. torch's destructors run after it, while the library's thread goes on."""
    try:
        _answering.end()
    finally:  # A signal may interrupt the wait.
        _lib.profd_torch_leave()


def _after_fork_in_child() -> None:
    _answering.reset_in_child()
    try:
        if not _was_forked_for_dataloader():
            _start_serving(False)
    except Exception:  # The child has no use for it.
        pass


def _serve(is_spawning: bool) -> None:
    """The thread: answers the library until it is disabled, or the interpreter ends."""
    try:
        if is_spawning:
            if _was_spawned_for_dataloader():
                return
            _lib.profd_init()
        answers = _Answers(sys.modules["torch"], _step_ends)
        wanted = ctypes.c_uint32()
        while True:
            asked = _wait(ctypes.byref(wanted))
            if asked == _QUIT:
                return
            _answering.answer(answers.give, asked, wanted.value)
    except Exception as error:
        _library.log("warning", "the thread that looks into torch ended: %r" % error)


class _Answers:
    """What the thread does for each thing it is asked."""

    def __init__(self, torch: Any, step_ends: Optional[_torch_optimizers.StepEnds]) -> None:
        self._torch = torch
        self._step_ends = step_ends
        self._listener: Any = None

    def give(self, asked: int, wanted: int) -> None:
        if asked == _ARMED:
            self._unlisten()
            if wanted & FEATURE_COMPILE:
                self._try("notes of torch.compile", self._listen)
        elif asked == _COLLECT:
            try:
                self._collect(wanted)
            finally:
                _lib.profd_torch_done()
        elif asked == _IDLE:
            self._unlisten()
        elif asked == _COUNT:
            self._try("the number of optimizers", self._count_optimizers)

    def _listen(self) -> None:
        from profd import _torch_compile
        self._listener = _torch_compile.Listener(note, _lib.profd_torch_compiling)
        self._listener.start()

    def _unlisten(self) -> None:
        if self._listener is not None:
            self._listener.stop()
            self._listener = None

    def _count_optimizers(self) -> None:
        for name, count in _torch_optimizers.counts(self._torch).items():
            _lib.profd_torch_optimizers(name.encode("utf-8", "replace"), count)

    def _collect(self, wanted: int) -> None:
        if self._listener is not None:
            self._listener.stop()
        self._try("labels of steps", self._tell_labels)
        if wanted & FEATURE_COMPILE:
            self._try("notes of torch.compile", self._tell_regions)
        if wanted & FEATURE_STACKS:
            self._try(_SOURCES, self._tell_sources)
        if wanted & FEATURE_MODULE_PATHS:
            self._try("paths of modules", self._tell_modules)
        if wanted & FEATURE_BLOCKS:
            self._try("owners of memory", self._tell_blocks)

    def _tell_labels(self) -> None:
        from profd import _torch_labels
        _torch_labels.tell_labels(note, _NOTE_STEP_LABEL, _lib.profd_step_count)

    def _tell_regions(self) -> None:
        from profd import _torch_compile
        _torch_compile.tell_regions(note)

    def _tell_sources(self) -> None:
        from profd import _torch_sources
        sources = _torch_sources.Sources(self._torch)
        for each in sources.ranges():
            _answering.check()
            note(_NOTE_GENERATED_CODE, each.file, each.source, each.line)
        if sources.odd_files:
            note(_NOTE_MISSING, _SOURCES,
                 "torch keeps those of %d generated files in another form" % sources.odd_files)
        if sources.lost_ranges:
            note(_NOTE_MISSING, _SOURCES,
                 "there are %d more than fit in a capture" % sources.lost_ranges)

    def _tell_modules(self) -> None:
        from profd import _torch_modules
        for module in _torch_modules.modules(self._torch):
            _answering.check()
            _lib.profd_torch_module(module.address, module.root,
                                    module.path.encode("utf-8", "replace") or None,
                                    module.class_name.encode("utf-8", "replace"))

    def _tell_blocks(self) -> None:
        from profd import _torch_blocks
        owners = _torch_blocks.Owners(self._torch, self._step_ends)
        for block in owners.blocks():
            _answering.check()
            _lib.profd_torch_block(block.address, block.bytes, block.device_type,
                                   block.device_index, block.category,
                                   block.name.encode("utf-8", "replace") or None)
        if owners.lack_of_gradients is not None:
            note(_NOTE_MISSING, "owners of gradients", owners.lack_of_gradients)
        if owners.lacks_others:
            note(_NOTE_MISSING, "sizes of older tensors",
                 "torch before 2.10 may be releasing a tensor while it is looked at")

    def _try(self, feature: str, step: Callable[[], None]) -> None:
        try:
            _answering.check()
            step()
        except NotLooked as reason:
            note(_NOTE_MISSING, feature, str(reason))
        except Exception as error:  # The capture says what it lacks.
            note(_NOTE_MISSING, feature, "looking for it failed: %r" % error)


def note(kind: int, subject: Optional[str], text: Optional[str] = None, value: int = 0) -> None:
    """A wire::NoteEvent. Any thread."""
    def encode(words):
        return None if words is None else words.replace("\0", " ").encode("utf-8", "replace")

    _lib.profd_torch_note(kind, encode(subject), encode(text), value)
