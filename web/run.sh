#!/usr/bin/env bash
# Checks the types of the console and runs its journeys in Chromium, against TOLLGATE_BIN.
#
# Installs the npm packages of web/package-lock.json, and Chromium from Debian's packages if no
# CHROMIUM is set and /usr/bin/chromium is absent. With --install, it ends then.
set -euo pipefail
if [ -n "${TOLLGATE_BIN:-}" ]; then
  TOLLGATE_BIN=$(realpath "$TOLLGATE_BIN")
  export TOLLGATE_BIN
fi
cd "$(dirname "$0")"

say() { echo "console: $*" >&2; }

export CHROMIUM=${CHROMIUM:-/usr/bin/chromium}
if [ ! -x "$CHROMIUM" ]; then
  if ! command -v apt-get >/dev/null; then
    say "install Chromium and set CHROMIUM to its path"
    exit 1
  fi
  root=()
  if [ "$(id -u)" -ne 0 ]; then
    root=(sudo)
  fi
  say "installing chromium"
  "${root[@]}" apt-get update -qq >&2
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >&2
fi
if ! cmp -s package-lock.json node_modules/installed.json; then
  npm ci --ignore-scripts --no-audit --no-fund --silent
  cp package-lock.json node_modules/installed.json
fi
[ "${1:-}" != --install ] || exit 0
npm run --silent types
npm test --silent
