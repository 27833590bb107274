"""Callers on other machines: mutual TLS, contexts, forwarded sockets. On loopback, with real
certificates from deploy/pki.

Who is refused is refused before a byte of a request is read, is told why, and changes nothing:
the daemon goes on serving whom it knows.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import stat
import subprocess
import tempfile
import threading
import unittest
import warnings

import harness
from harness import DONE, FAILED, NO_DAEMON, REFUSED, USAGE
from import_test import write_rank, write_trace

MAKE_PKI = harness.SOURCE_DIR / 'deploy/pki/make_test_pki.sh'
# A process of its own for each call: fewer where all of that is instrumented.
LOAD_CALLERS = 2 if harness.is_sanitized() else 4


def make_pki(folder, *arguments):
    subprocess.run([MAKE_PKI, folder, *arguments], check=True, stdout=subprocess.DEVNULL)


def policy_flags(folder, *rules):
    """The flags for a policy file in `folder`."""
    path = pathlib.Path(folder) / 'policy'
    path.write_text(''.join(f'{rule}\n' for rule in rules))
    path.chmod(0o600)
    return ('--policy-file', path)


class Port:
    """Where a daemon serves remote callers; `kind` is a word of its log line."""

    def __init__(self, daemon, kind='mutual TLS'):
        pattern = re.compile(r'listening .*?on (\S+):(\d+) \(' + kind)
        # The last one: a daemon that was started again has another.
        found = harness.until(lambda: pattern.findall(daemon.log()), f'a {kind} port')
        self.number = int(found[-1][1])
        self.address = f'127.0.0.1:{self.number}'


class RemoteTest(harness.EndToEndTest):

    tls_reload = '1h'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pki = pathlib.Path(tempfile.mkdtemp(prefix='profd_pki_'))
        cls.addClassCleanup(shutil.rmtree, cls.pki, ignore_errors=True)
        make_pki(cls.pki / 'site', '--node', 'gpu001,localhost', '--user', 'alice', '--user', 'bob',
                 '--days', '-1', '--node', 'old-node', '--user', 'old-user')
        make_pki(cls.pki / 'other', '--node', 'gpu001', '--user', 'mallory')

    def setUp(self):
        self.certs = self.folder_for_certs()
        self.flags = self.node_flags('gpu001')
        super().setUp()
        self.port = Port(self.daemon)

    def folder_for_certs(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_certs_'))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def node_flags(self, name):
        """Copies, so that a test may replace them."""
        for source, target in ((f'{name}.crt', 'tls.crt'), (f'{name}.key', 'tls.key'),
                               ('ca.crt', 'ca.crt')):
            shutil.copy(self.pki / 'site' / source, self.certs / target)
        return ('--listen', '127.0.0.1:0', '--tls-cert', self.certs / 'tls.crt',
                '--tls-key', self.certs / 'tls.key', '--tls-ca', self.certs / 'ca.crt',
                '--tls-reload', self.tls_reload)

    def tls(self, user='alice', pki='site', ca='site', **more):
        env = {'PROFD_TLS_CA': str(self.pki / ca / 'ca.crt')}
        if user:
            env['PROFD_TLS_CERT'] = str(self.pki / pki / f'{user}.crt')
            env['PROFD_TLS_KEY'] = str(self.pki / pki / f'{user}.key')
        return {**env, **more}

    def remote(self, *arguments, env=None, port=None):
        return self.daemon.ctl('--address', (port or self.port).address, *arguments,
                               env=self.tls() if env is None else env)

    def assert_refused(self, result, *words, status=REFUSED):
        self.assertEqual(result.status, status, result.err)
        for word in words:
            self.assertIn(word, result.err)

    @staticmethod
    def is_known(result, caller='cn:alice'):
        """Let in, and known by that name. Without a policy that is all that one gets."""
        return result.status == DONE or (result.status == REFUSED and
                                         f'{caller} may not' in result.err)

    def assert_known(self, result, caller='cn:alice'):
        self.assertTrue(self.is_known(result, caller), f'{result.status}: {result.err}')

    def assert_serves(self):
        self.assert_known(self.remote('node'))
        self.assertIsNone(self.daemon.process.poll())


class CertificateTest(RemoteTest):

    def test_check_config_reads_certificates(self):
        def check():
            return subprocess.run(
                [harness.PROFD, '--check-config', '--data-dir', self.daemon.data_dir,
                 '--socket-dir', self.daemon.socket_dir, *map(str, self.flags)],
                capture_output=True, text=True, timeout=60)
        right = check()
        self.assertEqual((right.returncode, right.stdout),
                         (0, 'profd: right: settings, certificates\n'), right.stderr)
        shutil.copy(self.pki / 'other' / 'gpu001.key', self.certs / 'tls.key')
        wrong = check()
        self.assertEqual(wrong.returncode, 2, wrong.stderr)
        self.assertIn('tls.key', wrong.stderr)

    def test_who_is_known_may_do_nothing_without_a_policy(self):
        for command in ('ps', 'captures', 'node'):
            self.assert_refused(self.remote(command, env=self.tls('bob')), 'cn:bob may not')

    def test_a_daemon_of_another_authority_is_not_trusted(self):
        result = self.remote('node', env=self.tls(ca='other'))
        self.assert_refused(result, 'is not trusted by', 'profctl context show')
        self.assert_serves()

    def test_a_caller_of_another_authority_is_refused(self):
        result = self.remote('node', env=self.tls('mallory', pki='other'))
        self.assert_refused(result, 'refused our certificate', 'mallory')
        self.assert_serves()

    def test_a_caller_without_a_certificate_is_refused(self):
        result = self.remote('node', env=self.tls(user=None))
        self.assert_refused(result, 'asks for a certificate')
        self.assert_serves()

    def test_plaintext_is_refused(self):
        result = self.remote('node', env={})
        self.assert_refused(result, 'without TLS')
        self.assert_serves()

    def test_a_name_that_the_certificate_does_not_have_is_refused(self):
        result = self.remote('node', env=self.tls(PROFD_TLS_SERVER_NAME='gpu002'))
        self.assert_refused(result, 'gpu001', 'not for gpu002')
        self.assert_known(self.remote('node', env=self.tls(PROFD_TLS_SERVER_NAME='gpu001')))

    def test_an_expired_certificate_of_ours_is_named_before_it_is_sent(self):
        result = self.remote('node', env=self.tls('old-user'))
        self.assert_refused(result, 'old-user', 'ended at', status=FAILED)

    def greeting(self, user='alice', version=None):
        """What the daemon says to whom it lets in; empty: nothing, it hung up."""
        tls = self.tls(user)
        context = ssl.create_default_context(cafile=tls['PROFD_TLS_CA'])
        context.set_alpn_protocols(['h2'])
        if version is not None:
            context.set_ciphers('DEFAULT@SECLEVEL=0')
            context.minimum_version = context.maximum_version = version
        context.load_cert_chain(tls['PROFD_TLS_CERT'], tls['PROFD_TLS_KEY'])
        with socket.create_connection(('127.0.0.1', self.port.number)) as connection:
            connection.settimeout(harness.PATIENCE_S)
            try:
                with context.wrap_socket(connection, server_hostname='localhost') as session:
                    return session.recv(100)
            except (ssl.SSLError, ConnectionError):
                return b''

    def test_an_expired_certificate_is_refused_by_the_daemon_too(self):
        # profctl would not even send it.
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.assertNotEqual(self.greeting('alice', version), b'')
            self.assertEqual(self.greeting('old-user', version), b'')
        self.assert_serves()

    def test_old_versions_of_tls_are_refused(self):
        warnings.simplefilter('ignore', DeprecationWarning)
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            self.assertEqual(self.greeting('alice', version), b'')
        self.assert_serves()

    def test_bytes_that_are_no_handshake_end_one_connection(self):
        for garbage in (b'\0' * 5000, b'GET / HTTP/1.1\r\n\r\n', b'\x16\x03\x01\xff\xff' + b'x' * 99):
            with socket.create_connection(('127.0.0.1', self.port.number)) as connection:
                connection.settimeout(harness.PATIENCE_S)
                with contextlib.suppress(ConnectionError):
                    connection.sendall(garbage)
                    while connection.recv(4096):
                        pass
        self.assert_serves()

    def test_files_of_ours_are_checked(self):
        missing = self.tls()
        missing['PROFD_TLS_CERT'] = '/nowhere.crt'
        self.assert_refused(self.remote('node', env=missing), 'tls-cert', '/nowhere.crt',
                            status=FAILED)
        swapped = self.tls()
        swapped['PROFD_TLS_KEY'] = self.tls('bob')['PROFD_TLS_KEY']
        self.assert_refused(self.remote('node', env=swapped), 'is not the key', status=FAILED)
        lone = self.tls()
        del lone['PROFD_TLS_KEY']
        self.assert_refused(self.remote('node', env=lone), 'go together', status=USAGE)

    def test_nobody_there_is_no_daemon(self):
        with socket.create_server(('127.0.0.1', 0)) as closed:
            port = closed.getsockname()[1]
        result = self.daemon.ctl('--address', f'127.0.0.1:{port}', 'node', env=self.tls())
        self.assert_refused(result, 'Connection refused', status=NO_DAEMON)

    def test_without_certificates_nothing_goes_to_another_machine(self):
        result = self.daemon.ctl('--address', 'gpu001:7411', 'node')
        self.assert_refused(result, 'needs certificates', status=USAGE)


class AllowedTest(RemoteTest):

    def node_flags(self, name):
        policy = policy_flags(self.certs, 'allow cn:alice all all', 'allow unknown list all')
        return (*super().node_flags(name), *policy, '--plaintext-listen', '127.0.0.1:0')

    def test_its_connections_are_charged_to_it(self):
        answer = self.remote('node', '--quotas', '--json')
        self.assertEqual(answer.status, DONE, answer.err)
        [quota] = [quota for quota in answer.json['quotas'] if quota['name'] == 'remote-connections']
        self.assertEqual([(holding['principal'], holding['used']) for holding in quota['holdings']],
                         [('cn:alice', 1)])

    def test_a_certificate_is_a_caller(self):
        target = self.target()
        target.do('train 2')
        listed = self.remote('ps', '--json')
        self.assertEqual(listed.status, DONE, listed.err)
        self.assertEqual([row['pid'] for row in listed.json['targets']], [target.pid])
        traced = self.remote('trace', '--pid', target.pid, '--steps', '2', '--json')
        self.assertEqual(traced.status, DONE, traced.err)
        self.assertEqual(traced.json['state'], 'COMPLETE')
        path = self.folder / 'fetched.profd'
        fetched = self.remote('fetch', traced.json['id'], '-o', path)
        self.assertEqual(fetched.status, DONE, fetched.err)
        self.assertGreater(path.stat().st_size, 0)

    def test_reports_copy_a_capture_once_and_only_from_elsewhere(self):
        cache = self.folder / 'cache'
        kept = {'PROFD_CACHE_DIR': None, 'XDG_CACHE_HOME': str(cache)}
        env = self.tls(**kept)
        trace = write_trace(self.folder / 'trace.json', name='small')
        capture = self.remote('import', trace, '--json').json['captures'][0]['id']
        here = self.daemon.ctl('report', capture, '--html', '-', env=kept)
        self.assertEqual(here.status, DONE, here.err)
        self.assertFalse(cache.exists())
        first = self.remote('report', capture, '--html', '-', env=env)
        self.assertEqual(first.status, DONE, first.err)
        [copy] = (cache / 'profd/captures').iterdir()
        self.assertTrue(copy.name.startswith(capture))
        with open(copy, 'r+b') as damaged:
            damaged.write(b'?')
        self.assertEqual(self.remote('report', capture, '--html', '-', env=env).out, first.out)
        self.assertEqual(copy.read_bytes()[:6], b'SQLite')
        self.assertEqual(self.remote('memory', capture, '--csv', env=env).status, DONE)
        # The daemon makes these, and answers in kilobytes.
        for report in 'report', 'time', 'memory', 'ops':
            self.assertEqual(self.remote(report, capture).status, DONE)
        downloads = [entry for entry in self.daemon.ctl('audit', '--json').json['entries']
                     if entry['method'] == 'DownloadCapture' and entry['principal'] == 'cn:alice']
        self.assertEqual(sum(1 + entry['repeat_count'] for entry in downloads), 2)
        # Who may not read it any more is told so, whatever is kept here.
        self.assertEqual(self.remote('delete', capture).status, DONE)
        self.assertEqual(self.remote('report', capture, env=env).status, FAILED)

    def test_traces_are_imported_from_another_machine(self):
        # Names that do not compress: it takes more than one message.
        trace = write_trace(self.folder / 'trace.json', name='small')
        events = json.loads(trace.read_text())
        events['traceEvents'] += [
            {'ph': 'X', 'cat': 'cpu_op', 'name': os.urandom(100).hex(), 'pid': 7, 'tid': 8,
             'ts': 1000 + i * 20, 'dur': 10} for i in range(20_000)]
        trace.write_text(json.dumps(events))
        result = self.remote('import', trace, '--json')
        self.assertEqual(result.status, DONE, result.err)
        capture = result.json['captures'][0]['id']
        copy = self.folder / 'copy.profd'
        self.assertEqual(self.remote('fetch', capture, '-o', copy).status, DONE)
        self.assertGreater(copy.stat().st_size, 2 << 20)
        ops = self.remote('ops', capture, '--json', '--limit', '0')
        self.assertEqual(ops.status, DONE, ops.err)
        self.assertEqual(len(ops.json['rows']), 20_001)
        shown = self.remote('show', capture, '--json').json
        self.assertEqual(shown['requested_by'], 'cn:alice')
        self.assert_refused(self.remote('import', trace, env=self.tls('bob')), 'cn:bob may not')
        self.assertEqual(len(self.captures()), 1)

    def test_ranks_of_a_job_from_another_machine_are_a_group(self):
        ranks = [write_rank(self.folder / f'rank{rank}.json', rank) for rank in range(4)]
        result = self.remote('import', *ranks, '--json')
        self.assertEqual(result.status, DONE, result.err)
        steps = self.remote('steps', result.json['group'], '--json')
        self.assertEqual(steps.status, DONE, steps.err)
        self.assertEqual([m['rank'] for m in steps.json['members']], [0, 1, 2, 3])

    def test_who_is_allowed_nothing_sees_nothing_of_it(self):
        self.target()
        self.assert_refused(self.remote('ps', env=self.tls('bob')), 'cn:bob may not')

    def test_a_rule_may_let_in_whom_nobody_vouches_for(self):
        target = self.target()
        plaintext = Port(self.daemon, 'plaintext')
        listed = self.remote('ps', '--json', env={}, port=plaintext)
        self.assertEqual(listed.status, DONE, listed.err)
        self.assertEqual([row['pid'] for row in listed.json['targets']], [target.pid])
        self.assert_refused(self.remote('trace', '--pid', target.pid, '--duration', '100ms', env={},
                                        port=plaintext), 'unknown may not')


class ExpiredNodeTest(RemoteTest):

    def node_flags(self, name):
        return super().node_flags('old-node')

    def test_a_daemon_whose_certificate_ended_is_not_trusted(self):
        harness.until(lambda: 'callers refuse it' in self.daemon.log(), 'the log says so')
        self.assert_refused(self.remote('node'), "the daemon's certificate has expired")
        self.assertEqual(self.daemon.ctl('node').status, DONE, 'the local socket serves all the same')


class RotationTest(RemoteTest):

    tls_reload = '1s'

    def put(self, pki, name, *, only=None):
        for source, target in ((f'{name}.key', 'tls.key'), (f'{name}.crt', 'tls.crt'),
                               ('ca.crt', 'ca.crt')):
            if only is None or target in only:
                shutil.copy(self.pki / pki / source, self.certs / 'new')
                os.replace(self.certs / 'new', self.certs / target)

    def test_new_certificates_are_taken_up_under_load(self):
        """Callers of the old authority go on until it is gone; those of the new one come in; and
        nobody who is known by both is ever turned away."""
        both = self.pki / 'both.crt'
        both.write_text((self.pki / 'site/ca.crt').read_text() +
                        (self.pki / 'other/ca.crt').read_text())
        shutil.copy(both, self.certs / 'ca.crt')
        new_caller = {**self.tls('mallory', pki='other'), 'PROFD_TLS_CA': str(both)}
        old_caller = {**self.tls(), 'PROFD_TLS_CA': str(both)}
        harness.until(lambda: self.is_known(self.remote('node', env=new_caller), 'cn:mallory'),
                      'both are known')

        stop = threading.Event()

        def call():
            failures = []
            while not stop.is_set():
                result = self.remote('node', env=old_caller)
                if not self.is_known(result):
                    failures.append(result.err)
            return failures

        with concurrent.futures.ThreadPoolExecutor(LOAD_CALLERS) as pool:
            callers = [pool.submit(call) for _ in range(LOAD_CALLERS)]
            try:
                # A new certificate of the node's, of the other authority.
                self.put('other', 'gpu001', only=('tls.key', 'tls.crt'))
                only_new = self.tls('mallory', pki='other', ca='other')
                harness.until(lambda: self.is_known(self.remote('node', env=only_new), 'cn:mallory'),
                              'the new certificate is served')
            finally:
                stop.set()
            for caller in callers:
                self.assertEqual(caller.result(), [])

        # The old authority is gone: so are its callers.
        self.put('other', 'gpu001', only=('ca.crt',))
        def is_turned_away():
            result = self.remote('node', env=old_caller)
            return result.status == REFUSED and 'refused our certificate' in result.err
        harness.until(is_turned_away, 'the old authority is known no more')
        self.assert_known(self.remote('node', env=new_caller), 'cn:mallory')

    def test_what_does_not_fit_is_not_taken_up(self):
        self.put('other', 'gpu001', only=('tls.crt',))
        harness.until(lambda: 'certificates unchanged' in self.daemon.log(), 'it is looked at')
        self.assertIn('is not the key of the certificate', self.daemon.log())
        self.assert_serves()
        (self.certs / 'ca.crt').write_text('half a certific')
        harness.until(lambda: 'tls-ca: no certificate' in self.daemon.log() or
                      self.daemon.log().count('certificates unchanged') > 1, 'it is looked at')
        self.assert_serves()


class PlaintextTest(RemoteTest):

    def setUp(self):
        self.more = ('--plaintext-listen', 'localhost:0')
        super().setUp()
        self.plaintext = Port(self.daemon, 'plaintext')

    def node_flags(self, name):
        return (*super().node_flags(name), *self.more)

    def test_nobody_vouches_for_its_callers(self):
        for command in ('ps', 'captures', 'node'):
            self.assert_refused(self.remote(command, env={}, port=self.plaintext),
                                'unknown may not')
        self.assert_serves()

    def test_tls_is_told_that_it_is_not_spoken(self):
        self.assert_refused(self.remote('node', port=self.plaintext), 'does not speak TLS')


class StartTest(unittest.TestCase):
    """What profd does not begin with."""

    def start(self, *flags):
        with tempfile.TemporaryDirectory(prefix='profd_e2e_') as folder:
            completed = subprocess.run(
                [harness.PROFD, '--data-dir', f'{folder}/data', '--socket-dir', f'{folder}/run',
                 *flags], stdin=subprocess.DEVNULL, capture_output=True,
                timeout=harness.PATIENCE_S)
        return completed.returncode, completed.stderr.decode()

    def test_plaintext_is_for_loopback_alone(self):
        for address in ('0.0.0.0:0', '*:0', '[::]:0'):
            status, text = self.start('--plaintext-listen', address)
            self.assertEqual(status, FAILED, text)
            self.assertIn('could be reached from other machines', text)

    def test_listening_takes_certificates(self):
        status, text = self.start('--listen', '127.0.0.1:0')
        self.assertEqual(status, FAILED, text)
        self.assertIn('listen needs tls-cert', text)
        status, text = self.start('--listen', '127.0.0.1:0', '--tls-cert', '/nowhere/a',
                                  '--tls-key', '/nowhere/b', '--tls-ca', '/nowhere/c')
        self.assertEqual(status, FAILED, text)
        self.assertIn('cannot read /nowhere/a', text)

    def test_a_taken_port_is_named(self):
        with socket.create_server(('127.0.0.1', 0)) as taken:
            address = f'127.0.0.1:{taken.getsockname()[1]}'
            status, text = self.start('--plaintext-listen', address)
        self.assertEqual(status, FAILED, text)
        self.assertIn(f'cannot bind {address}', text)


class ContextTest(RemoteTest):

    def setUp(self):
        super().setUp()
        self.config = self.folder / 'config'
        self.file = self.config / 'profd/config'

    def ctl(self, *arguments, **env):
        """Without PROFD_SOCKET_DIR, which would come before the current context."""
        env = {'XDG_CONFIG_HOME': str(self.config), 'PROFD_SOCKET_DIR': '', **env}
        return self.daemon.ctl(*arguments, env=env)

    def add(self, name, *more):
        site = self.pki / 'site'
        return self.ctl('context', 'add', name, '--address', self.port.address, '--tls-ca',
                        site / 'ca.crt', '--tls-cert', site / 'alice.crt', '--tls-key',
                        site / 'alice.key', *more)

    def test_the_current_context_is_where_commands_go(self):
        self.assertEqual(self.add('one').status, DONE)
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)
        self.assert_known(self.ctl('node'))
        self.assertEqual(self.ctl('context', 'use', 'none').status, DONE)
        self.assertFalse(self.is_known(self.ctl('--address', self.port.address, 'node')),
                         'no certificate is shown')
        self.assert_known(self.ctl('--context', 'one', 'node'))
        self.assert_known(self.ctl('node', PROFD_CONTEXT='one'))
        # The certificates of the current context are for an address that is named, too.
        self.assertEqual(self.ctl('context', 'use', 'one').status, DONE)
        self.assert_known(self.ctl('--address', f'localhost:{self.port.number}', 'node'))

    def test_a_context_may_mean_nodes(self):
        site = self.pki / 'site'
        nodes = f'localhost:{self.port.number},127.0.0.1:{self.port.number}'
        added = self.ctl('context', 'add', 'all', '--nodes', nodes, '--tls-ca', site / 'ca.crt',
                         '--tls-cert', site / 'alice.crt', '--tls-key', site / 'alice.key')
        self.assertEqual(added.status, DONE, added.err)
        result = self.ctl('ps')
        self.assertEqual(result.status, REFUSED, result.err)
        self.assertIn('2 nodes, localhost,127.0.0.1: cn:alice may not', result.err)

    def test_contexts_are_listed_shown_and_removed(self):
        self.add('one')
        self.assertEqual(self.add('one').status, USAGE, 'there is one already')
        self.assertEqual(self.add('one', '--replace').status, DONE)
        self.assertEqual(self.add('two', '--use', '--tls-server-name', 'gpu001').status, DONE)
        listed = self.ctl('context', 'list', '--json').json
        self.assertEqual(listed['current'], 'two')
        self.assertEqual([row['name'] for row in listed['contexts']], ['one', 'two'])
        shown = self.ctl('context', 'show', '--json').json
        self.assertEqual((shown['name'], shown['tls_server_name']), ('two', 'gpu001'))
        self.assertEqual(self.ctl('context', 'remove', 'two').status, DONE)
        self.assertEqual(self.ctl('context', 'list', '--json').json['current'], '')
        self.assertEqual(self.ctl('context', 'remove', 'two').status, FAILED)

    def test_what_cannot_work_is_not_added(self):
        for wrong in (['--address', 'gpu001:7411'], ['--address', 'nonsense'], [],
                      ['--nodes', 'a', '--address', 'localhost:1'],
                      ['--address', 'localhost:1', '--tls-ca', '/nowhere']):
            result = self.ctl('context', 'add', 'new', *wrong)
            self.assertIn(result.status, (USAGE, FAILED), wrong)
            self.assertFalse(self.file.exists())
        self.assertEqual(self.add('no/name').status, USAGE)
        # `context use none` selects none, so a context of that name could not be selected.
        self.assertEqual(self.add('none').status, USAGE)

    def test_a_file_that_others_may_write_is_not_believed(self):
        self.add('one')
        self.file.chmod(0o622)
        result = self.ctl('node')
        self.assertEqual(result.status, FAILED, result.err)
        self.assertIn('chmod 600', result.err)

    def test_a_broken_file_is_named_with_its_line(self):
        self.add('one')
        with open(self.file, 'a') as file:
            file.write('colour = blue\n')
        result = self.ctl('ps')
        self.assertEqual(result.status, FAILED, result.err)
        self.assertRegex(result.err, re.escape(str(self.file)) + r":\d+: no key 'colour'")
        self.assertEqual(self.daemon.ctl('ps').status, DONE, 'PROFD_SOCKET_DIR needs no file')


class ForwardedTest(harness.EndToEndTest):
    """`ssh -L local.sock:/run/profd/control.sock node`: the daemon sees sshd's process, which runs
    as the user. There is no sshd in a test; a relay of bytes stands in for it."""

    def relay(self, listener):
        def pump(source, sink):
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    sink.sendall(data)
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

        def relay(near):
            with near, socket.socket(socket.AF_UNIX) as far:
                far.connect(str(self.daemon.socket_dir / 'control.sock'))
                back = threading.Thread(target=pump, args=(far, near))
                back.start()
                pump(near, far)
                back.join()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    threading.Thread(target=relay, args=(near,), daemon=True).start()
        threading.Thread(target=serve, daemon=True).start()

    def test_a_forwarded_socket_is_as_good_as_the_daemons_own(self):
        path = self.folder / 'forwarded.sock'
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            self.relay(listener)
            target = self.target()
            target.do('train 2')
            result = self.daemon.ctl('--address', f'unix:{path}', 'trace', '--pid', target.pid,
                                     '--steps', '2', '--json')
            self.assertEqual(result.status, DONE, result.err)
            self.assertEqual(json.loads(result.out)['state'], 'COMPLETE')
            listener.shutdown(socket.SHUT_RDWR)


if __name__ == '__main__':
    if shutil.which('openssl') is None:
        print('SKIP: openssl is not here; it makes the certificates')
        raise SystemExit(77)
    harness.main()
