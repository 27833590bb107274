"""Which line of the program operators of Inductor's generated code come from, in captures of a real
torch.compile: compared with torch's own PyCodeCache.stack_frames_for_code().
"""

import collections
import json
import subprocess

import harness_torch
from harness import DONE
from harness_torch import TorchTest

SEPARATOR = ' < '
STEPS = 3
# The model's lines by function. Forward has one product for each, backward two.
FUNCTIONS = {'first': 1, 'forward': 2}
# Of a step. The input needs no gradient; one product of backward adds to another gradient.
PRODUCTS = 3 + 5
NAMES = 'aten::mm', 'aten::addmm'


class CompiledSourcesTest(TorchTest):

    def capture(self):
        """The capture of a process, and torch's own lines: {file: {line: place}}."""
        out = self.folder / 'sources.json'
        cache = {'TORCHINDUCTOR_CACHE_DIR': str(self.folder / 'cache'),
                 'TORCHINDUCTOR_COMPILE_THREADS': '1'}
        program = self.program('compiled_training.py', out, env=cache)
        program.do('train 3')
        self.await_target(program, 'optimizer')
        tracing = self.trace('--pid', program.pid, '--steps', STEPS, '--warmup', 0, '--with', 'stacks')
        self.await_state('WAITING_STEP')
        program.do(f'train {2 * STEPS}')
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(result.json['torch']['missing'], [])
        program.do('sources')
        self.assertEqual(program.end(), 0)
        return result.json, json.loads(out.read_text())

    def rows(self, capture, by, key):
        table = self.daemon.ctl('ops', capture['id'], '--group-by', by, '--json').json
        calls = collections.Counter()
        for row in table['rows']:
            if row['name'] in NAMES:
                calls[row[key]] += row['calls']
        return calls

    def check(self, capture, of_torch):
        by_stack = self.rows(capture, 'stack:2', 'stack')
        self.assertEqual(sum(by_stack.values()), PRODUCTS * STEPS)
        expected = collections.Counter()
        for stack, calls in by_stack.items():
            source, generated = stack.split(SEPARATOR)
            file, _, rest = generated.rpartition('(')
            self.assertEqual(source, of_torch[file][rest.partition(')')[0]], stack)
            expected[source] += calls
        self.assertEqual(self.rows(capture, 'source', 'source'), expected)
        functions = [source.rpartition(' ')[2] for source in expected]
        self.assertEqual({name: functions.count(name) for name in FUNCTIONS}, FUNCTIONS)
        trace = self.export(capture).read_text()
        for source in expected:
            self.assertIn(source + ';', trace)

    def test_operators_name_the_models_lines_also_of_code_from_the_cache(self):
        self.check(*self.capture())
        self.check(*self.capture())


if __name__ == '__main__':
    asked = subprocess.run([harness_torch.PYTHON, '-c', 'import torch._inductor.codecache as c; '
                            'c.PyCodeCache.stack_frames_for_code, c.PyCodeCache.linemaps'],
                           capture_output=True)
    if asked.returncode != 0:
        print(f'SKIP: {harness_torch.PYTHON} has no torch whose Inductor keeps source lines')
        raise SystemExit(77)
    harness_torch.harness.main()
