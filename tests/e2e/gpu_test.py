"""GPU captures end to end: the real profd, profctl and library; CUPTI and the GPU are the stand-in's.

What the software GPU did is known to the nanosecond (`gpu truth`), and so each number that
profctl prints can be held against it.
"""

import collections
import json
import pathlib
import sys
import time

import harness
from harness import DONE, FAILED, PARTIAL, REFUSED, EndToEndTest, until

STANDIN = harness.BUILD_DIR / 'lib/cupti_standin'
CUPTI = STANDIN / '13.0/libcupti.so.13'
KERNEL, MEMCPY, RUNTIME = 10, 1, 5  # CUpti_ActivityKind
WRITTEN = 2

# What StepWork() of scripted_gpu.cc launches in a step; graph_kernel: as nodes of one graph.
KERNELS_PER_STEP = {'gemm_forward': 2, 'relu': 1, 'gemm_backward': 2, 'reduce': 1,
                    'graph_kernel': 3}


class GpuEndToEndTest(EndToEndTest):
    cupti = CUPTI
    target_environment = {}

    def gpu_target(self, *commands, **settings):
        env = {**self.target_environment,
               **{f'SGPU_{key.upper()}': str(value) for key, value in settings.items()}}
        target = self.target(env=env)
        target.do(f'gpu load {self.cupti}', *commands, 'train 2')
        return target

    def capture(self, target, *arguments, status=DONE):
        result = self.trace('--pid', target.pid, *arguments).result()
        self.assertEqual(result.status, status, result.err + self.daemon.log()[-3000:])
        return result.json

    def five_steps(self, target, *arguments):
        capture = self.capture(target, '--steps', '5', *arguments)
        self.assertEqual(capture['state'], 'COMPLETE')
        return capture

    def report(self, command, where, *arguments):
        result = self.daemon.ctl(command, where, '--json', *arguments)
        self.assertEqual(result.status, DONE, result.err)
        return result.json

    def truth(self, target):
        target.do('rest', 'gpu settle')
        path = self.folder / 'truth.jsonl'
        target.do(f'gpu truth {path}')
        return [json.loads(line) for line in path.read_text().splitlines()]

    def launched_within(self, truth, capture):
        """Device work whose API call began inside the capture's window."""
        start = capture['start_unix_ns']
        end = start + capture['covered_ns']
        calls = {r['correlation'] for r in truth
                 if r['kind'] == RUNTIME and start <= r['start_ns'] < end}
        return [r for r in truth if r['correlation'] in calls]


