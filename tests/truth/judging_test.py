"""The judge, with reports made by hand: it must not pass what is wrong."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cases  # noqa: E402
import judging  # noqa: E402
from judging import FALSE_ALARM, FOUND, MISSED, WITHHELD, WRONG_SIZE  # noqa: E402


def report(*findings, first=None):
    rows = [{'rule': rule, 'confidence': confidence, 'saving_ns_per_step': saving}
            for rule, confidence, saving in findings]
    return {'verdict': f'First change ({first}): do it.' if first else 'Nothing.', 'findings': rows}


def judge(of, expected=('A',), allowed=(), measured=100):
    return judging.judge_findings(of, expected, allowed, cases.saving, measured).outcome


def stragglers(verdict, *ranks):
    return {'verdict': verdict, 'reason': 'within_noise', 'more_of': 'it waits for its data', 'ranks': [
        {'rank': rank, 'straggler': slow, 'late_ns': late, 'more_own_ns': 2 * late} for rank, slow, late in ranks]}


def judge_ranks(of, slow, measured, more=''):
    return judging.judge_ranks(of, slow, measured, more).outcome


class FindingsTest(unittest.TestCase):

    def test_the_cause_has_to_be_first(self):
        findings = ('B', 'high', 200), ('A', 'high', 100)
        self.assertEqual(judge(report(*findings, first='B'), allowed=('B',)), MISSED)
        self.assertEqual(judge(report(*findings, first='A'), allowed=('B',)), FOUND)

    def test_a_cause_with_low_confidence_is_not_named(self):
        self.assertEqual(judge(report(('A', 'low', 100), first='A')), MISSED)

    def test_no_finding_is_a_miss(self):
        self.assertEqual(judge(report()), MISSED)

    def test_the_size_is_right_within_a_fifth(self):
        for reported, outcome in ((79, WRONG_SIZE), (80, FOUND), (120, FOUND), (121, WRONG_SIZE)):
            self.assertEqual(judge(report(('A', 'high', reported), first='A')), outcome, reported)

    def test_a_program_that_measured_nothing_does_not_pass(self):
        self.assertEqual(judge(report(('A', 'high', 1), first='A'), measured=0), WRONG_SIZE)

    def test_a_finding_that_is_not_true_is_an_alarm_unless_it_is_of_low_confidence(self):
        for confidence, outcome in (('high', FALSE_ALARM), ('medium', FALSE_ALARM), ('low', FOUND)):
            findings = ('A', 'high', 100), ('B', confidence, 1)
            self.assertEqual(judge(report(*findings, first='A')), outcome, confidence)

    def test_a_healthy_program_has_no_finding(self):
        self.assertEqual(judge(report(), expected=()), FOUND)
        self.assertEqual(judge(report(('A', 'medium', 1), first='A'), expected=()), FALSE_ALARM)


class AroundTest(unittest.TestCase):

    @staticmethod
    def judge(expected):
        of = report(('CPU', 'high', 300), ('A', 'high', 100), first='CPU')
        return judging.judge_findings(of, expected, (), cases.saving, 100, ('CPU',))

    def test_what_is_true_of_the_machine_is_no_alarm_and_not_first(self):
        self.assertEqual(self.judge(('A',)).outcome, FOUND)
        self.assertEqual(self.judge(('B',)).outcome, MISSED)
        self.assertEqual(self.judge(()).false_alarms, ('A',))

    def test_a_cause_that_it_can_explain_is_withheld(self):
        of = report(('CPU', 'high', 300), ('A', 'low', 100), first='CPU')
        of['findings'][1]['confidence_reason'] = 'the thread waits for a CPU (CPU)'
        judge = judging.judge_findings
        self.assertEqual(judge(of, ('A',), (), cases.saving, 100, ('CPU',)).outcome, WITHHELD)
        self.assertEqual(judge(of, ('A',), (), cases.saving, 100).outcome, MISSED)

    def test_it_counts_where_it_is_the_cause(self):
        judgement = self.judge(('CPU',))
        self.assertEqual((judgement.first, judgement.outcome), ('CPU', WRONG_SIZE))
        self.assertEqual(judgement.false_alarms, ('A',))


class SizesTest(unittest.TestCase):

    def test_causes_count_by_their_part_in_the_time(self):
        causes = [(0, 99, 100), (100, 199, 100), (150, 249, 100), (900, 999, 100)]
        self.assertEqual(judging.measured_per_step(causes, 100, 199, 1), 150)


class RanksTest(unittest.TestCase):

    def test_the_slow_rank_and_no_other_has_to_be_named(self):
        named = stragglers('straggler', (1, True, 30), (0, False, 0), (2, False, 0))
        self.assertEqual(judge_ranks(named, (1,), {1: 30}), FOUND)
        self.assertEqual(judge_ranks(named, (2,), {2: 30}), MISSED)
        self.assertEqual(judge_ranks(named, (1, 2), {1: 30, 2: 30}), MISSED)
        self.assertEqual(judge_ranks(named, (1,), {1: 60}), WRONG_SIZE)
        self.assertEqual(judge_ranks(named, (), {}), FALSE_ALARM)

    def test_what_the_slow_rank_does_more_of_has_to_be_said(self):
        named = stragglers('straggler', (1, True, 30), (0, False, 0), (2, False, 0))
        self.assertEqual(judge_ranks(named, (1,), {1: 30}, more='its data'), FOUND)
        self.assertEqual(judge_ranks(named, (1,), {1: 30}, more='extra_kernel'), MISSED)

    def test_of_two_ranks_the_first_is_the_one_that_the_other_waits_for(self):
        pair = stragglers('pair', (0, False, 30), (1, False, 0))
        self.assertEqual(judge_ranks(pair, (0,), {0: 30}), FOUND)
        self.assertEqual(judge_ranks(pair, (1,), {1: 30}), MISSED)

    def test_a_withheld_verdict_is_neither_right_nor_wrong(self):
        self.assertEqual(judge_ranks(stragglers('withheld'), (1,), {1: 30}), WITHHELD)

    def test_a_healthy_rank_that_is_said_to_wait_for_a_cpu_is_withheld_next_to_other_processes(self):
        def judged(waits, slow=(), named_ranks=(1,), contended=True):
            named = stragglers('straggler', *((rank, rank in named_ranks, 30) for rank in range(3)))
            for row in named['ranks']:
                row['slow_by_cpu_waits'] = 'possible' if row['rank'] in waits else 'no'
            measured = {rank: 30 for rank in slow}
            return judging.judge_ranks(named, slow, measured, 'its data', contended).outcome

        self.assertEqual(judged({1}), WITHHELD)
        self.assertEqual(judged({1}, contended=False), FALSE_ALARM)
        self.assertEqual(judged({2}), FALSE_ALARM)
        # A rank with the cause has to be named with it, and no rank that has it may be left out.
        self.assertEqual(judged({1}, slow=(1,)), FOUND)
        self.assertEqual(judged({1}, slow=(2,)), MISSED)
        self.assertEqual(judged({1}, slow=(1, 2)), MISSED)
        self.assertEqual(judged({1, 2}, slow=(1,), named_ranks=(1, 2)), WITHHELD)
        self.assertEqual(judged({1}, slow=(1,), named_ranks=(1, 2)), MISSED)

    def test_another_size_is_withheld_where_waits_for_a_cpu_can_be_part_of_it(self):
        for waits, expected in (('possible', WITHHELD), ('no', WRONG_SIZE)):
            named = stragglers('straggler', (1, True, 30), (0, False, 0), (2, False, 0))
            named['ranks'][0]['slow_by_cpu_waits'] = waits
            judged = judging.judge_ranks(named, (1,), {1: 15}, 'its data', contended=True)
            self.assertEqual(judged.outcome, expected)
            named['more_of'] = 'rank 1 waits longer for a CPU'
            judged = judging.judge_ranks(named, (1,), {1: 15}, 'its data', contended=True)
            self.assertEqual(judged.outcome, MISSED)

    def test_no_straggler_among_balanced_ranks_is_right(self):
        self.assertEqual(judge_ranks(stragglers('none', (0, False, 0)), (), {}), FOUND)


class TableTest(unittest.TestCase):

    def test_every_row_is_of_a_program_that_exists(self):
        programs = pathlib.Path(__file__).resolve().parent / 'programs'
        names = [case.name for case in cases.CASES]
        self.assertEqual(len(names), len(set(names)))
        for case in cases.CASES:
            self.assertTrue((programs / case.program.split()[0]).exists(), case.name)
            self.assertFalse(set(case.finds) & set(case.allowed) and not case.finds, case.name)

    def test_the_short_form_has_no_known_miss(self):
        self.assertEqual([c.name for c in cases.CASES if c.short and c.known_miss], [])


if __name__ == '__main__':
    unittest.main(verbosity=2)
