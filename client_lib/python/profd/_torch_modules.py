"""Names the modules of the program that are alive after a capture's window.

A module's path is that of named_modules(): from the outermost module that holds it, by the names
in the tables of submodules. Nothing of the program's is called.

Threads: any, with the GIL, which is given up after each millisecond of walking; the list of the
    program's objects is made before that (see _objects).
Known gaps: a module that two others hold has one path. One that died before the window's end is
    missing, and one that was made since may have its address.
"""

import time
from typing import Any, Iterator, List, NamedTuple, Set, Tuple

from profd._objects import find_objects

_SLICE_S = 0.001
_PAUSE_S = 0.0005


class Module(NamedTuple):
    """A module, its outermost holder, and its path below that: "" for the holder itself."""

    address: int
    root: int
    path: str
    class_name: str


def modules(torch: Any) -> Iterator[Module]:
    """Every module once."""
    found, = find_objects(torch.nn.Module)
    held = {id(child) for module in found for _, child in _children(module)}
    # A module among its own descendants has no root above it: those come last.
    roots = [module for module in found if id(module) not in held]
    visited: Set[int] = set()
    began = time.monotonic()
    for root in roots + found:
        for module in _walk(root, visited):
            yield module
            if time.monotonic() - began > _SLICE_S:
                time.sleep(_PAUSE_S)
                began = time.monotonic()


def _walk(root: Any, visited: Set[int]) -> Iterator[Module]:
    left: List[Tuple[str, Any]] = [("", root)]
    while left:
        path, module = left.pop()
        if id(module) in visited:
            continue
        visited.add(id(module))
        yield Module(id(module), id(root), path, type(module).__name__)
        prefix = path + "." if path else ""
        left.extend((prefix + name, child) for name, child in reversed(_children(module)))


def _children(module: Any) -> List[Tuple[str, Any]]:
    held = object.__getattribute__(module, "__dict__").get("_modules")
    # list() of a dict's items is one step as far as the GIL is concerned.
    return [item for item in list(held.items()) if item[1] is not None] \
        if isinstance(held, dict) else []
