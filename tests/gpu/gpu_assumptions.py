"""What profd and its stand-in assume of CUPTI, and how facts.jsonl confirms or refutes each.

Each assumption is judged per version of CUPTI: True (held), False (refuted), or absent (no fact).
`standin` names what tests/cupti_standin does, which a refutation calls into question.
"""

import collections
import json


def read(path):
    """The facts of a run. A last line that was cut off is left out."""
    facts = []
    with open(path, encoding='utf-8') as file:
        for line in file:
            try:
                facts.append(json.loads(line))
            except ValueError:
                continue
    return facts


def of(facts, name, group=None):
    """(version, value) of each cupti_facts fact called `name`."""
    return [(f.get('cupti'), f['value']) for f in facts
            if f.get('phase') == 'cupti_facts' and f.get('fact') == name
            and (group is None or f.get('group') == group)]


def each(pairs, judge):
    """Per version: whether `judge` held for every value that it says something about."""
    verdicts = {}
    for version, value in pairs:
        held = judge(value)
        if held is not None:
            verdicts[version] = verdicts.get(version, True) and held
    return verdicts


def number(version):
    """'12.8' as (12, 8); a library of the machine's own counts as 13.0."""
    try:
        return tuple(map(int, version.split('.')))
    except (AttributeError, ValueError):
        return (13, 0)


def results(facts, function, when, judge):
    """Judges (version, result) of `function` at `when`, where the library has it."""
    verdicts = {}
    for version, value in of(facts, function):
        if isinstance(value, dict) and value.get('when') == when and value.get('result', -1) >= 0:
            verdicts[version] = judge(number(version), value['result'])
    return verdicts


KERNEL_BYTES = {(11, 8): 200, (12, 1): 208, (12, 4): 208, (12, 6): 208, (12, 8): 208, (12, 9): 208,
                (13, 0): 216, (13, 1): 224, (13, 3): 232, (13, 4): 248, (13, 5): 248}


def kernel_size(facts):
    verdicts = {}
    for name in ('sizes_by_probe', 'sizes_by_GetStructSize'):
        for version, value in of(facts, name, 'calls'):
            wanted = KERNEL_BYTES.get(number(version))
            if wanted and value.get('10'):
                verdicts[version] = value['10'] == wanted
    return verdicts


def graph_rows(facts, judge, **labels):
    rows = [(v, r) for v, r in of(facts, 'graph_rows')
            if all(r[key] == value for key, value in labels.items())]
    return each(rows, judge)


def later_enables(facts):
    """Whether kinds but the first are on at once, while a thread launches."""
    times = collections.defaultdict(list)
    for version, value in of(facts, 'Enable', 'session'):
        times[version].append(value['us'])
    return {version: max(us[1:8]) < 1000 for version, us in times.items() if len(us) >= 8}


def idle_kineto(facts):
    """A resumed file may have several answers: the last one counts."""
    found = [fact['value']['state'] == 'COMPLETE' for fact in facts
             if fact.get('phase') == 'order' and fact.get('fact') == 'capture'
             and fact.get('order') == 'before']
    return {'torch': found[-1]} if found else {}


Assumption = collections.namedtuple('Assumption', 'id text standin judge')

