"""What the package promises whether or not anything is recorded."""

import unittest

from python_targets import LIBRARY, ProgramTest

# Every way to have nothing recorded; each must behave alike.
OFF = {
    "no daemon": {"PROFD_CLIENT_LIB": LIBRARY, "PROFD_SOCKET_DIR": "/nonexistent"},
    "disabled": {"PROFD_CLIENT_LIB": LIBRARY, "PROFD_DISABLE": "1"},
    "no library": {"PROFD_CLIENT_LIB": "/nonexistent/libprofd_client.so"},
    "not a library": {"PROFD_CLIENT_LIB": __file__},
    "another library": {"PROFD_CLIENT_LIB": "libc.so.6"},
}


class OffTest(ProgramTest):

    def run_everywhere(self, body: str) -> None:
        for name, env in OFF.items():
            with self.subTest(name):
                self.assertEqual(self.run_program(body, **env), ["ok"])

    def test_a_training_loop_runs(self):
        self.run_everywhere("""
            import profd
            profd.init()
            profd.init()
            for _ in range(3):
                profd.step()
                with profd.annotate("forward") as scope:
                    with profd.annotate("layer"):
                        pass
                profd.counter("loss", 0.5)
                profd.mark("checkpoint")
                profd.alloc(4096, 1024, device="cuda:1", category="activation",
                            total_allocated=1024, total_reserved=2048)
                profd.free(4096, device="cuda:1")
            profd.thread_name("main")
            assert not profd.is_recording()
            assert not profd.status().connected
            say("ok")
        """)

    def test_wrong_arguments_raise_as_they_do_while_recording(self):
        self.run_everywhere("""
            import profd
            def raises(kind, function, *args, **kwargs):
                try:
                    function(*args, **kwargs)
                except kind:
                    return
                raise AssertionError((function, args, kwargs))
            raises(TypeError, profd.annotate)
            raises(TypeError, profd.annotate, 3)
            raises(TypeError, profd.annotate, b"forward")
            raises(TypeError, profd.annotate, ["forward"])
            raises(TypeError, profd.annotate, lambda: 0)
            raises(TypeError, profd.annotate("x"), 3)
            raises(TypeError, profd.annotate("x"), object)
            raises(TypeError, profd.mark, None)
            raises(TypeError, profd.counter, 1, 1)
            raises(TypeError, profd.counter, "loss")
            raises(TypeError, profd.counter, "loss", "0.5")
            raises(TypeError, profd.counter, "loss", None)
            raises(TypeError, profd.alloc, 1.0, 1)
            raises(TypeError, profd.alloc, 1, None)
            raises(ValueError, profd.alloc, -1, 1)
            raises(ValueError, profd.alloc, 1 << 64, 1)
            raises(ValueError, profd.alloc, 1, -1)
            raises(ValueError, profd.alloc, 1, 1 << 63)
            raises(ValueError, profd.alloc, 1, 1, total_allocated=-2)
            raises(ValueError, profd.alloc, 1, 1, category="leak")
            raises(ValueError, profd.free, 1, category="leak")
            for device in ("tpu", "cuda:", "cuda:-1", "cuda:32768", "cpu:1", "cuda:1\\n", "", 0):
                raises(ValueError, profd.alloc, 1, 1, device=device)
            raises(TypeError, profd.thread_name, 7)
            raises(ValueError, profd.thread_name, "a\\0b")
            raises(TypeError, profd.set_metadata, 7, "x")
            raises(TypeError, profd.set_metadata, "job", 1.5)
            for key in ("", "Job", "1job", "job name", "job\\n", "j" * 64):
                raises(ValueError, profd.set_metadata, key, "x")
            raises(ValueError, profd.set_metadata, "job", "x" * 256)
            raises(ValueError, profd.set_metadata, "job", "x\\0")
            say("ok")
        """)

    def test_exceptions_pass_through(self):
        self.run_everywhere("""
            import profd
            class Boom(BaseException):
                pass
            @profd.annotate("decorated")
            def fail():
                raise Boom
            for attempt in range(2):
                try:
                    if attempt:
                        fail()
                    with profd.annotate("block"):
                        raise Boom
                except Boom as error:
                    assert error.__context__ is None
                else:
                    raise AssertionError("swallowed")
            say("ok")
        """)


