# shellcheck shell=bash
# A control-plane node in a container with a systemd of its own: how it is made, booted, asked and taken down, and what can be
# asserted of it. Sourced by systemd.sh, which sets `debian`.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cluster_cache=${CLUSTER_CACHE:-/var/cache/k8s-cluster}
service=k8s-certs-renew.service timer=k8s-certs-renew.timer
name=k8scr$$ # of the machine and of its network
address=192.0.2.10
kubernetes=/etc/kubernetes pki=/etc/kubernetes/ssl
leaves=(admin.conf apiserver apiserver-kubelet-client controller-manager.conf front-proxy-client scheduler.conf)
components=(kube-apiserver kube-controller-manager kube-scheduler)
network=/run/netns/$name binds=() # of the container: where it is, and nspawn's options for what it shares
nspawn='' leader='' # process ids: of systemd-nspawn, and of the container's systemd

# --- the layers that a container is made of: Debian, the node's files, and what becomes of both

# Everything is in memory, and gone with one mount. Sets `work`, `root`, `files` (where the node's files are), `console`.
make_work() {
  work=$(mktemp -d /tmp/k8s-certs-renew-systemd.XXXXXX)
  mount -t tmpfs -o mode=755 k8s-certs-renew "$work"
  mkdir "$work"/{node,upper,scratch,root}
  root=$work/root console=$work/console files=$root
}

mount_root() { # UPPER LOWER...: the layers, the uppermost first
  local upper=$1
  shift
  rm -rf "$work/scratch"
  mkdir -p "$upper" "$work/scratch"
  mount -t overlay k8s-certs-renew -o "lowerdir=$(IFS=: && echo "$*"),upperdir=$upper,workdir=$work/scratch" "$root"
}

# The node's own layer: kubeadm's files as kubespray has them made, with CAs a year old and leaves that end in five days; the
# stand-ins of node.py; journals that outlive a boot; and the directory of timers' stamps, as there are no other timers.
make_node_layer() {
  local phase tool unit
  # shellcheck disable=SC2154 # systemd.sh's
  mount_root "$work/node" "$debian"
  echo node1 >"$root/etc/hostname"
  printf '127.0.0.1 localhost\n%s node1\n' $address >"$root/etc/hosts"
  mkdir -p "$root"{$pki,/var/lib/kubelet,/var/lib/systemd/timers,/var/log/journal,/usr/local/bin,/usr/local/lib,/root/.kube}
  ln -s $pki "$root$kubernetes/pki"
  install -m 755 "$cluster_cache/bin/kubeadm" "$root/usr/local/bin/"
  install -m 755 "$here/node.py" "$root/usr/local/lib/"
  for tool in crictl docker; do ln -s /usr/local/lib/node.py "$root/usr/local/bin/$tool"; done
  cat >"$root/etc/systemd/system/kubelet.service" <<'UNIT'
[Service]
ExecStart=@/usr/bin/python3 kubelet /usr/local/lib/node.py kubelet --config=/var/lib/kubelet/config.yaml
[Install]
WantedBy=multi-user.target
UNIT
  printf '%s\n' 'kind: KubeletConfiguration' 'rotateCertificates: true' \
    'containerRuntimeEndpoint: unix:///run/containerd/containerd.sock' >"$root/var/lib/kubelet/config.yaml"
  for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer e2scrub_reap.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit" # what is none of the test's business
  done
  ln -s ../kubelet.service "$root/etc/systemd/system/multi-user.target.wants/"
  cat >"$root$kubernetes/kubeadm-config.yaml" <<YAML
apiVersion: kubeadm.k8s.io/v1beta2
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: $address, bindPort: 6443}
nodeRegistration: {name: node1, criSocket: /run/containerd/containerd.sock}
---
apiVersion: kubeadm.k8s.io/v1beta2
kind: ClusterConfiguration
kubernetesVersion: v1.20.2
certificatesDir: $pki
controlPlaneEndpoint: "$address:6443"
etcd: {external: {endpoints: ["https://$address:2379"], caFile: $pki/ca.crt, certFile: $pki/apiserver.crt, keyFile: $pki/apiserver.key}}
YAML
  /usr/bin/python3 "$here/../e2e/pki.py" authorities "$root$pki" ca front-proxy-ca
  for phase in "certs all" "kubeconfig all" "control-plane all"; do
    # shellcheck disable=SC2086 # two words
    chroot "$root" kubeadm init phase $phase --config $kubernetes/kubeadm-config.yaml >"$work/kubeadm.log" 2>&1 ||
      { cat "$work/kubeadm.log" && return 1; }
  done
  age 5
  # as kubespray leaves them: owned by another user, who is not root
  chroot "$root" useradd --system --no-create-home kube
  chroot "$root" chown -R kube $kubernetes
  umount "$root"
}

