#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says what ctest's JUnit files hold: the skipped tests with their reasons, the failed ones, and a line of totals.

    tools/test_summary.py RESULTS.xml...

The last line reads "N passed, N failed, N skipped". Exit status 1 if any test failed or a file cannot be read.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree


def reason_of(output):
    """GoogleTest prints `file:line: Skipped` and then the message; other tests print a line that starts with SKIP."""
    lines = output.splitlines()
    for index, line in enumerate(lines):
        if line.rstrip().endswith(": Skipped") and index + 1 < len(lines):
            return lines[index + 1].strip()
        match = re.match(r"\s*SKIP(?:PED)?:?\s+(.*)", line)
        if match:
            return match.group(1).strip()
    return "no reason given"


def main(paths):
    passed, failed, skipped = 0, [], {}
    for path in paths:
        try:
            root = ElementTree.parse(path).getroot()
        except (OSError, ElementTree.ParseError) as error:
            print(f"test_summary: {path}: {error}", file=sys.stderr)
            return 1
        for case in root.iter("testcase"):
            status, name = case.get("status"), case.get("name")
            if status == "run":
                passed += 1
            elif status in ("notrun", "disabled"):
                output = case.findtext("system-out") or ""
                skip = case.find("skipped")
                message = skip.get("message", "") if skip is not None else ""
                if message and not message.startswith("SKIP_"):
                    # "Unable to find executable" and the like: a test that could not start has failed.
                    failed.append(f"{name} ({message})")
                else:
                    skipped.setdefault(reason_of(output), []).append(name)
            else:
                failed.append(name)
    print()
    for reason, names in sorted(skipped.items()):
        print(f"skipped {len(names)}: {reason}")
        print("    " + ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else ""))
    for name in failed:
        print(f"FAILED {name}")
    print(f"{passed} passed, {len(failed)} failed, {sum(map(len, skipped.values()))} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
