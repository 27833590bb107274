"""Stacks and modules of a capture, compared with torch.profiler's with_stack and with_modules.

Both record the same steps of stacked_training.py: models, a generator, a function of autograd of the
program's own, backward passes, a compiled region, and a second thread. Compared are the Chrome trace
of `profctl export` with torch's own, and `profctl ops` and `profctl modules` of the capture with
those of an import of torch's trace.

The rules by which frames are the same, each of which is counted and printed:
    C functions      torch has rows "<built-in ...>"; profd has frames of Python only
    running before   of a function that ran when torch.profiler began, torch has the line of that moment
    resumed          of a generator, torch has the line at which it was resumed
Of all other frames file, first line, and function are equal. Ranges of record_function() have no
stack in profd, so only operators are compared.
"""

import collections
import functools
import json
import pathlib
import re
import subprocess
import types

import harness_torch
from harness import DONE
from harness_torch import TorchTest, VERSION

STEPS, PROFILED = 3, 6
LEAST_EQUAL = 0.999
MARKER = re.compile(r'(step|worker) \d+')
ANNOTATION = re.compile(r'(step|worker) \d+|Optimizer\.\w+#.*')
C_FUNCTION, MODULE = '<built-in ', 'nn.Module: '
RESUMABLE = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


@functools.lru_cache(maxsize=None)
def code_of(file):
    """{(first line, name): code object} of all functions of a file."""
    left, found = [compile(pathlib.Path(file).read_text(), file, 'exec')], {}
    while left:
        code = left.pop()
        found[code.co_firstlineno, code.co_name] = code
        left += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return found


def is_resumed_at(file, first_line, function, line):
    code = code_of(file).get((first_line, function))
    return code is not None and code.co_flags & RESUMABLE != 0 and \
        line in {each for _, _, each in code.co_lines()}


def split(frame):
    """File, line, and function of "train.py(12): step"."""
    file, _, rest = frame.rpartition('(')
    line, _, function = rest.partition('): ')
    return file, int(line), function.rpartition('.')[2]


class Trace:
    """Operators of a Chrome trace with their Python functions."""

    def __init__(self, path):
        events = json.loads(pathlib.Path(path).read_text())['traceEvents']
        events = [event for event in events if event.get('ph') == 'X' and
                  event.get('cat') in ('cpu_op', 'user_annotation', 'python_function')]
        functions = {event['args']['Python id']: event for event in events
                     if event['cat'] == 'python_function'}
        self.first_marker = min(event['ts'] for event in events
                                if event['cat'] == 'user_annotation' and MARKER.match(event['name']))
        self.modules = {event['args']['Module']: event['name'][len(MODULE):]
                        for event in functions.values() if 'Module' in event['args']}
        self.operators = collections.defaultdict(list)  # By marker: (name, its functions).
        of_threads = collections.defaultdict(list)
        for event in events:
            of_threads[event['tid']].append(event)
        for of_thread in of_threads.values():
            self.read(of_thread, functions)

    def read(self, events, functions):
        around = []
        for start, end, event in sorted(
                ((round(e['ts'] * 1000), round((e['ts'] + e['dur']) * 1000), e) for e in events),
                key=lambda each: (each[0], -each[1])):
            while around and around[-1][0] <= start:
                around.pop()
            marker = next((e['name'] for _, e in around if MARKER.match(e['name'])), None)
            if event['cat'] == 'cpu_op' and marker is not None:
                frame = next((e for _, e in reversed(around) if e['cat'] == 'python_function'), None)
                frames = []
                while frame is not None:
                    frames.append((frame['name'], frame['ts'] < self.first_marker))
                    frame = functions.get(frame['args'].get('Python parent id'))
                self.operators[marker].append((event['name'], frames))
            around.append((end, event))


class Comparison:
    """Of frames, with how often each rule was used."""

    def __init__(self):
        self.counts = collections.Counter()
        self.first_difference = None

    def add(self, name, ours, theirs):
        python = [frame for frame in theirs if not frame[0].startswith(C_FUNCTION)]
        self.counts['C functions'] += len(theirs) - len(python)
        used = [self.rule(frame, *their) for (frame, _), their in zip(ours, python)]
        is_equal = len(ours) == len(python) and 'different' not in used
        self.counts['equal operators' if is_equal else 'different operators'] += 1
        if is_equal:
            self.counts.update(rule for rule in used if rule != 'equal')
        elif self.first_difference is None:
            self.first_difference = name, ours, python

    @staticmethod
    def rule(ours, theirs, ran_before):
        if MODULE in ours or MODULE in theirs:
            return 'equal' if ours == theirs else 'different'
        (file, line, function), (their_file, their_line, their_function) = split(ours), split(theirs)
        if not file.endswith(their_file) or function != their_function:
            return 'different'
        if line == their_line:
            return 'equal'
        if ran_before:
            return 'running before'
        return 'resumed' if is_resumed_at(file, line, function, their_line) else 'different'

    def share(self):
        equal = self.counts['equal operators']
        return equal / (equal + self.counts['different operators'])


