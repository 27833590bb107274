"""Which optimizer is which, how many of each class train, and where their steps end.

Several of one class look like one in torch's ranges. How many there are is asked for a few times at
most, and only by programs whose optimizer seems to be several.
"""

import itertools
import sys
import time
import weakref
from typing import Any, Callable, Dict, Iterable, List, Tuple

from profd import _answering
from profd._objects import find_objects

# sys.getallocatedblocks(). A bare program with an optimizer has 1.2 million with torch 2.15.0 and 0.35
# million with 1.13.1. In larger ones it would hold the GIL for too long.
_MAX_BLOCKS = 2_000_000
# For steps to end. The library waits for 3 s in all.
_PATIENCE_S = 1.5
_CHECK_S = 0.001


class Numbers:
    """A number for each optimizer that no later one has: Python gives the address of one that is gone
    to the next one, as where each task has an optimizer of its own."""

    def __init__(self, most: int = 1024) -> None:
        self._known: Dict[int, Tuple[weakref.ref, int]] = {}
        self._most = most  # Before those that are gone are forgotten.
        self._next = itertools.count(1)

    def of(self, optimizer: Any) -> int:
        known = self._known.get(id(optimizer))
        if known is not None and known[0]() is optimizer:
            return known[1]
        return self._add(optimizer)

    def knows(self, optimizer: Any) -> bool:
        """Whether it was asked for."""
        known = self._known.get(id(optimizer))
        return known is not None and known[0]() is optimizer

    def _add(self, optimizer: Any) -> int:
        if len(self._known) >= self._most:
            # A copy of the items: another thread may add one.
            self._known = {at: known for at, known in list(self._known.items())
                           if known[0]() is not None}
            self._most = max(self._most, 2 * len(self._known))
        try:
            reference = weakref.ref(optimizer)
        except TypeError:  # A class with __slots__.
            return id(optimizer)
        number = next(self._next) << 4  # As even as an address.
        self._known[id(optimizer)] = (reference, number)
        return number


class StepEnds:
    """Calls a function after the next step() of some optimizers, on the threads that run them.

    Threads: await_each() on ours. `wanted` and at() on any, with the GIL.
    """

    def __init__(self, is_hooked: Callable[[Any], bool]) -> None:
        """`is_hooked` says whether an optimizer's steps come to at()."""
        self._is_hooked = is_hooked
        # By id of the optimizer, which await_each() keeps alive; until it is done.
        self.wanted: Dict[int, Callable[[Any], None]] = {}

    def at(self, optimizer: Any) -> None:
        """Its step() ends. Call it if `wanted` is not empty."""
        wanted = self.wanted
        do = wanted.get(id(optimizer))
        if do is not None:
            try:
                do(optimizer)
            except Exception:  # Nothing of ours may end the program's step. It stays wanted.
                return
            wanted.pop(id(optimizer), None)

    def await_each(self, optimizers: Iterable[Any], do: Callable[[Any], None],
                   patience_s: float = _PATIENCE_S) -> int:
        """Waits until each did a step, and `do` was called with it. Returns for how many it was not."""
        optimizers = list(optimizers)
        hooked = [optimizer for optimizer in optimizers if self._is_hooked(optimizer)]
        self.wanted = {id(optimizer): do for optimizer in hooked}
        until = time.monotonic() + patience_s
        try:
            while self.wanted and time.monotonic() < until:
                _answering.check()
                time.sleep(_CHECK_S)
            return len(optimizers) - len(hooked) + len(self.wanted)
        finally:
            self.wanted = {}


def counts(torch: Any) -> Dict[str, int]:
    """By the name of the class, as torch's ranges have it. Empty: it would take too long."""
    if sys.getallocatedblocks() > _MAX_BLOCKS:
        return {}
    by_class: Dict[str, List[bool]] = {}
    found, = find_objects(torch.optim.Optimizer)
    for optimizer in found:
        by_class.setdefault(type(optimizer).__name__, []).append(_has_state(optimizer))
    # One without a state has not done a step yet, but of those that never have any.
    return {name: sum(stepped) or len(stepped) for name, stepped in by_class.items()}


def _has_state(optimizer: Any) -> bool:
    # Without running any code of the program's.
    state = object.__getattribute__(optimizer, "__dict__").get("state")
    return issubclass(type(state), dict) and dict.__len__(state) > 0
