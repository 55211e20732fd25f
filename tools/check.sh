#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every check that needs no build; all of them run even if an early one fails. (Compiler warnings are errors in every
# build, so `make build` and `make test` are the check for them.)
set -u
cd "$(dirname "$0")/.." || exit 1
status=0

tools/check_format.sh || status=1

# Every source file says its licence in its first lines.
without=$(git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cuh' '*.cu' '*.py' '*.sh' '*.cmake' \
  '*CMakeLists.txt' Makefile .ci/run | while read -r file; do
  [ -s "$file" ] && ! head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' && echo "$file"
done)
if [ -n "$without" ]; then
  echo "headers: FAILED, no SPDX line in:" $without >&2
  status=1
else
  echo "headers: every source file names its licence"
fi

python3 tools/check_layers.py || status=1
log=$(mktemp)
for tests in check_layers_test test_summary_test; do
  if python3 "tools/$tests.py" >"$log" 2>&1; then
    echo "tools: $(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' "$log") tests of $tests.py pass"
  else
    cat "$log" >&2
    status=1
  fi
done
rm -f "$log"
exit $status
