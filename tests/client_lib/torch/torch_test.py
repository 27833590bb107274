"""PyTorch, unmodified, from outside: what a capture holds of it, against torch.profiler."""

import json
import os
import signal

import comparison
import harness_torch
from harness import DONE
from harness_torch import VERSION, TorchTest

STEPS = 4


class ComparisonTest(TorchTest):
    """One process, watched by both at once."""

    def capture_beside_profiler(self, *arguments):
        """(the capture, its Chrome trace, torch.profiler's tree) of the same steps."""
        out = self.folder / 'profile.json'
        program = self.program('profiled_training.py', out, *arguments)
        program.do('train 3')
        self.await_target(program, 'optimizer')
        tracing = self.trace('--pid', program.pid, '--steps', STEPS, '--warmup', 0,
                             '--with', 'memory', '--with', 'strides')
        self.await_state('WAITING_STEP')
        program.do(f'profile {STEPS + 4}')
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-2000:])
        self.assertEqual(program.end(), 0)
        capture = result.json
        self.assertEqual(capture['state'], 'COMPLETE')
        self.assertEqual(capture['dropped_event_count'], 0)
        return capture, self.export(capture), json.loads(out.read_text()), program.pid

    def assert_same(self, ours, theirs, what):
        difference = comparison.first_difference(ours, theirs)
        self.assertIsNone(difference, f'{what}: {difference}')

    def check(self, *arguments):
        capture, trace, profile, pid = self.capture_beside_profiler(*arguments)
        self.assertEqual(capture['torch']['outcome'], 'recorded', capture['torch'])
        self.assertEqual(capture['torch']['version'], VERSION[1])
        ours, our_memory, flows = comparison.our_events(trace, pid)
        theirs, their_memory = comparison.torch_events(profile, STEPS)
        self.assertGreater(len(theirs), 100)

        def picked(events, *keys):
            return [tuple(event[key] for key in keys) for event in events]
        self.assert_same(picked(ours, 'depth', 'name'), picked(theirs, 'depth', 'name'), 'operators')
        self.assert_same(picked(ours, 'sequence'), picked(theirs, 'sequence'), 'sequence numbers')
        self.assert_same([comparison.without_lists(e['shapes']) for e in ours],
                         [comparison.without_lists(e['shapes']) for e in theirs], 'shapes')
        self.assert_same([e['category'] for e in ours],
                         ['user_annotation' if e['scope'] == 7 else 'cpu_op' for e in theirs],
                         'scopes')
        self.assert_same(our_memory, their_memory, 'memory')

        # torch.profiler lists backward operators of all its steps; ours lie within.
        backward = [(e['name'], e['sequence'], e['forward_thread']) for e in ours
                    if e['forward_thread'] > 0]
        known = {(e['name'], e['sequence'], e['forward_thread']) for e in profile['backward']}
        self.assertGreater(len(backward), 10)
        self.assertEqual([e for e in backward if e not in known], [])
        forward_sequences = {e['sequence'] for e in ours
                             if e['forward_thread'] == 0 and e['sequence'] >= 0}
        linked = {sequence for _, sequence, _ in backward} & forward_sequences
        self.assertEqual(flows['s'], flows['f'])
        self.assertEqual(len(flows['s']), len(linked))

    def test_a_multilayer_perceptron(self):
        self.check('--model', 'mlp')

    def test_a_convolutional_network(self):
        self.check('--model', 'convnet')

    def test_attention_with_a_list_of_tensors(self):
        self.check('--model', 'attention', '--optimizer', 'adam')


