#!/bin/bash
# Builds what a release consists of, below target/packages: the static executable, a .deb and an .rpm with units, man pages,
# completions and settings. Needs a Rust toolchain with rustup, gcc and musl-gcc (Debian: musl-tools); cargo-deb and
# cargo-generate-rpm are built once, into $CI_CACHE (default /var/cache/k8s-certs-renew-ci).
#
#   units/packages/build.sh            all of it
#   units/packages/build.sh program    the static executable alone; prints where it is
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
triple=x86_64-unknown-linux-musl
tools=${CI_CACHE:-/var/cache/k8s-certs-renew-ci}/tools
cargo_deb=3.8.0
cargo_generate_rpm=0.21.1
out=target/packages
stage=$out/stage
name=k8s-certs-renew

# With musl, not a static glibc. glibc (2.34 and later) makes threads by clone3, and gives up where that is forbidden rather than
# unknown: by the service's own SystemCallFilter= under a systemd that is older than the call, as RHEL 8's and Debian 10's.
# --target, so that the flag does not reach what cargo itself loads while it builds.
program() {
  command -v musl-gcc >/dev/null || { echo "build.sh: musl-gcc is missing (Debian: apt-get install musl-tools)" >&2; exit 69; }
  rustup target list --installed | grep -qx $triple || rustup target add $triple 1>&2
  RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target $triple --bin $name 1>&2
  program=${CARGO_TARGET_DIR:-target}/$triple/release/$name
}

tool() { # NAME VERSION
  [ -x "$tools/bin/$1" ] && grep -q "^\"$1 $2 " "$tools/.crates.toml" && return
  cargo install --locked --quiet --version "$2" --root "$tools" "$1"
}

# What packages hold beside the program, as it is to be installed.
staged() {
  local shell page
  rm -rf "$stage"
  mkdir -p "$stage/units"
  cargo run --quiet --locked --example man "$stage/man"
  mv "$stage/man/default" "$stage/default"
  for page in "$stage"/man/*; do gzip -9n "$page"; done
  for shell in bash zsh fish; do "$program" completions $shell >"$stage/completions.$shell"; done
  sed "s#^ExecStart=/usr/local/bin/#ExecStart=/usr/bin/#" units/$name.service >"$stage/units/$name.service"
  cp units/$name.timer "$stage/units/"
  gzip -9nc CHANGELOG.md >"$stage/changelog.gz"
  # Debian's own form, for what wants to know which version of the package this is
  local version
  version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
  printf '%s (%s-1) stable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' $name "$version" \
    "$(sed -n 's/^maintainer = "\(.*\)"/\1/p' Cargo.toml)" "$(LC_ALL=C date -Rud "@$SOURCE_DATE_EPOCH")" >"$stage/changelog.Debian"
}

packages() {
  tool cargo-deb $cargo_deb
  tool cargo-generate-rpm $cargo_generate_rpm
  # both replace target/release by this directory
  PATH=$tools/bin:$PATH
  cargo deb --quiet --no-build --no-strip --target $triple --output "$out/" >/dev/null
  cargo generate-rpm --target $triple --payload-compress gzip --auto-req no --output "$out/"
}

program
if [ "${1:-}" = program ]; then
  echo "$program"
  exit
fi
# a package that is built twice from the same commit is the same
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
rm -rf "$out"
mkdir -p "$out"
staged
packages
install -m 755 "$program" "$out/$name"
(cd "$out" && sha256sum -- k8s-certs-renew* >SHA256SUMS && cat SHA256SUMS)
