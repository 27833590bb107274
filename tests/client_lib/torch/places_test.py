"""Which line and which module operators ran in: captures of a real PyTorch program with stacks and
modules, as `profctl ops` shows them."""

import json
import pathlib
import tempfile

import harness_torch
from harness import DONE, USAGE
from harness_torch import TorchTest

STEPS = 5
PROGRAM = pathlib.Path(harness_torch.PROGRAMS / 'sleeping_training.py')
SLEEPS_MS = {'forward': 20, 'loss': 27, 'backward': 36, 'optimizer': 48, 'log': 64}  # As there.


def line_of(text):
    """The line of the program that says so."""
    lines = PROGRAM.read_text().splitlines()
    return 1 + next(at for at, line in enumerate(lines) if text in line)


class PlacesTest(TorchTest):

    def capture(self, *flags):
        program = self.program(PROGRAM.name)
        program.answer()
        program.do('train 3')
        self.await_target(program, 'optimizer')
        tracing = self.trace('--pid', program.pid, '--steps', STEPS, '--warmup', 0, *flags)
        self.await_state('WAITING_STEP')
        program.do(f'train {STEPS + 4}')
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(program.end(), 0)
        self.assertEqual(result.json['torch']['missing'], [])
        return result.json

    def rows(self, capture, by):
        table = self.daemon.ctl('ops', capture['id'], '--group-by', by, '--json').json
        return {(row['name'], row[by.split(':')[0]]): row for row in table['rows']}

    def test_operators_are_grouped_by_the_line_that_called_them(self):
        capture = self.capture('--with', 'stacks')
        self.assertGreater(capture['torch']['stack_count'], 10)
        self.assertEqual(capture['torch']['missing_stack_count'], 0)
        rows = self.rows(capture, 'source')
        first, last = line_of('self.first(x)'), line_of('torch.tanh(hidden)')
        loss = line_of('mse_loss(output, y)')
        calls = {(name, source.rpartition('/')[2]): row['calls']
                 for (name, source), row in rows.items()}
        # The window may cut an operator, but not a step's line.
        for name, place in (('aten::linear', f'sleeping_training.py({first}): '),
                            ('aten::linear', f'sleeping_training.py({last}): '),
                            ('aten::tanh', f'sleeping_training.py({last}): '),
                            ('aten::mse_loss', f'sleeping_training.py({loss}): ')):
            found = [calls[key] for key in calls if key[0] == name and key[1].startswith(place)]
            self.assertEqual(found, [STEPS], (name, place, sorted(calls)))
        # Backward is where forward was, not where backward() was called.
        backward = [source for name, source in rows if name == 'TanhBackward0']
        self.assertEqual(len(backward), 1, backward)
        self.assertIn(f'sleeping_training.py({last}): ', backward[0])

        stacks = [stack for name, stack in self.rows(capture, 'stack:3') if name == 'aten::tanh']
        self.assertEqual(len(stacks), 1, stacks)
        self.assertEqual(stacks[0].count(' < '), 2, stacks)
        self.assertIn(f'sleeping_training.py({last}): ', stacks[0].partition(' < ')[0])

    def test_operators_are_grouped_by_module(self):
        capture = self.capture('--with', 'modules')
        rows = self.rows(capture, 'module')
        linear = {module: row['calls'] for (name, module), row in rows.items()
                  if name == 'aten::linear'}
        # Their places in the model, or where those are not known their class.
        self.assertIn(linear, ({'first': STEPS, 'last': STEPS}, {'Linear': 2 * STEPS}))
        tanh = [module for name, module in rows if name == 'aten::tanh']
        self.assertEqual(tanh, ['Model'])

    def calls(self, capture, by):
        """Modules are rows of imports only."""
        return {key: row['calls'] for key, row in self.rows(capture, by).items()
                if not key[0].startswith('nn.Module: ')}

    def test_an_import_of_the_export_has_the_same_places(self):
        capture = self.capture('--with', 'stacks,modules')
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'trace.json'
            exported = self.daemon.ctl('export', capture['id'], '-o', path)
            self.assertEqual(exported.status, DONE, exported.err)
            checked = self.daemon.ctl('check', path)
            self.assertEqual(checked.status, DONE, checked.out)
            trace = json.loads(path.read_text())
            imported = self.daemon.ctl('import', path, '--json')
            self.assertEqual(imported.status, DONE, imported.err)
        self.assertEqual((trace['with_stack'], trace['with_modules']), (1, 1))
        functions = [event for event in trace['traceEvents']
                     if event.get('cat') == 'python_function']
        names = {event['name'] for event in functions}
        self.assertLessEqual({'nn.Module: Model_0', 'nn.Module: Linear_0', 'nn.Module: Linear_1'},
                             names)
        ids = {event['args']['Python id'] for event in functions}
        self.assertEqual(len(ids), len(functions))
        self.assertLessEqual({event['args']['Python parent id'] for event in functions
                              if 'Python parent id' in event['args']}, ids)
        for by in ('source', 'module'):
            expected = self.calls(capture, by)
            self.assertGreater(len(expected), 10)
            self.assertEqual(self.calls(imported.json['captures'][0], by), expected, by)

    def test_self_times_of_modules_add_up_to_the_steps(self):
        capture = self.capture('--with', 'stacks,modules')
        tree = self.daemon.ctl('modules', capture['id'], '--json').json
        rows = {row['name']: row for row in tree['rows']}
        self.assertIn(sorted(rows), (['(outside of modules)', 'Model', 'first', 'last'],
                                     ['(outside of modules)', 'Linear', 'Model']))
        self.assertEqual(rows['Model']['calls'], STEPS)
        self.assertEqual(tree['step_count'], STEPS)
        self_ns = sum(row['self_ns'] for row in tree['rows'])
        self.assertLess(abs(self_ns - tree['steps_ns']), tree['steps_ns'] / 100)
        # The sleep between its layers is the model's own time, the others are nobody's.
        sleeps_ns = {place: ms * 1e6 * STEPS for place, ms in SLEEPS_MS.items()}
        self.assertGreater(rows['Model']['self_ns'], sleeps_ns['forward'])
        self.assertLess(rows['Model']['self_ns'], 2 * sleeps_ns['forward'])
        self.assertGreater(rows['(outside of modules)']['self_ns'],
                           sum(sleeps_ns.values()) - sleeps_ns['forward'])
        self.assertGreater(rows['Model']['backward_ns'], 0)

    def test_without_them_the_hint_says_how_to_get_them(self):
        capture = self.capture()
        shown = self.daemon.ctl('ops', capture['id'], '--group-by', 'source')
        self.assertIn('profctl trace --with stacks', shown.err)
        self.assertEqual(capture['torch']['stack_count'], 0)

    def test_stacks_without_operators_are_refused(self):
        refused = self.daemon.ctl('trace', '--pid', 1, '--with', 'stacks', '--ops', 'off')
        self.assertEqual(refused.status, USAGE, refused.err)
        self.assertIn('--with stacks and --ops off', refused.err)


if __name__ == '__main__':
    harness_torch.harness.main()
