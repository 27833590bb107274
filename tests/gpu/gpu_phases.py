"""The phases of run_on_gpu.sh that need no framework: `gpu_phases.py PHASE`."""

import json
import os
import pathlib
import platform
import re
import shutil
import signal
import statistics
import sys
import time

import gpu_assumptions
import gpu_run
from gpu_run import (BUILD, FACTS_PROGRAM, IS_STANDIN, OUT, REPLAY, Facts, Session,
                     cupti_versions, in_parallel, main_cupti, run)

SKIPPED = 77
ENDED_WELL = 0


# ---- inventory

def inventory(facts):
    facts.fact('standin', IS_STANDIN)
    facts.fact('machine', {'kernel': platform.release(), 'libc': platform.libc_ver()[1],
                           'cpus': os.cpu_count(), 'python': platform.python_version()})
    needed = BUILD / 'needs_glibc'
    if needed.exists():
        wanted, have = needed.read_text().strip(), platform.libc_ver()[1]
        as_numbers = [tuple(map(int, v.split('.'))) for v in (wanted, have)]
        facts.invariant('glibc_is_new_enough', as_numbers[0] <= as_numbers[1],
                        f'the bundle needs {wanted}, the machine has {have}')
    for label, path in cupti_versions():
        facts.fact('cupti_library', str(path.name), cupti=label)
    if IS_STANDIN:
        return facts.skip('nvidia-smi, torch, jax', 'the GPU is simulated')
    status, out, err = run(['nvidia-smi', '--query-gpu=name,driver_version,memory.total,compute_mode,'
                            'mig.mode.current,clocks.max.sm', '--format=csv,noheader'], 10)
    facts.fact('nvidia_smi', (out or err).strip(), status=status)
    packages = {}
    from importlib import metadata
    for name in ('torch', 'triton', 'jax', 'jaxlib', 'nvidia-cuda-cupti', 'nvidia-cuda-cupti-cu12'):
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = None
    facts.fact('packages', packages)
    maps = 'print(*sorted({l.split()[-1] for l in open("/proc/self/maps") if "libcupti" in l}))'
    for module, use in (('torch', 'torch.zeros(1, device="cuda")'), ('jax', 'jax.numpy.zeros(1)')):
        status, out, err = run(['python3', '-c', f'import {module}; {use}; {maps}'], 40)
        facts.fact('libcupti_mapped', out.strip() or err[-300:], module=module, status=status)


# ---- cupti_facts

def ask(facts, job):
    label, path, group, options, env = job
    limit_s = 30 if group == 'session' else 15
    # Just before the limit it says where it hangs.
    status, out, err = run([FACTS_PROGRAM, '--cupti', path, '--label', label, *options[0], group,
                            *options[1]], limit_s,
                           env={**(env or {}), 'CUPTI_FACTS_LIMIT_S': str(limit_s - 2)})
    # Whole lines only: the process may have been killed in the middle of one.
    gpu_run.append(''.join(line + '\n' for line in out.splitlines() if line.endswith('}')))
    facts.fact('ended_with', 'timeout' if status is None else status, cupti=label, group=group,
               options=options[1], stderr=err[-300:], env=env)
    return status, out


def ask_all(facts, jobs, workers):
    return in_parallel(lambda job: ask(facts, job), jobs, workers)


def cupti_sessions(facts):
    """Times of CUPTI's calls, so few processes at once."""
    answers = ask_all(facts, [(label, path, 'session', ([], []), None)
                              for label, path in cupti_versions()], 2)
    facts.invariant('a_session_works', any(status == ENDED_WELL for status, _ in answers),
                    f'{sum(s == ENDED_WELL for s, _ in answers)} of {len(answers)} versions')


def cupti_facts(facts):
    none = ([], [])
    jobs = []
    for label, path in cupti_versions():
        jobs += [(label, path, group, none, None)
                 for group in ('calls', 'inflight', 'syncs', 'unsubscribed', 'v1_under_v2')]
        jobs += [(label, path, 'inflight', ([], ['forced=1']), None),
                 (label, path, 'unsubscribed', ([], ['rival=1']), None)]
        jobs += [(label, path, 'devices', none, {'CUDA_VISIBLE_DEVICES': visible})
                 for visible in ('', '0')]
        # What the operations of these records mean decides whether captures can use them.
        if gpu_assumptions.number(label) >= (13, 1):
            jobs += [(label, path, 'switches', ([], [f'neighbor={n}']), None) for n in (0, 1)]
        copy = OUT / 'scratch' / label / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
        jobs += [(label, path, 'two', (['--second', str(copy)], []), None)]
    answers = ask_all(facts, jobs, 2 if IS_STANDIN else 6)
    facts.invariant('cupti_answers', any(status == ENDED_WELL for status, _ in answers),
                    f'{sum(s == ENDED_WELL for s, _ in answers)} of {len(answers)} groups ended well')


