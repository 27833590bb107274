"""`profctl open` with a page in a real browser: one at https://ui.perfetto.dev gets the trace, byte by
byte, and one of another origin does not.

The page is ours, at that address for this browser alone: it fetches what its link names, as
Perfetto's does. Chromium, its driver and selenium are made use of where they are installed.
"""

import contextlib
import functools
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

from html_report_test import WAIT_S, missing, start_browser

PROFCTL = pathlib.Path(os.environ['PROFD_BUILD_DIR']) / 'bin' / 'profctl'
PERFETTO, ELSEWHERE = 'ui.perfetto.dev', 'elsewhere.example'
PAGE = b'''<!doctype html><title>waiting</title><script>
const url = new URLSearchParams(location.hash.replace("#!/?", "")).get("url");
fetch(url)
  .then(async (answer) => {
    const digest = await crypto.subtle.digest("SHA-256", await answer.arrayBuffer());
    return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  })
  .then((hash) => { document.title = `got ${hash}`; })
  .catch((error) => { document.title = `refused ${error}`; });
</script>'''


class Page(http.server.BaseHTTPRequestHandler):

    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Type', 'text/html')
        self.send_header('Content-Length', str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


def serve_page(folder):
    """The port of a server on this machine that is the page of every host, over TLS."""
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-subj',
                    f'/CN={PERFETTO}', '-keyout', folder / 'key.pem', '-out', folder / 'cert.pem'],
                   check=True, capture_output=True, timeout=WAIT_S)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / 'cert.pem', folder / 'key.pem')
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Page)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class OpenPageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd-open-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        server = serve_page(cls.folder)
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        to_us = ', '.join(f'MAP {host}:443 127.0.0.1:{server.server_port}'
                          for host in (PERFETTO, ELSEWHERE))
        cls.browser = start_browser(cls.folder / 'profile', f'--host-resolver-rules={to_us}',
                                    '--ignore-certificate-errors')
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.set_page_load_timeout(WAIT_S)
        cls.trace = cls.folder / 'trace.json'
        cls.trace.write_text(json.dumps({'traceEvents': [], 'filler': os.urandom(500_000).hex()}))

    def open(self):
        """`profctl open`, and the link that it prints."""
        process = subprocess.Popen(
            [PROFCTL, 'open', self.trace, '--no-browser', '--json', '--timeout', f'{WAIT_S}s'],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(functools.partial(self.end, process))
        line = process.stdout.readline()
        self.assertTrue(line, 'it printed no link')
        return process, json.loads(line)['url']

    @staticmethod
    def end(process):
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.communicate()

    def title_at(self, link):
        from selenium.webdriver.support.ui import WebDriverWait
        self.browser.get('about:blank')
        self.browser.get(link)
        WebDriverWait(self.browser, WAIT_S).until(lambda browser: browser.title != 'waiting')
        return self.browser.title

    def test_the_perfetto_page_gets_the_trace_once(self):
        process, link = self.open()
        self.assertTrue(link.startswith(f'https://{PERFETTO}/'), link)
        expected = hashlib.sha256(self.trace.read_bytes()).hexdigest()
        self.assertEqual(self.title_at(link), f'got {expected}')
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn('refused', self.title_at(link))

    def test_a_page_of_another_origin_reads_nothing(self):
        _, link = self.open()
        self.assertIn('refused', self.title_at(link.replace(PERFETTO, ELSEWHERE)))


if __name__ == '__main__':
    if lacking := missing():
        print(f'SKIP: {lacking} is not installed')
        sys.exit(77)
    unittest.main(verbosity=2)
