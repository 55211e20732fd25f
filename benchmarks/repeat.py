#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tunes the same problems several times, each time without any stored measurement, and compares the choices.

    benchmarks/repeat.py --shapes FILE [--m LIST] [--device DEVICE] [--runs 10] [--budget SECONDS] [-o FILE] [--keep FOLDER]

benchmarks/repeat.shapes has 30 problems for an H200. Every run is a process of its own. Compiled code is kept from run to run (it is the same, and its compilation is not what is
asked about); measurements and choices are deleted before each. Where a problem's choices differ, runs have timed them in one
interleaved race each: a choice has "the same time" as the most frequent one if it is within --slack of it by the median over
the runs that timed both.

With --keep the reports of the runs stay in a folder, and complete runs that it has already count: ten tunings can be made
five today and five tomorrow, on the same device: two of a kind may choose differently, each for good reasons.

Writes JSON: for each problem its choices with the runs that made them and their times; in "summary" the shares over all
(problem, run). With --budget, no run is begun that would not end in time; runs that are not complete do not count. Exit
status 7 if the shares are below --identical and --same-time.
"""
import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from recheck import candidate_text

SCHEMA = 2


class Failed(Exception):
    pass


class Mixed(Failed):
    """Runs that cannot be compared."""


def choices_of(reports):
    """{problem: text of the chosen candidate}, of the reports of one run; problems without a choice are left out."""
    return {report["problem"]: candidate_text(report["chosen"]["steps"]) for report in reports if report["chosen"]}


def by_choice(runs):
    """{problem: {candidate: [numbers of the runs that chose it]}}, the most frequent first, for problems that every run
    answered."""
    problems = [problem for problem in runs[0] if all(problem in run for run in runs)]
    result = {}
    for problem in problems:
        found = collections.defaultdict(list)
        for number, run in enumerate(runs):
            found[run[problem]].append(number)
        result[problem] = dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[1])))
    return result


def times_of(report):
    """{text of a candidate: microseconds, or None}, of a report's trials."""
    return {candidate_text(trial["steps"]): trial["median_us"] for trial in report["trials"]}


def ratios_of(candidates, reports):
    """{candidate: time / time of the first}: the median over the reports of one problem, of those that timed both. None where
    none did."""
    races = [times_of(report) for report in reports]
    first = next(iter(candidates))
    result = {}
    for candidate in candidates:
        both = [race[candidate] / race[first] for race in races if race.get(candidate) and race.get(first)]
        result[candidate] = statistics.median(both) if both else None
    return result


def summarise(choices, ratios, slack):
    """Shares over all (problem, run)."""
    total = identical = same_time = 0
    for problem, found in choices.items():
        for position, (candidate, numbers) in enumerate(found.items()):
            total += len(numbers)
            if position == 0:
                identical += len(numbers)
                same_time += len(numbers)
            else:
                ratio = ratios[problem][candidate]
                same_time += len(numbers) if ratio is not None and abs(ratio - 1) <= slack else 0
    return {
        "choices": total,
        "identical": identical / total,
        "same_time": same_time / total,
        "problems": len(choices),
        "problems_always_identical": sum(len(found) == 1 for found in choices.values()),
    }


