"""What a fetch over mutual TLS reaches of what the channel can carry.

    PROFD_BUILD_DIR=build/release /usr/bin/python3 tests/bench/remote_fetch_bench.py [--smoke]

`profctl fetch` of a stored capture of 200 MB from a daemon on loopback, certificates and all,
beside the same bytes as a stream with nothing behind it (raw_stream.cc), turn by turn in one run.
Both are processes of their own on both ends. Of each the best round counts; a fetch's time has
profctl's own start, the connection, the file and its check in it.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'e2e'))
import harness  # noqa: E402
from remote_test import MAKE_PKI, Port, policy_flags  # noqa: E402

RAW_STREAM = harness.BUILD_DIR / 'tests/bin/raw_stream'


def store_large_capture(daemon, size):
    """A real capture whose file is made `size` bytes: a download is of bytes, not of events."""
    target = harness.Target(daemon).connect()
    target.do('train 1')
    result = daemon.ctl('trace', '--pid', target.pid, '--steps', '1', '--json')
    target.end()
    assert result.status == harness.DONE, result.err
    capture = result.json['id']
    assert daemon.terminate() == 0
    (path,) = daemon.data_dir.rglob(f'{capture}.profd')
    data = os.urandom(size)
    path.write_bytes(data)
    with sqlite3.connect(daemon.data_dir / 'catalog.db') as catalog:
        changed = catalog.execute(
            'UPDATE captures SET file_bytes = ?, file_sha256 = ? WHERE id = ?',
            (size, hashlib.sha256(data).hexdigest(), capture)).rowcount
        assert changed == 1
    catalog.close()
    daemon.start()
    return capture


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--smoke', action='store_true', help='one small round')
    parser.add_argument('--rounds', type=int, default=7)
    arguments = parser.parse_args()
    size = 2_000_000 if arguments.smoke else 200_000_000
    rounds = 1 if arguments.smoke else arguments.rounds

    folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_bench_'))
    pki = folder / 'pki'
    subprocess.run([MAKE_PKI, pki, '--node', 'localhost', '--user', 'alice'], check=True,
                   stdout=subprocess.DEVNULL)
    policy = policy_flags(folder, 'allow cn:alice list,read all')
    node = [pki / 'localhost.crt', pki / 'localhost.key', pki / 'ca.crt']
    user = [pki / 'alice.crt', pki / 'alice.key', pki / 'ca.crt']
    daemon = harness.Daemon(folder, '--listen', '127.0.0.1:0', '--tls-cert', node[0], '--tls-key',
                            node[1], '--tls-ca', node[2], *policy)
    raw = subprocess.Popen([RAW_STREAM, 'serve', *node], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE)
    try:
        raw_port = raw.stdout.readline().decode().strip()
        capture = store_large_capture(daemon.start(), size)
        env = dict(zip(('PROFD_TLS_CERT', 'PROFD_TLS_KEY', 'PROFD_TLS_CA'), map(str, user)))
        # The second start's port; the log has both.
        address = Port(daemon).address
        raw_s, fetch_s = [], []
        for _ in range(rounds):
            seconds = subprocess.run([RAW_STREAM, 'read', raw_port, *user, str(size)], check=True,
                                     capture_output=True).stdout
            raw_s.append(float(seconds))
            path = folder / 'fetched.profd'
            begin = time.perf_counter()
            result = daemon.ctl('--address', address, 'fetch', capture, '-o', path, env=env)
            fetch_s.append(time.perf_counter() - begin)
            assert result.status == harness.DONE, result.err
            path.unlink()
        rate = {name: size / 2**20 / min(times) for name, times in
                (('raw', raw_s), ('fetch', fetch_s))}
        print(f'raw stream      {rate["raw"]:8.0f} MiB/s  (median {statistics.median(raw_s):.3f} s)')
        print(f'profctl fetch   {rate["fetch"]:8.0f} MiB/s  (median {statistics.median(fetch_s):.3f} s)')
        print(f'of the raw rate {100 * rate["fetch"] / rate["raw"]:8.0f} %')
    finally:
        raw.stdin.close()
        raw.wait()
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == '__main__':
    main()
