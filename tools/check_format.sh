#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# clang-format over every C++ file of the repository: says which files differ and fails, or with --fix rewrites them.
set -u
cd "$(dirname "$0")/.." || exit 1

if ! command -v clang-format >/dev/null 2>&1; then
  echo "format: SKIPPED, clang-format is not installed"
  exit 0
fi
files=$(git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cuh' '*.cu' | while read -r file; do
  [ -f "$file" ] && echo "$file"
done)
[ -n "$files" ] || exit 0

if [ "${1:-}" = --fix ]; then
  echo "$files" | xargs clang-format -i
  exit
fi
differing=$(echo "$files" | xargs clang-format --dry-run 2>&1 | sed -n 's/^\([^:]*\):\([0-9]*\):.*clang-format-violations.*/\1/p' | sort | uniq -c)
if [ -z "$differing" ]; then
  echo "format: $(echo "$files" | wc -l) files are formatted"
else
  echo "$differing" | sed 's/^ *\([0-9]*\) \(.*\)/\2: \1 places differ/' >&2
  echo "format: FAILED, run \`make format\`" >&2
  exit 1
fi
