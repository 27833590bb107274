"""Who can exhaust what of a node's profd, and what happens then.

Each test is of one resource: an unprivileged user takes as much as it gets of it, and root or another
user must still be served. The table is in daemon/access/SECURITY.md; `exhaustion_test.py --table` runs
the tests of all its rows and prints how each went (exhaustion_table.py).

How do I add a resource?  A method with @daemon(flags): the attack, then what others must still get; and a
row of the table that names it. Keep it to seconds, and wait for events (`self.await_used`).
"""

import subprocess
import sys

import exhaustion_table
import harness
import import_test

OTHER = 65533  # A second ordinary user.


def daemon(*flags):
    """Sets the flags of a test's daemon."""
    def mark(method):
        method.flags = flags
        return method
    return mark


# Registers processes as targets. Reads "hello COUNT" (answers "registered A refused B") and
# "end COUNT" (ends that many of the registered).
_TARGETS = '''
import os, signal, socket, struct, sys
children = []
life_end, life = os.pipe()  # Children end with this process, however it ends.
def hello(out):
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(os.environ["PROFD_SOCKET_DIR"] + "/agent/agent.sock")
    body = struct.pack("<HHIIIQQ", 1, 1, 1, os.getpid(), 0, 0, 0)
    peer.send(struct.pack("<IHHII", 0x46444650, 1, 0, 16 + len(body), 1) + body)
    kind, = struct.unpack_from("<H", peer.recv(65536), 4)
    os.write(out, b"W" if kind == 2 else b"R")
    if kind == 2:
        os.close(life)
        os.read(life_end, 1)
    os._exit(0)
for line in sys.stdin:
    what, count = line.split()
    if what == "end":
        for pid in [children.pop() for _ in range(int(count))]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        continue
    registered = 0
    for _ in range(int(count)):
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            hello(write_end)
        os.close(write_end)
        if os.read(read_end, 1) == b"W":
            registered += 1
            children.append(pid)
        else:
            os.waitpid(pid, 0)
        os.close(read_end)
    print("registered", registered, "refused", int(count) - registered, flush=True)
for pid in children:
    os.kill(pid, signal.SIGKILL)
'''


