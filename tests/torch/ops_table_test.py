"""`profctl ops --torch` against torch's own code on the same events, with the torch of PROFD_TORCH_PYTHON:
profiles made here and now, on a CPU.

Where an average lies between two figures, torch's sums of floating-point microseconds may go to the other one: the
last digit of a cell may differ by one.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get('PROFD_SOURCE_DIR', pathlib.Path(__file__).parents[2]))
PROFCTL = pathlib.Path(os.environ.get('PROFD_BUILD_DIR', SOURCE / 'build/release')) / 'bin/profctl'
PYTHON = os.environ.get('PROFD_TORCH_PYTHON', sys.executable)
NUMBER = re.compile(r'-?\d+\.\d+')


def run(*command, **kwargs):
    return subprocess.run([str(part) for part in command], text=True, capture_output=True, **kwargs)


def torch_table(*arguments):
    """The release of torch; skips where it cannot tell."""
    made = run(PYTHON, pathlib.Path(__file__).parent / 'torch_table.py', *arguments)
    if made.returncode == 77:
        raise unittest.SkipTest(made.stderr.strip())
    if made.returncode != 0:
        raise AssertionError(made.stderr)
    return made.stdout.split()[-1]


def is_same_cell(ours, theirs):
    if ours == theirs:
        return True
    if not (NUMBER.search(ours) and NUMBER.sub('', ours) == NUMBER.sub('', theirs)):
        return False
    a, b = NUMBER.search(ours).group(), NUMBER.search(theirs).group()
    decimals = len(a.split('.')[1])
    return abs(round(float(a) * 10**decimals) - round(float(b) * 10**decimals)) <= 1


class OpsTableTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='profd_ops_')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check(self, trace, tables, release):
        """`tables`: the path of torch's, without its end."""
        capture = self.folder / 'capture.profd'
        imported = run(PROFCTL, 'import', trace, '-o', capture)
        self.assertEqual(imported.returncode, 0, imported.stderr)
        for end, flags in (('.txt', ['--limit', 0]),
                           ('.inputs.txt', ['--limit', 0, '--group-by', 'inputs']),
                           ('.sorted.txt', ['--limit', 7, '--sort', 'self_cpu_time_total'])):
            shown = run(PROFCTL, 'ops', capture, f'--torch={release}', *flags)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.compare(shown.stdout, pathlib.Path(f'{tables}{end}').read_text(), f'{trace}{end}')
        capture.unlink()

    def compare(self, ours, theirs, what):
        ours, theirs = ours.splitlines(), theirs.splitlines()
        for line, (a, b) in enumerate(zip(ours, theirs)):
            if a == b:
                continue
            cells_a, cells_b = re.split(r'  +', a), re.split(r'  +', b)
            same = len(cells_a) == len(cells_b) and all(map(is_same_cell, cells_a, cells_b))
            self.assertTrue(same, f'{what}, line {line}:\n{a}\n{b}')
        self.assertEqual(len(ours), len(theirs), what)

    def test_profiles_of_this_torch(self):
        release = torch_table(self.folder)
        for name in ('plain', 'shapes', 'memory'):
            with self.subTest(name):
                self.check(self.folder / f'{name}.json', self.folder / name, release)


if __name__ == '__main__':
    unittest.main(verbosity=2)
