"""The phases of run_on_gpu.sh that ask what CUPTI and profd cost, and what cuptiFinalize() leaves:
`gpu_costs.py PHASE`.

Each compares states within one process, in turn, so that what drifts hits all of them. Rounds that
lost records are not counted. The states are those of cupti_states.h.
"""

import collections
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import gpu_frameworks
import gpu_run
from gpu_run import (BIN, FACTS_PROGRAM, HERE, IS_STANDIN, OUT, Facts, Session, cupti_versions,
                     in_parallel, run)

DEVICE, PYTHON = gpu_frameworks.DEVICE, gpu_frameworks.PYTHON
IS_GPU = DEVICE == 'cuda'
HELPER = BIN / 'libgpu_states.so'
# profd finalizes from this version on; before, graphs did not survive it.
FIRST_FINALIZED = (12, 6)


def version_of(label):
    """'12.8' as (12, 8); a library of the machine's own counts as 13.0."""
    try:
        return tuple(map(int, label.split('.')))
    except ValueError:
        return (13, 0)


def chosen_versions(*wanted):
    """Those of `wanted` that there are; the first of each group in it."""
    versions = dict(cupti_versions())
    found = [next((label for label in group if label in versions), None) for group in wanted]
    found = list(dict.fromkeys(label for label in found if label))
    return [(label, versions[label]) for label in found] or cupti_versions()[-1:]


def question(label, path, limit_s, *arguments):
    """Asks cupti_facts. Returns (status, [fact])."""
    status, out, err = run([FACTS_PROGRAM, '--cupti', path, '--label', label, *arguments], limit_s)
    lines = [line for line in out.splitlines() if line.endswith('}')]
    if err.strip():
        print(label, arguments, err.strip()[-500:], flush=True)
    return 'timeout' if status is None else status, [json.loads(line) for line in lines]


def ask(label, path, limit_s, *arguments):
    """As question(), and its facts are written."""
    status, found = question(label, path, limit_s, *arguments)
    gpu_run.append(''.join(json.dumps(fact) + '\n' for fact in found))
    return status, found


def values(facts, name):
    return [fact['value'] for fact in facts if fact['fact'] == name]


# ---- call_tax

def find_cudart():
    """The CUDA runtime that torch brings, or the toolkit's."""
    if IS_STANDIN:
        return []
    status, out, _ = run([PYTHON, '-c', 'import sys; print(*sys.path, sep="\\n")'], 10)
    folders = [os.path.join(folder, name) for folder in (out.split('\n') if status == 0 else [])
               for name in ('nvidia/cu13/lib', 'nvidia/cuda_runtime/lib')]
    for folder in [*folders, '/usr/local/cuda/lib64']:
        found = sorted(glob.glob(os.path.join(folder, 'libcudart.so.1?')))
        if found:
            return ['--cudart', found[-1]]
    return []


def call_tax(facts):
    """ns per call in each state: what CUPTI's hooks cost, and which state brings them."""
    cudart = find_cudart()
    facts.fact('cudart', cudart[1:] or None)
    seconds = 1 if IS_STANDIN else 8
    versions = cupti_versions() if IS_STANDIN else chosen_versions(
        ('13.0', 'toolkit', '13.1'), ('12.6',), ('13.5', '13.3'))

    def one(version):
        label, path = version
        status, found = ask(label, path, 30, *cudart, 'call_tax', f'seconds={seconds}')
        facts.fact('ended_with', status, cupti=label)
        by_state, drops = collections.defaultdict(list), 0
        for row in values(found, 'call_ns'):
            if row['round'] < 0:
                continue
            if row['dropped']:
                drops += 1
                continue
            state = row['state'] + ('/after_finalize' if row['after_finalize'] else '')
            by_state[state].append(row)
        facts.fact('rounds_with_drops', drops, cupti=label)
        none = {}
        for state, rows in by_state.items():
            ns = {call: round(statistics.median(r['ns'][call] for r in rows), 1)
                  for call in rows[0]['ns']}
            none = none or ns
            facts.fact('call_tax', {
                'ns': ns, 'more_than_none': {call: round(ns[call] - none[call], 1) for call in ns},
                'kernels_per_launch': round(sum(r['kernels'] for r in rows)
                                            / max(1, sum(r['launched'] for r in rows)), 3),
                'calls': sum(r['calls'] for r in rows), 'callbacks': sum(r['callbacks'] for r in rows),
                'results': sorted({r['entered'] for r in rows} | {r['failure'] for r in rows})},
                state=state, rounds=len(rows), cupti=label)
        facts.invariant('states_were_measured', len(by_state) > 10, len(by_state), cupti=label)
    # The most important one has the machine for itself; the others share it.
    one(versions[0])
    in_parallel(one, versions[1:], 2)


