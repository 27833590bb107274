"""Has our thread answer only while the interpreter lives.

An interpreter that ends stops each thread where it next takes the GIL. If that is below a function
of torch's that had given the GIL up, C++ ends the whole process ("terminate called without an
active exception", SIGABRT): a training that was done would have failed. So end() waits until our
thread is out of Python, and no answer begins after it.

Threads: answer() and check() on our thread. end() on the thread that ends the interpreter, with the
    GIL, which it gives up while it waits.
Fork:    the child's thread begins anew: call reset_in_child() before it starts.
"""

from _thread import allocate_lock
from typing import Any, Callable

from profd._objects import NotLooked

# One answer takes some 100 ms of a large program, and hurries once it is to end.
_MOST_WAIT_S = 3.0

# Held while an answer is given; after end(), for good.
_lock = allocate_lock()
_has_ended = False


def answer(give: Callable[..., None], *arguments: Any) -> None:
    """Calls `give`. Does nothing, and after end() blocks for good, once the interpreter ends."""
    with _lock:
        if not _has_ended:
            give(*arguments)


def check() -> None:
    """Raises NotLooked if the interpreter waits for the answer's end. Call it about once a ms."""
    if _has_ended:
        raise NotLooked("the interpreter was ending")


def end() -> None:
    """Waits for the answer that is being given, three seconds at most."""
    global _has_ended
    _has_ended = True
    _lock.acquire(timeout=_MOST_WAIT_S)


def reset_in_child() -> None:
    global _lock, _has_ended
    _lock = allocate_lock()
    _has_ended = False
