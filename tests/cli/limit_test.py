"""One rule for --limit: it limits rows as text and with --json alike; without it, --json has all.

Goes through all commands that have the flag, as `profctl help --json` lists them.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ['PROFD_SOURCE_DIR'])
PROFCTL = pathlib.Path(os.environ['PROFD_BUILD_DIR']) / 'bin' / 'profctl'
TRACES = {
    'gpu': SOURCE / 'tests' / 'data' / 'alexnet_train.json.gz',
    'cpu': SOURCE / 'tests' / 'export' / 'chrome' / 'torch_step.json.gz',
}
# They ask a daemon, or compare several captures: tests/cli/commands, tests/cli/captures,
# tests/cli/render, and tests/e2e test their limits.
OF_MORE_THAN_A_FILE = {'audit', 'captures', 'diff', 'history', 'schedule', 'stragglers'}
# Flags of which each makes another table.
VARIANTS = {'ops': [[], ['--torch=2.6'], ['--group-by', 'input_shape']]}
# Lists that are no tables: parts of a report that are there once, and samples of a curve.
NO_ROWS = {
    'collectives': {'communicators'},
    'report': {'findings', 'quality_checks', 'skipped', 'passed'},
    'memory': {'devices', 'samples'},
}


def lists_in(value, name=''):
    """All lists of objects in a JSON value: (their key, their length)."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from lists_in(item, key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield name, len(value)
        for item in value:
            yield from lists_in(item, name)


class LimitTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.captures = [os.path.join(cls.folder.name, name + '.profd') for name in TRACES]
        for capture, trace in zip(cls.captures, TRACES.values()):
            cls.profctl('import', trace, '-o', capture)
        commands = json.loads(cls.profctl('help', '--json'))['commands']
        cls.helps = {command['name']: flag['help'] for command in commands
                     for flag in command['flags'] if flag['name'] == 'limit'}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def profctl(cls, *arguments):
        done = subprocess.run([PROFCTL, *arguments], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError('%s: exit %d: %s' % (arguments, done.returncode, done.stderr))
        return done.stdout

    def test_every_help_states_the_rule(self):
        self.assertLess({'ops', 'report', 'memory', 'captures'}, set(self.helps))
        for command, text in self.helps.items():
            with self.subTest(command=command):
                self.assertRegex(text, r'^(history: )?[Aa]t most N ')
                self.assertIn('0 is all', text)
                self.assertTrue(re.search(r'\(default: .*all,? (also )?with --json', text), text)

    def test_json_is_limited_as_text_is(self):
        for command in sorted(set(self.helps) - OF_MORE_THAN_A_FILE):
            longest = 0
            for flags in VARIANTS.get(command, [[]]):
                for capture in self.captures:
                    with self.subTest(command=command, flags=flags, capture=capture):
                        arguments = [command, capture, '--json', *flags]
                        whole = list(lists_in(json.loads(self.profctl(*arguments))))
                        self.assertEqual(
                            whole, list(lists_in(json.loads(self.profctl(*arguments, '--limit', '0')))))
                        limited = json.loads(self.profctl(*arguments, '--limit', '1'))
                        without = NO_ROWS.get(command, set())
                        for name, length in lists_in(limited):
                            if name not in without:
                                self.assertEqual(length, 1, name)
                        longest = max([longest] + [n for name, n in whole if name not in without])
            with self.subTest(command=command):
                # Little of these is in the traces.
                if command not in ('collectives', 'compile', 'modules', 'steps', 'syncs'):
                    self.assertGreater(longest, 1, 'nothing was there to be limited')


if __name__ == '__main__':
    unittest.main()
