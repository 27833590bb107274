"""Captures from end to end: what is asked for is what is recorded, reported and exported."""

import contextlib
import gzip
import json
import os
import signal
import subprocess

import harness
from harness import DONE, FAILED, INTERRUPTED, NO_DAEMON, PARTIAL, REFUSED, USAGE, until


@contextlib.contextmanager
def inherited(number, action):
    """Programs that begin meanwhile do that on the signal."""
    before = signal.signal(number, action)
    try:
        yield
    finally:
        signal.signal(number, before)


class CaptureTest(harness.EndToEndTest):

    def test_five_steps_of_a_scripted_target_are_recorded_exactly(self):
        target = self.target()
        target.do('step 3')
        tracing = self.trace('--pid', target.pid, '--steps', '5', '--warmup', '1')
        self.await_state('WAITING_STEP')
        target.do('step', 'range warm 7', 'step')
        for _ in range(5):
            target.do('range work 10', 'nested deep 3', 'step')
        target.do('range after 4')
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err)
        capture = result.json
        self.assertEqual(capture['state'], 'COMPLETE')
        self.assertEqual(capture['ended_by'], 'steps')
        self.assertEqual([s['index'] for s in capture['steps']], [4, 5, 6, 7, 8])
        self.assertEqual(capture['dropped_event_count'], 0)
        self.assertGreater(capture['start_unix_ns'], 0)
        self.assertEqual(capture['steps'][0]['start_ns'], 0)
        ops = self.ops(capture['id'])
        self.assertEqual(ops['work']['calls'], 50)
        self.assertEqual(ops['deep/0']['calls'], 5)
        self.assertEqual(ops['deep/2']['calls'], 5)
        self.assertNotIn('warm', ops)
        self.assertNotIn('after', ops)
        inner = ops['deep/1']['cpu_total_ns'] + ops['deep/0']['self_cpu_ns']
        self.assertEqual(ops['deep/0']['cpu_total_ns'], inner)
        self.assertEqual(self.show(capture['id'])['id'], capture['id'])

    def test_warmup_wait_and_repeat_give_numbered_windows(self):
        target = self.target()
        target.do('step')
        tracing = self.trace('--pid', target.pid, '--steps', '2', '--warmup', '1', '--wait', '1',
                             '--repeat', '3')
        self.await_state('WAITING_STEP')
        # The first mark is step 1; cycles of 1 wait, 1 warm-up, 2 recorded.
        target.do(*['step'] * 13)
        capture = tracing.result().json
        self.assertEqual(capture['state'], 'COMPLETE')
        self.assertEqual([s['index'] for s in capture['steps']], [3, 4, 7, 8, 11, 12])
        self.assertEqual([s['window'] for s in capture['steps']], [0, 0, 1, 1, 2, 2])

    def test_a_start_step_is_absolute(self):
        target = self.target()
        target.do('step 10')
        past = self.daemon.ctl('trace', '--pid', target.pid, '--steps', '2', '--start-step', '5')
        self.assertEqual(past.status, FAILED, past.err)
        self.assertIn('step 9', past.err)
        tracing = self.trace('--pid', target.pid, '--steps', '2', '--start-step', '20')
        self.await_state('WAITING_STEP')
        target.do('step 20')
        self.assertEqual([s['index'] for s in tracing.result().json['steps']], [20, 21])

    def test_a_duration_needs_no_steps(self):
        target = self.target()
        # The window ends on command: nobody has to be in time for what it records.
        tracing = self.trace('--pid', target.pid, '--duration', '1h')
        target.do('await-recording', 'range timed 25')
        tracing.process.send_signal(signal.SIGINT)
        result = tracing.result()
        self.assertEqual(result.status, INTERRUPTED, result.err)
        self.assertEqual(result.json['steps'], [])
        self.assertEqual(self.ops(result.json['id'])['timed']['calls'], 25)
        # This one ends by itself.
        result = self.trace('--pid', target.pid, '--duration', '200ms').result()
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(result.json['ended_by'], 'duration')
        self.assertEqual(result.json['steps'], [])

    def test_a_capture_has_one_grade_everywhere(self):
        target = self.target()
        target.do('step')
        tracing = self.trace('--pid', target.pid, '--steps', '1', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'range timed 25', 'step')
        traced = tracing.result().json
        # No steps around the window: the slow-down is unknown, and that is no silent A.
        self.assertEqual(traced['quality'], 'B')
        self.assertTrue(traced['quality_stored'])
        self.assertFalse(traced['slowdown']['known'])
        self.assertIn('at least 5 are needed', traced['slowdown']['unknown_reason'])
        shown = self.show(traced['id'])
        report = self.daemon.ctl('report', traced['id'], '--json').json
        file = self.folder / 'one.profd'
        self.assertEqual(self.daemon.ctl('fetch', traced['id'], '-o', file).status, DONE)
        offline = self.daemon.ctl('show', file, '--json').json
        for other in (shown, report, offline):
            self.assertEqual(other['quality'], traced['quality'])
            self.assertEqual(other['quality_checks'], traced['quality_checks'])
        self.assertEqual(report['grade'], traced['quality'])
        self.assertIn('slow-down through recording unknown', report['verdict'])
        self.assertIn('Quality B', self.daemon.ctl('show', traced['id']).out)
        page = self.folder / 'one.html'
        self.assertEqual(self.daemon.ctl('export', traced['id'], '-o', page).status, DONE)
        self.assertIn('"grade":"B","lost_share":0,"quality_stored":true',
                      page.read_text(encoding='utf-8'))

    def test_the_slow_down_is_compared_with_the_steps_around_the_window(self):
        target = self.target()
        target.do('train 1')
        until(lambda: self.daemon.ctl('ps', '--json').json['targets'][0]['current_step'] > 63,
              'steps before the window')
        capture = self.trace_five_steps(target)
        target.do('rest')
        slowdown = capture['slowdown']
        # A busy machine may slow just these five; even then it says with what it compared them.
        self.assertTrue(slowdown['known'] or 'too few' in slowdown['unknown_reason'] or
                        'vary too much' in slowdown['unknown_reason'], slowdown)
        self.assertGreaterEqual(slowdown['before_step_count'], 20)
        self.assertEqual(slowdown['during_step_count'], 5)
        self.assertGreaterEqual(slowdown['after_step_count'], 20)
        self.assertLessEqual(slowdown['low'], slowdown['estimate'])
        self.assertLessEqual(slowdown['estimate'], slowdown['high'])
        stored = self.show(capture['id'])
        for key in ('quality', 'quality_checks', 'slowdown'):
            self.assertEqual(stored[key], capture[key])

    def test_a_job_that_stands_still_shows_since_when(self):
        target = self.target()
        target.do('step 3')
        missing = until(lambda: [t for t in self.daemon.ctl('ps', '--json').json['targets']
                                 if t['misses_steps']], 'two missed steps')
        self.assertGreaterEqual(missing[0]['since_last_step_ns'], 1_000_000_000)
        self.assertIn('2, last step ', self.daemon.ctl('ps').out)
        target.do('train 1')
        until(lambda: 'last step' not in self.daemon.ctl('ps').out, 'it marks steps again')

    def test_a_window_without_activity_says_so(self):
        target = self.target()
        tracing = self.trace('--pid', target.pid, '--duration', '200ms')
        result = tracing.result()
        self.assertEqual(result.json['quality'], 'C')
        sentences = [check['sentence'] for check in result.json['quality_checks']]
        self.assertTrue(any('no activity was recorded' in text for text in sentences), sentences)

    def test_ranges_open_at_the_end_are_kept_and_flagged(self):
        target = self.target()
        target.do('step')
        tracing = self.trace('--pid', target.pid, '--steps', '1', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'open straddles', 'range inside 3', 'step', 'close')
        capture = tracing.result().json
        self.assertEqual(capture['open_range_count'], 1)
        ops = self.ops(capture['id'])
        self.assertEqual(ops['straddles']['calls'], 1)
        self.assertEqual(ops['inside']['calls'], 3)

    def test_hostile_names_survive_into_every_format(self):
        names = {
            'hex:22717e22': '"q~"',
            'hex:0a0d0901': '\n\r\t\x01',
            'hex:fffe41c3': '\ufffd\ufffdA\ufffd',
            'hex:' + b'\\u0000</script>'.hex(): '\\u0000</script>',
            'hex:' + ('é' * 2048).encode().hex(): 'é' * 2048,
        }
        target = self.target()
        target.do('step')
        tracing = self.trace('--pid', target.pid, '--steps', '1', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', *[f'range {name} 2' for name in names], 'step')
        capture = tracing.result().json
        ops = self.ops(capture['id'])
        for shown in names.values():
            self.assertEqual(ops[shown]['calls'], 2)
        for suffix in ('.json', '.json.gz', '.pftrace', '.html'):
            path = self.folder / f'trace{suffix}'
            done = self.daemon.ctl('export', capture['id'], '-o', path)
            self.assertEqual(done.status, DONE, done.err)
            self.assertGreater(path.stat().st_size, 100)
        plain = json.loads((self.folder / 'trace.json').read_bytes().decode('utf-8'))
        zipped = json.loads(gzip.decompress((self.folder / 'trace.json.gz').read_bytes()))
        self.assertEqual(plain, zipped)
        found = {event['name'] for event in plain['traceEvents']}
        # Viewers get control characters as their pictures (U+2400 and following).
        pictures = {name.translate({c: 0x2400 + c for c in range(32)}) for name in names.values()}
        self.assertEqual(pictures - found, set())

    def test_memory_timeline_counts_to_the_byte(self):
        target = self.target()
        target.do('step')
        tracing = self.trace('--pid', target.pid, '--steps', '1', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'open forward', 'alloc 4096 1000 5000', 'alloc 8192 500 5500',
                  'close', 'free 4096 1000 4500', 'free 77 200 4300', 'step')
        capture = tracing.result().json
        result = self.daemon.ctl('memory', capture['id'], '--json')
        self.assertEqual(result.status, DONE, result.err)
        device, = result.json['devices']
        self.assertEqual(device['device'], 'cuda:0')
        self.assertEqual(device['peak_bytes'], 5500)
        self.assertEqual(device['unknown_free_count'], 1)
        self.assertEqual([p[1] for p in device['points']][-1], 4300)
        self.assertIn('forward', str(device))

    def test_counters_and_instants_reach_the_trace(self):
        target = self.target()
        target.do('step')
        tracing = self.trace('--pid', target.pid, '--steps', '1', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'counter loss 0.25', 'instant here', 'step')
        capture = tracing.result().json
        path = self.folder / 't.json'
        self.daemon.ctl('export', capture['id'], '-o', path)
        events = json.loads(path.read_text())['traceEvents']
        counters = [e for e in events if e['ph'] == 'C' and e['name'] == 'loss']
        self.assertEqual([list(e['args'].values()) for e in counters], [[0.25]])
        self.assertTrue([e for e in events if e['ph'] == 'i' and e['name'] == 'here'])
        self.assertTrue([e for e in events if e['name'] == 'ProfilerStep#1'])

    def test_output_formats_follow_the_suffix(self):
        target = self.target()
        target.do('train 1')
        for suffix in ('.json', '.json.gz', '.pftrace', '.profd'):
            path = self.folder / f'out{suffix}'
            result = self.trace('--pid', target.pid, '--steps', '2', '-o', path,
                                json_output=False).result()
            self.assertEqual(result.status, DONE, result.err)
            self.assertIn('Self CPU', result.out)
            self.assertEqual(result.out.strip().splitlines()[-1], str(path))
            self.assertTrue(path.exists())
        bad = self.daemon.ctl('trace', '--pid', target.pid, '--steps', '2', '-o', 'x.docx')
        self.assertEqual(bad.status, USAGE)

    def test_a_fetched_file_needs_no_daemon(self):
        target = self.target()
        target.do('train 1')
        capture = self.trace_five_steps(target)
        path = self.folder / 'kept.profd'
        fetched = self.daemon.ctl('fetch', capture['id'], '-o', path)
        self.assertEqual(fetched.status, DONE, fetched.err)
        online = {command: self.daemon.ctl(command, capture['id'], '--json').json
                  for command in ('ops', 'steps', 'memory')}
        self.daemon.stop()
        for command, expected in online.items():
            offline = self.daemon.ctl(command, path, '--json')
            self.assertEqual(offline.status, DONE, offline.err)
            self.assertEqual(offline.json, expected)
        exported = self.daemon.ctl('export', path, '-o', self.folder / 'offline.json')
        self.assertEqual(exported.status, DONE, exported.err)
        self.assertEqual(self.daemon.ctl('show', path, '--json').json['id'], capture['id'])

    def test_ctrl_c_or_a_lost_terminal_cancels_and_keeps_what_was_recorded(self):
        target = self.target()
        # The kernel and the shell both say that a terminal is gone.
        for signals in ((signal.SIGINT,), (signal.SIGHUP, signal.SIGHUP)):
            target.do('step')
            with inherited(signal.SIGHUP, signal.SIG_DFL):
                tracing = self.trace('--pid', target.pid, '--steps', '1000', '--warmup', '0')
            self.await_state('WAITING_STEP')
            target.do('step', 'range kept 5', 'step')
            self.await_state('RECORDING')
            for number in signals:
                tracing.process.send_signal(number)
            result = tracing.result()
            self.assertEqual(result.status, INTERRUPTED, result.err)
            capture = self.captures()[0]
            self.assertEqual(capture['state'], 'CANCELLED')
            self.assertEqual(self.ops(capture['id'])['kept']['calls'], 5)

    def test_a_lost_terminal_is_ignored_below_nohup(self):
        target = self.target()
        target.do('step')
        with inherited(signal.SIGHUP, signal.SIG_IGN):
            tracing = self.trace('--pid', target.pid, '--steps', '2', '--warmup', '0')
        self.await_state('WAITING_STEP')
        tracing.process.send_signal(signal.SIGHUP)
        target.do(*['step'] * 5)
        self.assertEqual(tracing.result().json['state'], 'COMPLETE')

    def test_groups_record_the_same_steps(self):
        targets = [self.target() for _ in range(3)]
        for count, target in enumerate(targets, start=1):
            target.do(*['step'] * count)
        tracing = self.trace('--all', '--steps', '4')
        self.await_group('WAITING_STEP', 3)
        self.step_until_over(tracing, targets)
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err)
        steps = [[s['index'] for s in c['steps']] for c in result.json['captures']]
        self.assertEqual(len(steps), 3)
        # Each counts its own steps; the group starts all at one number.
        self.assertEqual(steps[0], steps[1])
        self.assertEqual(steps[0], steps[2])
        self.assertEqual(result.json['missed'], [])

    def test_a_group_names_who_missed(self):
        a, b = self.target(), self.target()
        a.do('step')
        b.do('step')
        tracing = self.trace('--pid', f'{a.pid},{b.pid}', '--steps', '3')
        self.await_group('WAITING_STEP', 2)
        b.kill()
        self.step_until_over(tracing, [a])
        result = tracing.result()
        self.assertEqual(result.status, PARTIAL, result.err)
        self.assertEqual([m['pid'] for m in result.json['missed']], [b.pid])

    def await_group(self, state, count):
        """Until `count` targets have their orders: none can pass the start step before it knows."""
        until(lambda: [capture['state'] for capture in self.captures()] == [state] * count,
              f'{count} captures {state}')

    def step_until_over(self, tracing, targets):
        """How far off the start step is depends on the pace of the steps before."""
        def over():
            for target in targets:
                target.do('step 100')
            return tracing.process.poll() is not None
        until(over, 'the end of the trace')

    def test_the_pid_of_a_launcher_stands_for_its_targets(self):
        script = f'"{harness.TARGET}"; true'
        shell = subprocess.Popen(['/bin/sh', '-c', script], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE,
                                 env=harness.environment(self.daemon.socket_dir))
        self.addCleanup(shell.stdout.close)
        self.addCleanup(shell.wait)
        self.addCleanup(shell.stdin.close)
        shell.stdin.write(b'init\nawait-connected\ntrain 1\n')
        shell.stdin.flush()
        for _ in range(3):
            shell.stdout.readline()
        result = self.trace('--pid', shell.pid, '--steps', '2').result()
        self.assertEqual(result.status, DONE, result.err)
        self.assertNotEqual(result.json['target']['pid'] if 'target' in result.json
                            else result.json['pid'], shell.pid)

    def test_listing_filters_and_deleting(self):
        target = self.target()
        target.do('train 1')
        first = self.trace('--pid', target.pid, '--steps', '1', '--label', 'run=a',
                           '--name', 'first').result().json
        second = self.trace('--pid', target.pid, '--steps', '1', '--label', 'run=b').result().json
        self.assertEqual([c['id'] for c in self.captures()], [second['id'], first['id']])
        self.assertEqual([c['id'] for c in self.captures('--label', 'run=a')], [first['id']])
        self.assertEqual([c['id'] for c in self.captures('--name', 'first')], [first['id']])
        self.assertEqual(len(self.captures('--pid', target.pid, '--state', 'COMPLETE')), 2)
        self.assertEqual(self.captures('--since', '2100-01-01T00:00:00Z'), [])
        self.assertEqual(self.daemon.ctl('delete', first['id']).status, DONE)
        self.assertEqual(self.daemon.ctl('ops', first['id']).status, FAILED)
        self.assertEqual(self.daemon.ctl('delete', first['id']).status, FAILED)
        prefix = second['id'][:20]
        self.assertEqual(self.show(prefix)['id'], second['id'])

    def test_the_demo_is_a_real_training_process(self):
        demo = subprocess.Popen([harness.MLP, '--steps', '0', '--step-ms', '2'],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                env=harness.environment(self.daemon.socket_dir))

        def finish():
            demo.terminate()
            demo.communicate()
        self.addCleanup(finish)
        until(lambda: any(t['pid'] == demo.pid and t['current_step'] > 2
                          for t in self.daemon.ctl('ps', '--json').json['targets']),
              'the demo is listed')
        result = self.trace('--steps', '5').result()
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(result.json['dropped_event_count'], 0)
        ops = self.ops(result.json['id'])
        self.assertTrue({'forward', 'backward', 'optimizer'} <= set(ops), list(ops))
        memory = self.daemon.ctl('memory', result.json['id'], '--json').json
        self.assertGreater(memory['devices'][0]['peak_bytes'], 0)


