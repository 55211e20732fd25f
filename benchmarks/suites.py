#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs named suites of problems through `culet tune` and states how own kernels and choices compare with the vendor library.

    benchmarks/suites.py SUITE... [--device DEVICE] [--budget SECONDS] [--part I/N] [--top N] [--cache FOLDER] [-o FILE]
    benchmarks/suites.py --merge FILE... [-o FILE]
    benchmarks/suites.py --table FILE...

SUITE is a name (`--help` lists them), `all`, or a file of problems that ends in .shapes. Everything is measured anew; --cache
keeps compiled code only. --budget is divided between the suites by their problems; a suite that ends early says how many it
has. Problems are in an order that only their text decides, and --part I/N takes every N-th, so a suite that ended early and
a part are both fair samples. N GPUs share the work like this:

    for i in 1 2; do benchmarks/suites.py all --device cuda:$((i-1)) --part $i/2 -o part$i.json & done; wait
    benchmarks/suites.py --merge part1.json part2.json -o suites.json

A ratio is time(vendor) / time(ours): more than 1 is faster than the vendor. "Own" is the fastest own candidate, "choice" what
culet picks, "default" the vendor's first plan, "best" its fastest, all of one race. A suite's ratio is a geometric mean over
the problems that have both sides. Minimums are asked for on an H200 only.

-o writes {"schema", "suites": [{"name", "problems", "of", "summary", "runs", "report"}]}, after every suite: "problems" of the
"of" problems are finished; "runs" are the command, part, seconds, exit status and clocks of each run of culet (a merged suite
has several); "report" is what culet wrote (docs/json.md), without the problem that was being measured when a run was ended.
Exit status 7 if a minimum is not met, 1 after an error (what was measured before it is written), 130 after an interruption.
"""
import argparse
import hashlib
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

from recheck import candidate_text, default_us, geometric_mean
from repeat import Failed, refuse_unwritable

SCHEMA = 1
SHAPES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "shapes")
SMALL = "4096x4096 6144x4096 256x7168 128x2880 64x2560 576x7168 1280x1280 2880x4096 2112x7168".split()
SIX = "6144x4096 4096x4096 28672x4096 4096x14336 10240x5120 5120x8192".split()
RATIOS = ("own_default", "own_best", "worst_own_best", "choice_default", "choice_best")
# The least that is asked for, by row of the table.
ASKED = {
    "decode": {"own_default": 1.05, "own_best": 1.02, "worst_own_best": 0.95, "choice_default": 1.07, "choice_best": 1.04},
    "decode, m 32 and 64": {"own_default": 1.02, "own_best": 0.99},
    "small": {"own_default": 1.25},
    "mid": {"own_best": 1.00, "choice_best": 1.02},
    "prefill": {"own_best": 0.97},
    "odd": {"own_default": 1.15},
    "e4m3-decode": {"own_default": 1.08},
    "e4m3-prefill": {"own_best": 0.96},
    "s8-decode": {"own_default": 1.25},
    "s8-prefill": {"own_best": 0.96},
}
# Rows of their own for some of a suite's problems.
OF_THESE = {
    "decode": {"m 32 and 64": lambda problem: problem.split("x")[0] in ("32", "64")},
    "e4m3-prefill": {"acc=fast": lambda problem: "acc=fast" in problem, "promoted": lambda problem: "acc=fast" not in problem},
}
# culet's exit statuses; after the last two the problem that was being measured is in the report, unfinished.
NO_CANDIDATE, WRONG, OUT_OF_BUDGET, INTERRUPTED = 3, 4, 124, 130


def read_shapes(path):
    """The problems of a file: one a line, # outside quotes starts a comment."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [re.match(r'(?:[^"#]|"[^"]*")*', line).group().strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path}: {getattr(error, 'strerror', None) or 'not text'}") from error
    return [line for line in lines if line]


def at(ms, problems):
    return [re.sub(r"^\d+", str(m), problem) for problem in problems for m in ms]


def known_suites():
    """{name: problems}."""
    layers, odd, train = (read_shapes(os.path.join(SHAPES, f"{name}.shapes")) for name in ("llm-linear", "odd", "llm-train"))
    few = {key: [f"1x{layer}:{key}" for layer in SIX] for key in ("e4m3", "e4m3:acc=fast", "s8")}
    return {
        "decode": at((1, 2, 4, 8, 16, 32, 64), layers),
        "small": at((1, 2, 4, 8, 16), [f"1x{weight}:bf16" for weight in SMALL]),
        "mid": at((128, 256, 512), layers),
        "prefill": at((1024, 2048, 4096, 8192), layers) + [f"{n}x{n}x{n}:bf16" for n in (1024, 2048, 4096, 8192)] + train,
        "odd": odd,
        "e4m3-decode": at((1, 8, 16, 64), few["e4m3"]),
        "e4m3-prefill": at((2048, 4096), few["e4m3"] + few["e4m3:acc=fast"]),
        "s8-decode": at((1, 8, 16, 64), few["s8"]),
        "s8-prefill": at((2048, 4096), few["s8"]),
    }


