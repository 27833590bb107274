"""The phases of run_on_gpu.sh that need torch or JAX: `gpu_frameworks.py PHASE`.

Each case is one deterministic training, in one process with torch.profiler and in another with a
capture, over the same step numbers.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import gpu_run
from gpu_run import BUILD, HERE, IS_STANDIN, OUT, Facts, Session, harness

DEVICE = os.environ.get('PROFD_GPU_DEVICE', 'cuda')
PYTHON = os.environ.get('PROFD_GPU_PYTHON', 'python3')
FIRST, LAST, STEPS = 40, 50, 75
SECOND = (60, 70)
# Totals may differ by 1 %, or by three times what two windows of torch.profiler differ by.
TOLERANCE, NOISE_FACTOR = 0.01, 3


def why_not(module):
    """Why a case cannot run here; empty: it can."""
    if IS_STANDIN:
        return 'the GPU is simulated'
    test = {'torch': 'import torch; assert torch.cuda.is_available()' if DEVICE == 'cuda'
            else 'import torch', 'jax': 'import jax; jax.devices("gpu")'}[module]
    done = subprocess.run([PYTHON, '-c', test], capture_output=True, text=True)
    return '' if done.returncode == 0 else f'{module} cannot use a GPU: {done.stderr[-300:]}'


class Job:
    """gpu_torch_job.py in a session's environment."""

    def __init__(self, session, name, case, *arguments, profd=False, env=None):
        self.session = session
        self.losses_path = session.folder / f'{name}.losses'
        self.log_path = OUT / 'logs' / f'job-{session.facts.phase}-{name}.log'
        python_path = [str(harness.SOURCE_DIR / 'client_lib/python'), os.environ.get('PYTHONPATH', '')]
        environment = {'PYTHONPATH': ':'.join(filter(None, python_path)),
                       'PROFD_CLIENT_LIB': str(BUILD / 'lib/libprofd_client.so'), **(env or {})}
        with open(self.log_path, 'w', encoding='utf-8') as log:
            self.process = session.start(
                [PYTHON, HERE / 'gpu_torch_job.py', '--case', case, '--device', DEVICE, '--losses',
                 self.losses_path, *arguments, *(['--profd'] if profd else [])],
                env=environment, stdin=subprocess.PIPE, stderr=log, cwd=session.folder)
        self.pid = self.process.pid

    def await_line(self, wanted):
        line = self.process.stdout.readline().strip()
        if line != wanted:
            raise RuntimeError(f'{line!r} instead of {wanted!r}: {self.log_path.read_text()[-600:]}')

    def go_on(self):
        self.process.stdin.write('\n')
        self.process.stdin.flush()

    def end(self):
        self.await_line('done')
        self.process.stdin.close()
        # A program that crashes while it ends is as bad as one that crashes before.
        return self.process.wait(60)

    def losses(self):
        return json.loads(self.losses_path.read_text())


def gpu_mode(mode):
    return mode if DEVICE == 'cuda' else 'off'


def await_armed(session, pid, tracing):
    def is_armed():
        captures = session.daemon.ctl('captures', '--json').json['captures']
        return tracing.process.poll() is not None or any(
            c['target']['pid'] == pid and c['state'] in ('WAITING_STEP', 'WARMUP') for c in captures)
    harness.until(is_armed, 'the capture waits for its step')


def captured(session, name, case, mode='default', pause=30, extra=(), env=None):
    """Runs the job with a capture of steps FIRST to LAST. Returns (capture, job, its status)."""
    job = Job(session, name, case, '--steps', str(STEPS), '--pause', str(pause), *extra, profd=True,
              env=env)
    job.await_line('paused')
    session.await_target(job.pid)
    tracing = harness.Tracing(session.daemon, '--pid', job.pid, '--start-step', FIRST, '--steps',
                              LAST - FIRST, '--gpu', gpu_mode(mode))
    await_armed(session, job.pid, tracing)
    job.go_on()
    result = tracing.result()
    status = job.end()
    try:
        return {**result.json, 'status': result.status}, job, status
    except ValueError:
        return {'refused': result.err.strip()}, job, status


def demangled(names):
    tool = shutil.which('c++filt') or shutil.which('cu++filt')
    if tool is None or not names:
        return dict(zip(names, names))
    done = subprocess.run([tool], input='\n'.join(names), capture_output=True, text=True)
    return dict(zip(names, done.stdout.splitlines()))