class Culet:
    def __init__(self, program, store, device, extra):
        self.program, self.store, self.device, self.extra = program, store, device, extra

    def run(self, arguments, environment=None):
        command = [self.program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
            raise Failed(f"{' '.join(command[:3])} ...: {lines[-1]}")
        return done.stdout

    def tune(self, problems, file):
        self.run(["tune", *problems, "--device", self.device, "--cache", self.store, "--format", "json", "--trials", "tried",
                  "-o", file + ".part", *self.extra])
        os.replace(file + ".part", file)  # only what is complete has the name
        with open(file, encoding="utf-8") as stream:
            return json.load(stream)

    def forget_measurements(self):
        if not os.path.exists(self.store):  # the runs before were made elsewhere
            return
        self.run(["cache", "clear", "--measurements", "--cache", self.store])


def refuse_mixture(document, first, file):
    """Raises Mixed if a run is of another device, or of other problems, than the first."""
    device, before = (run["device"].get("uuid", run["device"]["name"]) for run in (document, first))
    if device != before:
        raise Mixed(f"{file}: on {device}, the first run on {before}; equal devices may choose differently, too")
    if {report["problem"] for report in document["reports"]} != {report["problem"] for report in first["reports"]}:
        raise Mixed(f"{file}: not the problems of the first run")


def read_run(file):
    """The report of a run, with all that is used of it."""
    try:
        with open(file, encoding="utf-8") as stream:
            document = json.load(stream)
        reports = document["reports"]
        seconds = sum(report["seconds"]["total"] for report in reports)
        choices_of(reports)
        medians = [us for report in reports for us in times_of(report).values() if us is not None]
        medians += [report["chosen"]["median_us"] for report in reports if report["chosen"]]
        sum(medians)
        if len({report["problem"] for report in reports}) != len(reports):
            raise ValueError("a problem twice")
        _ = {**document["counts"]}, document["culet"], document["device"].get("uuid", document["device"]["name"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Failed(f"{file}: not the report of a run ({error!r})") from None
    return document, seconds


def kept_runs(args):
    """The runs that the folder of --keep has: [(document, seconds)]."""
    runs = []
    while args.keep and len(runs) < args.runs:
        file = os.path.join(args.keep, f"run{len(runs)}.json")
        if not os.path.exists(file):
            break
        runs.append(read_run(file))
        refuse_mixture(runs[-1][0], runs[0][0], file)
    return runs


def tune_repeatedly(culet, args, problems, folder):
    """The tuning runs, one after the other: [(document, seconds)]."""
    begin = time.monotonic()
    runs = kept_runs(args)
    for number in range(len(runs), args.runs):
        if runs:
            left = args.budget - (time.monotonic() - begin)
            if args.budget and runs[-1][1] > left:
                print(f"the budget allows {number} of {args.runs} runs", file=sys.stderr)
                break
        start = time.monotonic()
        try:
            if runs:
                culet.forget_measurements()
            file = os.path.join(folder, f"run{number}.json")
            document = culet.tune(problems, file)
            if runs:
                refuse_mixture(document, runs[0][0], file)
        except Mixed:
            raise
        except Failed as error:
            if len(runs) < 2:
                raise
            print(f"repeat.py: run {number}: {error}; the {number} before count", file=sys.stderr)
            break
        seconds = time.monotonic() - start
        runs.append((document, seconds))
        counts = document["counts"]
        print(f"run {number}: {len(document['reports'])} problems in {seconds:.1f} s, {counts['compiled']} kernels compiled, "
              f"{counts['timed']} candidates timed", file=sys.stderr, flush=True)
    return runs


def reports_of(problem, runs):
    """The report of each run on one problem."""
    return [next(report for report in document["reports"] if report["problem"] == problem) for document, _ in runs]


def document_of(args, runs, choices, ratios):
    entries = []
    for problem, found in choices.items():
        reports = reports_of(problem, runs)
        entries.append({
            "problem": problem,
            "choices": [{
                "candidate": candidate,
                "runs": numbers,
                "tuned_us": [reports[number]["chosen"]["median_us"] for number in numbers],
                "against_first": ratios[problem][candidate],
            } for candidate, numbers in found.items()],
        })
    first = runs[0][0]
    return {
        "schema": SCHEMA,
        "culet": first["culet"],
        "device": first["device"],
        "slack": args.slack,
        "runs": [{"seconds": round(seconds, 3), **document["counts"]} for document, seconds in runs],
        "summary": summarise(choices, ratios, args.slack),
        "problems": entries,
    }


def refuse_unwritable(parser, path):
    """Ends in a usage error if `path` is given and cannot be written: better known now than after all runs."""
    if path and (os.path.isdir(path) or not os.access(os.path.dirname(path) or ".", os.W_OK)):
        parser.error(f"--output: '{path}' cannot be written")


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM")
    parser.add_argument("--shapes", help="file of problems, one a line")
    parser.add_argument("--m", help="each problem at these values of m")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--budget", type=float, default=0, help="seconds for all of it, about")
    parser.add_argument("--top", help="as for `culet tune`")
    parser.add_argument("--backends", help="as for `culet tune`")
    parser.add_argument("--slack", type=float, default=0.01)
    parser.add_argument("--identical", type=float, default=0.90, help="the share of identical choices there must be")
    parser.add_argument("--same-time", type=float, default=0.97, help="the share of choices of the same time there must be")
    parser.add_argument("--culet", default="build/culet")
    parser.add_argument("-o", "--output", help="file for the JSON; standard output without it")
    parser.add_argument("--keep", help="folder for the reports of the runs; complete runs in it count")
    args = parser.parse_args(argv)
    if args.runs < 2:
        parser.error("--runs: at least 2")
    if not 0 <= args.slack < 1 or not args.budget >= 0:
        parser.error("--slack: 0 to 1; --budget: seconds")
    refuse_unwritable(parser, args.output)
    if not args.problems and not args.shapes:
        parser.error("which problems? --shapes FILE or PROBLEM...")
    return args


def main(argv=None):
    args = parse(argv)
    problems = list(args.problems)
    for name in ("shapes", "m"):
        if getattr(args, name):
            problems += [f"--{name}", getattr(args, name)]
    extra = []
    for name in ("top", "backends"):
        if getattr(args, name):
            extra += [f"--{name}", getattr(args, name)]
    with tempfile.TemporaryDirectory(prefix="culet-repeat-") as temporary:
        folder = args.keep or temporary
        culet = Culet(args.culet, os.path.join(temporary, "store"), args.device, extra)
        try:
            os.makedirs(folder, exist_ok=True)
            runs = tune_repeatedly(culet, args, problems, folder)
            if len(runs) < 2:
                raise Failed("one run only: nothing to compare")
            choices = by_choice([choices_of(document["reports"]) for document, _ in runs])
            if not choices:
                raise Failed("no problem has a choice in every run")
            left_out = len(runs[0][0]["reports"]) - len(choices)
            if left_out:
                print(f"repeat.py: {left_out} problems have no choice in some run, and do not count", file=sys.stderr)
            ratios = {problem: ratios_of(found, reports_of(problem, runs)) for problem, found in choices.items()}
        except (Failed, OSError) as error:
            print(f"repeat.py: {error}", file=sys.stderr)
            return 1
    document = document_of(args, runs, choices, ratios)
    text = json.dumps(document, indent=1) + "\n"
    try:
        if args.output:
            with open(args.output, "w", encoding="utf-8") as file:
                file.write(text)
        else:
            sys.stdout.write(text)
    except OSError as error:
        print(f"repeat.py: {error}", file=sys.stderr)
        return 1
    summary = document["summary"]
    print(f"{len(runs)} runs of {summary['problems']} problems: {summary['identical']:.1%} identical choices, "
          f"{summary['same_time']:.1%} within {args.slack:.0%} of the same time, "
          f"{summary['problems_always_identical']} problems always the same", file=sys.stderr)
    return 0 if summary["identical"] >= args.identical and summary["same_time"] >= args.same_time else 7


if __name__ == "__main__":
    sys.exit(main())
