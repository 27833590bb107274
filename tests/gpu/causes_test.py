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


def report_on(path):
    """Of the capture beside `path`, which the results of a run hold as it is and fixtures packed."""
    capture = path.with_suffix('.profd')
    with tempfile.NamedTemporaryFile(suffix='.profd') as unpacked:
        if not capture.exists():
            unpacked.write(lzma.decompress(path.with_suffix('.profd.xz').read_bytes()))
            unpacked.flush()
            capture = unpacked.name
        return subprocess.run([PROFCTL, 'report', capture, '--json'], capture_output=True, text=True)


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


if __name__ == '__main__':
    unittest.main()