def by_plain_name(totals):
    plain = demangled(list(totals))
    merged = {}
    for name, (count, total_ns) in totals.items():
        row = merged.setdefault(plain[name], [0, 0])
        row[0] += count
        row[1] += total_ns
    return merged


def compare(facts, case, capture_totals, torch_totals, again):
    ours, theirs, theirs_again = map(by_plain_name, (capture_totals, torch_totals, again))
    different = {name: (ours.get(name, [0])[0], theirs.get(name, [0])[0])
                 for name in ours.keys() | theirs.keys()
                 if ours.get(name, [0])[0] != theirs.get(name, [0])[0]}
    facts.invariant('kernel_counts_equal_torch_profiler', bool(theirs) and not different,
                    {'kernels': len(theirs), 'ours_and_theirs': dict(list(different.items())[:20])},
                    case=case)
    off = {}
    for name in ours.keys() & theirs.keys():
        total, other = ours[name][1], theirs[name][1]
        noise = abs(theirs_again.get(name, [0, other])[1] - other) / max(other, 1)
        if abs(total - other) / max(other, 1) > max(TOLERANCE, NOISE_FACTOR * noise):
            off[name] = {'ours_ns': total, 'theirs_ns': other, 'noise': round(noise, 4)}
    whole = [sum(row[1] for row in t.values()) for t in (ours, theirs, theirs_again)]
    facts.fact('kernel_time_ns', whole, case=case)
    facts.invariant('kernel_totals_equal_torch_profiler', not off, dict(list(off.items())[:20]),
                    case=case)


def torch(facts):
    reason = why_not('torch')
    if reason:
        return facts.skip('torch', reason)
    cases = ('eager', 'sync', 'triton', 'nccl', 'graphs') if DEVICE == 'cuda' else ('eager', 'sync')
    for case in cases:
        with Session(facts) as session:
            try:
                one_case(facts, session, case)
            except (RuntimeError, AssertionError, OSError, ValueError) as error:
                facts.invariant('the_case_ran', False, str(error)[-800:], case=case)


def one_case(facts, session, case):
    first, second = session.folder / 'first', session.folder / 'second'
    # Started first, so that its imports run while the other one trains.
    profiled = Job(session, f'{case}-torch', case, '--steps', str(STEPS),
                   '--profile', f'{FIRST}:{LAST}:{first}',
                   '--profile', f'{SECOND[0]}:{SECOND[1]}:{second}')
    facts.invariant('ends_well', profiled.end() == 0, profiled.process.returncode, case=case,
                    profiler='torch')
    # Nodes of graphs are rows of their own only in full.
    capture, job, status = captured(session, f'{case}-profd', case,
                                    'full' if case == 'graphs' else 'default')
    facts.invariant('ends_well', status == 0, status, case=case, profiler='profd')
    facts.invariant('losses_are_bitwise_equal', job.losses() == profiled.losses(),
                    f'{len(job.losses())} losses', case=case)
    facts.invariant('captured', capture.get('state') == 'COMPLETE',
                    capture.get('refused') or capture.get('error_message') or capture['state'],
                    case=case)
    if capture.get('state') != 'COMPLETE':
        return
    facts.fact('capture', {key: capture.get(key) for key in (
        'gpu', 'quality', 'dropped_by_reason', 'clock_error_ns', 'covered_steps')}, case=case)
    session.keep(capture, f'torch-{case}')
    compare(facts, case, session.kernels(capture), json.loads(first.read_text()),
            json.loads(second.read_text()))


def order(facts):
    """torch.profiler before, during, and after a capture, and dynolog's variable."""
    reason = why_not('torch')
    if reason:
        return facts.skip('order', reason)
    cases = {'plain': ((), None),
             'before': (('--profile', '15:20:{}'), None),
             'during': (('--profile', '43:46:{}'), None),
             'after': (('--profile', '60:65:{}'), None),
             'kineto_daemon': ((), {'KINETO_USE_DAEMON': '1'})}

    def one(item):
        name, (extra, env) = item
        with Session(facts) as session:
            path = session.folder / 'profile'
            try:
                capture, job, status = captured(session, name, 'eager',
                                                extra=[part.format(path) for part in extra], env=env)
            except (RuntimeError, AssertionError, OSError, ValueError) as error:
                facts.invariant('the_program_goes_on', False, str(error)[-600:], order=name)
                return None
            facts.invariant('the_program_goes_on', status == 0, status, order=name)
            facts.fact('capture', {'state': capture.get('state'), 'ended_by': capture.get('ended_by'),
                                   'why': capture.get('refused') or capture.get('error_message'),
                                   'kernels': sum(row[0] for row in session.kernels(capture).values())
                                   if capture.get('state') == 'COMPLETE' else None}, order=name)
            if path.exists():
                totals = json.loads(path.read_text())
                facts.fact('kernels_of_torch_profiler', sum(row[0] for row in totals.values()),
                           order=name)
            return job.losses()
    losses = gpu_run.in_parallel(one, cases.items(), 3)
    facts.invariant('losses_are_bitwise_equal', len({json.dumps(row) for row in losses if row}) == 1,
                    [len(row or []) for row in losses])


