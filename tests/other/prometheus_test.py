"""A real Prometheus scrapes a real profd, and its promtool finds nothing to say against the text."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'e2e'))
import harness  # noqa: E402
from observe_test import free_port, get  # noqa: E402

CONFIG = '''
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
  - job_name: profd
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
'''


class PrometheusTest(harness.EndToEndTest):

    def setUp(self):
        self.port = free_port()
        self.flags = ('--metrics-listen', f'127.0.0.1:{self.port}', '--node-name', 'node1')
        super().setUp()
        # A target that marks steps, and a capture of it that ended.
        target = self.target(env={'PROFD_JOB': '88123', 'RANK': '0'})
        target.do('train 1')
        self.trace_five_steps(target)

    def query(self, prometheus_port, expression):
        url = (f'http://127.0.0.1:{prometheus_port}/api/v1/query?' +
               urllib.parse.urlencode({'query': expression}))
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)['data']['result']

    def test_promtool_is_content(self):
        status, text = get(self.port, '/metrics')
        self.assertEqual(status, 200)
        checked = subprocess.run(['promtool', 'check', 'metrics'], input=text.encode(),
                                 capture_output=True, check=False)
        complaints = (checked.stdout + checked.stderr).decode()
        self.assertEqual((checked.returncode, complaints), (0, ''))

    def test_the_alert_rules_fire_when_they_should_and_name_metrics_that_exist(self):
        rules = harness.SOURCE_DIR / 'deploy/prometheus-rules.yaml'
        cases = pathlib.Path(__file__).with_name('prometheus_rules.yml')
        for file in rules, cases:
            shutil.copy(file, self.folder)
        for words in (['check', 'rules', rules.name], ['test', 'rules', cases.name]):
            checked = subprocess.run(['promtool', *words], cwd=self.folder, capture_output=True,
                                     text=True, check=False)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        documented = (harness.SOURCE_DIR / 'daemon/metrics/README.md').read_text()
        names = set(re.findall(r'\bprofd_[a-z_]+', ' '.join(
            line for line in rules.read_text().splitlines()
            if not re.match(r'\s*(#|summary:|description:)', line))))
        self.assertGreater(len(names), 8)
        for name in names:
            self.assertIn(f'`{name}`', documented)
        tried = set(re.findall(r'alertname: (\w+)', cases.read_text()))
        self.assertEqual(set(re.findall(r'alert: (\w+)', rules.read_text())), tried)

    def test_prometheus_scrapes_and_answers_queries(self):
        port = free_port()
        config = self.folder / 'prometheus.yml'
        config.write_text(CONFIG.format(port=self.port))
        log = open(self.folder / 'prometheus.log', 'wb')
        self.addCleanup(log.close)
        prometheus = subprocess.Popen(
            ['prometheus', f'--config.file={config}', f'--storage.tsdb.path={self.folder}/tsdb',
             f'--web.listen-address=127.0.0.1:{port}'],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)

        def stop():
            prometheus.terminate()
            prometheus.wait(harness.PATIENCE_S)
        self.addCleanup(stop)

        def answer(expression):
            try:
                return self.query(port, expression)
            except OSError:
                return None
        up = harness.until(lambda: [s for s in answer('up{job="profd"}') or ()
                                    if s['value'][1] == '1'], 'up')
        self.assertEqual(len(up), 1)
        [step] = harness.until(lambda: answer('profd_target_step_seconds{hpc_job="88123"}'),
                               'a step time')
        self.assertEqual(step['metric']['Hostname'], 'node1')
        self.assertGreater(float(step['value'][1]), 0)
        [captures] = answer('sum by (state) (profd_captures_total)')
        self.assertEqual((captures['metric']['state'], captures['value'][1]), ('COMPLETE', '1'))


if __name__ == '__main__':
    for program in ('prometheus', 'promtool'):
        if shutil.which(program) is None:
            print(f'SKIP: {program} is not installed')
            sys.exit(77)
    unittest.main(verbosity=2)
