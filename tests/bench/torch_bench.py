"""Benchmarks on real PyTorch: what profd costs a training job, beside torch.profiler.

    PROFD_BUILD_DIR=build/release PROFD_TORCH_PYTHON=python3 \\
        /usr/bin/python3 tests/bench/torch_bench.py [--smoke] [NAME...]

  idle     step time with the library loaded and idle, against without it: processes in turn,
           new ones ten times
  layers   the same for models of 100 and 1,000 small layers
  counted  instructions of their steps instead of their time, by valgrind's callgrind: the same on
           a busy machine
  capture  step time added by a capture and by torch.profiler, with shapes and with memory: phases
           of one process in turn
  stacks   step time that Python stacks add, profd's and torch.profiler's with_stack: 50 small layers
           and a transformer
  busy     steps with 6,000 operators, alone and with all CPUs busy: a default capture and
           --ops names
  offer    the same for four programs, and whether profd offers --ops names where it should
  table    end of the capture to the operator table on the screen, 480 k events, and
           torch.profiler's way to the same

Every figure is the median over rounds in which both sides took turns, with its quartiles.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / 'client_lib/torch'))
import harness_torch  # noqa: E402
from harness_torch import PYTHON, Program, VERSION, harness  # noqa: E402


class Stage:
    """A daemon and programs in a temporary folder."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_bench_'))
        self.daemon = harness.Daemon(self.folder).start()
        self.programs = []
        return self

    def __exit__(self, *_):
        for program in self.programs:
            program.close()
        self.daemon.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def training(self, *arguments, **kwargs):
        program = Program(self.daemon.socket_dir, 'timed_training.py', *arguments, **kwargs)
        self.programs.append(program)
        program.answer()
        return program

    def await_target(self, program):
        def there():
            targets = self.daemon.ctl('ps', '--json').json['targets']
            return any(t['pid'] == program.pid and t['step_source'] == 'optimizer' for t in targets)
        harness.until(there, 'the program is a target')

    def trace(self, program, *arguments):
        tracing = harness.Tracing(self.daemon, '--pid', program.pid, *arguments)

        def recording():
            if tracing.process.poll() is not None:
                raise SystemExit(f'trace ended: {tracing.result().err}')
            return any(c['state'] == 'RECORDING'
                       for c in self.daemon.ctl('captures', '--json').json['captures'])
        harness.until(recording, 'the capture records')
        return tracing

    def finish(self, tracing):
        capture = next(c for c in self.daemon.ctl('captures', '--json').json['captures']
                       if c['state'] == 'RECORDING')
        self.daemon.ctl('cancel', capture['id'])
        result = tracing.result()
        return self.daemon.ctl('show', capture['id'], '--json').json if result else None


def row(name, value):
    print(f'{name:<66} {value}', flush=True)


def spread(values, digits=4):
    if len(values) < 4:
        return f'{statistics.median(values):.{digits}f}'
    low, middle, high = statistics.quantiles(values, n=4)
    return f'{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})'


# What a process gets of pages and caches differs by as much as is to be measured: so there are
# several of each, and a second one without the library shows how far two alike are apart.
IDLE_SIDES = {'without': False, 'another without': False, 'with it, idle': True}


def bench_idle(smoke):
    compare_idle(smoke, (('small MLP', ('--width', 64)),
                         ('medium MLP', ('--width', 128, '--batch', 96)),
                         ('large MLP', ('--width', 1024, '--batch', 64))))


def bench_layers(smoke):
    compare_idle(smoke, (('100 layers', ('--layers', 100, '--width', 16)),
                         ('1,000 layers', ('--layers', 1000, '--width', 16))))


def compare_idle(smoke, models):
    for name, arguments in models:
        step_us = []
        ratios = {side: [] for side in IDLE_SIDES}
        for number in range(1 if smoke else 10):
            medians = idle_medians(arguments, smoke, number % 2 == 0)
            step_us.append(medians['without'])
            for side in IDLE_SIDES:
                ratios[side].append(medians[side] / medians['without'])
        row(f'{name}: a step without the library', f'{spread(step_us, 1)} us')
        for side in list(IDLE_SIDES)[1:]:
            row(f'{name}: {side}, over without', spread(ratios[side]))


