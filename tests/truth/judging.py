"""Judges a report: does it name the injected cause first, at its size, and nothing false?

Knows no files and starts no programs; judging_test.py checks it with reports made by hand.
"""

import dataclasses
import re

# Of the reported size, relative to what the program measured.
TOLERANCE = 0.20
SURE = 'medium', 'high'

FOUND, WITHHELD, MISSED, WRONG_SIZE, FALSE_ALARM = (
    'found', 'withheld', 'missed', 'wrong size', 'false alarm')


@dataclasses.dataclass
class Judgement:
    outcome: str          # One of the above.
    first: str = '-'      # The finding, or the verdict, that came first.
    reported: float = 0   # The size of the cause per step: ns or bytes.
    measured: float = 0   # By the program.
    false_alarms: tuple = ()
    detail: str = ''

    @property
    def is_right(self):
        return self.outcome == FOUND


def measured_per_step(causes, from_ns, to_ns, step_count):
    """What the program measured in that time, per step: `causes` are [start, end, amount]. A cause
    that is only partly in that time counts by its share."""
    total = 0.0
    for start_ns, end_ns, amount in causes:
        inside_ns = min(end_ns, to_ns) - max(start_ns, from_ns)
        if inside_ns >= 0:
            total += amount * min(1.0, (inside_ns + 1) / (end_ns - start_ns + 1))
    return total / step_count


def of_steps(causes, capture, step_count):
    """What the program measured in the last `step_count` steps of the capture, per step. A report
    leaves steps out of its averages at the start only."""
    first, last = capture['steps'][-step_count], capture['steps'][-1]
    start_ns = capture['start_unix_ns']
    return measured_per_step(causes, start_ns + first['start_ns'],
                             start_ns + last['start_ns'] + last['duration_ns'], step_count)


def is_about(reported, measured):
    return abs(reported - measured) <= TOLERANCE * measured


def first_finding(report):
    """What the verdict tells the user to change first; if it is sure of nothing, the first finding
    that is sure. Findings on the quality of the capture name no cause."""
    named = re.search(r'First change \((\w+)\)', report['verdict'])
    sure = [f for f in report['findings']
            if f['confidence'] in SURE and not f['rule'].startswith('QUALITY_')]
    if named:
        for finding in sure:
            if finding['rule'] == named.group(1):
                return finding
    return sure[0] if sure else None


def judge_findings(report, expected, allowed, size, measured, around=()):
    """`expected`: the rules of which one has to be first; empty for a healthy program. `allowed`:
    rules that are true of the program as well. `size`: of a finding, the cause's size per step; None:
    it is not judged.
    `around`: rules that are true of what runs next to the program, and are left out of the report
    unless they are expected."""
    findings = [f for f in report['findings'] if f['rule'] in expected or f['rule'] not in around]
    report = dict(report, findings=findings)
    alarms = tuple(f['rule'] for f in findings if f['confidence'] in SURE
                   and f['rule'] not in expected and f['rule'] not in allowed)
    first = first_finding(report)
    judgement = Judgement(FOUND, first['rule'] if first else '-', false_alarms=alarms)
    if expected:
        if first is None or first['rule'] not in expected:
            judgement.outcome = MISSED
            # The program waited for a CPU for nearly as long as the cause took.
            if any(f['rule'] in expected and rule in f.get('confidence_reason', '')
                   for f in findings for rule in around):
                judgement.outcome, judgement.detail = WITHHELD, 'contention'
            return judgement
        if size is not None:
            judgement.reported, judgement.measured = size(first), measured
        if size is not None and not is_about(judgement.reported, measured):
            judgement.outcome = WRONG_SIZE
            return judgement
    if alarms:
        judgement.outcome = FALSE_ALARM
    return judgement


def judge_ranks(stragglers, slow, measured, more='', contended=False):
    """`slow`: the ranks that have the cause; empty for balanced ranks. `measured`: by rank, the time
    of the cause per step in ns. `more`: part of what has to be said of the first one. `contended`:
    other processes ran, so that ranks wait for a CPU. Then it is no fault to name a healthy rank, or
    to give another size, where it is said that such waits can be the cause."""
    if stragglers['verdict'] == 'withheld':
        return Judgement(WITHHELD, 'withheld', detail=stragglers['reason'])
    if stragglers['verdict'] == 'pair':
        named = [stragglers['ranks'][0]['rank']]
    else:
        named = [row['rank'] for row in stragglers['ranks'] if row['straggler']]
    judgement = Judgement(FOUND, ', '.join('rank %d' % rank for rank in named) or 'no straggler')
    by_cpu_waits = {row['rank'] for row in stragglers['ranks']
                    if contended and row.get('slow_by_cpu_waits') == 'possible'}
    healthy = set(named) - set(slow)
    is_excused = healthy and healthy <= by_cpu_waits and set(slow) <= set(named)
    # Of two ranks, one always waits for the other; only a straggler would be false.
    if is_excused and stragglers['verdict'] != 'pair':
        judgement.outcome, judgement.detail = WITHHELD, 'cpu_waits'
        return judgement
    if not slow:
        if named and stragglers['verdict'] != 'pair':
            judgement.outcome = FALSE_ALARM
            judgement.false_alarms = tuple('rank %d' % rank for rank in named)
        return judgement
    if sorted(named) != sorted(slow):
        judgement.outcome = MISSED
        return judgement
    if more not in stragglers['more_of']:
        judgement.outcome, judgement.detail = MISSED, stragglers['more_of'] or 'not what it does more of'
        return judgement
    for row in stragglers['ranks']:
        if row['rank'] in slow:
            # Of several slow ranks, the last one is late only by what it takes longer than the others.
            size = row['late_ns'] if len(slow) == 1 else row['more_own_ns']
            if size is None:  # A pipeline: nothing says at which of its peers' calls it was late.
                size = row['more_own_ns']
            judgement.reported, judgement.measured = size, measured[row['rank']]
            if not is_about(judgement.reported, judgement.measured):
                judgement.outcome = WRONG_SIZE
                if row['rank'] in by_cpu_waits:
                    judgement.outcome, judgement.detail = WITHHELD, 'cpu_waits'
                break
    return judgement