# ---- sessions and finalize: no times

def sessions(facts):
    """Kernels of many sessions while a thread launches: a later session must lose none."""
    count = 3 if IS_STANDIN else 20
    jobs = [(label, path, alone) for label, path in cupti_versions() for alone in (0, 1)]

    def one(job):
        label, path, alone = job
        status, found = ask(label, path, 40, 'sessions', f'count={count}', f'unsubscribed={alone}')
        rows = values(found, 'session_kernels')
        bad = [(r['session'], r['kernels'], r['dropped']) for r in rows
               if r['kernels'] != r['launched']]
        found = {'status': status, 'sessions': len(rows), 'incomplete': bad[:6],
                 'launched': rows[0]['launched'] if rows else None}
        if not alone:  # profd records without a subscription.
            return facts.fact('sessions_with_a_subscription', found, cupti=label)
        return facts.invariant('every_session_records_every_kernel',
                               status == 0 and len(rows) == count and not bad, found, cupti=label)
    in_parallel(one, jobs, 2 if IS_STANDIN else 6)


# By their numbers in cupti_cost.c. All without a subscription but `subscribed`.
ORDERS = ('as_now', 'kernel_first', 'kernel_again_after_5_ms', 'kernel_only', 'kernel_stays_on',
          'finalize_at_end', 'subscribed', 'shared_buffers', 'thread_buffers', 'heal',
          'paused_launcher', 'flush_around')
# CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER came with this version.
ATTRIBUTE_ORDERS, FIRST_ATTRIBUTE = ('shared_buffers', 'thread_buffers'), (12, 3)


def enable_order(facts):
    """In which order of calls a thread that launches while kinds go on keeps its records. On an H200
    it lost those of all its kernels, for whole sessions, at random per process. Only answers."""
    count, processes, seconds = (2, 1, 60) if IS_STANDIN else (12, 2, 42)
    versions = chosen_versions(('11.8',), ('12.1',), ('12.6',), ('12.9',), ('toolkit', '13.0'), ('13.1',))
    # The second process of each comes last: it is what may no longer fit.
    jobs = [(label, path, number, name, process) for process in range(processes)
            for number, name in enumerate(ORDERS) for label, path in versions
            if name not in ATTRIBUTE_ORDERS or version_of(label) >= FIRST_ATTRIBUTE]
    deadline = time.monotonic() + seconds
    left_out = []

    def one(job):
        label, path, number, name, process = job
        if time.monotonic() > deadline:
            left_out.append(job)
            return
        began = time.monotonic()
        status, found = question(label, path, 20 if IS_STANDIN else 3, 'enable_order',
                                 f'count={count}', f'variant={number}')
        rows = values(found, 'order_session')
        facts.fact('enable_order', {
            'status': status, 'sessions': len(rows),
            'lost': [(r['session'], r['missing']) for r in rows if r['missing']],
            'heals': [r['heals'] for r in rows] if name == 'heal' else 0,
            'dropped': sum(r['dropped'] for r in rows), 'failed': sum(r['failed'] for r in rows),
            'finalized': sorted({r['finalized'] for r in rows}),
            'others': [r['others'] for r in rows][:4],
            'set_up': values(found, 'order_set_up'), 's': round(time.monotonic() - began, 2)},
            cupti=label, variant=number, order=name, process=process)
    in_parallel(one, jobs, 2 if IS_STANDIN else 6)
    if left_out:
        facts.skip(f'{len(left_out)} of {len(jobs)} processes', 'no time is left')


