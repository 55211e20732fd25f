#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests that need a GPU without ctest, for a GPU machine where nothing is built: copy this and test_gpu there.
# Shards run beside each other on one device; those that compare times run alone, after them.
#
#   tools/gpu_tests.sh [TEST_GPU [FOLDER [SHARDS]]]     build/tests/test_gpu, a temporary folder for the logs, 8
#
# Prints what failed and a line of counts; exit status 1 if anything did.
set -u
binary=${1:-build/tests/test_gpu}
folder=${2:-$(mktemp -d)}
shards=${3:-8}
timing='CompileAhead.Hides*:Isolation.AWorkerTakesTheSame*:CudaRunner.TimesForReal'
[ -x "$binary" ] || { echo "gpu_tests.sh: no program '$binary'" >&2; exit 2; }
[ "$shards" -ge 1 ] 2>/dev/null || { echo "gpu_tests.sh: '$shards' shards? a number of at least 1" >&2; exit 2; }
mkdir -p "$folder" || exit 2
rm -f "$folder"/*.log

shard=0
while [ "$shard" -lt "$shards" ]; do
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard "$binary" --gtest_filter="-$timing" >"$folder/$shard.log" 2>&1 &
  shard=$((shard + 1))
done
wait
"$binary" --gtest_filter="$timing" >"$folder/timing.log" 2>&1

# A shard that ends early has no last lines: its last test is what ended it.
status=0
for log in "$folder"/*.log; do
  if ! grep -q '^\[==========\] .* ran\.' "$log"; then
    echo "$log ended early, its last line: $(tail -n 1 "$log")"
    status=1
  fi
done
count() { cat "$folder"/*.log | grep -c "$1"; }
cat "$folder"/*.log | grep '^\[  FAILED  \] .*ms)$' && status=1
echo "$(count '^\[       OK \]') passed, $(count '^\[  FAILED  \] .*ms)$') failed, $(count '^\[  SKIPPED \] .*ms)$') skipped; logs in $folder"
exit $status
