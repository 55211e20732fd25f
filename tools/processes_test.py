#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many `culet tune` at once on one empty store, against one that does the same compiles with the same cores.

    tools/processes_test.py PROGRAM [--processes N] [--problems N] [--order same|own] [--ratio X]

Every process tunes the same problems on the CPU with kernels compiled from source, in the same order (so that all want the
same kernel at the same time) or each in its own. Then, with another empty store, one process tunes them alone.

So that both do the same compiles, whatever the model makes of this machine's load, every process tries the same candidates:
all but two are denied. Each has an epilogue, which only compiled kernels have, and a constant in it that makes the source of
half of the problems differ; the other half are larger in k and share their code.

What must hold, else exit status 1:

* each source is compiled at most twice. Counted by a script that stands for the compiler, not by culet;
* every trial that any process finished, by its log, is in the store, and every choice; `cache verify` finds nothing damaged;
* one more run is answered by the store alone: nothing compiled, nothing timed;
* all of them together take at most --ratio times as long as the one alone.
"""
import argparse
import collections
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

OPTIONS = ["--device", "cpu:1", "--backends", "cpu_tile", "--top", "all", "--max-memory", "0.02", "--format", "json"]
SHAPES = [(m, n) for m in (5, 8, 13) for n in (40, 64)]
STORED = ("measured", "wrong", "timed_out")


class Failed(Exception):
    pass


def problems_of(count):
    """Pairs of problems whose kernels have the same source."""
    found = []
    for i in range((count + 1) // 2):
        m, n = SHAPES[i % len(SHAPES)]
        for k in (16, 24):
            found.append(f'{m}x{n}x{k}:f32:epi="relu(acc * {1 + i / 128})"')
    return found[:count]


def candidate_text(trial):
    """As `culet bench --candidate` takes it."""
    steps = []
    for step in trial["steps"]:
        config = " ".join(f"{key}={value}" for key, value in step["config"].items())
        steps.append(f"{step['backend']}{{{config}}}" + ("" if step["part"] == "all" else ":" + step["part"]))
    return " + ".join(steps)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Harness:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.problems = problems_of(options.problems)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("CULET_")}
        # A runtime folder of its own: the lock on the device is that of these processes only.
        self.env["XDG_RUNTIME_DIR"] = folder
        self.compiler = os.environ.get("CULET_CXX") or next(
            (path for path in map(shutil.which, ("g++", "c++", "clang++")) if path), None)
        if self.compiler is None:
            raise Failed("no C++ compiler")
        self.denied = self.all_but_two()

    def all_but_two(self):
        """Of the candidates that every problem has, two tiles stay; the others are to be denied."""
        shapes = {problem.split(":")[0] + ':f32:epi="relu(acc)"' for problem in self.problems}
        report = json.loads(self.culet(["rank", *sorted(shapes), *OPTIONS[:6], "--format", "json"]).stdout)
        spaces = [{candidate_text(trial) for trial in r["trials"]} for r in report["reports"]]
        by_tile = {}
        for candidate in sorted(c for c in set.intersection(*spaces) if "kernel=tile" in c):
            by_tile.setdefault(candidate.split(" tile=")[-1].split()[0], candidate)
        if len(by_tile) < 2:
            raise Failed(f"too few candidates: {by_tile}")
        self.kept = list(by_tile.values())[:2]
        return sorted(set.union(*spaces) - set(self.kept))

    def culet(self, arguments, **env):
        result = subprocess.run([self.options.program, *arguments], env=dict(self.env, **env), capture_output=True, text=True)
        if result.returncode != 0 or result.stderr:
            raise Failed(f"{arguments[0]}: status {result.returncode}: {result.stderr}")
        return result

    def place(self, name):
        """A folder with a store that is empty but for what is denied, and a compiler that keeps count."""
        place = os.path.join(self.folder, name)
        os.makedirs(os.path.join(place, "store"), mode=0o700)
        with open(os.path.join(place, "store", "overrides.json"), "w") as file:
            json.dump({"format": "culet overrides", "schema": 1, "pins": [], "denied": self.denied}, file)
        script = os.path.join(place, "c++")
        with open(script, "w") as file:
            file.write("#!/bin/sh\n"
                       f"case $1 in -*version) exec '{self.compiler}' \"$@\";; esac\n"
                       "for word; do case $word in *.cpp) source=$word;; esac; done\n"
                       "key=$({ cat \"$source\"; printf '%s\\n' \"$@\" | grep -v /; } | cksum)\n"
                       f"echo \"$key\" >>'{place}/compiled'\n"
                       f"exec '{self.compiler}' \"$@\"\n")
        os.chmod(script, 0o755)
        return place

    def tune(self, place, count):
        """`count` processes at once; returns the seconds they took, and those of CPU time with their compilers'."""
        env = dict(self.env, CULET_CACHE=os.path.join(place, "store"), CULET_CXX=os.path.join(place, "c++"),
                   CULET_LOG=os.path.join(place, "log"))
        processes = []
        begin, cpu_before = time.monotonic(), cpu_seconds()
        for i in range(count):
            order = list(self.problems)
            if self.options.order == "own":
                random.Random(i).shuffle(order)
            processes.append(subprocess.Popen([self.options.program, "tune", *order, *OPTIONS], env=env, text=True,
                                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
        for process in processes:
            _, errors = process.communicate()
            if process.returncode != 0 or errors:
                raise Failed(f"tune: status {process.returncode}: {errors}")
        return time.monotonic() - begin, cpu_seconds() - cpu_before

    def compiles(self, place):
        with open(os.path.join(place, "compiled")) as file:
            return collections.Counter(file.read().splitlines())

    def events(self, place):
        with open(os.path.join(place, "log")) as file:
            return [json.loads(line) for line in file]

    def check_union(self, place, processes):
        events = self.events(place)
        finished = [event for event in events if event["event"] == "run_finished"]
        if len(finished) != processes or any(event["status"] != 0 for event in finished):
            raise Failed(f"{len(finished)} of {processes} processes wrote their last event")
        trials = {(e["problem"], e["candidate"]) for e in events if e["event"] == "trial" and e["outcome"] in STORED}
        choices = {(e["problem"], e["candidate"]) for e in events if e["event"] == "chosen"}
        if {problem for problem, _ in choices} != {e["problem"] for e in events if e["event"] == "problem_started"}:
            raise Failed("a problem is without a choice")
        if bad := [e for e in events if e["event"] == "trial" and e["outcome"] != "measured"]:
            raise Failed(f"a trial failed: {bad[0]}")
        db = sqlite3.connect(f"file:{place}/store/culet.sqlite?mode=ro", uri=True)
        stored = set(db.execute("SELECT problem, candidate FROM trials"))
        selected = dict(db.execute("SELECT problem, candidate FROM selections"))
        code = db.execute("SELECT count(*) FROM code").fetchone()[0]
        db.close()
        if lost := trials - stored:
            raise Failed(f"{len(lost)} trials lost, for example {sorted(lost)[0]}")
        if lost := {problem for problem, _ in choices} - set(selected):
            raise Failed(f"{len(lost)} choices lost, for example {sorted(lost)[0]}")
        env = {"CULET_CACHE": os.path.join(place, "store")}
        self.culet(["cache", "verify"], **env)
        again = json.loads(self.culet(["tune", *self.problems, *OPTIONS], **env).stdout)["counts"]
        if again["compiled"] or again["timed"]:
            raise Failed(f"the store did not answer everything: {again}")
        return len(trials), len(selected), code

    def run(self):
        count = self.options.processes
        many, one = self.place("many"), self.place("one")
        print(f"{count} processes, {len(self.problems)} problems each, {self.options.order} order, candidates "
              f"{' and '.join(self.kept)}", flush=True)
        together, cpu_together = self.tune(many, count)
        alone, cpu_alone = self.tune(one, 1)
        compiled, expected = self.compiles(many), self.compiles(one)
        if set(compiled) != set(expected) or not expected:
            raise Failed(f"not the same compiles: {len(compiled)} sources against {len(expected)}")
        most = max(compiled.values())
        twice = sum(times > 1 for times in compiled.values())
        trials, choices, code = self.check_union(many, count)
        waited = sum(e["event"] == "compilation" and e["from"] == "awaited" for e in self.events(many))
        ratio = together / alone
        print(f"  union: {trials} trials and {choices} choices, all kept; {code} kernels stored\n"
              f"  compiles: {sum(compiled.values())} of {len(compiled)} sources, at most {most} of one, {twice} more than once; "
              f"{waited} times another's was awaited\n"
              f"  time: {together:.1f} s together, {alone:.1f} s for one process alone, ratio {ratio:.2f}; CPU time "
              f"{cpu_together:.1f} and {cpu_alone:.1f} s", flush=True)
        if most > 2:
            raise Failed(f"a source was compiled {most} times")
        if ratio > self.options.ratio:
            raise Failed(f"all together took {ratio:.2f} times as long as one, more than {self.options.ratio}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--order", choices=("same", "own"), default="same")
    parser.add_argument("--ratio", type=float, default=1.3, help="how much longer they may take than one process")
    options = parser.parse_args()
    if options.processes < 1 or options.problems < 1:
        parser.error("--processes and --problems: at least 1")
    options.program = os.path.abspath(options.program)
    with tempfile.TemporaryDirectory(prefix="culet-processes-") as folder:
        try:
            Harness(options, folder).run()
        except (Failed, OSError) as failure:
            print(f"FAILED: {failure}", file=sys.stderr)
            return 1
    print("all of it holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