def finalize(facts):
    """What sessions after cuptiFinalize() record, with graphs made before and after it."""
    jobs = [(label, path, graph, inside) for label, path in cupti_versions()
            for graph in (0, 1, 2) for inside in (0, 1)]

    def one(job):
        label, path, graph, inside = job
        status, found = ask(label, path, 20, 'finalize', 'sessions=3', f'graph={graph}',
                            f'inside={inside}')
        where = {'cupti': label, 'graph': ('none', 'before', 'after')[graph], 'inside': inside}
        counts = [(r['kernels'], r['launched']) for r in values(found, 'finalize_session')]
        results = [r['result'] for r in values(found, 'Finalize_result')]
        right = values(found, 'computes_right')
        good = (status == 0 and len(counts) == 3 and all(a == b for a, b in counts)
                and results == [0, 0, 0] and right in ([1], [-1]))
        detail = {'status': status, 'recorded_and_launched': counts, 'results': results,
                  'computes_right': right}
        if version_of(label) >= FIRST_FINALIZED or IS_STANDIN:
            facts.invariant('a_session_after_finalize_records_every_kernel', good, detail, **where)
        else:
            facts.fact('session_after_finalize', {**detail, 'good': good}, **where)
    in_parallel(one, jobs, 2 if IS_STANDIN else 6)


# ---- torch

class TorchJob:
    """gpu_torch_cost.py; with `session`, below `profctl run` as a target of its daemon."""

    def __init__(self, facts, name, *arguments, session=None):
        self.name = name
        self.log_path = OUT / 'logs' / f'job-{facts.phase}-{name}.log'
        command = [PYTHON, HERE / 'gpu_torch_cost.py', *arguments, '--device', DEVICE]
        with open(self.log_path, 'w', encoding='utf-8') as log:
            pipes = {'stdin': subprocess.PIPE, 'stderr': log, 'cwd': OUT}
            if session is not None:
                self.process = session.start_below_profctl(command, **pipes)
            else:
                self.process = subprocess.Popen([str(part) for part in command], text=True,
                                                stdout=subprocess.PIPE, **pipes)
        self.pid = None

    def await_ready(self):
        """False: it did not start."""
        words = self.process.stdout.readline().split()
        if len(words) != 2 or words[0] != 'ready':
            return False
        self.pid = int(words[1])
        return True

    def tell(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f'{self.name} ended: {self.log_path.read_text()[-600:]}')
        return json.loads(line)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def states_of(job, limit_s):
    """The lines of JSON of a job that measures states; it is killed after `limit_s`."""
    found = []
    try:
        with gpu_run.time_limit(limit_s, job.process):
            job.tell('go')
            for line in job.process.stdout:
                if line.startswith('{'):
                    found.append(json.loads(line))
                elif line.strip() == 'done':
                    break
    except (OSError, ValueError) as error:
        found.append({'fact': 'job_failed', 'value': str(error)})
    try:
        job.process.wait(10)
    except subprocess.TimeoutExpired:
        job.kill()
    return found


ALL_STATES = ('subscribed,kernel,kernel_callbacks,runtime,runtime_quiet,driver,default,off,'
              'unsubscribed,kernel_alone,default_alone')
SOME_STATES = 'default,off'
# Name, seconds, arguments. Attributes: 8 HOST_PINNED, 9 PER_THREAD_ACTIVITY_BUFFER (cupti_activity.h).
VARIANTS = (
    ('all', 15, ['--states', ALL_STATES, '--rounds', '3', '--last', 'finalized,default,off,finalized']),
    ('never_subscribed', 4, ['--states', 'kernel_alone,default_alone,unsubscribed', '--unsubscribed',
                             '--last', 'finalized']),
    ('host_pinned', 3, ['--states', SOME_STATES, '--attribute', '8:1:1']),
    ('per_thread_0', 3, ['--states', SOME_STATES, '--attribute', '9:1:0']),
    ('per_thread_1', 3, ['--states', SOME_STATES, '--attribute', '9:1:1']),
    ('buffer_512_kib', 3, ['--states', SOME_STATES, '--buffer-kib', '512']),
    ('buffer_8_mib', 3, ['--states', SOME_STATES, '--buffer-kib', '8192']),
)


