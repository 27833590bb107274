"""`profctl time --as hta` of imported traces, beside Holistic Trace Analysis itself, live.

Skips where the interpreter has no `hta` (PROFD_HTA_PYTHON names another one) or the traces are not
there (PROFD_TEST_DATA). The answers of HTA 0.6.1 that tests/report/real_traces_test.cc compares with
need neither.

Known gap: our own Chrome exports are not compared. They show each ProfilerStep on the GPU's streams,
too, which HTA takes for the step itself, so that it keeps part of the last one.
"""

import json

from imported_traces import PROFCTL, imported, output, python_with

# Not alexnet_train: before 0.6 a wait for a context computes.
TRACES = ["diff_control", "diff_test", "nccl_rank"]

# What it prints: figures in us, of the one rank.
HTA = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis(trace_files={0: sys.argv[1]})
temporal = trace.get_temporal_breakdown(visualize=False).iloc[0]
idle = trace.get_idle_time_breakdown(ranks=[0], visualize=False)
idle = idle[0] if isinstance(idle, tuple) else idle
launches = trace.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
queue = trace.get_queue_length_summary(ranks=[0])
print(json.dumps({
    "kernel_time": float(temporal["kernel_time(us)"]),
    "idle": float(temporal["idle_time(us)"]),
    "compute": float(temporal["compute_time(us)"]),
    "streams": {f"{int(row.stream)} {row.idle_category}": float(row.idle_time)
                for row in idle.itertuples()},
    "launches": [len(launches), float(launches["cpu_duration"].sum()),
                 float(launches["gpu_duration"].sum()), float(launches["launch_delay"].sum())],
    "queues": {str(int(index[-1])): [float(row[("queue_length", what)])
                                     for what in ("count", "50%", "max")]
               for index, row in queue.iterrows()}}))
"""


def ours(capture):
    report = json.loads(output(PROFCTL, "time", capture, "--as", "hta", "--json"))
    return {
        "kernel_time": report["kernel_time_ns"] / 1000,
        "idle": report["idle_ns"] / 1000,
        "compute": report["compute_ns"] / 1000,
        "streams": {f"{row['stream']} {cause}": row[cause + "_ns"] / 1000
                    for row in report["streams"]
                    for cause in ("host_wait", "kernel_wait", "other")},
        "launches": [report["launch_count"], report["launch_call_ns"] / 1000,
                     report["launched_ns"] / 1000, report["launch_delay_ns"] / 1000],
        "queues": {str(row["stream"]): [row["change_count"], row["p50"], row["max"]]
                   for row in report["queues"]}}


def near(mine, theirs, what):
    # Its microseconds are binary fractions: one end in thousands is rounded down by one too many.
    assert abs(mine - theirs) <= 2, (what, mine, theirs)


def compare(mine, theirs, what):
    for figure in ("kernel_time", "idle", "compute"):
        near(mine[figure], theirs[figure], (what, figure))
    for stream, time_us in theirs["streams"].items():
        near(mine["streams"][stream], time_us, (what, stream))
    for mine_of, theirs_of in zip(mine["launches"], theirs["launches"]):
        near(mine_of, theirs_of, (what, "launches"))
    assert mine["queues"] == theirs["queues"], (what, mine["queues"], theirs["queues"])


def main():
    python = python_with("hta", "PROFD_HTA_PYTHON")
    for name, trace, capture in imported(TRACES):
        compare(ours(capture), json.loads(output(python, "-c", HTA, trace)), name)
        print(f"{name}: the same")


if __name__ == "__main__":
    main()
