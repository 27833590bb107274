"""profd.Client and profd.capture() with a real daemon. The examples of the documentation run, too."""

import doctest
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client_lib" / "python"))
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

try:
    import grpc  # noqa: F401
    import pandas
except ImportError as missing:
    print("SKIP: %s" % missing)
    sys.exit(77)

import harness  # noqa: E402
import remote_test  # noqa: E402
from python_targets import LIBRARY, ProgramTest  # noqa: E402

os.environ["PROFD_CLIENT_LIB"] = LIBRARY
import profd  # noqa: E402
from profd import _api, _client  # noqa: E402

# What a program does that trains until it is told to stop.
LOOP = """
    import profd
    profd.init()
    stop = threading.Event()
    def train():
        profd.step()
        with profd.annotate("forward"):
            profd.alloc(1, 4096, category="activation")
            profd.free(1)
    def loop():
        while not stop.is_set():
            train()
            time.sleep(0.001)
    thread = threading.Thread(target=loop)
    thread.start()
    wait_connected()
    pause()
    stop.set()
    thread.join()
"""


class ClientTest(ProgramTest):

    def setUp(self):
        folder = tempfile.mkdtemp(prefix="profd-client-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.daemon = harness.Daemon(folder)
        self.addCleanup(self.daemon.stop)
        self.daemon.start()
        self.env = {"PROFD_SOCKET_DIR": str(self.daemon.socket_dir), "PROFD_CLIENT_LIB": LIBRARY}
        for name in ("PROFD_ADDRESS", "PROFD_SOCKET_DIR"):
            self.addCleanup(self.restore, name, os.environ.pop(name, None))
        os.environ["PROFD_SOCKET_DIR"] = self.env["PROFD_SOCKET_DIR"]

    @staticmethod
    def restore(name, value):
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value

    def client(self):
        client = profd.Client()
        self.addCleanup(client.close)
        return client

    def training(self):
        program = self.start(LOOP, **self.env)
        program.wait_pause()
        return program

    def run_examples(self, documented, **names):
        flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
        test = doctest.DocTestParser().get_doctest(documented.__doc__, names, documented.__name__,
                                                   None, None)
        self.assertGreater(len(test.examples), 3)
        said = []
        result = doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
        self.assertEqual(result.failed, 0, "".join(said))

    def test_the_examples_of_client_are_true(self):
        program = self.training()
        self.run_examples(profd.Client, profd=profd, pid=program.pid)
        program.resume()
        program.finish()

    def test_the_grade_is_the_stored_one_with_its_reasons(self):
        program = self.training()
        report = self.client().trace(program.pid, duration=0.2).wait()
        program.resume()
        program.finish()
        shown = self.daemon.ctl("show", report.id, "--json").json
        self.assertEqual(report.quality, shown["quality"])
        self.assertEqual(report.quality_reasons, [check["sentence"] for check in
                                                  shown["quality_checks"] if check["grade"] != "A"])
        slowdown = shown["slowdown"]
        self.assertEqual(report.slowdown,
                         (slowdown["low"], slowdown["high"]) if slowdown["known"] else None)
        self.assertGreater(slowdown["during_step_count"], 0)

    def test_the_examples_of_capture_are_true(self):
        said = self.run_program("""
            import doctest, profd
            def train():
                profd.step()
                with profd.annotate("forward"):
                    pass
            train()
            test = doctest.DocTestParser().get_doctest(
                profd.capture.__doc__, {"profd": profd, "train": train}, "capture", None, None)
            text = []
            result = doctest.DocTestRunner().run(test, out=text.append)
            say([result.attempted, "".join(text)])
        """, **self.env)
        self.assertEqual(said, [[5, ""]])

    def test_tables_have_the_rows_that_profctl_shows(self):
        program = self.training()
        report = self.client().trace(program.pid, steps=4, name="mine", labels={"a": "b"})
        shown = self.daemon.ctl("ops", report.id, "--json").json
        table = report.ops()
        self.assertEqual(list(table.columns), list(shown["rows"][0]))
        self.assertEqual(list(zip(table["name"], table["calls"], table["p95_ns"])),
                         [(row["name"], row["calls"], row["p95_ns"]) for row in shown["rows"]])
        self.assertEqual(set(report.ops(by="step")["step"]), set(report.steps()["index"]))
        self.assertEqual(len(report.ops(limit=1)), 1)
        self.assertEqual(len(report.ops(by="arguments:batch", limit=1)), 1)
        with self.assertRaises(ValueError):
            report.ops(by="argument")
        first = int(report.steps()["index"][0])
        self.assertEqual(set(report.ops(by="step", step=first)["step"]), {first})
        self.assertTrue(report.kernels().empty)
        steps = self.daemon.ctl("steps", report.id, "--json").json["steps"]
        self.assertEqual(report.steps().to_dict("records"), steps)
        self.assertEqual(list(report.table("idle", "streams").columns)[:3],
                         ["device", "context", "stream"])
        self.assertEqual(len(report.table("steps", limit=2, sort="duration")), 2)
        with self.assertRaises(ValueError):
            report.table("steps", "nonsense")
        with self.assertRaises(profd.ProfdError):
            report.table("nonsense")
        captured = self.daemon.ctl("show", report.id, "--json").json
        self.assertEqual((captured["display_name"], captured["labels"]), ("mine", {"a": "b"}))
        program.resume()
        program.finish()

    def test_traces_are_written_in_the_format_their_name_says(self):
        program = self.training()
        report = self.client().trace(program.pid, steps=2)
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.daemon.folder))
        for name, start in (("t.json", b"{"), ("t.json.gz", b"\x1f\x8b"), ("t.pftrace", b"\n")):
            report.export(folder / name)
            self.assertTrue((folder / name).read_bytes().startswith(start), name)
        with self.assertRaises(ValueError):
            report.export(folder / "t", format="svg")
        program.resume()
        program.finish()

    def test_refusals_have_a_code_and_a_reason(self):
        client = self.client()
        with self.assertRaises(profd.ProfdError) as raised:
            client.report("01ARZ3NDEKTSV4RRFFQ69G5FAV")
        self.assertEqual(raised.exception.code, "NOT_FOUND")
        said = self.run_program("""
            import profd
            try:
                profd.capture(steps=3)
            except profd.ProfdError as error:
                say([error.code, error.reason])
        """, **self.env)
        self.assertEqual(said, [["FAILED_PRECONDITION", "NO_STEPS"]])

    def test_wrong_arguments_are_refused_before_anything_is_begun(self):
        client = self.client()
        for options in ({}, {"steps": 1, "duration": 1.0}, {"steps": 1, "ops": "all"},
                        {"steps": 1, "gpu": "yes"}):
            with self.assertRaises(ValueError):
                client.trace(1, **options)
        with self.assertRaisesRegex(TypeError, "colour.*valid: .*step_marker"):
            client.trace(1, steps=1, colour="red")
        with self.assertRaisesRegex(ValueError, "not a duration"):
            client.trace(1, duration="soon")
        self.assertEqual(client.captures(), [])

    def test_a_capture_by_time_ends_when_it_is_stopped_and_keeps_what_it_has(self):
        said = self.run_program("""
            import profd
            with profd.capture() as report:
                with profd.annotate("inside"):
                    pass
            say([report.state, list(report.ops()["name"])])
        """, **self.env)
        self.assertEqual(said, [["CANCELLED", ["inside"]]])

    def test_without_recorded_memory_it_is_said_how_to_record_it(self):
        said = self.run_program("""
            import profd
            with profd.capture() as report:
                with profd.annotate("inside"):
                    pass
            try:
                report.memory()
            except profd.ProfdError as error:
                say([error.reason, "memory=True" in str(error)])
        """, **self.env)
        self.assertEqual(said, [["NO_MEMORY", True]])

    def test_waits_end_after_their_timeout_and_the_capture_goes_on(self):
        said = self.run_program("""
            import profd
            with profd.capture(duration="1h") as report:
                try:
                    report.wait(timeout="20ms")
                except TimeoutError as error:
                    say([report.id in str(error), report.state])
        """, **self.env)
        self.assertEqual(said, [[True, "RECORDING"]])

    def test_a_deleted_capture_has_no_tables(self):
        program = self.training()
        report = self.client().trace(program.pid, duration=0.02)
        report.delete()
        with self.assertRaises(profd.ProfdError) as raised:
            report.ops()
        self.assertEqual(raised.exception.code, "NOT_FOUND")
        program.resume()
        program.finish()

    def test_without_pandas_tables_are_lists_of_rows(self):
        program = self.training()
        report = self.client().trace(program.pid, steps=2)
        sys.modules["pandas"] = None
        try:
            rows = report.ops()
        finally:
            sys.modules["pandas"] = pandas
        self.assertEqual([(row.name, row.calls) for row in rows], [("forward", 2)])
        program.resume()
        program.finish()


