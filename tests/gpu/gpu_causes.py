"""The phase "causes" of run_on_gpu.sh: trainings whose cause of slowness is known, captured as a user
would. Each report must name the cause first, at its size (tests/truth/judging.py).

Each capture is kept as captures/cause-NAME.profd, with cause-NAME.json: what the program measured,
and the answer of `profctl trace`. causes_test.py judges them again wherever there is no GPU.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

import gpu_run
from gpu_frameworks import DEVICE, PYTHON, gpu_mode, why_not
from gpu_run import HERE, OUT, Facts, Session, harness

sys.path.insert(0, str(HERE.parent / 'truth'))
import cases  # noqa: E402
import judging  # noqa: E402

PROGRAMS = HERE.parent / 'truth/programs'
STEPS_BEFORE = 60  # So that the slow-down through recording can be judged.
START_S, RUN_S = 90, 40


def slug(case):
    return re.sub(r'[^a-z0-9]+', '-', case.name.lower()).strip('-')


def judged(report, causes, traced, case):
    return judging.judge_findings(report, case.finds, case.allowed, case.size, judging.of_steps(
        causes, traced, report['step_count']), cases.AROUND)


class Program:
    """A program of tests/truth/programs below `profctl run`, which waits after its first steps."""

    def __init__(self, session, case):
        self.session, self.case = session, case
        self.truth = session.folder / f'{slug(case)}.truth'
        script, *arguments = case.program.split()
        self.log = OUT / 'logs' / f'cause-{slug(case)}.log'
        with open(self.log, 'w', encoding='utf-8') as log:
            self.process = session.start_below_profctl(
                [PYTHON, PROGRAMS / script, *arguments, '--truth', self.truth, '--wait', '--device',
                 DEVICE], stdin=subprocess.PIPE, stderr=log, cwd=session.folder)
        self.pid = self.process.pid

    def await_start(self):
        with gpu_run.time_limit(START_S, self.process):
            self.line = self.process.stdout.readline().strip()

    def run(self):
        """Returns (the capture, its report, what the program measured)."""
        if self.line != 'ready':
            raise RuntimeError('it did not begin: ' + self.log.read_text()[-600:])
        with gpu_run.time_limit(RUN_S, self.process):
            self.session.await_target(self.pid)
            self.process.stdin.write('\n')
            self.process.stdin.flush()
            self.session.await_target(self.pid, self.steps() + STEPS_BEFORE)
            traced = self.session.trace(self.pid, *self.case.trace.split(), '--gpu',
                                        gpu_mode('default'))
            if traced.get('state') != 'COMPLETE':
                raise RuntimeError(f'no capture: {traced}')
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()
        report = self.session.daemon.ctl('report', traced['id'], '--json').json
        return traced, report, json.loads(self.truth.read_text())['causes']

    def steps(self):
        targets = self.session.daemon.ctl('ps', '--json').json['targets']
        return next(t['current_step'] for t in targets if t['pid'] == self.pid)


def keep(session, case, traced, measured):
    """For causes_test.py: only what the judgement needs."""
    name = f'cause-{slug(case)}'
    session.keep(traced, name)
    kept = {key: traced[key] for key in ('start_unix_ns', 'steps')}
    kept['steps'] = [{key: step[key] for key in ('start_ns', 'duration_ns')} for step in kept['steps']]
    start_ns = kept['start_unix_ns']
    from_ns, to_ns = start_ns + kept['steps'][0]['start_ns'], start_ns + sum(
        kept['steps'][-1].values())
    causes = [cause for cause in measured if cause[1] >= from_ns and cause[0] <= to_ns]
    (OUT / 'captures' / f'{name}.json').write_text(json.dumps(
        {'case': case.name, 'causes': causes, 'capture': kept}) + '\n')


def run_case(facts, session, program):
    case, began = program.case, time.monotonic()
    try:
        traced, report, measured = program.run()
        keep(session, case, traced, measured)
        judgement = judged(report, measured, traced, case)
    except (RuntimeError, AssertionError, OSError, ValueError, KeyError, IndexError, StopIteration,
            subprocess.TimeoutExpired) as error:
        facts.invariant('the_case_ran', False, f'{type(error).__name__}: {error}'[-800:], case=case.name)
        program.process.kill()
        return
    facts.fact('capture', {key: traced.get(key) for key in ('quality', 'dropped_by_reason', 'gpu')},
               case=case.name)
    facts.fact('verdict', report['verdict'], case=case.name)
    facts.fact('findings', [{key: f.get(key) for key in (
        'rule', 'confidence', 'saving_ns_per_step', 'measured')} for f in report['findings'][:8]],
        case=case.name)
    facts.invariant('the_report_names_the_cause', judgement.is_right, {
        'outcome': judgement.outcome, 'first': judgement.first, 'reported': judgement.reported,
        'measured': judgement.measured, 'false_alarms': judgement.false_alarms,
        'seconds': round(time.monotonic() - began, 1)}, case=case.name)


def causes(facts):
    reason = why_not('torch')
    if reason:
        return facts.skip('causes', reason)
    wanted = os.environ.get('PROFD_GPU_CAUSES', '')  # Part of a case's name: only those.
    selected = [case for case in cases.CUDA if wanted in case.name]
    with Session(facts) as session:
        # All start at once, as imports take longest. Then they run alone, one after another: what
        # a program costs is judged.
        programs = [Program(session, case) for case in selected]
        for program in programs:
            program.await_start()
        for program in programs:
            run_case(facts, session, program)


if __name__ == '__main__':
    (OUT / 'logs').mkdir(parents=True, exist_ok=True)
    (OUT / 'captures').mkdir(parents=True, exist_ok=True)
    causes(Facts('causes'))
