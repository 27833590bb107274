"""Memory reports, stacks and rows of traces of real GPUs, beside what the traces themselves hold.

Each trace is imported by profctl, and what it then says is compared with the trace's own JSON. The
traces are no part of the source: PROFD_TEST_DATA names the folder that holds traces/.
"""

import collections
import csv
import gzip
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("PROFD_SOURCE_DIR", ".")).resolve()
PROFCTL = pathlib.Path(os.environ["PROFD_BUILD_DIR"]) / "bin" / "profctl"
DATA = pathlib.Path(os.environ.get("PROFD_TEST_DATA", SOURCE.parent / "shared" / "data")) / "traces"
TRACES = ["h100_qwen1.5_0.5b", "h100_owlv2_large", "sglang_graph_capture"]
# HIP's devices (6) are called as torch calls them in Python.
DEVICES = {0: "cpu", 1: "cuda", 6: "cuda"}


def profctl(*arguments):
    return subprocess.run([PROFCTL, *arguments], check=True, capture_output=True, text=True).stdout


def device_of(event):
    index = event["args"]["Device Id"]
    return DEVICES[event["args"]["Device Type"]] + (f":{index}" if index >= 0 else "")


class MemoryTraces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.events = {}
        cls.captures = {}
        cls.reports = {}
        for name in TRACES:
            path = DATA / f"{name}.json.gz"
            with gzip.open(path) as file:
                cls.events[name] = json.load(file)["traceEvents"]
            cls.captures[name] = os.path.join(cls.scratch.name, f"{name}.profd")
            profctl("import", path, "-o", cls.captures[name])
            cls.reports[name] = json.loads(profctl("memory", cls.captures[name], "--json"))

    def memory_events(self, name):
        """By device, in the order of their time."""
        by_device = collections.defaultdict(list)
        for event in self.events[name]:
            if event.get("name") == "[memory]":
                by_device[device_of(event)].append(event)
        for events in by_device.values():
            events.sort(key=lambda event: event["ts"])
        return by_device

    def test_levels_are_those_that_torch_recorded(self):
        for name in TRACES:
            report = self.reports[name]
            recorded = self.memory_events(name)
            self.assertEqual({d["device"] for d in report["devices"]}, set(recorded), name)
            for device in report["devices"]:
                events = [event["args"] for event in recorded[device["device"]]]
                samples = device["samples"][1:]  # The first is the level before all.
                self.assertEqual(len(samples), len(events), name)
                # Events of one moment may stand in another order.
                for column, key in ((1, "Total Allocated"), (2, "Total Reserved")):
                    self.assertEqual(
                        collections.Counter(sample[column] for sample in samples),
                        collections.Counter(event[key] for event in events),
                        f"{name}: {key}",
                    )
                self.assertEqual(device["peak_bytes"], max(e["Total Allocated"] for e in events))
                self.assertEqual(
                    device["peak_reserved_bytes"], max(e["Total Reserved"] for e in events)
                )
                self.assertEqual(device["end_bytes"], events[-1]["Total Allocated"])
                self.assertEqual(
                    device["allocation_count"], sum(event["Bytes"] > 0 for event in events)
                )

    def test_layers_add_up_to_the_level(self):
        for name in TRACES:
            report = self.reports[name]
            for device in report["devices"]:
                for sample in device["samples"]:
                    self.assertEqual(sum(sample[3:]), sample[1], name)
                    self.assertGreaterEqual(min(sample[3:]), 0, name)

    def test_what_was_alive_at_the_peak_adds_up_to_it(self):
        for name in TRACES:
            report = self.reports[name]
            for device in report["devices"]:
                for key, rest in (
                    ("peak_by_category", "peak_unknown_bytes"),
                    ("peak_by_op", "peak_older_bytes"),
                ):
                    known = sum(share["bytes"] for share in device[key])
                    self.assertEqual(known + device[rest], device["peak_bytes"], name)
                lifetimes = sum(share["bytes"] for share in device["peak_by_lifetime"])
                self.assertEqual(lifetimes, device["peak_bytes"], name)

    def test_csv_has_the_same_samples(self):
        name = TRACES[0]
        report = self.reports[name]
        rows = list(csv.reader(io.StringIO(profctl("memory", self.captures[name], "--csv"))))
        self.assertEqual(rows[0], ["device", *report["devices"][0]["sample_columns"]])
        expected = [
            [device["device"], *("" if value is None else str(value) for value in sample)]
            for device in report["devices"]
            for sample in device["samples"]
        ]
        self.assertEqual(rows[1:], expected)

    def test_device_stacks_hold_all_that_ran_on_the_gpu(self):
        for name in TRACES:
            text = profctl("export", self.captures[name], "--format", "folded-device", "-o", "-")
            own = sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())
            ops = json.loads(profctl("ops", self.captures[name], "--json"))
            self.assertEqual(own, ops["self_device_total_ns"], name)

    def test_rows_of_events_are_as_many_as_the_trace_has(self):
        for name in TRACES:
            text = profctl("export", self.captures[name], "--format", "csv", "-o", "-")
            rows = list(csv.DictReader(io.StringIO(text)))
            kinds = collections.Counter(row["kind"] for row in rows)
            recorded = collections.Counter(event.get("cat") for event in self.events[name])
            self.assertEqual(kinds["kernel"], recorded["kernel"], name)
            self.assertEqual(kinds["operator"], recorded["cpu_op"], name)
            memory = sum(event.get("name") == "[memory]" for event in self.events[name])
            self.assertEqual(kinds["allocation"] + kinds["free"], memory, name)
            spent = sum(int(row["duration_ns"]) for row in rows if row["kind"] == "kernel")
            kernels = json.loads(profctl("kernels", self.captures[name], "--json"))
            self.assertEqual(spent, kernels["total_ns"], name)


if __name__ == "__main__":
    if not all((DATA / f"{name}.json.gz").exists() for name in TRACES):
        print(f"SKIP: no traces in {DATA}; set PROFD_TEST_DATA")
        sys.exit(77)
    unittest.main(verbosity=2)
