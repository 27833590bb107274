"""Unmodified torch programs and the library: what they tell a daemon, and what it does to them.

Programs run with the hook on PYTHONPATH, import nothing of ours, and are recorded by a daemon in
Python. Runs with the torch of this Python; without one it skips.
"""

import importlib.util
import pathlib
import signal
import sys
import textwrap
import unittest

from python_targets import LIBRARY, ROOT, DaemonTest, Memory

if importlib.util.find_spec("torch") is None:
    print("SKIP: this Python has no torch")
    sys.exit(77)

sys.path.insert(0, str(ROOT / "tests" / "fakes"))
from python_daemon import Block, Note, Operator, TorchStatus  # noqa: E402

INJECT = str(ROOT / "client_lib" / "python" / "profd" / "_inject")
OFF, NAMES, SHAPES = 0, 1, 2
STRIDES, MEMORY = 1, 2
MISSING = 6  # wire::NoteKind
UNKNOWN, PARAMETER, OPTIMIZER_STATE, BUFFER = 0, 1, 3, 7
# Of the model below. Gradients are read when a step ends after the window (torch_gradients_test.py);
# here the program waits then.
PARAMETERS, BUFFERS, MOMENTA = 6, 3, 6
FEATURE_OPERATORS, FEATURE_BLOCKS, FEATURE_COMPILE = 1 << 1, 1 << 16, 1 << 17

needs_objects = unittest.skipIf("t" in sys.abiflags, "a free-threaded Python")

# A model and a step, before the body of each test.
MODEL = """
import torch
torch.set_num_threads(1)
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = torch.randn(16, 8)
def train():
    optimizer.zero_grad(set_to_none=False)
    loss = model(data).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()
train()
"""


def owned(events):
    """The blocks that are somebody's."""
    return [block for block in events.of(Block) if block.category != UNKNOWN]


