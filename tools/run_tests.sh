#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs ctest in a build folder, then says which tests were skipped and why, and ends with one line of totals.
#
#   tools/run_tests.sh FOLDER JOBS [ctest options]
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$1
jobs=$2
shift 2
results=$folder/ctest.xml
rm -f "$results"

# As in tools/build.sh: the install test compiles culet again, in another folder.
CCACHE_BASEDIR=$(pwd -P)
export CCACHE_BASEDIR CCACHE_NOHASHDIR=1

# Tests never see the user's settings or store.
for name in $(env | sed -n 's/^\(CULET_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done

# Of the address-sanitizer build: its leak checker crashes on the thread-local storage of a libgomp that was opened at
# run time (as oneDNN's is), so that storage is left out, and with it what hangs on nothing else (dlerror's last text).
export LSAN_OPTIONS="${LSAN_OPTIONS:-use_tls=0:print_suppressions=0:suppressions=$(pwd)/tools/lsan.supp}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-suppressions=$(pwd)/tools/tsan.supp}"

ctest --test-dir "$folder" --parallel "$jobs" --output-on-failure --no-tests=error --timeout 600 \
  --output-junit "$(pwd)/$results" "$@"
status=$?
python3 tools/test_summary.py "$results" || status=1
exit $status