ASSUMPTIONS = [
    Assumption('sizes', 'the size probe and cuptiActivityGetStructSize agree', 'record sizes',
               lambda f: each(of(f, 'sizes_differ'), lambda n: n == 0)),
    Assumption('kernel_size', 'kernel records have the size that is known for the version',
               'versions.cc', kernel_size),
    Assumption('no_driver', 'before cuInit(), cuptiSubscribe succeeds or fails with 15 or 999', 'no_driver',
               lambda f: results(f, 'Subscribe', 'before_init', lambda v, r: r in (0, 15, 999))),
    Assumption('defaults', 'no device buffer limit below 32, buffers not taken as zeroed',
               'settings.h: pool limit 250',
               lambda f: each(of(f, 'attribute'), lambda a: None if a['when'] != 'subscribed' else
                              a['value'] >= 32 if a['id'] == 2 else
                              a['value'] == 0 if a['id'] == 5 else None)),
    Assumption('in_flight', 'work that runs when its kind goes off is still recorded, with its times',
               'disabled kinds always deliver',
               lambda f: each(of(f, 'came_after_Disable'),
                              lambda r: r['with_right_times'] == r['launched'])),
    Assumption('forced', 'work that a forced flush has returned unfinished does not come again',
               'forced flush',
               lambda f: each(of(f, 'came_after_forced_flush'), lambda r: r['rows'] == 0)),
    Assumption('outstanding', 'after a forced flush CUPTI keeps no buffer', 'forced flush returns all',
               lambda f: each(of(f, 'outstanding_2s_later'), lambda n: n == 0)),
    Assumption('kernel_first', 'the record of a kernel is delivered before that of its call',
               'reserve',
               lambda f: {v: r['call_comes_first'] == 0
                          for v, r in of(f, 'kernels', 'session') if r['with_call'] > 0}),
    Assumption('queries', 'queries of unfinished events make synchronization records by default from '
               '12.9 on, and not before', 'sgpu_event_query()',
               lambda f: {v: (r['rows'] >= 200) == (number(v) >= (12, 9))
                          for v, r in of(f, 'sync_rows_by_default')}),
    Assumption('queries_off', 'cuptiActivityEnableAllSyncRecords(0) turns those of unfinished events '
               'off, and no others', 'all_sync_records',
               lambda f: each(of(f, 'sync_rows_when_off'), lambda r: 100 <= r['rows'] < 150)),
    Assumption('devices', 'only visible devices are described', 'no hidden devices',
               lambda f: each(of(f, 'device_rows'), lambda r: r['rows'] == r['is_visible'])),
    Assumption('unsubscribed', 'the activity interface works without a subscription', 'subscriber.cc',
               lambda f: each(of(f, 'kernels_without_a_subscriber'), lambda n: n == 10)),
    Assumption('beside_rival', 'and while another tool holds the subscription', 'sgpu_rival_subscribe()',
               lambda f: each(of(f, 'kernels_beside_a_rival'), lambda n: n == 10)),
    Assumption('second_copy', 'a second copy answers 39, of every version', 'one copy per process',
               lambda f: results(f, 'Subscribe', 'second_copy', lambda v, r: r == 39)),
    Assumption('v1_under_v2', 'under a subscriber of the second interface, cuptiGetTimestamp works',
               'v2_in_use',
               lambda f: results(f, 'GetTimestamp', 'v1_under_v2', lambda v, r: r != 14)),
    Assumption('graph_trace', 'GRAPH_TRACE makes no records of graphs made before the attach, if it '
               'does not end the program', 'GRAPH_TRACE of older graphs',
               lambda f: graph_rows(f, lambda r: r['graph_traces'] == 0, before=1, trace=1)),
    Assumption('old_nodes', 'nodes of graphs made before the attach have rows and names', 'opaque_graphs',
               lambda f: graph_rows(f, lambda r: r['named'] == r['nodes'], before=1, trace=0)),
    Assumption('graph_calls', 'nodes have the correlation ID of their launch, in a second session, too',
               'correlation IDs are right in every session',
               lambda f: graph_rows(f, lambda r: r['with_call'] == r['kernels'], trace=0)),
    Assumption('capture_mode', 'enabling kinds does not break a stream capture of global mode',
               'no capture mode',
               lambda f: each(of(f, 'capture_in_global_mode'), lambda n: n == 0)),
    Assumption('first_enable', 'only the first cuptiActivityEnable takes long (1 ms)', 'enable_ms',
               later_enables),
    Assumption('idle_kineto', 'after a torch.profiler session has ended, a capture works', 'rival',
               idle_kineto),
]


def judged(facts):
    """(assumption, {version: held}) for each."""
    return [(assumption, assumption.judge(facts)) for assumption in ASSUMPTIONS]


def is_simulated(facts):
    return any(f.get('fact') == 'simulated' and f['value'] is True for f in facts)
