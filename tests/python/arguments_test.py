"""What a capture holds of annotate()'s arguments."""

import unittest

from python_targets import DaemonTest, Operator

ARGUMENT_SCOPE = 128


class ArgumentsTest(DaemonTest):

    def record_arguments(self, body, setup=""):
        """Per range, in the order of begins: its name, depth, and arguments. Then what was said."""
        events, said = self.record(body, setup=setup)
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

    def test_other_values_are_text_and_fail_nobody(self):
        rows, said = self.record_arguments("""
            import enum
            class Broken:
                def __str__(self):
                    raise ValueError("broken")
            class Text(str):
                pass
            class Level(enum.IntEnum):
                HIGH = 3
            with profd.annotate("odd", shape=(2, 3), broken=Broken(), large=2**63, small=-2**63 + 1,
                                huge=10**5000, text=Text("t"), nul="a\\0b", alone="\\udc80",
                                **{"": 1, "with space": 2, "caf\\u00e9": 3}):
                say("inside")
        """)
        self.assertEqual(said, ["inside"])
        (_, arguments), = rows
        self.assertEqual(arguments, [
            ("shape", ("string", "(2, 3)")), ("broken", ("other", None)),
            ("large", ("string", "9223372036854775808")), ("small", ("int", -2**63 + 1)),
            ("huge", ("other", None) if hasattr(__import__("sys"), "get_int_max_str_digits")
             else ("string", "1" + "0" * 255)),
            ("text", ("string", "t")), ("nul", ("string", "a\0b")), ("alone", ("string", "?")),
            ("?", ("int", 1)), ("with space", ("int", 2)), ("caf\u00e9", ("int", 3))])

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

    def test_values_become_text_only_while_a_capture_records(self):
        _, said = self.record_arguments("""
            say(calls)
            with profd.annotate("recorded", value=counted):
                pass
            say(calls)
        """, setup="""
calls = 0
class Counted:
    def __str__(self):
        global calls
        calls += 1
        return "text"
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
                with _ranges._annotate(name="inner", b="x"):
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
                 lambda: profd.annotate("a", name="b"), lambda: profd.annotate(a=1)):
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
            say([profd.annotate(name="x").name, profd.annotate("x", a=1).name,
                 repr(profd.annotate("x", a=1)), profd.annotate.__name__, profd.annotate.__module__])
            import inspect
            say(str(inspect.signature(profd.annotate)))
        """, setup=check)
        self.assertEqual(said[0], ["TypeError"] * 7)
        self.assertEqual(said[1], ["TypeError"] * 7)
        self.assertEqual(said[2], ["x", "x", "profd.annotate('x')", "annotate", "profd._ranges"])
        self.assertEqual(said[3], "(name, **arguments)")


if __name__ == "__main__":
    unittest.main()
