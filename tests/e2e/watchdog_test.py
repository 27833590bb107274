"""systemd hears WATCHDOG=1 while every thread that profd needs makes progress, and only then.

A thread is made to hang by stopping that one thread, as a debugger does."""

import contextlib
import ctypes
import os
import pathlib
import select
import signal
import socket
import time
import unittest
import urllib.error
import urllib.request

import harness
from harness import DONE, PATIENCE_S, until

PERIOD_S = 2  # WatchdogSec=. Threads may take 0.7 s, those that write to the disk 6 s.
NO_DISK = ('profd-accept', 'profd-grpc', 'profd-http', 'profd-ingest')
DISK = ('profd-capture', 'profd-report', 'profd-rpc', 'profd-schedule', 'profd-seal',
        'profd-store')

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WAIT_FOR_ALL = 0x40000000  # __WALL


def ptrace(request, thread):
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    call.restype = ctypes.c_long
    if call(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def threads_of(pid):
    """[(name, thread id)]"""
    return [((task / 'comm').read_text().strip(), int(task.name))
            for task in pathlib.Path(f'/proc/{pid}/task').iterdir()]


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class SupervisedTest(harness.EndToEndTest):
    """A daemon whose service manager is the test."""

    def setUp(self):
        self.port = free_port()
        self.flags = ('--metrics-listen', f'127.0.0.1:{self.port}')
        # An abstract name: the test's folder does not exist yet.
        name = f'profd-test-{os.getpid()}-{time.monotonic_ns()}'
        self.supervisor = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.supervisor.close)
        self.supervisor.bind('\0' + name)
        self.supervisor.settimeout(PATIENCE_S)
        self.daemon_env = {'NOTIFY_SOCKET': '@' + name, 'WATCHDOG_USEC': str(PERIOD_S * 1_000_000)}
        self.before_start()
        super().setUp()

    def before_start(self):
        pass

    def await_message(self, wanted):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.supervisor.recv(4096).decode() == wanted:
                return
        self.fail(f'systemd was never told {wanted}')

    def messages(self):
        """Those that have come."""
        found = []
        while select.select([self.supervisor], [], [], 0)[0]:
            found.append(self.supervisor.recv(4096).decode())
        return found


class UnreadSupervisorTest(SupervisedTest):
    """The service manager hangs: it reads nothing."""

    def before_start(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.setblocking(False)
            with self.assertRaises(BlockingIOError):
                while True:
                    other.sendto(b'FILLER=1', self.supervisor.getsockname())

    def test_the_main_thread_does_not_wait_for_it(self):
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: 'settings read again' in self.daemon.log(), 'the main thread')
        self.assertNotIn('READY=1', self.messages())
        # Now it reads again, and hears what it missed, in order.
        self.await_message('READY=1')
        self.await_message('RELOADING=1')
        self.await_message('READY=1')
        self.await_message('WATCHDOG=1')


class WatchdogTest(SupervisedTest):

    def page(self, path):
        """(status, text)"""
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{self.port}{path}', timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def age_of(self, name):
        start = f'profd_thread_unfed_seconds{{thread="{name}"}} '
        [age] = [line[len(start):] for line in self.page('/metrics')[1].splitlines()
                 if line.startswith(start)]
        return float(age)

    @contextlib.contextmanager
    def stopped(self, *names):
        """All threads of these names."""
        chosen = [thread for name, thread in threads_of(self.daemon.process.pid) if name in names]
        self.assertGreaterEqual(len(chosen), len(names), names)
        traced = []
        try:
            for thread in chosen:
                try:
                    ptrace(PTRACE_SEIZE, thread)
                except PermissionError:
                    self.skipTest('this machine does not let a process trace its children')
                traced.append(thread)
                ptrace(PTRACE_INTERRUPT, thread)
                os.waitpid(thread, WAIT_FOR_ALL)
            yield
        finally:
            for thread in traced:
                ptrace(PTRACE_DETACH, thread)

    def assert_noticed(self, *names):
        """That systemd hears nothing while these threads hang."""
        logged = len(self.daemon.log())
        with self.stopped(*names):
            # The thread that logs it is the one that told systemd before. It waits for a reader.
            def is_logged():
                self.messages()
                return 'has made no progress for' in self.daemon.log()[logged:]
            until(is_logged, 'a log line')
            self.messages()
            def all_named():
                status, text = self.page('/healthz')
                return status == 503 and all(f'thread {name} has made no' in text for name in names)
            until(all_named, f'/healthz names {names}')
            age = self.age_of(names[0])
            until(lambda: self.age_of(names[0]) > age + 2 * PERIOD_S / 4, 'two more checks')
            self.assertNotIn('WATCHDOG=1', self.messages())
        self.await_message('WATCHDOG=1')
        until(lambda: self.page('/healthz') == (200, 'ok\n'), '/healthz is well again')
        self.assertEqual(self.daemon.ctl('ps').status, DONE)

    def test_systemd_hears_of_the_start_and_then_that_all_is_well(self):
        self.await_message('READY=1')
        for _ in range(3):
            self.await_message('WATCHDOG=1')
        self.daemon.process.send_signal(signal.SIGHUP)
        self.await_message('RELOADING=1')
        self.await_message('READY=1')
        self.await_message('WATCHDOG=1')

    def test_a_busy_daemon_is_well(self):
        target = self.target()
        target.do('train 1')
        self.trace_five_steps(target)
        target.do('rest')
        # Nothing that the capture needed is taken for a thread that hangs.
        self.messages()
        for _ in range(2):
            self.await_message('WATCHDOG=1')
        self.assertNotIn('"profd-decode"', self.page('/metrics')[1])

    def test_every_thread_that_it_needs_is_watched(self):
        self.await_message('WATCHDOG=1')
        text = self.page('/metrics')[1]
        for name in (*NO_DISK, *DISK):
            self.assertIn(f'profd_thread_unfed_seconds{{thread="{name}"}} ', text)

    def test_a_thread_that_waits_for_no_disk_and_hangs_is_noticed_at_once(self):
        self.await_message('WATCHDOG=1')
        for name in NO_DISK:
            with self.subTest(thread=name):
                self.assert_noticed(name)
                self.assertIn(f'thread {name} has made no progress for', self.daemon.log())

    def test_a_thread_that_writes_to_the_disk_and_hangs_is_noticed_later(self):
        self.await_message('WATCHDOG=1')
        self.assert_noticed(*DISK)


if __name__ == '__main__':
    harness.main()
