"""torch's own table of a trace that is not of this machine: what Kineto would have told torch is put together from
the trace's JSON, and torch's own code makes function events, the tree and the averages of it.

Which work is whose is taken from the trace's "External id", as torch does; so a trace is needed in which it is the
operator's, not the correlation (those of torch 2.1 and later).
"""

import decimal
import gzip
import json

import torch
from torch._C._autograd import DeviceType
from torch.autograd import profiler, profiler_util

GPU = {'kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation', 'cuda_sync'}
OPERATORS = {'cpu_op', 'user_annotation'}
CALLS = {'cuda_runtime', 'cuda_driver', 'overhead'}
NO_THREAD = -1
NEW = hasattr(torch._C._autograd._KinetoEvent, 'start_ns')


class KinetoEvent:
    """One event of a trace, as torch._C._autograd._KinetoEvent shows it."""

    def __init__(self, event, category, annotation_edges_ns):
        args = event.get('args', {})
        external = int(args.get('External id', 0))
        is_linked = category not in OPERATORS and category != 'gpu_user_annotation'
        if is_linked and external == int(args.get('correlation', -1)):
            external = 0  # How Kineto once wrote that there is none.
        self.values = {
            'name': event['name'],
            'device_type': DeviceType.CUDA if category in GPU else DeviceType.CPU,
            'device_index': 0,
            'device_resource_id': 0,
            # Not that of a call, which older releases took for an operator's if the numbers met.
            'correlation_id': 0 if is_linked else external,
            'linked_correlation_id': external if is_linked else 0,
            'external_id': external,
            'start_thread_id': NO_THREAD if category in GPU | CALLS else event['tid'],
            'fwd_thread_id': 0,
            'scope': 0,
            'sequence_nr': -1,
            'shapes': [[] if shape and isinstance(shape[0], list) else shape
                       for shape in args.get('Input Dims', args.get('Input dims', []))],
            'nbytes': int(args.get('Bytes', 0)),
            'flops': 0,
            'is_user_annotation': category in ('user_annotation', 'gpu_user_annotation'),
            'is_python_function': category == 'python_function',
            'overload_name': '',
            'activity_type': category,
            'cuda_elapsed_us': -1,
        }
        if event['name'] == '[memory]' and int(args.get('Device Type', 0)) != 0:
            self.values['device_type'] = DeviceType.CUDA
        self.values['end_thread_id'] = self.values['start_thread_id']
        self.start = nanoseconds(event['ts'])
        self.end = self.start + nanoseconds(event.get('dur', 0))
        if category == 'gpu_user_annotation':
            # Kineto writes them longer than they are, so that the work of the GPU lies inside.
            self.start += annotation_edges_ns[0]
            self.end -= annotation_edges_ns[1]
        unit = 1 if NEW else 1000
        for name in ('start_ns', 'start_us'):
            self.values[name] = self.start // unit
        self.values['end_ns'] = self.end
        self.values['duration_us'] = (self.end - self.start) // unit

    def __getattr__(self, name):
        empty = {'stack': [], 'concrete_inputs': [], 'kwinputs': {}, 'extra_meta': {}}
        values = self.__dict__['values']
        return lambda: values.get(name, empty.get(name))


def nanoseconds(text):
    return int(decimal.Decimal(text) * 1000)


def is_event(event):
    if event.get('cat') == 'gpu_user_annotation' and not NEW:
        return False  # They came with torch 2.1.
    if event.get('ph') == 'X':
        return event.get('cat') in GPU | OPERATORS | CALLS | {'python_function'}
    return event.get('ph') in 'iI' and event.get('name') == '[memory]'


class Result:
    """As torch._C._autograd._ProfilerResult."""

    def __init__(self, trace, annotation_edges_ns):
        opener = gzip.open if str(trace).endswith('.gz') else open
        with opener(trace, 'rt', encoding='utf-8') as file:
            events = json.load(file, parse_float=decimal.Decimal)['traceEvents']
        self._events = [KinetoEvent(event, event.get('cat'), annotation_edges_ns)
                        for event in events if is_event(event)]
        self._events.sort(key=lambda event: event.start)
        self._start = next((nanoseconds(event['ts']) for event in events
                            if event.get('name', '').startswith('Iteration Start')),
                           self._events[0].start)

    def has_memory(self):
        return any(event.name() == '[memory]' for event in self._events)

    def events(self):
        return self._events

    def trace_start_ns(self):
        return self._start

    def trace_start_us(self):
        return self._start // 1000


def averages_of(trace, annotation_edges_ns=(1, 1)):
    """A function as key_averages(group_by_input_shapes)."""
    result = Result(trace, annotation_edges_ns)
    parser = type('', (), {'use_device': 'cuda', 'use_cuda': True, 'kineto_results': result})()
    parsed = profiler.profile._parse_kineto_results(parser, result)
    device = {'use_device': 'cuda'} if NEW else {'use_cuda': True}
    events = profiler_util.EventList(parsed, profile_memory=result.has_memory(), **device)
    events._build_tree()
    return lambda by_inputs: events.key_averages(group_by_input_shapes=by_inputs)