class MemoryCategoriesTest(TorchTest):
    """torch.profiler's memory timeline of the same steps, by byte-seconds.

    Not with Adam, whose scratch memory torch.profiler takes for activations and parameters: how
    much that is depends on how long the optimizer happens to take (README.md)."""

    def check(self, *arguments):
        if VERSION[0] < (2, 1):
            self.skipTest(f'torch {VERSION[1]} has no memory timeline to compare with')
        out = self.folder / 'timeline.json'
        program = self.program('profiled_training.py', out, *arguments)
        program.do('train 3')
        self.await_target(program, 'optimizer')
        for _ in range(3):
            tracing = self.trace('--pid', program.pid, '--steps', STEPS, '--warmup', 0,
                                 '--with', 'memory')
            self.await_state('WAITING_STEP')
            answer = program.do(f'timeline {STEPS + 4}')
            result = tracing.result()
            self.assertEqual(result.status, DONE, result.err)
            if 'doubted' not in answer:
                break
        self.assertNotIn('doubted', answer, 'torch.profiler doubts its own records')
        self.assertEqual(program.end(), 0)
        capture = result.json
        memory = self.daemon.ctl('memory', capture['id'], '--json').json
        cpu = next(d for d in memory['devices'] if d['device'] == 'cpu:0')
        ours = {}
        for row in cpu['categories']:
            # To torch.profiler a buffer is what it is used as.
            name = 'unknown' if row['name'] == 'buffer' else row['name']
            ours[name] = ours.get(name, 0) + row['byte_seconds']
        begin_ns = capture['start_unix_ns']
        theirs = comparison.torch_byte_seconds(json.loads(out.read_text())['timeline'], begin_ns,
                                               begin_ns + capture['covered_ns'])
        share = comparison.agreement(ours, theirs)
        print(f'memory, {" ".join(arguments)}: {share:.1%} agree; ours {ours}, theirs {theirs}')
        self.assertGreater(share, 0.95, f'ours {ours}, theirs {theirs}')

    def test_a_multilayer_perceptron(self):
        self.check('--model', 'mlp', '--optimizer', 'momentum')

    def test_a_convolutional_network(self):
        self.check('--model', 'convnet')

    def test_attention(self):
        self.check('--model', 'attention', '--optimizer', 'momentum')


class SameResultsTest(TorchTest):

    def digest(self, **kwargs):
        program = self.program('profiled_training.py', self.folder / 'unused', **kwargs)
        tracing = None
        if kwargs.get('traced', True):
            program.do('train 1')
            self.await_target(program, 'optimizer')
            tracing = self.trace('--pid', program.pid, '--steps', 5, '--with', 'memory,strides')
            self.await_state('WAITING_STEP')
            program.do('train 19')
        else:
            program.do('train 20')
        digest = program.do('digest')
        if tracing:
            self.assertEqual(tracing.result().status, DONE)
        self.assertEqual(program.end(), 0)
        return digest

    def test_training_is_the_same_to_the_bit_captured_or_not(self):
        self.assertEqual(self.digest(), self.digest(traced=False))


class IdleTest(TorchTest):

    def test_between_captures_torch_calls_nobody(self):
        if VERSION[0] < (2, 1):
            self.skipTest(f'torch {VERSION[1]} has no hooks that torch.compile passes by')
        program = self.program('profiled_training.py', self.folder / 'unused')
        self.assertEqual(program.do('observed'), ['1'])
        program.do('train 3')
        self.assertEqual(program.do('observed'), ['0'])
        self.await_target(program, 'optimizer')
        for _ in range(3):
            tracing = self.trace('--pid', program.pid, '--steps', STEPS, '--warmup', 0)
            self.await_state('WAITING_STEP')
            self.assertEqual(program.do('observed'), ['1'])
            program.do(f'train {STEPS + 2}')
            result = tracing.result()
            self.assertEqual(result.status, DONE, result.err)
            calls = {name: row['calls'] for name, row in self.ops(result.json['id']).items()}
            self.assertEqual(calls['aten::addmm'], 3 * STEPS)
            self.assertEqual(calls['Optimizer.step#SGD.step'], STEPS)

            def is_left():
                program.do('train 1')
                return program.do('observed') == ['0']
            harness_torch.harness.until(is_left, 'nobody observes')
        target = self.daemon.ctl('ps', '--json').json['targets'][0]
        self.assertGreater(target['current_step'], 3 + 3 * (STEPS + 2))


