"""What it costs to look: a scrape of /metrics, and the history of many captures.

    python3 tests/bench/observe_bench.py [--captures N] [--targets N] [--scrapes N]

Starts a profd of its own with targets that train, takes one capture, repeats its rows in the catalog, and
asks. Prints one line of JSON: medians, and what the daemon's process took for them.
"""

import argparse
import http.client
import json
import pathlib
import sqlite3
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'e2e'))
import harness  # noqa: E402
from observe_test import free_port  # noqa: E402

ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'


def id_of(number, like):
    """Another id of the same moment."""
    text = ''
    for _ in range(10):
        text = ALPHABET[number % 32] + text
        number //= 32
    return like[:16] + text


def repeat_capture(catalog, count):
    """`count` more rows like the one that is there, with their summaries."""
    db = sqlite3.connect(catalog)
    [like] = db.execute('SELECT id FROM captures').fetchone()
    columns = [row[1] for row in db.execute('PRAGMA table_info(captures)') if row[1] != 'number']
    others = ', '.join(name for name in columns if name not in ('id', 'record', 'file_bytes',
                                                                'deleted'))
    for number in range(count):
        new = id_of(number, like)
        db.execute(f"INSERT INTO captures(id, record, file_bytes, deleted, {others}) SELECT ?, "
                   f"replace(record, id, ?), 0, 1, {others} FROM captures WHERE id = ?",
                   (new, new, like))
        for table in ('op_summary', 'step_summary'):
            names = [row[1] for row in db.execute(f'PRAGMA table_info({table})')][1:]
            db.execute(f"INSERT INTO {table} SELECT ?, {', '.join(names)} FROM {table} "
                       "WHERE capture_id = ?", (new, like))
    db.commit()
    db.close()


def cpu_seconds(pid):
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--captures', type=int, default=10_000)
    parser.add_argument('--targets', type=int, default=8)
    parser.add_argument('--scrapes', type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='profd_bench_') as folder:
        port = free_port()
        daemon = harness.Daemon(folder, '--metrics-listen', f'127.0.0.1:{port}')
        targets = []
        try:
            daemon.start()
            one = harness.Target(daemon, env={'PROFD_JOB': 'j', 'RANK': '0'}).connect()
            targets.append(one)
            one.do('train 1')
            traced = daemon.ctl('trace', '--pid', one.pid, '--steps', '5')
            assert traced.status == harness.DONE, traced.err
            one.do('rest')
            daemon.terminate()
            repeat_capture(pathlib.Path(folder) / 'data/catalog.db', arguments.captures)
            daemon.start()
            for rank in range(1, arguments.targets):
                targets.append(harness.Target(
                    daemon, env={'PROFD_JOB': 'j', 'RANK': str(rank)}).connect())
            for target in targets:
                target.do('await-connected')

            connection = http.client.HTTPConnection('127.0.0.1', port)
            times, size = [], 0
            before = cpu_seconds(daemon.process.pid)
            for _ in range(arguments.scrapes):
                start = time.perf_counter()
                connection.request('GET', '/metrics')
                size = len(connection.getresponse().read())
                times.append(time.perf_counter() - start)
            scrape_cpu = (cpu_seconds(daemon.process.pid) - before) / arguments.scrapes

            before = cpu_seconds(daemon.process.pid)
            start = time.perf_counter()
            history = daemon.ctl('history', '--step-time', '--json')
            took = time.perf_counter() - start
            assert history.status == harness.DONE, history.err
            print(json.dumps({
                'scrape_ms': round(statistics.median(times) * 1e3, 2),
                'scrape_cpu_ms': round(scrape_cpu * 1e3, 2),
                'scrape_bytes': size,
                'targets': arguments.targets,
                'history_s': round(took, 2),
                'history_cpu_s': round(cpu_seconds(daemon.process.pid) - before, 2),
                'history_points': len(history.json['points']),
                'captures': arguments.captures + 1}))
        finally:
            for target in targets:
                target.end()
            daemon.stop()


if __name__ == '__main__':
    main()