# Re-issues what kubeadm renews so that it ends in DAYS days. What runs does not know of it: these are files put back.
age() { # DAYS
  local file paths=()
  for file in apiserver apiserver-kubelet-client front-proxy-client; do paths+=("$root$pki/$file.crt"); done
  for file in admin controller-manager scheduler; do paths+=("$root$kubernetes/$file.conf"); done
  /usr/bin/python3 "$here/../e2e/pki.py" reissue "$root$pki" "$1" "${paths[@]}"
  install -m 600 "$root$kubernetes/admin.conf" "$root/root/.kube/config"
}

# --- the container

# Makes a fresh root for a container, which is not booted yet.
fresh() {
  take_down
  rm -rf "$work/upper"
  mount_root "$work/upper" "$work/node" "$debian"
}

boot() {
  setsid systemd-nspawn --quiet --directory="$root" --machine="$name" --hostname=node1 --boot --register=no --keep-unit \
    --network-namespace-path="$network" --resolv-conf=off --timezone=off "${binds[@]}" >"$console" 2>&1 </dev/null &
  nspawn=$!
  echo $nspawn >"$work/nspawn"
  within 20 find_leader || fail "systemd-nspawn starts no container: $(tail -5 "$console")"
  within 60 booted || fail "the container does not come up ($(inside systemctl is-system-running 2>&1)): $(tail -5 "$console")"
}

# A network with an address beside loopback, and nobody else in it.
make_network() {
  ip netns add "$name"
  ip -n "$name" link set lo up
  ip -n "$name" address add $address/32 dev lo
}

# The container's first process is nspawn's only child.
find_leader() {
  leader=$(cat "/proc/$nspawn/task/$nspawn/children")
  leader=${leader%% *}
  [ -n "$leader" ] && [ "$(cat "/proc/$leader/comm")" = systemd ]
}

booted() { [[ $(inside systemctl is-system-running 2>/dev/null) =~ ^(running|degraded)$ ]]; }

# Runs a command in the container, as one would at its console.
inside() {
  nsenter --target "$leader" --all --root --wd env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/root LANG=C "$@"
}

# Shuts the container down as a machine is.
shut_down() {
  kill -RTMIN+4 "$leader"
  within 30 nspawn_ended || fail "the container does not shut down: $(tail -5 "$console")"
  rm "$work/nspawn"
  leader='' nspawn=''
}

nspawn_ended() { ! find_leader; }

# Removes the container, whatever state it is in and whoever of this script's shells has booted it, and the cluster.
take_down() {
  nspawn=$(cat "$work/nspawn" 2>/dev/null || true)
  if [ -n "$nspawn" ] && find_leader 2>/dev/null; then
    kill -KILL "$leader" # all of it ends with its first process
    within 10 nspawn_ended || echo "the container does not end: process $leader" >&2
  fi
  rm -f "$work/nspawn"
  leader='' nspawn=''
  if [ -e "$work/cluster" ]; then # the scenario of the real cluster has begun
    "$here/../e2e/cluster.sh" down
    rm "$work/cluster"
  fi
  ! mountpoint -q "$root" || umount "$root"
}

clean_up() {
  if [ -z "${work:-}" ]; then return; fi
  take_down
  [ ! -e "/run/netns/$name" ] || ip netns del "$name"
  umount "$work"
  rmdir "$work"
}

# --- what a scenario does