class RemoteClientTest(remote_test.RemoteTest):
    """The same client, from another machine."""

    def client(self, user="alice", **options):
        tls = self.tls(user)
        given = {"tls_ca": tls["PROFD_TLS_CA"], "tls_cert": tls.get("PROFD_TLS_CERT"),
                 "tls_key": tls.get("PROFD_TLS_KEY"), **options}
        client = profd.Client(f"localhost:{self.port.number}", **given)
        self.addCleanup(client.close)
        return client

    def assert_refused(self, client, code, words=""):
        with self.assertRaises(profd.ProfdError) as raised:
            client.targets()
        self.assertEqual(raised.exception.code, code)
        self.assertIn(words, str(raised.exception))

    def test_a_certificate_says_who_calls(self):
        # Without a policy, who is known may do nothing yet.
        self.assert_refused(self.client(), "PERMISSION_DENIED", "cn:alice may not")
        for name, value in self.tls("bob").items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        client = profd.Client(self.port.address)
        self.addCleanup(client.close)
        self.assert_refused(client, "PERMISSION_DENIED", "cn:bob may not")

    def test_who_is_not_known_is_refused(self):
        self.assert_refused(self.client(user=None), "UNAVAILABLE", "do its certificates")
        self.assert_refused(self.client(tls_ca=str(self.pki / "other/ca.crt")), "UNAVAILABLE")
        self.assert_refused(self.client(tls_server_name="gpu002"), "UNAVAILABLE")
        self.assert_serves()

    def test_what_does_not_go_together_is_refused_at_once(self):
        for options in ({"tls_cert": "a"}, {"tls_ca": "a", "tls_cert": "b"},
                        {"tls_server_name": "a"}):
            with self.assertRaises(ValueError):
                profd.Client("localhost:1", **options)
        with self.assertRaises(OSError):
            profd.Client("localhost:1", tls_ca="/nowhere")
        with self.assertRaises(profd.ProfdError) as raised:
            profd.Client("gpu001:7411")
        self.assertIn("needs certificates", str(raised.exception))


