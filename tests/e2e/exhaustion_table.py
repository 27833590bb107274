"""Walks the table "Who can exhaust what" of daemon/access/SECURITY.md: runs the tests of each row,
and prints a line per row. A row fails if a test of it fails or does not exist.

Called by `exhaustion_test.py --table`. Tests in C++ run by ctest in PROFD_BUILD_DIR, Python tests here; a
test that several rows name runs once.
"""

import datetime
import pathlib
import re
import subprocess
import time
import unittest

import harness

SECURITY = harness.SOURCE_DIR / 'daemon/access/SECURITY.md'
HERE = pathlib.Path(__file__).parent
PASSED, FAILED, SKIPPED = 'passed', 'failed', 'skipped'


def rows(text):
    """(resource, names of tests) of each row."""
    table = text.partition('## Who can exhaust what')[2].partition('\nWhat remains open')[0]
    lines = [line for line in table.splitlines() if line.startswith('| ')]
    return [(line.split(' | ')[0][2:], full_names(re.findall(r'`([\w.]+)`', line.split(' | ')[-1])))
            for line in lines[2:]]


def full_names(names):
    """`.Other` after `Suite.One` is `Suite.Other`."""
    full = []
    for name in names:
        full.append(full[-1].rpartition('.')[0] + name if name.startswith('.') else name)
    return full


def python_tests(name):
    """The tests of a module of this folder, or those below `module.something` in it; None: no module."""
    module, _, rest = name.partition('.')
    if not (HERE / f'{module}.py').exists():
        return None
    found = []

    def add(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                add(test)
            elif not rest or rest in test.id().split('.'):
                found.append(test)
    add(unittest.defaultTestLoader.loadTestsFromName(module))
    return found


class Walk:

    def __init__(self):
        self.results = {}  # By the name of each test that ran.
        self.errors = []

    def run(self, name):
        """The results of the tests that `name` means."""
        found = python_tests(name)
        if found is None:
            return self._run_ctest(name)
        results = []
        for test in found:
            if test.id() not in self.results:
                self.results[test.id()] = self._run_python(test)
            results.append(self.results[test.id()])
        return results

    def _run_python(self, test):
        outcome = unittest.TestResult()
        unittest.TestSuite([test])(outcome)  # With setUpClass().
        for _, error in outcome.errors + outcome.failures:
            self.errors.append(f'{test.id()}:\n{error}')
        if not outcome.wasSuccessful():
            return FAILED
        return SKIPPED if outcome.skipped else PASSED

    def _run_ctest(self, name):
        if name not in self.results:
            end = '$' if '.' in name else r'\.'
            ran = subprocess.run(
                ['ctest', '--test-dir', harness.BUILD_DIR, '--output-on-failure', '-R',
                 r'\.' + re.escape(name) + end], capture_output=True, text=True, check=False)
            words = re.findall(r'^ *\d+/\d+ Test +#\d+: \S+ \.* *(?:\*\*\*)?(\w+)', ran.stdout, re.M)
            if ran.returncode != 0:
                self.errors.append(f'{name}:\n{ran.stdout[-3000:]}{ran.stderr}')
            self.results[name] = [
                {'Passed': PASSED, 'Skipped': SKIPPED}.get(word, FAILED) for word in words]
        return self.results[name]


def walk():
    """Prints the table; returns whether no row failed."""
    commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], cwd=harness.SOURCE_DIR,
                            capture_output=True, text=True, check=False).stdout.strip()
    print(f'{datetime.date.today()}, commit {commit or "unknown"}\n\n'
          '| Resource | Tests | Passed | Result |\n| --- | --- | --- | --- |', flush=True)
    state = Walk()
    good = 0
    all_rows = rows(SECURITY.read_text())
    for resource, names in all_rows:
        begin = time.monotonic()
        results = {name: state.run(name) for name in names}
        counts = [result for each in results.values() for result in each]
        missing = [name for name in names if not results[name]]
        said = [f'no test {name}' for name in missing] + [
            f'{counts.count(bad)} {bad}' for bad in (FAILED, SKIPPED) if bad in counts]
        is_good = bool(names) and not missing and FAILED not in counts and PASSED in counts
        good += is_good
        print(f'| {resource} | {", ".join(names) or "none"} | {counts.count(PASSED)} | '
              f'{"as promised" if is_good else "**FAILED**"}{": " if said else ""}{", ".join(said)} '
              f'({time.monotonic() - begin:.0f} s) |', flush=True)
    print(f'\n{good} of {len(all_rows)} rows as promised', *state.errors, sep='\n')
    return good == len(all_rows)
