"""The example programs run, and to the same bits each time: else what the other tests say of a run
with and without the profiler would say nothing.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = pathlib.Path(__file__).resolve().parent / 'programs'
PYTHON = os.environ.get('PROFD_TORCH_PYTHON', sys.executable)
SKIPPED = 77
DEADLINE_S = 240


class ExamplesTest(unittest.TestCase):

    def run_example(self, name, *flags):
        """Its digests, sorted; or skips with its reason."""
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith('PROFD_') and key not in ('RANK', 'WORLD_SIZE')}
        result = subprocess.run([PYTHON, PROGRAMS / f'{name}.py', *flags], env=environment,
                                capture_output=True, text=True, timeout=DEADLINE_S)
        if result.returncode == SKIPPED:
            self.skipTest(result.stdout.strip())
        self.assertEqual(result.returncode, 0, result.stderr)
        digests = re.findall(r'digest ([0-9a-f]{64})$', result.stdout, re.MULTILINE)
        self.assertTrue(digests, result.stdout)
        return sorted(digests)

    def assert_repeats(self, name, *flags):
        first = self.run_example(name, *flags)
        self.assertEqual(self.run_example(name, *flags), first)
        return first

    def test_matmul_bias(self):
        predicted = self.assert_repeats('matmul_bias', '--steps', '20')
        trained = self.assert_repeats('matmul_bias', '--steps', '3', '--train')
        self.assertNotEqual(trained, predicted)

    def test_convnet_with_its_own_profiler_too(self):
        plain = self.assert_repeats('convnet', '--steps', '4')
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / 'trace.json'
            profiled = self.run_example('convnet', '--steps', '4', '--torch-profiler', trace,
                                        '--torch-profiler-from', '1', '--torch-profiler-steps', '2')
            self.assertIn('aten::conv2d', trace.read_text())
        self.assertEqual(profiled, plain)

    def test_two_optimizers_learn_what_one_does(self):
        self.assertEqual(self.run_example('convnet', '--steps', '3', '--optimizers', '2'),
                         self.run_example('convnet', '--steps', '3'))

    def test_gan(self):
        trained = self.assert_repeats('gan', '--steps', '5')
        self.assertNotEqual(self.run_example('gan', '--steps', '5', '--critics', '3'), trained)

    def test_transformer(self):
        trained = self.assert_repeats('transformer', '--steps', '3')
        self.assertEqual(self.run_example('transformer', '--steps', '3', '--workers', '0'), trained)
        self.assert_repeats('transformer', '--steps', '3', '--inference')

    def test_graph_breaks(self):
        self.assert_repeats('graph_breaks', '--steps', '6', '--recompile-at', '3')

    def test_ddp_ranks_end_with_equal_parameters(self):
        ranks = self.assert_repeats('ddp', '--steps', '3')
        self.assertEqual(len(ranks), 2)
        self.assertEqual(len(set(ranks)), 1)


if __name__ == '__main__':
    has_torch = subprocess.run([PYTHON, '-c', 'import torch'], capture_output=True, check=False)
    if has_torch.returncode != 0:
        print(f'SKIP: {PYTHON} has no torch')
        sys.exit(SKIPPED)
    unittest.main()
