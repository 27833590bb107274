"""Reports and seals run in profd-report: what it does to a report or a seal that its program is killed,
stopped, out of memory, or reading a hostile file, and that no other caller notices.

A report is made endless by stopping its program (SIGSTOP) before it gets the request."""

import os
import pathlib
import signal
import subprocess

from harness import (DONE, FAILED, NOBODY, PROFCTL, EndToEndTest, as_user, environment,
                     is_sanitized, main, until)


def workers_of(daemon, yields):
    """The pids of profd-report below a daemon: `yields` for reports, else for seals."""
    found = []
    for status in pathlib.Path('/proc').glob('[0-9]*/status'):
        try:
            text = status.read_text()
            arguments = (status.parent / 'cmdline').read_bytes().split(b'\0')
        except OSError:
            continue
        if (text.startswith('Name:\tprofd-report\n') and f'\nPPid:\t{daemon.process.pid}\n' in text
                and (b'--yield=1' if yields else b'--yield=0') in arguments):
            found.append(int(status.parent.name))
    return found


class ReportTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.rows = 1000
        target = self.target()
        target.do('train 1')
        self.capture = self.trace_five_steps(target)['id']
        target.do('rest')
        self.worker = until(self.workers, 'profd-report runs')[0]
        self.assert_reports()  # It has started: a report ran.

    def workers(self):
        return workers_of(self.daemon, yields=True)

    def steps(self, capture=None):
        """What to ask for: another number of rows each time, as profd keeps its answers."""
        self.rows += 1
        return 'steps', capture or self.capture, '--limit', str(self.rows)

    def stop_worker(self):
        os.kill(self.worker, signal.SIGSTOP)

    def start_steps(self, as_uid=None, capture=None):
        """`profctl steps` in the background, once the worker has its request."""
        begun = self.begun()
        process = self.steps_process(as_uid, capture)
        until(lambda: self.begun() > begun, 'the report begins')
        return process

    def begun(self):
        return self.daemon.log().count(f'profd-report pid={self.worker} begins GetReport')

    def steps_process(self, as_uid=None, capture=None):
        process = subprocess.Popen(
            [PROFCTL, *self.steps(capture)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(self.daemon.socket_dir), **as_user(as_uid))

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def assert_reports(self):
        self.assertEqual(self.daemon.ctl(*self.steps()).status, DONE)

    def test_a_killed_program_ends_its_report_only(self):
        self.stop_worker()
        steps = self.start_steps()
        os.kill(self.worker, signal.SIGKILL)
        _, err = steps.communicate()
        self.assertNotEqual(steps.returncode, DONE)
        self.assertIn('the report process was killed', err.decode())
        self.assert_reports()

    def test_a_report_that_hangs_does_not_hold_up_another_user(self):
        self.need_uid()
        target = self.target(as_uid=NOBODY)
        target.do('train 1')
        result = self.trace('--pid', target.pid, '--steps', '5', as_uid=NOBODY).result()
        self.assertEqual(result.status, DONE, result.err)
        theirs = result.json['id']
        target.do('rest')
        self.stop_worker()
        waiting = [self.start_steps(NOBODY, theirs)]
        waiting += [self.steps_process(NOBODY, theirs) for _ in range(7)]
        for _ in range(20):
            self.assert_reports()
        # Those that waited are answered, too: the first goes on when it has the turn.
        for process in waiting:
            _, err = process.communicate()
            self.assertEqual(process.returncode, DONE, err)

    def test_a_caller_that_goes_away_frees_the_program(self):
        self.stop_worker()
        steps = self.start_steps()
        steps.kill()
        until(lambda: self.worker not in self.workers(), 'the stopped program is ended')
        self.assert_reports()

    def test_a_damaged_capture_is_refused_and_the_program_lives(self):
        path = self.daemon.data_dir / 'captures' / f'{self.capture}.profd'
        whole = path.read_bytes()
        path.write_bytes(whole[:4096] + bytes(b ^ 0x55 for b in whole[4096:]))
        result = self.daemon.ctl(*self.steps())
        self.assertEqual(result.status, FAILED)
        self.assertNotIn(str(self.daemon.data_dir), result.err)
        path.write_bytes(whole)
        self.assert_reports()
        self.assertEqual(self.workers(), [self.worker])

    def test_profd_stops_while_a_report_hangs(self):
        self.stop_worker()
        steps = self.start_steps()
        self.assertEqual(self.daemon.terminate(), 0)
        self.assertFalse(pathlib.Path(f'/proc/{self.worker}').exists())
        steps.communicate()
        self.assertNotEqual(steps.returncode, DONE)

    def test_the_program_dies_with_profd(self):
        self.stop_worker()
        self.daemon.kill()
        # Its new parent may reap it later.
        status = pathlib.Path(f'/proc/{self.worker}/status')
        until(lambda: not status.exists() or '\nState:\tZ' in status.read_text(), 'it is dead')


class SealTest(EndToEndTest):
    """Captures are sealed with what profd-report computes of their events, whatever becomes of it."""

    def setUp(self):
        super().setUp()
        self.worker = until(lambda: workers_of(self.daemon, yields=False), 'profd-report runs')[0]
        self.train = self.target()
        self.train.do('train 1')

    def begun(self, pid):
        log = self.daemon.log()
        return [log.count(f'profd-report pid={pid} begins {what}')
                for what in ('CheckEvents', 'SummarizeEvents')]

    def assert_sealed(self, capture):
        found = self.daemon.ctl('show', capture['id'], '--json').json
        self.assertEqual(found['state'], 'COMPLETE')
        self.assertEqual((found['error_reason'], found['error_message']), ('', ''))

    def test_the_running_program_makes_the_checks_and_the_summaries(self):
        self.assert_sealed(self.trace_five_steps(self.train))
        self.assertEqual(self.begun(self.worker), [1, 1])
        self.assert_sealed(self.trace_five_steps(self.train))
        self.assertEqual(self.begun(self.worker), [2, 2])
        self.assertEqual(workers_of(self.daemon, yields=False), [self.worker])

    def test_a_killed_program_is_replaced_before_the_next_seal(self):
        os.kill(self.worker, signal.SIGSTOP)
        tracing = self.trace('--pid', self.train.pid, '--steps', '5')
        until(lambda: self.begun(self.worker)[0] == 1, 'the seal begins')
        os.kill(self.worker, signal.SIGKILL)
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err)
        self.assert_sealed(result.json)
        [second] = workers_of(self.daemon, yields=False)
        self.assertEqual(self.begun(second), [1, 1], 'the checks again, then the summaries')

    def test_reports_that_hang_hold_up_no_seal(self):
        capture = self.trace_five_steps(self.train)['id']
        [report] = until(lambda: workers_of(self.daemon, yields=True), 'profd-report runs')
        self.assertEqual(self.daemon.ctl('steps', capture).status, DONE)  # It has started.
        os.kill(report, signal.SIGSTOP)
        steps = subprocess.Popen(
            [PROFCTL, 'steps', capture, '--limit', '3'], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment(self.daemon.socket_dir))
        self.addCleanup(steps.communicate)
        self.addCleanup(steps.kill)
        until(lambda: f'profd-report pid={report} begins GetReport' in self.daemon.log(), 'it hangs')
        tracing = self.trace('--pid', self.train.pid, '--steps', '5')
        ended = lambda: [c for c in self.captures()  # noqa: E731
                         if c['id'] != capture and c['state'] == 'COMPLETE']
        self.assert_sealed(until(ended, 'the capture is sealed')[0])
        os.kill(report, signal.SIGCONT)
        self.assertEqual(tracing.result().status, DONE)


