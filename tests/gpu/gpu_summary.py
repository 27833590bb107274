"""Turns facts.jsonl into summary.md: `gpu_summary.py facts.jsonl`. Exits with the number of broken
invariants, at most 100."""

import json
import sys

import gpu_assumptions


def short(value, limit=300):
    text = value if isinstance(value, str) else json.dumps(value)
    text = ' '.join(text.split()).replace('|', '\\|')
    return text if len(text) <= limit else text[:limit] + ' ...'


def labels(fact):
    return ', '.join(f'{key}={short(value, 60)}' for key, value in fact.items()
                     if key not in ('phase', 'fact', 'value', 'holds'))


COSTS = {'call_tax': 'ns', 'step_tax': None, 'host_step': None, 'default_of_torch_profiler': None}


def print_costs(facts):
    """What the experiments of gpu_costs.py have found."""
    rows = [f for f in facts if f['fact'] in COSTS and f['phase'] in ('call_tax', 'step_tax',
                                                                      'host_cost', 'detach')]
    if not rows:
        return
    print('\n## Costs\n\n| Phase | State | Value |\n| --- | --- | --- |')
    for fact in rows:
        key = COSTS[fact['fact']]
        value = fact['value'][key] if key else fact['value']
        print(f"| {fact['phase']} | {labels(fact)} | {short(value)} |")


def print_orders(facts):
    """The phase enable_order: sessions that lost kernels, of all sessions."""
    found = {(f['cupti'], f['variant'], f['process']): f for f in facts if f['fact'] == 'enable_order'}
    if not found:
        return
    versions = list(dict.fromkeys(cupti for cupti, _, _ in sorted(found)))
    print('\n## Orders of enabling: sessions that lost kernels, of all\n')
    print(f"| Variant | {' | '.join(versions)} |\n|{' --- |' * (len(versions) + 1)}")
    for number, name in sorted({(f['variant'], f['order']) for f in found.values()}):
        cells = []
        for version in versions:
            values = [f['value'] for (cupti, variant, _), f in found.items()
                      if (cupti, variant) == (version, number)]
            cell = f"{sum(len(v['lost']) for v in values)}/{sum(v['sessions'] for v in values)}"
            bad = [str(v['status']) for v in values if v['status'] != 0]
            cell += f" (status {', '.join(bad)})" if bad else ''
            cells.append(cell if values else '-')
        print(f"| {number} {name} | {' | '.join(cells)} |")


def main():
    facts = gpu_assumptions.read(sys.argv[1])
    invariants = [f for f in facts if 'holds' in f]
    broken = [f for f in invariants if not f['holds']]
    print('# Validation on a GPU\n')
    if gpu_assumptions.is_simulated(facts):
        print('**The GPU is simulated: this tests the script and says nothing of a real GPU.**\n')
    for fact in facts:
        if fact['phase'] == 'inventory' and fact['fact'] in ('machine', 'nvidia_smi', 'packages'):
            print(f"- {fact['fact']}: {short(fact['value'])}")
    print('\n| Phase | Seconds |\n| --- | --- |')
    for fact in facts:
        if fact['fact'] in ('phase_ended', 'phase_completes'):
            print(f"| {fact['phase']} | {short(fact['value'])} |")
    print(f'\n## Broken invariants: {len(broken)} of {len(invariants)}\n')
    for fact in broken:
        print(f"- **{fact['phase']}: {fact['fact']}** ({labels(fact)}): {short(fact['value'])}")
    print('\n## Assumptions\n\n| Assumption | Held | Refuted | Stand-in |\n| --- | --- | --- | --- |')
    for assumption, verdicts in gpu_assumptions.judged(facts):
        held = ', '.join(sorted(str(v) for v, is_held in verdicts.items() if is_held))
        refuted = ', '.join(sorted(str(v) for v, is_held in verdicts.items() if not is_held))
        print(f"| {assumption.id}: {assumption.text} | {held or '-'} | "
              f"{f'**{refuted}**' if refuted else '-'} | {assumption.standin} |")
    print('\n## Overhead\n\n| State | Value |\n| --- | --- |')
    for fact in facts:
        if fact['fact'] in ('launch_ns', 'step_p50_ns'):
            print(f"| {fact.get('state') or fact.get('mode')} {fact['fact']} | {short(fact['value'])} |")
    print_costs(facts)
    print_orders(facts)
    print('\n## Skipped\n')
    for fact in facts:
        if fact['fact'] == 'skipped':
            print(f"- {fact['phase']}: {fact.get('what')}: {short(fact['value'])}")
    print(f'\n{len(broken)} of {len(invariants)} invariants are broken.')
    return min(len(broken), 100)


if __name__ == '__main__':
    sys.exit(main())
