"""Holds the #includes of the tree against the arrows: which folder may know which.

ARROWS is the table that daemon/README.md explains. A folder may include its own headers, and
those of the folders its row names; it may not reach through one of them to a third. Who needs a
new arrow adds it here, with a reason in the commit; an arrow that closes a circle is refused.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What captures are made of, what events look like, and what captures need of others: the headers
# of capture/ that those who stand below it may see. They are rows of their own.
TYPES = "daemon/capture/capture_types.h"
FIELDS = "daemon/capture/capture_fields.h"
EVENT_FIELDS = "daemon/capture/event_fields.h"
EVENTS = "daemon/capture/event_kinds.h"
GROUPS = "daemon/capture/group_types.h"
QUALITY = "daemon/capture/quality.h"
SLOWDOWN = "daemon/capture/slowdown.h"
PORTS = "daemon/capture/ports.h"
# Who asks, and what they may do: values and an interface.
ACCESS = "daemon/capture/access.h"
# What schedules are made of, and what they need of the store.
SCHEDULE_TYPES = "daemon/schedule/schedule_types.h"
SCHEDULE_FIELDS = "daemon/schedule/schedule_fields.h"
SCHEDULE_STORE = "daemon/schedule/schedule_store.h"

# How the GPU of software is driven: the one header of tests/ that may be seen from outside.
SIMULATED_GPU = "tests/cupti_standin/sgpu.h"

# The longest matching prefix decides which row a file belongs to.
ARROWS = {
    "proto/profd/v1": [],
    "proto/wire": [],
    "client_lib/include": [],
    "client_lib/core": ["proto/wire", "client_lib/include"],
    "client_lib/nvtx": ["client_lib/core"],
    "client_lib/cupti": ["proto/wire", "client_lib/core"],
    # Goes into any process, also where the library cannot: it needs nothing.
    "client_lib/preload": [],
    "client_lib/python_stack": ["proto/wire", "client_lib/core"],
    "client_lib/torch": ["proto/wire", "client_lib/include", "client_lib/core",
                         "client_lib/python_stack"],
    "daemon/base": [],
    # profd serves metrics to scrapers, profctl one file to a browser.
    "daemon/http": ["daemon/base"],
    "daemon/quota": ["daemon/base"],
    TYPES: [],
    FIELDS: [TYPES],
    EVENT_FIELDS: [],
    EVENTS: [EVENT_FIELDS],
    GROUPS: [TYPES],
    QUALITY: [TYPES],
    SLOWDOWN: [TYPES],
    PORTS: ["daemon/quota", TYPES, EVENTS, GROUPS],
    ACCESS: ["daemon/quota", TYPES],
    SCHEDULE_TYPES: [TYPES, ACCESS],
    SCHEDULE_FIELDS: [FIELDS, SCHEDULE_TYPES],
    SCHEDULE_STORE: [SCHEDULE_TYPES],
    "daemon/access": ["daemon/base", ACCESS],
    # One capture file.
    "daemon/store/file": ["daemon/base", TYPES, FIELDS, EVENT_FIELDS, EVENTS, GROUPS, QUALITY,
                          PORTS, SCHEDULE_TYPES, SCHEDULE_FIELDS],
    "daemon/store/catalog": ["daemon/base", "daemon/store/file", TYPES, GROUPS, SCHEDULE_TYPES,
                             SCHEDULE_STORE],
    # It tells the ledger what principals hold.
    "daemon/store": ["daemon/base", "daemon/quota", "daemon/store/file", "daemon/store/catalog", TYPES, PORTS,
                     SCHEDULE_STORE],
    # Object storage, for profd and profctl: it reads capture files by ranges.
    "daemon/archive/s3": ["daemon/base", "daemon/store/file"],
    # What several reports look up. Rows of events carry flags and categories with the numbers that
    # targets wrote.
    "daemon/report/index": ["proto/wire", "daemon/base", "daemon/store/file", TYPES, EVENTS],
    # Which recorded times can be right.
    "daemon/report/believed": ["proto/wire", "daemon/base", "daemon/store/file",
                               "daemon/report/index"],
    "daemon/report/ops": ["proto/wire", "daemon/base", "daemon/store/file", "daemon/report/index",
                          "daemon/report/believed", TYPES, EVENTS],
    "daemon/report/memory": ["proto/wire", "daemon/base", "daemon/store/file",
                             "daemon/report/index", TYPES],
    "daemon/report/gpu": ["daemon/base", "daemon/store/file", "daemon/report/index",
                          "daemon/report/believed", TYPES, EVENTS, QUALITY],
    "daemon/report/ranks": ["proto/wire", "daemon/base", "daemon/store/file",
                            "daemon/report/index", "daemon/report/believed", "daemon/report/gpu",
                            "daemon/report/ops", TYPES, EVENTS],
    "daemon/report/time": ["proto/wire", "daemon/base", "daemon/store/file",
                           "daemon/report/index", "daemon/report/believed", "daemon/report/gpu",
                           "daemon/report/ranks", QUALITY],
    "daemon/report/findings": ["daemon/base", "daemon/store/file", "daemon/report/index",
        "daemon/report/believed", "daemon/report/memory", "daemon/report/gpu",
        "daemon/report/ops", "daemon/report/ranks",
        # The words for a slow-down are those of the quality check.
        "daemon/report/time", TYPES, EVENTS, QUALITY, SLOWDOWN],
    "daemon/report/diff": ["daemon/base", "daemon/report/index", "daemon/report/findings", TYPES, QUALITY,
                          SLOWDOWN],
    # The reports by name, and what the catalog keeps of a capture.
    "daemon/report": ["daemon/base", "daemon/store/file", "daemon/report/index",
                      "daemon/report/ops", "daemon/report/gpu", "daemon/report/ranks",
                      "daemon/report/memory", "daemon/report/time", "daemon/report/findings"],
    "daemon/export/sink": ["daemon/base"],
    "daemon/export/trace": ["proto/wire", "daemon/base", "daemon/store/file",
                            "daemon/report/index", "daemon/report/memory", "daemon/report/gpu",
                            "daemon/export/sink", TYPES, EVENTS],
    "daemon/export/chrome": ["proto/wire", "daemon/base", "daemon/store/file",
                             "daemon/report/index", "daemon/report/memory", "daemon/report/ranks",
                             "daemon/export/sink", "daemon/export/trace", TYPES, EVENTS, QUALITY],
    "daemon/export/perfetto": ["proto/wire", "daemon/base", "daemon/store/file",
        "daemon/report/index", "daemon/report/memory", "daemon/export/sink",
        "daemon/export/trace", TYPES, EVENTS, QUALITY],
    "daemon/export/stacks": ["daemon/base", "daemon/store/file", "daemon/report/index",
                             "daemon/export/sink", "daemon/export/trace"],
    "daemon/export/html": ["daemon/base", "daemon/store/file", "daemon/report/memory",
                           "daemon/report/time", "daemon/report/findings", "daemon/report",
                           "daemon/export/sink", "daemon/export/stacks"],
    "daemon/export": ["proto/wire", "daemon/base", "daemon/store/file", "daemon/report/index",
                      "daemon/report/memory", "daemon/report/ranks", "daemon/export/sink",
                      "daemon/export/trace", "daemon/export/chrome", "daemon/export/html",
                      "daemon/export/stacks", EVENTS],
    # JSON as text, 64 bytes at a time.
    "daemon/import/json": [],
    # The other way: rows of what others wrote, into the store's files.
    "daemon/import": ["daemon/import/json", "proto/wire", "daemon/base", "daemon/store/file", "daemon/report/index",
                      "daemon/report/findings", TYPES, EVENTS, QUALITY, PORTS],
    # Exports of Nsight Systems, by the same builder.
    "daemon/import/nsys": ["proto/wire", "daemon/base", "daemon/store/file", "daemon/report/index",
                           "daemon/report/findings", "daemon/import", TYPES, EVENTS],
    # Trace files of anyone, captures of nobody.
    "daemon/check": ["daemon/base"],
    "daemon/metrics": ["daemon/base", "daemon/http", "daemon/quota", "daemon/store", TYPES, PORTS],
    "daemon/capture": ["daemon/base", "daemon/quota", TYPES, GROUPS, QUALITY, SLOWDOWN, PORTS,
                       ACCESS],
    "daemon/schedule": ["daemon/base", "daemon/quota", "daemon/capture", PORTS, ACCESS, SCHEDULE_TYPES,
                        SCHEDULE_STORE],
    # The program with privileges, and what it shares with the daemon.
    "daemon/privilege": ["daemon/base"],
    # Bytes of a target, copied by now, into rows: no sockets, no shared memory.
    "daemon/ingest/decode": ["proto/wire", "daemon/base", TYPES, PORTS],
    "daemon/ingest": ["proto/wire", "daemon/base", "daemon/quota", "daemon/privilege",
                      "daemon/ingest/decode", TYPES, PORTS],
    # What a seal asks of profd-report is what the store asks for.
    "daemon/worker": ["daemon/base", "daemon/store/file", QUALITY],
    "daemon/rpc/admission": ["daemon/base", "daemon/quota", "daemon/store", "daemon/privilege",
                             "daemon/ingest", TYPES, PORTS, ACCESS],
    "daemon/rpc/server": ["daemon/base", "daemon/worker", "daemon/rpc/admission"],
    # The summary of a rank, as the catalog keeps it: a format, not a report of events.
    "daemon/rpc/convert": ["proto/profd/v1", "daemon/base", TYPES, FIELDS, GROUPS, QUALITY,
                           SCHEDULE_TYPES, SCHEDULE_FIELDS,
                           "daemon/report/ranks", "daemon/schedule", "daemon/rpc/admission"],
    "daemon/rpc/services": ["proto/profd/v1", "daemon/base", "daemon/quota", "daemon/store",
                            # The history is a report of the catalog.
                            "daemon/report/ranks",
                            "daemon/capture", "daemon/schedule", "daemon/worker",
                            "daemon/rpc/admission", "daemon/rpc/server", "daemon/rpc/convert",
                            TYPES, GROUPS, QUALITY, PORTS],
    # Puts the servers together.
    "daemon/rpc": ["daemon/base", "daemon/quota", "daemon/capture", "daemon/worker",
                   "daemon/rpc/admission", "daemon/rpc/server", "daemon/rpc/services", PORTS],
    # The program that reads capture files for rpc: it makes the same messages.
    "daemon/report_worker": ["proto/profd/v1", "daemon/base", "daemon/store/file",
                             "daemon/report/findings", "daemon/report", "daemon/export/sink",
                             "daemon/export", "daemon/worker", "daemon/rpc/convert"],
    "daemon/main.cc": ["proto/wire", "daemon/base", "daemon/quota", "daemon/access",
                       "daemon/store", "daemon/worker", "daemon/metrics", "daemon/capture", "daemon/schedule", "daemon/privilege",
                       "daemon/ingest", "daemon/rpc/admission", "daemon/rpc/services",
                       "daemon/rpc"],
    "cli/base": ["daemon/base", TYPES, QUALITY],
    "cli/client": ["proto/profd/v1", "daemon/base", TYPES, GROUPS, QUALITY, SCHEDULE_TYPES,
                   "daemon/store/file", "daemon/report/ranks", "daemon/report",
                   "daemon/export/sink", "daemon/export", "daemon/rpc/convert", "cli/base"],
    "cli/captures": ["daemon/base", TYPES, GROUPS, "daemon/store/file",
                     "daemon/report/index", "daemon/report/ranks", "daemon/report/findings", "daemon/report",
                     "daemon/export/sink", "daemon/export", "cli/base", "cli/client"],
    "cli/render": ["daemon/base", TYPES, QUALITY, SLOWDOWN, "daemon/report/index",
                   "daemon/report/ops", "daemon/report/memory", "daemon/report/ranks",
                   "daemon/report/time", "daemon/report/findings", "daemon/report/diff", "daemon/report", "daemon/check",
                   "cli/base", "cli/client", "cli/captures"],
    "cli/commands": ["daemon/base", "daemon/http", SCHEDULE_TYPES, "daemon/report/index", "daemon/report/ops",
                     "daemon/report/ranks", "daemon/report/time", "daemon/report/findings",
                     "daemon/report/diff", "daemon/report", "daemon/export/html", "daemon/import",
                     "daemon/import/nsys", "cli/base",
                     "cli/client", "cli/captures", "cli/render"],
    # The demo of a machine without a GPU runs on the stand-in's; it is loaded, not linked.
    SIMULATED_GPU: [],
    "deploy": ["client_lib/include", SIMULATED_GPU],
}
UNBOUND = ("tests/",)

# Third-party headers that only some folders may see: what they must not reach.
KEPT_OUT = {
    r"grpc|google/protobuf|\.pb\.h": {row for row in ARROWS if row.startswith("daemon/rpc")} | {
        "daemon/report_worker", "daemon/main.cc", "cli/client"},
    r"^sqlite3": {"daemon/store/file", "daemon/store/catalog"},
    r"^prometheus/": {"daemon/metrics"},
    r"^(curl/|expat)": {"daemon/archive/s3"},
    r"^microhttpd": {"daemon/http"},
    r"^absl/": {row for row in ARROWS if row.startswith(("daemon", "cli"))},
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.MULTILINE)


def row_of(path):
    rows = [row for row in ARROWS if path == row or path.startswith(row + "/")]
    return max(rows, key=len) if rows else None


def row_of_include(name):
    """The row of an included header of ours; None for everybody else's."""
    if name.startswith("profd/v1/"):  # generated, and included as protoc writes it
        name = "proto/" + name
    elif name.startswith("profd/"):  # what an application writes
        name = "client_lib/include/" + name
    if name.startswith(UNBOUND) and name not in ARROWS:
        return "tests"
    return row_of(name)


