#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the packages of tools/packages.txt are there. Silent and quick (no network) where they are; elsewhere
# installs the missing ones with apt-get, as root or through sudo, or says in one line what is lacking.
#
#   tools/setup.sh            everything
#   tools/setup.sh PACKAGE... these as well
set -u
cd "$(dirname "$0")/.." || exit 1

wanted="$(sed -e 's/#.*//' tools/packages.txt) $*"

if ! command -v dpkg-query >/dev/null 2>&1; then
  lacking=""
  for tool in c++ cmake ninja python3; do
    command -v "$tool" >/dev/null 2>&1 || lacking="$lacking $tool"
  done
  [ -z "$lacking" ] && exit 0
  echo "setup: not a Debian system, and these are not found:$lacking (see tools/packages.txt)" >&2
  exit 1
fi

missing=""
for package in $wanted; do
  # The architecture-qualified and the plain form both count; "ii" is installed and configured.
  dpkg-query -W -f '${db:Status-Abbrev}\n' "$package" 2>/dev/null | grep -q '^[ih]i' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "setup: missing Debian packages, and neither root nor sudo to install them:$missing" >&2
    exit 1
  fi
  as_root="sudo"
fi

echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# shellcheck disable=SC2086  # word splitting is meant
if $as_root apt-get update >"$log" 2>&1 &&
   $as_root apt-get install -y --no-install-recommends $missing >>"$log" 2>&1; then
  rm -f "$log"
  exit 0
fi
tail -n 20 "$log" >&2
echo "setup: apt-get could not install:$missing (whole log in $log)" >&2
exit 1
