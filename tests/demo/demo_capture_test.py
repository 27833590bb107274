"""Captures of the training programs of deploy/demo by the real profd: what a user sees first."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import harness  # noqa: E402

PYTHON_DEMO = harness.SOURCE_DIR / "deploy/demo/mlp_train.py"


class DemoCaptureTest(harness.EndToEndTest):

    def start_demo(self, *command):
        env = harness.environment(self.daemon.socket_dir, {
            "PYTHONPATH": str(harness.SOURCE_DIR / "client_lib/python"),
            "PROFD_CLIENT_LIB": str(harness.LIBRARY), "OPENBLAS_NUM_THREADS": "1"})
        process = subprocess.Popen([*command, "--steps", "0", "--quiet"], env=env, text=True,
                                   stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), f"ready pid={process.pid}\n")
        harness.until(lambda: str(process.pid) in self.daemon.ctl("ps", "--json").out,
                      "the demo is a target")
        return process

    def check(self, process):
        result = self.trace("--pid", process.pid, "--steps", "5").result()
        self.assertEqual(result.status, harness.DONE, result.err + self.daemon.log()[-2000:])
        capture = result.json
        self.assertEqual((capture["state"], capture["dropped_event_count"]), ("COMPLETE", 0))
        self.assertEqual(len(capture["steps"]), 5)
        self.check_operators(self.ops(capture["id"]))
        self.check_memory(capture["id"])
        process.terminate()
        self.assertEqual(process.wait(harness.PATIENCE_S), 0)

    def check_operators(self, ops):
        for name in ("data", "forward", "backward", "optimizer", "loss", "layer0.forward",
                     "layer2.backward", "layer1.update"):
            self.assertEqual(ops[name]["calls"], 5, name)
        self.assertIn("load_batch", ops)
        self.assertGreater(ops["backward"]["cpu_total_ns"], ops["backward"]["self_cpu_ns"])
        layers = sum(ops[f"layer{i}.forward"]["cpu_total_ns"] for i in range(3))
        self.assertGreaterEqual(ops["forward"]["cpu_total_ns"], layers)

    def check_memory(self, capture_id):
        result = self.daemon.ctl("memory", capture_id, "--json")
        self.assertEqual(result.status, harness.DONE, result.err)
        device, = result.json["devices"]
        # More than the parameters, their gradients and their momentum: 4 bytes each.
        parameters = 32 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10
        self.assertGreater(device["peak_bytes"], 3 * 4 * parameters)
        self.assertTrue(device["points"])

    def test_the_program_in_cpp_is_captured(self):
        self.check(self.start_demo(str(harness.MLP)))

    def test_the_program_in_python_is_captured(self):
        self.check(self.start_demo(sys.executable, str(PYTHON_DEMO)))


if __name__ == "__main__":
    harness.main()
