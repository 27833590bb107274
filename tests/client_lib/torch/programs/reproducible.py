"""What the example programs share: their flags, a run that can be repeated bit by bit, and the
digest by which two runs are compared.

Nothing here, or in the programs, knows of profd: they are anybody's training scripts, and the
tests show what is seen of them as they are.
"""

import argparse
import contextlib
import ctypes
import hashlib
import sys
import time

try:
    import torch
except ImportError:
    torch = None

SKIPPED = 77


def parser(description, steps):
    """The flags that every program has."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument('--steps', type=int, default=steps,
                        help='how many steps to run; 0: until killed (default %(default)s)')
    result.add_argument('--step-ms', type=float, default=0,
                        help='make each step last so long at least, by sleeping at its end')
    result.add_argument('--seed', type=int, default=1)
    result.add_argument('--threads', type=int, default=1, help="torch's threads for one operator")
    result.add_argument('--torch-profiler', metavar='FILE',
                        help='also record some steps with torch.profiler itself, as Chrome JSON')
    result.add_argument('--torch-profiler-from', type=int, default=5, metavar='STEP',
                        help='the first step to record so, from 0 (default %(default)s)')
    result.add_argument('--torch-profiler-steps', type=int, default=5, metavar='COUNT')
    return result


def start(arguments):
    """Makes the run the same each time. Exits with 77 where there is no torch."""
    if torch is None:
        skip('this Python has no torch')
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    torch.use_deterministic_algorithms(True)


def skip(reason):
    print('SKIP:', reason, flush=True)
    sys.exit(SKIPPED)


def steps(arguments):
    """Numbers the steps from 0, paces them, and records those asked for with torch.profiler."""
    first = arguments.torch_profiler_from
    end = first + arguments.torch_profiler_steps
    step = 0
    with contextlib.ExitStack() as recording:
        profiler = None
        while arguments.steps == 0 or step < arguments.steps:
            if arguments.torch_profiler and step == first:
                profiler = recording.enter_context(torch.profiler.profile(
                    activities=[torch.profiler.ProfilerActivity.CPU],
                    record_shapes=True, profile_memory=True))
            began = time.monotonic()
            yield step
            time.sleep(max(0.0, began + arguments.step_ms / 1000 - time.monotonic()))
            step += 1
            if profiler is not None and step == end:
                recording.close()
                profiler.export_chrome_trace(arguments.torch_profiler)


def digest(*tensors):
    """SHA-256 over the tensors' bytes: equal for equal bits only."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        dense = tensor.detach().cpu().contiguous()
        sha.update(ctypes.string_at(dense.data_ptr(), dense.numel() * dense.element_size()))
    return sha.hexdigest()


def report(*tensors, who=''):
    """The last line of a program's output."""
    # In one piece: the ranks of a job share their output.
    sys.stdout.write(f'{who}digest {digest(*tensors)}\n')
    sys.stdout.flush()


def report_model(model, who=''):
    """Everything that training changed: parameters and buffers, in the model's order."""
    report(*model.state_dict().values(), who=who)
