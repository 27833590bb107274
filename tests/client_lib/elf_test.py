"""Reads libprofd_client.so as the loader of a stranger's process will: what it exports, what
it needs, and how its hot paths came out of the compiler.

    elf_test.py LIBRARY OBJECT PRELOAD

OBJECT is idle_path.c, compiled as a program is. PRELOAD is what `profctl run --preload` preloads.
"""

import re
import subprocess
import sys
import unittest

LIBRARY, OBJECT, PRELOAD = sys.argv[1:4]
NEWEST_GLIBC = (2, 28)
STATIC_TLS_BYTES = 64
ALLOWED_NEEDED = re.compile(
    r"libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux-[\w-]+\.so\.\d")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def dynamic_symbols():
    """(name, version or "", is undefined) of every dynamic symbol."""
    for line in run("readelf", "-W", "--dyn-syms", LIBRARY).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].rstrip(":").isdigit():
            name, _, version = fields[7].partition("@")
            yield name, version.lstrip("@"), fields[6] == "UND"


def functions(path):
    """Name -> its instructions, a line of text each."""
    found = {}
    current = None
    for line in run("objdump", "-d", "--no-show-raw-insn", path).splitlines():
        start = re.match(r"[0-9a-f]+ <(.+)>:$", line)
        if start:
            current = found.setdefault(start.group(1), [])
        elif current is not None and "\t" in line:
            current.append(line.split("\t", 1)[1].strip())
    return found


class LibraryTest(unittest.TestCase):

    def test_it_exports_nothing_but_profd_and_the_entry_points_of_injection(self):
        exported = {name for name, _, undefined in dynamic_symbols() if not undefined and name}
        self.assertGreater(len(exported), 15)
        self.assertEqual({name for name in exported if not name.startswith("profd_")},
                         {"InitializeInjection", "InitializeInjectionNvtx2"})

    def test_it_exports_no_data(self):
        # A program would get a copy of its own of exported data, and watch that.
        for line in run("readelf", "-W", "--dyn-syms", LIBRARY).splitlines():
            fields = line.split()
            if len(fields) >= 8 and fields[7].startswith("profd_"):
                self.assertEqual(fields[3], "FUNC", line)

    def test_every_function_of_the_header_is_there(self):
        exported = {name for name, _, undefined in dynamic_symbols() if not undefined}
        for name in ("profd_init", "profd_step", "profd_intern", "profd_range_begin_slow",
                     "profd_range_end_id", "profd_recording_flag", "profd_copy_table"):
            self.assertIn(name, exported)

    def test_no_symbol_needs_a_newer_glibc(self):
        for name, version, undefined in dynamic_symbols():
            version = version.split()[0] if version else ""
            if not undefined or not version:
                continue
            number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version)
            self.assertTrue(number, f"{name} needs {version}")
            self.assertLessEqual((int(number.group(1)), int(number.group(2))), NEWEST_GLIBC,
                                 f"{name} needs {version}: see client_lib/core/glibc_compat.h")

    def test_it_needs_libc_only(self):
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-dW", LIBRARY))
        self.assertIn("libc.so.6", needed)
        self.assertFalse([name for name in needed if not ALLOWED_NEEDED.fullmatch(name)])

    def test_it_is_never_unloaded(self):
        self.assertRegex(run("readelf", "-dW", LIBRARY), r"FLAGS_1.*NODELETE")

    def test_its_static_tls_is_small(self):
        # Loaded by dlopen, it gets its TLS from a surplus that all such libraries share.
        size = re.search(r"^\s+TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)",
                         run("readelf", "-lW", LIBRARY), re.M)
        self.assertTrue(size)
        self.assertLessEqual(int(size.group(1), 16), STATIC_TLS_BYTES)

    def test_no_tls_access_is_a_call(self):
        self.assertNotIn("tls_get_addr", run("readelf", "-W", "--relocs", LIBRARY))
        self.assertNotIn("tls_get_addr", run("objdump", "-d", LIBRARY))

    def test_nothing_runs_at_exit_but_handlers_that_leave_the_gpu_and_torch(self):
        # One entry is the C runtime's own.
        size = re.search(r"FINI_ARRAYSZ\)\s+(\d+)", run("readelf", "-dW", LIBRARY))
        self.assertLessEqual(int(size.group(1)) if size else 0, 8)
        names = {name for name, _, _ in dynamic_symbols()}
        self.assertFalse(names & {"atexit", "__cxa_thread_atexit_impl"})
        # glibc's atexit(), which is linked in, calls __cxa_atexit(); destructors of static objects
        # would, too.
        for function, allowed in (("__cxa_atexit@plt", {"atexit"}),
                                  ("atexit", {"ExitGate", "LeaveTorchAtExit"})):
            callers = [name for name, code in functions(LIBRARY).items()
                       if name != function and not any(word in name for word in allowed)
                       and any(f"<{function}>" in line for line in code)]
            self.assertEqual(callers, [], function)

    def test_no_segment_is_writable_and_executable(self):
        for line in run("readelf", "-lW", LIBRARY).splitlines():
            self.assertNotRegex(line, r"^\s+(LOAD|GNU_STACK)\s.*\sRWE\s")


class PreloadTest(unittest.TestCase):

    def test_it_needs_no_library_and_no_symbol(self):
        self.assertNotIn("NEEDED", run("readelf", "-dW", PRELOAD))
        symbols = run("nm", "-D", "--undefined-only", PRELOAD).split()
        kinds = {symbols[i + 1]: symbols[i] for i in range(0, len(symbols), 2)}
        self.assertEqual(set(kinds.values()), {"w"}, kinds)
        self.assertIn("dlopen", kinds)

    def test_it_defines_the_calls_that_need_a_single_thread_and_nothing_else(self):
        defined = run("nm", "-D", "--defined-only", PRELOAD).splitlines()
        self.assertEqual({line.split()[-1] for line in defined}, {"unshare", "setns", "syscall"})


class HotPathTest(unittest.TestCase):

    CALL = re.compile(r"(call|callq|bl|blr)\s")

    def straight_path(self, code):
        """What runs when no branch is taken, up to the return."""
        path = []
        for instruction in code:
            path.append(instruction)
            if re.match(r"(ret|retq)\b", instruction):
                return path
        self.fail("no return on the straight path:\n" + "\n".join(code))

    def test_an_idle_annotation_makes_no_call(self):
        code = functions(OBJECT)
        for name in ("profd_test_range", "profd_test_instant_and_counter"):
            path = self.straight_path(code[name])
            self.assertFalse([line for line in path if self.CALL.match(line)], "\n".join(path))
            self.assertLessEqual(len(path), 24, "\n".join(path))

    def test_what_records_stands_apart(self):
        code = functions(OBJECT)
        cold = code.get("profd_test_range.cold", [])
        self.assertTrue(any(self.CALL.match(line) or "profd" in line for line in cold),
                        "the calls are not in the cold section")

    def test_a_recorded_range_makes_no_call_on_its_straight_path(self):
        code = functions(LIBRARY)
        for name in ("profd_range_begin_slow", "profd_range_end_id"):
            path = self.straight_path(code[name])
            self.assertFalse([line for line in path if self.CALL.match(line)], "\n".join(path))
            self.assertFalse([line for line in path if re.search(r"\block\b|xchg|mfence", line)],
                             "a lock or fence:\n" + "\n".join(path))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