class TorchTest(DaemonTest):

    def setUp(self):
        super().setUp()
        self.daemon_env["PYTHONPATH"] = INJECT

    def torch_target(self, body):
        """A program that has trained a step, waits, runs `body`, and waits again."""
        program = self.start(MODEL + "pause()\n" + textwrap.dedent(body) + "\npause()\n",
                             **self.daemon_env)
        target = self.daemon.wait_target(program.pid)
        program.wait_pause()
        return program, target

    def record_torch(self, body, torch):
        program, target = self.torch_target(body)
        capture = target.arm(8 << 20, torch)
        capture.fire()
        capture.wait_recording()
        program.resume()
        program.wait_pause()
        events = capture.finish()
        program.resume()
        return events, program.finish()

    def test_an_unmodified_program_is_recorded_with_its_operators(self):
        events, _ = self.record_torch("train()", (SHAPES, 0, 0))
        names = events.range_names()
        for name in ("aten::addmm", "aten::native_batch_norm", "Optimizer.step#SGD.step"):
            self.assertIn(name, names)
        self.assertGreater(len(events.of(Operator)), 20)
        status, = events.of(TorchStatus)
        self.assertTrue(status.recorded & FEATURE_OPERATORS)
        self.assertEqual(sum(events.drops), 0)

    @needs_objects
    def test_the_owners_of_memory_are_told_with_their_names(self):
        events, said = self.record_torch("""
            train()
            owners = {name: p.data_ptr() for name, p in model.state_dict().items()}
            owners.update({name + ".momentum_buffer": optimizer.state[p]["momentum_buffer"].data_ptr()
                           for name, p in model.named_parameters()})
            say(owners)
        """, (OFF, MEMORY, 0))
        blocks = {block.name: block for block in owned(events)}
        self.assertEqual({name: block.address for name, block in blocks.items()}, said[0])
        self.assertEqual(blocks["0.weight"][1:], (256, "0.weight", PARAMETER, 0, 0))
        self.assertEqual(blocks["1.running_mean"].category, BUFFER)
        self.assertEqual(blocks["2.bias.momentum_buffer"].category, OPTIMIZER_STATE)
        status, = events.of(TorchStatus)
        self.assertTrue(status.recorded & FEATURE_BLOCKS)

    def test_a_free_threaded_python_has_all_but_the_owners_of_memory(self):
        events, _ = self.record_torch("""
            sys.abiflags = "t"
            train()
        """, (SHAPES, MEMORY, 0))
        self.assertIn("aten::addmm", events.range_names())
        self.assertGreater(len(events.of(Memory)), 0)
        self.assertEqual(events.of(Block), [])
        missing, = (note for note in events.of(Note) if note.kind == MISSING)
        self.assertEqual(missing.subject, "owners of memory")
        self.assertIn("free-threaded", missing.text)

    def test_without_memory_nobody_looks_for_owners(self):
        events, _ = self.record_torch("train()", (NAMES, 0, 0))
        self.assertEqual(events.of(Block), [])

    @needs_objects
    def test_captures_follow_one_another(self):
        program, target = self.torch_target("""
            for _ in range(3):
                train()
                pause()
        """)
        for _ in range(3):
            capture = target.arm(8 << 20, (NAMES, MEMORY, 0))
            capture.fire()
            capture.wait_recording()
            program.resume()
            program.wait_pause()
            events = capture.finish()
            self.assertEqual(events.range_names().count("Optimizer.step#SGD.step"), 1)
            self.assertEqual(len(owned(events)), PARAMETERS + BUFFERS + MOMENTA)
        program.resume()
        program.wait_pause()
        program.resume()
        program.finish()

    def test_training_computes_the_same_bits_recorded_or_not(self):
        body = """
            losses = [train().hex() for _ in range(20)]
            say(losses + [p.double().sum().item().hex() for p in model.state_dict().values()])
        """
        _, recorded = self.record_torch(body, (SHAPES, STRIDES | MEMORY, 0))
        without = self.start(MODEL + textwrap.dedent(body), PYTHONPATH="").finish()
        self.assertEqual(recorded, without)

    def test_the_program_sees_no_thread_and_no_module_of_ours_in_its_way(self):
        program = self.start("""
            import torch, threading
            say([threading.active_count(), len(threading.enumerate()),
                 [name for name in sys.path if "_inject" in name]])
        """, **self.daemon_env)
        self.assertEqual(program.finish(), [[1, 1, []]])

    def test_a_signal_that_the_program_blocks_stays_pending(self):
        # It waits for the program to look, and is given to no thread of ours; also in a child.
        program = self.start("""
            import signal, torch
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
            torch.set_num_threads(1)
            def look():
                for number in (signal.SIGTERM, signal.SIGUSR1):
                    os.kill(os.getpid(), number)
                return sorted(signal.sigpending())
            child = os.fork()
            if child == 0:
                os._exit(0 if look() == [signal.SIGUSR1, signal.SIGTERM] else 1)
            say([os.waitpid(child, 0)[1], look(), sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))])
        """, **self.daemon_env)
        blocked = [signal.SIGUSR1, signal.SIGTERM]
        self.assertEqual(program.finish(), [[0, blocked, blocked]])

    def test_a_program_may_end_inside_a_window(self):
        # torch's CPU allocator warns of blocks that are older than the window, as it does of
        # torch.profiler.
        self.daemon_env.update(TORCH_CPP_LOG_LEVEL="ERROR", GLOG_minloglevel="2")
        program, target = self.torch_target("")
        capture = target.arm(8 << 20, (NAMES, MEMORY, 0))
        capture.fire()
        capture.wait_recording()
        program.resume()
        program.wait_pause()
        program.resume()
        program.finish()
        capture.abandon()

    @needs_objects
    def test_forked_children_are_targets_with_owners_of_their_own(self):
        program, _ = self.torch_target("""
            import profd, profd._torch
            wait_connected()  # So that the child knows that its parent is a target.
            child = os.fork()
            if child == 0:
                while not profd._torch._lib.profd_torch_features() & (1 << 16):
                    time.sleep(0.001)  # Its collector is not there yet.
                train()
                say(os.getpid())
                sys.stdin.readline()
                train()
                os._exit(0)
            os.waitpid(child, 0)
        """)
        program.resume()
        child = self.daemon.wait_target()
        self.assertEqual(child.parent_pid, program.pid)
        capture = child.arm(8 << 20, (NAMES, MEMORY, 0))
        capture.fire()
        capture.wait_recording()
        events = capture.finish()
        self.assertEqual(len(owned(events)), PARAMETERS + BUFFERS + MOMENTA)
        program.resume()
        program.wait_pause()
        program.resume()
        program.finish()

    def test_spawned_children_are_targets_and_workers_of_a_dataloader_are_not(self):
        script = pathlib.Path(self.daemon_env["PROFD_SOCKET_DIR"]) / "spawn.py"
        script.write_text(MODEL.replace("\ntrain()\n", "\n") + textwrap.dedent("""
            import os, sys
            class Data(torch.utils.data.Dataset):
                def __len__(self):
                    return 4
                def __getitem__(self, index):
                    return os.getpid()
            def work():
                train()
                print("trained", flush=True)
                sys.stdin = open(0)
                sys.stdin.readline()
            if __name__ == "__main__":
                import torch.multiprocessing
                context = torch.multiprocessing.get_context("spawn")
                for how in ("spawn", "fork"):
                    loader = torch.utils.data.DataLoader(Data(), num_workers=1,
                                                         multiprocessing_context=how)
                    assert os.getpid() not in {int(pid) for batch in loader for pid in batch}
                child = context.Process(target=work)
                child.start()
                child.join()
        """))
        program = self.start("import runpy; runpy.run_path(%r, run_name='__main__')" % str(script),
                             **self.daemon_env)
        first = self.daemon.wait_target(program.pid)
        second = self.daemon.wait_target()
        self.assertNotEqual(second.pid, first.pid)
        program.resume()
        program._process.wait(timeout=60)
        self.assertTrue(self.daemon.no_arrivals())

    def test_a_launcher_is_no_target(self):
        folder = pathlib.Path(self.daemon_env["PROFD_SOCKET_DIR"])
        (folder / "torchrun").write_text(textwrap.dedent("""
            import subprocess, sys, torch
            sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)
        """))
        (folder / "job.py").write_text("import os, sys, torch\nprint(os.getpid())\n"
                                       "sys.stdout.flush()\nsys.stdin.readline()\n")
        program = self.start("""
            import subprocess
            subprocess.run([sys.executable, %r, %r], check=True)
        """ % (str(folder / "torchrun"), str(folder / "job.py")), **self.daemon_env)
        target = self.daemon.wait_target()
        program.resume()
        self.assertEqual(program.finish(), [target.pid])
        self.assertTrue(self.daemon.no_arrivals())

    def test_init_is_enough_before_and_after_the_import_of_torch(self):
        self.daemon_env["PYTHONPATH"] = str(ROOT / "client_lib" / "python")
        for imports in ("import profd; profd.init(); import torch",
                        "import torch, profd; profd.init(); profd.init()"):
            said = self.start(imports + """
from profd import _torch
say(_torch._lib is not None and _torch._lib.profd_torch_features() & 2)
""", **self.daemon_env).finish()
            self.assertEqual(said, [FEATURE_OPERATORS], imports)

    def test_the_log_says_why_not(self):
        program = self.start("""
            import warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                import torch
            say([str(warning.message) for warning in caught if "profd" in str(warning.message)])
        """, PYTHONPATH=INJECT, PROFD_LOG="warning", PROFD_CLIENT_LIB="/nonexistent/lib.so")
        told = program.finish()[0]
        self.assertEqual(len(told), 2)
        self.assertIn("/nonexistent/lib.so", told[0])
        self.assertIn("PyTorch is not recorded", told[1])

    def test_a_sub_interpreter_is_left_alone(self):
        inside = textwrap.dedent('''
            import json, sys, types
            sys.path.insert(0, %r)
            from profd import _torch
            torch = types.SimpleNamespace(_C=None, __version__="2.0")
            print(json.dumps(_torch._reason_against(torch)), flush=True)
        ''') % str(ROOT / "client_lib" / "python")
        said = self.start('''
            try:
                import _interpreters as interpreters
            except ImportError:
                import _xxsubinterpreters as interpreters
            interpreters.run_string(interpreters.create(), %r)
        ''' % inside, **self.daemon_env).finish()
        self.assertIn("sub-interpreter", said[0])

    @unittest.skipUnless(importlib.util.find_spec("torch._dynamo"), "torch before torch.compile")
    def test_what_torch_compile_does_is_told(self):
        events, _ = self.record_torch("""
            def broken(x):
                y = x.sin()
                print(end="")
                return y.cos()
            compiled = torch.compile(broken, backend="eager")
            compiled(torch.ones(4))
            compiled(torch.ones(8))
        """, (NAMES, 0, 0))
        kinds = {note.kind for note in events.of(Note)}
        self.assertLessEqual({1, 2, 3}, kinds)
        self.assertTrue(all(note.time > 0 for note in events.of(Note) if note.kind in (1, 2)))
        status, = events.of(TorchStatus)
        self.assertTrue(status.recorded & FEATURE_COMPILE)


if __name__ == "__main__":
    assert pathlib.Path(LIBRARY).exists(), "%s is not built" % LIBRARY
    unittest.main()
