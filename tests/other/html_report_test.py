"""The HTML report in a real browser: it renders, sorts, filters, zooms, leads from findings to their
evidence, follows light and dark, loads nothing from a network, and its console stays empty.

The pages are of made-up captures (tests/export/html/write_html_report.cc). With PROFD_SCREENSHOTS=FOLDER
they are also written there as pictures, to be looked at. Chromium, its driver and selenium are made
use of where they are installed (Debian: chromium, chromium-driver, python3-selenium).
"""

import base64
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ['PROFD_BUILD_DIR'])
PAGES = ('full', 'cpu', 'long', 'empty')
STEPS = 20
FIRST_STEP = 100
WAIT_S = 60


def missing():
    for program in ('chromium', 'chromedriver'):
        if shutil.which(program) is None:
            return program
    return None if importlib.util.find_spec('selenium') else 'selenium'


def start_browser(profile, *more):
    # Imported here: where it is not installed, the test says so and skips.
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which('chromium')
    for argument in ('--headless=new', '--disable-gpu', '--disable-dev-shm-usage',
                     '--window-size=1400,1000', f'--user-data-dir={profile}', *more):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument('--no-sandbox')  # It cannot have one as root.
    options.set_capability('goog:loggingPrefs', {'browser': 'ALL', 'performance': 'ALL'})
    return webdriver.Chrome(service=Service(shutil.which('chromedriver')), options=options)


class HtmlReportTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='profd-html-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        subprocess.run([BUILD / 'tests' / 'bin' / 'write_html_report', cls.folder], check=True,
                       timeout=WAIT_S)
        cls.browser = start_browser(cls.folder / 'profile')
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.set_script_timeout(WAIT_S)
        cls.browser.set_page_load_timeout(WAIT_S)

    def open(self, page, scheme='light'):
        self.browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {
            'features': [{'name': 'prefers-color-scheme', 'value': scheme}]})
        self.browser.get((self.folder / f'{page}.html').as_uri())
        self.addCleanup(self.check_console)

    def check_console(self):
        self.assertEqual(self.browser.get_log('browser'), [])

    def run_script(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def texts(self, selector):
        return self.run_script(
            'return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)',
            selector)

    def find(self, selector):
        from selenium.webdriver.common.by import By
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector):
        self.run_script('arguments[0].scrollIntoView({block: "center", behavior: "instant"})',
                        self.find(selector))
        self.find(selector).click()

    # Pixels of a canvas that are not transparent, as a share.
    def painted(self, selector):
        return self.run_script('''
            const canvas = document.querySelector(arguments[0]);
            const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            let painted = 0;
            for (let i = 3; i < data.length; i += 4) painted += data[i] > 0;
            return painted / (data.length / 4);''', selector)

    # ---- it renders ----

    def test_every_page_renders_without_a_word_on_the_console(self):
        for page in PAGES:
            with self.subTest(page=page):
                self.open(page)
                titles = self.texts('main h2')
                for title in ('Findings', 'Time', 'Operators', 'Quality', 'This capture'):
                    self.assertIn(title, titles)
                self.assertTrue(self.texts('.verdict')[0])
                self.check_console()

    def test_charts_are_painted(self):
        self.open('full')
        self.assertEqual(len(self.texts('#time canvas')), 2)
        self.assertGreater(self.painted('#time .step-chart canvas'), 0.15)
        self.assertGreater(self.painted('#memory canvas'), 0.15)

    def test_nothing_is_loaded_but_the_page(self):
        import json
        self.open('full')
        urls = set()
        for entry in self.browser.get_log('performance'):
            message = json.loads(entry['message'])['message']
            if message['method'] == 'Network.requestWillBeSent':
                urls.add(message['params']['request']['url'])
        urls = {url for url in urls if url.startswith(('http', 'ws', 'ftp', '//'))}
        self.assertEqual(urls, set())

    def test_names_are_text_whatever_they_hold(self):
        self.open('full')
        self.assertNotEqual(self.browser.title, 'owned')
        self.assertEqual(self.run_script('return document.images.length'), 0)
        self.assertIn('</script><img src=x onerror=document.title=\'owned\'>',
                      self.texts('#operators tbody th'))

    def test_a_script_that_is_not_the_pages_own_does_not_run(self):
        self.open('full')
        self.run_script('''
            const script = document.createElement("script");
            script.textContent = "window.foreign = true";
            document.body.append(script);''')
        self.assertIsNone(self.run_script('return window.foreign || null'))
        log = self.browser.get_log('browser')
        self.assertEqual(len(log), 1)
        self.assertIn('Content Security Policy', log[0]['message'])

    # ---- it is worked with ----

    def test_tables_sort_by_any_column_both_ways(self):
        self.open('full')
        column = self.run_script('''
            return [...document.querySelectorAll("#operators thead button")]
                .findIndex((button) => button.textContent === "# of Calls") + 1''')
        self.assertGreater(column, 0)
        button = f'#operators thead th:nth-child({column}) button'
        cells = f'#operators tbody tr > :nth-child({column})'
        self.click(button)
        descending = [int(text.replace(',', '')) for text in self.texts(cells)]
        self.assertEqual(descending, sorted(descending, reverse=True))
        self.assertGreater(len(set(descending)), 1)
        header = self.find(f'#operators thead th:nth-child({column})')
        self.assertEqual(header.get_attribute('aria-sort'), 'descending')
        self.click(button)
        ascending = [int(text.replace(',', '')) for text in self.texts(cells)]
        self.assertEqual(ascending, sorted(ascending))
        self.click('#operators thead th:nth-child(1) button')
        names = self.texts('#operators tbody th')
        self.assertEqual(names, sorted(names, key=str.lower))

    def test_tables_filter_by_words(self):
        self.open('full')
        field = self.find('#operators input')
        field.send_keys('aten item')
        self.assertEqual(self.texts('#operators tbody th'), ['aten::item'])
        self.assertIn('1 of ', self.texts('#operators [role=status]')[0])
        field.clear()
        field.send_keys('nothing has this')
        self.assertEqual(self.texts('#operators tbody td'), ['No row has all these words.'])

    def test_operators_are_also_shown_by_their_inputs(self):
        self.open('full')
        self.click('#operators .choice button:last-child')
        self.assertIn('[[64,64],[64,64]]', self.texts('#operators tbody td'))

    def test_memory_zooms_by_dragging_and_by_buttons_and_back(self):
        from selenium.webdriver import ActionChains
        self.open('full')
        axis = 'const x = profdReport.memory.view.live.chart.scales.x; return [x.min, x.max]'
        whole = self.run_script(axis)
        canvas = self.find('#memory canvas')
        self.run_script('arguments[0].scrollIntoView({block: "center", behavior: "instant"})', canvas)
        ActionChains(self.browser).move_to_element_with_offset(canvas, -100, 0).click_and_hold() \
            .move_by_offset(200, 0).release().perform()
        near = self.run_script(axis)
        self.assertGreater(near[0], whole[0])
        self.assertLess(near[1], whole[1])
        self.assertIn(' of 200 ms', self.texts('#memory .toolbar [role=status]')[0])
        self.click('#memory button[title="Zoom in"]')
        nearer = self.run_script(axis)
        self.assertAlmostEqual(nearer[1] - nearer[0], (near[1] - near[0]) / 2, delta=10)
        ActionChains(self.browser).double_click(canvas).perform()
        self.assertEqual(self.run_script(axis), whole)

    def test_a_step_is_chosen_by_its_bar(self):
        from selenium.webdriver import ActionChains
        self.open('full')
        offset = self.run_script('''
            const canvas = document.querySelector("#time .step-chart canvas");
            canvas.scrollIntoView({block: "center", behavior: "instant"});
            const chart = Chart.getChart(canvas);
            const box = canvas.getBoundingClientRect();
            return [chart.scales.x.getPixelForValue(7) - box.width / 2,
                    chart.scales.y.getPixelForValue(0) - 20 - box.height / 2]''')
        canvas = self.find('#time .step-chart canvas')
        ActionChains(self.browser).move_to_element_with_offset(
            canvas, round(offset[0]), round(offset[1])).click().perform()
        self.assertTrue(self.texts('.step-facts h4')[0].startswith(f'Step {FIRST_STEP + 7}:'))

    def test_devices_are_chosen(self):
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.ui import Select
        self.open('full')
        before = self.texts('#time .breakdown')[0]
        Select(self.browser.find_element(By.CSS_SELECTOR, '#time select')).select_by_value('1')
        self.assertNotEqual(self.texts('#time .breakdown')[0], before)
        self.assertGreater(self.painted('#time .step-chart canvas'), 0.15)

    def test_findings_lead_to_their_evidence(self):
        self.open('full')
        links = self.run_script('''
            for (const finding of document.querySelectorAll(".finding")) finding.open = true;
            return [...document.querySelectorAll(".finding .evidence a")].map(
                (link) => [link.getAttribute("href"), link.textContent])''')
        self.assertTrue(links, 'no finding of this capture has evidence on the page')
        for href, name in links:
            self.assertIsNotNone(self.find(href))
        of_ops = [name for href, name in links if href == '#operators']
        for name in of_ops[:1]:
            self.run_script('''
                [...document.querySelectorAll(".finding .evidence a")].find(
                    (link) => link.textContent === arguments[0]).click()''', name)
            self.assertIn(name, self.texts('#operators tbody th'))

    # ---- where time went ----

    def test_modules_are_indented_until_a_column_sorts_them(self):
        self.open('full')
        padding = ('return [...document.querySelectorAll("#modules tbody th")].map('
                   '(cell) => parseFloat(getComputedStyle(cell).paddingLeft))')
        self.assertEqual(self.texts('#modules tbody th'),
                         ['Net', 'head', 'encoder', '(outside of modules)'])
        net, head, encoder, outside = self.run_script(padding)
        self.assertGreater(head, net)
        self.assertEqual((encoder, outside), (head, net))
        self.click('#modules thead th:first-child button')
        self.assertEqual(len(set(self.run_script(padding))), 1)

    def flame(self):
        return self.texts('#flame .flame button')

    def test_a_stack_of_the_flame_view_is_shown_alone_and_all_again(self):
        from selenium.webdriver.common.keys import Keys
        self.open('full')
        whole = self.flame()
        self.assertIn('nn.Module: encoder', whole)
        self.assertIn('aten::op_7', whole)
        self.run_script('[...document.querySelectorAll("#flame .flame button")].find('
                        '(one) => one.textContent === "nn.Module: encoder").click()')
        shown = self.flame()
        self.assertIn('train.py(12): train', shown)  # What called it.
        self.assertIn('aten::op_1', shown)
        self.assertNotIn('aten::op_7', shown)
        focused = 'return document.activeElement.textContent'
        self.assertEqual(self.run_script(focused), 'nn.Module: encoder')
        self.browser.switch_to.active_element.send_keys(Keys.ARROW_UP)
        self.assertEqual(self.run_script(focused), 'nn.Module: Net')
        self.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.assertEqual(sorted(self.flame()), sorted(whole))

    def test_the_flame_view_of_gpus_ends_in_kernels_and_marks_frames(self):
        self.open('full')
        self.click('#flame .choice button:nth-child(2)')
        self.assertIn('GPU 1', self.flame())
        self.assertIn('mirror', self.flame())
        self.find('#flame input').send_keys('mirror')
        # The operator, its kernel, in two modules.
        self.assertEqual(sorted(set(self.texts('#flame .marked'))), ['aten::mirrored', 'mirror'])
        self.assertIn('4 stacks', self.texts('#flame [role=status]')[0])

    # ---- light and dark ----

    def test_the_page_follows_the_system_and_may_be_told_otherwise(self):
        background = 'return getComputedStyle(document.body).backgroundColor'
        self.open('full', 'light')
        light = self.run_script(background)
        self.open('full', 'dark')
        dark = self.run_script(background)
        self.assertNotEqual(light, dark)
        self.click('#theme button:nth-child(2)')
        self.assertEqual(self.run_script(background), light)

    def test_many_steps_are_drawn_as_means(self):
        self.open('long')
        self.assertIn('each bar is the mean of up to 9 steps', ' '.join(self.texts('#time .note')))

    @unittest.skipUnless('PROFD_SCREENSHOTS' in os.environ, 'nobody asked for pictures')
    def test_pictures_to_look_at(self):
        target = pathlib.Path(os.environ['PROFD_SCREENSHOTS'])
        for scheme in ('light', 'dark'):
            for page in PAGES:
                self.open(page, scheme)
                height = self.run_script('return document.documentElement.scrollHeight')
                picture = self.browser.execute_cdp_cmd('Page.captureScreenshot', {
                    'captureBeyondViewport': True,
                    'clip': {'x': 0, 'y': 0, 'width': 1400, 'height': height, 'scale': 1}})
                (target / f'{page}-{scheme}.png').write_bytes(base64.b64decode(picture['data']))


if __name__ == '__main__':
    what = missing()
    if what:
        print(f'SKIP: {what} is not installed')
        sys.exit(77)
    unittest.main()
