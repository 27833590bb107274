"""Holds the Python stacks and modules of captured operators against sys._getframe() of the moment.

Runs itself once in every CPython of 3.9 to 3.14 that it finds; the operators are those of the
stand-in for torch, so that no interpreter needs torch. Without arguments: all. With --inside: the
tests, in the interpreter that runs them.

PROFD_LONG_STACKS=N makes N captures of a program that makes and drops code, threads, generators, and
coroutines all the time, in each interpreter; by default there are a few.
"""

import asyncio
import ctypes
import functools
import gc
import glob
import itertools
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import weakref

from module_stand_in import Chain, Leaf, Pair, Single, install_modules

BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", "build/release"))
NEWEST_MINOR = 14
MINORS = range(9, NEWEST_MINOR + 1)

# proto/wire/frame.h, event.h
STACKS, MODULES = 1 << 2, 1 << 3
FEATURE_STACKS, FEATURE_MODULES = 1 << 18, 1 << 19
MAX_DEPTH = 256
# Of CPython 3: the dicts of keyword arguments have versions.
NUMBERED_BEFORE = 14
COUNT_ODD_FRAMES = 5
COUNT_FULL_STACKS = 6
CHANGING_CAPTURES = int(os.environ.get("PROFD_LONG_STACKS", "12"))


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def stack_of(frame):
    """(file, line, name) of each frame, innermost first."""
    stack = []
    while frame is not None:
        stack.append((frame.f_code.co_filename, frame.f_lineno or 0, name_of(frame.f_code)))
        frame = frame.f_back
    return stack


class Contents:
    """What the daemon wrote of a capture."""

    def __init__(self, path):
        self.frames, self.ops, self.missing, self.counts = {}, [], {}, []
        for line in path.read_text().splitlines():
            kind, *words = line.split("\t")
            if kind == "frame":
                self._add_frame(words)
            elif kind == "op":
                self.ops.append((words[2], int(words[0]), int(words[1])))
            elif kind == "missing":
                self.missing[words[0]] = words[1]
            elif kind == "status":
                self.wanted, self.recorded = int(words[0]), int(words[1])
                self.counts = [int(word) for word in words[2:]]
            elif kind == "dropped":
                self.dropped = int(words[0])

    def _add_frame(self, words):
        thread, stack, parent = int(words[0]), int(words[1]), int(words[2])
        assert (thread, stack) not in self.frames, "a stack is defined twice"
        assert parent == 0 or (thread, parent) in self.frames, "a parent comes late"
        depth = self.frames[thread, parent]["depth"] + 1 if parent else 0
        assert int(words[10]) == depth, "a depth is wrong"
        self.frames[thread, stack] = {
            "parent": parent, "frame": (words[3], int(words[4]), words[5]),
            "first_line": int(words[6]), "module": int(words[7]), "class": words[8],
            "is_cut": int(words[9]) & 1 != 0, "is_again": int(words[9]) & 2 != 0, "depth": depth}

    def nodes(self, thread, stack):
        while stack != 0:
            node = self.frames[thread, stack]
            yield node
            stack = node["parent"]

    def stack(self, thread, stack):
        return [node["frame"] for node in self.nodes(thread, stack)]


class Harness:
    """The library and the stand-in, attached; one for the process."""

    def __init__(self, directory, with_lock=True):
        self.directory = pathlib.Path(directory)
        path = str(BUILD / "tests" / "bin" / "stack_harness.so")
        # Operators without Python's lock, as torch's are, and with it.
        self.free = ctypes.CDLL(path)
        self.locked = ctypes.PyDLL(path)
        self.free.harness_start_daemon(directory.encode())
        self.profd = ctypes.CDLL(str(BUILD / "lib" / "libprofd_client.so"))
        self.torch = ctypes.CDLL(str(BUILD / "tests" / "bin" / "fake_torch" / "full" / "libtorch_cpu.so"))
        attach = (self.locked if with_lock else self.free).harness_attach
        attach.restype = ctypes.c_uint32
        attach.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p]
        self._attach = attach
        self.body = ctypes.CFUNCTYPE(None)
        self.free.harness_op_around.argtypes = [ctypes.c_char_p, self.body]
        self.free.harness_begin.restype = ctypes.c_void_p
        self.free.harness_end.argtypes = [ctypes.c_void_p]

    def attach(self, version):
        return self._attach(self.profd._handle, self.torch._handle, version.encode())