def idle_medians(arguments, smoke, in_order):
    """Of new processes that take turns, each one's median step in us."""
    order = list(IDLE_SIDES)[::1 if in_order else -1]
    with Stage() as stage:
        programs = {}
        for side in order:
            programs[side] = stage.training(*arguments, traced=IDLE_SIDES[side])
            if IDLE_SIDES[side]:
                stage.await_target(programs[side])
        step_us = [float(programs[side].do('run 3')[0]) for side in order][0]
        rounds, steps = (2, 5) if smoke else (12, min(400, max(3, int(130_000 / step_us))))
        times = {side: [] for side in order}
        for i in range(rounds):
            for side in order[::1 if i % 2 else -1]:
                times[side].append(float(programs[side].do(f'run {steps}')[0]))
    return {side: statistics.median(times[side]) for side in order}


def bench_counted(smoke):
    if smoke:
        return row('counted', 'SKIP: PyTorch takes a minute to start under valgrind')
    if shutil.which('callgrind_control') is None:
        return row('counted', 'SKIP: valgrind is not installed')
    for name, layers, steps in (('100 layers', 100, 10), ('1,000 layers', 1000, 3)):
        counts = {True: [], False: []}
        for seed in range(1, 5):
            for traced in (False, True) if seed % 2 else (True, False):
                counts[traced].append(count_instructions(traced, seed, layers, steps))
        own = statistics.median(own for _, own in counts[True])
        for traced, side in (False, 'without'), (True, 'with the library, idle'):
            totals = ', '.join(f'{total / 1e6:.3f}' for total, _ in counts[traced])
            row(f'{name}: a step {side}, million instructions', totals)
        without, idle = (statistics.median(total for total, _ in counts[traced])
                         for traced in (False, True))
        row(f'{name}: with over without, medians', f'{idle / without:.4f}')
        row(f'{name}: of these in the library, instructions a step', f'{own:.0f}')


# Programs that train have threads. Without one, glibc's malloc() takes no locks, and any thread of
# ours would add theirs.
ANOTHER_THREAD = '''
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
'''


