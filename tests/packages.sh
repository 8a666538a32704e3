#!/bin/bash
# What a release consists of, built by units/packages/build.sh and tried: `tests/packages.sh [CASE...]`, as root, on Debian 12.
# The static executable runs in an empty root and without newer system calls, man pages and completions agree with --help, the
# packages are installed into a Debian root, upgraded, removed and purged.
# The Debian root is kept in $CI_CACHE (default /var/cache/k8s-certs-renew-ci) and is the lower layer of an overlay only.
set -euo pipefail
# mounts of ours end with us
if [ -z "${OWN_MOUNTS:-}" ]; then OWN_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@"; fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
out=$PWD/target/packages
name=k8s-certs-renew
program=$out/$name
timer=$name.timer
work=$(mktemp -d)

leave() {
  umount -R "$work/overlay" 2>/dev/null || true
  rm -rf "$work"
}
trap leave EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

same() { # WHAT EXPECTED SEEN
  [ "$2" = "$3" ] || fail "$1: $(diff <(echo "$2") <(echo "$3") || true)"
}

tools() {
  local need=(musl-tools strace file lintian rpm zsh fish groff man-db bash-completion binutils openssl)
  dpkg -s "${need[@]}" >/dev/null 2>&1 && return
  apt-get update -qq
  apt-get install -y -qq "${need[@]}" >/dev/null
}

# A check that comes to a judgement, whichever: what is said is in $work/said.
judges() { # COMMAND...
  local code=0
  "$@" >"$work/said" 2>"$work/errors" || code=$?
  if [ "$code" -gt 3 ] || [ ! -s "$work/said" ] || grep -E 'panicked|^error' "$work/errors"; then
    fail "$* ended with $code: $(cat "$work/said" "$work/errors")"
  fi
}

# --- the executable

it_is_static_and_loads_nothing_at_run_time() {
  file -L "$program" | grep -E 'static(ally|-pie) linked' || fail "not static: $(file -L "$program")"
  if readelf -d "$program" | grep NEEDED; then fail "it needs a library"; fi
  # glibc's look-up of names and its character sets are loaded when they are used, static or not; neither is in it
  if grep -aoE 'nsswitch\.conf|libnss_|gconv-modules' "$program" | sort | uniq -c; then
    fail "it would load glibc's own libraries at run time"
  fi
}

# A node with an authority and a certificate.
node() { # DIR
  local pki=$1/etc/kubernetes/pki
  mkdir -p "$pki" "$1/etc/kubernetes/manifests"
  openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=kubernetes -keyout "$pki/ca.key" -out "$pki/ca.crt" 2>/dev/null
  openssl req -newkey rsa:2048 -nodes -subj /CN=kube-apiserver -keyout "$pki/apiserver.key" -out "$work/csr" 2>/dev/null
  openssl x509 -req -in "$work/csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 300 -out "$pki/apiserver.crt" 2>/dev/null
  cat >"$1/etc/kubernetes/manifests/kube-apiserver.yaml" <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: kube-apiserver, namespace: kube-system}
spec:
  containers:
  - name: kube-apiserver
    command: [kube-apiserver, --kubelet-client-certificate=/etc/kubernetes/pki/apiserver-kubelet-client.crt, --tls-cert-file=/etc/kubernetes/pki/apiserver.crt]
YAML
}

it_runs_where_nothing_else_is() {
  local empty=$work/empty
  mkdir -p "$empty"
  cp "$program" "$empty/"
  alone() { chroot "$empty" "/$name" "$@"; }
  same version "$name $(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)" "$(alone --version)"
  # a zone, since all of them are in the program
  alone calendar --timezone Europe/Berlin --at 2026-03-01T00:00:00Z 'Mon *-*-1,2,3,4,5,6,7 03:00:00' | tee "$work/said"
  grep -q '2026-03-02 03:00:00 CET' "$work/said" || fail "calendar does not know the zone"
  judges alone check
  node "$empty/node"
  judges alone check --root /node
  grep -E '^apiserver ' "$work/said" || fail "check sees no certificate: $(cat "$work/said")"
}