class WithoutDaemonTest(ProgramTest):

    def test_nobody_who_answers_is_an_error_that_says_where_it_looked(self):
        for env in ({"PROFD_SOCKET_DIR": "/nonexistent"}, {"PROFD_ADDRESS": "/nonexistent/x.sock"}):
            said = self.run_program("""
                import profd
                try:
                    profd.Client().targets()
                except profd.ProfdError as error:
                    say([error.code, "/nonexistent" in str(error), "profd" in str(error)])
            """, PROFD_CLIENT_LIB=LIBRARY, **env)
            self.assertEqual(said, [["UNAVAILABLE", True, True]])

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to give a socket to another user")
    def test_a_socket_of_another_user_is_refused(self):
        folder = tempfile.mkdtemp(prefix="profd-client-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        path = os.path.join(folder, "control.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(path)
            listener.listen()
            profd.Client(path).close()
            os.chown(path, harness.NOBODY, harness.NOBODY)
            with self.assertRaises(profd.ProfdError) as raised:
                profd.Client(path)
        self.assertEqual(raised.exception.code, "PERMISSION_DENIED")
        self.assertEqual(raised.exception.reason, "OTHER_USERS_DAEMON")

    def test_without_grpc_the_package_works_and_client_says_what_to_install(self):
        said = self.run_program("""
            sys.modules["grpc"] = None
            import profd
            profd.init()
            try:
                profd.Client()
            except ImportError as error:
                say("pip install 'profd[client]'" in str(error))
        """, PROFD_CLIENT_LIB=LIBRARY)
        self.assertEqual(said, [True])

    def test_importing_the_package_imports_nothing_of_it(self):
        said = self.run_program("""
            import profd
            say(sorted({"grpc", "google.protobuf", "pandas", "profd._client"} & set(sys.modules)))
        """, PROFD_CLIENT_LIB=LIBRARY)
        self.assertEqual(said, [[]])

    def test_the_package_lists_what_it_offers_and_nothing_else(self):
        self.assertEqual(dir(profd), sorted(profd.__all__))
        self.assertIn("capture", dir(profd))

    def test_durations_are_seconds_or_texts(self):
        for length, seconds in ((2, 2), (0.5, 0.5), ("1s", 1), ("500ms", 0.5), ("20us", 2e-5),
                                ("2m", 120), ("1.5h", 5400)):
            self.assertAlmostEqual(_api.seconds_of(length), seconds)
        for wrong in ("", "s", "1", "1 day", "xms"):
            with self.assertRaises(ValueError):
                _api.seconds_of(wrong)

    def test_addresses_are_found_as_profctl_finds_them(self):
        kept = dict(os.environ)
        try:
            os.environ.update(PROFD_ADDRESS="/a/b.sock", PROFD_SOCKET_DIR="/run/x")
            self.assertEqual(_api.find_address("unix:/c"), "unix:/c")
            self.assertEqual(_api.find_address(None), "unix:/a/b.sock")
            del os.environ["PROFD_ADDRESS"]
            self.assertEqual(_api.find_address(None), "unix:/run/x/control.sock")
            self.assertEqual(_api.find_address("localhost:7000"), "localhost:7000")
        finally:
            os.environ.clear()
            os.environ.update(kept)


if __name__ == "__main__":
    unittest.main()
