"""The key-value arguments of annotate(), as the bytes of proto/wire/range_arguments.h.

Only while something records. Nothing here raises: a capture must not make a program fail.
"""

import enum
import struct
import sys
from typing import Any, Dict, List, Tuple

# As in proto/wire.
_MAX_ARGUMENTS = 32
_MAX_KEY_BYTES = 64
_MAX_TEXT_BYTES = 256
_MAX_BYTES = 4096 - 48  # What an event has room for after its head.
_NONE, _INT, _DOUBLE, _BOOL, _STRING, _OTHER = 0, 3, 4, 5, 6, 15
_CUT = 1 << 2
_INT64_BITS = 63

# struct OperatorInput, and with it a number.
_HEAD = struct.Struct("=BbBBI")
_HEAD_AND_INT = struct.Struct("=BbBBIq")
_HEAD_AND_DOUBLE = struct.Struct("=BbBBId")
_NO_VALUE = _HEAD.pack(_OTHER, -1, 0, 0, 0)

# By key, as it is written. A program may make keys up as it goes: emptied when full.
_MAX_CACHED_KEYS = 1024
_keys: Dict[str, bytes] = {}


def _text(text: str, limit_bytes: int) -> bytes:
    # A character takes a byte or more: what is beyond is not even encoded.
    encoded = text[:limit_bytes].encode("utf-8", "replace")
    cut = _CUT if len(text) > limit_bytes or len(encoded) > limit_bytes else 0
    if len(encoded) > limit_bytes:
        encoded = encoded[:limit_bytes].decode("utf-8", "ignore").encode("utf-8")
    size = len(encoded)
    return _HEAD.pack(_STRING, -1, 0, cut, size) + encoded + bytes(-size % 8)


def _key(key: str) -> bytes:
    if len(_keys) >= _MAX_CACHED_KEYS:
        _keys.clear()
    # annotate("x", **{"": 1}) has a key without a text, which is none.
    written = _text(key or "?", _MAX_KEY_BYTES)
    if len(key) <= _MAX_KEY_BYTES:
        _keys[key] = written
    return written


def _value(value: Any) -> bytes:
    kind = type(value)
    if kind is str:
        return _text(value, _MAX_TEXT_BYTES)
    if kind is bool:
        return _HEAD_AND_INT.pack(_BOOL, -1, 0, 0, 0, value)
    if kind is int and value.bit_length() <= _INT64_BITS:
        return _HEAD_AND_INT.pack(_INT, -1, 0, 0, 0, value)
    if kind is float:
        return _HEAD_AND_DOUBLE.pack(_DOUBLE, -1, 0, 0, 0, value)
    if value is None:
        return _HEAD.pack(_NONE, -1, 0, 0, 0)
    try:
        return _other_value(_plain(value))
    except Exception:  # Of a class with odd members.
        return _NO_VALUE


def _plain(value: Any) -> Any:
    """`value` as a str, bool, int, float, or None if it is one in substance, and else itself.

    Through the methods of these types, not of what is derived from them. Of the type, not by
    isinstance(), which asks the object for its class.
    """
    kind = type(value)
    if issubclass(kind, int):  # Also a bool, and a member of an IntEnum.
        return value if kind is bool else int.__index__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, str):
        return str.__getitem__(value, slice(0, _MAX_TEXT_BYTES + 1))
    if issubclass(kind, enum.Enum):
        return "%s.%s" % (kind.__name__, value._name_)
    scalar = getattr(sys.modules.get("numpy"), "generic", None)
    if scalar is not None and issubclass(kind, scalar):
        code = value.dtype.kind
        if code in "iu":
            return int(value)
        if code in "fb":
            return float(value) if code == "f" else bool(value)
        if code in "cmM":  # complex, timedelta64, datetime64
            return str(value)
    return value


