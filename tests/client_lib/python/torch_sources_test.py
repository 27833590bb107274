"""Which line of the program generated code comes from: what _torch_sources makes of tables that are,
and are not, as torch keeps them. Needs no torch.
"""

import contextlib
import pathlib
import sys
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client_lib" / "python"))

from profd import _torch_sources  # noqa: E402
from profd._torch_sources import Range, Sources  # noqa: E402

TORCH = types.SimpleNamespace(__file__="/usr/lib/site-packages/torch/__init__.py")
LINEAR = "/usr/lib/site-packages/torch/nn/modules/linear.py"


def trace(*frames):
    """As torch writes one: the outermost first."""
    return "".join('  File "%s", line %d, in %s\n    x = f(x)\n        ^^^^\n' % each for each in frames)


@contextlib.contextmanager
def tables(linemaps, **more):
    cache = type("PyCodeCache", (), {"linemaps": linemaps, **more})
    module = types.SimpleNamespace(PyCodeCache=cache)
    with unittest.mock.patch.dict(sys.modules, {"torch._inductor.codecache": module}):
        yield


class Hostile:
    """Fails the test when anything of it is called."""

    def __getattribute__(self, name):
        raise SystemExit("called: " + name)

    def __eq__(self, other):
        raise SystemExit("called: __eq__")

    __hash__ = object.__hash__

    def __bool__(self):
        raise SystemExit("called: __bool__")

    def __len__(self):
        raise SystemExit("called: __len__")

    def __iter__(self):
        raise SystemExit("called: __iter__")


class HostileText(str):
    def __str__(self):
        raise SystemExit("called: __str__")

    def __bool__(self):
        raise SystemExit("called: __bool__")


class SourcesTest(unittest.TestCase):

    def ranges(self, linemaps):
        self.sources = Sources(TORCH)
        with tables(linemaps):
            return list(self.sources.ranges())

    def test_a_range_has_the_innermost_line_of_its_trace(self):
        outer, inner = ("/me/net.py", 18, "forward"), ("/me/net.py", 8, "Net.<lambda>")
        self.assertEqual(self.ranges({"/tmp/g.py": [(5, 9), (trace(outer, inner), trace(outer))]}),
                         [Range("/tmp/g.py", 5, "/me/net.py(8): Net.<lambda>"),
                          Range("/tmp/g.py", 9, "/me/net.py(18): forward")])
        self.assertEqual((self.sources.odd_files, self.sources.lost_ranges), (0, 0))

    def test_lines_of_torch_give_way_to_those_of_the_program(self):
        mine, torchs = ("/me/net.py", 18, "forward"), (LINEAR, 125, "forward")
        found = self.ranges({"g.py": [(5, 9), (trace(mine, torchs), trace(torchs))]})
        self.assertEqual([each.source for each in found],
                         ["/me/net.py(18): forward", LINEAR + "(125): forward"])

    def test_so_do_lines_of_pythons_library_but_not_those_of_other_packages(self):
        mine, theirs = ("/me/net.py", 18, "forward"), ("/usr/lib/python3.11/functools.py", 9, "call")
        other = ("/usr/lib/python3.11/site-packages/timm/layers.py", 7, "forward")
        found = self.ranges({"g.py": [(5, 9), (trace(mine, theirs), trace(mine, other, theirs))]})
        self.assertEqual([each.source for each in found],
                         ["/me/net.py(18): forward", other[0] + "(7): forward"])

    def test_ranges_without_a_trace_end_those_before(self):
        here = trace(("n.py", 1, "f"))
        found = self.ranges({"g.py": [(1, 2, 3, 4, 5), (here, here, None, "", here)]})
        self.assertEqual([(each.line, each.source) for each in found],
                         [(1, "n.py(1): f"), (3, None), (5, "n.py(1): f")])

    def test_a_torch_without_a_table_has_no_lines(self):
        self.assertEqual(list(Sources(TORCH).ranges()), [])
        self.assertEqual(self.ranges(None), [])
        self.assertEqual(self.ranges({}), [])
        with unittest.mock.patch.dict(sys.modules, {"torch._inductor.codecache": types.SimpleNamespace()}):
            self.assertEqual(list(Sources(TORCH).ranges()), [])

    def test_code_without_lines_is_not_odd(self):
        self.assertEqual(self.ranges({"kernel.py": []}), [])
        self.assertEqual(self.sources.odd_files, 0)

    def test_tables_in_another_form_are_counted_and_nothing_of_them_is_called(self):
        here = trace(("n.py", 1, "f"))
        odd = [Hostile(), [Hostile(), Hostile()], [(1,), Hostile()], [(1,), (Hostile(),)],
               [(Hostile(),), (here,)], [(1,), (HostileText(here),)], [(1, 2), (here,)], [(1,)],
               [(2, 1), (here, here)], [(0,), (here,)], [(2**31,), (here,)], [(True,), (here,)],
               [("1",), (here,)], {1: here}, 5, None, [(1.0,), (here,)],
               [tuple(range(1, 70_000)), (here,) * 69_999]]
        linemaps = {"%d.py" % at: table for at, table in enumerate(odd)}
        linemaps[HostileText("text.py")] = [(1,), (here,)]
        linemaps[7] = [(1,), (here,)]
        linemaps["good.py"] = [(1,), (here,)]
        self.assertEqual(self.ranges(linemaps), [Range("good.py", 1, "n.py(1): f")])
        self.assertEqual(self.sources.odd_files, len(odd) + 2)

    def test_traces_that_are_none_have_no_line(self):
        texts = ("x", "File", '  File "n.py", line x, in f\n', '  File "n.py", line 1' + "0" * 99 + ", in f\n",
                 "\n" * 100_000, '  File "' * 100_000, '  File "%s", line 1, in f\n' % ("n" * 2000))
        found = self.ranges({"g.py": [tuple(range(1, len(texts) + 1)), texts]})
        self.assertEqual([each.source for each in found], [None])

    def test_ranges_beyond_the_room_are_counted_and_the_newest_files_are_kept(self):
        here = [trace(("n.py", line, "f")) for line in range(1, 5)]
        linemaps = {"%d.py" % at: [(1, 2, 3, 4), tuple(here)] for at in range(3)}
        with unittest.mock.patch.object(_torch_sources, "MOST_RANGES", 6):
            found = self.ranges(linemaps)
        self.assertEqual([each.file for each in found], ["2.py"] * 4 + ["1.py"] * 2)
        self.assertEqual(self.sources.lost_ranges, 6)

    def test_the_lock_is_given_up_after_each_millisecond(self):
        here = [trace(("n.py", line, "f")) for line in range(1, 1001)]
        clock = iter(index * 0.0004 for index in range(1_000_000))
        with unittest.mock.patch.object(_torch_sources, "time") as time:
            time.monotonic.side_effect = lambda: next(clock)
            self.ranges({"g.py": [tuple(range(1, 1001)), tuple(here)]})
        # Each look at the clock is 0.4 ms; the fourth after a pause is beyond 1 ms.
        self.assertGreater(time.sleep.call_count, 200)


if __name__ == "__main__":
    unittest.main()
