"""Benchmarks of the whole: real profd, profctl and targets. Prints one table.

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/system_bench.py [--smoke] [NAME...]

  arm      CreateCapture to armed, of a target without CUPTI; median, p99 and maximum
  table    end of the last step to the operator table on the screen, 1 million events
  seal     STORING to COMPLETE, less the second that profd waits for steps after the window;
           10,000 events and 1 million
  idle     profd with 8 idle targets: resident memory, and wake-ups per thread
  steps    training step time with the library loaded and idle, against none: paired runs
  gpu      1 million launches a second of the simulated GPU for 5 s: what is stored, what is lost
"""

import argparse
import datetime
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'e2e'))
import harness  # noqa: E402

GPU_STANDIN = harness.BUILD_DIR / 'lib/cupti_standin/13.0/libcupti.so.13'


class Stage:
    """A daemon and its targets in a temporary folder."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_bench_'))
        self.daemon = harness.Daemon(self.folder).start()
        self.targets = []
        return self

    def __exit__(self, *_):
        for target in self.targets:
            target.end()
        self.daemon.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def target(self):
        target = harness.Target(self.daemon)
        self.targets.append(target)
        return target.connect()

    def trace(self, target, *arguments):
        result = self.daemon.ctl('trace', '--pid', target.pid, *arguments, '--json')
        if result.status != harness.DONE:
            raise SystemExit(f'trace: {result.status}: {result.err}')
        return result.json


def row(name, value):
    print(f'{name:<58} {value}', flush=True)


def bench_arm(smoke):
    captures = 3 if smoke else 300
    with Stage() as stage:
        target = stage.target()
        target.do('train 1')
        times_ms = []
        for _ in range(captures):
            capture = stage.trace(target, '--steps', '1', '--warmup', '0')
            times_ms.append((capture['armed_unix_ns'] - capture['create_unix_ns']) / 1e6)
        times_ms.sort()
        p99 = times_ms[min(len(times_ms) - 1, int(len(times_ms) * 0.99))]
        row(f'create to armed, {captures} captures of 64 MiB: median',
            f'{statistics.median(times_ms):.2f} ms')
        row('create to armed: p99', f'{p99:.2f} ms')
        row('create to armed: maximum', f'{times_ms[-1]:.2f} ms')


def capture_five_steps(stage, target, events):
    """Five steps with so many events: the running `profctl trace`, and when the last step ended."""
    tracing = subprocess.Popen(
        [harness.PROFCTL, 'trace', '--pid', str(target.pid), '--steps', '5',
         '--warmup', '0'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=harness.environment(stage.daemon.socket_dir))
    waiting = lambda: any(  # noqa: E731
        c['state'] == 'WAITING_STEP'
        for c in stage.daemon.ctl('captures', '--json', '--limit', '1').json['captures'])
    harness.until(waiting, 'WAITING_STEP')
    target.do(f'busy 5 {events // 5}', 'step')
    return tracing, time.perf_counter()


def bench_table(smoke):
    events = 10_000 if smoke else 1_000_000
    runs = 1 if smoke else 7
    times_ms = []
    with Stage() as stage:
        target = stage.target()
        target.do('step')
        for _ in range(runs):
            tracing, begin = capture_five_steps(stage, target, events)
            out, _ = tracing.communicate()
            times_ms.append((time.perf_counter() - begin) * 1e3)
            if tracing.returncode != 0 or b'Self CPU' not in out:
                raise SystemExit(f'trace ended with {tracing.returncode}')
        newest = stage.daemon.ctl('captures', '--json', '--limit', '1').json['captures'][0]
        row(f'last step to table, {newest["event_count"]} events: median of {runs}',
            f'{statistics.median(times_ms):.0f} ms')
        row('last step to table: best / worst', f'{min(times_ms):.0f} / {max(times_ms):.0f} ms')
        row('of these: events dropped in the last run', newest['dropped_event_count'])


def bench_seal(smoke):
    await_steps_ms = 1000  # kAwaitSteps in daemon/capture/capture_actor.cc: the target rests then.
    for events in (10_000, 1_000_000)[:1 if smoke else 2]:
        with Stage() as stage:
            target = stage.target()
            target.do('step')
            for _ in range(1 if smoke else 15):
                tracing, _ = capture_five_steps(stage, target, events)
                tracing.communicate()
            log = stage.daemon.log()
        times = {}
        for moment, capture, state in re.findall(
                r'^(\S+) INFO capture=(\S+) pid=\d+ state=(STORING|COMPLETE)', log, re.M):
            times.setdefault(capture, {})[state] = datetime.datetime.fromisoformat(moment[:-1])
        sealed_ms = sorted((t['COMPLETE'] - t['STORING']).total_seconds() * 1e3 - await_steps_ms
                           for t in times.values())
        row(f'seal, {events} events: median of {len(sealed_ms)}',
            f'{statistics.median(sealed_ms):.0f} ms ({sealed_ms[0]:.0f}-{sealed_ms[-1]:.0f})')


def threads_of(pid):
    """Voluntary context switches by thread: {tid: (name, count)}."""
    threads = {}
    for task in pathlib.Path(f'/proc/{pid}/task').iterdir():
        status = dict(line.split(':\t', 1)
                      for line in (task / 'status').read_text().splitlines() if ':\t' in line)
        threads[int(task.name)] = (status['Name'], int(status['voluntary_ctxt_switches']))
    return threads


def resident_mib(pid):
    status = pathlib.Path(f'/proc/{pid}/status').read_text()
    return next(int(line.split()[1]) for line in status.splitlines()
                if line.startswith('VmRSS')) / 1024


def bench_idle(smoke):
    seconds = 1 if smoke else 30
    with Stage() as stage:
        for _ in range(8):
            stage.target()
        pid = stage.daemon.process.pid
        # What the last calls left to do ends first: nothing tells when.
        time.sleep(0.2 if smoke else 5)
        before = threads_of(pid)
        time.sleep(seconds)
        after = threads_of(pid)
        row('idle, 8 targets: resident', f'{resident_mib(pid):.1f} MiB')
        ours = 0
        for tid, (name, count) in sorted(after.items()):
            woken = count - before.get(tid, (name, count))[1]
            if name.startswith('profd'):
                ours += woken
            elif woken:
                row(f'idle: wake-ups of thread {name} in {seconds} s', woken)
        row(f'idle: wake-ups of our own threads in {seconds} s', ours)
        idle_targets = 0
        targets_before = {t.pid: threads_of(t.pid) for t in stage.targets}
        time.sleep(seconds if smoke else 10)
        for target in stage.targets:
            for tid, (_, count) in threads_of(target.pid).items():
                idle_targets += count - targets_before[target.pid].get(tid, (0, count))[1]
        row('idle: wake-ups in the 8 targets meanwhile', idle_targets)


def training_seconds(stage, steps, disabled):
    env = harness.environment(stage.daemon.socket_dir, {'PROFD_DISABLE': '1'} if disabled else {})
    begin = time.perf_counter()
    subprocess.run([harness.MLP, '--steps', str(steps), '--quiet'], env=env, check=True,
                   stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def bench_steps(smoke):
    steps, pairs = (50, 2) if smoke else (3000, 30)
    random.seed(1)
    ratios = []
    with Stage() as stage:
        for _ in range(pairs):
            first = random.random() < 0.5
            a = training_seconds(stage, steps, disabled=first)
            b = training_seconds(stage, steps, disabled=not first)
            without, loaded = (a, b) if first else (b, a)
            ratios.append(loaded / without)
    ratios.sort()
    # A distribution-free interval of the median: the order statistics that bracket it with
    # about 95 % (normal approximation of the binomial).
    half = 0.98 * len(ratios) ** 0.5
    low = ratios[max(0, int(len(ratios) / 2 - half))]
    high = ratios[min(len(ratios) - 1, int(len(ratios) / 2 + half))]
    row(f'training time, library idle / disabled, {pairs} pairs of {steps} steps: median',
        f'{statistics.median(ratios):.4f}')
    row('training time: 95 % interval of the median', f'{low:.4f} .. {high:.4f}')


def bench_gpu(smoke):
    rate = 20_000 if smoke else 1_000_000
    seconds = 1 if smoke else 5
    launches = rate * seconds
    cap_mib = 256
    with Stage() as stage:
        target = harness.Target(stage.daemon, env={'SGPU_TRUTH': '0'})
        stage.targets.append(target)
        target.connect().do(f'gpu load {GPU_STANDIN}', 'step')
        before_mib = resident_mib(target.pid)
        tracing = subprocess.Popen(
            [harness.PROFCTL, 'trace', '--pid', str(target.pid), '--steps', '1', '--warmup', '0',
             '--json', '--buffer', f'{cap_mib}MiB', '--gpu-buffer', f'{cap_mib}MiB'],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=harness.environment(stage.daemon.socket_dir))
        harness.until(lambda: any(
            c['state'] == 'WAITING_STEP'
            for c in stage.daemon.ctl('captures', '--json', '--limit', '1').json['captures']),
            'WAITING_STEP')
        begin = time.perf_counter()
        target.do('step', f'gpu launch {launches} 0 {rate}')
        took = time.perf_counter() - begin
        target.do('gpu settle', 'step')
        out, _ = tracing.communicate()
        if tracing.returncode != 0:
            raise SystemExit(f'trace ended with {tracing.returncode}')
        capture = json.loads(out)
        dropped = {k: v for k, v in capture['dropped_by_reason'].items() if v}
        lost = sum(dropped.values())
        # A kernel and its API call for each launch.
        kernels = stage.daemon.ctl('kernels', capture['id'], '--json').json
        calls = stage.daemon.ctl('ops', capture['id'], '--json').json['rows']
        stored = kernels['kernel_count'] + sum(
            r['calls'] for r in calls if r['name'] == 'cudaLaunchKernel')
        row(f'gpu: launches a second, over {seconds} s', f'{launches / took / 1e6:.2f} M')
        row('gpu: kernels and launch calls stored', stored)
        row('gpu: events lost, by cause', dropped or 'none')
        row('gpu: neither stored nor counted as lost', max(0, 2 * launches - stored - lost))
        row(f'gpu: most of CUPTI\'s buffers in use, of {cap_mib} MiB',
            f'{capture["gpu"]["peak_pool_bytes"] / 2**20:.0f} MiB')
        row('gpu: resident memory of the target before / after',
            f'{before_mib:.0f} / {resident_mib(target.pid):.0f} MiB')


BENCHES = {'arm': bench_arm, 'table': bench_table, 'seal': bench_seal, 'idle': bench_idle, 'steps': bench_steps,
           'gpu': bench_gpu}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--smoke', action='store_true', help='one short round of each')
    parser.add_argument('names', nargs='*', metavar='NAME', help='default: all')
    arguments = parser.parse_args()
    for name in arguments.names or BENCHES:
        if name not in BENCHES:
            parser.error(f'no benchmark {name}; there are {", ".join(BENCHES)}')
        BENCHES[name](arguments.smoke)


if __name__ == '__main__':
    main()
