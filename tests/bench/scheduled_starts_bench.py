"""Scheduled windows of one job on four nodes: in how many did all ranks record the same steps?

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/scheduled_starts_bench.py [--smoke]
        [--windows N] [--step-ms MS] [--load PROCESSES]

Eight processes of deploy/demo/ranks_train.py, two on each of four daemons, wait for each other in
every step. Schedules with windows every 10 s sample them, half a period apart. Busy processes keep the
machine's CPUs from them. A window counts once the captures of all ranks have ended. Every rank of a
window that is not in the group of most is looked up by its name in `profctl show GROUP`.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'e2e'))
import harness  # noqa: E402
from cluster_harness import Node  # noqa: E402

NODES = 4
RANKS = 8
PERIOD_S = 10
JOB = '88123'


class Job:
    def __init__(self, folder, step_ms, load):
        self.folder = pathlib.Path(folder)
        self.nodes = [Node(self.folder / f'node{i}', f'node{i}') for i in range(NODES)]
        self.processes = []
        for node in self.nodes:
            node.folder.mkdir(parents=True)
            node.start()
        train = harness.SOURCE_DIR / 'deploy/demo/ranks_train.py'
        for rank in range(RANKS):
            node = self.nodes[rank * NODES // RANKS]
            self.start([sys.executable, train, '--meet', self.folder / 'meet',
                        '--step-ms', step_ms],
                       {**harness.environment(node.socket_dir), 'RANK': str(rank),
                        'WORLD_SIZE': str(RANKS), 'PROFD_JOB': JOB,
                        'PYTHONPATH': str(harness.SOURCE_DIR / 'client_lib/python'),
                        'PROFD_CLIENT_LIB': str(harness.BUILD_DIR / 'lib/libprofd_client.so')})
        for _ in range(load):
            self.start([sys.executable, '-c', 'while True: pass'], os.environ)
        harness.until(self.all_train, 'steps of every rank')

    def start(self, arguments, environment):
        self.processes.append(subprocess.Popen(
            list(map(str, arguments)), env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        for node in self.nodes:
            node.stop()

    def ctl(self, *arguments):
        members = ','.join(node.member for node in self.nodes)
        result = harness.run_profctl(self.folder / 'none', '--nodes', members, *arguments, '--json')
        if result.status not in (harness.DONE, harness.PARTIAL):
            raise SystemExit(f'{arguments}: {result.status}: {result.err}')
        return json.loads(result.out)

    def all_train(self):
        rows = self.ctl('ps')['targets']
        return len(rows) == RANKS and all(row['step_mark_count'] > 100 for row in rows)

    def step_ms(self):
        return statistics.median(row['median_step_ns'] for row in self.ctl('ps')['targets']) / 1e6

    def create(self, slots):
        """Schedules whose windows are at these parts of the period, a tenth at most away."""
        schedules = []
        for slot in slots:
            while True:
                made = self.ctl('schedule', 'create', '--every', f'{PERIOD_S}s', '--steps', 3,
                                '--job', JOB)
                phase = made['schedules'][0]['next_window_unix_ns'] / 1e9 % PERIOD_S / PERIOD_S
                if abs((phase - slot + 0.5) % 1 - 0.5) <= 0.1:
                    schedules.append(made['id'])
                    break
                self.ctl('schedule', 'delete', made['id'])
        return schedules


def windows_of(job, schedules):
    """Rows of the histories by (schedule, window): of windows that are over for every rank."""
    windows = collections.defaultdict(list)
    for schedule in schedules:
        for row in job.ctl('schedule', 'history', schedule, '--limit', 0)['windows']:
            windows[schedule, row['time_unix_ns']].append(row)
    return {key: rows for key, rows in windows.items()
            if len(rows) == RANKS and all(is_over(row) for row in rows)}


def is_over(row):
    return row['outcome'] != 'captured' or row['first_step'] is not None or row['detail']


def judge(job, rows):
    """'same', or why not; and how many of its odd ranks nothing names."""
    groups = collections.Counter(row['group'] for row in rows if row['first_step'] is not None)
    if not groups:
        return 'nothing recorded: ' + rows[0]['outcome'], 0
    group, _ = groups.most_common(1)[0]
    same = [row for row in rows if row['group'] == group and row['first_step'] is not None]
    if len({row['first_step'] for row in same}) != 1:
        return 'MIXED: different steps in one group', RANKS
    if len(same) == RANKS and not any(row['detail'] for row in same):
        return 'same', 0
    members = job.ctl('show', group)['members']
    named = {member['pid'] for member in members if member['error']}
    odd = [row for row in rows if row not in same]
    kinds = sorted({row['detail'] or 'began at another step' for row in odd or same})
    return f'{len(same)} ranks; {kinds[0][:80]}', sum(row['pid'] not in named for row in odd)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--smoke', action='store_true', help='one window, without load')
    parser.add_argument('--windows', type=int, default=100)
    parser.add_argument('--step-ms', type=float, default=10)
    parser.add_argument('--load', type=int, default=2)
    options = parser.parse_args()
    wanted = 1 if options.smoke else options.windows
    load = 0 if options.smoke else options.load
    folder = tempfile.mkdtemp(prefix='profd_bench_')
    job = Job(folder, options.step_ms, load)
    try:
        begun = time.monotonic()
        schedules = job.create([0.1] if options.smoke else [0.1, 0.6])
        windows = {}
        while len(windows) < wanted:
            time.sleep(1 if options.smoke else 15)
            windows = windows_of(job, schedules)
            if time.monotonic() > begun + 120 + wanted * PERIOD_S * 2:
                break
        outcomes = collections.Counter()
        unnamed = 0
        for rows in windows.values():
            outcome, not_named = judge(job, rows)
            outcomes[outcome] += 1
            unnamed += not_named
        print(f'{len(windows)} windows in {time.monotonic() - begun:.0f} s; median step '
              f'{job.step_ms():.1f} ms; {load} busy processes')
        for outcome, count in outcomes.most_common():
            print(f'  {outcome:<100} {count:>5}  {100 * count / len(windows):.1f} %')
        print(f'  {"ranks elsewhere that nothing names":<100} {unnamed:>5}')
        if options.smoke and not windows:
            raise SystemExit('no window')
        if unnamed:
            raise SystemExit('ranks are not named')
    finally:
        job.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == '__main__':
    main()
