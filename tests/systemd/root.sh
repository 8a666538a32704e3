#!/bin/bash
# Makes a Debian 12 root with systemd, once, into the cache, and prints where it is. Nobody may change what is in it: use it
# as the lower layer of an overlay. A minute and 300 MB. Needs root and apt.
#
#   root.sh        cache: $CI_CACHE, default /var/cache/k8s-certs-renew-ci
set -euo pipefail

cache=${CI_CACHE:-/var/cache/k8s-certs-renew-ci}/systemd
# python3 and openssl are for the stand-ins of a node
inside=(systemd systemd-sysv dbus python3 openssl)

mkdir -p "$cache"
exec 9>"$cache/lock" # two at once would spoil each other's files
flock 9
if [ "$(cat "$cache/complete" 2>/dev/null)" != "${inside[*]}" ]; then
  export DEBIAN_FRONTEND=noninteractive
  dpkg -s debootstrap >/dev/null 2>&1 || {
    apt-get update -qq
    apt-get install -y -qq debootstrap >/dev/null
  } >&2
  rm -rf "$cache/complete" "$cache/root"
  # Debian's archive as apt has it here
  # shellcheck disable=SC2016 # apt's own word
  archive=$(apt-get indextargets 'Created-By: Packages' 'Origin: Debian' 'Codename: bookworm' --format '$(REPO_URI)' | head -1)
  [ -n "$archive" ] || {
    echo "root.sh: apt knows no Debian archive here (apt-get indextargets names none of Origin: Debian, bookworm)" >&2
    exit 1
  }
  debootstrap --variant=minbase --include="$(IFS=,; echo "${inside[*]}")" bookworm "$cache/root" \
    "$archive" >"$cache/log" 2>&1 || {
    tail -5 "$cache/log" >&2
    echo "root.sh: debootstrap failed; see $cache/log" >&2
    exit 1
  }
  rm -rf "$cache"/root/var/cache/apt/archives/*.deb
  echo "${inside[*]}" >"$cache/complete"
fi
echo "$cache/root"
