"""What a capture of a Python program holds."""

import unittest

from python_targets import Counter, DaemonTest, Instant, Memory, Step


class RangeTest(DaemonTest):

    def test_ranges_nest(self):
        events, _ = self.record("""
            with profd.annotate("outer"):
                with profd.annotate("inner"):
                    pass
                with profd.annotate("inner"):
                    pass
        """)
        self.assertEqual([(r.name, r.depth) for r in events.ranges],
                         [("inner", 1), ("inner", 1), ("outer", 0)])
        first, second, outer = events.ranges
        self.assertLessEqual(outer.start, first.start)
        self.assertLessEqual(first.start + first.duration, second.start)
        self.assertLessEqual(second.start + second.duration, outer.start + outer.duration)

    def test_one_object_may_be_entered_again_while_it_is_open(self):
        events, _ = self.record("""
            scope = profd.annotate("scope")
            with scope:
                with scope, scope:
                    pass
        """)
        self.assertEqual([(r.name, r.depth) for r in events.ranges],
                         [("scope", 2), ("scope", 1), ("scope", 0)])

    def check_overlapping(self, body):
        """`body` opens "A", then "B", then closes "A", then "B"."""
        events, _ = self.record(body)
        ranges = sorted(events.ranges, key=lambda r: r.start)
        self.assertEqual([r.name for r in ranges], ["A", "B", "after"])
        a, b, after = ranges
        self.assertLess(a.start, b.start)
        self.assertLess(b.start, a.start + a.duration)
        self.assertLess(a.start + a.duration, b.start + b.duration)
        self.assertLessEqual(b.start + b.duration, after.start)
        self.assertEqual(after.depth, 0)
        self.assertEqual(events.open_ranges, [])

    def test_blocks_of_asyncio_tasks_that_overlap_keep_their_times(self):
        self.check_overlapping("""
            import asyncio
            async def task(name, opened, may_close, closed):
                with profd.annotate(name):
                    opened.set()
                    await may_close.wait()
                closed.set()
            async def main():
                a_opened, b_opened, a_closed, done = [asyncio.Event() for _ in range(4)]
                a = asyncio.create_task(task("A", a_opened, b_opened, a_closed))
                await a_opened.wait()
                await asyncio.gather(a, task("B", b_opened, a_closed, done))
            asyncio.run(main())
            with profd.annotate("after"):
                pass
        """)

    def test_overlapping_blocks_of_one_name_keep_their_times(self):
        events, _ = self.record("""
            first, second = profd.annotate("A"), profd.annotate("A")
            first.__enter__()
            with profd.annotate("before second"):
                pass
            second.__enter__()
            first.__exit__(None, None, None)
            with profd.annotate("after first"):
                pass
            second.__exit__(None, None, None)
        """)
        self.assertEqual([r.name for r in events.ranges], ["before second", "A", "after first", "A"])
        before, first, after, second = events.ranges
        self.assertLess(first.start, before.start)
        self.assertGreater(second.start, before.start)
        self.assertLess(first.start + first.duration, after.start)
        self.assertGreater(second.start + second.duration, after.start)

    def test_a_block_may_end_on_another_thread(self):
        self.check_overlapping("""
            import threading
            a, b = profd.annotate("A"), profd.annotate("B")
            a.__enter__()
            b.__enter__()
            thread = threading.Thread(target=a.__exit__, args=(None, None, None))
            thread.start()
            thread.join()
            b.__exit__(None, None, None)
            with profd.annotate("after"):
                pass
        """)

    def test_a_block_that_ends_on_another_thread_is_there_once(self):
        events, _ = self.record("""
            import threading
            block = profd.annotate("handed over")
            block.__enter__()
            thread = threading.Thread(target=block.__exit__, args=(None, None, None))
            thread.start()
            thread.join()
        """)
        self.assertEqual(events.range_names(), ["handed over"])
        self.assertEqual(events.open_ranges, [])

    def test_blocks_are_functions_of_pythons_own_and_work_through_ctypes_too(self):
        events, said = self.record("""
            from profd import _library, _ranges
            say([type(f).__name__ for f in (_ranges._open, _ranges._close)])
            with profd.annotate("outer"), profd.annotate("first"):
                pass
            _ranges._open = _library.lib.profd_range_open_id
            _ranges._close = _library.lib.profd_range_close
            with profd.annotate("second"):
                with profd.annotate("inner"):
                    pass
        """)
        self.assertEqual(said, [["builtin_function_or_method"] * 2])
        self.assertEqual([(r.name, r.depth) for r in events.ranges],
                         [("first", 1), ("outer", 0), ("inner", 1), ("second", 0)])

    def test_an_exception_ends_the_ranges_it_leaves(self):
        events, _ = self.record("""
            @profd.annotate("function")
            def fail():
                with profd.annotate("block"):
                    raise KeyError
            try:
                fail()
            except KeyError:
                pass
            with profd.annotate("after"):
                pass
        """)
        self.assertEqual([(r.name, r.depth) for r in events.ranges],
                         [("block", 1), ("function", 0), ("after", 0)])
        self.assertEqual(events.open_ranges, [])

    def test_a_range_that_began_before_the_capture_is_ignored(self):
        events, _ = self.record("""
            scope.__exit__(None, None, None)
            with profd.annotate("whole"):
                pass
        """, setup="scope = profd.annotate('before')\nscope.__enter__()\n")
        self.assertEqual([(r.name, r.depth) for r in events.ranges], [("whole", 0)])

    def test_a_range_open_at_the_end_is_kept_open(self):
        events, _ = self.record("""
            profd.annotate("outer").__enter__()
            profd.annotate("inner").__enter__()
        """)
        self.assertEqual(events.open_ranges, ["outer", "inner"])

    def test_recursion_deeper_than_the_limit_is_counted(self):
        events, _ = self.record("""
            @profd.annotate("deep")
            def down(left):
                if left:
                    down(left - 1)
            down(149)
            with profd.annotate("after"):
                pass
        """)
        self.assertEqual(events.range_names().count("deep"), 128)
        self.assertEqual(sum(events.drops), 150 - 128)
        self.assertEqual(events.ranges[-1].depth, 0)

    def test_names_of_every_kind_arrive(self):
        names = ["caf\u00e9 \u4e2d\U0001f600", "", "a\0b", 'q"\\\n\t', "x" * 4096]
        events, _ = self.record("""
            for name in %r:
                with profd.annotate(name):
                    pass
            with profd.annotate("\\udc80 alone"):
                pass
            with profd.annotate("y" * 5000):
                pass
        """ % (names,))
        self.assertEqual(events.range_names()[:len(names)], names)
        self.assertIn("alone", events.range_names()[len(names)])
        self.assertLessEqual(len(events.range_names()[-1]), 4096)

    def test_each_thread_has_its_own_stack_and_its_name(self):
        events, _ = self.record("""
            def work(index, barrier):
                with profd.annotate("thread"):
                    barrier.wait()
                    with profd.annotate("inner"):
                        barrier.wait()
            barrier = threading.Barrier(4)
            threads = [threading.Thread(target=work, args=(i, barrier), name="loader-%d" % i)
                       for i in range(4)]
            with profd.annotate("main"):
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        """)
        by_thread = {}
        for event in events.ranges:
            by_thread.setdefault(event.thread, []).append((event.name, event.depth))
        main = [("main", 0)]
        self.assertEqual(sorted(by_thread.values()),
                         sorted([main] + [[("inner", 1), ("thread", 0)]] * 4))
        self.assertLessEqual({"loader-%d" % i for i in range(4)},
                             set(events.thread_names().values()))

    def test_a_name_given_by_hand_wins(self):
        events, _ = self.record("""
            def work():
                profd.thread_name("\u00e9" * 40)
                with profd.annotate("x"):
                    pass
            thread = threading.Thread(target=work, name="given by threading")
            thread.start()
            thread.join()
        """)
        thread = events.ranges[0].thread
        self.assertEqual(events.thread_names()[thread], "\u00e9" * 31)

    def test_thousands_of_short_threads_are_all_kept(self):
        events, _ = self.record("""
            def work():
                with profd.annotate("short"):
                    pass
            for _ in range(40):
                threads = [threading.Thread(target=work) for _ in range(25)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        """, memory_bytes=128 << 20)
        self.assertEqual(events.range_names().count("short"), 1000)
        self.assertEqual(sum(events.drops), 0)