def graph_jobs(versions):
    """Each question for each version; captures of streams, which matter less, for three."""
    few = [v for v in versions if v[0] in ('12.4', '13.0', 'toolkit', '13.3')][:3] or versions[:3]
    for label, path in versions:
        for before in (0, 1):
            for trace in (0, 1):
                for capturing in (0, 1) if (label, path) in few else (0,):
                    yield (label, path, 'graph', ([], [
                        f'before={before}', f'trace={trace}', 'copies=1', 'again=1',
                        f'capturing={capturing}']), None)


def graphs(facts):
    jobs = list(graph_jobs(cupti_versions()))
    for job, (status, out) in zip(jobs, ask_all(facts, jobs, 2 if IS_STANDIN else 6)):
        where = {'cupti': job[0], 'options': job[3][1]}
        right = re.search(r'"computes_right", "value": (-?\d)', out)
        if right is None:
            facts.fact('graph_case_did_not_end', status, **where)
        else:
            facts.invariant('a_graph_computes_the_same_while_it_is_traced', right.group(1) != '0',
                            right.group(1), **where)
        if 'trace=1' in job[3][1]:
            continue  # profd does not turn GRAPH_TRACE on: what it does is an answer.
        rows = [json.loads(row) for row in re.findall(r'"graph_rows", "value": (\{[^}]*\})', out)]
        # Copies and memsets of a graph may come as kernels. CUPTI 11.8 hangs in the flush of a second
        # session with a graph that is older than the first (also without profd).
        if job[0] == '11.8' and {'before=1', 'again=1'} <= set(job[3][1]):
            facts.fact('rows_of_older_graphs', status, **where)
            continue
        facts.invariant('nodes_of_graphs_have_rows', status == ENDED_WELL and len(rows) == 2 and all(
            r['kernels'] >= r['nodes'] and r['named'] == r['nodes'] and r['with_call'] == r['kernels']
            for r in rows), [{key: r[key] for key in (
                'session', 'nodes', 'kernels', 'named', 'with_call')} for r in rows] or status, **where)


def clock(facts):
    jobs = [(label, path, 'clock', ([], []), None) for label, path in cupti_versions()]
    for (label, *_), (status, out) in zip(jobs, ask_all(facts, jobs, 1)):
        outside = re.search(r'"start_outside_what_the_host_saw", "value": (\{[^}]*\})', out)
        if outside is None:
            facts.skip(f'clock of {label}', 'no stamps: the GPU is simulated'
                       if IS_STANDIN else f'ended with {status}')
            continue
        found = json.loads(outside.group(1))
        worst = max(found['most_ns'], found['most_late_ns'])
        # A capture reports clock_error_ns; its bound for grade A is 1 us.
        facts.invariant('kernels_start_between_launch_and_sight', worst <= 1000, found, cupti=label)


# ---- captures

STEPS, KERNELS = 3, 10


