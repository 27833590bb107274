"""Which of the program's objects are found, and that nobody notices that they were looked at.

The torch of this Python, if it has one, runs in a process of its own; the library is off.
"""

import ctypes
import gc
import importlib.util
import os
import pathlib
import subprocess
import sys
import types
import unittest
import unittest.mock
import weakref

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client_lib" / "python"))
os.environ["PROFD_DISABLE"] = "1"

from profd import _objects  # noqa: E402
from profd._objects import NotLooked, find_objects, may_hold_any_tensor  # noqa: E402

BUILD_DIR = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
LIBRARY = BUILD_DIR / "lib" / "libprofd_client.so"
_objects._library = types.SimpleNamespace(lib=ctypes.PyDLL(str(LIBRARY)))
# The same for a program of its own.
PREAMBLE = """
import ctypes, sys, threading, types
sys.path.insert(0, %r)
import torch
from profd import _objects, _torch_blocks
_objects._library = types.SimpleNamespace(lib=ctypes.PyDLL(%r))
torch.set_num_threads(1)
""" % (str(ROOT / "client_lib" / "python"), str(LIBRARY))


@unittest.skipIf("t" in sys.abiflags, "a free-threaded Python")
class FindObjectsTest(unittest.TestCase):

    def test_objects_of_derived_classes_are_found_and_liars_are_not(self):
        class Base:
            pass

        class Derived(Base):
            pass

        class Liar:
            @property
            def __class__(self):
                raise AssertionError("asked for its class")

        class Strange(type):
            def __eq__(cls, other):
                raise AssertionError("compared")
            __hash__ = None

        class Odd(metaclass=Strange):
            pass

        things = [Base(), Derived(), Liar(), Odd()]
        found, = find_objects(Base)
        self.assertEqual({id(thing) for thing in found}, {id(things[0]), id(things[1])})
        self.assertEqual(len(found), 2)

    def test_each_class_has_a_list_and_a_class_of_two_is_in_both(self):
        class Base:
            pass

        class Other:
            pass

        class Both(Base, Other):
            pass

        things = [Base(), Other(), Both()]
        of_base, of_other, of_both = find_objects(Base, Other, Both)
        self.assertEqual({id(thing) for thing in of_base}, {id(things[0]), id(things[2])})
        self.assertEqual({id(thing) for thing in of_other}, {id(things[1]), id(things[2])})
        self.assertEqual([id(thing) for thing in of_both], [id(things[2])])

    def test_nothing_is_kept_of_what_was_looked_at(self):
        class Thing:
            pass

        thing = Thing()
        other = weakref.ref(thing)
        before = sys.getrefcount(thing)
        found, = find_objects(dict)
        del found
        self.assertEqual(sys.getrefcount(thing), before)
        del thing
        self.assertIsNone(other())

    def test_without_the_library_nobody_looks(self):
        with unittest.mock.patch.object(_objects, "_library", types.SimpleNamespace(lib=None)):
            with self.assertRaisesRegex(NotLooked, "off, or older"):
                find_objects(dict)

    def test_a_program_with_very_many_objects_is_not_stopped(self):
        self.assertLess(sys.getallocatedblocks(), _objects.MOST_BLOCKS)
        with unittest.mock.patch.object(gc, "get_objects", lambda: self.fail("looked")):
            with unittest.mock.patch.object(sys, "getallocatedblocks", lambda: 4_100_000):
                with self.assertRaisesRegex(NotLooked, "4.1 million blocks"):
                    find_objects(dict)
            with self.assertRaisesRegex(NotLooked, "stop the program"):
                find_objects(dict, most_blocks=1)

    def test_an_error_of_pythons_is_not_swallowed(self):
        with unittest.mock.patch.object(gc, "get_objects", lambda: 1 // 0):
            with self.assertRaises(ZeroDivisionError):
                find_objects(dict)

    def test_from_which_torch_on_any_tensor_may_be_held(self):
        for version, may in (("1.13.1", False), ("2.0.1+cu117", False), ("2.9.1", False),
                             ("2.10.0", True), ("2.15.0a0+git1234", True), ("3.0", True),
                             ("unknown", False), ("2", False)):
            self.assertEqual(may_hold_any_tensor(types.SimpleNamespace(__version__=version)), may,
                             version)

    def test_nobody_looks_at_the_objects_of_a_free_threaded_python(self):
        with unittest.mock.patch.object(sys, "abiflags", "t"):
            with self.assertRaisesRegex(NotLooked, "free-threaded"):
                find_objects(dict)

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "this Python has no torch")
    def test_tensors_that_are_being_released_meanwhile_are_not_noticed_to_be_held(self):
        # Before torch 2.10 such a look made torch warn, or crash.
        program = PREAMBLE + """
sys.setswitchinterval(1e-5)
is_over = False
def train():
    model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(30)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while not is_over:
        values = [torch.randn(4, 8)]
        for layer in model:
            values.append(layer(values[-1]))
        loss = sum((value * value).sum() for value in values)
        optimizer.zero_grad()
        del values
        loss.backward()
        optimizer.step()
threads = [threading.Thread(target=train) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(100):
    owners = _torch_blocks.Owners(torch)
    assert owners._modules
is_over = True
for thread in threads:
    thread.join()
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=300, check=False, env={**os.environ, "PROFD_DISABLE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertNotIn("live PyObject", done.stderr)


if __name__ == "__main__":
    unittest.main()
