"""profd for Python: tell the profiler what a training process is doing.

    import profd

    profd.init()                            # a no-op where no daemon runs
    for batch in loader:
        profd.step()                        # a new training step begins
        with profd.annotate("forward", batch=len(batch)):   # arguments are shown in traces
            loss = model(batch)
        profd.counter("loss", loss)

    @profd.annotate("evaluate")
    def evaluate(model): ...

PyTorch needs none of that: once `profd.init()` was called, or below `profctl run`, which needs no
line of its own, its operators, optimizer steps and memory are recorded.

A capture is begun by `profctl trace`, or from Python, where gRPC is installed:

    report = profd.capture(steps=5)         # of this process; its tables wait for the end
    report = profd.Client().trace(41213, steps=5)
    report.ops()

Everything here works on top of libprofd_client.so, found by, in this order:
`PROFD_CLIENT_LIB` (a path; nothing else is tried), this package's folder, the
checkout's build/release/lib, the system's loader. Without the library, and with
`PROFD_DISABLE=1`, every call checks its arguments and does nothing; `PROFD_LOG=warning`
then warns once, at import.

Costs:   a range costs 0.2 us while no capture runs and 0.5 us while one
         does (tests/bench/python_annotate_bench.py).
Threads: everything may be called from any thread. Calls keep the GIL, take no lock
         and never wait for the daemon.
Errors:  wrong arguments raise TypeError or ValueError, whether a capture runs or not:
         a capture never makes a working program fail. Nothing else raises, but for what
         captures: that raises ProfdError.
Fork:    a child is silent until it marks a step or begins a range; then it is a
         target of its own, shown below its parent. From 3.12 on, Python warns of a
         fork in a process with several threads; init() starts the library's one.
"""

from typing import TYPE_CHECKING, Any, List

from profd._library import (Status, init, is_recording, library_version, set_metadata, status,
                            step, step_count, thread_name)
from profd._memory import alloc, free
from profd._ranges import annotate, counter, mark

if TYPE_CHECKING:
    from profd._api import ProfdError
    from profd._client import Client, Report, capture

__version__ = "0.1.0"

__all__ = [
    "Client", "ProfdError", "Report", "Status", "alloc", "annotate", "capture", "counter", "free",
    "init", "is_recording", "library_version", "mark", "set_metadata", "status", "step",
    "step_count", "thread_name", "__version__",
]


def __dir__() -> List[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Imports what only few programs use when they do: a job's start pays for nothing of it."""
    if name in ("Client", "ProfdError", "Report", "capture"):
        from profd import _client
        return getattr(_client, name)
    raise AttributeError("module 'profd' has no attribute %r" % name)