def sources():
    for top in ("proto", "client_lib", "daemon", "cli", "deploy"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in {".h", ".hpp", ".cc", ".c"} and path.is_file():
                yield path.relative_to(ROOT).as_posix(), path.read_text(errors="replace")


class LayeringTest(unittest.TestCase):

    def test_every_source_file_belongs_to_a_row(self):
        homeless = [path for path, _ in sources() if row_of(path) is None]
        self.assertFalse(homeless, "no row in ARROWS for: " + ", ".join(homeless))

    def test_includes_follow_the_arrows(self):
        offences = []
        for path, text in sources():
            row = row_of(path)
            for name in INCLUDE.findall(text):
                to = row_of_include(name)
                if row is None or to is None or to == row or to in ARROWS[row]:
                    continue
                offences.append(f"{path}: includes {name}; {row} may use "
                                f"{', '.join(ARROWS[row]) or 'nothing of ours'}")
        self.assertFalse(offences, "\n" + "\n".join(offences))

    def test_every_arrow_is_used(self):
        used = set()
        for path, text in sources():
            used |= {(row_of(path), row_of_include(name)) for name in INCLUDE.findall(text)}
        unused = [f"{row} -> {to}" for row, arrows in ARROWS.items() for to in arrows
                  if (row, to) not in used]
        self.assertFalse(unused, "in ARROWS, but in no #include: " + ", ".join(unused))

    # What a kind of event costs: its description, and the code that records and decodes it. Store,
    # checks, and report_worker follow from the description; they name only the kinds that they
    # treat in a way of their own (steps, which seal.cc derives, and ranges, which are kept by end).
    def test_the_store_names_no_kind_of_event(self):
        text = (ROOT / "daemon/capture/event_kinds.h").read_text()
        names = "|".join(re.findall(r"^using (\w+)Row =", text, re.M))
        self.assertIn("GpuAnnotation", names)
        named = set()
        for path, text in sources():
            if path.startswith(("daemon/store/", "daemon/report_worker/")):
                named |= {(path, kind) for kind in
                          re.findall(rf"\b({names})(?:Row|Fields|Batch)\b", text)}
        steps = {"daemon/store/capture_recovery.cc", "daemon/store/file/reader.cc",
                 "daemon/store/file/seal.cc", "daemon/store/file/steps.cc",
                 "daemon/store/file/steps.h", "daemon/store/file/writer.cc"}
        others = {(path, kind) for path, kind in named if (path, kind) not in
                  {(path, "Step") for path in steps}}
        self.assertFalse(others, "these name a kind of event: " + str(sorted(others)))

    def test_third_party_headers_stay_where_they_belong(self):
        offences = []
        for path, text in sources():
            for name in INCLUDE.findall(text):
                for pattern, rows in KEPT_OUT.items():
                    if re.search(pattern, name) and row_of(path) not in rows:
                        offences.append(f"{path}: {name} is for {', '.join(sorted(rows))} only")
        self.assertFalse(offences, "\n" + "\n".join(offences))

    def test_the_arrows_close_no_circle(self):
        seen, open_rows = set(), []

        def visit(row):
            self.assertNotIn(row, open_rows, "a circle: " + " -> ".join(open_rows + [row]))
            if row in seen:
                return
            open_rows.append(row)
            for other in ARROWS[row]:
                visit(other)
            open_rows.pop()
            seen.add(row)

        for row in ARROWS:
            visit(row)

    def test_the_test_sees_the_tree(self):
        rows = {row_of(path) for path, _ in sources()}
        self.assertLessEqual({"proto/wire", "client_lib/core", "daemon/capture", "cli/commands"}, rows)


if __name__ == "__main__":
    unittest.main()
