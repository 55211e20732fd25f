#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Configures (once; CMake re-runs itself afterwards) and builds a preset.
#
#   tools/build.sh PRESET JOBS TARGET...
set -eu
cd "$(dirname "$0")/.."
preset=$1
jobs=$2
shift 2
case $preset in
  release) folder=build ;;
  *) folder=build-$preset ;;
esac

# One cache of compiled files for all checkouts: paths below this one do not count.
CCACHE_BASEDIR=$(pwd -P)
export CCACHE_BASEDIR CCACHE_NOHASHDIR=1

# A folder that was configured for another place (a moved or copied checkout) or left half-made is made anew.
if [ -f "$folder/CMakeCache.txt" ]; then
  if ! grep -q "^CMAKE_HOME_DIRECTORY:INTERNAL=$(pwd -P)\$" "$folder/CMakeCache.txt" ||
     [ ! -f "$folder/build.ninja" ]; then
    rm -rf "$folder"
  fi
fi
if [ ! -f "$folder/build.ninja" ]; then
  log=$(mktemp)
  if ! cmake --preset "$preset" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    exit 1
  fi
  rm -f "$log"
fi
exec cmake --build "$folder" --parallel "$jobs" --target "$@"
