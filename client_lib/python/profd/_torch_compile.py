"""What torch.compile says of itself: graph breaks, recompilations, and whose code a region is.

torch writes it to the logger `torch.__trace` (from 2.2 on), which is silent unless it has a handler;
a Listener is one, while a capture is armed. What it hears is recorded with the time it was said at.

Threads: a Listener hears on the threads that compile; it is started and stopped on ours.
Errors:  none leaves a handler: it would end in the program's call of a compiled function.
"""

import json
import logging
import os
import re
import sys
from typing import Any, Callable, Dict, Optional

_LOGGER = "torch.__trace"

# What torch, from 2.6 on, says of the compilation of a backward graph. It runs when the graph is
# first needed, after all that is said of its forward.
_BACKWARD = "entire_backward_compile"

# wire::NoteKind in proto/wire/event.h.
_GRAPH_BREAK, _RECOMPILE, _COMPILED_REGION = 1, 2, 3

# A NoteEvent's text is for a line of a report, torch's are pages.
_MAX_REASON = 500
# Compilations that have said why they are needed and not yet that they are done.
_MAX_WAITING = 256

Note = Callable[[int, Optional[str], Optional[str], int], None]

_FRAME = re.compile(r'^\s*File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_PLACE = re.compile(r"^Graph break in user code at (.+):(\d+)$", re.MULTILINE)
_REASON = re.compile(r"^(?:Graph Break )?Reason: (.*?)(?=^User code traceback:|^Traceback |\Z)",
                     re.MULTILINE | re.DOTALL)
_EXCEPTION = re.compile(r"^torch\._dynamo\.exc\.\w+: (.+)$", re.MULTILINE)
# A frame of CompilationMetrics.stack_trace, of newer torch (2.15 has it).
_STACK_FRAME = re.compile(r"^Line: (\d+), Name: (.+), Filename: (.+)$")
_RESUMED = "torch_dynamo_resume_in_"
# What torch adds for its own developers, or says whatever the reason.
_ADVICE = re.compile(r"^\s*(?:Hint: |Developer debug context: |For more details |"
                     r"Encountered graph break when attempting to trace )")


class Listener(logging.Handler):
    """Turns what torch.compile traces into notes."""

    def __init__(self, note: Note, tell: Callable[[int], None]) -> None:
        """`tell`: 1 when the calling thread begins to compile, 0 when it is done."""
        super().__init__(logging.DEBUG)
        self._note = note
        self._tell = tell
        # By frame and compilation: why it is compiled again.
        self._reasons: Dict[Any, str] = {}

    def start(self) -> None:
        logging.getLogger(_LOGGER).addHandler(self)

    def stop(self) -> None:
        logging.getLogger(_LOGGER).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._hear(getattr(record, "metadata", {}), getattr(record, "payload", None))
        except Exception:
            pass  # A torch that says it in other words.

    def _hear(self, said: Dict[str, Any], payload: Any) -> None:
        if "chromium_event" in said:
            self._hear_event(payload)
        elif "dynamo_start" in said:
            self._tell(1)
        elif "compilation_metrics" in said and said["compilation_metrics"].get("is_forward", True):
            self._tell(0)  # Of a backward they may come in the middle of it.
        compilation = (said.get("frame_id"), said.get("frame_compile_id"))
        artifact = said.get("artifact", {}).get("name")
        if artifact == "dynamo_graph_break_reason":
            self._note(_GRAPH_BREAK, place_of_break(payload), reason_of_break(payload), 0)
        elif artifact == "recompile_reasons" and len(self._reasons) < _MAX_WAITING:
            self._reasons[compilation] = _first_reason(payload)
        elif "compilation_metrics" in said:
            metrics = said["compilation_metrics"]
            reason = self._reasons.pop(compilation, None)
            if reason is not None:
                self._note(_RECOMPILE, _place(metrics), reason, _compile_ns(metrics))

    def _hear_event(self, payload: Any) -> None:
        if not isinstance(payload, str) or _BACKWARD not in payload:
            return
        event = json.loads(payload)
        if event.get("name") == _BACKWARD and event.get("ph") in ("B", "E"):
            self._tell(1 if event["ph"] == "B" else 0)


def tell_regions(note: Note) -> None:
    """Notes of the code behind each compiled region; torch remembers the last 64."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None or not hasattr(utils, "get_compilation_metrics"):
        return  # Nothing was compiled, or before torch 2.1.
    for entry in utils.get_compilation_metrics():
        metrics = vars(entry)
        # Of a backward it does not name the code.
        if metrics.get("compile_id") and metrics.get("co_name"):
            note(_COMPILED_REGION, str(metrics["compile_id"]), _place(metrics),
                 metrics.get("guard_count") or 0)


def place_of_break(text: str) -> str:
    """"train.py:19 in forward": the innermost frame of the program's in torch's message."""
    user_part = text.split("\nTraceback (most recent call last):")[0]
    frames = _FRAME.findall(user_part)
    if frames:
        file, line, function = frames[-1]
        return "%s:%s in %s" % (os.path.basename(file), line, function)
    place = _PLACE.search(user_part)
    return "%s:%s" % (os.path.basename(place[1]), place[2]) if place else "unknown"


def reason_of_break(text: str) -> str:
    """The sentences of torch's message that say what it could not trace, on one line."""
    reason = _REASON.search(text)
    if reason is None:  # It says so only in the exception behind it.
        exceptions = _EXCEPTION.findall(text)
        return _cut(exceptions[-1] if exceptions else text.split("\n", 1)[0])
    lines = [line.strip() for line in reason[1].splitlines() if not _ADVICE.match(line)]
    return _cut(" ".join(filter(None, lines)) or reason[1].split("\n", 1)[0])


def _first_reason(payload: Any) -> str:
    """One per compilation that was tried and did not fit; the first is the newest."""
    reasons = payload
    if isinstance(payload, str) and payload.startswith("["):
        reasons = json.loads(payload)
    if isinstance(reasons, list):
        reasons = reasons[0] if reasons else ""
    return _cut(" ".join(str(reasons).split()))


def _place(metrics: Dict[str, Any]) -> str:
    file, name = metrics.get("co_filename") or "?", metrics.get("co_name")
    if _is_wrapper(file):
        what = "torch.compile's wrapper of a module or function"
        # Reports recognize what follows a graph break by this name.
        if str(name).startswith(_RESUMED):
            what = "%s of %s" % (name, what)
        caller = _caller(metrics.get("stack_trace"))
        return what if caller is None else "%s, called at %s" % (what, caller)
    return "%s:%s in %s" % (os.path.basename(file), metrics.get("co_firstlineno"), name)


def _is_wrapper(file: str) -> bool:
    """Whether it is torch's own frame around a torch.nn module or a function without source that is
    compiled: Dynamo compiles that frame, and does not say which module or function is in it."""
    return os.path.normpath(file).endswith(os.path.join("torch", "_dynamo", "external_utils.py"))


def _caller(frames: Any) -> Optional[str]:
    """"train.py:19 in main": the innermost frame outside of torch when it was compiled."""
    if not isinstance(frames, (list, tuple)):
        return None
    of_torch = os.path.dirname(getattr(sys.modules.get("torch"), "__file__", None) or "?")
    for frame in reversed(frames):
        found = _STACK_FRAME.match(str(frame))
        if found is None:
            return None
        line, name, file = found.groups()
        if not (_is_wrapper(file) or file.startswith(of_torch + os.sep)):
            return "%s:%s in %s" % (os.path.basename(file), line, name)
    return None


def _compile_ns(metrics: Dict[str, Any]) -> int:
    seconds = metrics.get("entire_frame_compile_time_s")
    return -1 if seconds is None else int(seconds * 1e9)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_REASON else text[:_MAX_REASON - 3] + "..."
