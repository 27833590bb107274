"""Steps and ranges of asyncio tasks that take turns on one thread."""

import collections
import csv
import io

import harness
from harness import DONE, LIBRARY, SOURCE_DIR, until

STEPS = 10
PRELUDE = f"""
import os, sys
sys.path.insert(0, {str(SOURCE_DIR / 'client_lib/python')!r})
os.environ['PROFD_CLIENT_LIB'] = {str(LIBRARY)!r}
import asyncio, time
import profd
profd.init()
"""
# Two loops, each with steps of its own: those of "a" are the program's, as it marks one first.
TWO_TASKS = """
async def train(name, wait_ms):
    while True:
        profd.step()
        with profd.annotate(name + ".step"):
            with profd.annotate(name + ".load"):
                await asyncio.sleep(wait_ms / 1000)
            with profd.annotate(name + ".compute"):
                time.sleep(0.001)
            await asyncio.sleep(0)
async def main():
    await asyncio.gather(train("a", 4), train("b", 3))
asyncio.run(main())
"""
# Each step is a task of its own, next to one that marks none.
A_TASK_PER_STEP = """
async def other():
    while True:
        with profd.annotate("other"):
            await asyncio.sleep(0.001)
async def one():
    profd.step()
    with profd.annotate("step"):
        await asyncio.sleep(0.002)
async def main():
    kept = asyncio.create_task(other())
    while True:
        await asyncio.create_task(one())
asyncio.run(main())
"""


class AsyncioTest(harness.EndToEndTest):

    def capture(self, program):
        process = self.python(PRELUDE + program)
        until(lambda: any(target['pid'] == process.pid and target['current_step'] > 3
                          for target in self.daemon.ctl('ps', '--json').json['targets']),
              'steps of the program')
        result = self.trace('--pid', process.pid, '--steps', STEPS, '--warmup', 0).result()
        self.assertEqual(result.status, DONE, result.err)
        self.assertEqual(len(result.json['steps']), STEPS)
        return result.json

    def events(self, capture):
        """Steps and ranges, as (start, end, row of the export)."""
        path = self.folder / 'events.csv'
        exported = self.daemon.ctl('export', capture['id'], '-o', path)
        self.assertEqual(exported.status, DONE, exported.err)
        rows = [(int(row['start_ns']), int(row['start_ns']) + int(row['duration_ns']), row)
                for row in csv.DictReader(io.StringIO(path.read_text()))
                if row['kind'] in ('step', 'range')]
        return ([row for row in rows if row[2]['kind'] == 'step'],
                [row for row in rows if row[2]['kind'] == 'range'])

    def check_depths(self, ranges):
        """The depth of each is how many of its row are around it."""
        rows = collections.defaultdict(list)
        for start, end, row in ranges:
            rows[row['thread']].append((start, end, int(row['depth'])))
        self.assertGreater(len(rows), 1, 'some overlap others')
        for of_row in rows.values():
            for at, (start, end, depth) in enumerate(of_row):
                around = [other for other in of_row[:at] + of_row[at + 1:]
                          if other[0] <= start and end <= other[1]]
                self.assertEqual(depth, len(around), (start, end, around))

    def check_self_times(self, capture, ranges):
        """They add up to the time that ranges of the thread cover."""
        covered, until_ns = 0, min(start for start, _, _ in ranges)
        for start, end, _ in sorted(ranges, key=lambda each: each[0]):
            covered += max(0, end - max(start, until_ns))
            until_ns = max(until_ns, end)
        table = self.daemon.ctl('ops', capture['id'], '--json').json
        self.assertEqual(table['self_cpu_total_ns'], covered)
        self.assertEqual(sum(row['self_cpu_ns'] for row in table['rows']), covered)
        lanes = sum(int(row['thread']) >= 1 << 30 for _, _, row in ranges)
        self.assertEqual(sum(row['overlapping_calls'] for row in table['rows']), lanes)
        shown = self.daemon.ctl('ops', capture['id'])
        self.assertIn('of the same thread without nesting', shown.out + shown.err)

    def test_steps_are_those_of_the_task_that_marked_one_first(self):
        capture = self.capture(TWO_TASKS)
        steps, ranges = self.events(capture)
        begins = {name: [start for start, _, row in ranges if row['name'] == name]
                  for name in ('a.step', 'b.step')}
        for start, end, _ in steps:
            self.assertEqual(sum(start <= begin < end for begin in begins['a.step']), 1)
        marks = capture['foreign_step_mark_count']
        self.assertGreaterEqual(marks, 2)
        # From when it is armed until its recording ends.
        inside = sum(steps[0][0] <= begin < steps[-1][1] for begin in begins['b.step'])
        self.assertGreaterEqual(marks, inside)
        self.assertIn('came from other threads or asyncio tasks',
                      self.daemon.ctl('show', capture['id']).out)

    def test_ranges_of_tasks_keep_their_times_and_count_once(self):
        capture = self.capture(TWO_TASKS)
        steps, ranges = self.events(capture)
        # The window cuts those that are open at its edges.
        loads = [end - start for start, end, row in ranges if row['name'].endswith('.load') and
                 start > steps[0][0] and end < steps[-1][1]]
        self.assertGreater(len(loads), STEPS)
        self.assertGreaterEqual(min(loads), 2_900_000)
        self.check_depths(ranges)
        self.check_self_times(capture, ranges)

    def test_each_step_may_be_a_task_of_its_own(self):
        capture = self.capture(A_TASK_PER_STEP)
        steps, ranges = self.events(capture)
        for start, end, _ in steps:
            self.assertEqual(sum(start <= begin < end for begin, _, row in ranges
                                 if row['name'] == 'step'), 1)
        self.assertEqual(capture['foreign_step_mark_count'], 0)
        self.check_depths(ranges)
        self.check_self_times(capture, ranges)


if __name__ == '__main__':
    harness.main()
