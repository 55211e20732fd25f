#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of test_summary.py: a test that could not start is a failure, and a skip keeps its reason."""
import contextlib
import io
import os
import tempfile
import unittest

import test_summary

CASES = {
    "passes": '<testcase name="a" status="run"/>',
    "fails": '<testcase name="b" status="fail"><failure message=""/></testcase>',
    "skips": '<testcase name="c" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
             "<system-out>[ RUN      ] C.c\n/x/c_test.cpp:7: Skipped\nno CUDA driver\n\n[  SKIPPED ] C.c"
             "</system-out></testcase>",
    "skips_by_status": '<testcase name="d" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
                       "<system-out>SKIPPED: no GPU\n</system-out></testcase>",
    "cannot_start": '<testcase name="e" status="notrun"><skipped message="Unable to find executable"/></testcase>',
}


class TestSummary(unittest.TestCase):
    def summary(self, *cases):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.xml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("<testsuite>" + "".join(CASES[case] for case in cases) + "</testsuite>")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                status = test_summary.main([path])
        return status, out.getvalue().strip().splitlines()

    def test_counts(self):
        status, lines = self.summary("passes", "skips", "skips_by_status")
        self.assertEqual(status, 0)
        self.assertEqual(lines[-1], "1 passed, 0 failed, 2 skipped")
        self.assertIn("skipped 1: no CUDA driver", lines)
        self.assertIn("skipped 1: no GPU", lines)

    def test_a_failure(self):
        status, lines = self.summary("passes", "fails")
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_not_started_is_failed(self):
        status, lines = self.summary("passes", "cannot_start")
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_unreadable(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(test_summary.main(["/nonexistent/r.xml"]), 1)


if __name__ == "__main__":
    unittest.main()
