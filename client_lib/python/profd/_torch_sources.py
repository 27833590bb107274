"""Which line of the program each line of Inductor's generated code comes from.

torch keeps this for each generated file, also for one that it loads from its cache, in
`torch._inductor.codecache.PyCodeCache.linemaps`: the first lines of ranges, and the stack trace of
the node that each range computes (`stack_frames_for_code()` next to it reads them the same way). A
torch that has no such table has no source lines, and no error.

Only objects of exactly the types that torch puts there are looked at, so that no code of the program
runs. A file whose table looks different is left out and counted.

Threads: any, with the GIL, which is given up after each millisecond.
"""

import os
import re
import sys
import time
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

_SLICE_S = 0.001
_PAUSE_S = 0.0005
# Ranges of one capture: those of the files that were loaded last. Each different line is a name of
# the capture, which has room for 65,536.
MOST_RANGES = 16384
_MOST_LINE = 2**31 - 1
# Of one file. The largest of torch's have some thousand.
_MOST_ROWS = 65536
_ROWS_AT_ONCE = 256  # Are checked without a look at the time: 0.2 ms.
# The innermost frames of a trace are its last bytes.
_MOST_TRACE = 4096
_MOST_PLACE = 1024

_FRAME = re.compile(r'^ {0,8}File "([^"\n]+)", line (\d{1,9}), in ([^\n]+)$', re.MULTILINE)


class Range(NamedTuple):
    """Generated code from `line` to the next range of its file: "model.py(12): forward"; None: of no
    line of the program."""

    file: str
    line: int
    source: Optional[str]


class Sources:
    """The table as it is now."""

    def __init__(self, torch: Any) -> None:
        self._torch = os.path.dirname(str(torch.__file__)) + os.sep
        self.odd_files = 0
        self.lost_ranges = 0
        self._began = 0.0

    def ranges(self) -> Iterator[Range]:
        """Those of each file in order of their lines. odd_files and lost_ranges hold after the last."""
        self._began = time.monotonic()
        left = MOST_RANGES
        for file, table in reversed(_tables()):
            columns = _columns(file, table)
            if columns is None or not self._are_as_torch_has_them(*columns):
                self.odd_files += 1
                continue
            last: Any = self  # Of no range.
            for line, trace in zip(*columns):
                source = self._source(trace) if trace else None
                if source != last:
                    last = source
                    if left > 0:
                        left -= 1
                        yield Range(file, line, source)
                    else:
                        self.lost_ranges += 1
                self._pause()

    def _pause(self) -> None:
        if time.monotonic() - self._began > _SLICE_S:
            time.sleep(_PAUSE_S)
            self._began = time.monotonic()

    def _are_as_torch_has_them(self, lines: List[Any], traces: List[Any]) -> bool:
        """First lines in ascending order, and traces or None."""
        for at in range(0, len(lines), _ROWS_AT_ONCE):
            # One more, for the order of the next part.
            some = lines[at:at + _ROWS_AT_ONCE + 1]
            if any(type(line) is not int for line in some) or \
                    any(not 0 < line <= _MOST_LINE for line in some) or some != sorted(some):
                return False
            if any(trace is not None and type(trace) is not str
                   for trace in traces[at:at + _ROWS_AT_ONCE]):
                return False
            self._pause()
        return True

    def _source(self, trace: str) -> Optional[str]:
        """The innermost frame that is not of torch or Python's own library, else the innermost."""
        frames = _FRAME.findall(trace[-_MOST_TRACE:])
        if not frames:
            return None
        own = [frame for frame in frames
               if not frame[0].startswith(self._torch) and not _is_library(frame[0])]
        file, line, function = (own or frames)[-1]
        place = "%s(%d): %s" % (file, int(line), function.strip())
        return place if len(place) <= _MOST_PLACE else None


def _is_library(file: str) -> bool:
    """As StackTable::IsLibrary() in daemon/report/index/stack_table.h."""
    for packages in ("/site-packages/", "/dist-packages/"):
        at = file.find(packages)
        if at >= 0:
            return file.startswith(("torch/", "profd/"), at + len(packages))
    return "/lib/python3." in file


def _tables() -> List[Tuple[Any, Any]]:
    cache = vars(sys.modules.get("torch._inductor.codecache", sys)).get("PyCodeCache")
    if type(cache) is not type:
        return []
    tables = type.__getattribute__(cache, "__dict__").get("linemaps")
    # list() of a dict's items is one step as far as the GIL is concerned.
    return list(tables.items()) if type(tables) is dict else []


def _columns(file: Any, table: Any) -> Optional[Tuple[List[Any], List[Any]]]:
    """Copies of the table's two columns, of one length; None if it has others."""
    if type(file) is not str or type(table) not in (list, tuple):
        return None
    # Code without a table: kernels have files of their own.
    columns = list(table)
    if not columns:
        return [], []
    if len(columns) != 2 or any(type(column) not in (list, tuple) for column in columns):
        return None
    if len(columns[0]) > _MOST_ROWS or len(columns[1]) > _MOST_ROWS:
        return None
    lines, traces = list(columns[0]), list(columns[1])
    return (lines, traces) if len(lines) == len(traces) else None
