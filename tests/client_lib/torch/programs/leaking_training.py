"""A training loop under torch.profiler that keeps 16 KiB more after each step, and what torch says
of its memory: FOLDER/trace.json, and FOLDER/timeline.raw.json.gz as export_memory_timeline writes it.
"""

import os
import sys
import warnings

import torch
from torch.profiler import ProfilerActivity, profile, schedule

STEPS = 6


def main(folder):
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(),
                                torch.nn.Linear(1024, 256))
    optimizer = torch.optim.Adam(model.parameters())
    kept = []

    def write(profiler):
        profiler.export_chrome_trace(os.path.join(folder, "trace.json"))
        profiler.export_memory_timeline(os.path.join(folder, "timeline.raw.json.gz"), device="cpu")

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True,
                 with_stack=True, on_trace_ready=write,
                 schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1)) as profiler:
        for _ in range(STEPS + 2):
            loss = model(torch.randn(64, 256)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept.append(loss.detach().repeat(4096) * 2)
            profiler.step()


if __name__ == "__main__":
    main(sys.argv[1])
