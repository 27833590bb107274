"""A Slurm of four nodes on this machine: its real daemons, each slurmd under a name of its own.

Everything lies below one folder and ends with it: munge's key and socket, Slurm's state. Needs root
and the packages slurmctld, slurmd, slurm-client and munge.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

NODES = [f'gpu{number:03d}' for number in range(1, 5)]
PATIENCE_S = 60
PROGRAMS = ('munged', 'slurmctld', 'slurmd', 'squeue', 'srun', 'scancel', 'sinfo')


def why_not():
    """What this machine lacks for it; None: nothing."""
    if os.geteuid() != 0:
        return 'slurmd needs root'
    for program in PROGRAMS:
        if shutil.which(program, path=os.environ['PATH'] + ':/usr/sbin') is None:
            return f'{program} is not installed'
    return None


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(('127.0.0.1', 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class SlurmCluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.config = self.folder / 'slurm.conf'
        self.environment = {**os.environ, 'SLURM_CONF': str(self.config),
                            'PATH': os.environ['PATH'] + ':/usr/sbin'}
        self.processes = []

    def start(self):
        self._start_munge()
        self._write_config()
        self._spawn('slurmctld', '-D', '-f', self.config)
        for node in NODES:
            self._spawn('slurmd', '-D', '-N', node, '-f', self.config)
        self._await('four idle nodes', lambda: self.run(
            'sinfo', '--noheader', '--states=idle', '--format=%D', check=False).strip() == '4')
        return self

    def stop(self):
        # Slurm's daemons would leave the tasks of its jobs behind.
        self.run('scancel', '--user=root', '--signal=KILL', '--full', check=False)
        self.run('scancel', '--user=root', check=False)
        self._await('the end of all jobs',
                    lambda: not self.run('squeue', '--noheader', check=False).strip())
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, *command, check=True):
        """What the command prints."""
        done = subprocess.run([str(word) for word in command], env=self.environment, check=check,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE_S)
        return done.stdout.decode()

    def begin(self, *command):
        """A command that runs next to the caller, until stop()."""
        return self._spawn(*command)

    def log(self):
        return '\n'.join(f'== {path.name}\n{path.read_text(errors="replace")[-2000:]}'
                         for path in sorted(self.folder.glob('*.log')))

    def _start_munge(self):
        key = self.folder / 'munge.key'
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self._spawn('munged', '--foreground', '--force', f'--key-file={key}',
                    f'--socket={self.folder}/munge.socket', f'--pid-file={self.folder}/munge.pid',
                    f'--log-file={self.folder}/munge.log', f'--seed-file={self.folder}/munge.seed')
        self._await('munge', (self.folder / 'munge.socket').exists)

    def _write_config(self):
        host = socket.gethostname()
        controller, *ports = free_ports(1 + len(NODES))
        cpus = os.cpu_count() or 1
        settings = {
            'ClusterName': 'test', 'SlurmctldHost': f'{host}(127.0.0.1)', 'SlurmctldPort': controller,
            'SlurmUser': 'root', 'AuthInfo': f'socket={self.folder}/munge.socket',
            'StateSaveLocation': self.folder / 'state', 'SlurmdSpoolDir': f'{self.folder}/spool.%n',
            'SlurmctldPidFile': self.folder / 'slurmctld.pid',
            'SlurmdPidFile': f'{self.folder}/slurmd.%n.pid',
            'SlurmctldLogFile': self.folder / 'slurmctld.log',
            'SlurmdLogFile': f'{self.folder}/slurmd.%n.log',
            'ProctrackType': 'proctrack/linuxproc', 'TaskPlugin': 'task/none',
            'SelectType': 'select/cons_tres', 'SelectTypeParameters': 'CR_Core',
            'MpiDefault': 'none', 'ReturnToService': 2}
        lines = [f'{name}={value}' for name, value in settings.items()]
        for node, port in zip(NODES, ports):
            lines.append(f'NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} '
                         f'CPUs={cpus}')
        lines.append(f'PartitionName=debug Nodes={",".join(NODES)} Default=YES State=UP '
                     'OverSubscribe=FORCE:8')
        self.config.write_text('\n'.join(lines) + '\n')
        (self.folder / 'state').mkdir()
        for node in NODES:
            (self.folder / f'spool.{node}').mkdir()

    def _spawn(self, *command):
        log = open(self.folder / f'{command[0]}.{len(self.processes)}.out.log', 'wb')
        process = subprocess.Popen([str(word) for word in command], env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        self.processes.append(process)
        return process

    def _await(self, what, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f'never came: {what}\n{self.log()}')
            time.sleep(0.05)
