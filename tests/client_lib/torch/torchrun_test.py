"""Jobs that torchrun starts, and starts again after one of their ranks died."""

import subprocess

import harness_torch
from harness import DONE, until
from harness_torch import PYTHON, TorchTest, VERSION

STEPS = 4


class TorchrunTest(TorchTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        able = subprocess.run([PYTHON, '-m', 'torch.distributed.run', '--standalone', '--no_python',
                               'true'], capture_output=True, text=True)
        if able.returncode != 0:
            print(f'SKIP: torchrun of torch {VERSION[1]} starts no rank on this Python: '
                  f'{able.stderr.strip().splitlines()[-1]}', flush=True)
            raise SystemExit(77)

    def job(self, script, *arguments, restarts=0):
        launcher = (PYTHON, '-m', 'torch.distributed.run', '--standalone', '--nproc_per_node', 2,
                    '--max_restarts', restarts)
        # In a store that generations share, those of torch 2.15 find the addresses of the one before
        # and cannot connect, with and without us.
        own_store = {'TORCH_DISABLE_SHARE_RDZV_TCP_STORE': '1'}
        return self.program(script, *arguments, python=launcher, env=own_store)

    def targets(self):
        return self.daemon.ctl('ps', '--json').json['targets']

    def await_ranks(self, other_than=()):
        """The pids of two ranks that train."""
        def both():
            pids = {t['pid'] for t in self.targets() if t['step_source'] == 'optimizer'}
            return pids if len(pids) == 2 and pids.isdisjoint(other_than) else None
        return until(both, f'two ranks train; ps: {self.targets()}')

    def record_both(self, program):
        result = self.trace('--pid', program.pid, '--steps', STEPS).result()
        self.assertEqual(result.status, DONE, result.err + self.daemon.log()[-2000:])
        captures = result.json['captures']
        self.assertEqual([c['state'] for c in captures], ['COMPLETE'] * 2)
        return {c['target']['pid'] for c in captures}

    def test_ranks_are_targets_and_the_launcher_is_none(self):
        program = self.job('ddp.py', '--steps', 0, '--step-ms', 5)
        ranks = self.await_ranks()
        self.assertEqual({t['pid'] for t in self.targets()}, ranks)
        self.assertNotIn(program.pid, ranks)
        self.assertEqual({(t['rank'], t['parent_pid']) for t in self.targets()},
                         {(0, program.pid), (1, program.pid)})
        self.assertEqual(self.record_both(program), ranks)

    def test_captures_of_ranks_that_die_end_and_the_next_generation_is_captured(self):
        die = self.folder / 'die'
        program = self.job('elastic.py', '--steps', 0, '--step-ms', 5, '--die-when', die,
                           restarts=1)
        first = self.await_ranks()
        tracing = self.trace('--pid', program.pid, '--steps', 100000)
        until(lambda: [c['state'] for c in self.captures()] == ['RECORDING'] * 2, 'both record')
        die.touch()
        result = tracing.result()
        self.assertEqual({c['target']['pid']: (c['state'], c['ended_by'])
                          for c in result.json['captures']},
                         dict.fromkeys(first, ('PARTIAL', 'target_exit')))
        for capture in result.json['captures']:
            self.assertGreater(self.ops(capture['id'])['aten::addmm']['calls'], 0)

        second = self.await_ranks(other_than=first)
        self.assertEqual({t['pid'] for t in self.targets()}, second)
        self.assertEqual(self.record_both(program), second)


if __name__ == '__main__':
    harness_torch.harness.main()
