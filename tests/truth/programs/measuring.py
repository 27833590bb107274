"""What the programs of this folder share: each measures its own cause with its own clock.

A program runs until it gets SIGTERM. It then writes what it measured to its --truth file and ends.
Nothing here knows of profd.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time


class Measurement:
    """The times at which a program did what the test injects.

    The file is one JSON object: {"causes": [[start_unix_ns, end_unix_ns, amount], ...]}. `amount`
    is the time that the cause cost in ns, or its bytes.
    """

    def __init__(self, path):
        self._path = path
        self._pid = os.getpid()
        self._causes = []
        signal.signal(signal.SIGTERM, self._end)

    @contextlib.contextmanager
    def cause(self):
        """What runs inside is the cause."""
        start_ns = time.time_ns()
        yield
        end_ns = time.time_ns()
        self._causes.append((start_ns, end_ns, end_ns - start_ns))

    def add(self, start_ns, amount):
        """A cause from `start_ns` until now that cost `amount`."""
        self._causes.append((start_ns, time.time_ns(), amount))

    def _end(self, *_):
        if os.getpid() == self._pid:  # Not a child that inherited the handler.
            with open(self._path + '.new', 'w') as out:
                json.dump({'causes': self._causes}, out)
            os.rename(self._path + '.new', self._path)
        os._exit(0)


def launch_ranks(count, meeting_point):
    """Starts this program once for each rank, with `--meeting-point`, and waits for all. SIGTERM ends
    them."""
    ranks = [subprocess.Popen([sys.executable, *sys.argv, '--meeting-point', meeting_point],
                              env={**os.environ, 'RANK': str(rank), 'LOCAL_RANK': str(rank),
                                   'WORLD_SIZE': str(count)})
             for rank in range(count)]
    signal.signal(signal.SIGTERM, lambda *_: [rank.terminate() for rank in ranks])
    for rank in ranks:
        rank.wait()


def spin(ms):
    """Computes in Python for that long."""
    end = time.perf_counter() + ms / 1000
    while time.perf_counter() < end:
        pass


def sleep(ms):
    time.sleep(ms / 1000)