class LibraryTest(ProgramTest):

    def test_the_library_says_its_version(self):
        said = self.run_program("""
            import profd
            say([profd.__version__, profd.library_version()])
        """, PROFD_CLIENT_LIB=LIBRARY)
        self.assertEqual(said[0][0], said[0][1])

    def test_init_says_whether_the_library_works(self):
        body = "import profd; say([profd.init(), profd.status().disabled])"
        for name, env in OFF.items():
            with self.subTest(name):
                works = name == "no daemon"
                self.assertEqual(self.run_program(body, **env), [[works, not works]])

    def test_steps_are_counted_without_a_daemon(self):
        said = self.run_program("""
            import profd
            profd.step()
            profd.step()
            say([profd.step_count(), profd.status().step_count])
        """, **OFF["no daemon"])
        self.assertEqual(said, [[2, 2]])

    def test_metadata_is_bounded(self):
        said = self.run_program("""
            import profd
            say([profd.set_metadata("key%d" % i, i) for i in range(64)])
        """, **OFF["no daemon"])
        kept = sum(said[0])
        self.assertTrue(0 < kept <= 32, kept)
        self.assertEqual(said[0], [True] * kept + [False] * (64 - kept))

    def test_names_made_up_as_one_goes_do_not_pile_up(self):
        said = self.run_program("""
            import profd, profd._ranges
            for i in range(50000):
                with profd.annotate("batch %d" % i):
                    pass
            say(len(profd._ranges._ranges))
        """, **OFF["no daemon"])
        self.assertLessEqual(said[0], 8192)

    def test_a_missing_library_is_told_once_and_only_if_asked(self):
        body = """
            import warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                import profd
                profd.init()
                profd.step()
                with profd.annotate("x"):
                    pass
            say([str(warning.message) for warning in caught])
        """
        missing = OFF["no library"]
        self.assertEqual(self.run_program(body, **missing), [[]])
        self.assertEqual(self.run_program(body, PROFD_LOG="error", **missing), [[]])
        told = self.run_program(body, PROFD_LOG="warning", **missing)[0]
        self.assertEqual(len(told), 1)
        self.assertIn(missing["PROFD_CLIENT_LIB"], told[0])
        self.assertIn("PROFD_CLIENT_LIB", told[0])
        disabled = dict(missing, PROFD_DISABLE="1", PROFD_LOG="debug")
        self.assertEqual(self.run_program(body, **disabled), [[]])


class AsyncioStepsTest(ProgramTest):
    """Which marks of tasks are steps."""

    def run_marks(self, body: str) -> None:
        """`marked(function)` says how many steps a call of it was."""
        self.assertEqual(self.run_program("""
            import asyncio, profd
            profd.init()
            def marked(function, *arguments):
                before = profd.step_count()
                function(*arguments)
                return profd.step_count() - before
            async def mark(times):
                for _ in range(times):
                    profd.step()
                    await asyncio.sleep(0)
        """ + body + """
            say("ok")
        """, **OFF["no daemon"]), ["ok"])

    def test_the_task_that_marked_one_first_has_the_steps_until_it_has_ended(self):
        self.run_marks("""
            async def main():
                await asyncio.gather(mark(3), mark(5))
            # 3 of the first; then the second takes over: its marks 1 to 3 moved nothing.
            assert marked(asyncio.run, main()) == 3 + 2
            assert marked(profd.step) == 1
            assert marked(asyncio.run, mark(4)) == 4
        """)

    def test_a_task_that_waits_for_the_one_that_trains_hands_over(self):
        self.run_marks("""
            async def main():
                profd.step()  # A warm-up.
                await asyncio.create_task(mark(50))
                profd.step()
            # The 20th mark of the other takes over; the last one is of the task before.
            assert marked(asyncio.run, main()) == 1 + 31 + 1
        """)

    def test_callbacks_of_the_loop_have_none_meanwhile(self):
        self.run_marks("""
            async def main():
                task = asyncio.create_task(mark(2))
                await asyncio.sleep(0)
                loop = asyncio.get_running_loop()
                loop.call_soon(profd.step)
                await task
                loop.call_soon(profd.step)
                await asyncio.sleep(0)
            assert marked(asyncio.run, main()) == 2 + 1
        """)

    def test_a_task_that_never_ended_keeps_no_steps_of_another_loop(self):
        self.run_marks("""
            kept = []
            async def wait():
                profd.step()
                await asyncio.Event().wait()
            async def leave():
                kept.append(asyncio.ensure_future(wait()))
                await asyncio.sleep(0)
            first = asyncio.new_event_loop()
            assert marked(first.run_until_complete, leave()) == 1
            assert marked(profd.step) == 1
            second = asyncio.new_event_loop()
            assert marked(second.run_until_complete, mark(3)) == 3
            assert not kept[0].done()
            second.close()
            kept[0].cancel()
            first.run_until_complete(asyncio.gather(*kept, return_exceptions=True))
            first.close()
        """)

    def test_tasks_of_other_kinds_do_no_harm(self):
        self.run_marks("""
            class Odd:
                __slots__ = ()  # No weak references.
            async def main():
                original = asyncio.current_task
                asyncio.current_task = lambda loop=None: Odd()
                try:
                    profd.step()
                    profd.step()
                finally:
                    asyncio.current_task = original
            assert marked(asyncio.run, main()) == 2
        """)


