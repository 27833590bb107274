"""Where a job's Python may come from, and what may stand around it: virtual environments, prefixes
like conda's, containers. Each is captured, with a real torch.
"""

import os
import pathlib
import shutil
import signal
import subprocess

import harness_torch
from harness import DONE, LIBRARY, SOURCE_DIR, until
from harness_torch import PROGRAMS, PYTHON, Program, TorchTest

STEPS = 5


def said_by(*command):
    return subprocess.run(list(map(str, command)), check=True, text=True, timeout=120,
                          capture_output=True).stdout.strip()


class PythonTest(TorchTest):
    """`profctl run` with a Python of another place, which has torch's by a .pth."""

    def setUp(self):
        super().setUp()
        self.place = self.folder / 'place'
        self.python = self.place / 'bin' / 'python'

    def check(self):
        packages = pathlib.Path(said_by(self.python, '-c',
                                        'import site; print(site.getsitepackages()[0])'))
        packages.mkdir(parents=True, exist_ok=True)
        torch = said_by(PYTHON, '-c', 'import torch; print(torch.__path__[0])')
        (packages / 'torch.pth').write_text(os.path.dirname(torch) + '\n')
        program = self.program('matmul_bias.py', '--train', '--steps', 0, '--step-ms', 5,
                               python=(self.python,))
        target = self.await_target(program, 'optimizer')
        self.assertTrue(target['command'].startswith(str(self.python)), target)
        result = self.trace('--pid', program.pid, '--steps', STEPS).result()
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(result.json['torch']['outcome'], 'recorded')
        self.assertEqual(self.ops(result.json['id'])['aten::mm']['calls'], 2 * STEPS)

    def base(self):
        """What PYTHON's environment was made from."""
        return pathlib.Path(said_by(PYTHON, '-c', 'import sys; print(sys._base_executable)'))

    def test_a_virtual_environment(self):
        subprocess.run([self.base(), '-m', 'venv', '--without-pip', self.place], check=True)
        self.check()

    def test_a_virtual_environment_with_the_systems_packages(self):
        subprocess.run([self.base(), '-m', 'venv', '--without-pip', '--system-site-packages',
                        self.place], check=True)
        self.check()

    def test_an_environment_of_uv(self):
        uv = shutil.which(os.environ.get('PROFD_UV', 'uv'))
        if uv is None:
            self.skipTest('no uv on PATH; PROFD_UV names one')
        subprocess.run([uv, 'venv', '--offline', '--python', self.base(), self.place], check=True,
                       capture_output=True)
        self.check()

    def test_a_prefix_like_condas(self):
        # The program itself in bin, its library beside it, and no pyvenv.cfg.
        library = pathlib.Path(said_by(self.base(), '-c', 'import os; print(os.__file__)')).parent
        own = self.place / 'lib' / library.name
        (own / 'site-packages').mkdir(parents=True)
        for entry in library.iterdir():
            if entry.name not in ('site-packages', 'dist-packages'):
                (own / entry.name).symlink_to(entry)
        self.python.parent.mkdir()
        shutil.copy(os.path.realpath(self.base()), self.python)
        self.check()


class Container(Program):
    """profiled_training.py in namespaces of its own; the agent's folder is read-only at /mnt, which
    two variables name, and nothing else tells it of us."""

    def __init__(self, socket_dir, *namespaces):
        inside = (f'mount --bind {socket_dir} /mnt && mount -o remount,bind,ro /mnt && '
                  'exec "$@"')
        variables = {key: value for key, value in os.environ.items()
                     if not key.startswith('PROFD_')}
        self.start(
            ['unshare', *namespaces, '--fork', '--mount', '--mount-proc', 'sh', '-c', inside, 'sh',
             PYTHON, PROGRAMS / 'profiled_training.py', '/unused'],
            {**variables, 'PYTHONPATH': '/mnt/client/current/profd/_inject',
             'PROFD_SOCKET_DIR': '/mnt'})


class ContainerTest(TorchTest):

    def setUp(self):
        super().setUp()
        prefix = self.folder / 'prefix'
        shutil.copytree(SOURCE_DIR / 'client_lib/python/profd',
                        prefix / 'lib/python3/dist-packages/profd')
        shutil.copy(LIBRARY, prefix / 'lib')
        subprocess.run([SOURCE_DIR / 'deploy/lay_agent.sh', self.daemon.socket_dir / 'client', prefix],
                       check=True)

    def container(self, *namespaces):
        """(the program, its target) once it has trained."""
        able = subprocess.run(['unshare', *namespaces, '--fork', '--mount', '--mount-proc', 'true'],
                              capture_output=True, text=True)
        if able.returncode != 0:
            self.skipTest(f'this machine makes no such namespaces: {able.stderr.strip()}')
        program = Container(self.daemon.socket_dir, *namespaces)
        self.addCleanup(program.close)
        program.do('train 3')

        def there():
            targets = self.daemon.ctl('ps', '--json').json['targets']
            return [t for t in targets if t['step_source'] == 'optimizer']
        target, = until(there, f'a target; its log:\n{self.daemon.log()}')
        return program, target

    def check(self, *namespaces):
        program, target = self.container(*namespaces)
        self.assertTrue(target['foreign_namespace'])
        self.assertEqual(target['namespace_pid'], 1)
        # The first of its namespace is the child of unshare out here.
        self.assertEqual(target['parent_pid'], program.pid)
        tracing = self.trace('--pid', target['pid'], '--steps', STEPS, '--with', 'memory')
        self.await_state('WAITING_STEP')
        program.do('train 20')
        result = tracing.result()
        self.assertEqual(result.status, DONE, result.err)
        capture = result.json
        self.assertEqual((capture['state'], capture['target']['pid']), ('COMPLETE', target['pid']))
        self.assertGreater(capture['torch']['block_count'], 0)
        self.assertEqual(self.ops(capture['id'])['aten::addmm']['calls'], 3 * STEPS)

    def test_a_job_in_a_pid_namespace_is_captured_by_its_pid_out_here(self):
        self.check('--pid', '--ipc', '--uts')

    def test_a_job_in_a_user_namespace_is_captured(self):
        self.check('--user', '--map-root-user', '--pid')

    def test_killed_in_the_window_what_there_was_is_kept(self):
        program, target = self.container('--pid')
        tracing = self.trace('--pid', target['pid'], '--steps', 1000)
        self.await_state('WAITING_STEP')
        program.do('train 10')
        self.await_state('RECORDING')
        os.kill(target['pid'], signal.SIGKILL)
        capture = tracing.result().json
        self.assertEqual((capture['state'], capture['ended_by']), ('PARTIAL', 'target_exit'))
        self.assertGreater(self.ops(capture['id'])['aten::addmm']['calls'], 8)
        self.assertEqual(self.daemon.ctl('ps', '--json').json['targets'], [])


if __name__ == '__main__':
    harness_torch.harness.main()
