"""Who can use up storage, and what happens then: captures of others, pins, purges, a full disk,
repeated refusals in the audit log."""

import signal

import harness
from harness import DONE, FAILED, NOBODY, PARTIAL, REFUSED

USAGE = 2


class SharedStoreTest(harness.EndToEndTest):

    # Room for a few captures of two steps; a user may pin a quarter of it, root half.
    flags = ('--max-storage', '1MiB')
    most_captures = 60

    def setUp(self):
        super().setUp()
        self.need_uid()

    def capture(self, target, *flags, as_uid=None):
        result = self.trace('--pid', target.pid, '--steps', '2', *flags, as_uid=as_uid).result()
        self.assertEqual(result.status, DONE, result.err)
        return result.json

    def kept(self):
        return {capture['id'] for capture in self.captures() if not capture['deleted']}

    def evicted_count(self):
        return self.daemon.ctl('node', '--json').json['storage']['evicted_count']

    def test_a_flood_evicts_neither_pinned_captures_nor_those_of_root(self):
        ours, theirs = self.target(), self.target(as_uid=NOBODY)
        ours.do('train 1')
        theirs.do('train 1')
        roots = self.capture(ours)['id']
        pinned = self.capture(theirs, '--pin', as_uid=NOBODY)
        self.assertTrue(pinned['pinned'])
        unpinned = self.capture(theirs, as_uid=NOBODY)['id']
        for _ in range(self.most_captures):
            newest = self.capture(theirs, as_uid=NOBODY)['id']
            if self.evicted_count() > 0:
                break
        kept = self.kept()
        self.assertLessEqual({roots, pinned['id'], newest}, kept)
        self.assertNotIn(unpinned, kept)

    def test_a_lower_cap_frees_room_at_sighup(self):
        self.daemon.stop()
        config = self.folder / 'profd.conf'
        config.write_text('max-storage = 1GiB\n')
        self.daemon.flags = ('--config', str(config))
        self.daemon.start()
        target = self.target()
        target.do('train 1')
        pinned = self.capture(target, '--pin')['id']
        gone = self.capture(target)['id']
        for _ in range(self.most_captures):
            if self.daemon.ctl('node', '--json').json['storage']['capture_bytes'] > 1 << 20:
                break
            self.capture(target)
        config.write_text('max-storage = 1MiB\n')
        self.daemon.process.send_signal(signal.SIGHUP)
        harness.until(lambda: gone not in self.kept(), 'the oldest one is evicted')
        self.assertIn(pinned, self.kept())
        self.assertIn('removed to make room for others', self.daemon.ctl('show', gone).out)
        self.assertIn('evicted', self.daemon.ctl('captures', '--deleted').out)
        refused = self.daemon.ctl('ops', gone)
        self.assertEqual(refused.status, FAILED, refused.err)
        self.assertIn('its events were removed to make room for others', refused.err)

    def test_pins_belong_to_the_owner_are_limited_and_go_on_record(self):
        ours, theirs = self.target(), self.target(as_uid=NOBODY)
        ours.do('train 1')
        theirs.do('train 1')
        roots = self.capture(ours)['id']
        mine = self.capture(theirs, as_uid=NOBODY)['id']
        hidden = self.daemon.ctl('pin', roots, as_uid=NOBODY)
        self.assertNotEqual(hidden.status, DONE)
        self.assertFalse(self.daemon.ctl('show', roots, '--json').json['pinned'])

        done = self.daemon.ctl('pin', mine, '--json', as_uid=NOBODY)
        self.assertEqual(done.status, DONE, done.err)
        self.assertEqual([(c['id'], c['pinned']) for c in done.json['captures']], [(mine, True)])
        self.assertEqual(self.daemon.ctl('pin', mine, as_uid=NOBODY).out, f'{mine} pinned\n')
        self.assertIn('pinned', self.daemon.ctl('show', mine, as_uid=NOBODY).out)
        self.assertIn('pinned', self.daemon.ctl('node').out)
        pinned_bytes = self.daemon.ctl('node', '--json').json['storage']['pinned_bytes']
        self.assertEqual(pinned_bytes, done.json['captures'][0]['file_bytes'])

        # Root may do it for others. Both are in the audit log.
        self.assertEqual(self.daemon.ctl('unpin', mine).out, f'{mine} unpinned\n')
        rows = self.daemon.ctl('audit', '--call', 'SetCapturePinned', '--json').json['entries']
        self.assertIn(('uid:0', f'captures/{mine}', 'OK'),
                      [(row['principal'], row['resource'], row['outcome']) for row in rows])
        self.assertIn((f'uid:{NOBODY}', f'captures/{mine}', 'OK'),
                      [(row['principal'], row['resource'], row['outcome']) for row in rows])

        # Everything is pinned that may be: the answer says how to go on.
        for _ in range(self.most_captures):
            last = self.capture(theirs, as_uid=NOBODY)['id']
            refused = self.daemon.ctl('pin', last, as_uid=NOBODY)
            if refused.status != DONE:
                break
        self.assertEqual(refused.status, REFUSED, refused.err)
        self.assertIn('profctl unpin', refused.err)
        result = self.trace('--pid', theirs.pid, '--steps', '2', '--pin', as_uid=NOBODY).result()
        self.assertEqual(result.status, PARTIAL, result.err)
        self.assertFalse(result.json['pinned'])
        self.assertIn('is not pinned', result.err)

    def test_a_purge_removes_what_the_caller_may_delete_but_no_pinned_capture(self):
        ours, theirs = self.target(), self.target(as_uid=NOBODY)
        ours.do('train 1')
        theirs.do('train 1')
        pinned = self.capture(ours, '--pin')['id']
        roots = self.capture(ours)['id']
        mine = self.capture(theirs, as_uid=NOBODY)['id']
        self.assertEqual(self.daemon.ctl('purge').status, USAGE)
        recent = self.daemon.ctl('purge', '--older-than', '1h', '--json').json
        self.assertEqual((recent['capture_count'], recent['dry_run']), (0, False))
        counted = self.daemon.ctl('purge', '--older-than', '0s', '--dry-run', '--json').json
        self.assertEqual((counted['capture_count'], counted['dry_run']), (2, True))
        self.assertEqual(self.kept(), {pinned, roots, mine})
        purged = self.daemon.ctl('purge', '--older-than', '0s', as_uid=NOBODY)
        self.assertIn('Removed 1 capture with ', purged.out)
        self.assertEqual(self.kept(), {pinned, roots})
        purged = self.daemon.ctl('purge', '--older-than', '0s', '--json').json
        self.assertEqual(purged['capture_count'], 1)
        self.assertEqual({capture['id'] for capture in self.captures('--deleted')}, {pinned})
        rows = self.daemon.ctl('audit', '--call', 'PurgeCaptures', '--json').json['entries']
        self.assertEqual(rows[0]['resource'], '1 captures older than 0')


