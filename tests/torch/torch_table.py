"""What torch itself prints as its operator table, to compare ours with. Run by a Python that has torch.

  torch_table.py FOLDER     profiles a small training and writes, for each way to record it, NAME.json (its trace),
                            NAME.txt, NAME.inputs.txt and NAME.sorted.txt (its tables)

What it prints is the release: "2.6.0". Without Kineto in this torch it exits with 77.
"""

import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

LIVE = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "memory": {"record_shapes": True, "profile_memory": True},
}


def write_tables(averages, out):
    """`averages(by_inputs)` gives the key averages."""
    for suffix, by_inputs in ((".txt", False), (".inputs.txt", True)):
        with open(out + suffix, "w", encoding="utf-8") as file:
            file.write(averages(by_inputs).table(row_limit=-1))
    with open(out + ".sorted.txt", "w", encoding="utf-8") as file:
        file.write(averages(False).table(sort_by="self_cpu_time_total", row_limit=7))


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
            optimizer.step()
            optimizer.zero_grad()
            recorded.step()
    recorded.export_chrome_trace(out + ".json")
    write_tables(lambda by_inputs: recorded.key_averages(group_by_input_shape=by_inputs), out)


def main():
    if not torch.autograd.kineto_available():
        print("SKIP: this torch has no Kineto", file=sys.stderr)
        return 77
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name, options in LIVE.items():
        train(options, f"{sys.argv[1]}/{name}")
    print(torch.__version__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