def suites_of(names):
    """{name: problems} of what the command line names; each problem once, in an order that only its text decides."""
    known = known_suites()
    chosen = {}
    for name in [each for given in names for each in (known if given == "all" else [given])]:
        if name not in known and not name.endswith(".shapes"):
            raise Failed(f"'{name}' is no suite: there are all, {', '.join(known)}, and files that end in .shapes")
        problems = known[name] if name in known else read_shapes(name)
        chosen[name] = sorted(set(problems), key=lambda text: hashlib.sha256(text.encode()).digest())
    return chosen


def clocks():
    """What nvidia-smi says of each GPU, or None."""
    program = shutil.which("nvidia-smi")
    names = ("index", "clocks.sm", "power.draw", "temperature.gpu")
    if program is None:
        return None
    done = subprocess.run([program, f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    lines = [line.split(",") for line in done.stdout.splitlines()]
    if done.returncode != 0 or any(len(line) != len(names) for line in lines):
        return None

    def number(text):
        try:
            return float(text)
        except ValueError:  # "[N/A]"
            return None
    return [dict(zip(("gpu", "sm_mhz", "power_w", "celsius"), map(number, line))) for line in lines]


class Signals:
    """While a command runs, signals that ask for an end go to it: culet then delivers what it has."""

    def __enter__(self):
        self.child, self.seen = None, False
        wanted = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
        self.before = {number: signal.signal(number, self.pass_on) for number in wanted}
        return self

    def __exit__(self, *_):
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def pass_on(self, number, _):
        self.seen = True
        if self.child is not None:
            self.child.send_signal(number)

    def run(self, command):
        """(exit status, standard output). In a session of its own, so that a Ctrl-C reaches culet once, not twice."""
        try:
            self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from error
        output = self.child.communicate()[0]
        status, self.child = self.child.returncode, None
        return status, output


def run_suite(args, name, problems, seconds, signals):
    """(report or None, the run). `seconds` may be None: no limit."""
    command = [args.culet, "tune", *problems, "--device", args.device, "--format", "json", "--trials", "tried", "--cache", args.cache]
    command += ["--fresh"] if args.cache != "none" else []
    command += ["--top", args.top] if args.top else []
    command += ["--budget", f"{seconds:.1f}"] if seconds is not None else []
    begin, before = time.monotonic(), clocks()
    status, output = signals.run(command)
    after = clocks()
    run = {"command": shlex.join(command), "part": args.part, "seconds": round(time.monotonic() - begin, 1), "status": status,
           "clocks": None if before is None else {"before": before, "after": after}}
    if not output.strip() and status in (NO_CANDIDATE, WRONG, OUT_OF_BUDGET, INTERRUPTED):
        return None, run
    try:
        report = json.loads(output)
        if status in (OUT_OF_BUDGET, INTERRUPTED):
            report["reports"].pop()
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise Failed(f"{name}: culet ended with status {status} and without a report") from error
    return report, run


def times_of(report):
    """{"own", "best", "default", "choice": microseconds or None, "candidate": text of the fastest own one}."""
    timed = [trial for trial in report["trials"] if trial["median_us"]]
    # The reference is what is left where nobody can compute a problem, no kernel of ours.
    own = [trial for trial in timed if not trial["vendor"] and trial["steps"][0]["backend"] != "reference"]
    fastest = min(own, key=lambda trial: trial["median_us"], default=None)
    chosen = report["chosen"]
    return {
        "own": fastest["median_us"] if fastest else None,
        "candidate": candidate_text(fastest["steps"]) if fastest else None,
        "best": min((trial["median_us"] for trial in timed if trial["vendor"]), default=None),
        "default": default_us(chosen) if chosen else None,
        "choice": chosen["median_us"] if chosen else None,
    }


def summarise(row, reports, device):
    """The numbers of one row of the table; a ratio without problems is None."""
    times = {report["problem"]: times_of(report) for report in reports}
    ratios = {}
    for ours in ("own", "choice"):
        for theirs in ("default", "best"):
            ratios[f"{ours}_{theirs}"] = {problem: t[theirs] / t[ours] for problem, t in times.items() if t[theirs] and t[ours]}
    found = {name: geometric_mean(values.values()) if values else None for name, values in ratios.items()}
    lowest = sorted(ratios["own_best"].items(), key=lambda item: item[1])
    found["worst_own_best"] = lowest[0][1] if lowest else None
    asked = ASKED.get(row) if "H200" in device else None
    short = [name for name, least in (asked or {}).items() if found[name] is not None and found[name] < least]
    return {
        **{name: None if found[name] is None else round(found[name], 5) for name in RATIOS},
        "worst_problem": lowest[0][0] if lowest else None,
        "problems": len(times),
        "without_vendor": sum(t["best"] is None for t in times.values()),
        "without_own": sum(t["own"] is None for t in times.values()),
        "without_choice": sum(t["choice"] is None for t in times.values()),
        "asked": asked,
        # None: nothing is asked for, or nothing was measured that could meet it.
        "met": not short if asked and all(found[name] is not None for name in asked) else None,
        "lowest": [{"problem": problem, "own_best": round(ratio, 5), "own_us": times[problem]["own"],
                    "best_us": times[problem]["best"], "own": times[problem]["candidate"]} for problem, ratio in lowest[:5]],
    }


def with_summary(suite):
    """The suite with "problems" and "summary" as its report has them."""
    reports = suite["report"]["reports"] if suite["report"] else []
    device = suite["report"]["device"]["name"] if suite["report"] else ""
    name = suite["name"]
    summary = summarise(name, reports, device)
    summary["of_these"] = {label: summarise(f"{name}, {label}", [r for r in reports if holds(r["problem"])], device)
                           for label, holds in OF_THESE.get(name, {}).items()}
    return {"name": name, "problems": len(reports), "of": suite["of"], "summary": summary, "runs": suite["runs"],
            "report": suite["report"]}


def run_all(args, chosen, deliver):
    """({"schema", "suites"}, exit status), with `deliver` called with it after each suite."""
    index, count = (int(text) for text in (args.part or "1/1").split("/"))
    parts = {name: problems[index - 1::count] for name, problems in chosen.items()}
    document, begin, status, left = {"schema": SCHEMA, "suites": []}, time.monotonic(), 0, sum(map(len, parts.values()))
    with Signals() as signals:
        for name, problems in parts.items():
            seconds = None
            if args.budget:
                seconds = (args.budget - (time.monotonic() - begin)) * len(problems) / max(left, 1)
            left -= len(problems)
            report, runs = None, []
            if problems and not signals.seen and (seconds is None or seconds >= 1):
                try:
                    report, run = run_suite(args, name, problems, seconds, signals)
                except Failed as error:
                    print(f"suites.py: {error}", file=sys.stderr)
                    return document, 1
                runs = [run]
                status = 1 if run["status"] not in (0, OUT_OF_BUDGET, INTERRUPTED) else status
            document["suites"].append(with_summary({"name": name, "of": len(chosen[name]), "runs": runs, "report": report}))
            deliver(document)
            if signals.seen:
                return document, INTERRUPTED
    return document, status


def merge(documents):
    """One document: a suite has the problems that any of them has, of the last one that has it."""
    merged = {}
    for document in documents:
        for suite in document["suites"]:
            so_far = merged.get(suite["name"])
            if so_far is None:
                merged[suite["name"]] = dict(suite)
                continue
            if so_far["of"] != suite["of"]:
                raise Failed(f"{suite['name']}: a suite of {so_far['of']} problems in one file and of {suite['of']} in another")
            so_far["runs"] = so_far["runs"] + suite["runs"]
            if so_far["report"] is None or suite["report"] is None:
                so_far["report"] = so_far["report"] or suite["report"]
                continue
            first, second = so_far["report"], suite["report"]
            devices = [report["device"]["name"] for report in (first, second)]
            if devices[0] != devices[1]:
                raise Failed(f"{suite['name']}: measured on a {devices[0]} in one file and on a {devices[1]} in another")
            reports = {report["problem"]: report for report in first["reports"] + second["reports"]}
            counts = {name: first["counts"][name] + second["counts"][name] for name in first["counts"]}
            so_far["report"] = {**first, "counts": counts, "reports": list(reports.values())}
    return {"schema": SCHEMA, "suites": [with_summary(suite) for suite in merged.values()]}


def load(files):
    """The files merged."""
    documents = []
    for path in files:
        try:
            with open(path, encoding="utf-8") as file:
                documents.append(json.load(file))
        except OSError as error:
            raise Failed(f"{path}: {error.strerror}") from error
        except ValueError as error:
            raise Failed(f"{path}: not JSON: {error}") from error
        try:
            if documents[-1]["schema"] != SCHEMA:
                raise Failed(f"{path}: of schema {documents[-1]['schema']}, not {SCHEMA}")
            merge(documents[-1:])
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise Failed(f"{path}: not what suites.py writes") from error
    return merge(documents)


def row_text(name, summary, done, complete):
    asked = summary["asked"] or {}

    def cell(ratio):
        if summary[ratio] is None:
            return ""
        wanted = f" ({asked[ratio]:.2f} asked)" if ratio in asked else ""
        problem = f", {summary['worst_problem']}" if ratio == "worst_own_best" else ""
        return f"{summary[ratio]:.3f}{wanted}{problem}"
    met = {True: "yes", False: "no", None: "not measured"}[summary["met"]] if asked else ""
    met += ", so far" if summary["met"] is not None and not complete else ""
    return f"| {' | '.join([name, done, *map(cell, RATIOS), met])} |"


def table(document):
    """Markdown, then what it leaves out."""
    lines = ["| suite | problems | own / default | own / best | worst own / best | choice / default | choice / best | met |",
             "|---|---|---|---|---|---|---|---|"]
    notes = []
    for suite in document["suites"]:
        name, summary = suite["name"], suite["summary"]
        complete = suite["problems"] == suite["of"]
        lines.append(row_text(name, summary, f"{suite['problems']} of {suite['of']}", complete))
        lines += [row_text(f"{name}, {label}", these, str(these["problems"]), complete) for label, these in summary["of_these"].items()]
        missing = [f"{summary[key]} without {what}" for key, what in
                   (("without_vendor", "a vendor plan"), ("without_own", "an own kernel"), ("without_choice", "a choice")) if summary[key]]
        notes += [f"{name}: of {suite['problems']} problems {', '.join(missing)}"] if missing else []
        why = {OUT_OF_BUDGET: "the budget was used up", INTERRUPTED: "interrupted"}
        notes += [f"{name}: {why.get(run['status'], 'culet ended with status %d' % run['status'])} after {run['seconds']} s"
                  for run in suite["runs"] if run["status"]]
    for suite in document["suites"]:
        if suite["summary"]["lowest"]:
            notes += ["", f"{suite['name']}, lowest own / best:"]
        notes += [f"  {low['own_best']:.3f}  {low['problem']}: {low['own_us']:.2f} us, best {low['best_us']:.2f} us; {low['own']}"
                  for low in suite["summary"]["lowest"]]
    devices = {suite["report"]["device"]["name"] for suite in document["suites"] if suite["report"]}
    return "\n".join([*sorted(devices), "", *lines, "", "\n".join(notes).strip("\n")]).rstrip() + "\n"


def parse(argv):
    names = ", ".join(f"{name} ({len(set(problems))})" for name, problems in known_suites().items())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=f"Suites and their problems: {names}.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="name, `all`, or a file of problems that ends in .shapes")
    parser.add_argument("--culet", default="build/culet", metavar="PROGRAM")
    parser.add_argument("--device", default="auto", help="as for `culet tune`")
    parser.add_argument("--budget", type=float, default=0, metavar="SECONDS", help="for all suites together, about")
    parser.add_argument("--part", metavar="I/N", help="every N-th problem, from the I-th on")
    parser.add_argument("--top", help="as for `culet tune`")
    parser.add_argument("--cache", default="none", metavar="FOLDER", help="where compiled code is kept; nowhere without it")
    parser.add_argument("-o", "--output", metavar="FILE", help="for the JSON")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="merge what was written before, for -o and the table")
    parser.add_argument("--table", nargs="+", metavar="FILE", help="print the table of what was written before")
    args = parser.parse_args(argv)
    if sum(map(bool, (args.suites, args.merge, args.table))) != 1:
        parser.error("one of SUITE..., --merge FILE... and --table FILE...")
    if not math.isfinite(args.budget) or args.budget < 0:
        parser.error("--budget: seconds")
    if args.part is not None:
        match = re.fullmatch(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})", args.part)
        if not match or int(match[1]) > int(match[2]):
            parser.error(f"--part: '{args.part}' is not I/N with I from 1 to N")
    refuse_unwritable(parser, args.output)
    return args


def main(argv=None):
    try:
        args = parse(argv)

        def deliver(document):
            if args.output:
                with open(args.output, "w", encoding="utf-8") as file:
                    file.write(json.dumps(document, indent=1) + "\n")
        if args.suites:
            document, status = run_all(args, suites_of(args.suites), deliver)
        else:
            document, status = load(args.merge or args.table), 0
            if args.merge:
                deliver(document)
    except (Failed, OSError) as error:
        print(f"suites.py: {error}", file=sys.stderr)
        return 1
    sys.stdout.write(table(document))
    summaries = [each for suite in document["suites"] for each in (suite["summary"], *suite["summary"]["of_these"].values())]
    return 7 if status == 0 and any(summary["met"] is False for summary in summaries) else status


if __name__ == "__main__":
    sys.exit(main())
