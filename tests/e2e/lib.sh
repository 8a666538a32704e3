# shellcheck shell=bash
# What a test asks of a real node, and how it says what it found. Sourced by run.sh, ha.sh and measure.sh.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
node=1 # the one that is asked, of several
program='' logs='' # the one under test, and where what it says is kept: the caller's
output=/dev/null # what the program's last run has said
components=(kube-apiserver kube-controller-manager kube-scheduler)

# Sets what depends on where etcd runs, see cluster.sh, which the environment tells it too: ETCD, `pki`, `leaves`.
variant() { # host|stacked
  export ETCD=$1
  leaves=(admin.conf apiserver apiserver-kubelet-client controller-manager.conf front-proxy-client scheduler.conf)
  case $1 in
    host) pki=/etc/kubernetes/ssl ;;
    stacked)
      pki=/etc/kubernetes/pki
      leaves+=(apiserver-etcd-client etcd-healthcheck-client etcd-peer etcd-server)
      ;;
    *) fail "ETCD is 'host' or 'stacked', not '$1'" ;;
  esac
}

on_node() { "$here/cluster.sh" exec -n "$node" "$@"; }

# Runs the program on the node and demands its exit code.
run() { # CODE ARG...
  local expected=$1 code=0
  shift
  on_node "$program" "$@" >"$output" 2>&1 </dev/null || code=$?
  ended "$expected" "$code" "$@"
}

ended() { # EXPECTED CODE ARG...
  local expected=$1 code=$2
  shift 2
  printf '$ k8s-certs-renew %s\n%s\n(exit %s)\n' "$*" "$(cat "$output")" "$code"
  equal "exit code of k8s-certs-renew $*" "$expected" "$code"
}

within() { # SECONDS CMD...
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

# By the kernel's word (adjtimex(2)): the largest error is below 16 seconds.
clock_is_synchronised() {
  /usr/bin/python3 -c '
import ctypes, struct, sys
timex = ctypes.create_string_buffer(512)
ctypes.CDLL(None).adjtimex(timex)
sys.exit(struct.unpack_from("@IlllIlllll", timex)[3] >= 16_000_000)'
}

# --- what is on disk

# Where a leaf of the PKI is, without its ending.
stem() { # NAME
  case $1 in
    etcd-*) echo "$pki/etcd/${1#etcd-}" ;;
    *) echo "$pki/$1" ;;
  esac
}

# The certificate of a leaf or the one inside a kubeconfig, as PEM.
leaf() { # NAME [KUBECONFIG]
  case $1 in
    *.conf) on_node sed -n 's/^ *client-certificate-data: //p' "${2:-/etc/kubernetes/$1}" | base64 -d ;;
    *) on_node cat "$(stem "$1").crt" ;;
  esac
}

serial() { # NAME [KUBECONFIG]
  leaf "$@" | openssl x509 -noout -serial
}

# One line a leaf: its name and serial.
serials() {
  local name
  for name in "${leaves[@]}"; do echo "$name $(serial "$name" 2>/dev/null || echo unreadable)"; done
}

days_left() { # NAME
  local end
  end=$(leaf "$1" | openssl x509 -noout -enddate)
  echo $((($(date -d "${end#*=}" +%s) - $(date +%s)) / 86400))
}

# The public key of a leaf's certificate and that of its private key.
public_keys() { # NAME
  leaf "$1" | openssl x509 -noout -pubkey | sha256sum
  case $1 in
    *.conf) on_node sed -n 's/^ *client-key-data: //p' "/etc/kubernetes/$1" | base64 -d ;;
    *) on_node cat "$(stem "$1").key" ;;
  esac | openssl pkey -pubout | sha256sum
}

# Seconds since boot at which a file of the node was written.
written() { # FILE
  awk -v file="$(on_node stat -c %.Y "$1")" -v now="$(date +%s.%N)" -v up="$(cut -d' ' -f1 /proc/uptime)" \
    'BEGIN { printf "%.2f\n", up - (now - file) }'
}

# Everything that a run may change: content, mode, owner and time of each file, and which pods run.
state() {
  # shellcheck disable=SC2016 # for the node's shell
  on_node sh -c 'cd / && find etc/kubernetes root/.kube -printf "%p %M %U %G %T@ %l\n" | sort
    find etc/kubernetes root/.kube -type f -exec sha256sum {} + | sort'
  for component in "${components[@]}"; do echo "$component $(sandbox "$component")"; done
  echo "etcd $(container etcd)"
}

# --- what runs

# Ids of a component's sandboxes that run; one, when all is well.
sandbox() { # COMPONENT
  on_node crictl pods --name "^$1-node$node\$" --namespace '^kube-system$' --state ready -q
}

# Names a sandbox, whatever its state.
sandbox_exists() { # ID
  on_node crictl pods -q | grep -qx "$1"
}

# Id of a component's container that runs.
container() { on_node crictl ps --name "^$1\$" -q; } # COMPONENT

process() { # COMPONENT -> its pid
  on_node crictl inspect "$(container "$1")" |
    /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["info"]["pid"])'
}

# Seconds since boot at which a component's process started.
started() { # COMPONENT
  local pid stat
  pid=$(process "$1")
  stat=$(cat "/proc/$pid/stat")
  read -ra stat <<<"${stat##*) }"
  awk -v ticks="${stat[19]}" -v hertz="$(getconf CLK_TCK)" 'BEGIN { printf "%.2f\n", ticks / hertz }'
}

served_serial() { # PORT
  on_node openssl s_client -connect "127.0.0.1:$1" </dev/null 2>/dev/null | openssl x509 -noout -serial
}

