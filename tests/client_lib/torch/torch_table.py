"""What torch itself prints as its operator table, to compare ours with. Run by a Python that has torch.

  torch_table.py FOLDER     profiles a small training and writes, for each way to record it, NAME.json (its trace),
                            NAME.txt, NAME.inputs.txt and NAME.KEY.sorted.txt (its tables), and NAME.sums.json: calls,
                            CPU total, and self CPU (us) by name
  torch_table.py FOLDER --trace TRACE [--edges START,END]
                            the same tables of a trace of torch.profiler's that is there already (kineto_events.py);
                            releases before 2.4 know whole microseconds only, for which the trace is rounded first

What it prints is the release: "2.6.0". Without Kineto in this torch there are no profiles: it exits with 77.
"""

import argparse
import decimal
import gzip
import json
import sys

import torch
from torch.autograd.profiler_util import FunctionEventAvg
from torch.profiler import ProfilerActivity, profile, record_function, schedule

import kineto_events

LIVE = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "memory": {"record_shapes": True, "profile_memory": True},
}


SORT_KEYS = ("count", "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage",
             "device_time", "device_time_total", "self_device_time_total", "device_memory_usage",
             "self_device_memory_usage", "cuda_time", "cuda_time_total", "self_cuda_time_total", "cuda_memory_usage",
             "self_cuda_memory_usage")


def can_sort_by(key):
    # Since there is "device", "cuda" is taken for it.
    return hasattr(FunctionEventAvg(), key.replace("cuda", "device")) or hasattr(FunctionEventAvg(), key)


def write_tables(averages, out):
    """`averages(by_inputs)` gives the key averages."""
    def write(suffix, rows, **options):
        with open(out + suffix, "w", encoding="utf-8") as file:
            file.write(rows.table(**options))

    rows = averages(False)
    write(".txt", rows, row_limit=-1)
    write(".inputs.txt", averages(True), row_limit=-1)
    for key in filter(can_sort_by, SORT_KEYS):
        write(f".{key}.sorted.txt", rows, sort_by=key, row_limit=7)


def train(options, out):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(8 * 14 * 14, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with profile(activities=[ProfilerActivity.CPU],
                 schedule=schedule(wait=1, warmup=1, active=3, repeat=1), **options) as recorded:
        for _ in range(5):
            with record_function("forward"):
                loss = model(torch.randn(4, 3, 16, 16)).sum()
            loss.backward()
            with record_function("nested"), record_function("nested"):
                loss.detach().clone()
            optimizer.step()
            optimizer.zero_grad()
            recorded.step()
    recorded.export_chrome_trace(out + ".json")
    write_tables(lambda by_inputs: recorded.key_averages(group_by_input_shape=by_inputs), out)
    with open(out + ".sums.json", "w", encoding="utf-8") as file:
        json.dump({row.key: [row.count, row.cpu_time_total, row.self_cpu_time_total]
                   for row in recorded.key_averages()}, file)


def round_trace(trace, out):
    """Writes the trace as those releases did that knew whole microseconds only."""
    with gzip.open(trace, "rt", encoding="utf-8") as file:
        whole = json.load(file, parse_float=decimal.Decimal)
    for event in whole["traceEvents"]:
        if "dur" in event:
            event["dur"] = int(event["ts"] + event["dur"]) - int(event["ts"])
        if "ts" in event:
            event["ts"] = int(event["ts"])
    with open(out, "w", encoding="utf-8") as file:
        json.dump(whole, file, default=float)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--trace")
    parser.add_argument("--edges", default="1,1")
    args = parser.parse_args()
    if args.trace:
        trace = args.trace
        if not kineto_events.NEW:
            trace = f"{args.folder}/trace.json"
            round_trace(args.trace, trace)
        edges = tuple(map(int, args.edges.split(",")))
        write_tables(kineto_events.averages_of(trace, edges), f"{args.folder}/trace")
        print(trace, torch.__version__)
        return 0
    if not torch.autograd.kineto_available():
        print("SKIP: this torch has no Kineto", file=sys.stderr)
        return 77
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name, options in LIVE.items():
        train(options, f"{args.folder}/{name}")
    print(torch.__version__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
