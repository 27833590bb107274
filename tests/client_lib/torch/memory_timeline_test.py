"""`profctl memory` of an imported trace, beside torch's own memory timeline of the same steps.

Runs with the torch of PROFD_TORCH_PYTHON; without one that writes raw timelines (2.2 and later) it
skips.
"""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs/leaking_training.py"
PROFCTL = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", "build/release")) / "bin" / "profctl"
PYTHON = os.environ.get("PROFD_TORCH_PYTHON", sys.executable)
CREATE = 2
DESTROY = 4
LEFT_BEHIND = 16 << 10


class MemoryTimelineTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)
        subprocess.run([PYTHON, PROGRAM, folder], check=True,
                       capture_output=True)
        with gzip.open(folder / "timeline.raw.json.gz") as file:
            cls.timeline = json.load(file)
        capture = folder / "trace.profd"
        subprocess.run([PROFCTL, "import", folder / "trace.json", "-o", capture], check=True,
                       capture_output=True)
        cls.device, = json.loads(subprocess.run(
            [PROFCTL, "memory", capture, "--json"], check=True, capture_output=True).stdout)["devices"]

    def test_blocks_made_freed_and_alive_are_those_of_torch(self):
        level = peak = made = made_bytes = freed = 0
        for _, action, size, _ in self.timeline:
            if action == CREATE:
                made += 1
                made_bytes += abs(size)
                level += abs(size)
            elif action == DESTROY:
                freed += 1
                level -= abs(size)
            peak = max(peak, level)
        self.assertEqual(self.device["device"], "cpu")
        self.assertEqual(self.device["allocation_count"], made)
        self.assertEqual(self.device["allocated_total_bytes"], made_bytes)
        self.assertEqual(self.device["free_count"], freed)
        self.assertEqual(self.device["peak_bytes"], peak)
        self.assertEqual(self.device["end_bytes"], level)

    def test_what_each_step_keeps_is_found_with_the_operator_that_made_it(self):
        growth = self.device["growth"]
        kept = [step["kept_bytes"] for step in self.device["steps"]]
        self.assertEqual(kept[1:-1], [LEFT_BEHIND] * (len(kept) - 2))
        suspect, = growth["suspects_by_op"]
        self.assertEqual(suspect["name"], "aten::mul")
        self.assertEqual(suspect["bytes"], LEFT_BEHIND * (len(kept) - 1))

    def test_what_torch_does_not_record_is_not_called_growth(self):
        growth = self.device["growth"]
        self.assertIsNone(growth["bytes_per_step"])
        self.assertIn("frees of blocks from before the window are not recorded on the CPU",
                      growth["unknown_because"])

    def test_gradients_and_activations_are_told_without_tensors(self):
        categories = {use["name"] for use in self.device["categories"]}
        self.assertLessEqual({"gradient", "activation"}, categories)


def has_torch():
    found = subprocess.run(
        [PYTHON, "-c", "import torch; print('%d.%02d' % tuple(map(int, "
         "torch.__version__.split('+')[0].split('.')[:2])))"], capture_output=True, text=True)
    return found.returncode == 0 and found.stdout.strip() >= "2.02"


if __name__ == "__main__":
    if not has_torch():
        print(f"SKIP: {PYTHON} has no torch that writes raw memory timelines; see current_torch.sh")
        sys.exit(77)
    unittest.main(verbosity=2)
