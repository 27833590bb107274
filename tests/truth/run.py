#!/usr/bin/env python3
"""Proves the conclusions of `profctl report` and `profctl stragglers`: captures programs whose cause
of slowness is known, and compares what is reported with what the program measured.

    run.py             the long form: all cases, quiet and next to two busy processes; prints the
                       table of README.md
    run.py --short     cases that have to be right on any machine, in less than four minutes

Exit codes: 0, all as expected; 1, a cause was missed that is not a known miss, or, in the long
form, a known miss was found each time; 77, nothing could run.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / 'e2e'), str(HERE.parent / 'client_lib/torch')]
import harness  # noqa: E402
import harness_torch  # noqa: E402

import cases  # noqa: E402
import judging  # noqa: E402

# Machines that build at the same time leave little to a program that imports torch.
harness.PATIENCE_S = max(harness.PATIENCE_S, 240)
CUPTI = harness.BUILD_DIR / 'lib/cupti_standin/13.0/libcupti.so.13'
BUSY_PROCESSES = 2
TRACE_ATTEMPTS = 3
WAITS = 0.03  # Of the time of a trace, without a CPU: something else runs on the machine.
LOADED = 2.5  # A load average, by core; four ranks on two cores have less.


class Skipped(Exception):
    """A program that cannot run here."""


class Program:
    """A program of programs/ under `profctl run`, as a user would start it."""

    def __init__(self, daemon, folder, case):
        script, *arguments = case.program.split()
        self._truth = folder / 'truth.json'
        environment = {
            **harness.environment(daemon.socket_dir), 'PROFD_CLIENT_LIB': str(harness.LIBRARY),
            'PYTHONPATH': str(harness.SOURCE_DIR / 'client_lib/python')}
        if not case.needs_torch:
            environment.update(PROFD_CUPTI_LIB=str(CUPTI), SGPU_TRUTH='0')
        self._log = open(folder / 'program.log', 'w+')
        self._process = subprocess.Popen(
            [harness.PROFCTL, 'run', '--socket-dir', daemon.socket_dir, '--',
             harness_torch.PYTHON, HERE / 'programs' / script, *arguments, '--truth', self._truth],
            env=environment, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            start_new_session=True)
        self.pid = self._process.pid

    def await_training(self, daemon, rank_count, steps):
        def trains():
            if self._process.poll() is not None:
                raise AssertionError('the program ended:\n' + self.log())
            targets = daemon.ctl('ps', '--json').json['targets']
            training = [t for t in targets if t['pid'] == self.pid or t['parent_pid'] == self.pid]
            training = [t for t in training if t['step_mark_count'] >= steps]
            return len(training) == rank_count
        harness.until(trains, 'the program trains; its output:\n' + self.log())

    def log(self):
        self._log.seek(0)
        return self._log.read()[-2000:]

    def end(self):
        """Ends it; returns what it measured, by rank (0 for a program without ranks)."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(harness.PATIENCE_S)
        measured = {}
        for path in self._truth.parent.glob(self._truth.name + '*'):
            rank = path.name[len(self._truth.name) + 1:]
            if rank != 'new':
                measured[int(rank or 0)] = json.loads(path.read_text())['causes']
        return measured

    def close(self):
        for pid in [*harness_torch.descendants(self.pid), self.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait()
        self._log.close()


def ask(daemon, *arguments):
    result = daemon.ctl(*arguments, '--json')
    if result.status != harness.DONE:
        raise AssertionError(f'profctl {" ".join(map(str, arguments))}: {result.err or result.out}')
    return result.json


def trace(daemon, program, case):
    """Asks again, as a user does, when ranks had passed the step at which all were to start."""
    for _ in range(TRACE_ATTEMPTS - 1):
        try:
            return ask(daemon, 'trace', '--pid', program.pid, *case.trace.split())
        except AssertionError as error:
            if 'ask for a later one' not in str(error):
                raise
    return ask(daemon, 'trace', '--pid', program.pid, *case.trace.split())


def waited_ns(pid):
    """How long the main thread of a process has been ready to run, but without a CPU."""
    return int(pathlib.Path(f'/proc/{pid}/task/{pid}/schedstat').read_text().split()[1])


def run_case(daemon, case, load, verbose):
    """Captures the program of `case` once, and judges what is reported."""
    if case.needs_torch and harness_torch.VERSION is None:
        raise Skipped(f'{harness_torch.PYTHON} has no torch')
    if case.needs_torch and harness_torch.VERSION[0] < case.torch:
        raise Skipped(f'it needs PyTorch {case.torch[0]}.{case.torch[1]}; '
                      f'{harness_torch.PYTHON} has {harness_torch.VERSION[1]}')
    if not case.needs_torch and not CUPTI.exists():
        raise Skipped(f'{CUPTI} is not built')
    folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_truth_'))
    try:
        program = Program(daemon, folder, case)
        try:
            program.await_training(daemon, case.ranks or 1, case.before)
            start_ns, waited_before_ns = time.monotonic_ns(), waited_ns(program.pid)
            traced = trace(daemon, program, case)
            waited = (waited_ns(program.pid) - waited_before_ns) / (time.monotonic_ns() - start_ns)
            causes = program.end()
        finally:
            program.close()
        if case.ranks:
            stragglers = ask(daemon, 'stragglers', traced['group'])
            measured = {rank: judging.of_steps(causes[rank], capture, len(capture['steps']))
                        for rank, capture in ranks_of(traced)}
            judgement = judging.judge_ranks(stragglers, case.slow, measured, case.more,
                                            load == 'busy' or waited > WAITS)
            if verbose:
                print(json.dumps(stragglers, indent=1), measured)
            return judgement
        report = ask(daemon, 'report', traced['id'])
        if verbose:
            print(report['verdict'])
            for finding in report['findings']:
                print('   ', finding['rule'], finding['confidence'], finding['saving_ns_per_step'],
                      finding['measured'])
        return judging.judge_findings(report, case.finds, case.allowed, case.size,
                                      judging.of_steps(causes[0], traced, report['step_count']),
                                      cases.AROUND if load == 'busy' or waited > WAITS else ())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ranks_of(traced):
    return [(int(capture['target']['metadata']['rank']), capture)
            for capture in traced['captures']]


class Load:
    """Processes that compute, next to the program."""

    def __init__(self, count):
        self._processes = [subprocess.Popen([sys.executable, '-c', 'while True: pass'])
                           for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._processes:
            process.kill()
            process.wait()


def amount(case, number):
    if case.bytes:
        return f'{number / (1 << 20):.2f} MiB'
    if case.share:
        return f'{number:.0%}'
    if case.number:
        return f'{number:.1f}'
    return f'{number / 1e6:.2f} ms'


def row(case, load, judgement, runs):
    right = sum(j.is_right for j in runs)
    expected = ' or '.join(case.finds) or ', '.join(f'rank {rank}' for rank in case.slow) or '-'
    sizes = '-'
    if judgement.measured:
        sizes = f'{amount(case, judgement.reported)} / {amount(case, judgement.measured)}'
    result = judgement.outcome + (f' ({judgement.detail})' if judgement.detail else '')
    if case.known_miss:
        result = f'**known miss**: {result}'
    return (f'| {case.name} | {load} | {expected} | {judgement.first} | {sizes} | '
            f'{", ".join(judgement.false_alarms) or "-"} | {result}; {right} of {len(runs)} |')


def is_acceptable(judgement, load):
    # Ranks that share their cores with other processes differ by noise: to say so is right.
    is_loaded = load == 'busy' or os.getloadavg()[0] > LOADED * len(os.sched_getaffinity(0))
    return judgement.is_right or (judgement.outcome == judging.WITHHELD and is_loaded)


def machine():
    model = next((line.split(':')[1].strip() for line in open('/proc/cpuinfo')
                  if line.startswith('model name')), 'unknown CPU')
    version = harness_torch.VERSION[1] if harness_torch.VERSION else 'none'
    return f'{len(os.sched_getaffinity(0))} cores, {model}, PyTorch {version}'


def print_table(rows, loads_before):
    print(f'\n{datetime.date.today()}, {machine()}; load average {loads_before[0]:.1f} before, '
          f'{os.getloadavg()[0]:.1f} after.\n')
    print('| Program | Load | Expected first | Reported first | Size per step: reported / measured '
          '| False alarms | Result; runs that are right |\n| --- | --- | --- | --- | --- | --- | --- |')
    print('\n'.join(rows))


class Session:
    """All cases that were asked for, against one daemon."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.rows, self.wrong, self.skipped = [], [], {}
        self.outcomes = collections.Counter()

    def selected(self):
        return [case for case in cases.CASES
                if (case.short or not self.arguments.short)
                and all(word in case.name for word in self.arguments.k)]

    def run(self, daemon):
        for load in self.arguments.loads:
            with Load(BUSY_PROCESSES if load == 'busy' else 0):
                for case in self.selected():
                    self.run_case(daemon, case, load)

    def run_case(self, daemon, case, load):
        runs = []
        for _ in range(self.arguments.runs):
            try:
                runs.append(run_case(daemon, case, load, self.arguments.verbose))
            except Skipped as skipped:
                self.skipped[case.name] = str(skipped)
                return
        # The worst one is shown.
        shown = next((j for j in runs if not is_acceptable(j, load)), runs[0])
        self.outcomes.update(j.outcome for j in runs)
        self.rows.append(row(case, load, shown, runs))
        print(self.rows[-1], flush=True)
        if case.known_miss:
            if all(j.is_right for j in runs) and not self.arguments.short:
                self.wrong.append(f'{case.name}, {load}: a known miss is found; change its row')
        elif not is_acceptable(shown, load):
            self.wrong.append(f'{case.name}, {load}: {shown}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--short', action='store_true', help='only the cases that are always right')
    parser.add_argument('--loads', nargs='+', choices=('quiet', 'busy'), default=('quiet', 'busy'))
    parser.add_argument('--runs', type=int, default=1, help='how often each case runs')
    parser.add_argument('-k', action='append', default=[], metavar='WORD',
                        help='only cases whose name contains it; repeatable')
    parser.add_argument('--verbose', action='store_true', help='also print the findings')
    arguments = parser.parse_args()

    loads_before = os.getloadavg()
    session = Session(arguments)
    folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_truth_daemon_'))
    daemon = harness.Daemon(folder)
    try:
        session.run(daemon.start())
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if not arguments.short:
        print_table(session.rows, loads_before)
    print(dict(session.outcomes))
    for name, reason in session.skipped.items():
        print(f'SKIP: {name}: {reason}')
    for wrong in session.wrong:
        print('WRONG:', wrong)
    if not session.rows:
        return 77
    return 1 if session.wrong else 0


if __name__ == '__main__':
    sys.exit(main())
