"""What is linked into profd: nothing that computes anything from events. profd-report does that, and
a hostile capture file can at most end that program."""

import os
import pathlib
import subprocess
import unittest

BUILD = pathlib.Path(os.environ['PROFD_BUILD_DIR'])


def defined_functions(file):
    """The mangled names of the functions that a program or a library defines for others, but for those that
    many libraries may bring (inline functions, templates)."""
    lines = subprocess.run(['nm', '--defined-only', file], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return {fields[2] for fields in map(str.split, lines) if len(fields) == 3 and fields[1] == 'T'}


def ours(names):
    return {name for name in names if 'profd' in name}


class SymbolsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.profd = defined_functions(BUILD / 'bin' / 'profd')
        cls.report = defined_functions(BUILD / 'bin' / 'profd-report')

    def test_profd_has_no_function_of_the_analysis(self):
        libraries = [*BUILD.glob('lib/libprofd_report*.a'), *BUILD.glob('lib/libprofd_export*.a')]
        self.assertGreater(len(libraries), 10)
        analysis = set().union(*(ours(defined_functions(library)) for library in libraries))
        # It would be seen.
        self.assertGreater(len(analysis & self.report), 200)
        self.assertGreater(len(ours(self.profd)), 2000)
        self.assertEqual(sorted(analysis & self.profd), [])

    def test_profd_allocates_as_other_programs_do(self):
        counted = '_Znwm'  # operator new(size_t), which base/heap_count.cc replaces.
        self.assertIn(counted, self.report)
        self.assertNotIn(counted, self.profd)


if __name__ == '__main__':
    unittest.main()
