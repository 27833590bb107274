"""alloc() and free(): the blocks an allocator hands out and takes back."""

import ctypes
import operator
import re
from typing import Any, Dict, Optional, Tuple

from profd._library import MemoryEvent, flag, lib, namer

# profd_memory_category in profd.h.
_CATEGORIES = {
    "unknown": 0,
    "parameter": 1,
    "gradient": 2,
    "optimizer_state": 3,
    "activation": 4,
    "input": 5,
    "temporary": 6,
    "buffer": 7,
}
# profd_device_type in profd.h.
_DEVICE_TYPES = {"cpu": 0, "cuda": 1}
_DEVICE = r"(cpu|cuda)(?::([0-9]{1,5}))?\Z"
_MAX_DEVICE_INDEX = 32767

_devices: Dict[str, Tuple[int, int]] = {}


def alloc(address: int, nbytes: int, *, device: Any = "cpu", category: str = "unknown",
          total_allocated: Optional[int] = None, total_reserved: Optional[int] = None) -> None:
    """A block of memory was allocated just now, on this thread.

    address          identifies the block until it is freed; 0 to 2**64 - 1.
    nbytes           its size in bytes; 0 to 2**63 - 1.
    device           "cpu", "cuda" or "cuda:N" (N to 32767), or an object whose str() is
                     one, such as a torch.device.
    category         "parameter", "gradient", "optimizer_state", "activation", "input",
                     "temporary", "buffer" or "unknown".
    total_allocated  bytes in use on this device after the event; None: not known.
    total_reserved   bytes the allocator holds from the system; None: not known.

    Raises TypeError for a size or address that is no integer, ValueError for anything
    outside these bounds.
    """
    event = (_unsigned(address), _size(nbytes, "nbytes"), _total(total_allocated),
             _total(total_reserved), *_device(device), _category(category), 0)
    if flag[0]:
        namer.named
        lib.profd_alloc(ctypes.byref(MemoryEvent(*event)))


def free(address: int, nbytes: int = 0, *, device: Any = "cpu", category: str = "unknown",
         total_allocated: Optional[int] = None, total_reserved: Optional[int] = None) -> None:
    """A block of memory was freed just now. Arguments as for alloc(); `nbytes` 0: not known."""
    event = (_unsigned(address), _size(nbytes, "nbytes"), _total(total_allocated),
             _total(total_reserved), *_device(device), _category(category), 0)
    if flag[0]:
        namer.named
        lib.profd_free(ctypes.byref(MemoryEvent(*event)))


def _unsigned(address: int) -> int:
    value = operator.index(address)
    if not 0 <= value < 1 << 64:
        raise ValueError("address %d is not in 0..2**64-1" % value)
    return value


def _size(nbytes: int, what: str) -> int:
    value = operator.index(nbytes)
    if not 0 <= value < 1 << 63:
        raise ValueError("%s %d is not in 0..2**63-1" % (what, value))
    return value


def _total(total: Optional[int]) -> int:
    return -1 if total is None else _size(total, "total")


def _device(device: Any) -> Tuple[int, int]:
    text = device if isinstance(device, str) else str(device)
    known = _devices.get(text)
    if known is None:
        known = _devices[text] = _parse_device(text)
    return known


def _parse_device(text: str) -> Tuple[int, int]:
    match = re.match(_DEVICE, text)
    index = int(match.group(2) or 0) if match else 0
    if not match or index > _MAX_DEVICE_INDEX or (match.group(1) == "cpu" and index != 0):
        raise ValueError('device %r is not "cpu", "cuda" or "cuda:N"' % text)
    return _DEVICE_TYPES[match.group(1)], index


def _category(category: str) -> int:
    try:
        return _CATEGORIES[category]
    except KeyError:
        raise ValueError("category %r is not one of %s" %
                         (category, ", ".join(sorted(_CATEGORIES)))) from None
