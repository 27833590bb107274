"""What can be seen of a node over time: metrics without a capture, and the history of many."""

import csv
import io
import socket
import urllib.error
import urllib.request

import harness
from harness import DONE, FAILED, USAGE, until


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def get(port, path):
    """(status, text)"""
    try:
        with urllib.request.urlopen(f'http://127.0.0.1:{port}{path}', timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(text, name):
    """{labels as text: value}"""
    rows = [line.rsplit(' ', 1) for line in text.splitlines()
            if line.startswith((name + '{', name + ' '))]
    return {series[len(name):]: float(value) for series, value in rows}


class MetricsTest(harness.EndToEndTest):

    def setUp(self):
        self.port = free_port()
        self.flags = ('--metrics-listen', f'127.0.0.1:{self.port}', '--node-name', 'node1')
        super().setUp()

    def metrics(self):
        status, text = get(self.port, '/metrics')
        self.assertEqual(status, 200, text)
        return text

    def test_step_time_is_there_without_a_capture(self):
        target = self.target(env={'PROFD_JOB': '88123', 'RANK': '3'})
        target.do('train 1')
        def with_step_time():
            text = self.metrics()
            return text if samples(text, 'profd_target_step_seconds') else None
        text = until(with_step_time, 'a step time')
        [(labels, seconds)] = samples(text, 'profd_target_step_seconds').items()
        self.assertIn('Hostname="node1"', labels)
        self.assertIn('hpc_job="88123"', labels)
        self.assertIn('rank="3"', labels)
        self.assertGreater(seconds, 0)
        self.assertEqual(samples(text, 'profd_captures_total'), {})
        target.do('rest')

    def test_a_capture_is_counted_when_it_ends(self):
        target = self.target()
        target.do('train 1')
        self.trace_five_steps(target)
        target.do('rest')
        text = self.metrics()
        self.assertEqual(list(samples(text, 'profd_captures_total').values()), [1])
        self.assertIn('profd_captures_total{origin="request",reason="steps",state="COMPLETE"} 1',
                      text)
        self.assertGreater(samples(text, 'profd_capture_file_bytes_total')[''], 0)
        self.assertEqual(samples(text, 'profd_store_captures')[''], 1)

    def test_calls_are_counted_by_method_and_by_why_they_were_refused(self):
        self.assertEqual(self.daemon.ctl('ps').status, DONE)
        self.assertEqual(self.daemon.ctl('show', '01J00000000000000000000000').status, FAILED)
        text = self.metrics()
        calls = samples(text, 'profd_rpc_calls_total')
        self.assertEqual(calls['{code="OK",method="ListTargets",reason=""}'], 1)
        [refused] = [labels for labels in calls if 'method="GetCapture"' in labels]
        self.assertIn('code="NOT_FOUND"', refused)
        durations = samples(text, 'profd_rpc_duration_seconds_count')
        self.assertEqual(durations['{method="ListTargets"}'], 1)

    def test_captures_that_are_switched_off_are_seen(self):
        self.assertEqual(samples(self.metrics(), 'profd_captures_allowed')[''], 1)
        self.assertEqual(self.daemon.ctl('node', '--forbid-captures', 'a benchmark').status, DONE)
        self.assertEqual(samples(self.metrics(), 'profd_captures_allowed')[''], 0)

    def test_health_and_readiness(self):
        self.assertEqual(get(self.port, '/healthz'), (200, 'ok\n'))
        self.assertEqual(get(self.port, '/readyz'), (200, 'ready\n'))
        self.assertEqual(get(self.port, '/../etc/passwd')[0], 404)

    def test_an_address_in_use_is_an_error_of_the_start(self):
        other = harness.Daemon(self.folder / 'other', '--metrics-listen', f'127.0.0.1:{self.port}')
        other.folder.mkdir()
        with self.assertRaisesRegex(AssertionError, 'in use; choose another metrics-listen'):
            other.start()


class HistoryTest(harness.EndToEndTest):

    def history(self, *arguments, status=DONE):
        result = self.daemon.ctl('history', *arguments)
        self.assertEqual(result.status, status, result.err)
        return result

    def test_step_times_and_operators_are_followed_over_captures(self):
        target = self.target(env={'PROFD_JOB': 'run7', 'RANK': '0'})
        target.do('train 1')
        ids = [self.trace_five_steps(target)['id'] for _ in range(3)]
        target.do('rest')
        self.assertEqual(self.daemon.ctl('delete', ids[0]).status, DONE)

        points = self.history('--step-time', '--json').json['points']
        self.assertEqual([point['capture'] for point in points], ids)
        shown = self.show(ids[2])
        durations = sorted(step['duration_ns'] for step in shown['steps'])
        self.assertEqual(points[2]['steps'], 5)
        self.assertEqual(points[2]['median_ns'], durations[2])
        self.assertEqual((points[2]['min_ns'], points[2]['max_ns']), (durations[0], durations[4]))
        self.assertEqual((points[2]['job'], points[2]['rank']), ('run7', 0))

        largest = max(self.ops(ids[2]).values(), key=lambda row: row['self_cpu_ns'])
        result = self.history('--op', largest['name'], '--json').json
        self.assertEqual(result['operator'], largest['name'])
        point = result['points'][-1]
        for field in ('calls', 'self_cpu_ns', 'cpu_total_ns'):
            self.assertEqual(point[field], largest[field], field)

        rows = list(csv.DictReader(io.StringIO(self.history('--step-time', '--csv').out)))
        self.assertEqual([row['capture'] for row in rows], ids)
        self.assertEqual(int(rows[2]['median_ns']), durations[2])
        table = self.history('--step-time').out
        self.assertIn('run7', table)
        self.assertRegex(table, '[▁▂▃▄▅▆▇█]')

    def test_what_is_not_there_is_said(self):
        self.assertIn('No window', self.history('--step-time', '--since', '1h').out)
        self.assertIn('--op NAME, or --stragglers', self.history(status=USAGE).err)
        self.assertIn('--until', self.history('--step-time', '--since', '1h', '--until', '2h',
                                              status=USAGE).err)


if __name__ == '__main__':
    harness.main()
