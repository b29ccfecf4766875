#!/usr/bin/env bash
# Everything that has to be on a machine before the project runs: `deploy/setup.sh venv DIR` makes a virtual
# environment with the locked packages and the project in it, `deploy/setup.sh packages` installs the Debian
# packages that the tests talk to. Both say first what is missing and which command brings it; root has that
# command run at once. Nothing here needs a home directory, and a second run does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*"; }

# apt_install PACKAGE...: install as root, or say what to type.
apt_install() {
  local command="apt-get install -y --no-install-recommends $*"
  say "missing: $*; needed: $command"
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    return 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  $command >/dev/null 2>&1 || { apt-get update -qq && $command >/dev/null; }
}

tools() {
  local missing=()
  if [ "$PYTHON" != python3 ] && ! command -v "$PYTHON" >/dev/null; then
    say "PYTHON=$PYTHON is no program: make PYTHON=/path/to/python3.11"
    exit 1
  fi
  command -v "$PYTHON" >/dev/null || missing+=(python3)
  "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
  command -v git >/dev/null || missing+=(git)
  if [ "${#missing[@]}" != 0 ]; then
    apt_install "${missing[@]}" || exit 1
  fi
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    say "$PYTHON is $("$PYTHON" -V), Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"
    exit 1
  }
}

# The stamp names the lock, the project's metadata and the folder, so a change of any of them installs anew.
stamp() { { cat requirements.lock pyproject.toml; pwd -P; } | sha256sum | cut -c1-16; }

venv() {
  local dir=$1 mark
  mark="$dir/.trunkline-$(stamp)"
  if [ -e "$mark" ] && [ -x "$dir/bin/python" ]; then
    return
  fi
  tools
  say "setting up $dir: a minute or three, once"
  "$dir/bin/python" -m pip --version >/dev/null 2>&1 || "$PYTHON" -m venv "$dir"  # also a half-made one
  export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1
  "$dir/bin/python" -m pip install --quiet --require-hashes -r requirements.lock
  "$dir/bin/python" -m pip install --quiet --no-deps --no-build-isolation -e .
  rm -f "$dir"/.trunkline-*
  touch "$mark"
}

# The list has one package and one command or file that it brings on each line.
packages() {
  local missing=() package command
  while read -r package command; do
    [ -f "$command" ] || command -v "$command" >/dev/null || missing+=("$package")
  done < <(grep -v '^#' tests/kit/debian-packages.txt)
  if [ "${#missing[@]}" = 0 ]; then
    return
  fi
  apt_install "${missing[@]}" || [ "${CI:-}" != true ] || exit 1
}

PYTHON=${PYTHON:-python3}
case "${1:-}" in
  venv) venv "${2:-.venv}" ;;
  packages) packages ;;
  *) say "usage: deploy/setup.sh venv DIR | packages"; exit 2 ;;
esac
