"""Waits for `import torch`, then attaches the profiler to it. Run by every Python of a job.

It is imported by sitecustomize.py next to it, or by profd.pth, which the wheel brings; it must not
import anything that a bare interpreter has not imported already. What it leaves in sys.meta_path
costs one comparison per import, until torch is there.

PROFD_DISABLE=1 and PROFD_TORCH=0 keep it out. Errors are told to PROFD_LOG, and to nobody else.
"""

import os
import sys
from _thread import get_ident

# The package that this file came with; empty where it stands next to the package, in a wheel.
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_FOLDER) if os.path.basename(_FOLDER) == "_inject" else ""


class _Watcher:
    """The loader of torch, which tells us when it is done. Only until then is it in its place."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _attach(module)


class TorchFinder:
    """Finds torch as the others do, and gives it a _Watcher. The first of sys.meta_path."""

    # Threads inside it: another's finder that asks all others, too, must not ask it again.
    _inside: "set[int]" = set()

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "torch" or get_ident() in cls._inside:
            return None
        cls._inside.add(get_ident())
        try:
            spec = cls._find_elsewhere(name, path, target)
        finally:
            cls._inside.discard(get_ident())
        # A namespace package, as an empty folder named torch is one, has no such loader.
        if hasattr(getattr(spec, "loader", None), "exec_module") and spec.origin is not None:
            spec.loader = _Watcher(spec.loader)
        return spec

    @classmethod
    def _find_elsewhere(cls, name, path, target):
        for finder in list(sys.meta_path):
            find_spec = getattr(finder, "find_spec", None)
            if finder is not cls and find_spec is not None:
                spec = find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None


class PackageFinder:
    """Finds the package `profd` where nobody else has one. The last of sys.meta_path."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "profd" or path is not None:
            return None
        from importlib.util import spec_from_file_location
        return spec_from_file_location(name, os.path.join(_PACKAGE, "__init__.py"),
                                       submodule_search_locations=[_PACKAGE])


def install():
    """Begins to watch. Idempotent; nothing where the environment says so."""
    if os.environ.get("PROFD_DISABLE", "") not in ("", "0"):
        return
    if _PACKAGE and PackageFinder not in sys.meta_path:
        sys.meta_path.append(PackageFinder)
    if os.environ.get("PROFD_TORCH", "") == "0" or "torch" in sys.modules:
        return
    if TorchFinder not in sys.meta_path:
        sys.meta_path.insert(0, TorchFinder)


def _attach(module):
    if TorchFinder in sys.meta_path:
        sys.meta_path.remove(TorchFinder)
    try:
        from profd import _torch
        _torch.attach(module)
    except Exception as error:  # The job must not learn of it unless it asks.
        if os.environ.get("PROFD_LOG"):
            sys.stderr.write("profd: PyTorch is not recorded: %r\n" % (error,))
