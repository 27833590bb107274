"""Captures of trainings on a real GPU whose cause is known (gpu_causes.py): their reports name it."""

import json
import lzma
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'truth'))
import cases  # noqa: E402
import judging  # noqa: E402

PROFCTL = pathlib.Path(os.environ['PROFD_BUILD_DIR']) / 'bin/profctl'
FIXTURES = pathlib.Path(os.environ.get('PROFD_GPU_FIXTURES', HERE / 'fixtures'))
KNOWN = {case.name: case for case in cases.CUDA}


def report_on(path, command='report'):
    """Of the capture beside `path`, which the results of a run hold as it is and fixtures packed."""
    capture = path.with_suffix('.profd')
    with tempfile.NamedTemporaryFile(suffix='.profd') as unpacked:
        if not capture.exists():
            unpacked.write(lzma.decompress(path.with_suffix('.profd.xz').read_bytes()))
            unpacked.flush()
            capture = unpacked.name
        return subprocess.run([PROFCTL, command, capture, '--json'], capture_output=True, text=True)


class CausesTest(unittest.TestCase):
    def test_reports_name_the_causes(self):
        fixtures = sorted(FIXTURES.glob('cause-*.json'))
        self.assertTrue(fixtures, f'nothing is in {FIXTURES}')
        for path in fixtures:
            kept = json.loads(path.read_text())
            case = KNOWN[kept['case']]
            with self.subTest(case=case.name):
                done = report_on(path)
                self.assertEqual(done.returncode, 0, done.stderr)
                report = json.loads(done.stdout)
                judgement = judging.judge_findings(
                    report, case.finds, case.allowed, case.size,
                    judging.of_steps(kept['causes'], kept['capture'], report['step_count']),
                    cases.AROUND)
                if os.environ.get('PROFD_GPU_VERBOSE'):
                    print(case.name, judgement, report['verdict'], sep='\n  ')
                self.assertTrue(judgement.is_right, f"{judgement}\n{report['verdict']}")

    def test_report_and_time_count_idle_time_and_gaps_alike(self):
        compared = 0
        for path in sorted(FIXTURES.glob('cause-*.json')):
            with self.subTest(capture=path.stem):
                report = json.loads(report_on(path).stdout)
                time = json.loads(report_on(path, 'time').stdout)
                # Steps that are not in averages are the first ones.
                steps = time['steps'][len(time['steps']) - report['step_count']:]
                idle_ns = sum(step['idle_ns'] for step in steps) if steps else time['idle_ns']
                gaps = sum(step['gap_count'] for step in steps) if steps else time['gap_count']
                self.assertGreater(gaps, 0)
                if report['steps_of_gpu']:
                    # Other times: from work to work, not from mark to mark.
                    self.assertLessEqual(report['gap_count'], time['gap_count'])
                    continue
                compared += 1
                self.assertEqual((report['idle_ns'], report['gap_count']), (idle_ns, gaps))
                for finding in report['findings']:
                    if finding['rule'] == 'GPU_GAP':
                        self.assertIn('The GPU has %d gaps' % gaps, finding['measured'])
        self.assertGreater(compared, 3, 'too few of them have steps from mark to mark')


if __name__ == '__main__':
    unittest.main()
