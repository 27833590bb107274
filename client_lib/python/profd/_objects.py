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


def find_instances(base: type) -> List[Any]:
    """All objects alive of `base`, or of classes derived from it, without touching any other object.

    find_objects() holds references to all of the program's objects for a moment. With torch before
    2.10, one of them may be a tensor that a thread without the GIL is just releasing, and torch then
    warns, or crashes. This one is for processes that no capture was asked of: Python
    itself looks at what each object refers to, as its garbage collector does, and an object refers
    to its class (from Python 3.9 on). Holds the GIL as long as a full garbage collection does.
    """
    if "t" in sys.abiflags:
        raise NotLooked("this is a free-threaded Python, whose objects do not hold still")
    if sys.version_info < (3, 9):
        raise NotLooked("in this Python, objects do not refer to their class")
    classes = [base]
    kinds = {id(base)}  # By id, as in find_objects().
    for known in classes:
        for kind in type.__subclasses__(known):
            if id(kind) not in kinds:
                kinds.add(id(kind))
                classes.append(kind)
    return [thing for thing in gc.get_referrers(*classes) if id(type(thing)) in kinds]


def _list_for(kind: type, classes: Tuple[type, ...], found: Tuple[List[Any], ...]
              ) -> Optional[List[Any]]:
    for index, wanted in enumerate(classes):
        if type.__subclasscheck__(wanted, kind):
            return found[index]
    return None
