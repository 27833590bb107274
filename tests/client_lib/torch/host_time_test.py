"""Host time outside operators of a real PyTorch program, against what the program itself measures."""

import harness_torch
from harness import DONE
from harness_torch import TorchTest

STEPS = 10
# By the sleep before it: what runs next, in any torch from 1.13 on.
NEXT = {'forward': 'aten::tanh', 'loss': 'aten::broadcast_tensors', 'log': 'zero'}


class HostTimeTest(TorchTest):

    def test_five_sleeps_are_found_where_they_are(self):
        program = self.program('sleeping_training.py')
        program.answer()
        program.do('train 3')
        self.await_target(program, 'optimizer')
        tracing = self.trace('--pid', program.pid, '--steps', STEPS, '--warmup', 0)
        self.await_state('WAITING_STEP')
        slept = [int(word) for word in program.do(f'slept {STEPS + 4}')]
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(program.end(), 0)
        capture = result.json['id']

        time = self.daemon.ctl('time', capture, '--json', '--limit', 0).json
        self.assertEqual(len(time['steps']), STEPS)
        self.assertEqual(len(time['host_steps']), STEPS)
        for step in time['host_steps']:
            parts = sum(value for key, value in step.items() if key not in ('index', 'duration_ns'))
            self.assertAlmostEqual(parts / step['duration_ns'], 1, delta=0.005)
            self.assertLess(step['other_ns'] / step['duration_ns'], 0.05)
            self.assertGreater(step['outside_ns'] / step['duration_ns'], 0.8)
        # The window cuts a gap at its start or end.
        whole = [gap for gap in time['host_gaps'] if gap['after'] and gap['before']]
        gaps = sorted(whole, key=lambda gap: -gap['median_ns'])[:len(slept)]
        places = ['forward', 'loss', 'backward', 'optimizer', 'log']
        by_length = sorted(zip(slept, places), reverse=True)
        for gap, (sleep_ns, place) in zip(gaps, by_length):
            self.assertAlmostEqual(gap['median_ns'] / sleep_ns, 1, delta=0.1, msg=f'{place}: {gap}')
            self.assertGreaterEqual(gap['step_count'], STEPS - 1, gap)
            self.assertIn(NEXT.get(place, ''), gap['before'], place)

        report = self.daemon.ctl('report', capture, '--json').json
        first = report['findings'][0]
        self.assertEqual(first['rule'], 'HOST_BOUND', report['verdict'])
        self.assertNotIn('STEP_OUTLIER', [finding['rule'] for finding in report['findings']])
        self.assertAlmostEqual(first['saving_ns_per_step'] / sum(slept), 1, delta=0.1)


if __name__ == '__main__':
    harness_torch.harness.main()