# Without the calls that came after Linux 3.10, and where a sandbox of an older systemd forbids them.
it_runs_without_newer_system_calls() {
  local calls=openat2,statx,close_range,pidfd_open,pidfd_send_signal,clone3,memfd_create,renameat2,getrandom,faccessat2,rseq,copy_file_range,execveat,preadv2,epoll_pwait2,io_uring_setup,futex_waitv,membarrier
  local error
  cargo build --quiet --locked --example demo
  mkdir -p "$work/demo/examples"
  cp target/debug/examples/demo "$work/demo/examples/"
  for error in ENOSYS EPERM; do
    cat >"$work/demo/$name" <<WRAPPER
#!/bin/sh
exec strace -f -qq -A -o "$work/calls.$error" -e trace=$calls -e inject=$calls:error=$error "$program" "\$@"
WRAPPER
    chmod +x "$work/demo/$name"
    # started by hand, the demo takes the program that lies beside it
    env -u CARGO "$work/demo/examples/demo" >"$work/said" 2>&1 || fail "the demo, with $error: $(cat "$work/said")"
    tail -1 "$work/said"
    echo "with $error: $(grep INJECTED "$work/calls.$error" | grep -o '[a-z0-9_]*(' | tr -d '(' | sort | uniq -c | tr -s ' \n' ' ')"
    # sandboxes that forbid know these two
    calls=${calls//memfd_create,renameat2,/}
  done
}

# --- man pages and completions

# The words of every command and of those below it, one command a line; the program itself is an empty line.
commands() { # WORD...
  local below
  echo "$*"
  for below in $("$program" "$@" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\).*/\1/p' | grep -vx help); do
    commands "$@" "$below"
  done
}

man_pages_agree_with_help() {
  local line page words expected seen
  expected=$(commands | sed "s/ /-/g; s/^./-&/; s/^/$name/; s/\$/.1/" | sort)
  same "pages and commands" "$expected" "$(cd "$stage/man" && find . -name '*.1.gz' -printf '%P\n' | sed 's/\.gz$//' | sort)"
  while read -r line; do
    read -ra words <<<"$line"
    page=$name${line:+-${line// /-}}.1
    expected=$("$program" "${words[@]}" --help | grep -oE '^(  -[a-zA-Z], |      )--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort -u)
    seen=$(MANWIDTH=120 man -l "$stage/man/$page.gz" | col -bx | grep -oE '^ {7}(-[a-zA-Z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort -u)
    [ -n "$seen" ] || fail "$page has no options"
    same "options in --help and in $page" "$expected" "$seen"
  done < <(commands)
  # every setting is an option of some command, and the reverse but for what is only typed
  expected=$(commands | while read -r line; do
    read -ra words <<<"$line"
    "$program" "${words[@]}" --help | grep -oE '^(  -[a-zA-Z], |      )--[a-z-]+' | grep -oE -- '--[a-z-]+'
  done | sort -u | grep -vxE -- '--(dry-run|force|at|root|yes|purge|help|version)' | sed 's/^--//; y/-/_/' | tr '[:lower:]' '[:upper:]' | sed 's/^/K8S_CERTS_RENEW_/')
  seen=$(MANWIDTH=200 man -l "$stage/man/$name.5.gz" | col -bx | sed -n 's/^ \{7\}\(K8S_CERTS_RENEW_[A-Z_]*\)$/\1/p' | sort -u)
  same "settings" "$(sort <<<"$expected")" "$seen"
  same "settings in the file" "$seen" "$(sed -n 's/^#\(K8S_CERTS_RENEW_[A-Z_]*\)=.*/\1/p' "$stage/default" | sort -u)"
}

man_pages_are_well_formed() {
  local page said
  for page in "$stage"/man/*; do
    said=$(zcat "$page" | groff -z -ww -man -Tutf8 2>&1)$(man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
    [ -z "$said" ] || fail "$page: $said"
  done
}

completions_complete() {
  local said
  bash -n "$stage/completions.bash"
  zsh -n "$stage/completions.zsh"
  fish -n "$stage/completions.fish"
  said=$(bash -c '
    source "$1"
    function=$(complete -p k8s-certs-renew | sed "s/.* -F \([^ ]*\) .*/\1/")
    complete_of() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); "$function" k8s-certs-renew "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[*]}"; }
    complete_of k8s-certs-renew che
    complete_of k8s-certs-renew kubelet ap
    complete_of k8s-certs-renew check --days
    complete_of k8s-certs-renew check --sort u' _ "$stage/completions.bash")
  same "bash completes" $'check\napprove\n--days-buffer\nurgency' "$said"
  said=$(fish -c "source $stage/completions.fish; complete -C 'k8s-certs-renew che'; complete -C 'k8s-certs-renew kubelet ap'; complete -C 'k8s-certs-renew check --sort u'" | cut -f 1)
  same "fish completes" $'check\napprove\nurgency' "$said"
}

# --- packages

deb_is_clean() {
  local said
  dpkg-deb --info "$deb"
  dpkg-deb --contents "$deb"
  said=$(lintian --allow-root --tag-display-limit 0 --fail-on error "$deb" 2>&1) || fail "lintian: $said"
  echo "lintian: ${said:-nothing}"
}

# A Debian root of our own, above the one in the cache: $merged.
fresh() {
  umount -R "$work/overlay" 2>/dev/null || true
  mkdir -p "$work/overlay"
  mount -t tmpfs tmpfs "$work/overlay"
  mkdir "$work/overlay/upper" "$work/overlay/work" "$work/overlay/merged"
  merged=$work/overlay/merged
  mount -t overlay overlay -o "lowerdir=$lower,upperdir=$work/overlay/upper,workdir=$work/overlay/work" "$merged"
}

inside() { chroot "$merged" "$@"; }

# Everything in it but what dpkg and rpm keep about themselves: mode, owner, links, contents.
listing() {
  (
    cd "$merged"
    find . \( -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/rpm -o -path ./run/systemd \) -prune -o \
      ! -path . ! -type f -printf '%P %M %U:%G %l\n' -o -type f -printf '%P %M %U:%G ' -exec sha256sum {} \; | sort
  )
}

# $deb as a later version, with another file of settings.
later() {
  local tree=$work/later
  rm -rf "$tree"
  dpkg-deb -R "$deb" "$tree"
  sed -i 's/^Version: .*/Version: 99.0-1/' "$tree/DEBIAN/control"
  echo "# of the later version" >>"$tree/etc/default/$name"
  dpkg-deb --root-owner-group -b "$tree" "$merged/later.deb" >/dev/null
}

is_enabled() { [ "$(inside systemctl is-enabled $timer)" = "$1" ] || fail "the timer is not $1"; }

installed() {
  cp "$deb" "$merged/$name.deb"
  inside dpkg -i /$name.deb
  rm "$merged/$name.deb"
}

# What a job that runs for years leaves.
used() {
  mkdir -p "$merged/var/lib/$name/backups/20260101T000000Z" "$merged/var/lib/systemd/timers" "$merged/srv"
  echo '{}' >"$merged/var/lib/$name/state.json"
  echo key >"$merged/var/lib/$name/backups/20260101T000000Z/apiserver.key"
  touch "$merged/run/$name.lock" "$merged/var/lib/systemd/timers/stamp-$timer"
  echo 'k8s_certs_renew_run_exit_code 0' >"$merged/srv/$name.prom"
  echo "K8S_CERTS_RENEW_TEXTFILE=/srv/$name.prom" >>"$merged/etc/default/$name"
}

deb_is_installed_and_purged_without_a_trace() {
  local before
  fresh
  mkdir -p "$merged/var/lib/systemd/timers"
  before=$(listing)
  installed
  is_enabled enabled
  inside $name --version
  inside systemd-analyze verify $timer $name.service
  judges inside $name check
  grep -q '^ExecStart=/usr/bin/' "$merged/usr/lib/systemd/system/$name.service"
  used
  inside dpkg -r $name
  [ ! -e "$merged/usr/bin/$name" ] || fail "the program is still there"
  [ ! -e "$merged/srv/$name.prom" ] || fail "metrics are left that nobody writes any more"
  grep -q TEXTFILE "$merged/etc/default/$name" || fail "a removal took the settings along"
  [ -e "$merged/var/lib/$name/state.json" ] || fail "a removal took the state along"
  inside dpkg -P $name
  same "before and after a purge" "$before" "$(listing)"
}

deb_is_upgraded() {
  fresh
  installed
  # an administrator's words: they stay
  echo 'K8S_CERTS_RENEW_DAYS_BUFFER=14' >>"$merged/etc/default/$name"
  inside systemctl disable $timer
  later
  inside dpkg --force-confdef --force-confold -i /later.deb
  is_enabled disabled
  grep -q 'DAYS_BUFFER=14' "$merged/etc/default/$name" || fail "the edited file of settings was replaced"
  grep -q 'later version' "$merged/etc/default/$name.dpkg-dist" || fail "the new one does not lie beside it"
  inside dpkg -P $name
  if ls "$merged/etc/default/$name"*; then fail "a purge left settings"; fi
  fresh
  installed
  later
  inside dpkg -i /later.deb
  is_enabled enabled
  grep -q 'later version' "$merged/etc/default/$name" || fail "the untouched file of settings was not replaced"
  # removed and installed again: as it was
  inside dpkg -r $name
  inside dpkg -i /later.deb
  is_enabled enabled
}

# kubespray's units, under our very names, in /etc.
deb_leaves_another_ones_timer_alone() {
  local before
  fresh
  printf '[Service]\nType=oneshot\nExecStart=/usr/local/bin/k8s-certs-renew.sh\n' >"$merged/etc/systemd/system/$name.service"
  printf '[Timer]\nOnCalendar=Mon *-*-1..7 03:00:00\n[Install]\nWantedBy=timers.target\n' >"$merged/etc/systemd/system/$timer"
  inside systemctl enable $timer
  mkdir -p "$merged/var/lib/systemd/timers"
  touch "$merged/var/lib/systemd/timers/stamp-$timer"
  before=$(listing)
  installed
  is_enabled enabled
  inside dpkg -P $name
  is_enabled enabled
  same "before and after, with kubespray's units" "$before" "$(listing)"
}

deb_waits_for_a_run() {
  local start=$SECONDS holder
  fresh
  installed
  touch "$merged/run/$name.lock"
  flock "$merged/run/$name.lock" sleep 3 &
  holder=$!
  sleep 0.5
  inside dpkg -P $name
  [ $((SECONDS - start)) -ge 2 ] || fail "the removal did not wait"
  wait "$holder"
}

# What a run has renewed and not restarted would be restarted by nobody.
deb_stays_while_something_is_owed() {
  local state
  fresh
  state=$merged/var/lib/$name/state.json
  mount --bind /proc "$merged/proc"
  installed
  mkdir -p "$merged/etc/kubernetes/manifests" "$(dirname "$state")"
  touch "$merged/etc/kubernetes/manifests/kube-apiserver.yaml"
  echo '{"version":1,"open":{"began":"2026-03-02T03:00:00Z","restart":["kube-scheduler"]}}' >"$state"
  ! inside dpkg -r $name || fail "the package went, though a restart is owed"
  inside $name --version
  is_enabled enabled
  rm "$state"
  inside dpkg -P $name
}

rpm_is_sound() {
  rpm -K --nosignature "$rpm"
  rpm -qpl "$rpm"
  rpm -qp --scripts "$rpm"
  same "what the rpm needs" "/bin/sh" "$(rpm -qp --requires "$rpm" | grep -vE '^(rpmlib|config)\(' | sort -u)"
  same "its configuration" "/etc/default/$name" "$(rpm -qpc "$rpm")"
}

rpm_is_installed_and_erased() {
  local before after
  fresh
  mkdir -p "$merged/var/lib/systemd/timers"
  before=$(listing)
  # no database of packages in there, so --nodeps
  in_root() { rpm --root "$merged" --dbpath /var/lib/rpm --nodeps "$@"; }
  in_root -i "$rpm"
  in_root -V $name
  # Debian's presets enable everything
  is_enabled enabled
  inside $name --version
  used
  in_root -e $name
  [ ! -e "$merged/srv/$name.prom" ] || fail "metrics are left that nobody writes any more"
  grep -q TEXTFILE "$merged/etc/default/$name.rpmsave" || fail "an edited file of settings was not kept"
  [ -e "$merged/var/lib/$name/state.json" ] || fail "an erasure took the state along"
  rm -r "$merged/var/lib/$name" "$merged/etc/default/$name.rpmsave" "$merged/var/lib/systemd/timers/stamp-$timer"
  # rpm leaves directories that no package owns
  after=$(listing | grep -vE "^[^ ]*(share|doc/|licenses/|site-functions|service.d|completions.d|fish|docs/|schema|monitoring|$name)[^ ]* drwx")
  same "before and after an erasure" "" "$(comm -13 <(echo "$before") <(echo "$after"))"
}

all=(
  it_is_static_and_loads_nothing_at_run_time it_runs_where_nothing_else_is it_runs_without_newer_system_calls
  man_pages_agree_with_help man_pages_are_well_formed completions_complete
  deb_is_clean deb_is_installed_and_purged_without_a_trace deb_is_upgraded deb_leaves_another_ones_timer_alone deb_waits_for_a_run deb_stays_while_something_is_owed
  rpm_is_sound rpm_is_installed_and_erased
)
tools
[ -n "${KEEP_PACKAGES:-}" ] || units/packages/build.sh
stage=$out/stage
deb=$(ls "$out"/*.deb)
rpm=$(ls "$out"/*.rpm)
lower=$(tests/systemd/root.sh)
if [ $# = 0 ]; then set -- "${all[@]}"; fi
for case in "$@"; do
  echo "--- ${case//_/ }"
  # its first failure ends the script
  "$case"
done
echo "all of it held"
