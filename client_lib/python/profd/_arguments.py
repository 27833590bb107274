"""The key-value arguments of annotate(), as the bytes of proto/wire/range_arguments.h.

Only while something records. Nothing here raises: a capture must not make a program fail.
"""

import struct
from typing import Any, Dict, List, Tuple

# As in proto/wire.
_MAX_ARGUMENTS = 32
_MAX_KEY_BYTES = 64
_MAX_TEXT_BYTES = 256
_MAX_BYTES = 4096 - 48  # What an event has room for behind its head.
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
        return _text(str(value), _MAX_TEXT_BYTES)
    except Exception:  # Of its __str__(), or an int of more digits than Python turns into text.
        return _NO_VALUE


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
