"""Counts the product files that name what was added last: a kind of event, a column, a field.

Each is described once, and what handles it derives from the description. An addition that has to be
written in more files than the limit means that something is written by hand again.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRODUCT = ("daemon", "client_lib", "cli", "proto")
CODE = {".h", ".cc", ".py", ".proto"}

# What was added last. The counts of all say when there is something newer.
NEWEST_KIND = r"(?i)mem_?(batch_?)?decompress"
KIND_COUNTS = {
    ("proto/wire/event.h", "EventKind"): 27,
    ("daemon/capture/event_kinds.h", "RowKind"): 18,
    ("daemon/capture/event_kinds.h", "GpuRowKind"): 5,
}
NEWEST_COLUMN = r"\boverlapping_calls\b"
COLUMN_COUNT = 273

MAX_KIND_FILES = 8
MAX_COLUMN_FILES = 3
MAX_FIELD_FILES = 4

WRITE_IT_HERE = ("something was added or removed: write the newest one into {name} of this test, "
                 "and correct its count")
DERIVE_IT = ("{what} {pattern} is named in {count} product files, more than {limit}:\n  {files}\n"
             "{remedy}")


def product_files():
    """Yields (path, text) of the product's own code."""
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in CODE:
                yield path.relative_to(ROOT).as_posix(), path.read_text(errors="replace")


def files_naming(pattern):
    return [path for path, text in product_files() if re.search(pattern, text)]


def enumerators(path, enum):
    text = (ROOT / path).read_text()
    body = re.search(rf"enum class {enum} : \w+ \{{(.*?)\n\}};", text, re.DOTALL)
    return re.findall(r"^\s*k\w+ = \d+", body.group(1), re.MULTILINE)


def newest_capture_field():
    """The field of the highest number: no number is used twice."""
    text = (ROOT / "proto/profd/v1/captures.proto").read_text()
    body = re.search(r"^message Capture \{(.*?)^\}", text, re.DOTALL | re.MULTILINE).group(1)
    fields = re.findall(r"^  [\w.<>, ]+ (\w+) = (\d+)\b", body, re.MULTILINE)
    return max(fields, key=lambda field: int(field[1]))[0]


class DescriptionTest(unittest.TestCase):

    def check(self, what, pattern, limit, remedy):
        files = files_naming(pattern)
        self.assertNotEqual(files, [], f"no product file names {pattern}")
        self.assertLessEqual(
            len(files), limit,
            DERIVE_IT.format(what=what, pattern=pattern, count=len(files), limit=limit,
                             files="\n  ".join(files), remedy=remedy))

    def test_the_newest_kind_of_event(self):
        for (path, enum), count in KIND_COUNTS.items():
            with self.subTest(enum=enum):
                self.assertEqual(len(enumerators(path, enum)), count,
                                 WRITE_IT_HERE.format(name="NEWEST_KIND"))
        self.check("The event kind", NEWEST_KIND, MAX_KIND_FILES,
                   "Derive what handles it from kGpuKinds, EventTypes, or the columns "
                   "(daemon/capture/event_kinds.h, event_fields.h), and in the library from "
                   "PROFD_RECORDS (client_lib/cupti/record_decoder.cc).")

    def test_the_newest_column_of_a_report(self):
        keys = sum(len(re.findall(r"\.key = ", text)) for path, text in product_files()
                   if path.startswith("daemon/report/"))
        self.assertEqual(keys, COLUMN_COUNT, WRITE_IT_HERE.format(name="NEWEST_COLUMN"))
        self.check("The column", NEWEST_COLUMN, MAX_COLUMN_FILES,
                   "The row, what fills it, and the description (daemon/report/README.md) are "
                   "enough: text, JSON, CSV, HTML, schema, and --sort derive from those.")

    def test_the_newest_field_of_a_capture(self):
        self.check("The field", rf"\b{newest_capture_field()}\b", MAX_FIELD_FILES,
                   "Derive its conversion, its stored form, or its JSON from one description of "
                   "the record.")

    def test_what_many_files_name_fails_and_the_message_names_them(self):
        expected = r"product files, more than 8:\n  daemon/\S+\.h\n(.|\n)*derive it"
        with self.assertRaisesRegex(AssertionError, expected):
            self.check("The guard", r"#ifndef PROFD_", MAX_KIND_FILES, "derive it")


if __name__ == "__main__":
    unittest.main()
