"""Finds the program's objects of some classes, among those that the garbage collector knows."""

import gc
import sys
from typing import Any, Dict, List, Optional, Tuple


class NotLooked(Exception):
    """Nobody looks at the program's objects, for the reason that is its text."""


def find_objects(*classes: type) -> Tuple[List[Any], ...]:
    """All objects alive of each of `classes`, or of classes derived from them.

    Holds the GIL, though it gives way to others as all of Python does: some 10 ms for 100,000
    objects. What dies meanwhile dies here, on this thread. Objects behind gc.freeze() are not seen.
    Raises NotLooked in a free-threaded Python, also where its lock is on, which may be for a moment:
    there the program's threads change what we read, a tensor's gradient or storage, while we do.
    """
    if "t" in sys.abiflags:
        raise NotLooked("this is a free-threaded Python, whose objects do not hold still")
    found: Tuple[List[Any], ...] = tuple([] for _ in classes)
    # By the id of a type, as a metaclass may have made its types unhashable; they are kept, so
    # that no id is used twice.
    kinds: Dict[int, Tuple[type, Optional[List[Any]]]] = {}
    for generation in range(3):  # One by one: while a list is there its objects live on.
        for thing in gc.get_objects(generation=generation):
            # Its real type: what isinstance() asks may run code of the program's.
            kind = type(thing)
            known = kinds.get(id(kind))
            if known is None:
                known = kinds[id(kind)] = (kind, _list_for(kind, classes, found))
            if known[1] is not None:
                known[1].append(thing)
    return found


def _list_for(kind: type, classes: Tuple[type, ...], found: Tuple[List[Any], ...]
              ) -> Optional[List[Any]]:
    for index, wanted in enumerate(classes):
        if type.__subclasscheck__(wanted, kind):
            return found[index]
    return None
