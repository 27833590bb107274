"""A job of PyTorch under a daemon that means harm trains with the same losses, to the bit.

Each session sends right, wrong, and random frames, has operators, inputs, memory, stacks, and modules
recorded into memory that it overwrites meanwhile, and hangs up. PROFD_LONG_HOSTILE_SESSIONS=N makes
it N sessions; by default there are a few.
"""

import os
import pathlib
import shutil
import sys
import tempfile
import unittest

import harness_torch
from harness_torch import VERSION, Program

sys.path.insert(0, str(harness_torch.TESTS / 'e2e/target_campaign'))
from hostile_daemon import HostileDaemon  # noqa: E402

SESSIONS = int(os.environ.get('PROFD_LONG_HOSTILE_SESSIONS', '20'))
SEED = 27
STEPS_AT_ONCE = 10


class HostileTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_hostile_'))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def program(self, socket_dir, traced):
        program = Program(socket_dir, 'restless_training.py', traced=traced)
        self.addCleanup(program.close)
        return program

    def train_below(self, hostile):
        """The losses of as many steps as the sessions take, and the digest at their end."""
        program = self.program(self.folder / 'run', traced=True)
        losses = program.do(f'train {STEPS_AT_ONCE}')
        while hostile.session_count < SESSIONS:
            losses += program.do(f'train {STEPS_AT_ONCE}')
        digest = program.do('digest')
        self.assertEqual(program.end(), 0)
        return losses, digest

    def test_losses_are_equal_to_the_bit(self):
        hostile = HostileDaemon(self.folder / 'run', SEED, welcomes=True)
        self.addCleanup(hostile.end)
        losses, digest = self.train_below(hostile)
        self.assertGreater(hostile.armed_count, SESSIONS // 4, 'captures were armed')
        alone = self.program(self.folder / 'absent', traced=False)
        self.assertEqual(alone.do(f'train {len(losses)}'), losses)
        self.assertEqual(alone.do('digest'), digest)
        self.assertEqual(alone.end(), 0)
        print(f'{hostile.session_count} hostile sessions, {hostile.armed_count} captures armed, '
              f'{len(losses)} equal losses, seed {SEED}', flush=True)


if __name__ == '__main__':
    if VERSION is None:
        print(f'SKIP: {harness_torch.PYTHON} has no torch', flush=True)
        raise SystemExit(77)
    unittest.main(verbosity=2)
