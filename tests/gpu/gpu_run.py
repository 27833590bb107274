"""What the phases of run_on_gpu.sh share: facts, invariants, daemons, and targets.

A fact is a line of JSON in facts.jsonl, flushed at once: {"phase", "fact", "value", ...labels}. An
invariant is a fact with "holds": what must be true on every GPU. Everything else is an answer.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'e2e'))
import harness  # noqa: E402

BUILD = harness.BUILD_DIR
BIN = BUILD / 'tests/bin'
FACTS_PROGRAM, JOB, REPLAY = BIN / 'cupti_facts', BIN / 'gpu_job', BIN / 'replay_dump'
OUT = pathlib.Path(os.environ.get('PROFD_GPU_OUT', '.')).resolve()
IS_STANDIN = os.environ.get('PROFD_GPU_STANDIN') == '1'
STANDIN = BUILD / 'lib/cupti_standin'


def append(lines):
    """Adds whole lines to facts.jsonl in one write: phases run at the same time."""
    file = os.open(OUT / 'facts.jsonl', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, lines.encode())
    finally:
        os.close(file)


class Facts:
    """Appends to facts.jsonl in the output folder."""

    def __init__(self, phase):
        self.phase = phase

    def _write(self, entry):
        append(json.dumps({'phase': self.phase, **entry}) + '\n')

    def fact(self, name, value, **labels):
        self._write({'fact': name, 'value': value, **labels})

    def invariant(self, name, holds, detail, **labels):
        self._write({'fact': name, 'holds': bool(holds), 'value': detail, **labels})
        print(f'{"holds " if holds else "BROKEN"} {name} {labels or ""} {detail}', flush=True)

    def skip(self, what, why):
        self._write({'fact': 'skipped', 'value': why, 'what': what})
        print(f'SKIP: {what}: {why}', flush=True)


def cupti_versions():
    """(label, path) of each libcupti to ask, the oldest first."""
    if IS_STANDIN:
        return [(label, STANDIN / label / name) for label, name in
                (('11.8', 'libcupti.so.11.8'), ('12.4', 'libcupti.so.12'), ('13.0', 'libcupti.so.13'))]
    found = [(folder.name, next(folder.glob('libcupti.so.*')))
             for folder in (BUILD / 'cupti').glob('*') if folder.is_dir()]
    for own in ('/usr/local/cuda/extras/CUPTI/lib64', '/usr/local/cuda/lib64'):
        path = next(iter(sorted(pathlib.Path(own).glob('libcupti.so.1?'))), None)
        if path is not None:
            found.append(('toolkit', path))
            break
    return sorted(found, key=lambda item: [int(part) if part.isdigit() else 99
                                           for part in item[0].split('.')])


def main_cupti():
    """The libcupti that ordinary captures use: of CUDA 13.0, as the driver of the machine."""
    versions = dict(cupti_versions())
    for label in ('13.0', 'toolkit', '13.1'):
        if label in versions:
            return label, versions[label]
    return next(iter(versions.items()), (None, None))


def run(command, limit_s, env=None, **kwargs):
    """Returns (status, stdout, stderr); status None: it took longer than `limit_s`; 127: the program
    cannot be started."""
    try:
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors='replace',
                                   env={**os.environ, **(env or {})}, **kwargs)
    except OSError as error:
        return 127, '', str(error)
    try:
        out, err = process.communicate(timeout=limit_s)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        return None, out, err


def in_parallel(function, items, workers):
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))


@contextlib.contextmanager
def time_limit(seconds, *processes):
    """Kills `processes` after `seconds`: whoever reads from them goes on."""
    timer = threading.Timer(seconds, lambda: [process.kill() for process in processes])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Session:
    """A daemon of our own, and targets that end with it."""

    def __init__(self, facts):
        self.facts = facts
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_gpu_'))
        self.daemon = harness.Daemon(self.folder)
        self.processes = []

    def __enter__(self):
        self.daemon.start()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self.daemon.stop()
        log = OUT / 'logs' / f'{self.facts.phase}.profd.log'
        with contextlib.suppress(OSError):
            with open(log, 'a', encoding='utf-8') as file:
                file.write(self.daemon.log()[-200_000:])
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, command, env=None, profd=True, **kwargs):
        environment = harness.environment(self.daemon.socket_dir,
                                          {**({} if profd else {'PROFD_DISABLE': '1'}), **(env or {})})
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True,
                                   env=environment, **kwargs)
        self.processes.append(process)
        return process

    def start_below_profctl(self, command, env=None, **kwargs):
        """As users start theirs: `profctl run -- COMMAND`, which becomes it and keeps its pid."""
        return self.start([harness.PROFCTL, 'run', '--', *command], env=env, **kwargs)

    def job(self, *arguments, cupti=None, profd=True, env=None):
        """gpu_job on the GPU, or on the stand-in `cupti`; waits until it works."""
        command = [JOB]
        if profd:
            command += ['--profd', BUILD / 'lib/libprofd_client.so']
        if IS_STANDIN:
            command += ['--standin', cupti or main_cupti()[1]]
        elif cupti is not None:
            env = {'PROFD_CUPTI_LIB': str(cupti), **(env or {})}
        process = self.start([*command, *arguments], env=env)
        line = process.stdout.readline()
        if line.strip() != 'ready':
            raise RuntimeError(f'gpu_job did not begin: {line!r}, status {process.wait()}')
        return process

    def await_target(self, pid, steps=0):
        def is_there():
            targets = self.daemon.ctl('ps', '--json').json['targets']
            return any(t['pid'] == pid and t['current_step'] >= steps for t in targets)
        harness.until(is_there, f'process {pid} is a target')

    def trace(self, pid, *arguments):
        """Returns the capture's JSON, or {'refused': message}."""
        result = harness.Tracing(self.daemon, '--pid', pid, *arguments).result()
        try:
            return {**result.json, 'status': result.status}
        except ValueError:
            return {'refused': result.err.strip(), 'status': result.status}

    def kernels(self, capture):
        report = self.daemon.ctl('kernels', capture['id'], '--json', '--limit', '0')
        return {row['name']: (row['count'], row['total_ns']) for row in report.json['rows']}

    def keep(self, capture, name):
        """The capture file is among the results."""
        target = OUT / 'captures' / f'{name}.profd'
        target.parent.mkdir(exist_ok=True)
        self.daemon.ctl('fetch', capture['id'], '-o', target)
