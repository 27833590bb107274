"""What the library is told of the program's own torch.profiler.

Runs with the torch of this Python; without one it skips. The library is not loaded.
"""

import importlib.util
import os
import pathlib
import sys
import types
import unittest
import unittest.mock

if importlib.util.find_spec("torch") is None:
    print("SKIP: this Python has no torch")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client_lib" / "python"))
os.environ["PROFD_DISABLE"] = "1"

import torch  # noqa: E402

from profd import _torch_profilers  # noqa: E402


class ProfilersTest(unittest.TestCase):
    """torch's own class, wrapped; without a GPU, the profiler is told that it has one."""

    def setUp(self):
        self.told = []
        profile = torch.autograd.profiler.profile
        self.original = (profile._prepare_trace, profile.__exit__)
        self.assertTrue(_torch_profilers.hook(self.told.append))
        self.addCleanup(self.unhook)

    def unhook(self):
        profile = torch.autograd.profiler.profile
        profile._prepare_trace, profile.__exit__ = self.original

    def of_cuda(self):
        """A patch of torch's method, so that a profiler of the CPU looks like one of CUDA."""
        original = self.original[0]

        def prepare(profiler, *args, **kwargs):
            self.told.append("prepares")
            return original(profiler, *args, **kwargs)

        profile = torch.autograd.profiler.profile
        self.unhook()
        profile._prepare_trace = prepare
        _torch_profilers.hook(self.told.append)
        device = {"use_device": "cuda"} if "use_device" in vars(profile()) else {
            "use_cuda": True}
        init = profile.__init__

        def __init__(profiler, *args, **kwargs):
            init(profiler, *args, **kwargs)
            vars(profiler).update(device)

        return unittest.mock.patch.object(profile, "__init__", __init__)

    def test_a_profiler_of_the_cpu_needs_no_cupti(self):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            torch.ones(3) + 1
        self.assertEqual(self.told, [])
        self.assertIn("aten::add", {event.key for event in profiler.key_averages()})

    def test_one_of_cuda_is_told_before_torch_prepares_and_after_its_end(self):
        with self.of_cuda(), unittest.mock.patch.object(
                torch.autograd.profiler.profile, "_start_trace", lambda profiler: None), \
                unittest.mock.patch.object(torch.autograd.profiler, "_prepare_profiler",
                                           lambda *args, **kwargs: None):
            profiler = torch.autograd.profiler.profile()
            profiler.__enter__()
            self.assertEqual(self.told, [1, "prepares"])
            with self.assertRaises(Exception):  # torch never began.
                profiler.__exit__(None, None, None)
            self.assertEqual(self.told, [1, "prepares", 0])

    def test_one_that_cannot_begin_is_taken_back(self):
        def fail(*args, **kwargs):
            raise RuntimeError("no profiler today")

        with self.of_cuda(), unittest.mock.patch.object(
                torch.autograd.profiler, "_prepare_profiler", fail):
            with self.assertRaisesRegex(RuntimeError, "no profiler today"):
                torch.autograd.profiler.profile().__enter__()
        self.assertEqual(self.told, [1, "prepares", 0])

    def test_a_torch_without_the_methods_is_left_alone(self):
        with unittest.mock.patch.dict(sys.modules, {"torch.autograd.profiler": types.ModuleType(
                "torch.autograd.profiler")}):
            self.assertFalse(_torch_profilers.hook(self.told.append))


if __name__ == "__main__":
    unittest.main(verbosity=2)
