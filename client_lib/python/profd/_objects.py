"""Finds the program's objects of some classes, among those that the garbage collector knows."""

import ctypes
import gc
import sys
from typing import Any, List, Optional, Tuple

from profd import _library


# Of memory that Python has allocated, some three for each object that the garbage collector knows.
# Looking at the objects of as many holds the GIL for about 0.1 s, and unshares the pages that hold
# them from forked workers, because it counts references.
MOST_BLOCKS = 4_000_000


class NotLooked(Exception):
    """Nobody looks at the program's objects, for the reason that is its text."""


def find_objects(*bases: type, most_blocks: Optional[int] = None) -> Tuple[List[Any], ...]:
    """All objects alive of each of `bases`, or of classes derived from them: a list for each base.

    The library goes through the objects without giving up the GIL. So no other thread notices that
    all of them are held for a moment, and none dies here. (Before torch 2.10, a thread without the GIL
    may be releasing a tensor; if anyone holds its object when that thread gets the GIL, torch warns.)
    Holds the GIL for some 60 ms for 330,000 objects; a full garbage collection of them holds it
    longer. Objects behind gc.freeze() are not seen.
    Raises NotLooked in a free-threaded Python, also where its lock is on, which may be for a moment:
    there the program's threads change what we read, a tensor's gradient or storage, while we do.
    And where the program has more than `most_blocks` (MOST_BLOCKS) of memory, such as for a data set
    in lists and dicts: it would stand still for too long.
    """
    if "t" in sys.abiflags:
        raise NotLooked("this is a free-threaded Python, whose objects do not hold still")
    blocks = sys.getallocatedblocks()
    if blocks > (MOST_BLOCKS if most_blocks is None else most_blocks):
        raise NotLooked("Python has allocated %.1f million blocks of memory, and going through so many "
                        "objects would stop the program for too long" % (blocks / 1e6))
    look = getattr(_library.lib, "profd_torch_instances", None)
    if look is None:
        raise NotLooked("libprofd_client.so is off, or older than the Python package")
    look.argtypes = [ctypes.py_object, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t,
                     ctypes.py_object]
    families = [_family(base) for base in bases]
    # By id, as a metaclass may have made its classes unhashable.
    kinds = [{id(kind) for kind in family} for family in families]
    wanted = sorted(set().union(*kinds))
    found: List[Any] = []
    if look(gc.get_objects, (ctypes.c_void_p * len(wanted))(*wanted), len(wanted), found) != 0:
        raise NotLooked("this Python hides its functions")
    return tuple([thing for thing in found if id(type(thing)) in ids] for ids in kinds)


def may_hold_any_tensor(torch: Any) -> bool:
    """Whether a tensor may be held, and used, that only C++ may hold.

    Before torch 2.10, C++ and Python count apart who holds a tensor. One that is C++'s alone, such as
    what a backward pass needs, may be on its way out on a thread without the GIL: torch then warns
    if its object is held, and crashes if it is used. What modules and optimizers hold is Python's.
    """
    numbers = str(torch.__version__).split(".")[:2]
    return all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= (2, 10)


def _family(base: type) -> List[type]:
    """The class and all that are derived from it, each once."""
    family, known = [base], {id(base)}
    for kind in family:  # It grows meanwhile.
        for derived in type.__subclasses__(kind):
            if id(derived) not in known:
                known.add(id(derived))
                family.append(derived)
    return family