readyz() { on_node curl -sk -o /dev/null -w '%{http_code}' --max-time 5 https://127.0.0.1:6443/readyz; }

# When a component last renewed its leader lease: proof that its credential is accepted.
lease() { # COMPONENT
  on_node kubectl --kubeconfig /etc/kubernetes/admin.conf --namespace kube-system get lease "$1" -o 'jsonpath={.spec.renewTime}'
}

# --- assertions: each ends the scenario with a line that says what was expected

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

equal() { # WHAT EXPECTED ACTUAL
  [ "$2" = "$3" ] || fail "$1: expected '$2', is '$3'"
}

unchanged() { # BEFORE (of `state`)
  local now
  now=$(state)
  [ "$1" = "$now" ] || fail "something changed:"$'\n'"$(diff <(echo "$1") <(echo "$now"))"
}

says() { # FILE WORDS
  grep -qF -- "$2" "$1" || fail "the output does not say '$2'"
}

says_not() { # FILE WORDS
  ! grep -qF -- "$2" "$1" || fail "the output says '$2'"
}

# New serial, a year left, a key that matches.
renewed() { # BEFORE (of `serials`) NAME...
  local before=$1 name
  shift
  for name in "$@"; do
    local old new days
    old=$(sed -n "s/^$name //p" <<<"$before")
    new=$(serial "$name") || fail "$name cannot be read"
    [ "$old" != "$new" ] || fail "$name was not renewed"
    days=$(days_left "$name")
    ((days >= 364 && days <= 366)) || fail "$name ends in $days days, not in a year"
    equal "$name: different public keys of certificate and key" 1 "$(public_keys "$name" | uniq | wc -l)"
  done
}

# A component's process is younger than its credential; it runs in one new sandbox, and its old one is gone. It may keep it
# only where the program says so: one that leads ends by itself when the API is away for long, and kubelet starts it again.
restarted() { # COMPONENT OLD_SANDBOX
  local now start file moment
  case $1 in
    kube-apiserver) file=$pki/apiserver.crt ;;
    *) file=/etc/kubernetes/${1#kube-}.conf ;;
  esac
  moment=$(written "$file")
  now=$(sandbox "$1")
  [[ $now =~ ^[0-9a-f]+$ ]] || fail "$1 does not run in one sandbox but in '$now'"
  if ! grep -qF "$1 uses what is on disk by itself, and is not restarted" "$output"; then
    [ "$now" != "$2" ] || fail "$1 still runs in its old sandbox"
    ! sandbox_exists "$2" || fail "the old sandbox of $1 is still there"
  fi
  start=$(started "$1")
  awk -v start="$start" -v moment="$moment" 'BEGIN { exit !(start > moment) }' ||
    fail "$1 started $start s after boot, before $file was written ($moment s)"
}

# A component's leader lease moves on.
works() { # COMPONENT
  local first now
  first=$(lease "$1")
  for _ in $(seq 60); do
    now=$(lease "$1")
    if [ "$now" != "$first" ]; then return; fi
    sleep 0.5
  done
  fail "$1 does not renew its lease: its credential is not accepted"
}

# The new certificates are in use, and the operator's kubeconfig works.
in_use() {
  equal "readyz" 200 "$(readyz)"
  equal "the serial that kube-apiserver serves" "$(serial apiserver)" "$(served_serial 6443)"
  [ "$ETCD" = host ] || equal "the serial that etcd serves" "$(serial etcd-server)" "$(served_serial 2379)"
  equal "the serial in /root/.kube/config" "$(serial admin.conf)" "$(serial admin.conf /root/.kube/config)"
  on_node kubectl --kubeconfig /root/.kube/config get nodes >/dev/null || fail "kubectl with /root/.kube/config does not work"
}

# Sets `before` (serials) and `old` (component -> sandbox; of etcd the container, as it keeps its sandbox).
declare -A old
remember() {
  local component
  before=$(serials)
  for component in "${components[@]}"; do old[$component]=$(sandbox "$component"); done
  old[etcd]=$(container etcd)
}

all_restarted_and_working() {
  local component
  for component in "${components[@]}"; do restarted "$component" "${old[$component]}"; done
  works kube-controller-manager
  works kube-scheduler
  # it is restarted for nothing, since it reads its files again
  equal "the container of etcd" "${old[etcd]}" "$(container etcd)"
}

not_restarted() { # COMPONENT...
  local component
  for component in "$@"; do equal "$component: its sandbox" "${old[$component]}" "$(sandbox "$component")"; done
}

# --- scenarios

passed=0 failed=0
finish() {
  local code=$?
  keep_logs
  if [ "$failed" = 0 ] && [ "$code" = 0 ]; then
    rm -rf "$logs"
  else
    echo "logs are kept in $logs"
  fi
  [ -n "${KEEP_CLUSTER:-}" ] || "$here/cluster.sh" down
}

keep_logs() { cp -rT /var/log/k8s-cluster "$logs/cluster-${ETCD:-}" 2>/dev/null || true; }

play() { # SCENARIO
  local name=$1 what="${1//_/ } (etcd: $ETCD)" start=$SECONDS code log
  log=$logs/$name-$ETCD.log
  set +e # a scenario ends at its first failure; a subshell in a condition would not
  (
    set -e
    "$name"
  ) >"$log" 2>&1
  code=$?
  set -e
  if [ $code = 0 ]; then
    passed=$((passed + 1))
    echo "PASS $what ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "FAIL $what ($((SECONDS - start)) s)"
    sed 's/^/    /' "$log"
  fi
}
