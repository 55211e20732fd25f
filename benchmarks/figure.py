#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The culet authors
"""Draws results of `culet tune --format json` as an SVG: a row for each file, a dot for each problem.

    figure.py -o figure.svg "decode=results/decode.json" "prefill=results/prefill.json" "odd=suites.json#odd" ...

FILE#SUITE is one suite of a file of suites.py.

A dot is the time of cuBLASLt's fastest heuristic over that of the best own kernel of the same race (right of 1.0: ours is
faster), the tick their geometric mean. Standard library only.
"""
import argparse
import json
import math
import sys

from suites import times_of

LEFT, RIGHT, TOP, ROW, WIDTH = 210, 40, 54, 40, 860
LOW, HIGH = 0.78, 3.0


def ratios(path):
    """Of each problem that both sides were timed for: (ratio, problem text)."""
    path, _, suite = path.partition("#")
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    if suite:
        data = next((each["report"] for each in data["suites"] if each["name"] == suite), None)
        if data is None:
            raise ValueError(f"no suite '{suite}'")
    found = []
    for report in data["reports"]:
        times = times_of(report)
        if times["best"] and times["own"]:
            found.append((times["best"] / times["own"], report["problem"]))
    return found


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def place(ratio):
    within = math.log(min(max(ratio, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return LEFT + within * (WIDTH - LEFT - RIGHT)


def draw(rows):
    height = TOP + ROW * len(rows) + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">time of cuBLASLt\'s best heuristic / time of the best own kernel</text>',
        f'<text x="{LEFT}" y="40" fill="#555">a dot is a problem (beyond 3 at 3), the tick a geometric mean; right of 1.0 ours is faster</text>',
    ]
    bottom = TOP + ROW * len(rows)
    for mark in (0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 2.5, 3.0):
        x = place(mark)
        color, width = ("#333", 1.5) if mark == 1.0 else ("#ddd", 1)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{color}" stroke-width="{width}"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{mark:.1f}</text>')
    for index, (name, found) in enumerate(rows):
        y = TOP + ROW * index + ROW / 2
        mean = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
        out.append(f'<text x="{LEFT - 12}" y="{y - 1:.1f}" text-anchor="end">{escape(name)}</text>')
        out.append(f'<text x="{LEFT - 12}" y="{y + 14:.1f}" text-anchor="end" fill="#555">{mean:.3f}, {len(found)} problems</text>')
        for number, (ratio, problem) in enumerate(sorted(found)):
            offset = (number % 3 - 1) * 6
            color = "#1b7837" if ratio >= 1 else "#b2182b"
            out.append(f'<circle cx="{place(ratio):.1f}" cy="{y + offset:.1f}" r="3.6" fill="{color}" fill-opacity="0.6">'
                       f'<title>{escape(problem)}: {ratio:.3f}</title></circle>')
        x = place(mean)
        out.append(f'<line x1="{x:.1f}" y1="{y - 15:.1f}" x2="{x:.1f}" y2="{y + 15:.1f}" stroke="black" stroke-width="2.5"/>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("rows", nargs="+", metavar="NAME=FILE")
    arguments = parser.parse_args()
    rows = []
    for row in arguments.rows:
        name, equals, path = row.partition("=")
        if not equals:
            sys.exit(f"figure.py: '{row}': NAME=FILE is expected")
        try:
            found = ratios(path)
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            sys.exit(f"figure.py: {path}: not a report of culet: {error}")
        if not found:
            sys.exit(f"figure.py: {path}: no problem was timed on both sides")
        rows.append((name, found))
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(draw(rows))


if __name__ == "__main__":
    main()
