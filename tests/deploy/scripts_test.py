"""deploy/lay_agent.sh and the scripts for Slurm do what their comments promise, and never more."""

import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get('PROFD_SOURCE_DIR', pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get('PROFD_BUILD_DIR', ROOT / 'build/release'))
LIBRARY = BUILD / 'lib/libprofd_client.so'


class ScriptTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd_deploy_'))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_script(self, name, *arguments, env=None, status=0):
        done = subprocess.run([ROOT / 'deploy' / name, *arguments], capture_output=True,
                              env={'PATH': os.environ['PATH'], **(env or {})}, check=False,
                              timeout=60)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done.stdout.decode()


class LayAgentTest(ScriptTest):

    def setUp(self):
        super().setUp()
        # As an installation lies.
        self.prefix = self.folder / 'usr'
        (self.prefix / 'lib/x86_64-linux-gnu').mkdir(parents=True)
        shutil.copy(LIBRARY, self.prefix / 'lib/x86_64-linux-gnu')
        package = self.prefix / 'lib/python3/dist-packages/profd'
        shutil.copytree(ROOT / 'client_lib/python/profd', package)
        (package / '__pycache__').mkdir(exist_ok=True)
        (package / '__pycache__/old.pyc').write_bytes(b'x')
        self.client = self.folder / 'client'

    def lay(self, **kwargs):
        return self.run_script('lay_agent.sh', self.client, self.prefix, **kwargs)

    def test_the_two_variables_of_a_pod_find_all(self):
        old = os.umask(0o077)
        try:
            self.lay()
        finally:
            os.umask(old)
        client = self.client / 'current'
        self.assertEqual((client / 'profd/libprofd_client.so').read_bytes(), LIBRARY.read_bytes())
        for path in [self.client, *client.resolve().rglob('*')]:
            mode = path.stat().st_mode
            self.assertTrue(mode & stat.S_IROTH, path)
            self.assertFalse(mode & (stat.S_IWGRP | stat.S_IWOTH), path)
        self.assertFalse(list(client.resolve().rglob('__pycache__')))
        done = subprocess.run(
            [sys.executable, '-c',
             'import profd, profd._library as l; print(profd.__file__); print(l.candidates()[0])'],
            env={'PYTHONPATH': str(client / 'profd/_inject'), 'PYTHONDONTWRITEBYTECODE': '1'},
            cwd=self.folder, capture_output=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        package, library = (pathlib.Path(line) for line in done.stdout.decode().splitlines())
        self.assertTrue(package.samefile(client / 'profd/__init__.py'))
        self.assertTrue(library.samefile(client / 'profd/libprofd_client.so'))

    def test_laid_again_nothing_that_is_in_use_is_written(self):
        self.lay()
        first = self.client / 'current/profd/libprofd_client.so'
        inode = first.stat().st_ino
        with open(first, 'rb') as in_use:
            for _ in range(4):
                self.lay()
            self.assertNotEqual(first.stat().st_ino, inode)
            self.assertEqual(in_use.read(), LIBRARY.read_bytes())
        self.assertEqual(os.readlink(self.client / 'current'), '.client-5')
        self.assertEqual(sorted(p.name for p in self.client.iterdir()),
                         ['.client-3', '.client-4', '.client-5', 'current'])

    def test_what_is_missing_is_said_and_nothing_is_laid(self):
        shutil.rmtree(self.prefix / 'lib/python3')
        self.lay(status=1)
        self.assertFalse(self.client.exists())


class SlurmTest(ScriptTest):

    def test_a_prolog_never_fails_and_notes_the_jobs_gpus(self):
        notes = self.folder / 'notes'
        env = {'PROFD_HPC_JOB_DIR': str(notes)}
        for odd in ({}, {'SLURM_JOB_ID': '1; rm -rf /', 'SLURM_JOB_GPUS': '0'},
                    {'SLURM_JOB_ID': '7', 'SLURM_JOB_GPUS': '../x,a-b'}):
            self.run_script('slurm/prolog.sh', env={**env, **odd})
        self.assertEqual([p.name for p in notes.rglob('*')] if notes.exists() else [], [])
        job = {**env, 'SLURM_JOB_ID': '88123', 'SLURM_JOB_GPUS': '0,2-3'}
        self.run_script('slurm/prolog.sh', env=job)
        self.run_script('slurm/prolog.sh', env=job)
        self.run_script('slurm/prolog.sh', env={**job, 'SLURM_JOB_ID': '5', 'SLURM_JOB_GPUS': '2'})
        self.assertEqual({p.name: p.read_text() for p in notes.iterdir()},
                         {'0': '88123\n', '2': '88123\n5\n', '3': '88123\n'})
        self.run_script('slurm/epilog.sh', env=job)
        self.assertEqual({p.name: p.read_text() for p in notes.iterdir()}, {'2': '5\n'})
        self.run_script('slurm/prolog.sh', env={**job, 'PROFD_HPC_JOB_DIR': '/dev/null/no'})
        self.run_script('slurm/epilog.sh', env={**job, 'PROFD_HPC_JOB_DIR': '/dev/null/no'})

    def test_a_task_gets_two_variables_where_it_has_not_set_them(self):
        client = self.folder / 'client'
        env = {'PROFD_CLIENT_DIR': str(client)}
        self.assertEqual(self.run_script('slurm/task_prolog.sh', env=env), '', 'nothing is laid')
        (client / 'profd/_inject').mkdir(parents=True)
        (client / 'profd/libprofd_client.so').touch()
        (client / 'profd/_inject/sitecustomize.py').touch()
        hook, library = client / 'profd/_inject', client / 'profd/libprofd_client.so'
        self.assertEqual(
            self.run_script('slurm/task_prolog.sh', env=env).splitlines(),
            [f'export PYTHONPATH={hook}', f'export CUDA_INJECTION64_PATH={library}'])
        self.assertEqual(
            self.run_script('slurm/task_prolog.sh',
                            env={**env, 'PYTHONPATH': '/mine', 'CUDA_INJECTION64_PATH': '/other'}),
            f'export PYTHONPATH={hook}:/mine\n')
        self.assertEqual(self.run_script('slurm/task_prolog.sh',
                                         env={**env, 'PYTHONPATH': f'/a:{hook}',
                                              'CUDA_INJECTION64_PATH': '/other'}), '')
        self.assertEqual(
            self.run_script('slurm/task_prolog.sh', env={**env, 'PROFD_DISABLE': '1'}), '')


if __name__ == '__main__':
    unittest.main(verbosity=2)
