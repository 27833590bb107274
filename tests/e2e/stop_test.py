"""profd stops at once and cleanly, whatever it is doing: watchers, killed clients, captures.

PROFD_LONG_STOPS=N makes N stops; by default there are a few.
"""

import os
import random
import signal
import subprocess
import time

import harness

STOPS = int(os.environ.get('PROFD_LONG_STOPS', '12'))
# A sanitizer looks for leaks at the end of the process, beside whatever else runs.
LONGEST_S = 10 if harness.is_sanitized() else 3


class StopTest(harness.EndToEndTest):

    def watch(self):
        """A client of a stream that goes on until it is killed."""
        return subprocess.Popen(
            [harness.PROFCTL, 'top', '--json'], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=harness.environment(self.daemon.socket_dir))

    def stop_while_busy(self, number, dice):
        target = self.target()
        target.do('train 5')
        clients = [self.watch() for _ in range(dice.randint(1, 3))]
        tracing = self.trace('--pid', target.pid, '--duration', '30s') if dice.random() < 0.5 else None
        # Any moment of theirs: starting, connected, or long since served.
        time.sleep(dice.uniform(0, 0.8))
        for client in clients[:dice.randint(0, len(clients))]:
            client.send_signal(signal.SIGKILL)
        began = time.monotonic()
        status = self.daemon.terminate()
        took = time.monotonic() - began
        self.assertEqual(status, 0, f'stop {number}:\n{self.daemon.log()[-4000:]}')
        self.assertLess(took, LONGEST_S, f'stop {number}:\n{self.daemon.log()[-4000:]}')
        for client in clients:
            client.kill()
            client.wait()
        if tracing is not None:
            tracing.process.kill()
            tracing.process.communicate()
        self.assertIsNone(target.process.poll(), 'the target ended with its daemon')
        target.process.kill()
        target.process.wait()

    def test_every_stop_is_clean_and_quick(self):
        dice = random.Random(1)
        for number in range(STOPS):
            if number > 0:
                self.daemon.start()
            self.stop_while_busy(number, dice)
        # The captures that the stops ended are kept, or say why not.
        self.daemon.start()
        for capture in self.daemon.ctl('captures', '--json').json['captures']:
            self.assertIn(capture['state'], ('COMPLETE', 'PARTIAL', 'FAILED', 'CANCELLED'))


if __name__ == '__main__':
    harness.main()