def smoke_one(facts, session, label, cupti, mode):
    where = {'cupti': label, 'mode': mode}
    dump = OUT / 'dumps' / f'{label}-{mode}'
    try:
        job = session.job('busy', '--lead-ms', '0', '--step-ms', '20', '--kernels', KERNELS,
                          cupti=cupti, env={'PROFD_CUPTI_DUMP': str(dump)})
        session.await_target(job.pid, steps=2)
        capture = session.trace(job.pid, '--steps', STEPS, '--gpu', mode)
        alive = job.poll() is None
        job.send_signal(signal.SIGTERM)
        status = job.wait(30)
    except (RuntimeError, AssertionError, OSError) as error:
        return facts.fact('no_capture', str(error)[-500:], **where)
    facts.invariant('the_program_computes_the_same', alive and status == 0,
                    f'alive {alive}, status {status}', **where)
    if capture.get('state') != 'COMPLETE':
        # A version that this driver refuses is an answer; it must have a reason.
        why = capture.get('refused') or capture.get('error_message')
        return facts.invariant('a_refusal_has_a_reason', bool(why), why, **where)
    facts.fact('gpu_of_capture', capture.get('gpu'), **where)
    facts.invariant('nothing_is_lost', capture['dropped_event_count'] == 0,
                    capture['dropped_by_reason'], **where)
    found = session.kernels(capture)
    wanted = {'profd_spin': STEPS * KERNELS, 'profd_saxpy': STEPS * KERNELS}
    counts = {name: found.get(name, (0, 0))[0] for name in wanted}
    if mode == 'light':  # No calls: work is in the window by its time.
        facts.invariant('light_has_kernels', all(counts.values()), counts, **where)
    else:
        facts.invariant('every_kernel_is_counted', counts == wanted, counts, **where)
        total, orphans = sum(counts.values()), capture['gpu']['orphan_count']
        facts.invariant('kernels_have_a_call', total and orphans <= 0.01 * total,
                        {'kernels': total, 'without_call': orphans}, **where)
    if label == main_cupti()[0]:
        session.keep(capture, f'smoke-{mode}')
    return None


def smoke(facts):
    """Each version, each mode: the counts are known. Keeps the raw buffers."""
    (OUT / 'dumps').mkdir(exist_ok=True)
    with Session(facts) as session:
        def one_version(version):
            for mode in ('light', 'default', 'full'):
                smoke_one(facts, session, *version, mode)
        in_parallel(one_version, cupti_versions(), 1 if IS_STANDIN else 3)
    dumps = sorted((OUT / 'dumps').glob('*.[0-9]*.[0-9]*'))
    # Without one capture this phase has shown nothing.
    facts.invariant('a_capture_was_made', bool(dumps), f'{len(dumps)} dumps')
    for dump in dumps:
        status, out, err = run([REPLAY, dump], 20)
        facts.invariant('a_dump_decodes_the_same', status == 0, (out or err).strip()[-700:],
                        dump=dump.name)


GRAPH_KERNELS = 4  # Of gpu_job's graph.


def replays_of(facts, session, label, cupti, mode):
    where = {'cupti': label, 'mode': mode}
    wanted = STEPS * (KERNELS + GRAPH_KERNELS)
    try:
        job = session.job('busy', '--lead-ms', '0', '--step-ms', '20', '--kernels', KERNELS,
                          '--graph', '1', cupti=cupti)
        with gpu_run.time_limit(110, job):
            session.await_target(job.pid, steps=2)
            captures = []
            while len(captures) < 3 and (not captures or captures[-1].get('state') == 'COMPLETE'):
                captures.append(session.trace(job.pid, '--steps', STEPS, '--gpu', mode))
            alive = job.poll() is None
            job.send_signal(signal.SIGTERM)
            status = job.wait()
    except (RuntimeError, AssertionError, OSError) as error:
        return facts.invariant('a_program_with_a_graph_goes_on', False, str(error)[-500:], **where)
    facts.invariant('a_program_with_a_graph_goes_on', alive and status == 0,
                    f'alive {alive}, status {status}', **where)
    for number, capture in enumerate(captures):
        answer = {key: capture.get(key) for key in (
            'state', 'refused', 'error_message', 'dropped_by_reason')}
        if capture.get('state') != 'COMPLETE':
            facts.invariant('a_refusal_has_a_reason',
                            bool(answer['refused'] or answer['error_message']
                                 or answer['dropped_by_reason']),
                            answer, capture=number, **where)
            continue
        count = session.kernels(capture).get('profd_spin', (0, 0))[0]
        lost, problem = capture['dropped_event_count'], capture['gpu'].get('problem')
        # CUPTI 11.8 hangs in a flush, also without profd; then the capture has to say so.
        facts.invariant('kernels_of_an_older_graph_are_recorded_or_lost',
                        bool(problem) and label == '11.8' or (count > 0 if mode == 'light'
                                    else count == wanted or 0 < wanted - count <= lost),
                        {**answer, 'kernels': count, 'wanted': wanted, 'problem': problem},
                        capture=number, **where)


def replays(facts):
    """A program with a CUDA graph that is older than the capture: each version, each mode, three
    captures in a row."""
    with Session(facts) as session:
        def one_version(version):
            for mode in ('default',) if IS_STANDIN else ('light', 'default', 'full'):
                replays_of(facts, session, *version, mode)
        in_parallel(one_version, cupti_versions(), 1 if IS_STANDIN else 4)


