"""The hook that watches for torch: what it does to a Python that it is put into.

torch is a module of this test's own here, and so is what attaches to it; what they do when they
are real is the business of torch_part_test.py.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
INJECT = ROOT / "client_lib" / "python" / "profd" / "_inject"

ATTACH = """
def attach(torch):
    print("attached to", torch.__name__, torch.value, torch.__loader__ is torch.__spec__.loader,
          type(torch.__loader__).__name__)
"""


class InjectCase(unittest.TestCase):
    """A package and a torch to run the hook with."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="profd-inject-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # The real hook, in a package of this test's.
        self.hook = self.folder / "package" / "profd" / "_inject"
        shutil.copytree(INJECT, self.hook, ignore=shutil.ignore_patterns("__pycache__"))
        self.write("package/profd/__init__.py", "")
        self.write("package/profd/_torch.py", ATTACH)
        self.write("site/torch/__init__.py", "value = 7\nfrom torch import part\n")
        self.write("site/torch/part.py", "")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def run_python(self, body, *flags, python=sys.executable, path=(), **changes):
        """What `body` prints where the hook is on PYTHONPATH, before `path`; and stderr."""
        env = {key: value for key, value in os.environ.items()
               if not key.startswith(("PROFD_", "PYTHON"))}
        folders = [self.hook, *path, self.folder / "site"]
        env.update(PYTHONPATH=os.pathsep.join(map(str, folders)), PYTHONDONTWRITEBYTECODE="1")
        env.update(changes)
        done = subprocess.run([python, *flags, "-c", textwrap.dedent(body)], env=env, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines(), done.stderr

    def virtual_environment(self, *flags):
        """The Python of one that has no torch of its own."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", *flags,
                        self.folder / "venv"], check=True, timeout=120)
        return self.folder / "venv" / "bin" / "python"

    def prefix(self):
        """The Python of a prefix of its own, as conda lays it out: the program itself in bin,
        lib/pythonX.Y with site-packages beside it, no pyvenv.cfg."""
        version = "python%d.%d" % sys.version_info[:2]
        prefix = self.folder / "prefix"
        library = prefix / "lib" / version
        (library / "site-packages").mkdir(parents=True)
        for entry in pathlib.Path(os.__file__).parent.iterdir():
            if entry.name not in ("site-packages", "dist-packages", "sitecustomize.py"):
                (library / entry.name).symlink_to(entry)
        (prefix / "conda-meta").mkdir()
        (prefix / "bin").mkdir()
        python = prefix / "bin" / version
        shutil.copy(os.path.realpath(sys.executable), python)
        # Distributions have others than site-packages.
        packages = pathlib.Path(subprocess.run(
            [python, "-c", "import site; print(site.getsitepackages()[0])"], check=True, text=True,
            capture_output=True, timeout=60).stdout.strip())
        packages.mkdir(parents=True, exist_ok=True)
        return python, packages

    def expect(self, said, body, *flags, **options):
        self.assertEqual(self.run_python(body, *flags, **options), (said, ""))

    ATTACHED = "attached to torch 7 True SourceFileLoader"


class InjectTest(InjectCase):
    """A job of one Python."""

    def test_torch_is_attached_to_once_when_its_import_is_done(self):
        self.expect(["before", self.ATTACHED, "after"],
                    "print('before'); import torch; import torch.part; print('after')")

    def test_a_program_without_torch_gets_two_small_modules_and_no_more(self):
        body = "import sys; print(*sorted(sys.modules), sep='\\n')"
        with_hook, _ = self.run_python(body)
        without, _ = self.run_python(body, PYTHONPATH="")
        self.assertLessEqual(set(with_hook) - set(without), {"_profd_hook", "sitecustomize"})

    def test_looking_for_torch_is_not_importing_it(self):
        self.expect(["True", "True", self.ATTACHED], """
            import importlib.util, sys
            print(importlib.util.find_spec("torch").origin.endswith("torch/__init__.py"))
            print("torch" not in sys.modules)
            import torch
        """)

    def test_nothing_of_it_is_left_behind(self):
        self.expect([self.ATTACHED, "True"], """
            import torch, sys
            names = [getattr(finder, "__name__", "") for finder in sys.meta_path]
            print("TorchFinder" not in names and not hasattr(torch.__loader__, "_loader"))
        """)

    def test_torch_that_fails_to_import_fails_as_without_it_and_may_be_tried_again(self):
        self.write("site/torch/part.py", """
            import os
            if "LATER" not in os.environ:
                raise OSError("no libtorch")
        """)
        self.expect(["no libtorch", self.ATTACHED], """
            import os
            try:
                import torch
            except OSError as error:
                print(error)
            os.environ["LATER"] = "1"
            import torch
        """)

    def test_no_torch_is_an_import_error_as_ever(self):
        shutil.rmtree(self.folder / "site" / "torch")
        self.expect(["No module named 'torch'"], """
            try:
                import torch
            except ModuleNotFoundError as error:
                print(error)
        """, python=self.virtual_environment())

    def test_an_empty_folder_named_torch_is_no_torch(self):
        shutil.rmtree(self.folder / "site" / "torch")
        (self.folder / "site" / "torch").mkdir()
        self.expect(["None"], "import torch; print(torch.__file__)",
                    python=self.virtual_environment())

    def test_a_finder_that_asks_all_others_is_not_asked_for_ever(self):
        self.expect([self.ATTACHED], """
            import sys
            class Other:
                @classmethod
                def find_spec(cls, name, path=None, target=None):
                    for finder in sys.meta_path:
                        if finder is not cls:
                            spec = finder.find_spec(name, path, target)
                            if spec is not None:
                                return spec
            sys.meta_path.insert(0, Other)
            import torch
        """)

    def test_a_failing_attach_is_told_to_the_log_only(self):
        self.write("package/profd/_torch.py", "def attach(torch):\n    raise OSError('broken')\n")
        body = "import torch; print(torch.value)"
        self.expect(["7"], body)
        said, told = self.run_python(body, PROFD_LOG="warning")
        self.assertEqual(said, ["7"])
        self.assertEqual(told, "profd: PyTorch is not recorded: OSError('broken')\n")

    def test_the_environment_keeps_it_out(self):
        body = "import torch, sys; print('profd' in sys.modules)"
        for changes in ({"PROFD_DISABLE": "1"}, {"PROFD_TORCH": "0"}):
            with self.subTest(changes):
                self.expect(["False"], body, **changes)
        self.expect([self.ATTACHED, "True"], body, PROFD_DISABLE="0", PROFD_TORCH="1")

    def test_an_isolated_python_does_not_run_it(self):
        body = "import sys; print(any('profd' in str(finder) for finder in sys.meta_path))"
        for flag in ("-I", "-E", "-S"):
            with self.subTest(flag):
                self.expect(["False"], body, flag)
        self.expect(["True"], body)

    def test_the_package_is_there_for_those_who_import_it(self):
        self.expect(["True"], """
            import profd
            print(profd.__file__.endswith("package/profd/__init__.py"))
        """)

    def test_a_package_of_the_programs_own_comes_first(self):
        self.write("site/profd/__init__.py", "")
        self.write("site/profd/_torch.py", "def attach(torch):\n    print('its own')\n")
        self.expect(["its own"], "import torch")

    def test_torch_imported_by_several_threads_is_attached_to_once(self):
        self.expect([self.ATTACHED], """
            import threading
            def work():
                import torch
            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        """)


class OtherSitesTest(InjectCase):
    """A sitecustomize that would have been imported without ours."""

    def test_the_sites_own_runs_as_if_it_were_alone(self):
        self.write("site/sitecustomize.py", """
            import sys
            print("site", __name__, __file__.endswith("site/sitecustomize.py"))
            value = 3
        """)
        self.expect(["site sitecustomize True", "3", "True", self.ATTACHED], """
            import sitecustomize, sys
            print(sitecustomize.value)
            print(not any("_inject" in folder for folder in sys.path))
            import torch
        """)

    def test_it_may_be_a_package_and_import_others(self):
        self.write("site/sitecustomize/__init__.py", "from sitecustomize import more\n")
        self.write("site/sitecustomize/more.py", "print('more')\n")
        self.expect(["more", self.ATTACHED], "import torch")

    def test_its_errors_are_told_as_ever_and_torch_is_watched_for(self):
        self.write("site/sitecustomize.py", "import no_such_module_of_anyone\n")
        said, told = self.run_python("import torch")
        self.assertEqual(said, [self.ATTACHED])
        self.assertIn("Error in sitecustomize", told)
        self.assertIn("No module named 'no_such_module_of_anyone'", told)

    def test_another_of_the_same_kind_in_front_composes(self):
        # As other injected tools do it: they take themselves off the path and import the next.
        self.write("other/sitecustomize.py", """
            import os, sys
            print("other")
            del sys.modules["sitecustomize"]
            sys.path.remove(os.path.dirname(__file__))
            import sitecustomize
        """)
        self.write("site/sitecustomize.py", "print('site')\n")
        path = os.pathsep.join(map(str, (self.folder / "other", self.hook, self.folder / "site")))
        self.expect(["other", "site", self.ATTACHED], "import torch", PYTHONPATH=path)

    def test_another_of_the_same_kind_behind_composes(self):
        self.write("other/sitecustomize.py", """
            import os, sys
            print("other")
            del sys.modules["sitecustomize"]
            sys.path.remove(os.path.dirname(__file__))
            import sitecustomize
        """)
        self.write("site/sitecustomize.py", "print('site')\n")
        self.expect(["other", "site", self.ATTACHED], "import torch",
                    path=[self.folder / "other"])


    def test_usercustomize_runs_as_if_ours_were_not_there(self):
        self.write("site/usercustomize.py", "print('user')\n")
        self.expect(["user", self.ATTACHED], "import torch")

    def test_what_is_for_interactive_use_stays_untouched(self):
        startup = self.write("startup.py", "print('startup')\n")
        self.expect([str(startup), self.ATTACHED],
                    "import os; print(os.environ['PYTHONSTARTUP']); import torch",
                    PYTHONSTARTUP=str(startup))


class ProcessTest(InjectCase):
    """Where a job's Pythons come from."""

    def test_children_of_every_kind_watch_too(self):
        script = self.write("children.py", """
            import multiprocessing, subprocess, sys
            def work(how):
                print(how, flush=True)
                import torch
            if __name__ == "__main__":
                for how in ("fork", "spawn", "forkserver"):
                    child = multiprocessing.get_context(how).Process(target=work, args=(how,))
                    child.start()
                    child.join()
                    assert child.exitcode == 0
                print("program", flush=True)
                subprocess.run([sys.executable, "-c", "import torch"], check=True)
        """)
        said, told = self.run_python("import runpy; runpy.run_path(%r, run_name='__main__')" %
                                     str(script), "-u")
        self.assertEqual(told, "")
        expected = []
        for how in ("fork", "spawn", "forkserver", "program"):
            expected += [how, self.ATTACHED]
        self.assertEqual(said, expected)

    def test_it_works_in_a_virtual_environment(self):
        self.expect([self.ATTACHED], "import torch", python=self.virtual_environment())

    def test_it_works_in_a_virtual_environment_with_the_systems_packages(self):
        self.expect([self.ATTACHED], "import torch",
                    python=self.virtual_environment("--system-site-packages"))

    def test_it_works_in_a_prefix_like_condas_with_its_own_sitecustomize(self):
        python, packages = self.prefix()
        (packages / "sitecustomize.py").write_text("print('prefix')\n")
        (packages / "extra.pth").write_text(str(self.folder / "site") + "\n")
        self.expect(["prefix", "True", self.ATTACHED],
                    "import sys; print(sys.prefix.endswith('prefix')); import torch",
                    python=python, PYTHONPATH=str(self.hook))

    def test_programs_in_between_pass_it_on_unless_they_clear_the_environment(self):
        body = """
            import os, subprocess, sys
            program = [sys.executable, "-c", "import torch"]
            path = "PYTHONPATH=" + os.environ["PYTHONPATH"]
            for between in (["sh", "-c", 'exec "$@"', "sh"], ["env", "-i", path], ["env", "-i"]):
                print(between[0], between[1], flush=True)
                subprocess.run([*between, *program], cwd="site", check=True)
        """
        # In its folder it is found without PYTHONPATH, but nobody attaches to it.
        cwd = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, cwd)
        self.expect(["sh -c", self.ATTACHED, "env -i", self.ATTACHED, "env -i"], body)

    def test_what_the_job_puts_before_or_behind_does_not_take_it_away(self):
        body = """
            import os, subprocess, sys
            ours = os.environ["PYTHONPATH"]
            for path in ("/nowhere:" + ours, ours + ":/nowhere", ":" + ours):
                subprocess.run([sys.executable, "-c", "import torch"], check=True,
                               env={**os.environ, "PYTHONPATH": path})
        """
        self.expect([self.ATTACHED] * 3, body)

    def test_old_pythons_are_left_alone(self):
        self.write("site/sitecustomize.py", "print('site')\n")
        found = 0
        for name in ("python2.7", "python3.6", "python3.7", "python3.8"):
            python = shutil.which(name)
            if python is None or subprocess.run([python, "-c", "pass"], check=False,
                                                capture_output=True, timeout=60).returncode:
                continue
            found += 1
            with self.subTest(name):
                self.expect(["site", "7"], "import torch; print(torch.value)", python=python)
        if found == 0:
            self.skipTest("no Python below 3.9 on PATH")


if __name__ == "__main__":
    unittest.main()
