"""Holds a capture of profd against what torch.profiler saw of the same steps.

Both watched one process at once, so everything but the times must be equal: which operators
ran, how they nest, the sizes of their inputs, their sequence numbers, forward threads, and every
byte that was allocated or freed.
"""

import json


def flatten(nodes, depth=0):
    """(depth, node) in the order of begin."""
    for node in nodes:
        yield depth, node
        yield from flatten(node['children'], depth + 1)


def of_window(tree, steps):
    """What of torch.profiler's tree lies between the ends of its first step of an optimizer and
    of the one `steps` later: the window of a capture that began at the first."""
    ends = [i for i, node in enumerate(tree) if node['name'].startswith('Optimizer.step#')]
    if len(ends) <= steps:
        raise AssertionError(f'torch.profiler saw {len(ends)} steps, of {steps + 1}')
    return tree[ends[0] + 1:ends[steps] + 1]


def torch_events(profile, steps):
    operators, memory = [], []
    for depth, node in flatten(of_window(profile['tree'], steps)):
        if 'bytes' in node:
            memory.append((node['address'], node['bytes']))
        else:
            operators.append({'depth': depth, 'name': node['name'],
                              'sequence': node['sequence'], 'shapes': node['shapes'],
                              'scope': node['scope'], 'duration_ns': node['duration_ns']})
    return operators, memory


def our_events(trace_path, thread):
    """The same of a Chrome trace that profctl exported, of the thread `thread`."""
    with open(trace_path) as file:
        events = json.load(file)['traceEvents']
    slices = [e for e in events if e['ph'] == 'X' and e.get('tid') == thread and
              e.get('cat') in ('cpu_op', 'user_annotation') and
              not e['name'].startswith('ProfilerStep#')]
    slices.sort(key=lambda e: (e['ts'], -e['dur']))
    operators, open_ends = [], []
    for event in slices:
        # Times are decimal microseconds; whole nanoseconds compare without rounding.
        start, duration = round(event['ts'] * 1000), round(event['dur'] * 1000)
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        arguments = event.get('args', {})
        operators.append({'depth': len(open_ends), 'name': event['name'],
                          'sequence': arguments.get('Sequence number', -1),
                          'forward_thread': arguments.get('Fwd thread id', 0),
                          'shapes': arguments.get('Input Dims', []), 'duration_ns': duration,
                          'category': event['cat']})
        open_ends.append(start + duration)
    memory = [(e['args']['Addr'], e['args']['Bytes']) for e in
              sorted((e for e in events if e['ph'] == 'i' and e['name'] == '[memory]'),
                     key=lambda e: e['ts'])]
    flows = {phase: {e['id'] for e in events if e.get('cat') == 'fwdbwd' and e['ph'] == phase}
             for phase in 'sf'}
    return operators, memory, flows


def without_lists(shapes):
    """torch before 2.1 gives [] for a list of tensors; newer ones give the list."""
    return [[] if shape and isinstance(shape[0], list) else shape for shape in shapes]


def first_difference(ours, theirs):
    """For people: where two lists part, with what is around; None: nowhere."""
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            return f'at {i}: ours {ours[max(0, i - 2):i + 3]}, theirs {theirs[max(0, i - 2):i + 3]}'
    if len(ours) != len(theirs):
        i = min(len(ours), len(theirs))
        return f'ours has {len(ours)}, theirs {len(theirs)}; behind {i}: ' \
               f'{(ours[i:i + 3], theirs[i:i + 3])}'
    return None


def self_times(operators):
    """Self CPU time by name, ns."""
    totals, path = {}, []
    for event in operators:
        del path[event['depth']:]
        if path:
            totals[path[-1]] -= event['duration_ns']
        totals[event['name']] = totals.get(event['name'], 0) + event['duration_ns']
        path.append(event['name'])
    return totals


# torch.profiler's names; what it says of autograd's own blocks we say of none.
CATEGORIES = {'PARAMETER': 'parameter', 'GRADIENT': 'gradient', 'ACTIVATION': 'activation',
              'TEMPORARY': 'temporary', 'INPUT': 'input', 'OPTIMIZER_STATE': 'optimizer_state',
              'AUTOGRAD_DETAIL': 'unknown', None: 'unknown'}


def torch_byte_seconds(timeline, begin_ns, end_ns):
    """Byte-seconds by category that torch.profiler's timeline gives for a span of Unix time.

    'anonymous' is memory in which it saw no tensor, to which it gives no category."""
    totals, alive = {}, {}

    def add_anonymous(since_ns, size):
        totals['anonymous'] = totals.get('anonymous', 0) + size * max(
            0, end_ns - max(since_ns, begin_ns)) / 1e9

    def settle(block, until_ns):
        since_ns, size, category = alive.pop(block)
        span_ns = min(until_ns, end_ns) - max(since_ns, begin_ns)
        if span_ns > 0:
            totals[category] = totals.get(category, 0) + size * span_ns / 1e9
        return size
    for time_ns, action, block, size, category in timeline:
        if block is None:
            if action in ('CREATE', 'PREEXISTING'):
                add_anonymous(time_ns, size)
            elif action == 'DESTROY':
                add_anonymous(time_ns, -size)
            continue
        if action in ('INCREMENT_VERSION', 'DESTROY') and block in alive:
            settle(block, time_ns)
        if action != 'DESTROY':
            alive[block] = (time_ns, size, CATEGORIES[category])
    for block in list(alive):
        settle(block, end_ns)
    return totals


def agreement(ours, theirs):
    """The share of byte-seconds that both put into the same category, of those that
    torch.profiler gives one."""
    anonymous = theirs.get('anonymous', 0)
    everything = max(sum(ours.values()), sum(theirs.values())) - anonymous
    both = sum(min(ours.get(name, 0), theirs.get(name, 0)) for name in {*ours, *theirs})
    return min(1.0, both / everything)
