"""The --json of every report on two imported traces, and torch's table as text, against the files in golden/.

A change of a schema or of a figure shows in their diff. To accept it:

    PROFD_UPDATE_GOLDEN=1 PROFD_BUILD_DIR=build/release PROFD_SOURCE_DIR=. tests/cli/golden_test.py
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ['PROFD_SOURCE_DIR'])
PROFCTL = pathlib.Path(os.environ['PROFD_BUILD_DIR']) / 'bin' / 'profctl'
GOLDEN = SOURCE / 'tests' / 'cli' / 'golden'

TRACES = {
    'gpu': SOURCE / 'tests' / 'data' / 'alexnet_train.json.gz',
    'cpu': SOURCE / 'tests' / 'export' / 'chrome' / 'torch_step.json.gz',
}
# A few rows have all columns.
REPORTS = {
    'gpu': [['ops', '--limit', '2'], ['ops', '--torch=2.6', '--limit', '2'], ['kernels', '--limit', '2'],
            ['copies'], ['syncs'], ['idle'], ['time', '--limit', '2'], ['report']],
    'cpu': [['ops', '--limit', '2', '--group-by', 'input_shape'], ['steps'], ['compile'],
            ['memory', '--max-points', '20', '--limit', '2'], ['show']],
}
# Byte by byte.
TEXTS = {
    'gpu_ops_torch.txt': ['ops', '--torch=2.6', '--sort', 'self_cuda_time_total', '--limit', '12'],
    'cpu_ops_torch.txt': ['ops', '--torch=2.15', '--group-by', 'input_shape', '--limit', '12'],
}
# Made anew by each import.
VOLATILE = {'id', 'create_unix_ns', 'end_unix_ns', 'file_sha256', 'file_bytes', 'path', 'node',
            'requested_by', 'requested_by_uid', 'uid'}


def stable(value):
    """`value` without what differs from import to import, or in the last digits by machine."""
    if isinstance(value, float):
        return float('%.9g' % value)
    if isinstance(value, dict):
        return {key: '...' if key in VOLATILE else stable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [stable(item) for item in value]
    return value


class GoldenTest(unittest.TestCase):
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.captures = {name: os.path.join(cls.folder.name, name + '.profd') for name in TRACES}
        for name, trace in TRACES.items():
            cls.profctl('import', trace, '-o', cls.captures[name])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def profctl(cls, *arguments):
        done = subprocess.run([PROFCTL, *arguments], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError('%s: exit %d: %s' % (arguments, done.returncode, done.stderr))
        return done.stdout

    def test_json_is_as_it_was(self):
        for trace, reports in REPORTS.items():
            for report, *flags in reports:
                with self.subTest(trace=trace, report=report):
                    answer = self.profctl(report, self.captures[trace], '--json', *flags)
                    text = json.dumps(stable(json.loads(answer)), indent=1) + '\n'
                    of_torch = any(flag.startswith('--torch') for flag in flags)
                    self.compare('%s_%s%s.json' % (trace, report, '_torch' if of_torch else ''), text)

    def test_text_of_torch_is_as_it_was(self):
        for name, (report, *flags) in TEXTS.items():
            with self.subTest(name=name):
                self.compare(name, self.profctl(report, self.captures[name[:3]], *flags))

    def compare(self, name, text):
        golden = GOLDEN / name
        if os.environ.get('PROFD_UPDATE_GOLDEN'):
            golden.write_text(text)
        self.assertEqual(text, golden.read_text())


if __name__ == '__main__':
    unittest.main()
