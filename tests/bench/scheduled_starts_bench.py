"""Scheduled windows of jobs on four nodes: in how many did all ranks record the same steps?

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/scheduled_starts_bench.py [--smoke]
        [--windows N] [--jobs N] [--step-ms MS] [--step-grid N] [--step-lead N] [--load PROCESSES]

The eight ranks of a job are processes of deploy/demo/ranks_train.py, two on each of four daemons, that
wait for each other in every step. Each job has a schedule with a window every 10 s. Busy processes keep
the machine's CPUs from them. A window counts once the captures of all ranks have ended. Every rank of a
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
FEATURES = 4  # So that the ranks of several jobs leave most of a CPU to others.


class Job:
    """The ranks of a job on the nodes, and its schedule."""

    def __init__(self, name, nodes, folder, options):
        self.name = name
        self.folder = folder
        self.nodes = nodes
        self.processes = []
        for rank in range(RANKS):
            node = nodes[rank * NODES // RANKS]
            self.processes.append(start(
                [sys.executable, harness.SOURCE_DIR / 'deploy/demo/ranks_train.py',
                 '--meet', folder / f'meet-{name}', '--step-ms', options.step_ms,
                 '--features', FEATURES],
                {**harness.environment(node.socket_dir), 'RANK': str(rank),
                 'WORLD_SIZE': str(RANKS), 'PROFD_JOB': name,
                 'PYTHONPATH': str(harness.SOURCE_DIR / 'client_lib/python'),
                 'PROFD_CLIENT_LIB': str(harness.BUILD_DIR / 'lib/libprofd_client.so')}))
        harness.until(self.all_train, 'steps of every rank')
        self.schedule = self.ctl(
            'schedule', 'create', '--every', f'{PERIOD_S}s', '--steps', 3, '--job', name,
            '--step-grid', options.step_grid, '--step-lead', options.step_lead)['schedules'][0]['id']

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()

    def ctl(self, *arguments):
        members = ','.join(node.member for node in self.nodes)
        result = harness.run_profctl(self.folder / 'none', '--nodes', members, *arguments, '--json')
        if result.status not in (harness.DONE, harness.PARTIAL):
            raise SystemExit(f'{arguments}: {result.status}: {result.err}')
        return json.loads(result.out)

    def targets(self):
        return [row for row in self.ctl('ps')['targets'] if row['job'] == self.name]

    def all_train(self):
        rows = self.targets()
        return len(rows) == RANKS and all(row['step_mark_count'] > 100 for row in rows)

    def windows(self):
        """Rows of the history by window: of windows that are over for every rank."""
        windows = collections.defaultdict(list)
        for row in self.ctl('schedule', 'history', self.schedule, '--limit', 0)['windows']:
            windows[row['time_unix_ns']].append(row)
        return [rows for rows in windows.values()
                if len(rows) == RANKS and all(is_over(row) for row in rows)]


def start(arguments, environment):
    return subprocess.Popen(
        list(map(str, arguments)), env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


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
    parser.add_argument('--windows', type=int, default=100, help='of all jobs together')
    parser.add_argument('--jobs', type=int, default=1)
    parser.add_argument('--step-ms', type=float, default=10)
    parser.add_argument('--step-grid', type=int, default=256)
    parser.add_argument('--step-lead', type=int, default=64)
    parser.add_argument('--load', type=int, default=2)
    options = parser.parse_args()
    wanted = 1 if options.smoke else options.windows
    load = 0 if options.smoke else options.load
    folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_bench_'))
    nodes = [Node(folder / f'node{i}', f'node{i}') for i in range(NODES)]
    jobs = []
    busy = []
    try:
        for node in nodes:
            node.folder.mkdir(parents=True)
            node.start()
        busy = [start([sys.executable, '-c', 'while True: pass'], os.environ) for _ in range(load)]
        for i in range(options.jobs):
            jobs.append(Job(str(88123 + i), nodes, folder, options))
        begun = time.monotonic()
        windows = []
        while len(windows) < wanted:
            time.sleep(1 if options.smoke else 15)
            windows = [(job, rows) for job in jobs for rows in job.windows()]
            if time.monotonic() > begun + 120 + wanted * PERIOD_S * 2 / len(jobs):
                break
        outcomes = collections.Counter()
        unnamed = 0
        for job, rows in windows:
            outcome, not_named = judge(job, rows)
            outcomes[outcome] += 1
            unnamed += not_named
        step_ms = statistics.median(
            row['median_step_ns'] for job in jobs for row in job.targets()) / 1e6
        print(f'{len(windows)} windows of {len(jobs)} jobs in {time.monotonic() - begun:.0f} s; '
              f'median step {step_ms:.1f} ms; {load} busy processes')
        for outcome, count in outcomes.most_common():
            print(f'  {outcome:<100} {count:>5}  {100 * count / len(windows):.1f} %')
        print(f'  {"ranks elsewhere that nothing names":<100} {unnamed:>5}')
        if options.smoke and not windows:
            raise SystemExit('no window')
        if unnamed:
            raise SystemExit('ranks are not named')
    finally:
        for job in jobs:
            job.stop()
        for process in busy:
            process.kill()
            process.wait()
        for node in nodes:
            node.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == '__main__':
    main()
