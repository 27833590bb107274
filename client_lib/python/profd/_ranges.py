"""annotate(), mark() and counter(): what a thread does, and when."""

import functools
import inspect
import threading
import types
from typing import Any, Callable, Dict, Tuple, TypeVar

from profd._arguments import encode
from profd._library import (annotate_function, flag, intern_name, lib, namer,
                            range_close as _close, range_open as _open,
                            range_open_with as _open_with, require_name)

# Ranges kept by name. Names made up as one goes ("batch 17") must not grow this without
# bound: it is emptied when full, which is always safe: the program keeps the Ranges it has.
_MAX_CACHED_RANGES = 8192
_ranges: Dict[str, "_SharedRange"] = {}

# A function keeps its type where it is decorated.
_Decorated = TypeVar("_Decorated")

_thread_id = threading.get_ident


class Range:
    """What annotate() returns: a named range, as context manager and as decorator.

    One object may be entered many times, also nested: an exit ends what was entered last.
    """

    # No __init__(): it would take as long as all the rest of making an object.
    __slots__ = ()

    def __call__(self, function: _Decorated) -> _Decorated:
        """Decorates `function`: each call is a range.

        Of a generator, coroutine or asynchronous generator the ranges are the times it
        runs, from each resumption to the next suspension: what others do meanwhile on
        this thread is not its own.
        """
        return self._decorate(function)

    def _decorate(self, function: Any) -> Any:
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self._decorate(function.__func__))
        if inspect.isclass(function) or not callable(function):
            raise TypeError("annotate() decorates functions, not %r" % (function,))
        return functools.wraps(function)(self._wrap(function))

    def _wrap(self, function: Callable) -> Callable:
        if inspect.iscoroutinefunction(function):
            return _wrap_coroutine(self, function)
        if inspect.isasyncgenfunction(function):
            return _wrap_async_generator(self, function)
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self, function)

        def wrapper(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
        return wrapper

    def __repr__(self) -> str:
        return "profd.annotate(%r)" % self.name


class _SharedRange(Range):
    """What annotate() returns while nothing records: one object for all calls with a name.

    An exit ends what was entered last on the same thread.
    """

    __slots__ = ("name", "_id", "_entered")

    def __init__(self, name: str) -> None:
        self.name = name
        self._id = 0  # Interned at its first use in a capture.
        # By thread: the handle of what it entered last, and the same of the others. A thread uses
        # its own only.
        self._entered: Dict[int, Tuple[Any, Any]] = {}

    # The two methods below are the hot path: two reads while nothing records.

    def __enter__(self) -> "Range":
        if flag[0]:
            namer.named
            entered, thread = self._entered, _thread_id()
            entered[thread] = (_open(self._id or self.name_id()), entered.get(thread))
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        # Also when nothing records any more, so that no later exit takes it for its own.
        if self._entered:
            self._leave()

    def _leave(self) -> None:
        opened = self._entered.pop(_thread_id(), None)
        if opened is None:
            return
        _close(opened[0])
        if opened[1] is not None:
            self._entered[_thread_id()] = opened[1]

    def name_id(self) -> int:
        """The library's id of the name. Only while something records."""
        self._id = self._id or intern_name(self.name)
        return self._id


class _Block(Range):
    """What annotate() returns while something records: an object for each call.

    So blocks of asyncio tasks that overlap are kept apart, also those of one name, and a
    block may end on another thread.
    """

    # annotate() sets them. `_opened` is as the values of _SharedRange._entered, or None.
    __slots__ = ("_shared", "_opened")

    _shared: _SharedRange
    _opened: Any

    def __enter__(self) -> "Range":
        if flag[0]:
            namer.named
            shared = self._shared
            self._opened = (_open(shared._id or shared.name_id()), self._opened)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        opened = self._opened
        if opened is not None:
            self._opened = opened[1]
            _close(opened[0])

    @property
    def name(self) -> str:
        return self._shared.name

    def _decorate(self, function: Any) -> Any:
        # Of a function's calls, which may be many at once, each thread ends its own.
        return self._shared._decorate(function)


class _SharedRangeWithArguments(_SharedRange):
    """What a function is decorated with by annotate(name, **arguments)."""

    __slots__ = ("_arguments",)

    def __init__(self, name: str, arguments: Dict[str, Any]) -> None:
        super().__init__(name)
        self._arguments = arguments

    def __enter__(self) -> "Range":
        if flag[0]:
            namer.named
            inputs = encode(self._arguments)
            entered, thread = self._entered, _thread_id()
            entered[thread] = (_open_with(self._id or self.name_id(), *inputs),
                               entered.get(thread))
        return self


_IDLE = (None, None)


class _BlockWithArguments(Range):
    """What annotate() returns for a name with arguments: an object for each call.

    It may be made while nothing records, be entered later, on many threads at once, and end on
    another thread.
    """

    # annotate() sets them. `_entered` is as of _SharedRange, also of what was entered while nothing
    # records, which has no handle (None): a thread that entered ends its own. What another thread
    # handed over it takes by popitem(), and puts the rest back under a key that is no thread's.
    # Each step on the dict is one that no other thread can come between.
    __slots__ = ("_shared", "_arguments", "_entered")

    _shared: _SharedRange
    _arguments: Dict[str, Any]
    _entered: Dict[Any, Tuple[Any, Any]]

    def __enter__(self) -> "Range":
        entered, thread = self._entered, _thread_id()
        outer = entered.pop(thread, None) if entered else None
        if flag[0]:
            namer.named
            inputs, shared = encode(self._arguments), self._shared
            entered[thread] = (_open_with(shared._id or shared.name_id(), *inputs), outer)
        else:
            entered[thread] = _IDLE if outer is None else (None, outer)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        entered, key = self._entered, _thread_id()
        opened = entered.pop(key, None)
        if opened is _IDLE:
            return
        if opened is None:  # Handed over by another thread, or not entered at all.
            try:
                opened = entered.popitem()[1]
            except KeyError:
                return
            key = object()
        if opened[1] is not None:
            entered[key] = opened[1]
        if opened[0] is not None:
            _close(opened[0])

    @property
    def name(self) -> str:
        return self._shared.name

    def _decorate(self, function: Any) -> Any:
        return _SharedRangeWithArguments(self.name, self._arguments)._decorate(function)


def _drive(range_, inner):
    """Runs a generator or an awaitable's iterator, each resumption inside `range_`."""
    resume, argument = inner.send, None
    while True:
        try:
            with range_:
                yielded = resume(argument)
        except StopIteration as stop:
            return stop.value
        try:
            argument = yield yielded
            resume = inner.send
        except GeneratorExit:
            with range_:
                inner.close()
            raise
        except BaseException as error:  # Thrown in from outside: it is for `inner`.
            resume, argument = inner.throw, error


_awaitable_drive = types.coroutine(_drive)


def _wrap_generator(range_, function):
    def wrapper(*args, **kwargs):
        return (yield from _drive(range_, function(*args, **kwargs)))
    return wrapper


def _wrap_coroutine(range_, function):
    async def wrapper(*args, **kwargs):
        return await _awaitable_drive(range_, function(*args, **kwargs))
    return wrapper


def _wrap_async_generator(range_, function):
    async def wrapper(*args, **kwargs):
        inner = function(*args, **kwargs)
        resume, argument = inner.asend, None
        while True:
            try:
                yielded = await _awaitable_drive(range_, resume(argument))
            except StopAsyncIteration:
                return
            try:
                argument = yield yielded
                resume = inner.asend
            except GeneratorExit:
                await _awaitable_drive(range_, inner.aclose())
                raise
            except BaseException as error:
                resume, argument = inner.athrow, error
    return wrapper


def annotate(name: str, /, **arguments: Any) -> Range:
    """A range of this thread's time: `with annotate("forward"):` or `@annotate("forward")`.

    `name` is any str; beyond 4096 bytes of UTF-8 it is cut, and ends with a hash. Ranges nest per thread,
    128 deep; deeper ones are dropped and counted. A process may use 65,536 names; the
    rest become "(other)". An exception passes through and ends the range.

    `arguments` are shown with the range: `with annotate("request", id="r-17", tokens=512):`. Any
    name will do, also "name": that of the range is given by its position. A value is a str, int,
    float, bool, or None, a number of numpy, a member of an enum, bytes, or a list or tuple of
    these, of which the first 16 are shown. Of any other object its type is shown, and of what has a
    shape and a dtype these too, as in "Tensor(shape=[2, 3], dtype=float32)": neither its __str__()
    nor its data is asked for, as a value on a GPU would have to be waited for. Use str() yourself
    for more. Values are looked at only while a capture records. Up to 32 arguments are kept, keys
    of 64 bytes, texts of 256, and 4,000 bytes in all; what is cut or left out is counted. Texts
    that differ from call to call belong here, not into `name`.

    A `with` block may span an `await` or a `yield`, and then lasts as long as the block:
    what overlaps other ranges of the thread without nesting is on a row of its own.
    Decorate the function for the time in which it runs.

    Raises TypeError if `name` is not a str.
    """
    if not arguments:
        return _annotate_name(name)
    block = _BlockWithArguments()
    block._shared = _shared(name)
    block._arguments = arguments
    block._entered = {}
    return block


def _annotate_name(name: str) -> Range:
    try:
        shared = _ranges[name]
    except KeyError:
        shared = _add_range(name)
    if not flag[0]:
        return shared
    block = _Block()
    block._shared = shared
    block._opened = None
    return block


def _shared(name: str) -> _SharedRange:
    try:
        return _ranges[name]
    except KeyError:
        return _add_range(name)


def _add_range(name: str) -> _SharedRange:
    if not isinstance(name, str):
        raise TypeError('annotate() takes a name, as in annotate("forward"), not %r' % (name,))
    if len(_ranges) >= _MAX_CACHED_RANGES:
        _ranges.clear()
    made = _ranges[name] = _SharedRange(name)
    return made


# The same as a function of C, where this Python can have one: a call with a name alone then costs
# what it would cost without arguments, and less.
_annotate = annotate
annotate = annotate_function(_ranges, _annotate, _Block)


def mark(name: str) -> None:
    """A point in time on this thread: `mark("checkpoint written")`.

    `name` as for annotate(). Raises TypeError if it is not a str.
    """
    require_name(name, "name of a mark")
    if flag[0]:
        namer.named
        lib.profd_instant_id(_shared(name).name_id())


def counter(name: str, value: Any) -> None:
    """A sample of the series `name`: `counter("loss", 0.31)`.

    `value` is a number, or anything else that float() takes, such as a tensor of one
    element. float() is called only while recording, so a value on a device is not waited
    for otherwise; if it raises then, the sample is left out. Infinities and NaN are fine.

    Raises TypeError if `name` is not a str or `value` could never be a number.
    """
    require_name(name, "name of a counter")
    kind = type(value)
    if not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
        raise TypeError("value of counter %r must be a number, not %s" % (name, kind.__name__))
    if flag[0]:
        namer.named
        try:
            sample = float(value)
        except Exception:  # Must not fail a program only because a capture runs.
            return
        lib.profd_counter_id(_shared(name).name_id(), sample)