class DecoratorTest(DaemonTest):

    def test_calls_are_ranges(self):
        events, _ = self.record("""
            @profd.annotate("f")
            def f(x):
                return x
            assert [f(i) for i in range(3)] == [0, 1, 2]
        """)
        self.assertEqual(events.range_names(), ["f"] * 3)

    def test_a_generator_is_a_range_only_while_it_runs(self):
        events, _ = self.record("""
            @profd.annotate("produce")
            def produce():
                with profd.annotate("part"):
                    pass
                yield 1
                yield 2
            for _ in produce():
                with profd.annotate("consume"):
                    pass
        """)
        self.assertEqual([(r.name, r.depth) for r in events.ranges],
                         [("part", 1), ("produce", 0), ("consume", 0), ("produce", 0),
                          ("consume", 0), ("produce", 0)])

    def test_interleaved_coroutines_do_not_mix(self):
        events, _ = self.record("""
            import asyncio
            async def run(name):
                @profd.annotate(name)
                async def body():
                    for _ in range(3):
                        await asyncio.sleep(0)
                await body()
            async def both():
                await asyncio.gather(run("a"), run("b"))
            asyncio.run(both())
        """)
        self.assertEqual(sorted(events.range_names()), ["a"] * 4 + ["b"] * 4)
        self.assertEqual({r.depth for r in events.ranges}, {0})


