#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the choices of a tuning run again, each in a fresh process beside the vendor library.

    benchmarks/recheck.py TUNED.json [--culet build/culet] [--device DEVICE] [--slack 0.02] [--against best|default]

TUNED.json is what `culet tune --format json` wrote. For each problem the chosen candidate and all vendor plans are timed in
one race by `culet bench`; a choice is slower if its time is above that of the vendor plan named by --against (the fastest
one, or the library's own first choice) by more than the slack and both intervals. Prints a line a problem with both ratios
and the geometric means; exit status 7 if any choice is slower.
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


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def default_us(chosen):
    """Time of the vendor's first choice, of a report's "chosen"; None where there is no vendor plan."""
    return chosen["vs_default"] * chosen["median_us"] if chosen["vs_default"] else None


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
    parser.add_argument("--against", choices=["best", "default"], default="best")
    args = parser.parse_args()
    with open(args.tuned, encoding="utf-8") as file:
        reports = json.load(file)["reports"]

    ratios, slower, alone = {"default": [], "best": []}, [], 0
    for report in reports:
        chosen = report["chosen"]
        if chosen is None:
            continue
        problem = report["problem"]
        wanted = candidate_text(chosen["steps"])
        try:
            again = bench(args.culet, problem, wanted, args.device)
        except RuntimeError as error:
            print(f"{problem:<36} {error}", flush=True)
            slower.append(problem)
            continue
        timed = [trial for trial in again["trials"] if trial["median_us"]]
        mine = next((trial for trial in timed if candidate_text(trial["steps"]) == wanted), None)
        vendors = [trial for trial in timed if trial["vendor"]]
        if mine is None:
            print(f"{problem:<36} {wanted.split('{')[0]}: not timed again", flush=True)
            slower.append(problem)
            continue
        if not vendors:
            print(f"{problem:<36} {wanted.split('{')[0]}: no vendor's plan to compare with", flush=True)
            alone += 1
            continue
        best = min(vendors, key=lambda trial: trial["median_us"])
        first_us = default_us(again["chosen"])
        plans = {"default": min(vendors, key=lambda trial: abs(trial["median_us"] - first_us)), "best": best}
        for name, plan in plans.items():
            ratios[name].append(plan["median_us"] / mine["median_us"])
        other = plans[args.against]
        noise = (mine["high_us"] - mine["median_us"]) + (other["median_us"] - other["low_us"])
        is_slower = mine["median_us"] > other["median_us"] * (1 + args.slack) + noise
        if is_slower:
            slower.append(problem)
        print(f"{problem:<36} {mine['median_us']:>10.2f} us  {ratios['default'][-1]:5.2f}x default  {ratios['best'][-1]:5.2f}x best  "
              f"{wanted.split('{')[0]}{'  SLOWER' if is_slower else ''}", flush=True)
    for name, values in ratios.items():
        if values:
            print(f"{len(values)} problems against the vendor's {name}: geometric mean {geometric_mean(values):.3f}x, worst {min(values):.3f}x")
    print(f"{len(slower)} slower than the vendor's {args.against} beyond {args.slack:.0%} and the intervals, or not timed again; {alone} without a vendor's plan")
    return 7 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
