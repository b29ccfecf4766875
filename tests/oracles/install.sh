#!/usr/bin/env bash
# Fetch what `make oracles` runs into a folder: npm packages by their lock, Python ones by their hashes, each
# into an environment of its own. What cannot be had is said, and its tests are skipped.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1
mkdir -p "$dir"

fetch() {
  local name=$1 mark=$2; shift 2
  local wanted=$dir/$name/.fetched
  if [ "$(cat "$wanted" 2>/dev/null)" = "$mark" ]; then return; fi
  rm -rf "${dir:?}/$name" && mkdir -p "$dir/$name"
  if "$@" "$dir/$name" >"$dir/$name.log" 2>&1; then
    echo "$mark" >"$wanted"
  else
    echo "SKIPPED: $name could not be had: $(tail -n 1 "$dir/$name.log")"
    rm -rf "${dir:?}/$name"
  fi
}

by_npm() {
  command -v npm >/dev/null || { echo "npm is not installed"; return 1; }
  cp "$here/package.json" "$here/package-lock.json" "$1"
  cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
}

by_pip() {
  "${PYTHON:-python3}" -m venv "$2" && "$2/bin/pip" install -q --require-hashes --no-deps -r "$here/$1.txt"
}

mark_of() { cat "$@" | sha256sum | cut -d' ' -f1; }

fetch npm "$(mark_of "$here/package-lock.json")" by_npm
for name in "$here"/requirements-*.txt; do
  name=$(basename "$name" .txt)
  fetch "${name#requirements-}" "$(mark_of "$here/$name.txt")" by_pip "$name"
done