class Capture:
    """A window in which op() is compared with the stack that Python shows."""

    def __init__(self, harness, flags=STACKS, memory_mib=64):
        self.harness, self.flags, self.memory_mib = harness, flags, memory_mib
        self.expected = {}
        self.count = 0
        self.contents = None

    def __enter__(self):
        self.harness.free.harness_arm(self.flags, self.memory_mib, 1)
        return self

    def __exit__(self, *_):
        self.harness.free.harness_finish(1)
        self.contents = Contents(self.harness.directory / "contents")

    def _name(self):
        self.count += 1
        return "op%d" % self.count

    # In each the stack is that of the line on which the operator is called, so that no other line
    # is between them.
    def op(self, *_):
        name = self._name(); self.expected[name] = stack_of(sys._getframe()); self.harness.free.harness_op(name.encode())  # noqa

    def op_locked(self):
        name = self._name(); self.expected[name] = stack_of(sys._getframe()); self.harness.locked.harness_op(name.encode())  # noqa

    def op_around(self, body):
        name = self._name(); around = stack_of(sys._getframe()); self.expected[name] = self.expected[name + ".inner"] = around; self.harness.free.harness_op_around(name.encode(), self.harness.body(body))  # noqa

    def begin(self):
        name = self._name(); self.expected[name] = stack_of(sys._getframe()); return self.harness.free.harness_begin(name.encode())  # noqa


harness = None


