"""Answers of the package's own thread, and the end of the interpreter."""

import os
import pathlib
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / 'client_lib' / 'python'))
os.environ['PROFD_DISABLE'] = '1'

from profd import _answering  # noqa: E402
from profd._objects import NotLooked  # noqa: E402


class AnsweringTest(unittest.TestCase):

    def setUp(self):
        _answering.reset_in_child()

    def start(self, function):
        thread = threading.Thread(target=function, daemon=True)
        thread.start()
        return thread

    def test_the_end_waits_for_an_answer_which_hurries(self):
        told = []
        has_begun = threading.Event()

        def give(word):
            has_begun.set()
            try:
                while True:
                    _answering.check()
            except NotLooked:
                told.append(word)

        self.start(lambda: _answering.answer(give, 'answered'))
        has_begun.wait()
        _answering.end()
        told.append('ended')
        self.assertEqual(told, ['answered', 'ended'])

    def test_no_answer_begins_after_the_end(self):
        told = []
        _answering.end()
        late = self.start(lambda: _answering.answer(told.append, 'answered'))
        late.join(0.1)
        self.assertTrue(late.is_alive())
        self.assertEqual(told, [])

    def test_an_answer_that_fails_keeps_nobody_waiting(self):
        def fail():
            raise ValueError

        with self.assertRaises(ValueError):
            _answering.answer(fail)
        told = []
        _answering.answer(told.append, 'answered')
        self.assertEqual(told, ['answered'])

    def test_a_child_answers_again(self):
        told = []
        _answering.end()
        _answering.reset_in_child()
        _answering.check()
        _answering.answer(told.append, 'answered')
        self.assertEqual(told, ['answered'])


if __name__ == '__main__':
    unittest.main(verbosity=2)