class WithStackTest(TorchTest):
    maxDiff = 3000

    def record(self, model):
        """The capture, its exported trace, the import of torch's trace, and that trace."""
        theirs = self.folder / 'torch.json'
        program = self.program('stacked_training.py', theirs, '--model', model, '--worker')
        program.do('train 3')
        self.await_target(program, 'optimizer')
        tracing = self.trace('--pid', program.pid, '--steps', STEPS, '--warmup', 0,
                             '--with', 'stacks,modules')
        self.await_state('WAITING_STEP')
        program.do(f'profile {PROFILED}')
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(program.end(), 0)
        self.assertEqual(result.json['torch']['missing'], [])
        self.assertEqual(result.json['torch']['missing_stack_count'], 0)
        imported = self.daemon.ctl('import', theirs, '--json')
        self.assertEqual(imported.status, DONE, imported.err)
        return (result.json, Trace(self.export(result.json)), imported.json['captures'][0],
                Trace(theirs))

    def check_stacks(self, ours, theirs):
        compared = Comparison()
        self.assertGreaterEqual(len(ours.operators), 2 * STEPS - 1)
        for marker, operators in ours.operators.items():
            self.assertEqual([name for name, _ in operators],
                             [name for name, _ in theirs.operators[marker]], marker)
            for (name, frames), (_, their_frames) in zip(operators, theirs.operators[marker]):
                compared.add(name, frames, their_frames)
        print(f'torch {VERSION[1]}: {dict(compared.counts)}', flush=True)
        self.assertGreaterEqual(compared.share(), LEAST_EQUAL, compared.first_difference)
        # Else the rules were not tested.
        for rule in ('C functions', 'running before', 'resumed'):
            self.assertGreater(compared.counts[rule], 0, rule)

    def calls(self, capture, by, place_of):
        table = self.daemon.ctl('ops', capture['id'], '--group-by', by, '--json').json
        calls = collections.Counter()
        for row in table['rows']:
            if not row['name'].startswith(MODULE) and not ANNOTATION.fullmatch(row['name']):
                calls[row['name'], place_of(row[by])] += row['calls']
        return calls

    def check_tables(self, capture, imported, modules):
        """Each of the steps, of which torch.profiler saw more, is as the others."""
        def source_of(text):
            """Lines are those of calls in captures, and of functions in torch's traces."""
            return text and (split(text)[0].rpartition('/')[2], split(text)[2])

        for by, ours_of, theirs_of in (('source', source_of, source_of),
                                       ('module', lambda place: modules.get(place, place), str)):
            ours = self.calls(capture, by, ours_of)
            for key in ours:
                ours[key] *= PROFILED // STEPS
            self.assertGreater(len(ours), 50)
            self.assertEqual(ours, self.calls(imported, by, theirs_of), by)

    def tree(self, capture):
        rows = self.daemon.ctl('modules', capture['id'], '--json').json['rows']
        return {(row['name'], row['class'], row['parent'], row['depth']): row['calls'] for row in rows}

    def check_modules(self, capture, imported, modules):
        ours = {}
        for (name, class_name, parent, depth), calls in self.tree(capture).items():
            of_all_steps = calls * PROFILED // STEPS
            ours[modules.get(name, name), class_name, modules.get(parent, parent), depth] = of_all_steps
        self.assertGreater(len(ours), 3)
        self.assertEqual(ours, self.tree(imported))

    def check(self, model):
        capture, ours, imported, theirs = self.record(model)
        self.check_stacks(ours, theirs)
        self.check_tables(capture, imported, ours.modules)
        self.check_modules(capture, imported, ours.modules)

    def test_blocks(self):
        self.check('blocks')

    def test_a_convnet(self):
        self.check('convnet')

    def test_layers_from_a_generator(self):
        self.check('generated')

    def test_modules_that_are_called_in_a_row(self):
        self.check('repeated')

    def test_a_compiled_region(self):
        self.check('compiled')


if __name__ == '__main__':
    asked = subprocess.run([harness_torch.PYTHON, '-c', 'import torch; torch._C._profiler.'
                            '_ExperimentalConfig(profile_all_threads=True)'], capture_output=True)
    if asked.returncode != 0:
        print(f'SKIP: {harness_torch.PYTHON} has no torch.profiler that records threads from before')
        raise SystemExit(77)
    harness_torch.harness.main()
