#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of repeat.py: the shares it reports, and a small run with the program that is given.

    benchmarks/repeat_test.py build/culet
"""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

import repeat

PROGRAM = None


def steps_of(backend):
    return [{"backend": backend, "config": {"x": 1}, "part": "all"}]


def report(problem, backend, times=None):
    """Of a run that chose `backend`; `times` are those of all backends."""
    trials = [{"steps": steps_of(name), "median_us": us} for name, us in (times or {}).items()]
    return {"problem": problem, "chosen": {"steps": steps_of(backend), "median_us": 10.0}, "trials": trials}


class Shares(unittest.TestCase):
    def runs(self, *choices):
        """One run for each string: the backends chosen for problems 0, 1, ..."""
        return [repeat.choices_of([report(str(i), backend) for i, backend in enumerate(run)]) for run in choices]

    def test_the_most_frequent_choice_comes_first(self):
        found = repeat.by_choice(self.runs("ab", "ac", "ac"))
        self.assertEqual(found["0"], {"a{x=1}": [0, 1, 2]})
        self.assertEqual(list(found["1"].items()), [("c{x=1}", [1, 2]), ("b{x=1}", [0])])

    def test_problems_that_a_run_did_not_answer_do_not_count(self):
        runs = self.runs("ab", "a")
        self.assertEqual(list(repeat.by_choice(runs)), ["0"])
        self.assertEqual(repeat.choices_of([{"problem": "empty", "chosen": None}]), {})

    def test_shares(self):
        choices = repeat.by_choice(self.runs("aa", "ab", "ac", "aa", "aa"))
        ratios = {"0": {"a{x=1}": 1.0}, "1": {"a{x=1}": 1.0, "b{x=1}": 1.009, "c{x=1}": 0.98}}
        self.assertEqual(repeat.summarise(choices, ratios, 0.01),
                         {"choices": 10, "identical": 0.8, "same_time": 0.9, "problems": 2, "problems_always_identical": 1})
        # A choice without a time of its own is not of the same time.
        ratios["1"]["b{x=1}"] = None
        self.assertEqual(repeat.summarise(choices, ratios, 0.01)["same_time"], 0.8)

    def test_ratios_are_the_median_over_the_runs_that_timed_both(self):
        times = [{"a": 10, "b": 11}, {"a": 20, "b": 20}, {"a": 10, "b": 10.1}, {"a": 10, "c": 1}, {"b": 1, "a": None}]
        reports = [report("p", "a", of_run) for of_run in times]
        self.assertEqual(repeat.ratios_of(["a{x=1}", "b{x=1}", "d{x=1}"], reports), {"a{x=1}": 1.0, "b{x=1}": 1.01, "d{x=1}": None})


class Program(unittest.TestCase):
    def setUp(self):
        if PROGRAM is None:
            self.skipTest("no program given")

    def run_it(self, *arguments):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as err:
            out = os.path.join(folder, "out.json")
            status = repeat.main(["--culet", PROGRAM, "--device", "cpu:1", "-o", out, *arguments])
            document = None
            if os.path.exists(out):
                with open(out, encoding="utf-8") as file:
                    document = json.load(file)
            return status, document, err.getvalue()

    def test_every_run_measures(self):
        status, document, err = self.run_it("17x33x65:f32", "5x6x7:f32", "--runs", "2", "--backends",
                                            "cpu_tile,reference", "--top", "1", "--identical", "0", "--same-time", "0")
        self.assertEqual(status, 0, err)
        first, second = document["runs"]
        self.assertGreater(first["timed"], 0)
        self.assertGreater(second["timed"], 0)
        self.assertEqual(document["summary"]["choices"], 4)
        self.assertEqual([entry["problem"] for entry in document["problems"]], ["17x33x65:f32", "5x6x7:f32"])
        for entry in document["problems"]:
            self.assertEqual(sorted(n for choice in entry["choices"] for n in choice["runs"]), [0, 1])

    def test_runs_that_the_folder_has_count(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = os.path.join(folder, "runs")
            same = ["17x33x65:f32", "--backends", "cpu_tile,reference", "--top", "1", "--identical", "0", "--same-time",
                    "0", "--keep", kept]
            status, before, err = self.run_it(*same, "--runs", "2")
            self.assertEqual((status, err.count("run ")), (0, 2), err)
            status, after, err = self.run_it(*same, "--runs", "3")
            self.assertEqual((status, err.count("run ")), (0, 1), err)
            self.assertIn("run 2: ", err)
            self.assertEqual(after["summary"]["choices"], 3)
            self.assertGreater(after["runs"][2]["timed"], 0)
            for old, new in zip(before["runs"], after["runs"]):
                self.assertEqual(old["timed"], new["timed"])
            # What is no report, or of another device, is said.
            with open(os.path.join(kept, "run1.json"), encoding="utf-8") as file:
                without_trials = file.read().replace('"trials"', '"no_trials"')
            damaged = [without_trials, *(without_trials.replace("no_trials", "trials").replace(*change) for change in (
                ('"counts"', '"other"'), ('"median_us":', '"median_us": "x", "y":'), ('"config"', '"other"'), ('"culet"', '"other"')))]
            for text in ("{}", "]", "[" * 100000, *damaged):
                with open(os.path.join(kept, "run1.json"), "w", encoding="utf-8") as file:
                    file.write(text)
                status, _, err = self.run_it(*same, "--runs", "3")
                self.assertEqual((status, err.count("\n")), (1, 1), err)
                self.assertIn("not the report of a run", err)
            with open(os.path.join(kept, "run0.json"), encoding="utf-8") as file:
                first = json.load(file)
            others = [({"device": {**first["device"], field: "another"}}, "on another, the first run on") for field in ("name", "uuid")]
            for change, expected in (*others, ({"reports": []}, "not the problems of the first run")):
                with open(os.path.join(kept, "run1.json"), "w", encoding="utf-8") as file:
                    json.dump({**first, **change}, file)
                status, _, err = self.run_it(*same, "--runs", "3")
                self.assertEqual((status, err.count("\n")), (1, 1), err)
                self.assertIn(expected, err)
            os.remove(os.path.join(kept, "run1.json"))
            status, _, err = self.run_it("5x6x7:f32", *same[1:], "--runs", "2")
            self.assertEqual(status, 1)
            self.assertIn("not the problems of the first run", err)

    def test_too_low_a_share_is_status_7(self):
        status, document, _ = self.run_it("5x6x7:f32", "--runs", "2", "--backends", "reference", "--identical", "1.1")
        self.assertEqual(status, 7)
        self.assertEqual(document["summary"]["identical"], 1)

    def test_an_error_is_one_line(self):
        status, document, err = self.run_it("5x6:f32")
        self.assertEqual((status, document), (1, None))
        self.assertIn("problem 5x6:f32", err)

    def test_what_cannot_be_is_refused_before_the_first_run(self):
        for wrong in (["-o", "/no/such/folder/x"], ["-o", "/"], ["--slack", "nan"], ["--slack", "-1"], ["--budget", "-1"], ["--budget", "nan"],
                      ["--runs", "1"]):
            with self.subTest(wrong), self.assertRaises(SystemExit) as ended:
                self.run_it("5x6x7:f32", *wrong)
            self.assertEqual(ended.exception.code, 2)
        status, _, err = self.run_it("5x6x7:f32", "--keep", "/dev/null/x")
        self.assertEqual((status, err.count("\n")), (1, 1))


class Failing(repeat.Culet):
    """Fails at the third tuning run, or as said; each is on the device of the uuid given."""

    def __init__(self, *uuids, fails_at=3):
        super().__init__("", "", "", [])
        self.fails_at = fails_at
        self.tuned = 0
        self.devices = [{"name": "a GPU", "uuid": uuid} for uuid in uuids]

    def tune(self, problems, file):
        self.tuned += 1
        if self.tuned == self.fails_at:
            raise repeat.Failed("the third")
        return {"reports": [report("p", "abc"[self.tuned - 1])], "counts": {"compiled": 0, "timed": 1}, "device": self.devices[self.tuned - 1]}

    def forget_measurements(self):
        pass


class Failures(unittest.TestCase):
    def test_what_was_measured_before_counts(self):
        culet, args = Failing("x", "x"), repeat.parse(["p", "--runs", "5"])
        with contextlib.redirect_stderr(io.StringIO()) as err:
            runs = repeat.tune_repeatedly(culet, args, ["p"], "")
            self.assertEqual(len(runs), 2)
        choices = repeat.by_choice([repeat.choices_of(document["reports"]) for document, _ in runs])
        ratios = {"p": repeat.ratios_of(choices["p"], repeat.reports_of("p", runs))}
        self.assertEqual(repeat.summarise(choices, ratios, 0.01)["same_time"], 0.5)
        self.assertIn("the third", err.getvalue())

    def test_runs_of_two_devices_do_not_mix(self):
        for uuids in ("xy", "xxy"):
            culet = Failing(*uuids, fails_at=4)
            with self.assertRaisesRegex(repeat.Mixed, "on y, the first run on x"), contextlib.redirect_stderr(io.StringIO()):
                repeat.tune_repeatedly(culet, repeat.parse(["p", "--runs", "5"]), ["p"], "")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
