"""What a daemon costs that has much to remember and nothing to do.

    PROFD_BUILD_DIR=build/release python3 tests/bench/idle_daemon_bench.py [SECONDS]

A profd with 1,000 stored captures and 20 schedules whose next windows are far away, watched for
SECONDS (default 15): its memory, its CPU time, how often its threads woke.
"""

import os
import pathlib
import shutil
import sqlite3
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'e2e'))
import harness

CAPTURES = 1000
SCHEDULES = 20


def cpu_s(pid):
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def wakeups(pid):
    """Voluntary context switches of all threads."""
    total = 0
    for status in pathlib.Path(f'/proc/{pid}/task').glob('*/status'):
        for line in status.read_text().splitlines():
            if line.startswith('voluntary_ctxt_switches'):
                total += int(line.split()[1])
    return total


def rss_mib(pid):
    for line in pathlib.Path(f'/proc/{pid}/status').read_text().splitlines():
        if line.startswith('VmRSS'):
            return int(line.split()[1]) / 1024
    raise AssertionError('no VmRSS')


def fill(daemon, target):
    """Four real captures; the others are copies of their files and rows, there when it starts."""
    for _ in range(4):
        result = daemon.ctl('trace', '--pid', target.pid, '--steps', '2', '--json')
        assert result.status == harness.DONE, result.err
    first = [c['id'] for c in daemon.ctl('captures', '--json').json['captures']]
    target.end()
    daemon.terminate()
    folder = daemon.data_dir / 'captures'
    alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
    catalog = sqlite3.connect(daemon.data_dir / 'catalog.db')
    columns = [row[1] for row in catalog.execute('PRAGMA table_info(captures)')][1:]
    rows = catalog.execute(f'SELECT {",".join(columns)} FROM captures').fetchall()
    for i in range(CAPTURES - len(first)):
        row = dict(zip(columns, rows[i % len(rows)]))
        old = row['id']
        new = old[:-3] + ''.join(alphabet[(i // 32 ** k) % 32] for k in (2, 1, 0))
        if new in first:
            continue
        shutil.copyfile(folder / f'{old}.profd', folder / f'{new}.profd')
        row['id'] = new
        row['record'] = row['record'].replace(old, new)
        catalog.execute(f'INSERT OR IGNORE INTO captures({",".join(columns)}) '
                        f'VALUES({",".join("?" * len(columns))})', [row[c] for c in columns])
    catalog.commit()
    catalog.close()
    daemon.start()


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15
    folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_idle_'))
    daemon = harness.Daemon(folder, '--log-level', 'info')
    try:
        daemon.start()
        target = harness.Target(daemon).connect()
        target.do('train 1')
        fill(daemon, target)
        for i in range(SCHEDULES):
            result = daemon.ctl('schedule', 'create', '--every', '720h', '--steps', '3',
                                '--fraction', '5%', '--name', f'idle {i}')
            assert result.status == harness.DONE, result.err
        stored = len(daemon.ctl('captures', '--json', '--limit', '0').json['captures'])
        scheduled = len(daemon.ctl('schedule', 'list', '--json').json['schedules'])
        pid = daemon.process.pid
        time.sleep(1)
        cpu, woken = cpu_s(pid), wakeups(pid)
        time.sleep(seconds)
        print(f'{stored} captures, {scheduled} schedules, {seconds:.0f} s: '
              f'{rss_mib(pid):.1f} MiB resident, {100 * (cpu_s(pid) - cpu) / seconds:.3f} % CPU, '
              f'{(wakeups(pid) - woken) / seconds:.2f} wake-ups a second')
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == '__main__':
    main()
