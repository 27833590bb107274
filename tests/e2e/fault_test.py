"""What breaks: targets and daemons that die or hang in every state, full memory, full disk,
hostile peers. After each the target lives, the daemon serves the next capture, and nothing
stored earlier is lost."""

import errno
import os
import signal
import socket
import struct
import subprocess

import harness
from harness import DONE, FAILED, PARTIAL, until

# How to bring a capture of a target that has marked one step into each state.
STATES = {
    'WAITING_STEP': [],
    'WARMUP': ['step'],
    'RECORDING': ['step', 'step', 'range before 3'],
}


class TargetFaultTest(harness.EndToEndTest):

    def test_a_target_killed_in_each_state(self):
        for state, commands in STATES.items():
            with self.subTest(state=state):
                target = self.target()
                target.do('step')
                tracing = self.trace('--pid', target.pid, '--steps', '3')
                self.await_state('WAITING_STEP')
                target.do(*commands)
                self.await_state(state)
                target.kill()
                result = tracing.result()
                capture = result.json
                self.assertEqual(capture['ended_by'], 'target_exit')
                if state == 'RECORDING':
                    self.assertEqual(result.status, PARTIAL, result.err)
                    self.assertEqual(capture['state'], 'PARTIAL')
                    self.assertEqual(self.ops(capture['id'])['before']['calls'], 3)
                else:
                    self.assertEqual(result.status, FAILED, result.err)
                    self.assertIn('ended', result.err + capture['error_message'])
        self.assert_still_serves(self.target())

    def test_a_range_open_at_the_kill_is_not_lost(self):
        target = self.target()
        target.do('step')
        tracing = self.trace('--pid', target.pid, '--steps', '3', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'open fatal', 'range inside 2')
        self.await_state('RECORDING')
        target.kill()
        capture = tracing.result().json
        ops = self.ops(capture['id'])
        self.assertEqual(ops['fatal']['calls'], 1)
        self.assertEqual(ops['inside']['calls'], 2)
        self.assertEqual(capture['open_range_count'], 1)

    def state_in_list(self, target):
        return next(t['state'] for t in self.daemon.ctl('ps', '--json').json['targets']
                    if t['pid'] == target.pid)

    def test_a_stopped_target_fails_to_arm_in_bounded_time(self):
        self.daemon.stop()
        # Of the capture afterwards, too: time enough for a target that runs.
        self.daemon.flags = ('--arm-timeout', '5s')
        self.daemon.start()
        target = self.target()
        target.do('step')
        target.process.send_signal(signal.SIGSTOP)
        until(lambda: self.state_in_list(target) == 'STOPPED', 'ps says that it is stopped')
        result = self.trace('--pid', target.pid, '--steps', '3').result()
        self.assertEqual(result.status, FAILED)
        self.assertEqual(result.json['ended_by'], 'arm_timeout')
        target.process.send_signal(signal.SIGCONT)
        self.assert_still_serves(target)

    def test_a_target_stopped_while_recording_ends_at_the_deadline(self):
        target = self.target()
        target.do('step')
        # Time enough to get there; then the test waits for it.
        tracing = self.trace('--pid', target.pid, '--steps', '3', '--warmup', '0',
                             '--timeout', '10s')
        self.await_state('WAITING_STEP')
        target.do('step', 'range kept 4')
        self.await_state('RECORDING')
        target.process.send_signal(signal.SIGSTOP)
        result = tracing.result()
        self.assertEqual(result.json['state'], 'PARTIAL')
        self.assertEqual(result.json['ended_by'], 'deadline')
        self.assertEqual(self.ops(result.json['id'])['kept']['calls'], 4)
        target.process.send_signal(signal.SIGCONT)
        self.assert_still_serves(target)

    def test_a_step_that_never_comes_ends_at_the_deadline(self):
        target = self.target()
        target.do('step')
        result = self.trace('--pid', target.pid, '--steps', '3', '--timeout', '300ms').result()
        self.assertEqual(result.status, FAILED)
        self.assertEqual(result.json['ended_by'], 'deadline')
        self.assertIn('--timeout', result.json['error_message'])
        self.assert_still_serves(target)

    def test_threads_that_come_and_go_by_the_thousand(self):
        target = self.target()
        target.do('step')
        # A chunk for each, so that none is dropped where the daemon has no time to empty them.
        tracing = self.trace('--pid', target.pid, '--steps', '1', '--warmup', '0',
                             '--buffer', '300MiB')
        self.await_state('WAITING_STEP')
        target.do('step', 'threads 4000 5', 'step')
        capture = tracing.result().json
        kept = self.ops(capture['id'])['in thread']['calls']
        self.assertEqual(kept + capture['dropped_event_count'], 20000)
        self.assertEqual(capture['dropped_event_count'], 0)
        self.assert_still_serves(target)

    def test_full_capture_memory_drops_and_counts_exactly(self):
        target = self.target()
        target.do('step')
        # One MiB holds some 20,000 ranges; the daemon is stopped, so nobody empties it.
        tracing = self.trace('--pid', target.pid, '--steps', '1', '--warmup', '0',
                             '--buffer', '1MiB')
        self.await_state('WAITING_STEP')
        self.daemon.process.send_signal(signal.SIGSTOP)
        target.do('step', 'range flood 100000', 'step')
        self.daemon.process.send_signal(signal.SIGCONT)
        result = tracing.result()
        capture = result.json
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(capture['state'], 'COMPLETE')
        kept = self.ops(capture['id'])['flood']['calls']
        self.assertGreater(capture['dropped_event_count'], 0)
        # The mark that closes the window found no room either.
        self.assertIn(kept + capture['dropped_event_count'], (100000, 100001))
        self.assertNotEqual(capture['quality'], 'A')
        self.assertIn('no_chunk', str(capture['dropped_by_reason']))
        self.assert_still_serves(target)

    def test_two_copies_of_the_library_are_one_target(self):
        if harness.is_sanitized():
            self.skipTest('a sanitizer must be the first library of a process')
        copy = self.folder / 'copy.so'
        copy.write_bytes(harness.LIBRARY.read_bytes())
        target = self.target(env={'LD_PRELOAD': str(copy)})
        pids = [t['pid'] for t in self.daemon.ctl('ps', '--json').json['targets']]
        self.assertEqual(pids, [target.pid])
        self.assert_still_serves(target)

    def test_a_forked_child_is_silent_until_it_marks(self):
        target = self.target()
        target.do('step')

        def listed():
            return {t['pid']: t for t in self.daemon.ctl('ps', '--json').json['targets']}
        silent, = target.do('fork-silent')
        marking, = target.do('fork')
        until(lambda: int(marking) in listed(), 'the child that marks is listed')
        self.assertNotIn(int(silent), listed())
        self.assertEqual(listed()[int(marking)]['parent_pid'], target.pid)
        result = self.trace('--pid', marking, '--steps', '2').result()
        self.assertEqual(result.status, DONE, result.err)
        self.assert_still_serves(target)

    def test_a_fork_while_recording_leaves_the_parents_capture_alone(self):
        target = self.target()
        target.do('step')
        tracing = self.trace('--pid', target.pid, '--steps', '2', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'range a 5', 'fork', 'fork-silent', 'range a 5', 'step', 'step')
        capture = tracing.result().json
        self.assertEqual(capture['state'], 'COMPLETE')
        self.assertEqual(self.ops(capture['id'])['a']['calls'], 10)
        self.assert_still_serves(target)

    def test_exec_while_recording_ends_the_capture_and_frees_the_pid(self):
        target = self.target()
        target.do('step')
        tracing = self.trace('--pid', target.pid, '--steps', '2', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'range a 5')
        self.await_state('RECORDING')
        target.do(f'exec {harness.TARGET}')
        result = tracing.result()
        self.assertEqual(result.json['state'], 'PARTIAL')
        self.assertEqual(result.json['ended_by'], 'target_lost')
        target.connect()
        self.assert_still_serves(target)

    def test_disabled_does_nothing(self):
        target = harness.Target(self.daemon, env={'PROFD_DISABLE': '1'})
        self.addCleanup(target.end)
        target.do('init', 'step 5', 'range x 5')
        self.assertEqual(target.status()['connected'], 0)
        self.assertEqual(self.daemon.ctl('ps', '--json').json['targets'], [])


