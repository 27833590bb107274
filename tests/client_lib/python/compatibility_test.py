"""Every Python file of ours that users run compiles, and is Python 3.9."""

import ast
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDERS = ("client_lib/python", "deploy/demo", "tests/client_lib/python", "tests/fakes", "tests/bench")


def files():
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


class CompatibilityTest(unittest.TestCase):

    def test_the_syntax_is_that_of_python_3_9(self):
        for path in files():
            with self.subTest(str(path.relative_to(ROOT))):
                ast.parse(path.read_text(), str(path), feature_version=(3, 9))

    def test_every_file_compiles(self):
        with tempfile.TemporaryDirectory() as cache:
            subprocess.run([sys.executable, "-X", "pycache_prefix=" + cache, "-W", "error", "-m",
                            "py_compile", *map(str, files())], check=True)

    def test_every_public_function_says_what_it_does(self):
        sys.path.insert(0, str(ROOT / "client_lib" / "python"))
        import profd
        for name in profd.__all__:
            with self.subTest(name):
                self.assertTrue(getattr(profd, name).__doc__)


if __name__ == "__main__":
    unittest.main()
