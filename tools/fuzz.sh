#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target for some seconds, from the corpus in the tree, JOBS of them at a time. What it learns goes to
# FOLDER/corpus and is used the next time; an input that is a finding is named and kept in FOLDER. The inputs in the tree
# that are named by their hash are such, chosen to reach what all learned ones reach
# (-set_cover_merge=1 -use_counters=0; at most 199 files a target).
#
# SEED=N in the environment repeats a run as far as time allows; without it every run is another one.
#
#   tools/fuzz.sh FOLDER SECONDS JOBS [TARGET]
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$1
seconds=$2
jobs=$3

if [ $# -lt 4 ]; then
  printf '%s\n' problem exchange store device | xargs -P "$jobs" -n 1 tools/fuzz.sh "$folder" "$seconds" 1
  exit
fi

target=$4
learned=$folder/corpus/$target
mkdir -p "$learned"
log=$folder/fuzz_$target.log
if "$folder/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -max_len=65536 \
    ${SEED:+-seed="$SEED"} -artifact_prefix="$folder/finding-$target-" "$learned" "tests/fuzz/corpus/$target" >"$log" 2>&1; then
  echo "fuzz: $target: $(tail -1 "$log")"
else
  echo "fuzz: $target: FINDING, see $log" >&2
  tail -30 "$log" >&2
  exit 1
fi
