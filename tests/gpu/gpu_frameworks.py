"""The phases of run_on_gpu.sh that need torch or JAX: `gpu_frameworks.py PHASE`.

Each case is one deterministic training, in one process with torch.profiler and in another with a
capture, over the same step numbers. The one with a capture is started as users start theirs:
`profctl run -- python3 ...`.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import gpu_run
from gpu_run import HERE, IS_STANDIN, OUT, Facts, Session, harness

DEVICE = os.environ.get('PROFD_GPU_DEVICE', 'cuda')
PYTHON = os.environ.get('PROFD_GPU_PYTHON', 'python3')
FIRST, LAST, STEPS = 40, 50, 75
SECOND = (60, 70)
# Totals may differ by 3 %, as they come from two processes, between which the clocks of an H200
# differed by that much; or by three times what two windows of torch.profiler differ by.
TOLERANCE, NOISE_FACTOR = 0.03, 3
# And, on top, by what the GPU's timer does not see: its ticks are of 32 ns, at the start and at the end.
TICK_NS = 32


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
        # For its `import profd`: the package of a bundle is not installed.
        environment = {'PYTHONPATH': ':'.join(filter(None, python_path)), **(env or {})}
        start = session.start_below_profctl if profd else session.start
        with open(self.log_path, 'w', encoding='utf-8') as log:
            self.process = start(
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
    capture = capture_of(session, job, mode)
    return capture, job, job.end()


def capture_of(session, job, mode='default'):
    """A paused job goes on, with a capture of steps FIRST to LAST. Returns when that has ended."""
    session.await_target(job.pid)
    tracing = harness.Tracing(session.daemon, '--pid', job.pid, '--start-step', FIRST, '--steps',
                              LAST - FIRST, '--gpu', gpu_mode(mode))
    await_armed(session, job.pid, tracing)
    job.go_on()
    result = tracing.result()
    try:
        return {**result.json, 'status': result.status}
    except ValueError:
        return {'refused': result.err.strip()}


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
        allowed = other * max(TOLERANCE, NOISE_FACTOR * noise) + 2 * TICK_NS * ours[name][0]
        if abs(total - other) > allowed:
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
    with Session(facts) as session:
        # All start at once, as imports take longest, and wait before their first step. Then they go
        # on one after another: times of kernels are compared.
        jobs = {case: start_pair(session, case) for case in cases}
        for case, pair in jobs.items():
            try:
                with gpu_run.time_limit(60 if case == 'graphs' else 40, *(j.process for j in pair[1:])):
                    one_case(facts, session, case, *pair)
            except (RuntimeError, AssertionError, OSError, ValueError,
                    subprocess.TimeoutExpired) as error:
                facts.invariant('the_case_ran', False, str(error)[-800:], case=case)


def start_pair(session, case):
    """A job for torch.profiler and one for a capture; both pause before step 0."""
    paths = [session.folder / f'{case}.{name}' for name in ('first', 'second')]
    profiled = Job(session, f'{case}-torch', case, '--steps', str(STEPS), '--pause', '0',
                   '--profile', f'{FIRST}:{LAST}:{paths[0]}',
                   '--profile', f'{SECOND[0]}:{SECOND[1]}:{paths[1]}')
    ours = Job(session, f'{case}-profd', case, '--steps', str(STEPS), '--pause', '0', '--pause', '30',
               profd=True)
    return paths, profiled, ours


def one_case(facts, session, case, paths, profiled, job):
    profiled.await_line('paused')
    job.await_line('paused')
    profiled.go_on()
    facts.invariant('ends_well', profiled.end() == 0, profiled.process.returncode, case=case,
                    profiler='torch')
    job.go_on()
    job.await_line('paused')
    # Nodes of graphs are rows of their own only in full.
    capture = capture_of(session, job, 'full' if case == 'graphs' else 'default')
    status = job.end()
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
    ours = session.kernels(capture)
    total, orphans = sum(row[0] for row in ours.values()), capture['gpu']['orphan_count']
    if case == 'sync' and DEVICE == 'cuda':  # Elsewhere work of earlier launches is in the window.
        facts.invariant('kernels_have_a_call', total and orphans <= 0.01 * total,
                        {'kernels': total, 'without_call': orphans}, case=case)
    compare(facts, case, ours, *(json.loads(path.read_text()) for path in paths))


# ---- order

# Steps that torch.profiler records: before the capture (40 to 50), in it, and after it has ended.
BEFORE, AGAIN, DURING, AFTER, AFTER_AGAIN = (15, 20), (22, 27), (42, 47), (60, 65), (70, 75)
ORDER_STEPS = 80
ORDERS = {  # Name: (profiles, more arguments, environment)
    'plain': ((), (), None),
    'before': ((BEFORE,), (), None),
    'before_twice': ((BEFORE, AGAIN), (), None),
    'during': ((DURING,), (), None),
    # As above, and once more after it; and where torch.profiler was used before.
    'during_and_after': ((DURING, AFTER), (), None),
    'before_and_during': ((BEFORE, DURING), (), None),
    'after': ((AFTER, AFTER_AGAIN), (), None),
    'around': ((BEFORE, AFTER), (), None),
    'after_init': ((AFTER,), ('--init-profiler',), None),
    'kineto_daemon': ((), (), {'KINETO_USE_DAEMON': '1'}),
}


def profiled_counts(folder, name):
    """{first step: kernels} that torch.profiler has found."""
    counts = {}
    for path in sorted(folder.glob(f'{name}.profile.*')):
        if path.suffix != '.json':
            totals = json.loads(path.read_text())
            counts[int(path.suffix[1:])] = sum(row[0] for row in totals.values())
    return counts


def order_job(session, name, profiles, extra, env, profd=True):
    parts = [part for first, last in profiles for part in (
        '--profile', f'{first}:{last}:{session.folder}/{name}.profile.{first}')]
    # The second pause lasts until the capture has ended: "after" is after all of it.
    pauses = ('--pause', '30', '--pause', '55') if profd else ()
    return Job(session, name, 'eager', '--steps', str(ORDER_STEPS), *pauses, *parts, *extra,
               profd=profd, env=env)


def order_case(facts, name, profiles, extra, env):
    """Returns (capture, kernels of it, {first step: kernels of torch.profiler}, losses)."""
    with Session(facts) as session:
        try:
            job = order_job(session, name, profiles, extra, env)
            with gpu_run.time_limit(60, job.process):
                job.await_line('paused')
                capture = capture_of(session, job)
                job.await_line('paused')
                job.go_on()
                status = job.end()
        except (RuntimeError, AssertionError, OSError, ValueError,
                subprocess.TimeoutExpired) as error:
            facts.invariant('the_program_goes_on', False, str(error)[-600:], order=name)
            return None
        facts.invariant('the_program_goes_on', status == 0, status, order=name)
        kernels = None
        if capture.get('state') == 'COMPLETE':
            kernels = sum(row[0] for row in session.kernels(capture).values())
        facts.fact('capture', {'state': capture.get('state'), 'ended_by': capture.get('ended_by'),
                               'why': capture.get('refused') or capture.get('error_message'),
                               'dropped': capture.get('dropped_by_reason'), 'kernels': kernels},
                   order=name)
        return capture, kernels, profiled_counts(session.folder, name), job.losses()


def order_reference(facts):
    """Without profd: ({first step: kernels of torch.profiler}, losses)."""
    with Session(facts) as session:
        job = order_job(session, 'reference', (BEFORE, AGAIN, DURING, AFTER, AFTER_AGAIN), (), None,
                        profd=False)
        try:
            with gpu_run.time_limit(60, job.process):
                status = job.end()
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            facts.invariant('the_program_goes_on', False, str(error)[-600:], order='reference')
            return {}, []
        facts.invariant('the_program_goes_on', status == 0, status, order='reference')
        return profiled_counts(session.folder, 'reference'), job.losses()


def order(facts):
    """torch.profiler before, during, and after a capture. Each must record what it does alone."""
    reason = why_not('torch')
    if reason:
        return facts.skip('order', reason)
    items = [('reference', None), *ORDERS.items()]
    if DEVICE != 'cuda':  # Old versions of torch on a CPU lack what others need.
        items = [item for item in items if item[0] in (
            'reference', 'plain', 'around', 'during', 'during_and_after')]
    found = dict(zip((name for name, _ in items), gpu_run.in_parallel(
        lambda item: order_reference(facts) if item[0] == 'reference'
        else order_case(facts, item[0], *item[1]), items, 6)))
    wanted, losses = found.pop('reference')
    facts.fact('kernels_of_torch_profiler', wanted, order='reference')
    all_losses = [losses]
    per_step = {count / 5 for count in wanted.values()}
    for name, result in found.items():
        if result is None:
            continue
        capture, kernels, profiled, losses = result
        all_losses.append(losses)
        facts.fact('kernels_of_torch_profiler', profiled, order=name)
        expected = {first: wanted.get(first) for first, _ in ORDERS[name][0]}
        facts.invariant('torch_profiler_records_as_without_profd', profiled == expected and (
                            DEVICE != 'cuda' or all(expected.values())),
                        {'with': profiled, 'without': expected}, order=name)
        if DURING in ORDERS[name][0]:  # The capture may have to end, but it says why.
            facts.invariant('a_capture_beside_torch_profiler_is_explained',
                            capture.get('ended_by') or capture.get('refused'),
                            {key: capture.get(key) for key in (
                                'state', 'ended_by', 'error_message', 'refused')}, order=name)
            continue
        facts.invariant('an_idle_torch_profiler_prevents_no_capture',
                        capture.get('state') == 'COMPLETE',
                        capture.get('refused') or capture.get('error_message') or capture.get('state'),
                        order=name)
        if kernels is not None and DEVICE == 'cuda':
            facts.invariant('a_capture_has_the_kernels_of_torch_profiler',
                            {kernels / (LAST - FIRST)} == per_step,
                            {'kernels': kernels, 'steps': LAST - FIRST, 'per_step': sorted(per_step)},
                            order=name)
    facts.invariant('losses_are_bitwise_equal', len({json.dumps(row) for row in all_losses}) == 1,
                    [len(row) for row in all_losses])


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