class GpuCaptureTest(GpuEndToEndTest):
    def test_kernels_copies_and_syncs_of_five_steps_are_all_there(self):
        target = self.gpu_target()
        capture = self.five_steps(target)
        self.assertEqual(capture['dropped_event_count'], 0)
        self.assertEqual(capture['gpu']['outcome'], 'recorded')
        kernels = self.report('kernels', capture['id'])
        counts = {row['name']: row['count'] for row in kernels['rows']}
        self.assertEqual(counts, {name: 5 * n for name, n in KERNELS_PER_STEP.items()})
        self.assertEqual(kernels['graph_launch_count'], 0)
        copies = {row['name']: row for row in self.report('copies', capture['id'])['rows']}
        self.assertEqual({name: row['count'] for name, row in copies.items()},
                         {'Memcpy HtoD (Pinned -> Device)': 5,
                          'Memcpy DtoH (Device -> Pageable)': 5, 'Memset (Device)': 5})
        for row in copies.values():
            self.assertEqual(row['bytes'], 5 << 20)
        syncs = self.report('syncs', capture['id'])['rows']
        self.assertIn(('Stream Sync', 'sync'), [(row['name'], row['op']) for row in syncs])
        self.assertEqual(self.report('kernels', capture['id'])['simulated'], True)

    def test_full_has_decompression_in_copies_time_and_traces(self):
        capture = self.five_steps(self.gpu_target('gpu decompress 100000'), '--gpu', 'full')
        self.assertEqual(capture['dropped_event_count'], 0)

        def decompression(where):
            rows = {row['name']: row for row in self.report('copies', where)['rows']}
            row = rows['Memcpy Decompress']
            # 1 us and 1 us for each 100 kB, and a clock that rounds.
            self.assertAlmostEqual(row['total_ns'], 10_000, delta=20)
            return row['count'], row['bytes'], row['op'], row['async_count']

        self.assertEqual(decompression(capture['id']), (5, 500_000, 'load', 5))
        self.assertNotIn('Memcpy Decompress', [row['name'] for row in
                                               self.report('kernels', capture['id'])['rows']])
        self.assertEqual(self.report('time', capture['id'])['copy_ns'],
                         self.report('copies', capture['id'])['busy_ns'])
        trace = self.folder / 'trace.json'
        result = self.daemon.ctl('export', capture['id'], '-o', trace)
        self.assertEqual(result.status, DONE, result.err)
        result = self.daemon.ctl('check', trace)
        self.assertEqual(result.status, DONE, result.out + result.err)
        result = self.daemon.ctl('import', trace, '--json')
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(decompression(result.json['captures'][0]['id']),
                         decompression(capture['id']))

    def test_default_has_the_call_of_a_decompression_but_not_its_work(self):
        capture = self.five_steps(self.gpu_target('gpu decompress 100000'))
        csv = self.folder / 'calls.csv'
        result = self.daemon.ctl('export', capture['id'], '-o', csv)
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(csv.read_text().count('cuMemBatchDecompressAsync'), 5)
        self.assertNotIn('Memcpy Decompress', [row['name'] for row in
                                               self.report('copies', capture['id'])['rows']])

    def test_nodes_of_graphs_belong_to_their_launch(self):
        capture = self.five_steps(self.gpu_target())
        kernels = self.report('kernels', capture['id'])
        rows = {row['name']: row for row in kernels['rows']}
        self.assertEqual(rows['graph_kernel']['op'], 'replay')
        self.assertEqual(rows['graph_kernel']['graph_count'], 15)

    def test_light_records_kernels_and_no_calls(self):
        capture = self.five_steps(self.gpu_target(), '--gpu', 'light')
        counts = {row['name']: row['count'] for row in
                  self.report('kernels', capture['id'])['rows']}
        for name, n in KERNELS_PER_STEP.items():
            self.assertGreaterEqual(counts.get(name, 0), 5 * n - n)
        self.assertEqual(capture['gpu']['orphan_count'], 0)
        self.assertFalse([name for name in self.ops(capture['id']) if name.startswith('cuda')])

    def test_off_touches_nothing(self):
        target = self.gpu_target()
        capture = self.five_steps(target, '--gpu', 'off')
        self.assertEqual(capture['gpu']['outcome'], 'off')
        self.assertEqual(self.report('kernels', capture['id'])['rows'], [])
        self.assertEqual({r['fate'] for r in self.truth(target)}, {0}, 'no kind was ever on')

    def test_device_time_is_of_the_ranges_that_launched_it(self):
        target = self.gpu_target()
        capture = self.five_steps(target)
        inside = self.launched_within(self.truth(target), capture)
        total = collections.Counter()
        for r in inside:
            if r['kind'] == KERNEL:
                total[r['name']] += r['end_ns'] - r['start_ns']
        ops = self.ops(capture['id'])
        # A tick of the time-stamp counter is below a nanosecond; each end is rounded once.
        slack = 2 * 5 * sum(KERNELS_PER_STEP.values())
        self.assertAlmostEqual(ops['layer']['self_device_ns'], total['gemm_forward'], delta=slack)
        self.assertAlmostEqual(ops['forward']['self_device_ns'], total['relu'], delta=slack)
        self.assertAlmostEqual(ops['forward']['device_total_ns'],
                               total['gemm_forward'] + total['relu'], delta=slack)
        self.assertLessEqual(ops['backward']['busy_device_ns'],
                             ops['backward']['device_total_ns'])
        self.assertGreater(ops['cudaLaunchKernel']['calls'], 0)
        table = self.report('ops', capture['id'])
        self.assertGreater(table['self_device_total_ns'], 0)
        self.assertEqual(table['unattributed_device_ns'], 0)

    def test_every_record_is_what_really_happened(self):
        target = self.gpu_target()
        capture = self.five_steps(target)
        inside = self.launched_within(self.truth(target), capture)
        # By correlation, which the nodes of a graph share.
        expected = collections.defaultdict(list)
        for r in sorted(inside, key=lambda r: r['start_ns']):
            if r['kind'] == KERNEL:
                expected[r['correlation']].append(r)
        trace_path = self.folder / 'trace.json'
        done = self.daemon.ctl('export', capture['id'], '--format', 'chrome', '-o', trace_path)
        self.assertEqual(done.status, DONE, done.err)
        trace = json.loads(trace_path.read_text())
        seen = collections.defaultdict(list)
        for event in sorted((e for e in trace['traceEvents'] if e.get('cat') == 'kernel'),
                            key=lambda e: e['ts']):
            seen[event['args']['correlation']].append(event)
        self.assertEqual({c: len(events) for c, events in seen.items()},
                         {c: len(records) for c, records in expected.items()})
        base_ns = int(trace['baseTimeNanoseconds'])
        errors = []
        for correlation, events in seen.items():
            for event, r in zip(events, expected[correlation]):
                self.assertEqual(event['name'], r['name'])
                self.assertEqual(event['tid'], r['stream'])
                errors.append(abs(base_ns + round(event['ts'] * 1000) - r['start_ns']))
                self.assertAlmostEqual(event['dur'] * 1000, r['end_ns'] - r['start_ns'], delta=5)
        bound = capture['clock_error_ns'] + capture['gpu']['clock_error_ns'] + 1000
        self.assertLessEqual(max(errors), bound, 'a kernel lies further off than the error said')
        launches = {e['args']['correlation'] for e in trace['traceEvents']
                    if e.get('cat') == 'cuda_runtime'}
        flows = collections.Counter((e['id'], e['ph']) for e in trace['traceEvents']
                                    if e.get('cat') == 'ac2g')
        for correlation in expected:
            self.assertIn(correlation, launches)
            self.assertEqual(flows[(correlation, 's')], 1)

    def test_whatever_is_simulated_says_so(self):
        target = self.gpu_target()
        capture = self.five_steps(target)
        self.assertIs(capture['simulated'], True)
        for command in ('show', 'ops', 'kernels', 'copies', 'syncs', 'idle'):
            self.assertIs(self.report(command, capture['id'])['simulated'], True, command)
            self.assertIn('simulated', self.daemon.ctl(command, capture['id']).out, command)
        for name in ('chrome', 'perfetto'):
            path = self.folder / f'trace.{name}'
            done = self.daemon.ctl('export', capture['id'], '--format', name, '-o', path)
            self.assertEqual(done.status, DONE, done.err)
            self.assertIn(b'simulated', path.read_bytes(), name)
        cpu = self.target()
        cpu.do('train 2')
        self.assertIs(self.five_steps(cpu)['simulated'], False)

    def test_a_fetched_file_gives_the_same_reports(self):
        capture = self.five_steps(self.gpu_target(), '--gpu', 'full')
        path = self.folder / 'x.profd'
        self.assertEqual(self.daemon.ctl('fetch', capture['id'], '-o', path).status, DONE)
        reports = {command: self.report(command, capture['id'])
                   for command in ('ops', 'kernels', 'copies', 'syncs', 'idle', 'memory')}
        self.daemon.stop()
        for command, live in reports.items():
            self.assertEqual(self.report(command, path), live, command)

    def test_captures_can_follow_each_other(self):
        target = self.gpu_target()
        for _ in range(3):
            capture = self.five_steps(target)
            counts = {row['name']: row['count'] for row in
                      self.report('kernels', capture['id'])['rows']}
            self.assertEqual(counts, {name: 5 * n for name, n in KERNELS_PER_STEP.items()})

    def test_work_outside_ranges_is_counted_as_such(self):
        target = self.gpu_target()
        target.do('rest', 'step')
        tracing = self.trace('--pid', target.pid, '--steps', '2', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'gpu outside', 'step', 'gpu outside', 'gpu settle', 'step')
        capture = tracing.result().json
        self.assertEqual(capture['state'], 'COMPLETE')
        table = self.report('ops', capture['id'])
        self.assertGreater(table['unattributed_device_ns'], 0)
        rows = {row['name']: row for row in self.report('kernels', capture['id'])['rows']}
        self.assertEqual(rows['outside_kernel']['count'], 2)
        self.assertEqual(rows['outside_kernel']['orphan_count'], 0)

    def test_steps_without_code(self):
        target = self.target()
        target.do(f'gpu load {self.cupti}')
        tracing = self.trace('--pid', target.pid, '--steps', '3', '--step-marker', 'load')
        self.await_state('WAITING_STEP', 'WARMUP')
        target.do('gpu work 8')
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-2000:])
        capture = result.json
        self.assertEqual(len(capture['steps']), 3)
        counts = {row['name']: row['count'] for row in
                  self.report('kernels', capture['id'])['rows']}
        self.assertEqual(counts, {name: 3 * n for name, n in KERNELS_PER_STEP.items()})