def drain(facts):
    """C1: a CPU that is ahead of its GPU."""
    step_ms, kernels, steps = (50, 10, 2) if IS_STANDIN else (200, 10, 2)
    with Session(facts) as session:
        for lead_ms in ((0, 200) if IS_STANDIN else (0, 400, 2000, 5000)):
            job = session.job('busy', '--lead-ms', lead_ms, '--step-ms', step_ms, '--kernels', kernels)
            session.await_target(job.pid, steps=2)
            began = time.monotonic()
            capture = session.trace(job.pid, '--steps', steps)
            took = time.monotonic() - began
            job.send_signal(signal.SIGTERM)
            where = {'lead_ms': lead_ms}
            facts.fact('seconds', round(took, 2), **where)
            facts.invariant('drained', capture.get('state') == 'COMPLETE', capture.get(
                'error_message') or capture.get('refused') or capture.get('state'), **where)
            if capture.get('state') == 'COMPLETE':
                count = session.kernels(capture).get('profd_spin', (0, 0))[0]
                facts.invariant('no_work_of_the_window_is_lost',
                                capture['dropped_event_count'] == 0 and count == steps * kernels,
                                {'dropped': capture['dropped_by_reason'], 'kernels': count,
                                 'launched': steps * kernels}, **where)
                # Of two kinds of kernels, as many of each: what is missing must be a loss.
                both = sum(session.kernels(capture).get(name, (0, 0))[0]
                           for name in ('profd_spin', 'profd_saxpy'))
                facts.invariant('work_of_the_window_is_counted_or_lost',
                                both + capture['dropped_event_count'] >= 2 * steps * kernels,
                                {'kernels': both, 'launched': 2 * steps * kernels,
                                 'dropped': capture['dropped_event_count'],
                                 'after_window': capture['gpu']['after_window_count'],
                                 'before_window': capture['gpu']['before_window_count']}, **where)
            facts.invariant('the_program_goes_on', job.wait(60) == 0, job.returncode, **where)


# ---- overhead

def batches_until(job, end_s):
    """(time, ns per launch) of what gpu_job prints until `end_s`."""
    rows = []
    while time.monotonic() < end_s:
        line = job.stdout.readline()
        if not line:
            break
        row = json.loads(line)
        rows.append((row['at_ns'], row['launch_ns']))
    return rows


