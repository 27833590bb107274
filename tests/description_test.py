"""Counts the product files that handle what was added last: a kind of GPU work, a column, a field.

Each is described once, and what handles it derives from the description. An addition that many files
name is written by hand again. The newest kind and field are found by their numbers, so that nothing
has to be changed here for them. Columns have no numbers: name the newest in NEWEST_COLUMN.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRODUCT = ("daemon", "client_lib", "cli", "proto")
# How comments look, by suffix. Strings come first, so that nothing in one is a comment.
C_LIKE = r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/'
COMMENTS = {
    ".h": C_LIKE, ".cc": C_LIKE, ".proto": C_LIKE, ".js": C_LIKE,
    ".py": r'"(?:\\.|[^"\\\n])*"|#[^\n]*',
    ".sql": r"'(?:''|[^'])*'|--[^\n]*",
    ".html": r"<!--.*?-->",
}

# The most files that pass.
KIND_FILES = 8
COLUMN_FILES = 3
FIELD_FILES = 4

NEWEST_COLUMN = "overlapping_calls"
# What else a kind of GPU work is called: CUDA's function.
OTHER_NAMES = {"MemDecompress": ["MemBatchDecompress"]}
# Only list names of CUPTI's.
TABLES_OF_NAMES = {"daemon/ingest/decode/gpu_inventory.cc"}
# What measures the newest field of a capture, and what concludes from it: why there is one. The
# others only carry it. Change it with the next field.
# `evicted`: the catalog knows it, and sentences and tables say it; the others of these name the
# captures that one evicted.
PURPOSE_OF_NEWEST_FIELD = {
    "daemon/store/catalog/catalog.cc", "daemon/store/catalog/schema.cc",
    "daemon/capture/capture_types.cc", "cli/render/capture.cc",
    "daemon/store/catalog/catalog.h", "daemon/store/capture_store.cc",
    "daemon/rpc/services/capture_watch.cc", "daemon/capture/capture_requests.cc"}


def without_comments(text, suffix):
    def keep(match):
        return match.group() if match.group()[0] in "\"'" else " "
    return re.sub(COMMENTS[suffix], keep, text, flags=re.DOTALL)


def product_files():
    """Yields (path, text without comments) of the product's own code."""
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in COMMENTS:
                name = path.relative_to(ROOT).as_posix()
                yield name, without_comments(path.read_text(errors="replace"), path.suffix)


def files_naming(pattern):
    return [path for path, text in product_files()
            if path not in TABLES_OF_NAMES and re.search(pattern, text)]


def newest_kind():
    """The kind of GPU work with the highest number: no number is used twice."""
    text = (ROOT / "daemon/capture/event_kinds.h").read_text()
    body = re.search(r"enum class GpuRowKind : \w+ \{(.*?)\n\};", text, re.DOTALL).group(1)
    kinds = re.findall(r"^\s*k(\w+) = (\d+)", body, re.MULTILINE)
    return max(kinds, key=lambda kind: int(kind[1]))[0]


def newest_capture_field():
    text = (ROOT / "proto/profd/v1/captures.proto").read_text()
    body = re.search(r"^message Capture \{(.*?)^\}", text, re.DOTALL | re.MULTILINE).group(1)
    fields = re.findall(r"^  [\w.<>, ]+ (\w+) = (\d+)\b", body, re.MULTILINE)
    return max(fields, key=lambda field: int(field[1]))[0]


def kind_pattern(kind):
    """kMemDecompress, MEM_DECOMPRESS, mem_decompress, MemDecompressRecord"""
    names = [kind, *OTHER_NAMES.get(kind, [])]
    return "(?i)" + "|".join("_?".join(re.findall("[A-Z][a-z0-9]*", name)) for name in names)


def member_pattern(name):
    """Where a member is used, declared, or spelled out; not any word that is spelled as it."""
    return rf'(?:\.|->|::|\bset_|\bhas_|\bmutable_)(?:{name})\b|"{name}"|\b{name}\b *(?:=|;|\()'


class DescriptionTest(unittest.TestCase):

    def check(self, what, pattern, most, remedy, purpose=frozenset()):
        files = files_naming(pattern)
        self.assertLessEqual(purpose, set(files), f"these do not name {what}")
        files = [path for path in files if path not in purpose]
        self.assertNotEqual(files, [], f"no product file names {what}")
        listed = "\n  ".join(files)
        self.assertLessEqual(
            len(files), most,
            f"{len(files)} product files name {what}; the limit is {most}:\n"
            f"  {listed}\n{remedy}\nIf each of these files needs the name, raise the limit in "
            "tests/description_test.py, and give the reason in the commit.")

    def test_the_newest_kind_of_gpu_work(self):
        kind = newest_kind()
        self.check(f"the kind of GPU work {kind}", kind_pattern(kind), KIND_FILES,
                   "Derive what handles it from kGpuKinds or the columns "
                   "(daemon/capture/event_kinds.h, event_fields.h), and in the library from "
                   "PROFD_RECORDS (client_lib/cupti/record_decoder.cc).")

    def test_the_newest_column_of_a_report(self):
        self.check(f"the column {NEWEST_COLUMN}", member_pattern(NEWEST_COLUMN), COLUMN_FILES,
                   "The row, what fills it, and the description (daemon/report/README.md) are "
                   "enough: text, JSON, CSV, HTML, schema, and --sort derive from those.")

    def test_the_newest_field_of_a_capture(self):
        field = newest_capture_field()
        self.check(f"the field {field}", member_pattern(field), FIELD_FILES,
                   "Its conversion, its stored form, and its JSON belong into one description.",
                   PURPOSE_OF_NEWEST_FIELD)

    def test_too_many_files_fail_and_are_listed(self):
        expected = (r"product files name the guard; the limit is 3:\n  daemon/\S+\.h\n"
                    r"(.|\n)*derive it")
        with self.assertRaisesRegex(AssertionError, expected):
            self.check("the guard", r"#ifndef PROFD_", COLUMN_FILES, "derive it")

    def test_a_name_that_no_file_has_fails(self):
        with self.assertRaisesRegex(AssertionError, "no product file names the column"):
            self.check("the column", member_pattern("no" + "_such_column"), COLUMN_FILES, "")

    def test_comments_do_not_count_and_strings_do(self):
        cases = [(".cc", 'a("// kept");  // gone\n/* gone\n gone */ b', ["gone"]),
                 (".py", 'a("# kept")  # gone', ["gone"]),
                 (".sql", "select '-- kept' -- gone", ["gone"]),
                 (".html", "<p>kept</p><!-- gone -->", ["gone"])]
        for suffix, text, gone in cases:
            with self.subTest(suffix=suffix):
                left = without_comments(text, suffix)
                self.assertIn("kept", left)
                for word in gone:
                    self.assertNotIn(word, left)

    def test_patterns_find_what_handles_a_name(self):
        kind = kind_pattern("MemDecompress")
        for text in ("kMemDecompress", "MEM_DECOMPRESS", "cuMemBatchDecompressAsync"):
            self.assertRegex(text, kind)
        self.assertNotRegex("Decompress", kind)
        member = member_pattern("rank")
        for text in ("row.rank", "capture.set_rank(1)", '{"rank"}', "int64_t rank = 0;",
                     "&Row::rank}", "string rank = 7;"):
            self.assertRegex(text, member)
        for text in ("by rank or host", "ranks.size()", "rank_count = 1"):
            self.assertNotRegex(text, member)


if __name__ == "__main__":
    unittest.main()
