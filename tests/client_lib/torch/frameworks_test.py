"""Lightning, transformers' Trainer and Accelerate themselves: what is a step of theirs, what they
call it, and that their training is the same to the bit.

Each program pauses at a batch, and says how often its optimizers have stepped by then.
"""

import json
import subprocess

import harness_torch
from harness import DONE
from harness_torch import TorchTest

STEPS = 5
TRAINED = 30  # Before the capture.
ALL_STEPS = 60


class FrameworkTest(TorchTest):

    def start(self, script, *arguments, batches=1, **kwargs):
        """A program of ALL_STEPS steps, of `batches` each, that pauses once about half of them are
        trained, and once more behind the capture. Skips where its framework is not there."""
        pauses = TRAINED * batches, (TRAINED + 4 * STEPS) * batches
        program = self.program(script, '--steps', ALL_STEPS, '--step-ms', 2, '--accumulate',
                               batches, '--pause-at', *pauses, *arguments, **kwargs)
        said = program.process.stdout.readline()
        if said.startswith('SKIP'):
            self.skipTest(said.strip())
        self.assertRegex(said, '^ok ', program.process.args)
        return program, int(said.split()[1])

    def finish(self, program):
        """Its digest."""
        program.send('')
        *_, last = program.process.stdout.read().split()
        self.assertEqual(program.end(), 0)
        self.assertEqual(len(last), 64, last)
        return last

    def next_steps(self, program):
        """A capture of the steps that follow the pause."""
        self.await_target(program, 'optimizer')
        tracing = self.trace('--pid', program.pid, '--steps', STEPS, '--warmup', 0)
        self.await_state('WAITING_STEP')
        program.send('')
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-2000:])
        return result.json

    def capture(self, script, *arguments, batches=1, steps_a_batch=1):
        """(the capture, its program's steps before our step 0)"""
        program, trained = self.start(script, *arguments, batches=batches)
        capture = self.next_steps(program)
        program.answer()
        digest = self.finish(program)
        self.assertEqual((capture['state'], capture['dropped_event_count']), ('COMPLETE', 0))
        self.assertEqual(capture['torch']['step_source'], 'optimizer')
        self.assertEqual(len(capture['steps']), STEPS)

        plain, trained_alone = self.start(script, *arguments, batches=batches, traced=False)
        self.assertEqual(trained_alone, trained)
        plain.do('')
        self.assertEqual(self.finish(plain), digest, 'training is not the same')
        return capture, trained // steps_a_batch - capture['steps'][0]['index']

    def calls(self, capture, name):
        """Of all operators whose names begin so."""
        return sum(row['calls'] for key, row in self.ops(capture['id']).items()
                   if key.startswith(name))

    def labels(self, capture):
        """{"epoch": (3, 41)}: what the framework said, and the step of ours behind which it did."""
        found = {}
        for event in json.loads(self.export(capture).read_text())['traceEvents']:
            if event.get('ph') == 'i' and 'behind' in event.get('args', {}):
                name, value = event['name'].split()
                self.assertNotIn(name, found)
                found[name] = int(value), int(event['args']['behind'].removeprefix('step '))
        for command, key in (('steps', 'labels'), ('show', 'step_labels')):
            rows = self.daemon.ctl(command, capture['id'], '--json').json.get(key, [])
            self.assertEqual({row['name']: (row['value'], row['step']) for row in rows}, found)
        return found

    def assert_global_step(self, capture, ahead, a_step=1):
        """`ahead`: how many steps the program had done before our step 0."""
        value, behind = self.labels(capture)['global_step']
        self.assertGreaterEqual(behind, capture['steps'][-1]['index'])
        self.assertEqual(value, (behind + 1 + ahead) * a_step)

    def assert_trained(self, capture, batches=1):
        self.assertEqual(self.calls(capture, 'AddmmBackward0'), 2 * STEPS * batches)
        self.assertEqual(self.calls(capture, 'Optimizer.step#AdamW'), STEPS)


class LightningTest(FrameworkTest):

    def test_a_step_is_a_step(self):
        capture, ahead = self.capture('lightning_training.py')
        self.assert_trained(capture)
        self.assert_global_step(capture, ahead)
        labels = self.labels(capture)
        step = labels['global_step'][0]
        self.assertIn(labels['epoch'][0], {(step - 1) // 12, step // 12})  # Of twelve steps each.

    def test_accumulation_is_one_step_and_validation_is_none(self):
        capture, ahead = self.capture('lightning_training.py', '--validate', batches=3)
        self.assert_trained(capture, batches=3)
        self.assertGreater(self.calls(capture, 'aten::addmm'), 2 * 3 * STEPS)  # A validation's.
        self.assert_global_step(capture, ahead)

    def test_two_optimizers_by_hand_are_one_step(self):
        capture, ahead = self.capture('lightning_training.py', '--optimizers', 2, steps_a_batch=2)
        self.assert_trained(capture)
        self.assertEqual(self.calls(capture, 'Optimizer.step#SGD'), STEPS)
        # Lightning counts what both do.
        self.assert_global_step(capture, ahead, a_step=2)


class TrainerTest(FrameworkTest):

    def test_accumulation_is_one_step(self):
        capture, ahead = self.capture('trainer_training.py', batches=3)
        self.assert_trained(capture, batches=3)
        self.assert_global_step(capture, ahead)
        self.assertIn('epoch', self.labels(capture))


class AccelerateTest(FrameworkTest):

    def test_accumulation_is_one_step(self):
        capture, _ = self.capture('accelerate_training.py', batches=3)
        self.assert_trained(capture, batches=3)
        labels = self.labels(capture)
        self.assertEqual(set(labels), {'epoch', 'micro_step'})
        self.assertIn(labels['micro_step'][0], range(12))  # Batches of an epoch.


class GradScalerTest(FrameworkTest):

    def test_steps_that_overflow_are_part_of_the_next(self):
        capture, _ = self.capture('scaled_training.py')
        self.assertEqual(self.calls(capture, 'Optimizer.step#SGD'), STEPS)
        # One batch of four overflows.
        self.assertGreater(self.calls(capture, 'AddmmBackward0'), 2 * STEPS)
        self.assertEqual(self.labels(capture), {})


class RunningTest(FrameworkTest):
    """Labels of a program that trains on while they are read, as fast as it can."""

    def check(self, script):
        program = self.program(script, '--steps', 0, '--pause-at', TRAINED)
        said = program.process.stdout.readline()
        if said.startswith('SKIP'):
            self.skipTest(said.strip())
        capture = self.next_steps(program)
        ahead = int(said.split()[1]) - capture['steps'][0]['index']
        self.assert_global_step(capture, ahead)
        for _ in range(3):
            result = self.trace('--pid', program.pid, '--steps', STEPS, '--warmup', 0).result()
            self.assertEqual(result.status, DONE, result.err)
            self.assert_global_step(result.json, ahead)

    def test_lightning(self):
        self.check('lightning_training.py')

    def test_the_trainer(self):
        self.check('trainer_training.py')


if __name__ == '__main__':
    tools = 'lightning', 'transformers', 'accelerate'
    if not any(subprocess.run([harness_torch.PYTHON, '-c', f'import {tool}'],
                              capture_output=True).returncode == 0 for tool in tools):
        print(f'SKIP: {harness_torch.PYTHON} has none of {", ".join(tools)}')
        raise SystemExit(77)
    harness_torch.harness.main()