class StacksTest(unittest.TestCase):

    def capture(self, **options):
        return Capture(harness, **options)

    def check(self, capture, least=1):
        """Every operator has the stack that Python showed."""
        contents = capture.contents
        self.assertEqual(contents.dropped, 0)
        self.assertEqual(contents.missing.get("Python stacks"), None)
        self.assertGreaterEqual(len(contents.ops), max(least, len(capture.expected)))
        self.assertEqual(contents.counts[COUNT_ODD_FRAMES], 0)
        self.assertEqual(contents.counts[COUNT_FULL_STACKS], 0)
        for name, thread, stack in contents.ops:
            expected = capture.expected[name]
            found = contents.stack(thread, stack)
            if len(expected) > MAX_DEPTH:
                self.assertTrue(list(contents.nodes(thread, stack))[-1]["is_cut"])
                expected = expected[:MAX_DEPTH]
            self.assertEqual(found, expected, "%s" % name)

    def test_functions_and_lines(self):
        with self.capture() as capture:
            def inner():
                capture.op()
                capture.op_locked()
                (lambda: capture.op())()
                (capture
                 .op(
                     1))

            def outer():
                inner()
                for _ in range(3):
                    inner()
                    capture.op()
            outer()
            outer()
        self.check(capture, 30)

    def test_the_same_function_from_another_line_is_another_stack(self):
        with self.capture() as capture:
            def helper():
                capture.op()
            for _ in range(5):
                helper()
                helper()
        self.check(capture, 10)
        self.assertEqual(len({stack for _, _, stack in capture.contents.ops}), 2)

    def test_comprehensions_generators_and_coroutines(self):
        with self.capture() as capture:
            def numbers():
                for i in range(3):
                    capture.op()
                    yield i

            def chained():
                yield from numbers()
                capture.op()
                yield from (capture.op() for _ in range(2))

            async def deepest():
                await asyncio.sleep(0)
                capture.op()

            async def numbers_later():
                for i in range(3):
                    await deepest()
                    yield i

            async def task():
                async for _ in numbers_later():
                    capture.op()
                await asyncio.gather(deepest(), deepest())

            list(numbers())
            list(chained())
            [capture.op() for _ in range(3)]
            {capture.op(): [capture.op() for _ in range(2)] for _ in range(2)}
            asyncio.run(task())
            started = [numbers() for _ in range(3)]
            for generator in started + started:
                next(generator)
                capture.op()
        self.check(capture, 30)

    def test_calls_through_c(self):
        with self.capture() as capture:
            class Item:
                def __init__(self, value):
                    self.value = value

                def __lt__(self, other):
                    capture.op()
                    return self.value < other.value

                def __del__(self):
                    capture.op()

                @property
                def shown(self):
                    capture.op()
                    return self.value

                def __call__(self):
                    capture.op()

            sorted([3, 1, 2], key=lambda value: capture.op() or value)
            functools.reduce(lambda a, b: capture.op() or a, [1, 2, 3])
            list(map(capture.op, [1, 2]))
            items = [Item(value) for value in (2, 1)]
            sorted(items)
            getattr(items[0], "shown")
            functools.partial(items[0])()
            capture.op_around(capture.op)
            capture.op_around(lambda: capture.op_around(capture.op))
            token = Item(0)
            watcher = weakref.ref(token, capture.op)
            del token
            del items
            gc.collect()
            self.assertIsNone(watcher())
        self.check(capture, 20)

    def test_operators_in_operators_that_stay_open(self):
        with self.capture() as capture:
            def f(depth):
                opened = capture.begin()
                capture.op()
                if depth > 0:
                    f(depth - 1)
                capture.op()
                harness.free.harness_end(opened)
                capture.op()
            for _ in range(3):
                f(3)
        self.check(capture, 40)

    def test_deep_recursion_keeps_the_innermost_frames(self):
        with self.capture() as capture:
            def down(left):
                if left % 50 == 0:
                    capture.op()
                if left > 0:
                    down(left - 1)
                    if left % 70 == 0:
                        capture.op()
            down(600)
            capture.op()
        self.check(capture, 20)

    def test_code_that_comes_and_goes(self):
        with self.capture() as capture:
            for i in range(600):
                space = {"op": capture.op}
                exec(compile("def f%03d():\n    op()\nf%03d()" % (i, i), "<s>", "exec"), space)
                exec(compile("def f():\n%s    op()\nf()" % ("\n" * (i % 7)), "<s>", "exec"), space)
                exec(compile("def f():\n    op()\nf()", "<generated %03d>" % i, "exec"), space)
                exec(compile("op()", "<generated %03d.py>" % i, "exec"), {"op": capture.op})
                eval("op()", {"op": capture.op})
                del space
        self.check(capture, 2400)

    def test_threads(self):
        with self.capture() as capture:
            lock = threading.Lock()

            def op():
                with lock:
                    capture.op()

            def work(count):
                for i in range(count):
                    op()
                    if i % 3 == 0:
                        [op() for _ in range(2)]
            for _ in range(3):
                threads = [threading.Thread(target=work, args=(20 + i,)) for i in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        self.check(capture, 300)
        self.assertGreaterEqual(len({thread for _, thread, _ in capture.contents.ops}), 4)

    def test_names_in_other_alphabets(self):
        with self.capture() as capture:
            for name in ("größe", "функция", "関数", "f\U00020000"):
                exec(compile("def %s():\n  op()\n%s()" % (name, name), "/tmp/%s.py" % name, "exec"),
                     {"op": capture.op})
        self.check(capture, 4)

    def test_beside_the_programs_own_tracing(self):
        def trace(*_):
            return trace
        with self.capture() as capture:
            def f():
                capture.op()
                return [capture.op() for _ in range(2)]
            sys.settrace(trace)
            try:
                f()
                f()
            finally:
                sys.settrace(None)
            f()
        self.check(capture, 9)

    def test_errors_on_the_way(self):
        with self.capture() as capture:
            class Context:
                def __enter__(self):
                    capture.op()

                def __exit__(self, *_):
                    capture.op()
                    return True

            def fail():
                try:
                    capture.op()
                    raise ValueError
                finally:
                    capture.op()

            for _ in range(2):
                with Context():
                    fail()
                    capture.op()
        self.check(capture, 8)

    def test_it_is_what_a_traceback_shows(self):
        with self.capture() as capture:
            def f():
                shown = traceback.extract_stack(); capture.op(); return shown  # noqa
            shown = f()
        (_, thread, stack), = capture.contents.ops
        found = capture.contents.stack(thread, stack)[1:]
        self.assertEqual([(file, line) for file, line, _ in reversed(found)],
                         [(entry.filename, entry.lineno) for entry in shown])

    def test_more_captures(self):
        space = {}
        for i in range(60):
            with self.capture(memory_mib=16) as capture:
                space["op"] = capture.op
                exec("def f():\n    op()\n    [op() for _ in range(2)]\n" + "\n" * (i % 5) + "f()",
                     space)
                thread = threading.Thread(target=capture.op)
                thread.start()
                thread.join()
            self.check(capture, 4)

    def test_a_full_table_is_counted(self):
        with self.capture(memory_mib=64) as capture:
            source = "def f():\n" + "    op()\n" * 3000 + "f()"
            for i in range(7):
                exec(compile(source, "<%d>" % i, "exec"), {"op": capture.op})
        without = [name for name, _, stack in capture.contents.ops if stack == 0]
        self.assertGreater(len(without), 1000)
        self.assertEqual(capture.contents.counts[COUNT_FULL_STACKS], len(without))
        for name, thread, stack in capture.contents.ops:
            if stack != 0:
                self.assertEqual(capture.contents.stack(thread, stack), capture.expected[name])
        with self.capture() as capture:
            capture.op()
        self.check(capture)

    # ---- Modules.

    def modules_of(self, capture, flags):
        for name, thread, stack in capture.contents.ops:
            yield name, [(node["module"], node["class"])
                         for node in capture.contents.nodes(thread, stack) if node["module"]]

    def run_modules(self, flags):
        install_modules()
        pair = Pair()
        with self.capture(flags=flags) as capture:
            for _ in range(2):
                pair(capture)
                capture.op()
        expected = []
        for child in pair.children:
            expected.append([(id(child), "Leaf"), (id(pair), "Pair")])
        expected += [[(id(pair), "Pair")], []]
        self.assertEqual([modules for _, modules in self.modules_of(capture, flags)], expected * 2)
        return capture

    def calls_of(self, capture):
        """The calls of modules in the order of operators: (class, depth among modules). As the
        daemon tells them apart: by functions and modules, whatever their lines."""
        last, calls = [], []
        for _, thread, stack in capture.contents.ops:
            frames = [(node["frame"][2], node["module"], node["is_again"], node["class"])
                      for node in capture.contents.nodes(thread, stack)][::-1]
            same = 0
            while same < min(len(last), len(frames)) and last[same] == frames[same]:
                same += 1
            for at in range(same, len(frames)):
                if frames[at][1] != 0:
                    depth = sum(1 for frame in frames[:at] if frame[1] != 0)
                    calls.append((frames[at][3], depth))
            last = frames
        return calls

    def run_repeated(self, flags):
        leaf, pair, single = Leaf(), Pair(), Single()
        with self.capture(flags=flags) as capture:
            def helper():
                leaf(capture)
            for _ in range(3):
                leaf(capture)
            leaf(leaf(capture) or capture)
            helper(); helper()  # noqa
            for _ in range(3):
                single(capture)
            capture.op()
            for _ in range(2):
                pair(capture)
                single(capture, twice=True)
            with_names = {"twice": True}
            single(capture, **with_names)
            single(capture, **with_names)
        expected = [("Leaf", 0)] * 7 + [("Single", 0), ("Leaf", 1)] * 3
        for _ in range(2):
            expected += [("Pair", 0)] + [("Leaf", 1)] * 3
            expected += [("Single", 0), ("Leaf", 1), ("Leaf", 1)]
        expected += [("Single", 0), ("Leaf", 1), ("Leaf", 1)] * 2
        if sys.version_info < (3, NUMBERED_BEFORE):
            self.assertEqual(self.calls_of(capture), expected)
        else:
            self.assertFalse(any(frame["is_again"] for frame in capture.contents.frames.values()))
        return capture

    def test_calls_that_follow_each_other_are_told_apart(self):
        self.check(self.run_repeated(STACKS | MODULES), 20)

    def test_calls_that_follow_each_other_are_told_apart_without_stacks(self):
        self.run_repeated(MODULES)

    def test_calls_that_follow_each_other_need_no_more_stacks_than_two_calls(self):
        leaf = Leaf()
        with self.capture(flags=MODULES) as capture:
            for _ in range(1000):
                leaf(capture)
        self.assertEqual(len(capture.contents.ops), 1000)
        self.assertLessEqual(len(capture.contents.frames), 2)

    def test_the_same_functions_below_another_caller_are_no_call_of_a_module(self):
        leaf = Leaf()

        def direct():
            leaf._call_impl(capture)
        with self.capture(flags=STACKS | MODULES) as capture:
            for _ in range(3):
                leaf(capture)
                direct()
                leaf(capture)
        module = [(id(leaf), "Leaf")]
        self.assertEqual([modules for _, modules in self.modules_of(capture, STACKS | MODULES)],
                         [module, [], module] * 3)

    def test_modules_and_stacks(self):
        self.check(self.run_modules(STACKS | MODULES), 10)

    def test_modules_alone(self):
        capture = self.run_modules(MODULES)
        for _, thread, stack in capture.contents.ops:
            for node in capture.contents.nodes(thread, stack):
                self.assertEqual(node["frame"][2].split(".")[-1], "_wrapped_call_impl")
                self.assertNotEqual(node["module"], 0)

    def run_chains(self, flags):
        for seed in range(6):
            dice = random.Random(seed)
            with self.capture(flags=flags) as capture:
                capture.op()
                # The last one is deeper than a stack that is kept. More of them could fill the
                # thread's table, half of which may be taken by earlier captures.
                for left in (0, 1, 3, 66):
                    Chain(dice)(capture=capture, left=left)
            self.check(capture, 100)
            depths = [len(stack) for stack in capture.expected.values()]
            self.assertGreater(max(depths), MAX_DEPTH)

    def test_modules_in_modules_with_operators_on_many_lines(self):
        self.run_chains(STACKS | MODULES)

    def test_modules_in_modules_with_operators_on_many_lines_in_stacks_alone(self):
        self.run_chains(STACKS)

    def test_stacks_alone_have_no_modules(self):
        pair = Pair()
        with self.capture() as capture:
            pair(capture)
        self.check(capture, 4)
        self.assertEqual([modules for _, modules in self.modules_of(capture, STACKS)], [[]] * 4)

    def test_a_capture_without_stacks_has_none(self):
        with self.capture(flags=0) as capture:
            capture.op()
        self.assertEqual([stack for _, _, stack in capture.contents.ops], [0])
        self.assertEqual(capture.contents.frames, {})
        self.assertEqual(capture.contents.wanted & (FEATURE_STACKS | FEATURE_MODULES), 0)


class Restless:
    """Threads that make and drop code objects, generators, coroutines, and threads until they are
    told to stop, and call operators in all of them.

    Operators have numbers of a ring, because a process has a limited number of distinct names.
    """

    RING = 20000
    THREADS = 3
    SOURCE = """{blank}
def {name}(op):
{blank}    op()
    return [op() for _ in range(2)]
def {name}_numbers(op):
    try:
        for i in range(3):
{blank}            op()
            yield i
    finally:
        op()
async def {name}_later(op, pause):
    await pause()
{blank}    op()
    async def inner():
        await pause()
        op()
    await inner()
"""

    def __init__(self):
        self.expected = {}
        self.numbers = itertools.count()
        self.last_number = 0
        self.is_over = False
        self.errors = []
        self.threads = [threading.Thread(target=self._run, args=(seed,))
                        for seed in range(self.THREADS)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()

    def op(self):
        number = self.last_number = next(self.numbers); name = "op%d" % (number % self.RING); self.expected[name] = stack_of(sys._getframe()); harness.free.harness_op(name.encode())  # noqa

    def _run(self, seed):
        choices = random.Random(seed)
        try:
            while not self.is_over:
                self._round(choices)
        except BaseException as error:  # noqa: the test reports it.
            self.errors.append(error)

    def _make(self, choices):
        """A name, and new functions of that name."""
        name = "made_%03d" % choices.randrange(300)
        space = {}
        source = self.SOURCE.format(name=name, blank="\n" * choices.randrange(7))
        exec(compile(source, "<made %02d>" % choices.randrange(40), "exec"), space)
        return name, space

    def _round(self, choices):
        name, space = self._make(choices)
        space[name](self.op)
        generator = space[name + "_numbers"](self.op)
        for _ in range(choices.randrange(1, 3)):
            next(generator)
        kind = choices.randrange(4)
        if kind == 0:
            coroutine = space[name + "_later"](self.op, Pause)
            for _ in range(3):
                try:
                    coroutine.send(None)
                except StopIteration:
                    break
            coroutine.close()
        elif kind == 1:
            thread = threading.Thread(target=space[name], args=(self.op,))
            thread.start()
            thread.join()
        elif kind == 2:
            later = space[name + "_later"]

            async def both():
                await asyncio.gather(*(later(self.op, lambda: asyncio.sleep(0)) for _ in range(2)))
            asyncio.run(both())
        else:
            # Resumed by another thread, which then drops it.
            thread = threading.Thread(target=lambda: next(generator))
            thread.start()
            thread.join()
        generator.close()


class Pause:
    """As asyncio.sleep(0), without a loop."""

    def __await__(self):
        yield


class ChangingTest(unittest.TestCase):

    def test_a_program_that_changes_all_the_time_has_the_right_names(self):
        op_count, seed = 0, 27
        pauses = random.Random(seed)
        with Restless() as program:
            captures = 0
            while captures < CHANGING_CAPTURES:
                first = program.last_number
                harness.free.harness_arm(STACKS | MODULES, 32, 1)
                time.sleep(pauses.uniform(0.001, 0.05))
                harness.free.harness_finish(1)
                expected = dict(program.expected)
                # On a busy machine it may have run for so long that names are used again.
                if program.last_number - first >= program.RING:
                    continue
                captures += 1
                op_count += self.check(Contents(harness.directory / "contents"), expected)
        self.assertEqual(program.errors, [])
        self.assertGreater(op_count, CHANGING_CAPTURES)
        print("%d captures, %d operators" % (CHANGING_CAPTURES, op_count))

    def check(self, contents, expected):
        self.assertEqual(contents.dropped, 0)
        self.assertEqual(contents.missing.get("Python stacks"), None)
        self.assertEqual(contents.counts[COUNT_ODD_FRAMES], 0)
        for name, thread, stack in contents.ops:
            self.assertEqual(contents.stack(thread, stack), expected[name], name)
        return len(contents.ops)


class LeavingTest(unittest.TestCase):
    """Last: nothing is read after it."""

    def test_python_that_ends_is_left_alone(self):
        harness.locked.harness_leave()
        with Capture(harness) as capture:
            pass
        self.assertEqual(capture.contents.missing.get("Python stacks"), "Python is ending")


class ForeignTest(unittest.TestCase):

    def test_attached_without_the_lock(self):
        with Capture(harness, flags=STACKS | MODULES) as capture:
            capture.op()
        self.assertEqual(capture.contents.recorded & (FEATURE_STACKS | FEATURE_MODULES), 0)
        for feature in ("Python stacks", "modules"):
            self.assertEqual(capture.contents.missing[feature],
                             "the library was attached outside of Python")


def run_inside(mode):
    global harness
    sys.setrecursionlimit(5000)
    install_modules()
    with tempfile.TemporaryDirectory() as directory:
        harness = Harness(directory, with_lock=mode != "foreign")
        features = harness.attach("2.6.0")
        if mode != "foreign":
            wanted = FEATURE_STACKS | FEATURE_MODULES
            assert features & wanted == wanted, "stacks or modules do not work: %x" % features
        cases = {"foreign": [ForeignTest], "changing": [ChangingTest],
                 "stacks": [StacksTest, LeavingTest]}[mode]
        suite = unittest.TestSuite(
            unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in cases)
        result = unittest.TextTestRunner(verbosity=1).run(suite)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if result.wasSuccessful() else 1)


def interpreter(minor):
    """The path of that CPython, or None."""
    names = [shutil.which("python3.%d" % minor), "/usr/bin/python3.%d" % minor]
    names += sorted(glob.glob(os.path.expanduser(
        "~/.pyenv/versions/3.%d.*/bin/python3.%d" % (minor, minor))))
    for name in names:
        if name is None or not os.path.exists(name):
            continue
        asked = subprocess.run(
            [name, "-c", "import sys; print(sys.implementation.name, sys.version_info[1],"
             " getattr(sys, '_is_gil_enabled', lambda: True)())"],
            capture_output=True, text=True)
        if asked.stdout.split() == ["cpython", str(minor), "True"]:
            return name
    return None


def main():
    failed, ran = [], 0
    for minor in MINORS:
        path = interpreter(minor)
        if path is None:
            print("SKIP: no Python 3.%d, so its stacks are not tested" % minor)
            continue
        for mode in ("stacks", "changing", "foreign"):
            print("Python 3.%d (%s): %s" % (minor, path, mode), flush=True)
            ran += 1
            if subprocess.run([path, __file__, "--inside", mode]).returncode != 0:
                failed.append("3.%d %s" % (minor, mode))
    if failed:
        sys.exit("failed: " + ", ".join(failed))
    if ran == 0:
        sys.exit(77)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--inside":
        run_inside(sys.argv[2])
    else:
        main()
