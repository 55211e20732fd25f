#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests that need a GPU without ctest, for a GPU machine where nothing is built: copy this and test_gpu there.
# Shards run beside each other on one device; those that compare times run alone, after them.
#
#   tools/gpu_tests.sh [TEST_GPU [FOLDER [SHARDS [SECONDS]]]]
#
# build/tests/test_gpu, a temporary folder for the logs, 8 shards, and 600 s for a shard if not told otherwise. Prints what
# failed and a line of counts; exit status 1 if anything did, if a shard did not end well, or if nothing passed.
set -u
binary=${1:-build/tests/test_gpu}
folder=${2:-$(mktemp -d)}
shards=${3:-8}
limit=${4:-600}
timing='CompileAhead.Hides*:Isolation.AWorkerTakesTheSame*:CudaRunner.TimesForReal'
usage() { echo "gpu_tests.sh: $1" >&2; exit 2; }
case $binary in */*) ;; *) binary=./$binary ;; esac
{ [ -f "$binary" ] && [ -x "$binary" ]; } || usage "no program '$binary'"
[ "$shards" -ge 1 ] 2>/dev/null || usage "'$shards' shards? a number of at least 1"
[ "$limit" -ge 1 ] 2>/dev/null || usage "'$limit' seconds? a number of at least 1"
mkdir -p "$folder" || exit 2
rm -f "$folder"/gpu_tests.*.log "$folder"/gpu_tests.*.status

run() { # NAME FILTER: status and log of a shard
  timeout "$limit" "$binary" --gtest_filter="$2" >"$folder/gpu_tests.$1.log" 2>&1
  echo $? >"$folder/gpu_tests.$1.status"
}
shard=0
while [ "$shard" -lt "$shards" ]; do
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard run "$shard" "-$timing" &
  shard=$((shard + 1))
done
wait
run timing "$timing"

result=0
for file in "$folder"/gpu_tests.*.status; do
  status=$(cat "$file")
  log=${file%.status}.log
  [ "$status" = 0 ] && continue
  result=1
  # That some test failed, status 1, is listed below.
  [ "$status" = 1 ] && grep -q '^\[  FAILED  \]' "$log" && continue
  echo "$log ended with status $status in $(grep '^\[ RUN' "$log" | tail -n 1): $(tail -n 1 "$log")"
done
count() { cat "$folder"/gpu_tests.*.log | grep -c "$1"; }
cat "$folder"/gpu_tests.*.log | grep '^\[  FAILED  \] .*ms)$'
passed=$(count '^\[       OK \]')
[ "$passed" -gt 0 ] || result=1
echo "$passed passed, $(count '^\[  FAILED  \] .*ms)$') failed, $(count '^\[  SKIPPED \] .*ms)$') skipped; logs in $folder"
exit $result
