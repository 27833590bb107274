"""Who may do what: rules in a file that change while profd runs, captures switched off, processes
that opted out, and what of it is written down."""

import os
import pathlib
import shutil
import tempfile

import harness
from harness import DONE, NOBODY, REFUSED, until


class AccessTest(harness.EndToEndTest):

    def refusals(self, *flags):
        """(who, method, reason) of what did not go well, from the audit log."""
        result = self.daemon.ctl('audit', '--json', *flags)
        self.assertEqual(result.status, DONE, result.err)
        return [(row['principal'], row['method'], row['reason']) for row in result.json['entries']
                if row['outcome'] != 'OK']

    def training_target(self, **kwargs):
        target = self.target(**kwargs)
        target.do('train 1')
        return target


class OptOutTest(AccessTest):

    def test_who_opted_out_is_listed_and_captured_by_nobody(self):
        target = self.training_target(env={'PROFD_OPTOUT': '1'})
        [row] = self.daemon.ctl('ps', '--json').json['targets']
        self.assertTrue(row['opted_out'])
        result = self.trace('--pid', target.pid, '--steps', '1').result()
        self.assertEqual(result.status, REFUSED, result.err)
        self.assertIn('PROFD_OPTOUT', result.err)
        self.assertEqual(self.captures(), [])
        self.assertIn((f'uid:{os.getuid()}', 'CreateCapture', 'OPTED_OUT'), self.refusals())
        target.do('rest')


class SwitchTest(AccessTest):

    def test_switching_captures_off_ends_them_and_holds_behind_a_restart(self):
        target = self.training_target()
        tracing = self.trace('--pid', target.pid, '--duration', '1h')
        self.await_state('RECORDING')
        result = self.daemon.ctl('node', '--forbid-captures', 'a benchmark runs')
        self.assertEqual(result.status, DONE, result.err)
        capture = tracing.result().json
        self.assertEqual((capture['state'], capture['ended_by']), ('PARTIAL', 'opt_out'))

        self.daemon.terminate()
        self.daemon.start()
        target.do('await-connected')
        refused = self.trace('--pid', target.pid, '--steps', '1').result()
        self.assertEqual(refused.status, REFUSED, refused.err)
        self.assertIn('a benchmark runs', refused.err)
        self.assertIn('a benchmark runs', self.daemon.ctl('node').out)

        self.assertEqual(self.daemon.ctl('node', '--allow-captures').status, DONE)
        self.trace_five_steps(target)
        target.do('rest')


class PolicyTest(AccessTest):

    def setUp(self):
        self.me = f'uid:{os.getuid()}'
        folder = tempfile.mkdtemp(prefix='profd_policy_')
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.policy = pathlib.Path(folder) / 'policy'
        self.write_policy(f'deny {self.me} delete all')
        self.flags = ('--policy-file', self.policy)
        super().setUp()

    def write_policy(self, *rules):
        new = self.policy.with_suffix('.new')
        new.write_text(''.join(f'{rule}\n' for rule in rules))
        new.chmod(0o600)
        new.rename(self.policy)

    def test_a_change_of_the_rules_holds_at_once_and_a_wrong_one_changes_nothing(self):
        target = self.training_target()
        capture = self.trace_five_steps(target)
        target.do('rest')
        refused = self.daemon.ctl('delete', capture['id'])
        self.assertEqual(refused.status, REFUSED, refused.err)
        self.assertEqual(len(self.captures()), 1)
        self.assertIn((self.me, 'DeleteCapture', 'NOT_ALLOWED'), self.refusals('--refused'))

        self.write_policy('permit everybody everything')
        until(lambda: 'permit' in self.daemon.log(), 'profd says what is wrong with the rules')
        self.assertEqual(self.daemon.ctl('delete', capture['id']).status, REFUSED)

        self.write_policy('# nothing')
        until(lambda: self.daemon.ctl('delete', capture['id']).status == DONE, 'the new rules hold')
        self.assertEqual(self.captures(), [])

    def test_who_may_look_on_sees_and_changes_nothing(self):
        target = self.training_target()
        capture = self.trace_five_steps(target)
        self.need_uid()
        open_folder = self.folder / 'open'
        open_folder.mkdir()
        open_folder.chmod(0o777)

        def as_nobody(*arguments):
            return self.daemon.ctl(*arguments, as_uid=NOBODY)
        self.assertEqual(as_nobody('captures', '--json').json['captures'], [])

        self.write_policy(f'allow uid:{NOBODY} list all')
        until(lambda: as_nobody('captures', '--json').json['captures'], 'the new rules hold')
        [row] = as_nobody('ps', '--json').json['targets']
        self.assertEqual(row['pid'], target.pid)
        for command in (('steps', capture['id']), ('delete', capture['id']),
                        ('trace', '--pid', target.pid, '--steps', '1'),
                        ('fetch', capture['id'], '-o', open_folder / 'x.profd'),
                        ('node', '--forbid-captures', 'why not')):
            self.assertEqual(as_nobody(*command).status, REFUSED, command)
        self.assertEqual([row['id'] for row in self.captures()], [capture['id']])
        self.assertEqual(list(open_folder.iterdir()), [])
        refused = {method for _, method, _ in self.refusals('--refused', '--who', f'uid:{NOBODY}')}
        self.assertEqual(refused, {'GetReport', 'DeleteCapture', 'CreateCapture',
                                   'DownloadCapture', 'SetCapturesAllowed'})
        target.do('rest')


if __name__ == '__main__':
    harness.main()
