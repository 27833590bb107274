"""The wheel: what it says of itself is so, and pip installs it into a fresh environment."""

import base64
import csv
import hashlib
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", ROOT / "build" / "release"))
SCRIPT = ROOT / "deploy" / "build_wheel.py"
LIBRARY = BUILD / "lib" / "libprofd_client.so"
API = BUILD / "lib" / "profd_api.binpb"

_spec = importlib.util.spec_from_file_location("build_wheel", SCRIPT)
build_wheel = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build_wheel)


def clean_environment(**changes):
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("PROFD_", "PYTHON", "PIP_"))}
    env.update(PYTHONDONTWRITEBYTECODE="1", PIP_DISABLE_PIP_VERSION_CHECK="1", **changes)
    return env


def make(folder, library=LIBRARY):
    return subprocess.run([sys.executable, SCRIPT, "--library", library, "--api", API,
                           "--output", folder], capture_output=True, text=True, check=False,
                          timeout=120)


class WheelCase(unittest.TestCase):
    """A wheel of this build."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="profd-wheel-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        made = make(cls.folder)
        assert made.returncode == 0, made.stderr
        cls.wheel = pathlib.Path(made.stdout.strip())


class WheelTest(WheelCase):

    def test_its_name_is_its_tag_and_the_tag_is_what_the_library_needs(self):
        tag = build_wheel.platform_tag(LIBRARY.read_bytes())
        self.assertRegex(tag, r"^manylinux_2_28_(x86_64|aarch64)$")
        self.assertEqual(self.wheel.name, "profd-0.1.0-py3-none-%s.whl" % tag)
        with zipfile.ZipFile(self.wheel) as wheel:
            self.assertIn("Tag: py3-none-" + tag,
                          wheel.read("profd-0.1.0.dist-info/WHEEL").decode())

    def test_the_versions_it_reads_are_those_that_readelf_reads(self):
        elf = build_wheel.Elf(LIBRARY.read_bytes())
        text = subprocess.run(["readelf", "-dVW", LIBRARY], check=True, capture_output=True,
                              text=True).stdout
        self.assertEqual(sorted(elf.needed_versions()), sorted(
            word for line in text.splitlines() if "Flags: " in line and "Name: GLIBC_" in line
            for word in line.split() if word.startswith("GLIBC_")))
        self.assertEqual(elf.needed(), [line.split("[")[1].rstrip("]")
                                        for line in text.splitlines() if "(NEEDED)" in line])

    def test_every_file_is_recorded_with_its_digest(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            record = wheel.read("profd-0.1.0.dist-info/RECORD").decode()
            rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(record))}
            self.assertEqual(set(rows), set(wheel.namelist()))
            for name, (digest, size) in rows.items():
                if not name.endswith("/RECORD"):
                    content = wheel.read(name)
                    wanted = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
                    self.assertEqual(digest, "sha256=" + wanted.rstrip(b"=").decode(), name)
                    self.assertEqual(int(size), len(content), name)

    def test_the_same_input_makes_the_same_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            again = pathlib.Path(make(folder).stdout.strip())
            self.assertEqual(again.read_bytes(), self.wheel.read_bytes())

    def test_a_library_that_would_not_load_everywhere_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            made = make(folder, BUILD / "bin" / "profd")
            self.assertEqual(made.returncode, 1)
            self.assertIn("which not every system has", made.stderr)
            self.assertEqual(os.listdir(folder), [])
        newer = LIBRARY.read_bytes().replace(b"GLIBC_2.14\0", b"GLIBC_2.99\0")
        with self.assertRaisesRegex(build_wheel.UnfitLibrary, "GLIBC_2.99; it promises .* 2.28"):
            build_wheel.platform_tag(newer)

    def test_damaged_libraries_are_refused(self):
        whole = LIBRARY.read_bytes()
        for damaged in (b"", b"\x7fELF", whole[:64], whole[:4096], b"\x7fELF\x01\x01" + whole[6:],
                        whole[:18] + b"\x03\x00" + whole[20:]):
            with self.assertRaises(build_wheel.UnfitLibrary):
                build_wheel.platform_tag(damaged)


class InstalledCase(WheelCase):
    """An environment that has nothing else."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.venv = cls.folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", cls.venv], check=True,
                       timeout=120)
        cls.python = cls.venv / "bin" / "python"
        cls.pip("install", "--no-index", "--no-compile", cls.wheel)
        cls.site = next((cls.venv / "lib").glob("python3*/site-packages"))

    @classmethod
    def pip(cls, *arguments):
        done = subprocess.run([sys.executable, "-m", "pip", "--python", cls.python, *arguments],
                              capture_output=True, text=True, check=False, timeout=300,
                              env=clean_environment())
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run_python(self, body, *flags, **changes):
        done = subprocess.run([self.python, *flags, "-c", textwrap.dedent(body)], check=False,
                              capture_output=True, text=True, timeout=60, cwd=self.folder,
                              env=clean_environment(**changes))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines(), done.stderr


