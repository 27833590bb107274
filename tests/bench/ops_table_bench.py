"""Benchmark: the operator table of many events, ours and torch.profiler's of the same ones.

    PROFD_BUILD_DIR=build/release PROFD_TORCH_PYTHON=python3 \\
        /usr/bin/python3 tests/bench/ops_table_bench.py [--events 480000] [--rounds 5] [--smoke]

torch's figure is the first `key_averages().table()` after the profiler has stopped; ours a run of `profctl ops` on
the same profile, imported. Start-up is a run of profctl that reads no capture. Wall time.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROFILED = '''
import sys, time, torch
from torch.profiler import ProfilerActivity, profile
if not torch.autograd.kineto_available():
    sys.exit(77)
torch.set_num_threads(1)
x = torch.zeros(4)
with profile(activities=[ProfilerActivity.CPU]) as recorded:
    for _ in range(int(sys.argv[1]) // 6):
        x.add_(1)
        torch.mul(x, 2).sub_(1).relu().view(2, 2)
begin = time.perf_counter()
text = recorded.key_averages().table()
took = time.perf_counter() - begin
recorded.export_chrome_trace(sys.argv[2])
open(sys.argv[3], 'w').write(text)
print(took, len(recorded.events()), torch.__version__)
'''


def wall(*command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--events', type=int, default=480_000)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--smoke', action='store_true')
    args = parser.parse_args()
    if args.smoke:
        args.events, args.rounds = 6_000, 1
    profctl = str(pathlib.Path(os.environ['PROFD_BUILD_DIR']).resolve() / 'bin' / 'profctl')
    python = os.environ.get('PROFD_TORCH_PYTHON', sys.executable)
    with tempfile.TemporaryDirectory(prefix='profd_bench_') as name:
        folder = pathlib.Path(name)
        trace, capture, theirs = folder / 'trace.json', folder / 'trace.profd', folder / 'table.txt'
        profiled = subprocess.run([python, '-c', PROFILED, str(args.events), trace, theirs],
                                  stdout=subprocess.PIPE, text=True)
        if profiled.returncode == 77:
            print('SKIP: this torch has no Kineto')
            return 77
        profiled.check_returncode()
        torch_s, events, version = profiled.stdout.split()[-3:]
        subprocess.run([profctl, 'import', trace, '-o', capture], check=True)
        runs = {'start-up (profctl explain)': (profctl, 'explain', 'name'),
                'profctl ops --torch': (profctl, 'ops', capture, '--torch'),
                'profctl ops': (profctl, 'ops', capture)}
        seconds = {what: [] for what in runs}
        for _ in range(args.rounds):
            for what, command in runs.items():
                seconds[what].append(wall(*command))
        print(f'{int(events):,} events; torch {version}: key_averages().table() {float(torch_s):.3f} s')
        for what, values in seconds.items():
            median = statistics.median(values)
            print(f'{what}: {median * 1e3:.1f} ms ({min(values) * 1e3:.1f} to {max(values) * 1e3:.1f}), '
                  f'torch / this: {float(torch_s) / median:.1f}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