class ExamplesTest(TorchTest):
    """The example programs, as they are."""

    def capture(self, script, *arguments, source='optimizer', trace=(), steps=STEPS):
        program = self.program(script, '--steps', 0, '--step-ms', 5, *arguments)
        self.await_target(program, source)
        result = self.trace('--pid', program.pid, '--steps', steps, *trace).result()
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-2000:])
        capture = result.json
        self.assertEqual(capture['state'], 'COMPLETE')
        self.assertEqual(capture['dropped_event_count'], 0, capture)
        return capture

    def test_a_matrix_product_shows_its_sizes(self):
        capture = self.capture('matmul_bias.py', '--train')
        result = self.daemon.ctl('ops', capture['id'], '--json', '--group-by', 'input_shape')
        self.assertEqual(result.status, DONE, result.err)
        rows = [row for row in result.json['rows'] if row['name'] == 'aten::mm']
        # Forward, and the gradient of the weight: the input needs none.
        self.assertEqual([(row['calls'], row['dims']) for row in rows],
                         [(2 * STEPS, '[[64,64],[64,64]]')])

    def test_a_loop_without_any_source_of_steps_has_rounds(self):
        capture = self.capture('matmul_bias.py', source='none',
                               trace=('--step-source', 'periodicity', '--warmup', 0))
        self.assertEqual(capture['torch']['step_source'], 'periodicity')
        self.assertEqual({name: row['calls'] for name, row in self.ops(capture['id']).items()
                          if name in ('aten::matmul', 'aten::add', 'aten::tanh_')},
                         {'aten::matmul': STEPS, 'aten::add': STEPS, 'aten::tanh_': STEPS})

    def test_an_operator_may_mark_the_steps(self):
        marker = 'aten::cross_entropy_loss'
        capture = self.capture('convnet.py', trace=('--step-marker', marker, '--warmup', 0))
        self.assertEqual(len(capture['steps']), STEPS)
        first = capture['steps'][0]['index']
        self.assertEqual([step['index'] for step in capture['steps']],
                         list(range(first, first + STEPS)))
        ops = self.ops(capture['id'])
        self.assertEqual(ops[marker]['calls'], STEPS)
        self.assertEqual(ops['Optimizer.step#SGD.step']['calls'], STEPS)

    def test_a_convolutional_network_has_its_backward_and_its_memory(self):
        capture = self.capture('convnet.py', trace=('--with', 'memory'))
        ops = self.ops(capture['id'])
        self.assertIn('ConvolutionBackward0', ops)
        self.assertEqual(ops['aten::convolution']['calls'] % STEPS, 0)
        memory = self.daemon.ctl('memory', capture['id'], '--json').json
        cpu = next(d for d in memory['devices'] if d['device'] == 'cpu:0')
        categories = {row['name']: row['byte_seconds'] for row in cpu['categories']}
        for category in ('gradient', 'activation', 'temporary'):
            self.assertGreater(categories.get(category, 0), 0, categories)

    def await_told_apart(self, program, calls_a_step):
        """Waits until of the calls of step() only one in `calls_a_step` is a step."""
        def told_apart():
            first = self.trace('--pid', program.pid, '--steps', 2).result()
            self.assertEqual(first.status, DONE, first.err)
            ops = self.ops(first.json['id'])
            return ops['Optimizer.step#Adam.step']['calls'] == 2 * calls_a_step
        harness_torch.harness.until(told_apart, 'the optimizers are told apart')

    def check_two_adams(self, calls_a_step, *arguments):
        program = self.program('gan.py', '--steps', 0, '--step-ms', 5, *arguments)
        self.await_target(program, 'optimizer')
        self.await_told_apart(program, calls_a_step)
        result = self.trace('--pid', program.pid, '--steps', STEPS).result()
        self.assertEqual(result.status, DONE, result.err)
        ops = self.ops(result.json['id'])
        self.assertEqual(ops['Optimizer.step#Adam.step']['calls'], calls_a_step * STEPS)
        return ops

    def test_two_optimizers_of_one_class_make_one_step(self):
        ops = self.check_two_adams(2)
        # The discriminator judges what is real and what is drawn, and then for the generator.
        name = 'aten::binary_cross_entropy_with_logits'
        self.assertEqual(ops[name]['calls'], 3 * STEPS)

    def test_a_transformer_waits_for_its_loader(self):
        capture = self.capture('transformer.py', trace=('--with', 'memory'))
        loader = [row for name, row in self.ops(capture['id']).items()
                  if name.startswith('enumerate(DataLoader)#')]
        # As in the test of accumulation.
        self.assertIn([row['calls'] for row in loader], ([STEPS], [STEPS + 1]), capture)

    def test_accumulation_takes_several_batches_a_step(self):
        capture = self.capture('transformer.py', '--accumulate', 3)
        loader = [row for name, row in self.ops(capture['id']).items()
                  if name.startswith('enumerate(DataLoader)#')]
        # One more where an epoch ends: the loader is asked for a batch that it has not.
        self.assertIn([row['calls'] for row in loader], ([3 * STEPS], [3 * STEPS + 1]),
                      capture)

    def test_inference_steps_by_its_loader(self):
        capture = self.capture('transformer.py', '--inference', source='dataloader')
        self.assertEqual(capture['torch']['step_source'], 'dataloader')
        self.assertGreaterEqual(self.ops(capture['id'])['aten::linear']['calls'], STEPS)

    def test_compiled_code_tells_its_breaks(self):
        if VERSION[0] < (2, 0):
            self.skipTest(f'torch {VERSION[1]} has no torch.compile')
        if VERSION[0] < (2, 4):
            self.skipTest(f'torch {VERSION[1]} tells of nothing but cache lookups')
        able = self.program('graph_breaks.py', '--steps', 1, traced=False)
        if able.end() == 77:
            self.skipTest(f'torch {VERSION[1]} cannot compile on this Python')
        program = self.program('graph_breaks.py', '--steps', 0, '--step-ms', 20, '--recompile-at',
                               *range(30, 60, 10))
        self.await_target(program, 'optimizer')
        result = self.trace('--pid', program.pid, '--steps', 60).result()
        self.assertEqual(result.status, DONE, result.err)
        report = self.daemon.ctl('compile', result.json['id'], '--json').json
        self.assertTrue(report['regions'], report)
        self.assertTrue(any(region['after_graph_break'] for region in report['regions']), report)
        self.assertTrue(any('graph_breaks.py' in row['where'] for row in report['recompiles']),
                        report)

    def test_both_ranks_of_a_job_record_the_same_steps(self):
        program = self.program('ddp.py', '--steps', 0, '--step-ms', 5)
        harness_torch.harness.until(lambda: sum(
            t['step_source'] == 'optimizer'
            for t in self.daemon.ctl('ps', '--json').json['targets']) == 2, 'two ranks train')
        result = self.trace('--pid', program.pid, '--steps', STEPS).result()
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-2000:])
        captures = result.json['captures']
        self.assertEqual(len(captures), 2)
        self.assertEqual(len({tuple(s['index'] for s in c['steps']) for c in captures}), 1)
        for capture in captures:
            self.assertTrue(any('gloo:all_reduce' in name or 'c10d::allreduce' in name
                                for name in self.ops(capture['id'])), list(self.ops(capture['id'])))


