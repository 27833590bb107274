"""run_on_gpu.sh on the simulated GPU, and what take_in.py makes of its results."""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import gpu_assumptions

HERE = pathlib.Path(__file__).resolve().parent
BUILD_DIR = pathlib.Path(os.environ['PROFD_BUILD_DIR'])
STANDIN_PHASES = ('inventory', 'cupti_facts', 'graphs', 'smoke', 'replays', 'drain', 'endings', 'sessions',
                  'finalize', 'call_tax', 'cupti_sessions', 'overhead', 'clock', 'enable_order')
COULD_NOT_START = 125


def script(name, *arguments):
    environment = {key: value for key, value in os.environ.items() if key not in ('OUT',)}
    command = [HERE / name, *arguments] if name.endswith('.sh') else [
        sys.executable, HERE / name, *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          env={**environment, 'PROFD_GPU_PYTHON': sys.executable})


def facts_of(folder):
    return [json.loads(line) for line in (folder / 'facts.jsonl').read_text().splitlines()]


class RunOnGpuTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_all_phases_and_taking_in_what_they_found(self):
        results = self.folder / 'results'
        done = script('run_on_gpu.sh', '--standin', '--out', results)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        facts = facts_of(results)
        ended = {f['phase'] for f in facts if f['fact'] == 'phase_ended'}
        self.assertLessEqual(set(STANDIN_PHASES), ended)
        self.assertEqual([f for f in facts if f.get('holds') is False], [])
        files = list(results.iterdir())
        self.assertLessEqual(len(files), 8)
        self.assertTrue(all(f.stat().st_size <= 16 << 20 for f in files))
        summary = (results / 'summary.md').read_text()
        self.assertIn('The GPU is simulated', summary)
        self.assertIn('| 10 paused_launcher | 0/2 |', summary)
        self.assertEqual([f for f in facts if f['fact'] == 'enable_order' and (
            f['value']['lost'] or f['value']['status'] or f['value']['failed'])], [])

        self.assertEqual(script('take_in.py', results).returncode, 1, 'simulated results are refused')
        fixtures = self.folder / 'fixtures'
        arguments = (results, '--simulated', '--into', fixtures, '--replay',
                     BUILD_DIR / 'tests/bin/replay_dump')
        taken = script('take_in.py', *arguments)
        self.assertEqual(taken.returncode, 0, taken.stdout + taken.stderr)
        self.assertIn(' assumptions are refuted', taken.stdout)
        dumps = sorted(fixtures.glob('*.dump.gz'))
        self.assertGreaterEqual(len(dumps), 9, 'three versions in three modes')
        self.assertTrue(list(fixtures.glob('*.profd')))
        os.environ['PROFD_GPU_FIXTURES'] = str(fixtures)
        self.addCleanup(os.environ.pop, 'PROFD_GPU_FIXTURES')
        self.assertEqual(script('replay_test.py').returncode, 0)
        content = bytearray(gzip.decompress(dumps[0].read_bytes()))
        content[len(content) // 2:] = bytes(len(content) - len(content) // 2)
        dumps[0].write_bytes(gzip.compress(bytes(content)))
        self.assertNotEqual(script('replay_test.py').returncode, 0, 'a damaged dump is noticed')

    def test_switches_between_contexts_are_asked_for_next_to_another_process(self):
        done = subprocess.run([BUILD_DIR / 'tests/bin/cupti_facts', '--cupti',
                               BUILD_DIR / 'lib/cupti_standin/13.0/libcupti.so.13', 'switches',
                               'neighbor=1'], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        facts = {fact['fact']: fact['value'] for fact in map(json.loads, done.stdout.splitlines())}
        self.assertGreater(facts['switches']['kernels'], 0)
        self.assertEqual(facts['switches']['enable'], 21, '13.0 has no such kind')
        self.assertIn('neighbor_ended', facts)

    def test_a_question_that_hangs_says_where(self):
        environment = {**os.environ, 'SGPU_HOLD_FLUSH': '1', 'CUPTI_FACTS_LIMIT_S': '1'}
        done = subprocess.run([BUILD_DIR / 'tests/bin/cupti_facts', '--cupti',
                               BUILD_DIR / 'lib/cupti_standin/13.0/libcupti.so.13', '--label', '13.0',
                               'unsubscribed'], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 9, done.stderr)
        stuck, = [fact['value'] for fact in map(json.loads, filter(None, done.stdout.splitlines()))
                  if fact['fact'] == 'stuck_at']
        self.assertTrue(any('libcupti' in frame and 'cuptiActivityFlushAll' in frame
                            for frame in stuck), stuck)

    def test_a_resumed_run_does_the_rest(self):
        results = self.folder / 'results'
        chosen = ('run_on_gpu.sh', '--standin', '--out', results, '--phases', 'inventory,graphs')
        self.assertEqual(script(*chosen).returncode, 0)
        again = script(*chosen, '--resume', results / 'facts.jsonl')
        self.assertEqual(again.returncode, 0)
        self.assertNotIn('graphs:', again.stdout)
        self.assertEqual(sum(f['fact'] == 'phase_ended' for f in facts_of(results)), 2)

    def test_a_phase_without_time_is_skipped_and_named(self):
        results = self.folder / 'results'
        done = script('run_on_gpu.sh', '--standin', '--out', results, '--phases', 'drain', '--budget', '1')
        self.assertEqual(done.returncode, 0)
        self.assertIn('SKIP: drain: no time is left', done.stdout)

    def test_a_failed_phase_is_a_broken_invariant_and_stops_no_other(self):
        results = self.folder / 'results'
        broken = self.folder / 'python'
        broken.write_text(f'#!/bin/sh\ncase "$*" in *graphs*) exit 3 ;; esac\n'
                          f'exec {sys.executable} "$@"\n')
        broken.chmod(0o755)
        done = subprocess.run(
            [str(HERE / 'run_on_gpu.sh'), '--standin', '--out', str(results), '--phases',
             'graphs,clock'], capture_output=True, text=True,
            env={**os.environ, 'PROFD_GPU_PYTHON': str(broken)})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        facts = facts_of(results)
        self.assertIn('clock', {f['phase'] for f in facts if f['fact'] == 'phase_ended'})
        self.assertIn('graphs', {f['phase'] for f in facts if f['fact'] == 'phase_completes'})

    def test_wrong_arguments_end_it_before_it_starts(self):
        for arguments in (('--phases', 'nothing'), ('--budget', 'x'), ('--what',), ('--out',)):
            done = script('run_on_gpu.sh', '--standin', *arguments)
            self.assertEqual(done.returncode, COULD_NOT_START, done.stdout)
            self.assertIn(arguments[-1], done.stderr)
        for name in ('run_on_gpu.sh', 'pack.sh'):
            self.assertIn('--out DIR', script(name, '--help').stdout)


def verdicts(name, *facts):
    judge = next(a.judge for a in gpu_assumptions.ASSUMPTIONS if a.id == name)
    return judge(list(facts))


class JudgesTest(unittest.TestCase):
    """What the first run on a GPU has shown about the judges themselves."""

    def test_the_last_answer_of_a_resumed_file_counts(self):
        def answer(state):
            return {'phase': 'order', 'fact': 'capture', 'order': 'before', 'value': {'state': state}}
        self.assertEqual(verdicts('idle_kineto', answer('FAILED'), answer('COMPLETE')), {'torch': True})
        self.assertEqual(verdicts('idle_kineto', answer('COMPLETE'), answer('FAILED')), {'torch': False})
        self.assertEqual(verdicts('idle_kineto'), {})

    def test_queries_are_judged_by_version_and_by_what_the_switch_turns_off(self):
        def rows(name, version, count):
            return {'phase': 'cupti_facts', 'group': 'syncs', 'fact': name, 'cupti': version,
                    'value': {'rows': count}}
        self.assertEqual(verdicts('queries', rows('sync_rows_by_default', '12.8', 102),
                                  rows('sync_rows_by_default', '12.9', 202)),
                         {'12.8': True, '12.9': True})
        self.assertEqual(verdicts('queries_off', rows('sync_rows_when_off', '12.9', 102),
                                  rows('sync_rows_when_off', '13.5', 202)),
                         {'12.9': True, '13.5': False})


if __name__ == '__main__':
    if not os.access(BUILD_DIR / 'tests/bin/gpu_job', os.X_OK):
        sys.exit('gpu_job is not built')
    unittest.main(verbosity=2)
