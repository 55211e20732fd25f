#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of suites.py: the numbers it states of given reports, its files, and a small run with the program that is given.

    benchmarks/suites_test.py build/culet
"""
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import suites

PROGRAM = None

# Stands for culet: answers the first FAKE_ANSWERS problems, each with own 8 us, default 12 us, best 10 us, and ends with
# FAKE_STATUS. With FAKE_WAIT it waits for a signal first, and answers nothing unless it is exactly one.
FAKE = """#!{python}
import json, os, signal, sys, time
number = sys.argv.index("--device")
problems = sys.argv[2:number]
with open(os.environ["FAKE_LOG"], "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if os.environ.get("FAKE_WAIT"):
    caught = []
    signal.signal(signal.SIGINT, lambda *_: caught.append(1))
    open(os.environ["FAKE_WAIT"], "w").close()
    for _ in range(2000):
        time.sleep(0.01)
        if caught:
            break
    time.sleep(0.2)
    if len(caught) != 1:
        sys.exit(99)
def trial(backend, us, vendor):
    return dict(steps=[dict(backend=backend, config=dict(x=1), part="all")], outcome="measured", median_us=us, vendor=vendor)
answers = [dict(problem=problem, chosen=dict(steps=[], median_us=8, vs_default=1.5, vs_best=1.25),
                trials=[trial("own", 8, False), trial("lib", 10, True), trial("lib", 12, True)])
           for problem in problems[:int(os.environ.get("FAKE_ANSWERS", "1000"))]]
if answers:
    print(json.dumps(dict(device=dict(name="NVIDIA H200"), counts=dict(compiled=1, timed=3), reports=answers)))
sys.exit(int(os.environ.get("FAKE_STATUS", "0")))
"""


def trial(backend, us, vendor=False, outcome="measured"):
    return {"steps": [{"backend": backend, "config": {"x": 1}, "part": "all"}], "outcome": outcome, "median_us": us, "vendor": vendor}


def report(problem, own=None, best=None, default=None, choice=None):
    """As culet writes it; what is None there is not."""
    trials = [trial("own", own)] if own else []
    trials += [trial("own", own * 2), trial("own", None, outcome="wrong"), trial("own", None, outcome="ranked")] if own else []
    trials += [trial("lib", us, True) for us in (best, default) if us]
    chosen = choice and {"steps": [], "median_us": choice, "vs_default": default and default / choice, "vs_best": best and best / choice}
    return {"problem": problem, "chosen": chosen or None, "trials": trials}


def suite(name, reports, of=None, device="NVIDIA H200", status=0):
    document = {"device": {"name": device}, "counts": {"compiled": 2, "timed": 5}, "reports": reports}
    run = {"command": "culet", "part": None, "seconds": 1, "status": status, "clocks": None}
    return {"name": name, "of": of or len(reports), "runs": [run], "report": document}


def document(*all_suites):
    return {"schema": 1, "suites": [suites.with_summary(each) for each in all_suites]}


class Numbers(unittest.TestCase):
    def test_geometric_means_and_the_worst(self):
        reports = [report("1x1x1:bf16", own=10, best=20, default=40, choice=5), report("2x1x1:bf16", own=10, best=5, default=10, choice=5)]
        summary = suites.with_summary(suite("odd", reports))["summary"]
        self.assertEqual([summary[name] for name in suites.RATIOS], [2.0, 1.0, 0.5, 4.0, 2.0])
        self.assertEqual(summary["worst_problem"], "2x1x1:bf16")
        self.assertEqual([low["problem"] for low in summary["lowest"]], ["2x1x1:bf16", "1x1x1:bf16"])
        self.assertEqual(summary["lowest"][0], {"problem": "2x1x1:bf16", "own_best": 0.5, "own_us": 10, "best_us": 5, "own": "own{x=1}"})

    def test_five_lowest(self):
        reports = [report(str(us), own=us, best=10) for us in (1, 5, 3, 9, 2, 7)]
        lowest = suites.with_summary(suite("odd", reports))["summary"]["lowest"]
        self.assertEqual([low["problem"] for low in lowest], ["9", "7", "5", "3", "2"])

    def test_what_there_is_not_is_counted_and_in_no_ratio(self):
        reports = [report("a", own=10, best=20, default=20, choice=10), report("no vendor", own=1, choice=1),
                   report("no choice", own=10, best=80), report("no own", best=7, default=7, choice=7), report("nothing")]
        reports.append(report("fallback", best=5, default=5, choice=5))
        reports[-1]["trials"].append(trial("reference", 1))  # no kernel of ours
        summary = suites.with_summary(suite("odd", reports))["summary"]
        # "no choice" has a best, but its default is not known.
        self.assertEqual((summary["own_default"], summary["own_best"]), (2.0, 4.0))
        self.assertAlmostEqual(summary["choice_best"], 2 ** (1 / 3), places=4)
        self.assertEqual((summary["without_vendor"], summary["without_own"], summary["without_choice"]), (2, 3, 2))

    def test_minimums(self):
        def met(name, device="NVIDIA H200", **times):
            return suites.with_summary(suite(name, [report("1x1x1:bf16", **times)], device=device))["summary"]["met"]
        self.assertIs(met("odd", own=100, best=115, default=115, choice=100), True)
        self.assertIs(met("odd", own=100, best=114.9, default=114.9, choice=100), False)
        self.assertIsNone(met("odd", own=1))  # nothing to compare with
        self.assertIsNone(met("odd", own=100, best=114, default=114, choice=100, device="AMD EPYC"))
        self.assertIsNone(met("my.shapes", own=100, best=114, default=114, choice=100))
        # All that is asked for: here only the worst ratio is too low.
        reports = [report(str(i), own=10, best=20, default=20, choice=10) for i in range(9)]
        reports.append(report("9", own=100, best=94, default=120, choice=94))
        self.assertIs(suites.with_summary(suite("decode", reports))["summary"]["met"], False)

    def test_some_problems_have_a_row_of_their_own(self):
        reports = [report("1x1x1:bf16", own=10, best=20), report("32x1x1:bf16", own=10, best=10), report("64x1x1:bf16", own=10, best=40)]
        these = suites.with_summary(suite("decode", reports))["summary"]["of_these"]["m 32 and 64"]
        self.assertEqual((these["problems"], these["own_best"]), (2, 2.0))

    def test_an_empty_suite(self):
        for empty in (suite("decode", [], of=105), {**suite("decode", [], of=105), "report": None}):
            made = suites.with_summary(empty)
            self.assertEqual((made["problems"], made["summary"]["own_best"], made["summary"]["met"]), (0, None, None))
            self.assertIn("| decode | 0 of 105 |  |", suites.table({"suites": [made]}))

    def test_table(self):
        reports = [report("a", own=10, best=9, default=11, choice=9), report("b", own=1, choice=1)]
        text = suites.table(document(suite("odd", reports, of=3, status=124)))
        self.assertIn("| odd | 2 of 3 | 1.100 (1.15 asked) | 0.900 | 0.900, a | 1.222 | 1.000 | no, so far |", text)
        self.assertIn("odd: of 2 problems 1 without a vendor plan", text)
        self.assertIn("odd: the budget was used up", text)
        self.assertIn("0.900  a: 10.00 us, best 9.00 us; own{x=1}", text)


class Problems(unittest.TestCase):
    def test_suites_are_those_asked_for(self):
        counts = {name: len(problems) for name, problems in suites.suites_of(["all"]).items()}
        # Prefill: 60 of layers, 4 squares and 9 of training, 5 of which are layers or squares as well.
        self.assertEqual(counts, {"decode": 105, "small": 45, "mid": 45, "prefill": 68, "odd": 32, "e4m3-decode": 24,
                                  "e4m3-prefill": 24, "s8-decode": 24, "s8-prefill": 12})
        self.assertIn("4096x28672x4096:e4m3:acc=fast", suites.suites_of(["e4m3-prefill"])["e4m3-prefill"])

    def test_shape_files(self):
        with tempfile.NamedTemporaryFile("w", suffix=".shapes") as file:
            file.write('# one\n\n1x2x3:f32:epi="acc + b[n]"  # two\n4x5x6:f32\n4x5x6:f32\n')
            file.flush()
            self.assertEqual(sorted(suites.suites_of([file.name])[file.name]), ['1x2x3:f32:epi="acc + b[n]"', "4x5x6:f32"])

    def test_the_order_is_that_of_the_text_and_a_sample_of_all(self):
        with tempfile.TemporaryDirectory() as folder:
            orders = []
            for number, step in enumerate((1, -1)):
                path = os.path.join(folder, f"{number}.shapes")
                with open(path, "w", encoding="utf-8") as file:
                    file.write("\n".join([f"{m}x64x64:f32" for m in range(100, 500)][::step]))
                orders.append(suites.suites_of([path])[path])
        self.assertEqual(orders[0], orders[1])
        some = [int(problem.split("x")[0]) for problem in orders[0][:100]]
        self.assertAlmostEqual(sum(some) / 100, 300, delta=35)


class WithCulet(unittest.TestCase):
    """suites.py as a command, in a folder of its own, with something that stands for culet."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.culet, self.log, self.out = self.path("culet"), self.path("log"), self.path("out.json")
        self.write("culet", FAKE.replace("{python}", sys.executable), 0o755)
        self.environment = {"FAKE_LOG": self.log}
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def call(self, *arguments, **environment):
        """(status, standard output, standard error); a usage error is status 2."""
        os.environ.update({**self.environment, **environment})
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            try:
                status = suites.main(["--culet", self.culet, *arguments])
            except SystemExit as ended:
                status = ended.code
        return status, out.getvalue(), err.getvalue()

    def written(self, path=None):
        with open(path or self.out, encoding="utf-8") as file:
            return json.load(file)

    def commands(self):
        with open(self.log, encoding="utf-8") as file:
            return [json.loads(line) for line in file]


class Command(WithCulet):
    def test_a_run(self):
        smi = self.write("nvidia-smi", "#!/bin/sh\necho '0, 1980, 345.5, [N/A]'\n", 0o755)
        status, out, err = self.call("odd", "s8-prefill", "--device", "cuda:1", "--top", "7", "-o", self.out,
                                     PATH=os.path.dirname(smi) + ":" + os.environ["PATH"])
        self.assertEqual((status, err), (0, ""))
        odd, s8 = self.written()["suites"]
        self.assertEqual((odd["name"], odd["problems"], odd["of"], odd["summary"]["own_default"]), ("odd", 32, 32, 1.5))
        self.assertIs(s8["summary"]["met"], True)
        gpu = {"gpu": 0, "sm_mhz": 1980, "power_w": 345.5, "celsius": None}
        self.assertEqual(odd["runs"][0]["clocks"], {"before": [gpu], "after": [gpu]})
        self.assertIn(" tune ", odd["runs"][0]["command"])
        self.assertIn("| s8-prefill | 12 of 12 | 1.500 | 1.250 (0.96 asked) |", out)
        for command in self.commands():
            self.assertEqual(command[command.index("--device"):],
                             ["--device", "cuda:1", "--format", "json", "--trials", "tried", "--cache", "none", "--top", "7"])

    def test_the_budget_is_divided_and_the_unfinished_problem_does_not_count(self):
        status, out, _ = self.call("s8-decode", "s8-prefill", "--budget", "90", "-o", self.out, FAKE_STATUS="124", FAKE_ANSWERS="5")
        self.assertEqual(status, 0)
        self.assertEqual([each["problems"] for each in self.written()["suites"]], [4, 4])
        self.assertIn("| s8-decode | 4 of 24 |", out)
        first, second = [float(command[command.index("--budget") + 1]) for command in self.commands()]
        self.assertAlmostEqual(first, 60, delta=2)
        self.assertGreater(second, 80)  # nearly all that the first one left

    def test_a_store_keeps_code_only(self):
        self.call("s8-prefill", "--cache", "/store")
        self.assertEqual(self.commands()[0][-3:], ["--cache", "/store", "--fresh"])

    def test_nothing_in_time(self):
        status, out, _ = self.call("s8-decode", "--budget", "5", "-o", self.out, FAKE_STATUS="124", FAKE_ANSWERS="0")
        self.assertEqual((status, self.written()["suites"][0]["report"]), (0, None))
        self.assertIn("| s8-decode | 0 of 24 |", out)

    def test_parts_merged_are_the_whole(self):
        parts = [self.path(f"part{i}.json") for i in (1, 2)]
        for i in (1, 2):
            self.assertEqual(self.call("decode", "--part", f"{i}/2", "-o", parts[i - 1])[0], 0)
        self.assertEqual([self.written(part)["suites"][0]["problems"] for part in parts], [53, 52])
        status, out, _ = self.call("--merge", *parts, "-o", self.out)
        self.assertEqual(status, 0)
        merged = self.written()["suites"][0]
        self.assertEqual((merged["problems"], merged["of"], merged["report"]["counts"]), (105, 105, {"compiled": 2, "timed": 6}))
        self.assertEqual({each["problem"] for each in merged["report"]["reports"]}, set(suites.suites_of(["decode"])["decode"]))
        self.assertEqual([run["part"] for run in merged["runs"]], ["1/2", "2/2"])
        commands = len(self.commands())
        self.assertEqual(self.call("--table", self.out), (0, out, ""))
        self.assertEqual(self.call("--table", *parts), (0, out, ""))
        self.assertEqual(len(self.commands()), commands)  # nothing was run for it

    def test_a_part_without_problems_runs_nothing(self):
        status, out, _ = self.call("s8-prefill", "--part", "13/13", "-o", self.out)
        self.assertEqual((status, self.written()["suites"][0]["runs"]), (0, []))
        self.assertFalse(os.path.exists(self.log))
        self.assertIn("| s8-prefill | 0 of 12 |", out)

    def test_of_a_problem_in_two_files_the_last_counts(self):
        for name, us in (("a", 10), ("b", 20)):
            self.write(name, json.dumps(document(suite("odd", [report("p", own=us, best=40, default=40, choice=us)], of=9))))
        self.call("--merge", self.path("a"), self.path("b"), "-o", self.out)
        made = self.written()["suites"][0]
        self.assertEqual((made["problems"], made["summary"]["own_best"]), (1, 2.0))

    def test_a_minimum_not_met_is_status_7(self):
        bad = self.write("bad", json.dumps(document(suite("odd", [report("p", own=10, best=9, default=9, choice=9)]))))
        self.assertEqual(self.call("--table", bad)[0], 7)

    def test_files_that_do_not_belong_together(self):
        one = [report("p", own=1)]
        files = [self.write(str(i), json.dumps(document(made))) for i, made in
                 enumerate((suite("odd", one, of=32), suite("odd", one, of=31), suite("odd", one, of=32, device="AMD EPYC")))]
        for other, words in ((files[1], "of 32 problems in one file and of 31"), (files[2], "on a NVIDIA H200 in one file and on a AMD")):
            status, _, err = self.call("--merge", files[0], other)
            self.assertEqual((status, err.count("\n")), (1, 1))
            self.assertIn(words, err)

    def test_bad_files(self):
        texts = {"absent": None, "text": "no JSON", "list": "[]", "schema": '{"schema": 9, "suites": []}',
                 "report": '{"schema": 1, "suites": [{"name": "x", "of": 1, "runs": [], "report": {"reports": [{}]}}]}'}
        for name, text in texts.items():
            path = self.path(name) if text is None else self.write(name, text)
            for arguments in (["--table", path], ["--merge", path, "-o", self.out]):
                with self.subTest(name):
                    status, out, err = self.call(*arguments)
                    self.assertEqual((status, out, err.count("\n")), (1, "", 1), err)
                    self.assertIn(path, err)
        self.assertFalse(os.path.exists(self.out))

    def test_bad_suites_run_nothing(self):
        for name, words in (("decoed", "'decoed' is no suite"), ("/no/such.shapes", "/no/such.shapes: No such file")):
            status, _, err = self.call("odd", name)
            self.assertEqual((status, err.count("\n")), (1, 1))
            self.assertIn(words, err)
        self.assertFalse(os.path.exists(self.log))

    def test_usage(self):
        for wrong in (["odd", "--part", "3/2"], ["odd", "--part", "0/2"], ["odd", "--part", "x"], ["odd", "--budget", "-1"],
                      ["odd", "--budget", "nan"], ["odd", "-o", "/no/such/folder/x"], [], ["odd", "--table", "x"]):
            with self.subTest(wrong):
                self.assertEqual(self.call(*wrong)[0], 2)

    def test_a_culet_that_fails_costs_what_comes_after(self):
        self.assertEqual(self.call("odd", "-o", self.out, FAKE_STATUS="5", FAKE_ANSWERS="0")[0], 1)
        self.culet = self.path("none")
        status, _, err = self.call("odd")
        self.assertEqual((status, err.count("\n")), (1, 1))
        self.assertIn("No such file", err)

    def test_a_problem_that_fails_costs_itself(self):
        status, out, _ = self.call("odd", "s8-prefill", "-o", self.out, FAKE_STATUS="3", FAKE_ANSWERS="30")
        self.assertEqual((status, [each["problems"] for each in self.written()["suites"]]), (1, [30, 12]))
        self.assertIn("odd: culet ended with status 3", out)

    def test_an_interruption_is_handed_on(self):
        started = self.path("started")
        environment = {**os.environ, **self.environment, "FAKE_WAIT": started, "FAKE_STATUS": "130", "FAKE_ANSWERS": "3"}
        command = [sys.executable, suites.__file__, "odd", "decode", "--culet", self.culet, "-o", self.out]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            end = time.monotonic() + 60
            while not os.path.exists(started) and time.monotonic() < end:
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal's Ctrl-C, to all that belong to it
            out = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 130)
        self.assertEqual([(each["name"], each["problems"]) for each in self.written()["suites"]], [("odd", 2)])
        self.assertIn("| odd | 2 of 32 |", out)


class Program(WithCulet):
    def test_a_run_on_the_cpu(self):
        if PROGRAM is None:
            self.skipTest("no program given")
        self.culet = PROGRAM
        mine = self.write("mine.shapes", "17x33x65:f32\n5x6x7:f32\n")
        status, out, err = self.call(mine, "--device", "cpu:1", "--top", "1", "--budget", "100", "-o", self.out)
        self.assertEqual((status, err), (0, ""))
        made = self.written()["suites"][0]
        self.assertEqual((made["problems"], made["of"], made["runs"][0]["status"]), (2, 2, 0))
        self.assertIn("| 2 of 2 |", out)
        if made["summary"]["without_vendor"] == 0:  # a library is here
            self.assertGreater(made["summary"]["own_best"], 0.05)
            # Own and clearly faster, or the vendor's within 0.5 % of its best.
            self.assertGreaterEqual(made["summary"]["choice_best"], 0.995)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
