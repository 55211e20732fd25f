#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the choices of a tuning run again, each in a fresh process beside the vendor library.

    benchmarks/recheck.py TUNED.json [--culet build/culet] [--device DEVICE] [--slack 0.02]

TUNED.json is what `culet tune --format json` wrote. For each problem the chosen candidate and all vendor plans are timed in
one race by `culet bench`; a choice is slower if its time is above the best vendor plan's by more than the slack and both
intervals. Prints a line a problem and the geometric means; exit status 7 if any choice is slower.
"""
import argparse
import json
import math
import subprocess
import sys


def candidate_text(steps):
    """The text form of a candidate, which `culet bench --candidate` reads."""
    parts = []
    for step in steps:
        config = " ".join(f"{key}={value}" for key, value in step["config"].items())
        part = "" if step["part"] == "all" else ":" + step["part"]
        parts.append(f"{step['backend']}{{{config}}}{part}")
    return " + ".join(parts)


def bench(culet, problem, candidate, device):
    command = [culet, "bench", problem, "--candidate", candidate, "--device", device, "--cache", "none", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}")
    return json.loads(done.stdout)["reports"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tuned")
    parser.add_argument("--culet", default="build/culet")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--slack", type=float, default=0.02)
    args = parser.parse_args()
    with open(args.tuned, encoding="utf-8") as file:
        reports = json.load(file)["reports"]

    ratios, slower = [], []
    for report in reports:
        chosen = report["chosen"]
        if chosen is None:
            continue
        wanted = candidate_text(chosen["steps"])
        try:
            again = bench(args.culet, report["problem"], wanted, args.device)
        except RuntimeError as error:
            print(f"{report['problem']:<36} {error}")
            slower.append(report["problem"])
            continue
        timed = [trial for trial in again["trials"] if trial["median_us"]]
        mine = next((trial for trial in timed if candidate_text(trial["steps"]) == wanted), None)
        others = [trial for trial in timed if trial is not mine and trial.get("vendor")]
        if mine is None or not others:
            print(f"{report['problem']:<36} {wanted.split('{')[0]}: nothing to compare with")
            continue
        best = min(others, key=lambda trial: trial["median_us"])
        ratio = best["median_us"] / mine["median_us"]
        noise = (mine["high_us"] - mine["median_us"]) + (best["median_us"] - best["low_us"])
        is_slower = mine["median_us"] > best["median_us"] * (1 + args.slack) + noise
        ratios.append(ratio)
        if is_slower:
            slower.append(report["problem"])
        print(f"{report['problem']:<36} {mine['median_us']:>10.2f} us  best other vendor plan {best['median_us']:>10.2f} us  "
              f"{ratio:5.2f}x  {wanted.split('{')[0]}{'  SLOWER' if is_slower else ''}")
    if ratios:
        print(f"{len(ratios)} problems, geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}x, "
              f"worst {min(ratios):.3f}x, {len(slower)} slower beyond {args.slack:.0%} and the intervals")
    return 7 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