def torch_overhead(facts):
    """Step times: recorded steps between others, then torch.profiler's for comparison."""
    reason = why_not('torch')
    if reason:
        return facts.skip('torch_overhead', reason)
    steps, window, gap = (1600, 20, 40) if DEVICE == 'cuda' else (300, 10, 20)
    with Session(facts) as session:
        times_path = session.folder / 'times'
        for mode in ('light', 'default', 'full'):
            job = Job(session, mode, 'eager', '--steps', str(steps), '--pause', '20', '--times',
                      times_path, profd=True)
            job.await_line('paused')
            session.await_target(job.pid)
            tracing = harness.Tracing(session.daemon, '--pid', job.pid, '--start-step', 60, '--steps',
                                      window, '--wait', gap, '--warmup', 5, '--repeat', 10, '--gpu',
                                      gpu_mode(mode))
            await_armed(session, job.pid, tracing)
            job.go_on()
            try:
                capture = tracing.result().json
            except ValueError as error:
                facts.fact('no_capture', str(error), mode=mode)
                capture = {}
            job.end()
            times = json.loads(times_path.read_text())
            inside = {k for w in capture.get('windows', ())
                      for k in range(w['first_step'], w['end_step'])}
            near = {k for k in range(len(times)) if inside and min(inside) - gap <= k < max(inside)}
            # Steps next to a window pay for kinds that go on and off.
            outside = {k for k in near if not inside & set(range(k - 8, k + 9))}
            if inside and outside:
                facts.fact('step_p50_ns', {
                    'recorded': statistics.median(times[k] for k in inside if k < len(times)),
                    'between': statistics.median(times[k] for k in outside),
                    'steps': [len(inside), len(outside)]}, mode=mode)
        profiles = [part for k in range(10) for part in (
            '--profile', f'{100 + 60 * k}:{120 + 60 * k}:{session.folder}/p{k}')]
        job = Job(session, 'kineto', 'eager', '--steps', '720', '--times', times_path, *profiles)
        job.end()
        times = json.loads(times_path.read_text())
        inside = [times[100 + 60 * k + i] for k in range(10) for i in range(20)]
        outside = [times[125 + 60 * k + i] for k in range(9) for i in range(30)]
        facts.fact('step_p50_ns', {'recorded': statistics.median(inside),
                                   'between': statistics.median(outside),
                                   'steps': [len(inside), len(outside)]}, mode='torch.profiler')


def jax(facts):
    reason = why_not('jax')
    if reason:
        return facts.skip('jax', reason)
    env = {'XLA_PYTHON_CLIENT_PREALLOCATE': 'false', 'XLA_FLAGS': '--xla_gpu_deterministic_ops=true'}
    with Session(facts) as session:
        plain = Job(session, 'plain', 'jax', '--steps', str(STEPS), env=env)
        facts.invariant('ends_well', plain.end() == 0, plain.process.returncode, profiler='none')
        capture, job, status = captured(session, 'profd', 'jax', 'full', env=env)
        facts.invariant('ends_well', status == 0, status, profiler='profd')
        facts.invariant('losses_are_bitwise_equal', job.losses() == plain.losses(),
                        f'{len(job.losses())} losses')
        facts.invariant('captured', capture.get('state') == 'COMPLETE',
                        capture.get('refused') or capture.get('error_message') or capture['state'])
        if capture.get('state') == 'COMPLETE':
            session.keep(capture, 'jax')
            kernels = session.kernels(capture)
            facts.invariant('jax_has_kernels', sum(row[0] for row in kernels.values()) > 0,
                            dict(list(kernels.items())[:10]))


PHASES = {f.__name__: f for f in (torch, order, torch_overhead, jax)}

if __name__ == '__main__':
    (pathlib.Path(OUT) / 'logs').mkdir(parents=True, exist_ok=True)
    PHASES[sys.argv[1]](Facts(sys.argv[1]))
