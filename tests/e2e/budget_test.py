"""Captures whose size their target chooses, and a daemon that may use 512 MiB.

PROFD_FLOOD_EVENTS sets how many memory events the target records, PROFD_FLOOD_S for how long, and
PROFD_FLOOD_REPORTS which reports are asked for. The long form takes minutes; tests/bench/README.md
has its command and its figures. Where no memory cgroup can be made, the daemon's own peak is
held against the limit.
"""
import os
import pathlib
import re
import threading
import unittest

import harness
from harness import DONE

EVENTS = int(os.environ.get('PROFD_FLOOD_EVENTS', 1_000_000))
SECONDS = os.environ.get('PROFD_FLOOD_S', '1')
CAPTURE_MEMORY = 64 << 20
# The others take minutes with many events.
COMMANDS = os.environ.get('PROFD_FLOOD_REPORTS', 'show,ops,time' + (
    ',memory,report' if EVENTS > 1_000_000 else '')).split(',')


class PeakOfDaemon:
    """The most private memory that a daemon had, sampled until stop(). Memory shared with targets
    and mapped files are not in it."""

    INTERVAL_S = 0.02

    def __init__(self, pid):
        self.status = pathlib.Path(f'/proc/{pid}/status')
        self.bytes = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.done.wait(self.INTERVAL_S):
            try:
                found = re.search(r'RssAnon:\s+(\d+) kB', self.status.read_text())
            except OSError:
                return
            if found:  # Not of a process that has ended.
                self.bytes = max(self.bytes, int(found.group(1)) << 10)

    def stop(self):
        self.done.set()
        self.thread.join()


class MemoryFloodTest(harness.EndToEndTest):

    memory_max_bytes = 512 << 20

    def setUp(self):
        super().setUp()
        self.peak = PeakOfDaemon(self.daemon.process.pid)
        self.addCleanup(self.peak.stop)

    def _use_little_memory(self, max_bytes):
        try:
            super()._use_little_memory(max_bytes)
        except unittest.SkipTest as reason:
            if harness.is_sanitized():
                raise
            print('without a memory cgroup:', reason)
            self.memory = None

    def flood(self):
        target = self.target()
        # It has both commands before the window opens, and goes from one to the other by itself.
        for command in ('await-recording', f'flood {EVENTS}'):
            target.send(command)
        tracing = self.trace('--pid', target.pid, '--duration', f'{SECONDS}s',
                             '--buffer', f'{CAPTURE_MEMORY >> 20}MiB')
        target.answer()
        target.answer()
        return target, tracing

    def assert_within_budget(self):
        if self.memory is not None:
            self.assertEqual(self.memory.oom_kill_count(), 0)
        self.assertLess(self.peak.bytes, self.memory_max_bytes)
        self.assertIsNone(self.daemon.process.poll(), 'the daemon ended')

    def test_a_flood_of_allocations_is_stored_and_reported(self):
        target, tracing = self.flood()
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-2000:])
        capture = result.json
        print(f"events stored: {capture['event_count']:,}, dropped: "
              f"{capture['dropped_event_count']:,}; file: {capture['file_bytes'] >> 20} MiB; private "
              f"memory of profd at most {self.peak.bytes >> 20} MiB besides the capture memory of "
              f'{CAPTURE_MEMORY >> 20} MiB', flush=True)
        self.assertGreater(capture['event_count'], 0)
        self.assertGreater(self.peak.bytes, 0)
        self.assert_within_budget()
        for command in COMMANDS:
            with self.subTest(command=command):
                report = self.daemon.ctl(command, capture['id'], '--json')
                if report.status != DONE:
                    self.assertIn('the budget is', report.err)
                self.assert_within_budget()
        self.assert_still_serves(target)

    def test_a_daemon_killed_while_it_stores_recovers_and_answers_meanwhile(self):
        target, tracing = self.flood()
        self.await_state('STORING', None)
        interrupted = self.captures()[0]['id']
        self.daemon.kill()
        tracing.result()
        self.daemon.start()
        self.assertIn(self.show(interrupted)['state'], ('PARTIAL', 'COMPLETE', 'FAILED'))
        self.assert_still_serves(target)

        def recovered():
            report = self.daemon.ctl('steps', interrupted, '--json')
            return 'is being recovered' not in report.err
        harness.until(recovered, 'the capture is recovered')
        self.assert_within_budget()


if __name__ == '__main__':
    harness.main()
