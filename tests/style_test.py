"""Holds every file of the tree against the few rules of style that a machine can check cheaply.

Run it alone with `python3 tests/style_test.py`; it prints one line per offence.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 800
MAX_WIDTH = 100
CODE = {".h", ".hpp", ".cc", ".c", ".py", ".sh", ".proto", ".cmake"}
# Whole documents of others, and recorded data, are as they are.
NOT_OURS = {"LICENSE"}
BINARY = {".png", ".gz", ".profd", ".pftrace", ".bin", ".db"}

# Written in two halves, so that this file does not offend against itself.
FORBIDDEN = {
    r"(?<![\w.])/wor" r"k/": "a path of one machine",
    r"(?<![\w.])/roo" r"t/": "a path of one machine",
    r"\.\./sha" r"red\b": "a path outside the repository",
    r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b": "an unfinished thing",
    r"^(<{7}|>{7}) ": "a merge conflict",
}

# Idioms that readers of help, errors, findings, and the README stumbled over, and what to write instead.
UNCLEAR = {
    r"\bexclude each other\b": "are mutually exclusive",
    r"\bparted by\b": "separated by",
    r"(?<![Tt]here )\bis no (?!longer\b|more\b|slow-down\b)[\w']+": "is not a ...",
    r"\b[Ww]hoever\b": "name the person or program",
    r"\b([Ss]omebody|[Aa] stranger)\b": "name the person or program",
    r"\blets? go of\b": "releases, detaches",
    r"\bas soon as can be\b": "as soon as possible",
    r"\bstands? (behind|beside)\b": "follows, is next to",
    r"\bnothing speaks against\b": "no issues found",
    r"\bcannot be told\b": "is unknown",
    r"\b[Ll]ooked at, nothing\b": "checks passed",
}
# What waits by the wall clock: a clock that is set ends such a wait early or late, by hours. Instead:
# daemon/base/cond_var.h, Clock::Monotonic(), and GPR_CLOCK_MONOTONIC.
WALL_WAIT = re.compile(
    r"\b(AwaitWithTimeout|LockWhenWithTimeout)\(\s*absl::Condition|"
    r"\b(AwaitWithDeadline|WaitWithDeadline|LockWhenWithDeadline|WaitForNotificationWith\w+)\(|"
    r"\babsl::Now\(\) *[-+]|[-+] *absl::Now\(\)|system_clock::now\(\)|GPR_CLOCK_REALTIME")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"(?:\s*"((?:[^"\\\n]|\\.)*)")*')


def texts_for_people():
    """Yields (path, line, text) of what users read: string literals of C++, and the README."""
    for path, data in text_files():
        text = data.decode(errors="replace")
        if path.as_posix() == "README.md":
            yield from ((path, number, line) for number, line in enumerate(text.splitlines(), 1))
        if path.suffix != ".cc" or path.parts[0] not in ("cli", "daemon", "client_lib"):
            continue
        code = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
        for match in STRING.finditer(code):
            pieces = re.findall(r'"((?:[^"\\\n]|\\.)*)"', match.group(0))
            yield path, code.count("\n", 0, match.start()) + 1, "".join(pieces)


def tree():
    """Every file that is, or could be, committed; without git, all but the build folders."""
    try:
        names = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"],
            check=True, capture_output=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        names = [os.path.relpath(os.path.join(folder, file), ROOT)
                 for folder, _, files in os.walk(ROOT) for file in files]
        names = [name for name in names
                 if not re.match(r"(build|\.git|\.cache)/|.*__pycache__/", name)]
    return sorted(pathlib.Path(name) for name in set(names) if name and (ROOT / name).is_file())


def text_files():
    for path in tree():
        if path.name in NOT_OURS or path.suffix in BINARY:
            continue
        data = (ROOT / path).read_bytes()
        if b"\0" not in data:
            yield path, data


class TreeStyleTest(unittest.TestCase):

    def report(self, offences):
        self.assertFalse(offences, "\n" + "\n".join(offences))

    def test_no_code_file_is_longer_than_a_reader_can_hold(self):
        self.report([
            f"{path}: {lines} lines, at most {MAX_LINES}: split it by what its parts are for"
            for path, data in text_files()
            if path.suffix in CODE and (lines := data.count(b"\n")) > MAX_LINES])

    def test_text_is_utf8_and_ends_with_one_newline(self):
        offences = []
        for path, data in text_files():
            try:
                data.decode()
            except UnicodeDecodeError as error:
                offences.append(f"{path}: not UTF-8 at byte {error.start}")
            if data and (not data.endswith(b"\n") or data.endswith(b"\n\n")):
                offences.append(f"{path}: must end with one newline")
            if b"\r\n" in data:
                offences.append(f"{path}: has Windows line ends")
        self.report(offences)

    def test_no_line_is_indented_by_tabs_or_ends_in_spaces(self):
        offences = []
        for path, data in text_files():
            if path.suffix not in CODE:
                continue
            for number, line in enumerate(data.splitlines(), 1):
                if line.startswith(b"\t") or line != line.rstrip():
                    offences.append(f"{path}:{number}: tab at the start or space at the end")
        self.report(offences)

    def test_comments_fit_into_the_width_of_the_code(self):
        # clang-format leaves them as they are, because it breaks drawings.
        self.report([
            f"{path}:{number}: a comment of {len(line)} characters, at most {MAX_WIDTH}"
            for path, data in text_files() if path.suffix in (".h", ".cc")
            for number, line in enumerate(data.decode().splitlines(), 1)
            if len(line) > MAX_WIDTH and line.lstrip().startswith("//")])

    def test_nothing_names_one_machine_or_is_left_unfinished(self):
        rules = [(re.compile(pattern, re.MULTILINE), what) for pattern, what in FORBIDDEN.items()]
        offences = []
        for path, data in text_files():
            text = data.decode(errors="replace")
            for rule, what in rules:
                for match in rule.finditer(text):
                    number = text.count("\n", 0, match.start()) + 1
                    offences.append(f"{path}:{number}: {what}: {match.group(0)!r}")
        self.report(offences)

    def test_what_users_read_is_plain_english(self):
        rules = [(re.compile(pattern), instead) for pattern, instead in UNCLEAR.items()]
        self.report([f"{path}:{line}: {match.group(0)!r} (write: {instead})"
                     for path, line, text in texts_for_people() for rule, instead in rules
                     if (match := rule.search(text))])

    def test_waits_go_by_the_monotonic_clock(self):
        offences = []
        for path, data in text_files():
            if path.suffix not in (".h", ".cc") or path.parts[0] not in ("cli", "daemon"):
                continue
            code = re.sub(r"//.*$", "", data.decode(errors="replace"), flags=re.MULTILINE)
            for match in WALL_WAIT.finditer(code):
                line = code.count("\n", 0, match.start()) + 1
                offences.append(f"{path}:{line}: {match.group(0)!r}")
            if "absl::CondVar" in code and "WaitWithTimeout(" in code:
                offences.append(f"{path}: absl::CondVar waits by the wall clock")
        self.report(offences)

    def test_scripts_and_only_scripts_are_executable(self):
        offences = []
        for path, data in text_files():
            executable = os.access(ROOT / path, os.X_OK)
            if data.startswith(b"#!") != executable:
                offences.append(f"{path}: " + ("executable without #!" if executable
                                               else "starts with #! and is not executable"))
        for name in ("tests/run.sh", ".ci/run", "deploy/quickstart.sh",
                     "deploy/install_packages.sh"):
            if not os.access(ROOT / name, os.X_OK):
                offences.append(f"{name}: missing or not executable")
        self.report(offences)

    def test_every_header_is_guarded(self):
        guard = re.compile(rb"^#(pragma once|ifndef \w+_H(PP)?_?$)", re.MULTILINE)
        self.report([f"{path}: no include guard" for path, data in text_files()
                     if path.suffix in {".h", ".hpp"} and not guard.search(data)])


if __name__ == "__main__":
    # A file system that ignores modes (some mounts do) would make every file a script.
    if all(os.access(ROOT / path, os.X_OK) for path in tree()[:5]):
        print("SKIP: this file system marks every file as executable")
        sys.exit(77)
    unittest.main()