class DecoratorTest(ProgramTest):

    def test_a_decorated_function_is_still_itself(self):
        said = self.run_program("""
            import asyncio, inspect, profd
            @profd.annotate("f")
            def f(a, *, b=2):
                "doc"
                return a + b
            @profd.annotate("g")
            def g():
                received = yield 1
                yield received
                return 3
            @profd.annotate("c")
            async def c():
                await asyncio.sleep(0)
                return 4
            @profd.annotate("a")
            async def a():
                yield 5
                yield 6
            class K:
                @profd.annotate("m")
                def method(self):
                    return self
                @profd.annotate("s")
                @staticmethod
                def static(x):
                    return x
                @classmethod
                @profd.annotate("k")
                def klass(cls):
                    return cls
            assert (f.__name__, f.__doc__, f(1), f(1, b=5)) == ("f", "doc", 3, 6)
            assert inspect.isgeneratorfunction(g) and inspect.iscoroutinefunction(c)
            assert inspect.isasyncgenfunction(a)
            generator = g()
            assert next(generator) == 1 and generator.send("x") == "x"
            try:
                next(generator)
            except StopIteration as stop:
                assert stop.value == 3
            assert asyncio.run(c()) == 4
            async def collect():
                return [item async for item in a()]
            assert asyncio.run(collect()) == [5, 6]
            k = K()
            assert k.method() is k and K.static(8) == 8 and K.klass() is K
            say("ok")
        """)
        self.assertEqual(said, ["ok"])

    def test_exceptions_and_closing_reach_a_decorated_generator(self):
        said = self.run_program("""
            import asyncio, profd
            log = []
            @profd.annotate("g")
            def g():
                try:
                    while True:
                        try:
                            yield "item"
                        except KeyError:
                            log.append("caught")
                finally:
                    log.append("closed")
            generator = g()
            next(generator)
            assert generator.throw(KeyError("x")) == "item"
            generator.close()
            assert log == ["caught", "closed"], log
            @profd.annotate("a")
            async def a():
                try:
                    while True:
                        try:
                            yield "item"
                        except KeyError:
                            log.append("a caught")
                finally:
                    await asyncio.sleep(0)
                    log.append("a closed")
            async def use():
                generator = a()
                await generator.__anext__()
                assert await generator.athrow(KeyError("x")) == "item"
                await generator.aclose()
            asyncio.run(use())
            assert log[2:] == ["a caught", "a closed"], log
            @profd.annotate("cancelled")
            async def sleeper():
                try:
                    await asyncio.sleep(3600)
                finally:
                    log.append("cancelled")
            async def cancel():
                task = asyncio.ensure_future(sleeper())
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                return task.cancelled()
            assert asyncio.run(cancel()) and log[4:] == ["cancelled"], log
            say("ok")
        """)
        self.assertEqual(said, ["ok"])


if __name__ == "__main__":
    unittest.main()
