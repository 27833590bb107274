"""Runs a share of the tests of a unittest script, so that shares can run beside each other:

    shard.py I/N SCRIPT [ARGUMENTS...]      tests I, I + N, I + 2N, ... of those in SCRIPT
"""

import itertools
import pathlib
import runpy
import sys
import unittest


def take_share(index, count):
    numbers = itertools.count()
    names_of = unittest.TestLoader.getTestCaseNames

    def names_of_share(loader, case):
        return [name for name in names_of(loader, case) if next(numbers) % count == index - 1]

    unittest.TestLoader.getTestCaseNames = names_of_share


if __name__ == '__main__':
    take_share(*map(int, sys.argv[1].split('/')))
    del sys.argv[:2]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name='__main__')