class MissingReportProgramTest(EndToEndTest):
    flags = ('--report-program', '/nonexistent/profd-report')

    def test_a_capture_ends_complete_and_says_what_is_left_out(self):
        target = self.target()
        target.do('train 1')
        capture = self.trace('--pid', target.pid, '--steps', '5').result().json['id']
        found = self.daemon.ctl('show', capture, '--json').json
        self.assertEqual(found['state'], 'COMPLETE')
        self.assertTrue(found['quality_stored'], 'a grade by its record')
        self.assertNotEqual(found['quality'], '-')
        self.assertEqual(found['error_reason'], 'NOT_ANALYZED')
        self.assertIn('left out: the quality checks of its events', found['error_message'])
        self.assertIn('left out: the summaries of its events', found['error_message'])
        self.assertNotIn('/nonexistent', found['error_message'])
        self.assertIn('cannot start /nonexistent/profd-report', self.daemon.log())


class LittleReportMemoryTest(EndToEndTest):
    flags = ('--max-report-memory', '1MiB')

    def test_a_report_that_needs_more_memory_says_what_to_do(self):
        if is_sanitized():
            self.skipTest('sanitizer builds have no limit on the address space')
        target = self.target()
        target.do('train 1')
        capture = self.trace_five_steps(target)['id']
        target.do('rest')
        # The setting is not for seals.
        self.assertEqual(self.daemon.ctl('show', capture, '--json').json['error_reason'], '')
        result = self.daemon.ctl('export', capture, '-o', self.folder / 'trace.json')
        self.assertNotEqual(result.status, DONE)
        self.assertIn('the report needs more than 1 MiB of memory', result.err)
        self.assertIn(f'profctl fetch {capture}', result.err)
        self.assertEqual(self.daemon.ctl('node').status, DONE)


if __name__ == '__main__':
    main()