def count_instructions(traced, seed, layers, steps):
    """Of a step, in all threads: all, and those in the library. `seed`: of Python's hashes, which
    decide where objects lie, and so how long malloc() searches."""
    with Stage() as stage, tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, 'sitecustomize.py').write_text(ANOTHER_THREAD)
        counting = ('valgrind', '--tool=callgrind', '--instr-atstart=no', '--separate-threads=yes',
                    '--fair-sched=yes', f'--callgrind-out-file={folder}/counted', PYTHON)
        program = stage.training('--layers', layers, '--width', 16, traced=traced, python=counting,
                                 env={'PYTHONPATH': folder, 'PYTHONHASHSEED': str(seed),
                                      'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1'})
        if traced:
            stage.await_target(program)

        def control(*words):
            subprocess.run(['callgrind_control', *words, str(program.pid)], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        control('-i', 'on')
        program.do('run 3')  # Their code is translated.
        control('-d')
        program.do(f'run {steps}')
        control('-d')
        total = own = 0
        for part in pathlib.Path(folder).glob('counted.2-*'):
            in_all, in_library = instructions_in(part)
            total += in_all
            own += in_library
        return total / steps, own / steps


def instructions_in(path):
    """Of a file of callgrind's (its manual, "Callgrind Format"): all, and those in the library."""
    total = own = 0
    objects = {}
    is_ours = is_call = False
    for line in path.read_text().splitlines():
        if line.startswith('ob='):
            number, _, name = line[3:].partition(' ')
            is_ours = 'libprofd' in objects.setdefault(number, name)
        elif line.startswith('calls='):
            is_call = True  # What the callee took is on the next line.
        elif line[:1] in '+-*0123456789' and line:
            if not is_call:
                cost = int(line.split()[1])
                total += cost
                own += cost if is_ours else 0
            is_call = False
        elif line.startswith('cob='):
            number, _, name = line[4:].partition(' ')
            objects.setdefault(number, name)
    return total, own


def bench_capture(smoke):
    rounds, steps = (1, 20) if smoke else (12, 800)
    with Stage() as stage:
        program = stage.training()
        stage.await_target(program)

        def captured(*arguments):
            tracing = stage.trace(program, '--duration', '1h', *arguments)
            time_us = float(program.do(f'run {steps}')[0])
            capture = stage.finish(tracing)
            return time_us, capture['torch']['operator_count'] / steps, capture

        sides = {
            'ours, names': lambda: captured('--ops', 'names')[0],
            'ours, shapes': lambda: captured()[0],
            'ours, shapes and memory': lambda: captured('--with', 'memory')[0],
            'torch.profiler': lambda: float(program.do(f'profile cpu {steps}')[0]),
            'torch.profiler, shapes': lambda: float(program.do(f'profile shapes {steps}')[0]),
            'torch.profiler, shapes and memory':
                lambda: float(program.do(f'profile memory {steps}')[0]),
        }
        _, per_step, capture = captured()
        row('operators a step', f'{per_step:.0f} (dropped: {capture["dropped_event_count"]})')
        added = {name: [] for name in sides}
        ratios = {name: [] for name in sides}
        for _ in range(rounds):
            for name, measure in sides.items():
                base = float(program.do(f'run {steps}')[0])
                time_us = measure()
                added[name].append((time_us - base) / per_step * 1000)
                ratios[name].append(time_us / base)
        for name in sides:
            row(f'{name}: added, ns an operator', spread(added[name], 0))
            row(f'{name}: step time over idle', spread(ratios[name], 3))
        for ours, theirs in (('ours, shapes', 'torch.profiler, shapes'),
                             ('ours, shapes and memory', 'torch.profiler, shapes and memory')):
            row(f'{ours}: added, over that of torch.profiler',
                spread([a / b for a, b in zip(added[ours], added[theirs])], 2))


def bench_stacks(smoke):
    rounds, steps = (1, 5) if smoke else (11, 60)
    for name, arguments in (('50 layers', ('--layers', 50, '--width', 16)),
                            ('transformer', ('--model', 'transformer', '--layers', 4, '--width', 128))):
        with Stage() as stage:
            program = stage.training(*arguments)
            stage.await_target(program)

            def captured(*arguments):
                tracing = stage.trace(program, '--duration', '1h', '--ops', 'names', *arguments)
                time_us = float(program.do(f'run {steps}')[0])
                return time_us, stage.finish(tracing)

            sides = {
                'alone': lambda: float(program.do(f'run {steps}')[0]),
                'profd': lambda: captured()[0],
                'profd, stacks': lambda: captured('--with', 'stacks')[0],
                'torch.profiler': lambda: float(program.do(f'profile cpu {steps}')[0]),
                'torch.profiler, with_stack': lambda: float(program.do(f'profile stack {steps}')[0]),
            }
            _, capture = captured('--with', 'stacks')
            row(f'{name}: operators a step', f'{capture["torch"]["operator_count"] / steps:.0f}'
                f' (dropped: {capture["dropped_event_count"]})')
            times = {side: [] for side in sides}
            for _ in range(rounds):
                for side, measure in sides.items():
                    times[side].append(measure())
            for side, values in times.items():
                row(f'{name}: {side}: step, us', spread(values, 0))

            def added(side, base):
                return [a - b for a, b in zip(times[side], times[base])]
            of_stacks = {'profd': added('profd, stacks', 'profd'),
                         'torch.profiler': added('torch.profiler, with_stack', 'torch.profiler')}
            whole = {'profd': added('profd, stacks', 'alone'),
                     'torch.profiler': added('torch.profiler, with_stack', 'alone')}

            def compare(what, ours, theirs):
                ours, theirs = statistics.median(ours), statistics.median(theirs)
                row(f'{name}: {what}',
                    f'{ours / theirs:.3f}' if ours > 0 and theirs > 0 else 'unknown: noise')
            for what, of in (('stacks alone', of_stacks), ('profiling with stacks', whole)):
                for side, values in of.items():
                    row(f'{name}: added by {what}, {side}, us a step', spread(values, 0))
                compare(f'added by {what}, profd over torch.profiler', *of.values())
            compare('stacks alone of profd over profiling with_stack', of_stacks['profd'],
                    whole['torch.profiler'])


def bench_busy(smoke):
    """A model of so many layers that its step has some 6,000 operators."""
    rounds, steps = (1, 3) if smoke else (8, 8)
    with Stage() as stage:
        program = stage.training('--layers', 10 if smoke else 190, '--width', 64)
        stage.await_target(program)

        def captured(*arguments):
            tracing = stage.trace(program, '--duration', '1h', '--buffer', '256MiB', *arguments)
            time_us = float(program.do(f'run {steps}')[0])
            capture = stage.finish(tracing)
            return time_us, capture['torch']['operator_count'] / steps, capture

        _, per_step, capture = captured()
        row('operators a step', f'{per_step:.0f} (dropped: {capture["dropped_event_count"]})')
        for others in 0, os.cpu_count():
            with busy_processes(others):
                sides = {'default': (), '--ops names': ('--ops', 'names')}
                ratios = {name: [] for name in sides}
                for _ in range(rounds):
                    for name, arguments in sides.items():
                        base = float(program.do(f'run {steps}')[0])
                        ratios[name].append(captured(*arguments)[0] / base)
            for name in sides:
                row(f'{name}, {others} other busy processes: step time over idle',
                    spread(ratios[name], 3))


OFFER_PROGRAMS = {
    'MLP of 100 layers': ('--layers', 100, '--width', 16),
    'MLP of 120 layers, 6,000 operators': ('--layers', 120, '--width', 64),
    'transformer block': ('--model', 'transformer', '--layers', 1, '--width', 64, '--batch', 8),
    'large products': ('--layers', 3, '--width', 1024, '--batch', 256)}


def bench_offer(smoke):
    """Each round: steps without a capture and with each kind in turns; then a capture of some steps of
    a run, as a user makes it, and what profd says of it."""
    for name, arguments in OFFER_PROGRAMS.items():
        with Stage() as stage:
            program = stage.training(*arguments)
            stage.await_target(program)
            step_us = float(program.do('run 5')[0])
            rounds, steps = (1, 12) if smoke else (4, max(12, min(400, int(300_000 / step_us))))
            for others in 0, os.cpu_count():
                with busy_processes(others):
                    offer_rounds(stage, program, f'{name}, {others} busy', rounds, steps)


def offer_rounds(stage, program, name, rounds, steps):
    sides = {'default': (), '--ops names': ('--ops', 'names')}
    bases, operators, said = [], 0, []
    ratios = {side: [] for side in sides}
    for i in range(rounds):
        for side in list(sides)[::1 if i % 2 else -1]:
            bases.append(float(program.do(f'run {steps}')[0]))
            tracing = stage.trace(program, '--duration', '1h', '--buffer', '256MiB', *sides[side])
            recorded_us = float(program.do(f'run {steps}')[0])
            capture = stage.finish(tracing)
            after_us = float(program.do(f'run {steps}')[0])
            ratios[side].append(2 * recorded_us / (bases[-1] + after_us))
            operators = capture['torch']['operator_count'] / steps
        said.append(what_profd_says(stage, program, steps))
    names_over_default = [a / b for a, b in zip(ratios['--ops names'], ratios['default'])]
    row(f'{name}: a step of {operators:.0f} operators', f'{spread(bases, 0)} us')
    for side in sides:
        row(f'{name}: {side}, step time over idle', spread(ratios[side], 3))
    row(f'{name}: --ops names over default', spread(names_over_default, 3))
    row(f'{name}: --ops names was offered', f'{sum(offered for offered, _ in said)} of {rounds}; slow-down '
        f'by profd: {", ".join(slowdown for _, slowdown in said)}')


def what_profd_says(stage, program, steps):
    """(whether it offers --ops names, the slow-down) of a default capture in the middle of a run."""
    tracing = harness.Tracing(stage.daemon, '--pid', program.pid, '--steps', steps)
    while tracing.process.poll() is None:
        program.do(f'run {steps}')
    result = tracing.result()
    if result.status != harness.DONE:
        raise SystemExit(f'trace ended: {result.err}')
    slowdown = result.json['slowdown']
    report = stage.daemon.ctl('report', result.json['id'])
    return '--ops names' in report.out, (
        f'{slowdown["estimate"]:+.2f} ({slowdown["low"]:+.2f} to {slowdown["high"]:+.2f})'
        if slowdown['known'] else 'unknown')


@contextlib.contextmanager
def busy_processes(count):
    processes = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def bench_table(smoke):
    rounds, steps = (1, 20) if smoke else (3, 2600)
    ours_s, theirs_s, ours_events, theirs_events = [], [], 0, 0
    for _ in range(rounds):
        with Stage() as stage:
            program = stage.training()
            stage.await_target(program)
            program.do('run 10')
            tracing = harness.Tracing(stage.daemon, '--pid', program.pid, '--steps', steps,
                                      '--warmup', 0, '--buffer', '256MiB')

            def is_armed():
                if tracing.process.poll() is not None:
                    raise SystemExit(f'trace ended: {tracing.result().err}')
                captures = stage.daemon.ctl('captures', '--json').json['captures']
                return any(c['state'] == 'WAITING_STEP' for c in captures)
            harness.until(is_armed, 'the capture waits for its first step')
            program.do(f'run {steps}')
            program.send('run 2')
            begin = time.monotonic()
            capture = tracing.result().json
            table = stage.daemon.ctl('ops', capture['id'])
            ours_s.append(time.monotonic() - begin)
            program.answer()
            if 'aten::addmm' not in table.out:
                raise SystemExit('the table lacks aten::addmm')
            if capture['state'] != 'COMPLETE' or capture['dropped_event_count'] != 0:
                raise SystemExit(f'{capture["state"]}, dropped {capture["dropped_by_reason"]}')
            ours_events = capture['torch']['operator_count']
            stop_s, table_s, theirs_events = map(float, program.do(f'path {steps}'))
            theirs_s.append(stop_s + table_s)
    row(f'last step to table on screen, {ours_events} operators', f'{spread(ours_s, 2)} s')
    row(f'torch.profiler: stop() and table, {theirs_events:.0f} events', f'{spread(theirs_s, 2)} s')
    row('torch.profiler over ours',
        spread([b / a for a, b in zip(ours_s, theirs_s)], 0))


BENCHES = {'idle': bench_idle, 'layers': bench_layers, 'capture': bench_capture,
           'counted': bench_counted, 'stacks': bench_stacks,
           'busy': bench_busy, 'offer': bench_offer, 'table': bench_table}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--smoke', action='store_true', help='one short round; no figures')
    parser.add_argument('names', nargs='*', metavar='NAME', help=', '.join(BENCHES))
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BENCHES)
    if unknown:
        parser.error(f'no benchmark {", ".join(sorted(unknown))}; there are {", ".join(BENCHES)}')
    if VERSION is None:
        print(f'SKIP: {PYTHON} has no torch')
        return 77
    row('torch', VERSION[1])
    for name in arguments.names or BENCHES:
        BENCHES[name](arguments.smoke)
    return 0


if __name__ == '__main__':
    sys.exit(main())
