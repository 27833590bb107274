"""Reports to the library when a torch.profiler of the program begins and ends to use CUPTI.

torch has no hook for it, so the two methods of torch.autograd.profiler.profile that do it are
wrapped. torch.profiler.profile, which has schedules, calls them, too. Each calls the original
with what it was given, and costs nothing but where a profiler begins or ends.

Errors: what the program's profiler raises goes on to the program; nothing else is raised.
"""

import functools
import sys
from typing import Any, Callable

# On the profile that the library knows of.
_MARK = "_profd_has_claimed"


def hook(tell: Callable[[int], None]) -> bool:
    """Calls `tell(1)` before a profiler takes CUPTI, and `tell(0)` when it has left it.

    False: this torch has no such methods, and nothing was wrapped.
    """
    profile = getattr(sys.modules.get("torch.autograd.profiler"), "profile", None)
    prepare = getattr(profile, "_prepare_trace", None)
    leave = getattr(profile, "__exit__", None)
    if profile is None or not callable(prepare) or not callable(leave):
        return False

    @functools.wraps(prepare)
    def _prepare_trace(self: Any, *args: Any, **kwargs: Any) -> Any:
        _claim(self, tell)
        try:
            return prepare(self, *args, **kwargs)
        except BaseException:
            _drop(self, tell)
            raise

    @functools.wraps(leave)
    def __exit__(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return leave(self, *args, **kwargs)
        finally:
            _drop(self, tell)

    profile._prepare_trace = _prepare_trace
    profile.__exit__ = __exit__
    return True


def _records_cuda(profile: Any) -> bool:
    """Whether it uses CUPTI; a profiler of the CPU does not."""
    if not getattr(profile, "enabled", True):
        return False
    if hasattr(profile, "use_device"):  # From torch 2.1 on.
        return profile.use_device == "cuda"
    return bool(getattr(profile, "use_cuda", True))


def _claim(profile: Any, tell: Callable[[int], None]) -> None:
    if _records_cuda(profile) and not getattr(profile, _MARK, False):
        setattr(profile, _MARK, True)
        tell(1)


def _drop(profile: Any, tell: Callable[[int], None]) -> None:
    if getattr(profile, _MARK, False):
        setattr(profile, _MARK, False)
        tell(0)