class InstalledTest(InstalledCase):

    def test_the_package_works_with_the_library_it_brings(self):
        said, told = self.run_python("""
            import os, profd
            profd.init()
            profd.step()
            print(profd.library_version(), profd.step_count())
            for line in open("/proc/self/maps"):
                if "libprofd_client" in line:
                    print(os.path.relpath(line.split()[-1], os.path.dirname(profd.__file__)))
                    break
        """, PROFD_SOCKET_DIR="/nonexistent")
        self.assertEqual((said, told), (["0.1.0 1", "libprofd_client.so"], ""))

    def test_torch_is_watched_for_without_any_variable(self):
        body = """
            import sys
            print([finder.__name__ for finder in sys.meta_path][0])
            print(sorted({"profd", "ctypes", "importlib.util"} & set(sys.modules)))
        """
        for flag in ((), ("-I",), ("-E",)):
            said, told = self.run_python(body, *flag)
            self.assertEqual((said, told), (["TorchFinder", "[]"], ""), flag)
        said, _ = self.run_python(body, PROFD_DISABLE="1")
        self.assertNotEqual(said[0], "TorchFinder")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "this Python has no torch")
    def test_a_real_torch_is_attached_to(self):
        torch = pathlib.Path(importlib.util.find_spec("torch").origin).parent.parent
        said, _ = self.run_python("""
            import torch
            from profd import _torch
            print(_torch._lib.profd_torch_features() & 2)
        """, PYTHONPATH=str(torch), PROFD_SOCKET_DIR="/nonexistent")
        self.assertEqual(said, ["2"])

    def test_an_installation_with_parts_missing_is_silent(self):
        hook = self.site / "_profd_hook.py"
        kept = hook.read_bytes()
        hook.unlink()
        try:
            self.assertEqual(self.run_python("print('runs')"), (["runs"], ""))
        finally:
            hook.write_bytes(kept)

    def test_below_profctl_run_one_hook_is_enough(self):
        inject = ROOT / "client_lib" / "python" / "profd" / "_inject"
        said, told = self.run_python("""
            import sys
            names = [getattr(finder, "__name__", "") for finder in sys.meta_path]
            print(names.count("TorchFinder"))
            import profd
            print(profd.__file__.startswith(sys.prefix))
        """, PYTHONPATH=str(inject))
        self.assertEqual((said, told), (["1", "True"], ""))


class UninstallTest(InstalledCase):

    def test_uninstalling_leaves_nothing(self):
        self.pip("uninstall", "--yes", "profd")
        self.assertEqual(list(self.venv.rglob("*profd*")), [])


if __name__ == "__main__":
    for part in (LIBRARY, API):
        assert part.exists(), "%s is not built" % part
    if importlib.util.find_spec("pip") is None or importlib.util.find_spec("ensurepip") is None:
        print("SKIP: this Python has no pip or no venv")
        sys.exit(77)
    unittest.main()
