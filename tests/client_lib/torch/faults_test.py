"""Things that go wrong in the window: the training ends with the bits it would have ended with, and
the capture is whole. Ends of processes are in torch_test.py, hostile torches in attach_test.cc.
"""

import harness_torch
from harness import DONE
from harness_torch import TorchTest

STEPS = 5


class FaultsTest(TorchTest):

    def train(self, fault, **kwargs):
        program = self.program('faulty_training.py', fault, **kwargs)
        program.do('train 3')
        return program

    def digest(self, program):
        program.do('train 12')
        return program.do('digest')

    def check(self, fault):
        """What `profctl ops` says of a capture in whose steps there is `fault`."""
        program = self.train(fault)
        self.await_target(program, 'optimizer')
        tracing = self.trace('--pid', program.pid, '--steps', STEPS, '--warmup', 0,
                             '--with', 'memory')
        self.await_state('WAITING_STEP')
        digest = self.digest(program)
        result = tracing.result()
        self.assertEqual(program.end(), 0)
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-2000:])
        capture = result.json
        self.assertEqual((capture['state'], capture['dropped_event_count'], len(capture['steps'])),
                         ('COMPLETE', 0, STEPS))
        self.assertEqual(capture['torch']['outcome'], 'recorded', capture['torch'])
        self.capture_id = capture['id']
        ops = self.ops(self.capture_id)
        # What goes on behind the fault nests as ever.
        self.assertEqual(ops['Optimizer.step#SGD.step']['calls'], STEPS)
        self.assertEqual(self.digest(self.train(fault, traced=False)), digest)
        return ops

    def test_operators_that_throw_end_where_they_throw(self):
        ops = self.check('operator')
        self.assertEqual(ops['aten::mm']['calls'] - ops['AddmmBackward0']['calls'] * 3 // 2,
                         2 * STEPS, ops)
        self.assertEqual(ops['fails']['calls'], STEPS)

    def test_nodes_of_the_backward_pass_may_throw(self):
        self.assertEqual(self.check('backward')['FailsBackwardBackward']['calls'], STEPS)

    def test_names_of_any_length_and_language_are_kept(self):
        names = set(self.check('names'))
        long, = (name for name in names if name.startswith('nnn'))
        self.assertGreaterEqual(len(long), 64)
        self.assertTrue(any(name.startswith('größer ☃') for name in names), names)

    def test_threads_may_end_in_the_window(self):
        self.assertEqual(self.check('threads')['aten::prod']['calls'], STEPS)

    def test_children_may_be_forked_in_the_window(self):
        self.check('fork')

    def test_allocations_that_find_no_memory_are_the_programs_business(self):
        self.assertIn('aten::empty', self.check('allocation'))
        failed = self.daemon.ctl('memory', self.capture_id, '--json').json['out_of_memory']
        self.assertEqual([(f['device'], f['bytes'], f['op']) for f in failed],
                         [('cpu:0', 1 << 52, 'aten::empty')] * STEPS)

    def test_the_interpreter_may_end_while_a_thread_computes(self):
        program = self.train('none')
        self.await_target(program, 'optimizer')
        tracing = self.trace('--pid', program.pid, '--steps', 1000, '--with', 'memory')
        self.await_state('WAITING_STEP')
        program.do('train 10')
        self.await_state('RECORDING')
        program.send('exit')
        status = program.end()
        capture = tracing.result().json
        self.assertEqual((capture['state'], capture['ended_by']), ('PARTIAL', 'target_exit'))
        self.assertGreater(self.ops(capture['id'])['aten::addmm']['calls'], 8)
        alone = self.train('none', traced=False)
        alone.send('exit')
        # torch 2.15 aborts: the thread may not have the interpreter any more, and ends within it.
        self.assertEqual(status, alone.end())


if __name__ == '__main__':
    harness_torch.harness.main()
