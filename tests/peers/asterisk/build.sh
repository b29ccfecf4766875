#!/usr/bin/env bash
# Unpack Debian's newest Asterisk (unstable; stable has none) into a folder of its own, once: about 350 MB and a
# minute. `build.sh DIR` says what is missing and ends with 1 where it cannot be had: no root, no network, no apt.
set -euo pipefail
root=$1/root
say() { printf 'asterisk: %s\n' "$*" >&2; }

[ -e "$1/ready" ] && exit 0
[ "$(id -u)" = 0 ] || { say "needs root, for chroot"; exit 1; }
command -v apt-get >/dev/null || { say "needs a Debian with apt-get"; exit 1; }
if ! command -v mmdebstrap >/dev/null; then
  say "needed: apt-get install -y --no-install-recommends mmdebstrap"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends mmdebstrap >/dev/null
fi
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -E '/debian/?$' | grep -v snapshot | sort -u | head -1)
[ -n "$mirror" ] || { say "no Debian mirror in the machine's sources"; exit 1; }
rm -rf "$root"
mkdir -p "$1"
say "unpacking into $root from $mirror"
mmdebstrap --quiet --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' \
  --aptopt='APT::Install-Recommends "false"' --include=ca-certificates,asterisk sid "$root" "$mirror"
for device in null zero random urandom; do
  [ -e "$root/dev/$device" ] || cp -a "/dev/$device" "$root/dev/"
done
touch "$1/ready"