def step_tax(facts):
    """Step times of a training of many launches in each state, and of variants of CUPTI's settings."""
    reason = gpu_frameworks.why_not('torch')
    if reason:
        return facts.skip('step_tax', reason)
    steps = '40' if IS_GPU else '3'
    # All start at once: imports take longer than the measurements. One after the other they go on.
    jobs = [(TorchJob(facts, name, 'states', '--helper', str(HELPER), '--steps', steps, '--seconds',
                      str(seconds), *arguments), seconds) for name, seconds, arguments in VARIANTS]
    try:
        with gpu_run.time_limit(50, *(job.process for job, _ in jobs)):
            ready = [job.await_ready() for job, _ in jobs]
        for (job, seconds), is_ready in zip(jobs, ready):
            if not is_ready:
                facts.fact('did_not_start', job.log_path.read_text()[-400:], variant=job.name)
                continue
            judge_states(facts, job.name, states_of(job, 3 * seconds + 10))
            facts.fact('ended_with', job.process.returncode, variant=job.name)
    finally:
        for job, _ in jobs:
            job.kill()


def judge_states(facts, variant, found):
    by_state, drops, none = collections.defaultdict(list), 0, None
    for row in found:
        if row['fact'] != 'block':
            facts.fact(row.pop('fact'), row.pop('value'), variant=variant, **row)
            continue
        facts.fact('block', round(row['p50_ns']), variant=variant, **{
            key: row[key] for key in ('state', 'round', 'entered', 'dropped')})
        if row['dropped']:
            drops += 1
            continue
        by_state[row['state']].append(row)
    for state, rows in by_state.items():
        p50 = statistics.median(r['p50_ns'] for r in rows)
        none = none or p50
        facts.fact('step_tax', {
            'p50_us': round(p50 / 1000, 1), 'of_none': round(p50 / none, 3),
            'more_us': round((p50 - none) / 1000, 1),
            **{key: round(statistics.median(r[key] for r in rows), 1)
               for key in ('kernels_per_step', 'calls_per_step', 'callbacks_per_step', 'quiet')}},
            state=state, variant=variant, rounds=len(rows))
    facts.fact('rounds_with_drops', drops, variant=variant)


# ---- host_cost, detach: profd as a user starts it

def traced(facts, session, job, steps, *arguments, counts_kernels=False, **labels):
    """A capture of `steps` steps: {'state', 'p50_ns' of its steps, …}."""
    capture = session.trace(job.pid, '--steps', steps, '--timeout', '10s', *arguments)
    durations = [row['duration_ns'] for row in capture.get('steps') or [] if row.get('duration_ns')]
    dropped = capture.get('dropped_by_reason')
    kernels = None
    if counts_kernels and capture.get('state') == 'COMPLETE':
        kernels = sum(row[0] for row in session.kernels(capture).values())
    row = {'state': capture.get('state'), 'dropped': dropped, 'kernels': kernels,
           'p50_ns': statistics.median(durations) if durations else None, 'steps': len(durations),
           'events': capture.get('event_count'),
           'why': capture.get('refused') or capture.get('error_message') or None}
    facts.fact('capture', row, **labels)
    return row


def say_ratios(facts, times, base='loaded'):
    medians = {name: statistics.median(rows) for name, rows in times.items() if rows}
    for name, p50 in medians.items():
        facts.fact('host_step', {'p50_us': round(p50 / 1000, 1), 'steps': len(times[name]),
                                 f'of_{base}': round(p50 / medians[base], 3) if base in medians
                                 else None}, state=name)
    return medians


class HostCost:
    """One process below `profctl run`, and what it did: {state: [step times in ns]}. It is killed
    after `limit_s`; then what was found until there is lost, but for the captures."""

    def __init__(self, facts, session, name, limit_s):
        self.facts, self.session = facts, session
        self.job = TorchJob(facts, name, 'job', session=session)
        self.captured = collections.defaultdict(list)
        self.limit = gpu_run.time_limit(limit_s, self.job.process)

    def __enter__(self):
        self.limit.__enter__()
        try:
            if not self.job.await_ready():
                raise RuntimeError(f'did not start: {self.job.log_path.read_text()[-500:]}')
            self.job.tell('go')
            self.session.await_target(self.job.pid)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        self.limit.__exit__(None, None, None)
        self.job.kill()

    def rest(self, label, seconds):
        self.job.tell(f'mark {label}')
        time.sleep(seconds)
        self.job.tell('mark ignored')

    def trace(self, name, steps, *arguments, **labels):
        self.job.tell('mark ignored')
        row = traced(self.facts, self.session, self.job, steps, *arguments, mode=name, **labels)
        if row['p50_ns'] and not row['dropped']:
            self.captured[name].append(row['p50_ns'])
        return row

    def kineto(self, name, steps, *flags):
        self.job.tell(' '.join(['kineto', name, str(steps), *flags]))
        return self.job.answer()

    def end(self):
        self.job.tell('end')
        times = self.job.answer()
        times.pop('ignored', None)
        for name, rows in self.captured.items():
            times.setdefault(name, []).extend(rows)
        return times