class OtherEventsTest(DaemonTest):

    def test_marks_and_counters_arrive(self):
        events, _ = self.record("""
            profd.mark("here")
            profd.counter("loss", 0.25)
            profd.counter("lr", 3)
            profd.counter("bad", float("-inf"))
            import fractions
            profd.counter("half", fractions.Fraction(1, 2))
        """)
        self.assertEqual([event.name for event in events.of(Instant)], ["here"])
        self.assertEqual([(event.name, event.value) for event in events.of(Counter)],
                         [("loss", 0.25), ("lr", 3.0), ("bad", float("-inf")), ("half", 0.5)])

    def test_a_value_that_cannot_be_read_fails_nobody(self):
        events, _ = self.record("""
            class Many:
                def __float__(self):
                    raise ValueError("more than one element")
            profd.counter("many", Many())
            profd.counter("one", 1)
        """)
        self.assertEqual([event.name for event in events.of(Counter)], ["one"])

    def test_memory_events_arrive(self):
        events, _ = self.record("""
            class Device:
                def __str__(self):
                    return "cuda:3"
            profd.alloc((1 << 64) - 1, 100, device=Device(), category="gradient",
                        total_allocated=100, total_reserved=200)
            profd.alloc(1, 0)
            profd.free((1 << 64) - 1, device="cuda:3")
        """)
        got = [event[1:] for event in events.of(Memory)]
        self.assertEqual(got, [
            (False, 2**64 - 1, 100, 100, 200, 1, 3, 2),
            (False, 1, 0, -1, -1, 0, 0, 0),
            (True, 2**64 - 1, 0, -1, -1, 1, 3, 0),
        ])

    def test_is_recording_says_so_only_in_a_capture(self):
        _, said = self.record("say(profd.is_recording())",
                              setup="say(profd.is_recording())\n")
        self.assertEqual(said, [False, True])

    def test_metadata_arrives(self):
        program, target = self.start_target("", setup="""
            profd.set_metadata("job", "llama")
            profd.set_metadata("rank", 7)
        """)
        self.assertEqual(target.wait_metadata("job"), "llama")
        self.assertEqual(target.wait_metadata("rank"), "7")
        program.resume()
        program.wait_pause()
        program.resume()
        program.finish()


class StepTest(DaemonTest):

    def test_a_capture_of_steps_holds_those_steps(self):
        program, target = self.start_target("""
            for step in range(10):
                profd.step()
                with profd.annotate("step %d" % step):
                    pass
        """)
        capture = target.arm()
        capture.fire(steps=3, base_step=4)
        capture.wait_planned()
        program.resume()
        capture.wait_ended()
        program.wait_pause()
        self.assertEqual(target.marked_steps(), 10)
        events = capture.finish()
        self.assertEqual(events.range_names(), ["step 4", "step 5", "step 6"])
        self.assertLessEqual({4, 5, 6}, {event.step for event in events.of(Step)})
        program.resume()
        program.finish()

    def test_captures_follow_one_another(self):
        program, target = self.start_target("""
            with profd.annotate("first"):
                pass
            pause()
            with profd.annotate("second"):
                pass
            with profd.annotate("first"):
                pass
        """)
        names = []
        for _ in range(2):
            capture = target.arm()
            capture.fire()
            capture.wait_recording()
            program.resume()
            program.wait_pause()
            names.append(capture.finish().range_names())
        self.assertEqual(names, [["first"], ["second", "first"]])
        program.resume()
        program.finish()

    def test_a_daemon_that_goes_away_disturbs_nobody(self):
        program, target = self.start_target("""
            with profd.annotate("inside"):
                pause()
            for _ in range(1000):
                with profd.annotate("alone"):
                    profd.step()
        """)
        capture = target.arm()
        capture.fire()
        capture.wait_recording()
        program.resume()
        program.wait_pause()
        self.daemon.close()
        program.resume()
        program.wait_pause()
        program.resume()
        program.finish()


if __name__ == "__main__":
    unittest.main()
