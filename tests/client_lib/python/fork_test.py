"""Forked children: silent until they use the package, then targets of their own."""

import os
import unittest

from python_targets import DaemonTest, Instant


class ForkTest(DaemonTest):

    def setUp(self):
        super().setUp()
        # From 3.12 on Python warns of any fork in a process with several threads.
        # And ThreadSanitizer ends a child of such a process at its first new thread.
        self.daemon_env["TSAN_OPTIONS"] = os.environ.get("TSAN_OPTIONS", "") + ":die_after_fork=0"
        self.daemon_env["PYTHONWARNINGS"] = "ignore:This process:DeprecationWarning"

    def test_a_silent_child_never_registers(self):
        program, _ = self.start_target("""
            child = os.fork()
            if child == 0:
                os._exit(0 if not profd.is_recording() else 1)
            assert os.waitpid(child, 0)[1] == 0
        """)
        program.resume()
        program.wait_pause()
        self.assertTrue(self.daemon.no_arrivals())
        program.resume()
        program.finish()

    def test_a_child_that_annotates_is_a_target_below_its_parent(self):
        program, parent = self.start_target("""
            child = os.fork()
            if child == 0:
                with profd.annotate("in child"):
                    pass
                sys.stdin.readline()
                for _ in range(3):
                    profd.step()
                    with profd.annotate("in child"):
                        pass
                os._exit(0)
            say(child)
            assert os.waitpid(child, 0)[1] == 0
        """)
        program.resume()
        child = self.daemon.wait_target()
        self.assertNotEqual(child.pid, parent.pid)
        self.assertEqual(child.parent_pid, parent.pid)
        capture = child.arm()
        capture.fire(steps=1)
        capture.wait_planned()
        program.resume()
        program.wait_pause()
        self.assertEqual(program.said, [child.pid])
        self.assertEqual(capture.abandon().range_names(), ["in child"])
        program.resume()
        program.finish()

    def test_a_child_forked_while_recording_writes_nothing_of_its_parents(self):
        events, _ = self.record("""
            with profd.annotate("parent"):
                child = os.fork()
                if child == 0:
                    profd.mark("child")
                    with profd.annotate("child"):
                        pass
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
        """)
        self.assertEqual(events.range_names(), ["parent"])
        self.assertEqual(events.of(Instant), [])

    def test_workers_of_multiprocessing_work(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                program, _ = self.start_target("""
                    import multiprocessing
                    context = multiprocessing.get_context(%r)
                    with profd.annotate("pool"):
                        with context.Pool(2) as pool:
                            say(pool.map(abs, [-1, -2, -3]))
                """ % method)
                program.resume()
                program.wait_pause()
                self.assertEqual(program.said, [[1, 2, 3]])
                program.resume()
                program.finish()


if __name__ == "__main__":
    unittest.main()
