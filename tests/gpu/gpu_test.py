"""Captures of real CUDA programs on a real GPU. Skips where there is none."""

import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'e2e'))
import harness  # noqa: E402
from harness import DONE, EndToEndTest, until  # noqa: E402

PROGRAM = harness.BUILD_DIR / 'tests/bin/gpu_program'
CUBLAS = harness.BUILD_DIR / 'tests/bin/cublas_train'
SKIPPED = 77


class GpuTest(EndToEndTest):
    def start(self, *arguments, wrapper=()):
        process = subprocess.Popen([*wrapper, PROGRAM, *arguments],
                                   env=harness.environment(self.daemon.socket_dir))
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(harness.PATIENCE_S)

    def await_steps(self, pid):
        def marks():
            targets = self.daemon.ctl('ps', '--json').json['targets']
            return any(t['pid'] == pid and t['current_step'] >= 2 for t in targets)
        until(marks, 'the program marks its steps')

    def report(self, command, capture):
        result = self.daemon.ctl(command, capture['id'], '--json')
        self.assertEqual(result.status, DONE, result.err)
        return result.json

    def capture_five_steps(self, *arguments):
        process = self.start()
        self.await_steps(process.pid)
        result = self.trace('--pid', process.pid, '--steps', '5', *arguments).result()
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-3000:])
        self.assertEqual(result.json['state'], 'COMPLETE')
        self.assertFalse(result.json['simulated'])
        self.assertIsNone(process.poll(), 'the program ended')
        return result.json

    def expected(self):
        return harness.json.loads(subprocess.run([PROGRAM, '--expected'], check=True,
                                                 capture_output=True).stdout)

    def test_full_counts_every_kernel_copy_and_memset(self):
        capture = self.capture_five_steps('--gpu', 'full')
        expected = self.expected()
        self.assertEqual(capture['dropped_event_count'], 0, capture)
        kernels = {row['name']: row for row in self.report('kernels', capture)['rows']}
        saxpy = expected['kernels_per_step'] + expected['kernels_per_graph']
        self.assertEqual(kernels['profd_saxpy']['count'], 5 * saxpy)
        self.assertEqual(kernels['profd_spin']['count'], 5 * expected['spins_per_step'])
        self.assertGreaterEqual(kernels['profd_spin']['mean_ns'], 20_000)
        copies = {row['name']: row for row in self.report('copies', capture)['rows']}
        to_device = [row for name, row in copies.items() if 'HtoD' in name]
        self.assertEqual([row['count'] for row in to_device],
                         [5 * expected['copies_to_device_per_step']])
        self.assertEqual(to_device[0]['bytes'], 5 * expected['bytes_per_copy'])

    def test_kernels_belong_to_the_ranges_that_launched_them(self):
        capture = self.capture_five_steps()
        ops = self.ops(capture['id'])
        for name in ('forward', 'other thread', 'graph'):
            self.assertGreater(ops[name]['device_total_ns'], 0, name)
        self.assertEqual(self.report('kernels', capture)['rows'][0]['orphan_count'], 0)

    def test_light_records_kernels_only(self):
        capture = self.capture_five_steps('--gpu', 'light')
        self.assertGreater(len(self.report('kernels', capture)['rows']), 0)

    def test_the_program_computes_the_same_with_three_captures_in_a_row(self):
        process = self.start()
        self.await_steps(process.pid)
        for _ in range(3):
            result = self.trace('--pid', process.pid, '--steps', '3').result()
            self.assertEqual(result.status, DONE, result.err)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(harness.PATIENCE_S), 0, 'the program checks its results')

    @harness.unittest.skipUnless(CUBLAS.exists(), 'cublas_train is not built: no CUDA toolkit')
    def test_an_unmodified_program_is_captured_through_profctl_run(self):
        process = subprocess.Popen(
            [harness.PROFCTL, 'run', '--', CUBLAS, '--steps', '20000'],
            env=harness.environment(self.daemon.socket_dir), stdout=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        until(lambda: any(t['pid'] == process.pid
                          for t in self.daemon.ctl('ps', '--json').json['targets']),
              'the program is a target')
        result = self.trace('--pid', process.pid, '--duration', '200ms').result()
        self.assertEqual(result.status, DONE, result.err)
        self.assertGreater(len(self.report('kernels', result.json)['rows']), 0)


if __name__ == '__main__':
    probe = subprocess.run([PROGRAM, '--probe'], capture_output=True, text=True)
    if probe.returncode == SKIPPED:
        print(f'SKIP: {probe.stderr.strip()}')
        sys.exit(SKIPPED)
    if probe.returncode != 0:
        sys.exit(f'gpu_program --probe: {probe.returncode}: {probe.stderr}')
    harness.main()
