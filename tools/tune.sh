#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `make tune`: the decode GEMMs of real models on the best device here; where that is the CPU, a selection sized for it.
#
#   tools/tune.sh [SHAPES_FILE]
set -u
cd "$(dirname "$0")/.." || exit 1
culet=build/culet

if [ $# -gt 0 ]; then
  exec "$culet" tune --shapes "$1"
fi
# Exit status 5 is "no such device"; anything else is for the real run to report.
$culet tune 16x4096x4096:bf16 --device cuda --dry-run >/dev/null 2>&1
if [ $? = 5 ]; then
  echo "No CUDA device here: tuning a selection of shapes sized for the CPU (shapes/cpu.shapes)."
  exec "$culet" tune --shapes shapes/cpu.shapes --device cpu
fi
exec "$culet" tune --shapes shapes/llm-linear.shapes --device cuda