class FullDiskTest(harness.EndToEndTest):

    flags = ('--min-free-percent', '0')
    disk_bytes = 24 << 20

    def fill(self):
        with open(self.disk / 'filler', 'wb', buffering=0) as file:
            try:
                while file.write(b'x' * 4096) > 0:
                    pass
            except OSError:
                pass

    def test_with_no_byte_free_captures_can_be_unpinned_deleted_and_switched_off(self):
        target = self.target()
        target.do('train 1')
        result = self.trace('--pid', target.pid, '--steps', '2', '--pin').result()
        self.assertEqual(result.status, DONE, result.err)
        self.fill()
        refused = self.trace('--pid', target.pid, '--steps', '2').result()
        self.assertEqual(refused.status, REFUSED, refused.err)
        for secret in ('UPDATE', 'INSERT', 'SELECT', str(self.daemon.data_dir)):
            self.assertNotIn(secret, refused.err)
        self.assertFalse(self.captures()[-1]['deleted'], 'removed for a refused request')
        switched = self.daemon.ctl('node', '--forbid-captures', 'the disk is full')
        self.assertEqual(switched.status, DONE, switched.err)
        self.assertFalse(self.daemon.ctl('node', '--json').json['captures_allowed'])
        for verb in ('unpin', 'delete'):
            done = self.daemon.ctl(verb, result.json['id'])
            self.assertEqual(done.status, DONE, done.err)
        (self.disk / 'filler').unlink()
        self.daemon.stop()
        self.daemon.start()
        self.assertFalse(self.daemon.ctl('node', '--json').json['captures_allowed'])


class AuditLogTest(harness.EndToEndTest):

    def test_equal_refusals_are_one_row_that_counts_them(self):
        self.need_uid()
        ours = self.target()
        ours.do('train 1')
        for _ in range(3):
            refused = self.trace('--pid', ours.pid, '--steps', '2', as_uid=NOBODY).result()
            self.assertNotEqual(refused.status, DONE)
        rows = self.daemon.ctl('audit', '--refused', '--json').json['entries']
        self.assertEqual([(row['principal'], row['repeat_count']) for row in rows],
                         [(f'uid:{NOBODY}', 2)])
        self.assertIn('(2 more)', self.daemon.ctl('audit', '--refused').out)


if __name__ == '__main__':
    harness.main()