class RefusalTest(harness.EndToEndTest):

    def test_bad_requests_say_what_to_do(self):
        target = self.target()
        for steps in ('0', '-1', '1000001', 'many', '99999999999999999999'):
            result = self.daemon.ctl('trace', '--pid', target.pid, '--steps', steps)
            self.assertEqual(result.status, USAGE, f'{steps}: {result.err}')
            self.assertTrue(result.err)
        never = self.daemon.ctl('trace', '--pid', target.pid, '--steps', '5')
        self.assertEqual(never.status, FAILED)
        self.assertIn('--duration', never.err)
        gone = self.daemon.ctl('trace', '--pid', '999999999', '--steps', '5')
        self.assertEqual(gone.status, FAILED)
        self.assertIn('999999999', gone.err)
        self.assertEqual(self.captures(), [])

    def test_a_process_without_the_library_is_named_so(self):
        other = subprocess.Popen(['/bin/sleep', '600'])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        result = self.daemon.ctl('trace', '--pid', other.pid, '--steps', '5')
        self.assertEqual(result.status, FAILED)
        self.assertIn(str(other.pid), result.err)
        self.assertIn('profd', result.err)

    def test_a_second_capture_is_refused_by_name_of_the_first(self):
        target = self.target()
        target.do('step')
        self.trace('--pid', target.pid, '--steps', '5')
        self.await_state('WAITING_STEP')
        first, = self.captures()
        second = self.daemon.ctl('trace', '--pid', target.pid, '--steps', '5')
        self.assertEqual(second.status, REFUSED, second.err)
        self.assertIn(first['id'], second.err)

    def test_another_uid_sees_and_touches_nothing(self):
        if os.geteuid() != 0:
            self.skipTest('needs root, to become another user')
        # A daemon of root's; its sockets are reached by all, what they show depends on uid.
        self.folder.chmod(0o755)
        target = self.target()
        target.do('train 1')
        capture = self.trace_five_steps(target)

        def as_nobody(*arguments):
            completed = subprocess.run(
                [harness.PROFCTL, *map(str, arguments)], stdin=subprocess.DEVNULL,
                capture_output=True, timeout=60, user=65534, group=65534, extra_groups=[],
                env=harness.environment(self.daemon.socket_dir))
            return harness.Result(completed)
        if as_nobody('version').status not in (DONE,):
            self.skipTest('the build folder is closed to other users')
        self.assertEqual(as_nobody('ps', '--json').json['targets'], [])
        self.assertEqual(as_nobody('captures', '--json').json['captures'], [])
        self.assertEqual(as_nobody('show', capture['id']).status, FAILED)
        self.assertEqual(as_nobody('delete', capture['id']).status, FAILED)
        self.assertIn(as_nobody('trace', '--pid', target.pid, '--steps', '1').status,
                      (FAILED, REFUSED))
        self.assertEqual(self.show(capture['id'])['deleted'], False)

    def test_without_a_daemon_the_exit_status_says_so(self):
        self.daemon.stop()
        for command in (('ps',), ('trace', '--steps', '5'), ('captures',), ('node',)):
            result = self.daemon.ctl(*command)
            self.assertEqual(result.status, NO_DAEMON, result.err)
            self.assertIn('profd', result.err)


if __name__ == '__main__':
    harness.main()