class FaultTest(TorchTest):

    def capture_of(self, program, *arguments):
        program.do('train 3')
        self.await_target(program, 'optimizer')
        tracing = self.trace('--pid', program.pid, '--steps', 1000, '--with', 'memory', *arguments)
        self.await_state('WAITING_STEP')
        return tracing

    def test_killed_in_the_window_what_there_was_is_kept(self):
        program = self.program('profiled_training.py', self.folder / 'unused')
        tracing = self.capture_of(program)
        program.do('train 10')
        self.await_state('RECORDING')
        os.kill(program.pid, signal.SIGKILL)
        capture = tracing.result().json
        self.assertEqual((capture['state'], capture['ended_by']), ('PARTIAL', 'target_exit'))
        self.assertGreater(self.ops(capture['id'])['aten::addmm']['calls'], 8)

    def test_the_interpreter_may_end_in_the_window(self):
        program = self.program('profiled_training.py', self.folder / 'unused')
        tracing = self.capture_of(program)
        program.do('train 10')
        self.assertEqual(program.end(), 0)
        capture = tracing.result().json
        self.assertEqual(capture['state'], 'PARTIAL')
        self.assertGreater(self.ops(capture['id'])['aten::addmm']['calls'], 8)

    def test_without_operators_a_capture_has_none(self):
        program = self.program('profiled_training.py', self.folder / 'unused')
        program.do('train 3')
        self.await_target(program, 'optimizer')
        tracing = self.trace('--pid', program.pid, '--steps', 2, '--ops', 'off')
        self.await_state('WAITING_STEP')
        program.do('train 8')
        capture = tracing.result().json
        self.assertEqual(capture['state'], 'COMPLETE')
        self.assertEqual(capture['torch']['outcome'], 'off')
        self.assertEqual(self.ops(capture['id']), {})


if __name__ == '__main__':
    harness_torch.harness.main()
