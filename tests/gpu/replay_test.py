"""Decodes each dump of CUPTI's buffers in a folder (default: fixtures) as it was recorded.

Skips where there is none: take_in.py makes them from what ran on a GPU.
"""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path(os.environ.get('PROFD_GPU_FIXTURES', HERE / 'fixtures'))
BUILD_DIR = pathlib.Path(os.environ.get('PROFD_BUILD_DIR', HERE.parents[1] / 'build/release'))
REPLAY = BUILD_DIR / 'tests/bin/replay_dump'


class ReplayTest(unittest.TestCase):
    def test_every_dump_decodes_as_it_was_recorded(self):
        for dump in sorted(FOLDER.glob('*.dump.gz')):
            with self.subTest(dump=dump.name), tempfile.NamedTemporaryFile() as file:
                file.write(gzip.decompress(dump.read_bytes()))
                file.flush()
                done = subprocess.run([REPLAY, file.name], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                expected = dump.with_name(dump.name.removesuffix('.dump.gz') + '.json')
                self.assertEqual(json.loads(done.stdout), json.loads(expected.read_text()))


if __name__ == '__main__':
    if not any(FOLDER.glob('*.dump.gz')):
        print('SKIP: no dumps from a GPU yet: tests/gpu/take_in.py makes fixtures of them')
        sys.exit(77)
    unittest.main(verbosity=2)