def gpu_arguments(mode):
    return ('--gpu', mode if IS_GPU else 'off')


def host_cost(facts):
    """profd's modes and torch.profiler in one process, each three times, in turn."""
    reason = gpu_frameworks.why_not('torch')
    if reason:
        return facts.skip('host_cost', reason)
    steps, rest_s = (40, 0.5) if IS_GPU else (3, 0.2)
    kineto_steps = steps // 2
    with Session(facts) as session, HostCost(facts, session, 'all', 75) as cost:
        cost.rest('loaded', 2 * rest_s)
        cost.trace('off', steps, '--gpu', 'off')
        for number in range(3):
            for mode in ('light', 'default', 'full'):
                cost.trace(mode, steps, *gpu_arguments(mode), round=number)
                if mode == 'default':
                    cost.trace('default_names', steps, *gpu_arguments(mode), '--ops', 'names',
                               round=number)
                # Before torch.profiler has run, and after: its hooks stay, too.
                cost.rest('between' if number == 0 else 'between_later', rest_s / 2)
            for name, flags in (('kineto', ()), ('kineto_shapes', ('shapes',))):
                answer = cost.kineto(name, kineto_steps, *flags)
                facts.fact('kineto', answer, round=number)
                if answer['seconds'] > 4:  # It digests its trace for long.
                    kineto_steps = max(3, kineto_steps // 2)
        cost.trace('off_again', steps, '--gpu', 'off')
        cost.rest('after', rest_s)
        medians = say_ratios(facts, cost.end())
    if {'default', 'kineto'} <= set(medians):
        facts.fact('default_of_torch_profiler', round(medians['default'] / medians['kineto'], 3))


def detach(facts):
    """Step times before, during, and after captures, with and without --gpu-detach. A capture after
    it must record as the first did."""
    reason = gpu_frameworks.why_not('torch')
    if reason:
        return facts.skip('detach', reason)
    steps, rest_s = (40, 0.7) if IS_GPU else (3, 0.2)
    flags = ('--gpu-detach',) if IS_GPU else ()
    with Session(facts) as session, HostCost(facts, session, 'detach', 50) as cost:
        cost.rest('loaded', rest_s)
        first = cost.trace('default', steps, *gpu_arguments('default'), counts_kernels=True)
        cost.rest('after_capture', rest_s)
        rows = []
        for number in range(2):
            rows.append(cost.trace('default_detached', steps, *gpu_arguments('default'), *flags,
                                   counts_kernels=True, round=number))
            cost.rest(f'after_detach_{number}', rest_s)
        last = cost.trace('default_again', steps, *gpu_arguments('default'), counts_kernels=True)
        medians = say_ratios(facts, cost.end())
    facts.invariant('a_capture_after_detach_is_complete',
                    all(row['state'] == 'COMPLETE' for row in (first, *rows, last)),
                    [row['why'] or row['state'] for row in (first, *rows, last)])
    if IS_GPU:
        facts.invariant('a_capture_after_detach_records_as_many_kernels',
                        first['kernels'] and len({r['kernels'] for r in (first, *rows, last)}) == 1,
                        [row['kernels'] for row in (first, *rows, last)])
        found = {name: medians.get(name) for name in ('loaded', 'after_capture', 'after_detach_0',
                                                      'after_detach_1')}
        if all(found.values()):
            facts.invariant('detaching_ends_the_cost', found['after_detach_1'] <= 1.1 * found['loaded'],
                            found)


PHASES = {f.__name__: f for f in (call_tax, sessions, enable_order, finalize, step_tax, host_cost,
                                  detach)}

if __name__ == '__main__':
    (pathlib.Path(OUT) / 'logs').mkdir(parents=True, exist_ok=True)
    PHASES[sys.argv[1]](Facts(sys.argv[1]))
