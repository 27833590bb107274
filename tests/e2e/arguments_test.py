"""Arguments of ranges of a real program, from annotate() and record_function() to the exports."""

import csv
import importlib.util
import io
import json
import unittest

import harness
from harness import DONE, LIBRARY, SOURCE_DIR, until

PRELUDE = f"""
import os, sys
sys.path.insert(0, {str(SOURCE_DIR / 'client_lib/python')!r})
os.environ['PROFD_CLIENT_LIB'] = {str(LIBRARY)!r}
"""
ANNOTATED = """
import asyncio, time
import profd
profd.init()
async def request(number):
    with profd.annotate("request", id="r-%d" % number, tokens=number):
        await asyncio.sleep(0.0005 * number)
async def requests():
    await asyncio.gather(*[request(i) for i in range(1, 4)])
while True:
    profd.step()
    with profd.annotate("forward", batch=7, bytes=5, stream=1, correlation=2, text="x" * 300, **{"External id": "mine"}):
        time.sleep(0.002)
    asyncio.run(requests())
"""
TORCH = """
import torch
import profd
profd.init()
while True:
    profd.step()
    with torch.autograd.profiler.record_function("forward", "batch 7"):
        torch.ones(8) + 1
"""


class ArgumentsTest(harness.EndToEndTest):

    def capture(self, program, *flags):
        process = self.python(PRELUDE + program)
        until(lambda: any(target['pid'] == process.pid and target['current_step'] > 3
                          for target in self.daemon.ctl('ps', '--json').json['targets']),
              'steps of the program')
        result = self.trace('--pid', process.pid, '--steps', 5, *flags).result()
        self.assertEqual(result.status, DONE, result.err)
        return result.json

    def export(self, capture, name):
        path = self.folder / name
        result = self.daemon.ctl('export', capture['id'], '-o', path)
        self.assertEqual(result.status, DONE, result.err)
        return path

    def slices(self, path, name):
        events = json.loads(path.read_text())['traceEvents']
        return [event for event in events if event.get('name') == name and event['ph'] == 'X']

    def test_arguments_of_annotate_are_in_every_export(self):
        capture = self.capture(ANNOTATED)
        chrome = self.export(capture, 'trace.json')
        forward = self.slices(chrome, 'forward')
        self.assertEqual(len(forward), 5)
        for event in forward:
            self.assertEqual(event['args'].get('batch'), 7)
            self.assertEqual(event['args']['text'], 'x' * 256 + '...')
            self.assertEqual(event['args']['External id (argument)'], 'mine')
            # With a stream and a correlation it would count as GPU work.
            self.assertEqual({key: event['args'].get(key) for key in ('stream', 'correlation', 'bytes')},
                             {'stream': None, 'correlation': None, 'bytes': None})
            self.assertEqual([event['args'][key + ' (argument)']
                              for key in ('stream', 'correlation', 'bytes')], [1, 2, 5])
        # They overlap, and each has its own.
        requests = self.slices(chrome, 'request')
        self.assertEqual({(event['args']['id'], event['args']['tokens']) for event in requests},
                         {('r-1', 1), ('r-2', 2), ('r-3', 3)})
        self.assertEqual(len(requests), 15)
        self.assertEqual(self.daemon.ctl('check', chrome).status, DONE)
        perfetto = self.export(capture, 'trace.pftrace')
        self.assertEqual(self.daemon.ctl('check', perfetto).status, DONE)
        self.assertIn(b'r-3', perfetto.read_bytes())
        table = self.export(capture, 'events.csv').read_text()
        rows = [row for row in csv.DictReader(io.StringIO(table)) if row['name'] == 'request']
        self.assertEqual({json.loads(row['arguments'])['tokens'] for row in rows}, {1, 2, 3})
        # Five ranges whose text was cut.
        shown = self.daemon.ctl('show', capture['id'], '--json').json
        self.assertEqual(shown['torch']['cut_input_count'], 5)
        self.assertIn('5 without all of their inputs or arguments',
                      self.daemon.ctl('show', capture['id']).out)

        imported = self.daemon.ctl('import', chrome, '--json')
        self.assertEqual(imported.status, DONE, imported.err)
        again = self.export(imported.json['captures'][0], 'again.json')
        for name in ('forward', 'request'):
            self.assertEqual([event['args'] for event in self.slices(again, name)],
                             [event['args'] for event in self.slices(chrome, name)])

    @unittest.skipUnless(importlib.util.find_spec('torch'), 'no torch')
    def test_the_text_of_record_function_is_in_exports(self):
        capture = self.capture(TORCH)
        forward = self.slices(self.export(capture, 'trace.json'), 'forward')
        self.assertEqual([event['args'].get('args') for event in forward], ['batch 7'] * 5)


if __name__ == '__main__':
    harness.main()
