"""Chrome exports of imported GPU traces in TensorBoard's PyTorch profiler plugin: its own loader finds the steps,
operators, kernels and memory that profctl tells of, with the same figures where both mean the same by them.

Skips where the interpreter has no `torch_tb_profiler` (PROFD_TENSORBOARD_PYTHON names another one) or the traces are
not there (PROFD_TEST_DATA). Captures of our own are in trace_readers_test.py.

Known gap: self times of operators, which the plugin takes from its own tree, its views of modules and its GPU
utilisation are not compared.
"""

import json

from imported_traces import PROFCTL, imported, output, python_with

# Not diff_control, in whole microseconds: which of two calls in the same one lies in which other the plugin decides
# otherwise, so that it counts 328 of aten::zeros instead of 327.
TRACES = ["nccl_rank", "h100_qwen1.5_0.5b"]

# What it prints: its tables of the file, times in us.
PLUGIN = """
import json, logging, sys
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator
profile = RunProfileData.parse("worker", "span", sys.argv[1], sys.argv[2])
run = RunGenerator("worker", "span", profile).generate_run_profile()
kernels = run.kernel_table["data"]
at = {column["name"]: i for i, column in enumerate(kernels["columns"])}
peaks = {}
for record in profile.memory_snapshot.memory_records if profile.memory_snapshot else []:
    device = record.device_name.lower()
    peaks[device] = max(peaks.get(device, 0), record.total_allocated)
print(json.dumps({
    "steps": [int(name) for name in profile.steps_names],
    "step_us": [costs.costs[-1] for costs in profile.steps_costs],
    "operators": {row["name"]: [row["calls"], row["host_total_duration"]]
                  for row in run.operation_table_by_name["data"]},
    "kernels": {row[at["Name"]]: [row[at["Calls"]], row[at["Total Duration (us)"]],
                                  row[at["Min Duration (us)"]], row[at["Max Duration (us)"]]]
                for row in kernels["rows"]},
    "communicates": profile.has_communication,
    "peaks": peaks,
}))
"""


def report(*command):
    return json.loads(output(PROFCTL, *command, "--json"))


def ours(capture):
    return {
        "steps": report("steps", capture)["steps"],
        # Like torch's own table it does not count what is alone in one of the same name.
        "operators": {row["name"]: row for row in report("ops", capture, "--torch")["rows"]
                      if not row["is_device"]},
        "kernels": {row["name"]: row for row in report("kernels", capture, "--limit", 0)["rows"]},
        "peaks": {device["device"].replace("cuda:", "gpu"): device["peak_bytes"]
                  for device in report("memory", capture)["devices"]}}


def near(mine_ns, theirs_us, what):
    # It rounds to whole microseconds.
    assert abs(mine_ns / 1000 - theirs_us) <= 1, (what, mine_ns, theirs_us)


def compare(mine, theirs, what):
    assert [step["index"] for step in mine["steps"]] == theirs["steps"], (what, theirs["steps"])
    for step, theirs_us in zip(mine["steps"], theirs["step_us"]):
        near(step["duration_ns"], theirs_us, (what, step["index"]))
    assert set(mine["kernels"]) == set(theirs["kernels"]), what
    for name, (count, total, shortest, longest) in theirs["kernels"].items():
        row = mine["kernels"][name]
        assert row["count"] == count, (what, name, row["count"], count)
        for figure, theirs_us in (("total_ns", total), ("min_ns", shortest), ("max_ns", longest)):
            near(row[figure], theirs_us, (what, name, figure))
    compared = 0
    for name, (calls, total) in theirs["operators"].items():
        row = mine["operators"][name]
        assert row["calls"] == calls, (what, name, row["calls"], calls)
        near(row["cpu_total_ns"], total, (what, name, calls))
        compared += 1
    assert compared >= 20, (what, compared)
    for device, peak in theirs["peaks"].items():
        assert mine["peaks"][device] == peak, (what, device, mine["peaks"], peak)


def main():
    python = python_with("torch_tb_profiler", "PROFD_TENSORBOARD_PYTHON")
    for name, _, capture in imported(TRACES):
        exported = capture.with_name(name + ".pt.trace.json")
        output(PROFCTL, "export", capture, "--format", "chrome", "-o", exported)
        theirs = json.loads(output(python, "-c", PLUGIN, exported, capture.with_name("cache")))
        compare(ours(capture), theirs, name)
        print(f"{name}: the same")


if __name__ == "__main__":
    main()
