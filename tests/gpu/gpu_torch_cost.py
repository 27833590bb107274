"""A training that the CPU holds up (about 550 launches a step), for gpu_costs.py.

    gpu_torch_cost.py states [--device D] --helper FILE --states A,B,... [...]
        CUPTI in these states (cupti_states.h), in turn, without profd. Prints a line of JSON per
        block of steps. --first STATE: entered before the others, once. --last STATE: after them
    gpu_torch_cost.py job [--device D]
        obeys its input, a command per line, and trains meanwhile:
            mark NAME        the steps from now on are NAME's
            kineto NAME N [shapes]   N steps below torch.profiler; prints {"kineto": NAME, ...}
            end              prints {NAME: [step times in ns]}, ends

Prints "ready PID" when it has warmed up, then waits for a line of input. Times are of steps without
a sync of their own: the CPU is what they wait for.
"""

import argparse
import ctypes
import glob
import json
import os
import statistics
import sys
import threading
import time


class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in (
        'kernels', 'calls', 'others', 'callbacks', 'dropped', 'no_buffer')]


class Training:
    def __init__(self, device, layers=60):
        import torch
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.torch, self.device = torch, device
        self.model = torch.nn.Sequential(*[layer for _ in range(layers) for layer in (
            torch.nn.Linear(64, 64), torch.nn.ReLU())]).to(device)
        # Unfused on a CPU: older versions of torch have no other.
        extra = {'fused': True} if device == 'cuda' else {}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, **extra)
        self.data = torch.randn(64, 64, device=device)
        self.synchronize = torch.cuda.synchronize if device == 'cuda' else lambda: None

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.model(self.data).square().mean().backward()
        self.optimizer.step()

    def timed(self, steps):
        times = []
        for _ in range(steps):
            began = time.perf_counter_ns()
            self.step()
            times.append(time.perf_counter_ns() - began)
        return times


def say(**entry):
    print(json.dumps(entry), flush=True)


def mapped_cupti():
    with open('/proc/self/maps', encoding='utf-8') as maps:
        for line in maps:
            if '/libcupti.so' in line:
                return line.split()[-1]
    for folder in sys.path:
        for pattern in ('nvidia/cu13/lib', 'nvidia/cuda_cupti/lib'):
            found = glob.glob(os.path.join(folder, pattern, 'libcupti.so.*'))
            if found:
                return found[0]
    return None


def run_states(options, training):
    path = options.cupti or mapped_cupti()
    if path is None:
        return say(fact='no_cupti', value='torch has none')
    helper = ctypes.CDLL(options.helper)
    opened = helper.cs_open(path.encode(), options.buffer_kib)
    say(fact='cupti', value=path)
    if opened != 0:
        return say(fact='no_states', value=opened)
    for text in options.attribute:
        number, size, value = map(int, text.split(':'))
        say(fact='set_attribute', value=helper.cs_set_attribute(number, size, ctypes.c_uint64(value)),
            attribute=text)

    def block(state, number):
        training.synchronize()
        entered = helper.cs_enter(state.encode())
        training.timed(3)  # What a state costs once is not what a step costs.
        training.synchronize()
        times = training.timed(options.steps)
        training.synchronize()
        quieted = helper.cs_quiet_count()
        if state not in ('none', 'finalized'):
            helper.cs_enter(b'unsubscribed' if options.unsubscribed else b'off')
        counts = Counts()
        helper.cs_take(ctypes.byref(counts))
        steps = options.steps + 3
        say(fact='block', state=state, round=number, entered=entered, quiet=quieted,
            p50_ns=statistics.median(times), mean_ns=sum(times) / len(times), steps=len(times),
            kernels_per_step=counts.kernels / steps, calls_per_step=counts.calls / steps,
            callbacks_per_step=counts.callbacks / steps, dropped=counts.dropped + counts.no_buffer)

    deadline = time.monotonic() + options.seconds
    for number in range(2):
        block('none', number)
    for number in range(options.rounds):
        if number and time.monotonic() > deadline:
            break
        for state in options.states.split(','):
            block(state, number)
    for state in filter(None, options.last.split(',')):
        block(state, options.rounds)
    return None


def run_job(training):
    torch = training.torch
    times, state = {}, {'label': 'loaded', 'commands': []}

    def read():
        for line in sys.stdin:
            state['commands'].append(line.split())
        state['commands'].append(['end'])
    threading.Thread(target=read, daemon=True).start()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if training.device == 'cuda':
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    while True:
        while state['commands']:
            word, *rest = state['commands'].pop(0)
            if word == 'end':
                training.synchronize()
                print(json.dumps(times), flush=True)
                # What torch's profiler leaves behind must not decide about this job's exit.
                os._exit(0)
            if word == 'mark':
                state['label'] = rest[0]
            if word == 'kineto':
                name, steps = rest[0], int(rest[1])
                training.synchronize()
                began = time.monotonic()
                with torch.profiler.profile(activities=activities, record_shapes='shapes' in rest):
                    training.timed(5)
                    found = training.timed(steps)
                    training.synchronize()
                times.setdefault(name, []).extend(found)
                say(kineto=name, steps=steps + 5, seconds=round(time.monotonic() - began, 2))
        times.setdefault(state['label'], []).append(training.timed(1)[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('what', choices=('states', 'job'))
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--helper')
    parser.add_argument('--cupti')
    parser.add_argument('--states', default='subscribed,off')
    parser.add_argument('--last', default='')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--steps', type=int, default=60)
    parser.add_argument('--seconds', type=float, default=20)
    parser.add_argument('--buffer-kib', type=int, default=1024)
    parser.add_argument('--attribute', action='append', default=[], help='ID:BYTES:VALUE')
    parser.add_argument('--unsubscribed', action='store_true')
    options = parser.parse_args()
    training = Training(options.device)
    training.timed(40 if options.device == 'cuda' else 5)
    training.synchronize()
    print('ready', os.getpid(), flush=True)
    if not sys.stdin.readline():
        return
    if options.what == 'job':
        run_job(training)
    else:
        run_states(options, training)
        print('done', flush=True)
        os._exit(0)


if __name__ == '__main__':
    main()
