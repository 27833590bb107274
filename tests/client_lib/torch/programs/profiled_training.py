"""Trains a small model and, when told to, lets torch.profiler look at some of the steps.

A program that knows nothing of profd: the tests capture it from outside while torch.profiler
records the same operators from inside, and then hold the two against each other.

    profiled_training.py OUT [--model mlp|convnet|attention] [--optimizer sgd|momentum|adam]

Commands on standard input, each answered with a line "ok" when done:
    train N     N steps
    profile N   N steps under torch.profiler; its events are then in OUT, as JSON
    timeline N  the same with stacks, as torch.profiler needs them to say what memory was for; OUT
                then has its timeline of blocks and categories. torch from 2.1 on
    digest      "ok DIGEST": of all parameters
    observed    "ok 1" if torch calls somebody at each range and operator; "ok 0" if not
"""

import argparse
import ctypes
import functools
import hashlib
import json
import pathlib
import sys

import torch
from torch import nn


class Attention(nn.Module):
    """One block of a transformer, spelt out so that every torch has its operators."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = self.project(x).chunk(3, dim=-1)

        def split(t):
            return t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        weights = torch.softmax(split(query) @ split(key).transpose(-1, -2), dim=-1)
        mixed = (weights @ split(value)).transpose(1, 2).reshape(batch, length, width)
        return torch.cat([self.norm(x + self.out(mixed)), x], dim=-1)


def make_model(name):
    if name == 'mlp':
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                              nn.Linear(64, 1))
        return model, (torch.randn(16, 64), torch.randn(16, 1))
    if name == 'convnet':
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Flatten(), nn.Linear(8 * 7 * 7, 1))
        return model, (torch.randn(4, 3, 16, 16), torch.randn(4, 1))
    model = nn.Sequential(Attention(), nn.Linear(64, 1))
    return model, (torch.randn(4, 8, 32), torch.randn(4, 8, 1))


def shapes_of(inputs):
    """One item per input: its sizes, a list of those for a list of tensors, [] for no tensor."""
    if inputs is None:
        return []
    shapes = getattr(inputs, 'shapes', None)
    if shapes is None:  # Newer torch: a list of records, one per input.
        def one(item):
            if isinstance(item, list):
                return [one(i) for i in item]
            return list(getattr(item, 'sizes', None) or [])
        return [one(item) for item in inputs]
    return [list(shape) for shape in shapes]


def tree_of(event):
    fields = event.extra_fields
    node = {'name': event.name, 'thread': event.start_tid, 'start_ns': event.start_time_ns,
            'duration_ns': event.duration_time_ns,
            'children': [tree_of(child) for child in event.children]}
    if hasattr(fields, 'alloc_size'):
        node.update(bytes=fields.alloc_size, address=fields.ptr)
    elif hasattr(fields, 'sequence_number'):
        node.update(sequence=fields.sequence_number, scope=int(fields.scope.value)
                    if hasattr(fields.scope, 'value') else int(fields.scope),
                    shapes=shapes_of(fields.inputs))
    return node


def dump(profiler, path):
    """torch.profiler's own tree of events: exact times and nesting, in every version."""
    results = profiler.profiler.kineto_results
    backward = [{'name': event.name(), 'sequence': event.sequence_nr(),
                 'forward_thread': event.fwd_thread_id()} for event in results.events()
                if event.fwd_thread_id() > 0 and event.name() != '[memory]']
    with open(path, 'w') as file:
        json.dump({'torch': torch.__version__, 'backward': backward,
                   'tree': [tree_of(event) for event in results.experimental_event_tree()]}, file)


def dump_timeline(profiler, path):
    """Rows of [time in Unix ns, action, block, bytes, category]; time -1: since before. The block
    is null where no tensor was seen in it: such rows tell of it by its size alone."""
    profile = profiler._memory_profile()
    rows = []
    for time_ns, action, (key, version), size in profile.timeline:
        category = profile._categories.get(key, version)
        block = f'{key.id}:{key.device}' if hasattr(key, 'id') else None
        rows.append([time_ns, action.name, block, size,
                     category.name if category is not None else None])
    with open(path, 'w') as file:
        json.dump({'torch': torch.__version__, 'timeline': rows}, file)


def is_observed():
    """at::hasGlobalCallbacks()"""
    library = ctypes.CDLL(pathlib.Path(torch.__file__).parent / 'lib/libtorch_cpu.so')
    return library._ZN2at18hasGlobalCallbacksEv() & 0xff != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('out')
    parser.add_argument('--model', choices=('mlp', 'convnet', 'attention'), default='mlp')
    parser.add_argument('--optimizer', choices=('sgd', 'momentum', 'adam'), default='sgd')
    arguments = parser.parse_args()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    model, (x, y) = make_model(arguments.model)
    kinds = {'sgd': torch.optim.SGD, 'adam': torch.optim.Adam,
             'momentum': functools.partial(torch.optim.SGD, momentum=0.9)}
    optimizer = kinds[arguments.optimizer](model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()

    for line in sys.stdin:
        command, *words = line.split()
        answer = ''
        if command == 'train':
            for _ in range(int(words[0])):
                step()
        elif command == 'profile':
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                        record_shapes=True, profile_memory=True) as profiler:
                for _ in range(int(words[0])):
                    step()
            dump(profiler, arguments.out)
        elif command == 'timeline':
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                        record_shapes=True, profile_memory=True,
                                        with_stack=True) as profiler:
                for _ in range(int(words[0])):
                    step()
            try:
                dump_timeline(profiler, arguments.out)
            except AssertionError as error:
                # torch.profiler's check of its own records, which fails once in many runs.
                if 'duplicate outputs' not in str(error):
                    raise
                answer = 'doubted'
        elif command == 'digest':
            digest = hashlib.sha256()
            for parameter in model.parameters():
                digest.update(parameter.detach().numpy().tobytes())
            answer = digest.hexdigest()
        elif command == 'observed':
            answer = int(is_observed())
        else:
            raise SystemExit(f'unknown command {command!r}')
        print('ok', answer, flush=True)


if __name__ == '__main__':
    main()
