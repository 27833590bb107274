"""Captures whose size their target chooses, and a daemon that may use 512 MiB.

PROFD_FLOOD_EVENTS sets how many memory events the target records, PROFD_FLOOD_S for how long. The
long form, PROFD_FLOOD_EVENTS=200000000 PROFD_FLOOD_S=30, takes minutes.
"""
import os

import harness
from harness import DONE

EVENTS = int(os.environ.get('PROFD_FLOOD_EVENTS', 1_000_000))
SECONDS = os.environ.get('PROFD_FLOOD_S', '1')
CAPTURE_MEMORY = 64 << 20
# The others take a minute on a busy machine: they are in the long form.
COMMANDS = ('show', 'ops', 'time') + (('memory', 'report') if EVENTS > 1_000_000 else ())


class MemoryFloodTest(harness.EndToEndTest):

    memory_max_bytes = 512 << 20

    def flood(self):
        target = self.target()
        tracing = self.trace('--pid', target.pid, '--duration', f'{SECONDS}s',
                             '--buffer', f'{CAPTURE_MEMORY >> 20}MiB')
        target.do('await-recording', f'flood {EVENTS}')
        return target, tracing

    def assert_within_budget(self):
        self.assertEqual(self.memory.oom_kill_count(), 0)
        self.assertIsNone(self.daemon.process.poll(), 'the daemon ended')

    def test_a_flood_of_allocations_is_stored_and_reported(self):
        target, tracing = self.flood()
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-2000:])
        capture = result.json
        print('events stored:', capture['event_count'], 'dropped:',
              capture['dropped_event_count'], 'peak bytes:', self.memory.peak_bytes())
        self.assertGreater(capture['event_count'], 0)
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