class ExhaustionTest(harness.EndToEndTest):

    def setUp(self):
        self.flags = getattr(getattr(self, self._testMethodName), 'flags', ())
        super().setUp()
        self.need_uid(harness.NOBODY)

    # ---- what tests use ----

    def quota(self, name, as_uid=None):
        result = self.daemon.ctl('node', '--quotas', '--json', as_uid=as_uid)
        self.assertEqual(result.status, harness.DONE, result.err)
        return next(quota for quota in result.json['quotas'] if quota['name'] == name)

    def used(self, name, principal):
        return sum(holding['used'] for holding in self.quota(name)['holdings']
                   if holding['principal'] == principal)

    def await_used(self, name, principal, amount):
        harness.until(lambda: self.used(name, principal) == amount,
                      f'{principal} uses {amount} of {name}; {self.quota(name)}')

    def greedy(self, *arguments):
        """A greedy_caller of NOBODY that has begun."""
        process = subprocess.Popen(
            [harness.BUILD_DIR / 'tests/bin/greedy_caller', *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=harness.environment(self.daemon.socket_dir), **harness.as_user(harness.NOBODY))

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        self.assertEqual(process.stdout.readline(), b'begun\n')
        return process

    def targets_of(self, uid):
        process = self.python(_TARGETS, as_uid=uid, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def ask(command):
            process.stdin.write(command.encode() + b'\n')
            process.stdin.flush()
            return process.stdout.readline().split() if command.startswith('hello') else None
        return ask

    # ---- tests ----

    @daemon('--max-targets', '16')
    def test_targets(self):
        """A user registers processes. Root registers its own; when a second user asks, the first gets no
        more."""
        greedy, other = self.targets_of(harness.NOBODY), self.targets_of(OTHER)
        self.assertEqual(greedy('hello 16'), [b'registered', b'11', b'refused', b'5'])  # Floor: 3.
        self.target()  # Root's.
        harness.until(lambda: f'uid:{harness.NOBODY}' in self.daemon.log(),
                      'the refusal names its quota')
        self.assertEqual(other('hello 3'), [b'registered', b'2', b'refused', b'1'])
        greedy('end 4')
        self.await_used('targets', f'uid:{harness.NOBODY}', 7)
        self.assertEqual(greedy('hello 1'), [b'registered', b'0', b'refused', b'1'])
        self.assertEqual(other('hello 1'), [b'registered', b'1', b'refused', b'0'])

    @daemon('--max-capture-memory', '72MiB')
    def test_capture_memory(self):
        """A user has one long capture. Root's captures run; the user's next one is refused, naming quota and
        holder; another user's runs."""
        target, second = (self.target(as_uid=harness.NOBODY) for _ in range(2))
        self.trace('--pid', target.pid, '--duration', '1h', '--timeout', '2h', '--buffer', '32MiB',
                   as_uid=harness.NOBODY)
        self.await_used('capture-memory', f'uid:{harness.NOBODY}', 32 << 20)
        refused = self.daemon.ctl('trace', '--pid', second.pid, '--duration', '1s', '--buffer',
                                  '8MiB', as_uid=harness.NOBODY)
        self.assertEqual(refused.status, harness.REFUSED, refused.err)
        self.assertIn('capture memory', refused.err)
        self.assertIn(f'largest holder: uid:{harness.NOBODY} with 32 MiB', refused.err)
        self.assert_root_captures('--buffer', '16MiB')
        self.assert_captures('--buffer', '4MiB', as_uid=OTHER)

    @daemon('--max-live-captures', '2')
    def test_live_captures(self):
        """A user has many captures. Root's run."""
        target, second = (self.target(as_uid=harness.NOBODY) for _ in range(2))
        self.trace('--pid', target.pid, '--duration', '1h', '--timeout', '2h', '--buffer', '1MiB',
                   as_uid=harness.NOBODY)
        self.await_used('live-captures', f'uid:{harness.NOBODY}', 1)
        refused = self.daemon.ctl('trace', '--pid', second.pid, '--duration', '1s',
                                  as_uid=harness.NOBODY)
        self.assertEqual(refused.status, harness.REFUSED, refused.err)
        self.assertIn('live captures', refused.err)
        self.assert_root_captures()

    def assert_root_captures(self, *arguments):
        self.assert_captures(*arguments)

    def assert_captures(self, *arguments, as_uid=None):
        target = self.target(as_uid=as_uid)
        target.do('train 1')
        result = self.trace('--pid', target.pid, '--steps', '2', *arguments, as_uid=as_uid).result()
        self.assertEqual(result.status, harness.DONE, result.err)
        self.assertEqual(result.json['state'], 'COMPLETE')

    def test_waiting_calls(self):
        """A user has 300 calls in flight, again and again. All others are answered; of the user at most 32
        calls wait."""
        greedy = self.greedy('calls', 300, 6)
        for _ in range(3):
            for uid in (None, OTHER):
                answer = self.daemon.ctl('captures', '--json', as_uid=uid)
                self.assertEqual(answer.status, harness.DONE, answer.err)
        out, _ = greedy.communicate(timeout=harness.PATIENCE_S)
        self.assertIn(b'OK', out)

    def test_imports(self):
        """A user opens imports and sends nothing. Root imports; the places are free again when they are too
        slow."""
        imports = self.quota('imports')
        self.greedy('imports', imports['capacity'])
        self.await_used('imports', f'uid:{harness.NOBODY}',
                        imports['capacity'] - imports['reserve'])
        harness.until(lambda: self.quota('imports')['refused_count'] > 0, 'an import is refused')
        trace = import_test.write_trace(self.folder / 'trace.json')
        imported = self.daemon.ctl('import', trace)
        self.assertEqual(imported.status, harness.DONE, imported.err)

    def test_what_stays_is_charged(self):
        """Storage, schedules, and rows of the audit log are charged to their user: files and records, deleted
        schedules, and each row."""
        nobody = f'uid:{harness.NOBODY}'
        target = self.target(as_uid=harness.NOBODY)
        target.do('train 1')
        traced = self.trace('--pid', target.pid, '--steps', '2', as_uid=harness.NOBODY).result()
        self.assertEqual(traced.status, harness.DONE, traced.err)
        with_file = self.used('stored-bytes', nobody)
        self.assertGreater(with_file, 0)
        deleted = self.daemon.ctl('delete', traced.json['id'], as_uid=harness.NOBODY)
        self.assertEqual(deleted.status, harness.DONE, deleted.err)
        record_alone = self.used('stored-bytes', nobody)
        self.assertGreater(record_alone, 0)
        self.assertLess(record_alone, with_file)

        made = self.daemon.ctl('schedule', 'create', '--every', '1h', '--steps', '1', '--json',
                               as_uid=harness.NOBODY)
        self.assertEqual(made.status, harness.DONE, made.err)
        self.daemon.ctl('schedule', 'delete', made.json['id'], as_uid=harness.NOBODY)
        self.assertEqual(self.used('schedules', nobody), 1, 'deleted, and kept')
        self.assertGreater(self.used('audit-rows', nobody), 2)
        self.daemon.terminate()
        self.daemon.start()
        self.assertEqual(self.used('schedules', nobody), 1, 'counted again at the start')
        self.assertGreaterEqual(self.used('stored-bytes', nobody), record_alone)

    def test_quotas_of_others_stay_private(self):
        """A user that asks for quotas sees totals and its own use; root sees all."""
        self.targets_of(harness.NOBODY)('hello 2')
        self.targets_of(OTHER)('hello 1')

        def principals(uid):
            quota = self.quota('targets', as_uid=uid)
            self.assertEqual(quota['used'], 3)
            return [holding['principal'] for holding in quota['holdings']]
        nobody, other = f'uid:{harness.NOBODY}', f'uid:{OTHER}'
        self.assertEqual(principals(None), [nobody, other])
        self.assertEqual(principals(OTHER), [other])
        text = self.daemon.ctl('node', '--quotas', as_uid=OTHER)
        self.assertEqual(text.status, harness.DONE, text.err)
        self.assertNotIn(nobody, text.out)
        self.assertIn('capture-memory', text.out)


if __name__ == '__main__':
    if sys.argv[1:] == ['--table']:
        sys.exit(0 if exhaustion_table.walk() else 1)
    harness.main()