def _other_value(value: Any) -> bytes:
    kind = type(value)
    if kind is bool or kind is float or kind is str:
        return _value(value)
    if kind is int and -1 << _INT64_BITS <= value < 1 << _INT64_BITS:
        return _HEAD_AND_INT.pack(_INT, -1, 0, 0, 0, value)
    return _text(_text_of(value, 0), _MAX_TEXT_BYTES)


# Lists in a list are the deepest that are shown.
_MAX_ITEMS = 16
_MAX_DEPTH = 2
# str() of an int takes time that grows with the square of its digits.
_MAX_SHOWN_INT_BITS = 1024
# By the module and the name of their types: their str() is quick, and asks nobody else.
_TEXT_TYPES = frozenset([
    ("torch", "dtype"), ("torch", "device"), ("uuid", "UUID"), ("decimal", "Decimal"),
    ("pathlib", "PosixPath"), ("pathlib._local", "PosixPath"),
    ("builtins", "complex"), ("builtins", "range")])


def _text_of(value: Any, depth: int) -> str:
    value = _plain(value)
    kind = type(value)
    if kind is str:
        return repr(value) if depth else value
    if kind is bool or kind is float or value is None:
        return repr(value)
    if kind is int:
        bits = value.bit_length()
        return str(value) if bits <= _MAX_SHOWN_INT_BITS else "an int of %d bits" % bits
    if issubclass(kind, bytes):
        return repr(bytes.__getitem__(value, slice(0, _MAX_TEXT_BYTES)))
    if issubclass(kind, list):
        return "[%s]" % _items(list, value, depth)
    if issubclass(kind, tuple):
        return "(%s%s)" % (_items(tuple, value, depth), "," * (tuple.__len__(value) == 1))
    name = kind.__name__
    if (kind.__module__, name) in _TEXT_TYPES:
        return str(value)
    return name + _shape(value, kind)


def _items(base: Any, value: Any, depth: int) -> str:
    if depth >= _MAX_DEPTH:
        return "..."
    size = base.__len__(value)
    shown, length = [], 0
    for item in base.__getitem__(value, slice(0, _MAX_ITEMS)):
        shown.append(_text_of(item, depth + 1))
        length += len(shown[-1])
        if length > _MAX_TEXT_BYTES:  # What follows would be cut off.
            break
    else:
        if size > _MAX_ITEMS:
            shown.append("... %d more" % (size - _MAX_ITEMS))
    return ", ".join(shown)


def _shape(value: Any, kind: Any) -> str:
    """"(shape=[2, 3], dtype=float32)" for what has both, and else nothing."""
    # Of the type, as an object may make up members as they are asked for.
    if not (hasattr(kind, "shape") and hasattr(kind, "dtype")):
        return ""
    try:
        torch = sys.modules.get("torch")
        tensor = getattr(torch, "Tensor", None)
        if tensor is not None and issubclass(kind, tensor):
            # Neither __torch_function__() of a subclass nor a mode is to hear of it.
            with torch._C.DisableTorchFunction():  # type: ignore[union-attr]
                shape, dtype = value.shape, value.dtype
        else:
            shape, dtype = value.shape, value.dtype
        shape = "[%s]" % _items(tuple, shape, 1) if isinstance(shape, tuple) else "?"
        name = getattr(dtype, "name", None)
        if type(name) is not str:
            name = _text_of(dtype, 0)
        return "(shape=%s, dtype=%s)" % (shape, name[6:] if name.startswith("torch.") else name)
    except Exception:  # A nested tensor has no shape.
        return ""


def encode(arguments: Dict[str, Any]) -> Tuple[bytes, int, int]:
    """The inputs of the event; twice how many arguments there are; twice how many are in it.

    What finds no room is left out, and known by these numbers.
    """
    parts: List[bytes] = []
    room, described = _MAX_BYTES, 0
    for key, value in arguments.items():
        if described == 2 * _MAX_ARGUMENTS:
            break
        part = (_keys.get(key) or _key(key)) + _value(value)
        if len(part) > room:
            continue
        parts.append(part)
        room -= len(part)
        described += 2
    return b"".join(parts), min(2 * len(arguments), 254), described
