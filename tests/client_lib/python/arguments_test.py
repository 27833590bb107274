"""What a capture holds of annotate()'s arguments."""

import unittest

from python_targets import DaemonTest, Operator

ARGUMENT_SCOPE = 128


class ArgumentsTest(DaemonTest):

    def record_arguments(self, body, setup="", **options):
        """Per range, in the order of begins: its name, depth, and arguments. Then what was said."""
        events, said = self.record(body, setup=setup, **options)
        self.assertEqual(sum(events.drops), 0)
        by_start = {}
        for event in events.of(Operator):
            self.assertEqual(event.scope, ARGUMENT_SCOPE)
            keys, values = event.inputs[::2], event.inputs[1::2]
            self.assertEqual({kind for kind, _ in keys} | {"string"}, {"string"})
            by_start[event.start, event.thread] = event
            self.assertEqual(len(keys), len(values))
        self.events = events
        rows = []
        for range_ in sorted(events.ranges, key=lambda r: r.start):
            event = by_start.get((range_.start, range_.thread))
            arguments = None if event is None else [
                (key, value) for (_, key), value in zip(event.inputs[::2], event.inputs[1::2])]
            rows.append((range_.name, arguments))
        return rows, said

    def test_arguments_of_every_type_arrive(self):
        rows, _ = self.record_arguments("""
            with profd.annotate("request", id="r-17", tokens=512, share=0.5, cached=True, user=None):
                with profd.annotate("plain"):
                    pass
        """)
        self.assertEqual(rows, [
            ("request", [("id", ("string", "r-17")), ("tokens", ("int", 512)),
                         ("share", ("double", 0.5)), ("cached", ("bool", 1)),
                         ("user", ("none", None))]),
            ("plain", None)])
        request, = self.events.of(Operator)
        self.assertEqual((request.depth, request.input_count), (0, 10))

    def test_values_that_are_numbers_or_texts_in_substance_are_kept_as_such(self):
        rows, _ = self.record_arguments("""
            import enum
            class Text(str):
                def __str__(self):
                    raise ValueError("asked")
            class Real(float):
                pass
            class Level(enum.IntEnum):
                HIGH = 3
            class Color(enum.Enum):
                RED = 1
            class Mode(str, enum.Enum):
                FAST = "fast"
            with profd.annotate("numbers", small=-2**63, large=2**63 - 1, larger=2**63, smaller=-2**63 - 1,
                                level=Level.HIGH, real=Real(0.5), text=Text("t"), color=Color.RED,
                                mode=Mode.FAST, huge=10**5000):
                pass
        """)
        self.assertEqual(rows, [("numbers", [
            ("small", ("int", -2**63)), ("large", ("int", 2**63 - 1)),
            ("larger", ("string", "9223372036854775808")),
            ("smaller", ("string", "-9223372036854775809")),
            ("level", ("int", 3)), ("real", ("double", 0.5)), ("text", ("string", "t")),
            ("color", ("string", "Color.RED")), ("mode", ("string", "fast")),
            ("huge", ("string", "an int of 16610 bits"))])])

    def test_no_other_object_is_asked_for_its_text_or_data(self):
        rows, said = self.record_arguments("""
            import types
            class Guarded:
                asked = []
                def __getattribute__(self, name):
                    Guarded.asked.append(name)
                    raise ValueError(name)
                def refuse(self, *args):
                    Guarded.asked.append("method")
                    raise ValueError("asked")
                __str__ = __repr__ = __index__ = __float__ = __iter__ = __len__ = __bool__ = refuse
                __getitem__ = __array__ = __torch_function__ = refuse
            class dtype:
                def __str__(self):
                    return "torch.float32"
            dtype.__module__ = "torch"
            class Size(tuple):
                pass
            class Tensor:
                asked = []
                shape, dtype = Size([2, 3]), dtype()
                def refuse(self, *args):
                    Tensor.asked.append("method")
                    raise ValueError("asked")
                __str__ = __repr__ = __index__ = __float__ = __iter__ = __len__ = __bool__ = refuse
                __getitem__ = refuse
            class Nested(Tensor):
                @property
                def shape(self):
                    raise RuntimeError("a nested tensor has none")
            with profd.annotate("objects", guarded=Guarded(), tensor=Tensor(), nested=Nested(),
                                both=[Tensor(), Guarded()], shape=Size([2, 3]), dtype=Tensor.dtype,
                                settings={"a": 1}, function=len):
                say("inside")
            say(Guarded.asked + Tensor.asked)
        """)
        self.assertEqual(said, ["inside", []])
        self.assertEqual(rows, [("objects", [(key, ("string", text)) for key, text in (
            ("guarded", "Guarded"), ("tensor", "Tensor(shape=[2, 3], dtype=float32)"),
            ("nested", "Nested"), ("both", "[Tensor(shape=[2, 3], dtype=float32), Guarded]"),
            ("shape", "(2, 3)"), ("dtype", "torch.float32"), ("settings", "dict"),
            ("function", "builtin_function_or_method"))])])

    def test_of_lists_and_bytes_the_begin_is_shown(self):
        rows, said = self.record_arguments("""
            many = list(range(1_000_000))
            nested = [[[1]], (2,), [], [many] * 3]
            nested.append(nested)
            begin = time.process_time()  # Other programs may hold this one up.
            for _ in range(100):
                with profd.annotate("lists", many=many, nested=nested, short=["a", 1, None, True, 0.5],
                                    wide=["x" * 100] * 100, bytes=b"ab\\0", long=b"x" * 10_000_000):
                    pass
            say(time.process_time() - begin)
        """)
        self.assertLess(said[0], 1.0)  # 100 times, each of which took 0.1 s when all was looked at.
        arguments = dict(rows[0][1])
        first = ", ".join(map(str, range(16)))
        self.assertEqual(arguments.pop("many"), ("string", "[%s, ... 999984 more]" % first))
        self.assertEqual(arguments.pop("nested"), ("string", "[[[...]], (2,), [], [[...], [...], [...]], "
                                                   "[[...], (...,), [...], [...], [...]]]"))
        self.assertEqual(arguments.pop("short"), ("string", "['a', 1, None, True, 0.5]"))
        self.assertEqual(arguments.pop("wide")[1][:110], "['" + "x" * 100 + "', 'xxxx")
        self.assertEqual(arguments.pop("bytes"), ("string", "b'ab\\x00'"))
        self.assertEqual(arguments.pop("long"), ("string", "b'" + "x" * 254))
        self.assertEqual(arguments, {})

    def test_scalars_of_numpy_are_numbers_and_arrays_are_not_read(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("no numpy")
        rows, _ = self.record_arguments("""
            import numpy as np
            with profd.annotate("numpy", i=np.int32(-3), u=np.uint64(2**64 - 1), f=np.float32(0.5),
                                d=np.float64(0.25), b=np.bool_(True), s=np.str_("t"),
                                a=np.zeros((2, 3), np.float32)):
                pass
        """)
        self.assertEqual(rows, [("numpy", [
            ("i", ("int", -3)), ("u", ("string", str(2**64 - 1))), ("f", ("double", 0.5)),
            ("d", ("double", 0.25)), ("b", ("bool", 1)), ("s", ("string", "t")),
            ("a", ("string", "ndarray(shape=[2, 3], dtype=float32)"))])])

    def test_odd_keys_and_texts_fail_nobody(self):
        rows, said = self.record_arguments("""
            class Broken(type):
                @property
                def __name__(self):
                    raise ValueError("broken")
            class Value(metaclass=Broken):
                pass
            with profd.annotate("odd", nul="a\\0b", alone="\\udc80", broken=Value(), name="n", self=1,
                                **{"": 1, "with space": 2, "caf\\u00e9": 3}):
                say("inside")
        """)
        self.assertEqual(said, ["inside"])
        self.assertEqual(rows, [("odd", [
            ("nul", ("string", "a\0b")), ("alone", ("string", "?")), ("broken", ("other", None)),
            ("name", ("string", "n")), ("self", ("int", 1)), ("?", ("int", 1)),
            ("with space", ("int", 2)), ("caf\u00e9", ("int", 3))])])

    def test_long_texts_are_cut_at_a_character(self):
        rows, _ = self.record_arguments("""
            with profd.annotate("long", text="x" * 10_000_000, accents="\\u00e9" * 200,
                                odd="a" + "\\u00e9" * 200, **{"k" * 100: 1}):
                pass
        """)
        (_, arguments), = rows
        self.assertEqual(arguments, [
            ("text", ("string", "x" * 256)), ("accents", ("string", "\u00e9" * 128)),
            ("odd", ("string", "a" + "\u00e9" * 127)), ("k" * 64, ("int", 1))])

    def test_what_finds_no_room_is_left_out_and_counted(self):
        rows, _ = self.record_arguments("""
            with profd.annotate("many", **{"k%d" % i: i for i in range(40)}):
                pass
            with profd.annotate("large", **{"k%d" % i: "x" * 300 for i in range(20)}):
                pass
            with profd.annotate("very many", **{"k%d" % i: i for i in range(200)}):
                pass
        """)
        many, large, very_many = [arguments for _, arguments in rows]
        self.assertEqual(many, [("k%d" % i, ("int", i)) for i in range(32)])
        self.assertEqual(len(large), 14)
        self.assertEqual(len(very_many), 32)
        self.assertEqual([event.input_count for event in self.events.of(Operator)], [80, 40, 254])

    def test_ranges_that_end_out_of_order_or_elsewhere_keep_their_arguments(self):
        rows, _ = self.record_arguments("""
            import asyncio, threading
            async def request(number):
                with profd.annotate("request", id=number):
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
            async def main():
                await asyncio.gather(*[request(i) for i in range(3)])
            asyncio.run(main())
            block = profd.annotate("handed over", id=3)
            block.__enter__()
            thread = threading.Thread(target=block.__exit__, args=(None, None, None))
            thread.start()
            thread.join()
        """)
        by_start = {event.start: event.inputs[1][1] for event in self.events.of(Operator)}
        self.assertEqual([(name, by_start[range_.start]) for (name, _), range_ in
                          zip(rows, sorted(self.events.ranges, key=lambda r: r.start))],
                         [("request", 0), ("request", 1), ("request", 2), ("handed over", 3)])
        self.assertEqual(self.events.open_ranges, [])

    def test_decorated_functions_have_them_at_each_call(self):
        rows, _ = self.record_arguments("""
            import asyncio
            @profd.annotate("function", kind="f")
            def function(depth):
                if depth:
                    function(depth - 1)
            @profd.annotate("coroutine", kind="c")
            async def coroutine():
                await asyncio.sleep(0)
            function(1)
            before()
            asyncio.run(coroutine())
        """, setup="@profd.annotate('before', kind='b')\ndef before(): pass\n")
        self.assertEqual([(name, arguments[0][1][1]) for name, arguments in rows],
                         [("function", "f"), ("function", "f"), ("before", "b"),
                          ("coroutine", "c"), ("coroutine", "c")])

    def test_one_object_may_be_entered_on_many_threads(self):
        rows, _ = self.record_arguments("""
            import threading
            barrier = threading.Barrier(4)
            def work():
                with shared:
                    barrier.wait()
                    with shared:
                        barrier.wait()
                    barrier.wait()
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        """, setup="shared = profd.annotate('shared', a=1)\n")
        self.assertEqual(rows, [("shared", [("a", ("int", 1))])] * 8)
        self.assertEqual(sorted(r.depth for r in self.events.ranges), [0] * 4 + [1] * 4)

    def test_threads_that_share_a_block_fail_nobody(self):
        rows, said = self.record_arguments("""
            import threading
            sys.setswitchinterval(1e-6)
            shared, failed = profd.annotate("shared", a=1), []
            def work():
                try:
                    for _ in range(1000):
                        with shared:
                            with shared:
                                pass
                except BaseException as error:
                    failed.append(repr(error))
            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            say(failed)
        """, memory_bytes=32 << 20)
        self.assertEqual(said, [[]])
        self.assertEqual(len(rows), 16_000)
        self.assertEqual({range_.depth for range_ in self.events.ranges}, {0, 1})
        self.assertEqual(self.events.open_ranges, [])

    def test_a_thread_that_entered_before_ends_no_other_threads_range(self):
        _, said = self.record_arguments("""
            opened = []
            from profd import _ranges
            close = _ranges._close
            _ranges._close = lambda handle: (opened.append("closed"), close(handle))
            with shared:
                leave.set()
                early.join()
                say(opened)
            say(opened)
        """, setup="""
import threading
shared, entered, leave = profd.annotate("shared", a=1), threading.Event(), threading.Event()
def enter_early():
    with shared:
        entered.set()
        leave.wait()
early = threading.Thread(target=enter_early)
early.start()
entered.wait()
""")
        self.assertEqual(said, [[], ["closed"]])

    def test_what_is_handed_over_is_ended_by_whoever_has_none_of_its_own(self):
        rows, _ = self.record_arguments("""
            import threading
            def on_a_thread(*calls):
                def run():
                    for call in calls:
                        call()
                thread = threading.Thread(target=run)
                thread.start()
                thread.join()
            block = profd.annotate("handed over", a=1)
            end = lambda: block.__exit__(None, None, None)
            block.__enter__()
            block.__enter__()
            on_a_thread(end)               # One of the two.
            on_a_thread(block.__enter__, end)
            end()                          # The other.
            end()
            on_a_thread(end)
        """)
        self.assertEqual(len(rows), 3)
        self.assertEqual(self.events.open_ranges, [])

    def test_values_are_looked_at_only_while_a_capture_records(self):
        _, said = self.record_arguments("""
            say(calls)
            with profd.annotate("recorded", value=counted):
                pass
            say(calls)
        """, setup="""
calls = 0
class Counted:
    dtype = None
    @property
    def shape(self):
        global calls
        calls += 1
        return (1,)
counted = Counted()
with profd.annotate("idle", value=counted):
    pass
""")
        self.assertEqual(said, [0, 1])

    def test_without_functions_of_c_it_is_the_same(self):
        rows, said = self.record_arguments("""
            from profd import _library, _ranges
            say(type(profd.annotate).__name__)
            function = _library.lib.profd_range_open_with
            function.restype = _library.RangeHandle
            _ranges._open_with = lambda name, inputs, *counts: function(
                name, inputs, len(inputs), *counts)
            _ranges._close = _library.lib.profd_range_close
            with _ranges._annotate("in python", a=1):
                with _ranges._annotate("inner", b="x"):
                    pass
        """)
        self.assertEqual(said, ["builtin_function_or_method"])
        self.assertEqual(rows, [("in python", [("a", ("int", 1))]),
                                ("inner", [("b", ("string", "x"))])])


class CallTest(DaemonTest):

    def test_wrong_calls_raise_whether_a_capture_runs_or_not(self):
        check = """
def kinds():
    found = []
    for call in (lambda: profd.annotate(), lambda: profd.annotate("a", "b"),
                 lambda: profd.annotate([]), lambda: profd.annotate(7), lambda: profd.annotate(7, a=1),
                 lambda: profd.annotate(name="b"), lambda: profd.annotate(a=1)):
        try:
            call()
            found.append("none")
        except Exception as error:
            found.append(type(error).__name__)
    return found
idle = kinds()
"""
        _, said = self.record("""
            say(idle)
            say(kinds())
            say([profd.annotate("x", name="y").name, profd.annotate("x", a=1).name,
                 repr(profd.annotate("x", a=1)), profd.annotate.__name__, profd.annotate.__module__])
            import inspect
            say(str(inspect.signature(profd.annotate)))
        """, setup=check)
        self.assertEqual(said[0], ["TypeError"] * 7)
        self.assertEqual(said[1], ["TypeError"] * 7)
        self.assertEqual(said[2], ["x", "x", "profd.annotate('x')", "annotate", "profd._ranges"])
        self.assertEqual(said[3], "(name, /, **arguments)")

    def test_it_is_pickled_by_its_name(self):
        _, said = self.record("""
            import pickle
            kinds = [pickle]
            try:
                import cloudpickle
                kinds.append(cloudpickle)
            except ImportError:
                pass
            annotate = profd.annotate
            say([pickle.loads(kind.dumps(annotate, protocol)) is annotate
                 for kind in kinds for protocol in range(pickle.HIGHEST_PROTOCOL + 1)])
            say([annotate.__qualname__, getattr(sys.modules[annotate.__module__], "annotate") is annotate,
                 annotate.__reduce__()])
        """)
        self.assertEqual(set(said[0]), {True})
        self.assertEqual(said[1], ["annotate", True, "annotate"])

    def test_a_second_copy_of_the_package_is_apart(self):
        rows, said = self.record("""
            first = profd.annotate
            for name in [name for name in sys.modules if name.split(".")[0] == "profd"]:
                del sys.modules[name]
            import profd as second
            say([first is second.annotate, type(second.annotate).__name__])
            with first("first"), second.annotate("second"):
                pass
        """)
        self.assertEqual(said, [[False, "function"]])
        self.assertEqual(sorted(range_.name for range_ in rows.ranges), ["first", "second"])


if __name__ == "__main__":
    unittest.main()
