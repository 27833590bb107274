"""No program is harmed by the library in it, whatever the program and the daemon do.

    target_campaign_test.py                       each program once or twice, as ctest runs it
    target_campaign_test.py --runs 1000 [NAME...] all programs (or these) in all situations, in turn,
                                                  and a table; exit status 1 if one was harmed
    target_campaign_test.py --list                the programs, and which this machine lacks

A program is harmed if it prints or returns anything else than without us.
"""

import argparse
import collections
import random
import sys
import time
import unittest

import campaign
import harness
from campaign import PROGRAMS, SITUATIONS, Unavailable


class TargetCampaignTest(unittest.TestCase):
    """One test for each program, in one or two of the situations."""

    @classmethod
    def setUpClass(cls):
        for program in (harness.PROFD, harness.PROFCTL, campaign.HOST):
            if not program.exists():
                raise AssertionError(f'{program} is not built')
        cls.campaign = cls.enterClassContext(campaign.Campaign())
        cls.addClassCleanup(campaign.remove_built)

    def hold(self, name, situations):
        try:
            program = PROGRAMS[name]()
        except Unavailable as why:
            self.skipTest(str(why))
        for situation in situations:
            with self.subTest(situation=situation):
                difference = self.campaign.difference(name, program, situation)
                self.assertFalse(difference, difference)


def add_tests():
    others = SITUATIONS[1:]
    for i, name in enumerate(PROGRAMS):
        situations = ('alive', others[i % len(others)])
        if name not in campaign.HOST_CASES:
            situations = SITUATIONS[i % len(SITUATIONS)],

        def test(self, name=name, situations=situations):
            self.hold(name, situations)
        setattr(TargetCampaignTest, f'test_{name}', test)


def available_programs(names):
    programs = {}
    for name in names or PROGRAMS:
        try:
            programs[name] = PROGRAMS[name]()
        except Unavailable as why:
            print(f'SKIP: {name}: {why}')
    return programs


def print_table(counts, harmed):
    print(f'\n| Program | {" | ".join(SITUATIONS)} | Harmed |\n|{" --- |" * (len(SITUATIONS) + 2)}')
    for name in sorted({name for name, _ in counts}):
        cells = [str(counts[name, situation]) for situation in SITUATIONS]
        print(f'| {name} | {" | ".join(cells)} | {sum(harmed[name, s] for s in SITUATIONS)} |')


def long_form(runs, names, seed):
    """Returns how many programs were harmed."""
    programs = available_programs(names)
    counts, harmed = collections.Counter(), collections.Counter()
    rng = random.Random(seed)
    start = time.monotonic()
    with campaign.Campaign() as running:
        lines = [(name, situation) for name in programs for situation in SITUATIONS]
        for run in range(runs):
            name, situation = lines[run % len(lines)]
            counts[name, situation] += 1
            difference = running.difference(name, programs[name], situation, rng.getrandbits(64))
            if difference:
                harmed[name, situation] += 1
                print(f'HARMED: run {run}, {name}, {situation}: {difference}', flush=True)
        print_table(counts, harmed)
        print(f'\n{runs} runs, {sum(harmed.values())} harmed programs; {running.capture_count} '
              f'captures, {running.hostile_session_count} hostile sessions; seed {seed}; '
              f'{time.monotonic() - start:.0f} s')
    campaign.remove_built()
    return sum(harmed.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--runs', type=int)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--list', action='store_true')
    parser.add_argument('names', nargs='*')
    arguments, rest = parser.parse_known_args()
    if harness.is_sanitized():
        print('SKIP: a sanitizer must be the first library of a process')
        sys.exit(77)
    if arguments.list:
        print('\n'.join(available_programs(arguments.names)))
        campaign.remove_built()
    elif arguments.runs is not None:
        sys.exit(1 if long_form(arguments.runs, arguments.names, arguments.seed) else 0)
    else:
        add_tests()
        sys.stdout.reconfigure(line_buffering=True)
        unittest.main(argv=[sys.argv[0], *rest,
                            *(f'TargetCampaignTest.test_{name}' for name in arguments.names)],
                      verbosity=2)


if __name__ == '__main__':
    main()
