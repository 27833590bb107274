"""The training programs of deploy/demo: they train, they end as told, and a capture of them
holds what their README says."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
sys.path.insert(0, str(ROOT / "tests" / "fakes"))

from python_daemon import Counter, FakeDaemon, Memory  # noqa: E402

DEADLINE_S = 120
# profd_memory_category.
CATEGORIES = {"parameter": 1, "gradient": 2, "optimizer_state": 3, "activation": 4, "input": 5,
              "temporary": 6}


class DemoRules:
    """What holds for all programs."""

    command = []
    job = "mlp_train"
    note = None  # What the line after "ready" says, of a program that says something there.

    def environment(self, **changes):
        result = {key: value for key, value in os.environ.items()
                  if not key.startswith("PROFD_")}
        result.update(
            PROFD_SOCKET_DIR="/nonexistent", OPENBLAS_NUM_THREADS="1",
            PYTHONPATH=str(ROOT / "client_lib" / "python"),
            PROFD_CLIENT_LIB=str(BUILD / "lib" / "libprofd_client.so"))
        result.update(changes)
        return result

    def run_demo(self, *arguments, **env):
        return subprocess.run(self.command + list(arguments), env=self.environment(**env),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=DEADLINE_S)

    def start_demo(self, *arguments, **env):
        process = subprocess.Popen(self.command + list(arguments), env=self.environment(**env),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_the_loss_falls_without_a_daemon(self):
        result = self.run_demo("--steps", "200", "--log-every", "20")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        losses = re.findall(r"^step (\d+) loss (\d+\.\d{4})$", result.stdout, re.MULTILINE)
        self.assertEqual([int(step) for step, _ in losses], list(range(20, 201, 20)))
        self.assertLess(float(losses[-1][1]), 0.7 * float(losses[0][1]))

    def test_the_same_seed_trains_the_same(self):
        runs = {self.run_demo("--steps", "40", "--log-every", "20", "--seed", "7", "--loaders",
                              loaders).stdout.split("\n", 1)[1] for loaders in ("1", "3")}
        self.assertEqual(len(runs), 1, runs)

    def test_quiet_keeps_only_the_ready_line_and_the_result(self):
        result = self.run_demo("--steps", "5", "--log-every", "1", "--quiet")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"\Aready pid=\d+\nloss on unseen data .*\n\Z")

    def test_a_wrong_command_line_is_refused(self):
        for arguments in (["--no-such-flag"], ["--steps"], ["--steps", "-1"], ["--steps", "x"],
                          ["--batch", "0"], ["--loaders", "17"], ["extra"]):
            with self.subTest(arguments):
                result = self.run_demo(*arguments)
                self.assertEqual(result.returncode, 2)
                self.assertIn(arguments[0], result.stderr)
                self.assertEqual(result.stdout, "")

    def test_sigterm_ends_it_well(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                process = self.start_demo("--steps", "0", "--step-ms", "1")
                self.assertEqual(process.stdout.readline(), "ready pid=%d\n" % process.pid)
                if self.note:
                    self.assertRegex(process.stdout.readline(), self.note)
                self.assertRegex(process.stdout.readline(), "^step 100 loss ")
                process.send_signal(number)
                out, err = process.communicate(timeout=DEADLINE_S)
                self.assertEqual((process.returncode, err), (0, ""), out)
                self.assertIn("loss on unseen data", out)

    def test_a_capture_holds_what_the_program_did(self):
        with tempfile.TemporaryDirectory(prefix="profd-demo-") as folder:
            with FakeDaemon(folder) as daemon:
                process = self.start_demo("--steps", "0", PROFD_SOCKET_DIR=folder)
                self.check_capture(daemon.wait_target(process.pid))
                process.terminate()
                self.assertEqual(process.wait(DEADLINE_S), 0)

    def check_capture(self, target):
        self.assertTrue(target.wait_metadata("job").startswith(self.job))
        capture = target.arm(32 << 20)
        capture.fire(steps=4, warmup=1)
        capture.wait_ended()
        events = capture.finish()
        self.assertEqual(sum(events.drops), 0)
        self.check_ranges(events)
        self.check_memory(events)
        self.assertIn("loss", [event.name for event in events.of(Counter)])
        self.assertTrue([name for name in events.thread_names().values()
                         if name.startswith("loader-")])

    def check_ranges(self, events):
        depth_of = {event.name: event.depth for event in events.ranges}
        for name in ("data", "forward", "backward", "optimizer", "load_batch"):
            self.assertEqual(depth_of.get(name), 0, name)
        for name in ("layer0.forward", "layer2.backward", "layer1.update", "sample"):
            self.assertEqual(depth_of.get(name), 1, name)
        self.assertEqual(depth_of.get("matmul"), 2)
        by_thread = {}
        for event in events.ranges:
            by_thread.setdefault(event.name, set()).add(event.thread)
        self.assertTrue(by_thread["forward"].isdisjoint(by_thread["load_batch"]))

    def check_memory(self, events):
        # A block made on a loader thread is freed on the training thread.
        memory = sorted(events.of(Memory), key=lambda event: event.time)
        # Parameters and the optimizer's state were there before the capture began.
        self.assertLessEqual({CATEGORIES[name] for name in
                              ("gradient", "activation", "input", "temporary")},
                             {event.category for event in memory})
        live = set()
        for event in memory:
            if event.is_free:
                live.discard(event.address)
            else:
                self.assertNotIn(event.address, live)
                live.add(event.address)
            self.assertGreater(event.bytes, 0)
            self.assertGreaterEqual(event.total_allocated, 0)


class CppDemoTest(DemoRules, unittest.TestCase):
    command = [str(BUILD / "bin" / "mlp_train")]


class GpuDemoTest(DemoRules, unittest.TestCase):
    """On the simulated GPU, which has to say so."""

    command = [str(BUILD / "bin" / "gpu_train")]
    job = "gpu_train"
    note = r"^the GPU is simulated by .*/libcupti\.so\.13$"

    def test_the_result_says_that_the_gpu_is_simulated(self):
        result = self.run_demo("--steps", "5", "--quiet")
        self.assertRegex(result.stdout, r"after 5 steps \(the GPU is simulated\)\n\Z")

    def test_without_the_stand_in_it_says_so(self):
        for arguments, variables in ((["--cupti-standin", "/nonexistent/libcupti.so.13"], {}),
                                     ([], {"PROFD_CUPTI_LIB": "/nonexistent/libcupti.so.13"})):
            with self.subTest(arguments):
                result = self.run_demo(*arguments, **variables)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertIn("/nonexistent/libcupti.so.13", result.stderr)

    def test_a_library_without_a_simulated_gpu_is_refused(self):
        result = self.run_demo("--cupti-standin", str(BUILD / "lib" / "libprofd_client.so"))
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("has no simulated GPU", result.stderr)

    def test_it_trains_as_without_a_gpu(self):
        def losses(command):
            result = subprocess.run([command, "--steps", "20", "--log-every", "5"], text=True,
                                    env=self.environment(), stdout=subprocess.PIPE,
                                    timeout=DEADLINE_S)
            return re.findall(r"^step.*$", result.stdout, re.MULTILINE)

        self.assertEqual(losses(self.command[0]), losses(CppDemoTest.command[0]))


class PythonDemoTest(DemoRules, unittest.TestCase):
    command = [sys.executable, str(ROOT / "deploy" / "demo" / "mlp_train.py")]


if __name__ == "__main__":
    unittest.main()