class DaemonFaultTest(harness.EndToEndTest):

    def test_a_daemon_killed_in_each_state_and_restarted(self):
        kept = self.target()
        kept.do('train 1')
        earlier = self.trace_five_steps(kept)
        kept.do('rest')
        for state, commands in STATES.items():
            with self.subTest(state=state):
                target = self.target()
                target.do('step')
                tracing = self.trace('--pid', target.pid, '--steps', '3')
                self.await_state('WAITING_STEP')
                target.do(*commands)
                self.await_state(state)
                interrupted = [c['id'] for c in self.captures() if c['id'] != earlier['id']][0]
                self.daemon.kill()
                self.assertNotEqual(tracing.result().status, DONE)
                target.do('range lonely 10', 'step 3')
                self.daemon.start()
                ended = self.show(interrupted)
                self.assertIn(ended['state'], ('PARTIAL', 'FAILED'))
                self.assertEqual(ended['ended_by'], 'daemon_stop')
                self.assert_still_serves(target)
                target.end()
        self.assertEqual(self.show(earlier['id'])['file_sha256'], earlier['file_sha256'])
        self.assertEqual(self.ops(earlier['id'])['work']['calls'], 50)

    def test_a_stopped_daemon_blocks_nobody(self):
        target = self.target()
        target.do('step')
        tracing = self.trace('--pid', target.pid, '--steps', '2', '--warmup', '0')
        self.await_state('WAITING_STEP')
        self.daemon.process.send_signal(signal.SIGSTOP)
        # Every one of these is answered although nobody reads the socket.
        target.do('step', 'range a 100', 'step', 'range a 100', 'step', 'threads 50 5')
        self.daemon.process.send_signal(signal.SIGCONT)
        capture = tracing.result().json
        self.assertEqual(capture['state'], 'COMPLETE')
        self.assertEqual(self.ops(capture['id'])['a']['calls'], 200)
        self.assert_still_serves(target)

    def test_sigterm_ends_cleanly_and_keeps_what_was_recorded(self):
        target = self.target()
        target.do('step')
        tracing = self.trace('--pid', target.pid, '--steps', '3', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('step', 'range kept 4', 'step')
        self.await_state('RECORDING')
        self.assertEqual(self.daemon.terminate(), 0, self.daemon.log())
        tracing.result()
        self.assertFalse((self.daemon.socket_dir / 'control.sock').exists())
        self.daemon.start()
        capture, = self.captures()
        self.assertEqual(capture['state'], 'PARTIAL')
        self.assertEqual(capture['ended_by'], 'daemon_stop')
        self.assertEqual(self.ops(capture['id'])['kept']['calls'], 4)
        self.assert_still_serves(target)

    def test_a_second_daemon_on_the_same_folders_is_refused(self):
        second = subprocess.run([harness.PROFD, '--data-dir', self.daemon.data_dir,
                                 '--socket-dir', self.folder / 'other'],
                                capture_output=True, timeout=60)
        self.assertEqual(second.returncode, 1)
        self.assertIn(b'data', second.stderr)
        third = subprocess.run([harness.PROFD, '--data-dir', self.folder / 'data2',
                                '--socket-dir', self.daemon.socket_dir],
                               capture_output=True, timeout=60)
        self.assertEqual(third.returncode, 1)
        self.assert_still_serves(self.target())

    def test_sighup_reads_the_settings_again(self):
        self.daemon.stop()
        config = self.folder / 'profd.conf'
        config.write_text('max-storage = 1GiB\n')
        self.daemon.flags = ('--config', str(config))
        self.daemon.start()

        def cap():
            return self.daemon.ctl('node', '--json').json['storage']['max_bytes']
        self.assertEqual(cap(), 1 << 30)
        config.write_text('max-storage = 2GiB\nmax-targets = 7\n')
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: cap() == 2 << 30, 'the new cap')
        until(lambda: 'max-targets has changed' in self.daemon.log(), 'what needs a restart')
        config.write_text('max-storage = lots\n')
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: 'lots' in self.daemon.log(), 'the complaint')
        self.assertEqual(cap(), 2 << 30)

    def test_wrong_arguments_are_usage_errors(self):
        for arguments in (['--nope'], ['--data-dir', 'relative'], ['--max-storage', 'x']):
            done = subprocess.run([harness.PROFD, *arguments], capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(subprocess.run([harness.PROFD, '--help'], capture_output=True,
                                        timeout=60).returncode, 0)

    def test_check_config_says_what_would_keep_profd_from_starting(self):
        config = self.folder / 'other.conf'
        policy = self.folder / 'policy'
        policy.touch(0o600)

        def check(text, rules='# nothing'):
            config.write_text(text)
            policy.write_text(rules)
            return subprocess.run(
                [harness.PROFD, '--check-config', '--config', config, *map(str, self.folders())],
                capture_output=True, text=True, timeout=60)
        right = check(f'max-storage = 1GiB\npolicy-file = {policy}\n')
        self.assertEqual(right.returncode, 0, right.stderr)
        self.assertEqual(right.stdout, 'profd: right: settings, policy\n')
        for text, rules, words in (('max-storage = lots\n', '', 'max-storage'),
                                   (f'policy-file = {policy}\n', 'permit everybody', 'permit'),
                                   ('listen = 127.0.0.1:0\n', '', 'tls-cert')):
            wrong = check(text, rules)
            self.assertEqual(wrong.returncode, 2, words)
            self.assertIn(words, wrong.stderr)
            self.assertEqual(wrong.stdout, '')
        # The daemon that runs, on the same folders, noticed nothing.
        self.assertEqual(self.daemon.ctl('node').status, DONE)

    def folders(self):
        return '--data-dir', self.daemon.data_dir, '--socket-dir', self.daemon.socket_dir


class HostilePeerTest(harness.EndToEndTest):

    def connect_raw(self):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.connect(str(self.daemon.socket_dir / 'agent/agent.sock'))
        peer.settimeout(harness.PATIENCE_S)
        self.addCleanup(peer.close)
        return peer

    @staticmethod
    def frame(kind, body, length=None, magic=0x46444650):
        size = 16 + len(body) if length is None else length
        return struct.pack('<IHHII', magic, kind, 0, size, 1) + body

    @staticmethod
    def hello(low=1, high=1):
        return struct.pack('<HHIIIQQ', low, high, 1, os.getpid(), 0, 0, 0)

    def test_a_thousand_connects_without_a_hello(self):
        target = self.target()
        peers = []
        refused = 0
        for _ in range(1000):
            try:
                peers.append(self.connect_raw())
            except OSError:
                refused += 1
        self.assert_still_serves(target)
        for peer in peers:
            peer.close()

    def test_frames_that_lie(self):
        target = self.target()
        frames = [b'', b'x', os.urandom(4096), self.frame(1, self.hello(), length=8),
                  self.frame(1, self.hello(), length=1 << 31), self.frame(1, b'short'),
                  self.frame(1, self.hello(), magic=0), self.frame(9, b'\xff' * 64),
                  self.frame(1, self.hello() + struct.pack('<HH', 2, 60000) + b'x')]
        for bytes_ in frames:
            peer = self.connect_raw()
            try:
                peer.send(bytes_ or b'\0')
                peer.recv(4096)
            except OSError:
                pass
        self.assert_still_serves(target)

    def test_disjoint_version_ranges_are_refused_naming_both(self):
        peer = self.connect_raw()
        peer.send(self.frame(1, self.hello(low=900, high=901)))
        answer = peer.recv(16384)
        kind, = struct.unpack_from('<H', answer, 4)
        self.assertEqual(kind, 3, 'REFUSE')
        reason, low, high = struct.unpack_from('<IHH', answer, 16)
        self.assertEqual((reason, low, high), (1, 1, 1))
        self.assertIn(b'900', answer)
        self.assert_still_serves(self.target())


class FullDiskTest(harness.EndToEndTest):

    flags = ('--min-free-percent', '0')
    disk_bytes = 24 << 20

    def test_a_disk_that_fills_while_storing_ends_the_capture_partial(self):
        target = self.target()
        target.do('train 1')
        earlier = self.trace_five_steps(target)
        target.do('rest', 'step')
        filler = self.disk / 'filler'
        tracing = self.trace('--pid', target.pid, '--steps', '40', '--warmup', '0')
        self.await_state('WAITING_STEP')
        target.do('busy 1 50000')
        with open(filler, 'wb', buffering=0) as file:
            try:
                while file.write(b'x' * 4096) > 0:
                    pass
            except OSError as error:
                self.assertEqual(error.errno, errno.ENOSPC)
        target.do('busy 40 50000')
        result = tracing.result()
        capture = result.json
        self.assertIn(capture['state'], ('PARTIAL', 'FAILED'))
        self.assertEqual(capture['ended_by'], 'disk_full')
        filler.unlink()
        self.assertEqual(self.ops(earlier['id'])['work']['calls'], 50)
        self.assert_still_serves(target)

    def test_a_full_disk_refuses_with_advice(self):
        target = self.target()
        target.do('train 1')
        self.daemon.stop()
        (self.disk / 'filler').write_bytes(b'x' * (4 << 20))
        self.daemon.flags = ('--min-free-percent', '90')
        self.daemon.start()
        target.do('await-connected')
        result = self.trace('--pid', target.pid, '--steps', '1').result()
        self.assertNotEqual(result.status, DONE)
        self.assertTrue(result.err)


if __name__ == '__main__':
    harness.main()