def overhead(facts):
    """ns per launch: p50 of batches. Each state several times, in turn: what drifts hits all. Rounds
    that lost records do not count."""
    window_s, rounds = (0.3, 2) if IS_STANDIN else (0.7, 4)
    losses = []
    found = {}

    def note(state, rows, begin_ns, end_ns):
        # What was printed within the state, not around it.
        found.setdefault(state, []).extend(v for at, v in rows if begin_ns < at < end_ns)

    with Session(facts) as session:
        plain = session.job('launches', profd=False)
        loaded = session.job('launches')
        session.await_target(loaded.pid, steps=1)

        def only(job, state):
            other = loaded if job is plain else plain
            other.send_signal(signal.SIGSTOP)
            begin = time.monotonic_ns()
            note(state, batches_until(job, time.monotonic() + window_s), begin, time.monotonic_ns())
            other.send_signal(signal.SIGCONT)

        def recorded(mode):
            plain.send_signal(signal.SIGSTOP)
            tracing = gpu_run.harness.Tracing(session.daemon, '--pid', loaded.pid, '--duration',
                                              f'{int(window_s * 1000)}ms', '--gpu', mode,
                                              '--buffer', '256MiB')
            rows = []
            while tracing.process.poll() is None:
                rows += batches_until(loaded, time.monotonic() + 0.05)
            capture = json.loads(tracing.process.stdout.read() or b'{}')
            tracing.process.stdout.close()
            tracing.process.stderr.close()
            plain.send_signal(signal.SIGCONT)
            if not capture.get('start_unix_ns'):
                return facts.fact('no_capture', capture.get('error_message'), mode=mode)
            # The capture is in wall time, the batches in monotonic time.
            shift = time.monotonic_ns() - time.time_ns()
            begin = capture['start_unix_ns'] + shift
            losses.append((mode, capture['dropped_by_reason']))
            if not capture['dropped_by_reason']:
                note(mode, rows, begin, begin + capture['covered_ns'])

        for _ in range(rounds):
            only(plain, 'none')
            only(loaded, 'after' if losses else 'loaded')
            for mode in ('light', 'default', 'full'):
                recorded(mode)
        only(loaded, 'after')
        for job in (plain, loaded):
            job.send_signal(signal.SIGTERM)
    medians = {state: round(statistics.median(values), 1) for state, values in found.items() if values}
    for state, values in found.items():
        facts.fact('launch_ns', medians.get(state), state=state, batches=len(values),
                   p90=round(sorted(values)[len(values) * 9 // 10], 1) if values else None)
    lossy = [(mode, lost) for mode, lost in losses if lost]
    if IS_STANDIN:  # Its machine may be too slow to write records as fast as they come.
        facts.fact('timed_rounds_with_losses', lossy)
    else:
        facts.invariant('timed_rounds_lose_no_records', not lossy, lossy)
    # Promise 1: no measurable cost without a capture. `none` and `loaded` are two processes, which
    # differed by 6 % on an H200 from noise alone: 10 % is what they can show.
    for state, name, most in (('loaded', 'no_cost_without_a_capture', 1.10),
                              ('after', 'no_cost_after_a_capture', 1.05)):
        if not IS_STANDIN and {'none', state} <= set(medians):
            facts.invariant(name, medians[state] <= most * medians['none'], medians)


# ---- end of life

def await_recording(session, job, tracing):
    def is_recording():
        captures = session.daemon.ctl('captures', '--json').json['captures']
        return tracing.process.poll() is not None or any(
            c['target']['pid'] == job.pid and c['state'] == 'RECORDING' for c in captures)
    gpu_run.harness.until(is_recording, 'the window opens')


def endings(facts):
    """How a program ends must not change through profd, with and without an open window."""
    times = 2 if IS_STANDIN else 10
    steps = 30
    with Session(facts) as session:
        for how in ('exit', '_exit', 'abort', 'term', 'kill', 'fork'):
            bare = session.job('end', how, '--steps', steps, profd=False).wait(30)

            def once(window, how=how):
                job = session.job('end', how, '--steps', 0 if window else steps)
                tracing = None
                if window:
                    session.await_target(job.pid)
                    tracing = gpu_run.harness.Tracing(session.daemon, '--pid', job.pid,
                                                      '--duration', '60s')
                    await_recording(session, job, tracing)
                    job.send_signal(signal.SIGUSR1)
                try:
                    status = job.wait(40)
                except gpu_run.subprocess.TimeoutExpired:
                    status = 'hangs'
                    job.kill()
                if tracing is not None:
                    tracing.result()
                return status

            for window in (False, True):
                statuses = in_parallel(lambda _, w=window: once(w), range(times), 2 if IS_STANDIN else 8)
                facts.invariant('a_program_ends_as_without_profd', set(statuses) == {bare},
                                {'without': bare, 'with': statuses}, how=how, window=window)
        job = session.job('busy', '--lead-ms', '0', '--step-ms', '20')
        session.await_target(job.pid)
        session.daemon.kill()
        time.sleep(0.5)
        alive = job.poll() is None
        job.send_signal(signal.SIGTERM)
        facts.invariant('a_killed_daemon_harms_no_program', alive and job.wait(30) == 0, job.returncode)


# ---- gpu_test.py

def tests(facts):
    script = gpu_run.HERE / 'gpu_test.py'
    status, out, err = run([sys.executable, script], 100)
    if status == SKIPPED:
        return facts.skip('gpu_test.py', out.strip().removeprefix('SKIP: '))
    (OUT / 'logs' / 'gpu_test.log').write_text(out + err)
    for name, result in re.findall(r'^(test_\w+) .*\.\.\. (.+)$', err, re.M):
        facts.invariant(name, result.startswith(('ok', 'skipped')), result)
    facts.invariant('gpu_test_passes', status == 0, 'timeout' if status is None else status)


PHASES = {f.__name__: f for f in (inventory, cupti_facts, cupti_sessions, graphs, tests, smoke, replays, drain, overhead, clock,
                                  endings)}

if __name__ == '__main__':
    (pathlib.Path(OUT) / 'logs').mkdir(parents=True, exist_ok=True)
    PHASES[sys.argv[1]](Facts(sys.argv[1]))
