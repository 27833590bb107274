"""The kernels that the GPU tests bring assemble for every GPU they may meet.

Needs ptxas of a CUDA toolkit; skips without.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

KERNELS = pathlib.Path(__file__).parent / 'kernels.ptx'


def find_ptxas():
    return shutil.which('ptxas') or next(
        (str(p) for p in (pathlib.Path('/usr/local/cuda/bin/ptxas'),) if p.exists()), None)


class PtxTest(unittest.TestCase):
    def test_the_kernels_assemble(self):
        help_text = subprocess.run([find_ptxas(), '--help'], capture_output=True, text=True).stdout
        known = [arch for arch in ('sm_60', 'sm_70', 'sm_75', 'sm_80', 'sm_90', 'sm_100')
                 if f"'{arch}'" in help_text]
        self.assertTrue(known, 'ptxas names none of the architectures')
        with tempfile.TemporaryDirectory() as folder:
            for arch in known:
                done = subprocess.run([find_ptxas(), f'-arch={arch}', KERNELS, '-o',
                                       pathlib.Path(folder) / 'out'], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, f'{arch}: {done.stderr}')


if __name__ == '__main__':
    if find_ptxas() is None:
        print('SKIP: no ptxas: the CUDA toolkit is not installed')
        sys.exit(77)
    unittest.main(verbosity=2)