class OldCuptiTest(GpuEndToEndTest):
    """The same library with the CUPTI of other CUDA releases."""

    def test_each_release_gives_the_same_kernels(self):
        found = sorted(STANDIN.glob('*/libcupti.so.*'))
        self.assertGreaterEqual(len(found), 6)
        for path in found:
            with self.subTest(cupti=path.parent.name):
                # 13.2 is used only with a driver that is as new.
                target = self.target(env={'SGPU_DRIVER_VERSION': '13020'})
                target.do(f'gpu load {path}', 'train 2')
                capture = self.five_steps(target, '--gpu', 'full')
                self.assertEqual(capture['dropped_event_count'], 0, capture['dropped_by_reason'])
                counts = {row['name']: row['count'] for row in
                          self.report('kernels', capture['id'])['rows']}
                self.assertEqual(counts, {n: 5 * k for n, k in KERNELS_PER_STEP.items()})


class GpuFaultTest(GpuEndToEndTest):
    def assert_unharmed(self, target):
        """The program runs on, and its next capture is whole."""
        target.do('status', 'train 2')
        return self.five_steps(target, '--gpu', 'off')

    def refused(self, target, reason, *arguments):
        result = self.trace('--pid', target.pid, '--steps', '2', *arguments).result()
        self.assertIn(result.status, (FAILED, REFUSED), result.out)
        self.assertIn('--gpu off', result.err + result.out, 'it says what to do')
        capture = self.captures()[0]
        self.assertEqual(capture['error_reason'], reason)
        self.assertEqual(capture['state'], 'FAILED')
        return capture

    def test_no_cuda_in_the_process(self):
        target = self.target()
        target.do('train 2')
        capture = self.five_steps(target)
        self.assertEqual(capture['gpu']['outcome'], 'no_cuda')
        self.refused(target, 'NO_CUDA', '--gpu', 'default')
        self.assert_unharmed(target)

    def test_a_driver_that_cupti_does_not_get_on_with(self):
        target = self.gpu_target('gpu set no_driver 1')
        self.refused(target, 'NO_DRIVER')
        self.assert_unharmed(target)

    def test_a_rival_is_named_and_nothing_is_recorded(self):
        target = self.gpu_target('gpu rival nsys')
        capture = self.refused(target, 'CUPTI_BUSY')
        self.assertIn('nsys', capture['error_message'])
        target.do('gpu rival-gone')
        self.assertEqual(self.five_steps(target)['gpu']['outcome'], 'recorded')

    def test_a_rival_that_takes_our_callbacks_ends_the_gpu_part(self):
        target = self.gpu_target()
        target.do('rest', 'step')
        tracing = self.trace('--pid', target.pid, '--steps', '2', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'gpu work', 'gpu steal', 'step', 'gpu work', 'step')
        capture = tracing.result().json
        self.assertEqual(capture['gpu']['outcome'], 'broken')
        self.assertIn('another', capture['gpu']['problem'])
        self.assert_unharmed(target)

    def test_a_slow_subscribe_shows_what_it_waits_for(self):
        target = self.gpu_target(hold_subscribe=1)
        tracing = self.trace('--pid', target.pid, '--steps', '2')
        until(lambda: any(c.get('activity') for c in self.captures()), 'activity while arming')
        seen = time.monotonic()
        self.assertEqual([c['state'] for c in self.captures()], ['ARMING'])
        held_ns = (time.monotonic() - seen) * 1e9
        target.do('gpu set hold_subscribe 0')
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err)
        self.assertGreaterEqual(result.json['gpu']['arm_ns'], held_ns)

    def test_a_kind_that_cannot_be_enabled_is_named_and_the_rest_recorded(self):
        target = self.gpu_target('gpu fail cuptiActivityEnable:38=27')
        capture = self.five_steps(target)
        self.assertEqual([f['kind'] for f in capture['gpu']['kind_failures']],
                         ['synchronization'])
        self.assertIn('27', capture['gpu']['kind_failures'][0]['result'])
        self.assertGreater(len(self.report('kernels', capture['id'])['rows']), 0)

    def test_buffers_that_never_come_back_are_counted(self):
        target = self.gpu_target()
        target.do('gpu set lose_buffers 1')
        capture = self.capture(target, '--steps', '5')
        self.assertGreater(capture['dropped_by_reason'].get('gpu_lost_buffer', 0), 0)
        target.do('gpu set lose_buffers 0')
        self.assert_unharmed(target)

    def test_buffers_that_come_late_are_waited_for(self):
        capture = self.five_steps(self.gpu_target(late_ms=50))
        counts = {row['name']: row['count'] for row in
                  self.report('kernels', capture['id'])['rows']}
        self.assertEqual(counts, {name: 5 * n for name, n in KERNELS_PER_STEP.items()})

    def test_a_corrupt_buffer_costs_its_rest_and_is_counted(self):
        for how in (1, 2, 3, 4):
            with self.subTest(corrupt=how):
                target = self.gpu_target(corrupt=how)
                capture = self.capture(target, '--steps', '5')
                self.assertIn(capture['state'], ('COMPLETE', 'PARTIAL'))
                self.assert_unharmed(target)

    def test_names_outlive_their_modules(self):
        target = self.gpu_target()
        target.do('rest', 'step')
        tracing = self.trace('--pid', target.pid, '--steps', '2', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'gpu module 20', 'step', 'gpu module 20', 'gpu settle', 'step')
        capture = tracing.result().json
        rows = {row['name']: row for row in self.report('kernels', capture['id'])['rows']}
        self.assertEqual(sum(row['count'] for row in rows.values()), 40)
        self.assert_unharmed(target)

    def test_the_wall_clock_is_set_in_the_window(self):
        target = self.gpu_target()
        target.do('rest', 'step')
        tracing = self.trace('--pid', target.pid, '--steps', '2', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'gpu work', 'gpu clock-step 5000000000', 'gpu work', 'step', 'gpu work',
                  'gpu settle', 'step')
        capture = tracing.result().json
        self.assertIn(capture['state'], ('COMPLETE', 'PARTIAL'))
        self.assert_unharmed(target)

    def test_a_fork_during_a_capture_leaves_it_alone(self):
        target = self.gpu_target()
        target.do('rest', 'step')
        tracing = self.trace('--pid', target.pid, '--steps', '2', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'gpu work', 'fork-silent', 'step', 'gpu work', 'gpu settle', 'step')
        capture = tracing.result().json
        self.assertEqual(capture['state'], 'COMPLETE')
        counts = {row['name']: row['count'] for row in
                  self.report('kernels', capture['id'])['rows']}
        self.assertEqual(counts, {name: 2 * n for name, n in KERNELS_PER_STEP.items()})

    def test_a_target_that_ends_in_the_middle_keeps_what_it_had_sent(self):
        target = self.gpu_target()
        tracing = self.trace('--pid', target.pid, '--steps', '100000', '--timeout', '60s')
        self.await_state('RECORDING')
        target.do('exit 0')
        result = tracing.result()
        self.assertEqual(result.status, PARTIAL, result.err)
        self.assertEqual(result.json['ended_by'], 'target_exit')

    def test_a_killed_target_keeps_what_it_had_sent(self):
        target = self.gpu_target()
        tracing = self.trace('--pid', target.pid, '--steps', '100000', '--timeout', '60s')
        self.await_state('RECORDING')
        target.kill()
        self.assertEqual(tracing.result().json['state'], 'PARTIAL')

    def test_the_record_cap_ends_the_gpu_part_and_is_counted(self):
        target = self.gpu_target()
        target.do('rest', 'step')
        tracing = self.trace('--pid', target.pid, '--steps', '1', '--warmup', '0',
                             '--gpu-max-records', '1000')
        self.await_state('WAITING_STEP')
        target.do('step', 'gpu launch 5000', 'gpu settle', 'step')
        capture = tracing.result().json
        self.assertGreater(capture['dropped_by_reason'].get('gpu_record_cap', 0), 0)
        self.assert_unharmed(target)


if __name__ == '__main__':
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    harness.main()