within() { # SECONDS CMD...
  local end=$((SECONDS + $1))
  shift
  until "$@" 2>/dev/null; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

write() { # FILE of the container, from stdin
  mkdir -p "$(dirname "$root$1")"
  cat >"$root$1"
}

drop_in() { # UNIT LINE...
  local unit=$1
  shift
  printf '%s\n' "$@" | write "/etc/systemd/system/$unit.d/90-test.conf"
  inside systemctl daemon-reload
}

# A stand-in for kubeadm, from stdin; the real one is beside it as kubeadm.real.
other_kubeadm() {
  [ -e "$root/usr/local/bin/kubeadm.real" ] || mv "$root/usr/local/bin/kubeadm" "$root/usr/local/bin/kubeadm.real"
  write /usr/local/bin/kubeadm
  chmod 755 "$root/usr/local/bin/kubeadm"
}

real_kubeadm() { mv "$root/usr/local/bin/kubeadm.real" "$root/usr/local/bin/kubeadm"; }

# The timer fires in so many seconds, once an hour: as OnCalendar has it.
hourly_in() { # SECONDS
  echo "OnCalendar=*-*-* *:$(date -u -d "+$1 seconds" +%M:%S)"
}

# --- what is asked

property() { inside systemctl show --value -p "$2" "$1"; } # UNIT NAME

is() { [[ $(property "$1" "$2") =~ ^($3)$ ]]; } # UNIT NAME REGEX

journal() { inside journalctl --quiet --output cat "$@"; }

serial() { # NAME
  case $1 in
    *.conf) sed -n 's/^ *client-certificate-data: //p' "$files$kubernetes/$1" | base64 -d ;;
    *) cat "$files$pki/$1.crt" ;;
  esac | openssl x509 -noout -serial
}

serials() {
  local leaf
  for leaf in "${leaves[@]}"; do echo "$leaf $(serial "$leaf")"; done
}

# One line a component: its sandbox.
sandboxes() {
  inside crictl pods -o json | /usr/bin/python3 -c '
import json, sys
for item in sorted(json.load(sys.stdin)["items"], key=lambda item: item["metadata"]["name"]): print(item["metadata"]["name"], item["id"])'
}

# Everything on the disk of the node, with owners, modes, links and contents; but for logs.
listing() {
  (
    cd "$root" || exit
    local skip=(-path ./var/log/journal -o -path './var/tmp/systemd-private-*' -o -path ./run)
    find . -xdev \( "${skip[@]}" \) -prune -o -printf '%p %y %m %u:%g %l\n'
    find . -xdev \( "${skip[@]}" \) -prune -o -type f -exec sha256sum {} +
  ) | sort
}

node_runs() { [ "$(sandboxes | wc -l)" = 3 ] && [[ $(inside crictl ps -o json) == *CONTAINER_RUNNING* ]]; }

# --- assertions: each ends the scenario with a line that says what was expected

fail() {
  echo "FAILED: $*" >&2
  if [ -n "$leader" ]; then
    inside systemctl --no-pager --lines=0 status $service $timer || true
    journal -u $service | tail -40
  fi >&2
  exit 1
}

equal() { # WHAT EXPECTED ACTUAL
  [ "$2" = "$3" ] || fail "$1: expected '$2', is '$3'"
}

has() { # UNIT NAME REGEX: at once
  is "$@" || fail "$2 of $1: expected '$3', is '$(property "$1" "$2")'"
}

becomes() { # SECONDS UNIT NAME REGEX
  within "$1" is "${@:2}" || fail "$3 of $2: expected '$4' within $1 s, is '$(property "$2" "$3")'"
}

journal_says() { # WORDS
  [[ $(journal -u $service) == *"$1"* ]] || fail "the journal does not say '$1'"
}

journal_says_not() { # REGEX
  local found
  found=$(journal -u $service | { grep -Ei -- "$1" || true; })
  [ -z "$found" ] || fail "the journal says: $found"
}

# The disk is as it was, but for files whose path the pattern is in.
as_before() { # LISTING [PATTERN]
  local now
  now=$(listing)
  diff <(grep -vE "${2:-^$}" <<<"$1") <(grep -vE "${2:-^$}" <<<"$now") || fail "the disk is not as it was (see above)"
}

# Every leaf is another one than it was, and the pods run in other sandboxes.
renewed() { # SERIALS SANDBOXES: as they were
  local leaf component now
  now=$(serials)
  for leaf in "${leaves[@]}"; do
    [ "$(grep "^$leaf " <<<"$1")" != "$(grep "^$leaf " <<<"$now")" ] || fail "$leaf is not renewed"
  done
  now=$(sandboxes)
  for component in "${components[@]}"; do
    [ "$(grep "^$component-" <<<"$2")" != "$(grep "^$component-" <<<"$now")" ] || fail "$component is not restarted"
  done
  cmp -s "$files$kubernetes/admin.conf" "$files/root/.kube/config" || fail "/root/.kube/config is not the new admin.conf"
}
