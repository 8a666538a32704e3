#!/bin/bash
# The end-to-end test of several control-plane nodes: three real ones with stacked etcd (see cluster.sh), restarted one at a
# time, as root.
#
#   ha.sh [PROGRAM [SCENARIO...]]     PROGRAM: default target/release/k8s-certs-renew; SCENARIO: some instead of all
#
# Starts the cluster, plays its scenarios, takes it down. Output and KEEP_CLUSTER=1 as in run.sh. Prints at the end what was
# measured: the rows of docs/performance.md. About 12 minutes on 2 cores.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

program=$(realpath "${1:-$here/../../target/release/k8s-certs-renew}")
[ -x "$program" ] || fail "no program at $program: build it with cargo build --release"
shift || true
logs=$(mktemp -d /tmp/k8s-certs-renew-ha.XXXXXX)
output=$logs/output
nodes=(1 2 3)
addresses=(10.77.0.10 10.77.0.11 10.77.0.12)
# what ends in 5 days is due, and not so soon that it would excuse a run from waiting for others
schedule=(--on-calendar "$(date -u -d '+10 days' '+%F 03:00:00 UTC')" --days-buffer 2)
turn='## Restarting control plane pods managed by kubeadm ##' # a run says so as soon as it has the turn
for variable in ${!K8S_CERTS_RENEW_@}; do unset "$variable"; done

# --- helpers

# By the node's own API server; the others' admin.conf may name that of the first.
kube() { # NODE ARG...
  "$here/cluster.sh" exec -n "$1" kubectl --kubeconfig /etc/kubernetes/admin.conf --server https://127.0.0.1:6443 \
    --request-timeout 20s --namespace kube-system "${@:2}"
}

each() { # CMD... -> for all nodes at once, as `node`
  local pids=() pid ended=0
  for node in "${nodes[@]}"; do
    "$@" &
    pids+=($!)
  done
  node=1
  for pid in "${pids[@]}"; do wait "$pid" || ended=1; done
  return $ended
}

# Puts the nodes back as they were first, with leaves that end in DAYS days and are in use.
prepare() { # DAYS
  each put_back || fail "the nodes cannot be put back as they were"
  # before, as the API is gone where they have ended, and after, where it was gone
  no_turn || true
  each age "$1" || fail "the nodes' certificates cannot be aged"
  [[ $1 = -* ]] || no_turn
}

put_back() {
  on_node sh -c 'rm -rf /var/lib/k8s-certs-renew/* && tar -C / -xf -' <"$logs/node$node.tar" &&
    "$here/cluster.sh" start kubelet "$node"
}

no_turn() { kube 1 delete lease k8s-certs-renew --ignore-not-found; }

age() { "$here/cluster.sh" age "$1" "$node"; }

# What `remember` sets, of every node; `recall` brings back that of `node`.
remember_all() {
  for node in "${nodes[@]}"; do
    remember
    declare -p before old >"$logs/remembered$node"
  done
  node=1
}

recall() {
  local text
  text=$(sed 's/^declare -A /declare -gA /; s/^declare -- /declare -g /' "$logs/remembered$node")
  eval "$text"
}

# Starts the program on the node, each line of its output behind the moment at which it was said (seconds since the epoch).
declare -A job
begin() { # NODE ARG...
  local n=$1
  shift
  {
    code=0
    "$here/cluster.sh" exec -n "$n" "$program" "$@" 2>&1 </dev/null || code=$?
    echo "exit $code"
  } | while IFS= read -r line; do echo "$EPOCHREALTIME $line"; done >"$logs/output.$n" &
  job[$n]=$!
}

# Waits until the program has ended on the node, and makes its output and what was remembered the ones that are looked at.
finished() { # NODE CODE
  wait "${job[$1]}" || true # its code is in its output
  node=$1 output=$logs/output.$1
  printf '$ k8s-certs-renew, on node%s\n%s\n' "$1" "$(cat "$output")"
  equal "exit code on node$1" "exit $2" "$(tail -1 "$output" | cut -d' ' -f2-)"
  recall
}

done_on() { # NODE CODE
  finished "$@"
  renewed "$before" "${leaves[@]}"
  all_restarted_and_working
  in_use
}

said() { grep -qF -- "$2" "$logs/output.$1"; } # NODE WORDS

comes_to_say() { # NODE WORDS
  within 120 said "$@" || fail "node$1 does not come to say '$2': $(cat "$logs/output.$1")"
}

# When it was said first, or last.
moment() { grep -F -- "$2" "$logs/output.$1" | head -1 | cut -d' ' -f1; } # NODE WORDS
last_moment() { grep -F -- "$2" "$logs/output.$1" | tail -1 | cut -d' ' -f1; } # NODE WORDS

holds() { awk "BEGIN { exit !($1) }"; } # CONDITION

member_is_healthy() { # NODE
  "$here/cluster.sh" exec -n "$1" curl -sf --max-time 2 http://127.0.0.1:2381/health | grep -q '"health":"true"'
}

api_is_ready() { # NODE
  local node=$1
  [ "$(readyz)" = 200 ]
}

# See witness.py, which goes on until `testimony`.
witness() {
  local dir=$logs/witness
  mkdir -p "$dir"
  on_node cat $pki/ca.crt >"$dir/ca.crt"
  on_node sed -n 's/^ *client-\(certificate\|key\)-data: //p' /etc/kubernetes/admin.conf |
    while read -r line; do base64 -d <<<"$line"; done >"$dir/admin.pem"
  on_node cat $pki/etcd/ca.crt >"$dir/etcd-ca.crt"
  on_node cat $pki/etcd/healthcheck-client.crt >"$dir/etcd-client.crt"
  on_node cat $pki/etcd/healthcheck-client.key >"$dir/etcd-client.key"
  "$here/cluster.sh" exec -n 1 "$here/witness.py" "$dir" "${addresses[@]}" >"$dir/said" &
  witness_pid=$!
  # shellcheck disable=SC2064 # this very process
  trap "kill $witness_pid 2>/dev/null || true" EXIT # of the scenario
  sleep 1
}

testimony() {
  sleep 1
  kill "$witness_pid"
  wait "$witness_pid" || fail "witness.py has failed"
  cat "$logs/witness/said"
}

# --- scenarios

three_nodes_started_at_once_restart_one_after_another() {
  local n start
  prepare 5
  remember_all
  witness
  start=$EPOCHREALTIME
  for n in "${nodes[@]}"; do begin "$n" run "${schedule[@]}"; done
  for n in "${nodes[@]}"; do wait "${job[$n]}"; done
  testimony
  for n in "${nodes[@]}"; do done_on "$n" 0; done
  /usr/bin/python3 - "$logs" "$start" "$turn" "${nodes[@]}" <<'END' >"$logs/judged" || fail "$(cat "$logs/judged")"
import json, sys

logs, start, turn, *nodes = sys.argv[1:]
seen = json.load(open(f"{logs}/witness/said"))
phases, end = [], 0
for node in nodes:
    lines = [line.split(" ", 1) for line in open(f"{logs}/output.{node}")]
    first = next(float(when) for when, line in lines if turn in line)
    last = max(float(when) for when, line in lines if " restarted, back after " in line)
    phases.append((first, last, f"node{node}"))
    end = max(end, float(lines[-1][0]))
phases.sort()
names = [name for _, _, name in phases]
held = [(when, name) for when, name in seen["turns"] if name]
bad = [f"the turn went to {[name for _, name in held]}, and the nodes restarted as {names}"] if [name for _, name in held] != names else []
bad += [f"{b[2]} restarts before {a[2]} is done: {phases}" for a, b in zip(phases, phases[1:]) if b[0] <= a[1]]
bad += ["the turn is not given back at the end"] if seen["turns"][-1][1] else []
bad += [f"a client had no answer for {seen['gap']:.2f} s"] if seen["gap"] > 1 else []
bad += [f"two API servers were away together for {seen['together']:.2f} s"] if seen["together"] else []
bad += [f"etcd had no healthy majority at {seen['minorities']} of {seen['looks']} looks"] if seen["minorities"] else []
bad += [f"too little was seen: {seen}"] if seen["asked"] < 100 or seen["looks"] < 20 else []
if bad:
    print("\n".join(bad))
    sys.exit(1)
rows = [("from the start to the end of the last", f"{end - float(start):.1f} s"),
        ("of that, each node's restarts", ", ".join(f"{last - first:.1f} s" for first, last, _ in phases)),
        ("longest time without an answer, for a client that asks the API servers in turn, one every 20 ms", f"{seen['gap'] * 1000:.0f} ms ({seen['asked']} questions)"),
        ("longest absence of each API server", ", ".join(f"{away:.1f} s" for away in seen["away"]))]
open(f"{logs}/figures", "w").writelines(f"| {what} | {figure} |\n" for what, figure in rows)
END
}

# Dies of the removal of kube-apiserver's sandbox, as late as it is told to. The Lease is made short then, so that the test is.
a_node_killed_in_its_turn_is_waited_out_and_no_longer() {
  local n patched first
  prepare 5
  remember_all
  rm -f "$logs/die"
  cat >"$logs/crictl" <<END
#!/bin/bash
if [[ " \$* " = *' rmp '* ]]; then
  crictl "\$@"
  until [ -e '$logs/die' ]; do sleep 0.1; done
  kill -KILL "\$PPID"
  exit 1
fi
exec crictl "\$@"
END
  chmod 755 "$logs/crictl"
  begin 1 run "${schedule[@]}" --crictl "$logs/crictl"
  comes_to_say 1 "$turn"
  for n in 2 3; do begin $n run "${schedule[@]}"; done
  for n in 2 3; do comes_to_say $n '## Waiting for the turn: held by node1 ##'; done
  touch "$logs/die"
  finished 1 137
  patched=$EPOCHREALTIME
  kube 2 patch lease k8s-certs-renew --type merge -p '{"spec":{"leaseDurationSeconds":45}}'
  for n in 2 3; do wait "${job[$n]}"; done
  for n in 2 3; do done_on $n 0; done
  first=$(printf '%s\n' "$(moment 2 "$turn")" "$(moment 3 "$turn")" | sort -n | head -1)
  holds "$first >= $patched + 45" || fail "the next restarts $first, before the Lease of $patched has ended"
  holds "$first <= $patched + 45 + 20" || fail "the next restarts $first, long after the Lease of $patched has ended"
  if [ "$first" = "$(moment 2 "$turn")" ]; then one_after_another 2 3; else one_after_another 3 2; fi

  begin 1 run "${schedule[@]}"
  done_on 1 0
  says "$output" '## Restarting only: kube-apiserver, kube-controller-manager, kube-scheduler ##'
}

one_after_another() { # NODE NODE
  local last
  last=$(last_moment "$1" ' restarted, back after ')
  holds "$last < $(moment "$2" "$turn")" || fail "node$2 restarts before node$1 is done"
}

while_an_api_server_is_broken_the_others_wait_for_it() {
  local n
  prepare 5
  remember_all
  trap 'mend_api_server || true' EXIT # of the scenario
  # moved into place, as kubelet reads whatever is in the directory
  "$here/cluster.sh" exec -n 2 sh -ec 'cd /etc/kubernetes
    sed "s/^    - kube-apiserver\$/&\n    - --no-such-flag/" manifests/kube-apiserver.yaml >broken.yaml
    mv manifests/kube-apiserver.yaml kube-apiserver.yaml
    mv broken.yaml manifests/kube-apiserver.yaml'
  within 60 api_is_away 2 || fail "the API server of node2 is not broken"
  # by then its pod alone says that there should be one
  within 60 no_endpoint 10.77.0.11 || fail "the endpoints still have the API server of node2"
  for n in 1 3; do begin $n run "${schedule[@]}" --turn-timeout 20s; done
  for n in 1 3; do wait "${job[$n]}"; done
  for n in 1 3; do
    finished $n 23
    says "$output" "## Waiting for the others: kube-apiserver of node 'node2' is not ready"
    says "$output" "## Deferred: kube-apiserver of node 'node2' is not ready"
    renewed "$before" "${leaves[@]}"
    not_restarted "${components[@]}"
  done
  equal "who has the turn" '' "$(kube 1 get lease k8s-certs-renew --ignore-not-found -o 'jsonpath={.spec.holderIdentity}')"

  begin 1 run "${schedule[@]}" --alone
  done_on 1 0
  says "$output" '## Restarting only: kube-apiserver, kube-controller-manager, kube-scheduler ##'

  mend_api_server
  within 120 api_is_ready 2 || fail "the API server of node2 does not come back"
  begin 3 run "${schedule[@]}"
  done_on 3 0
  says "$output" '## Restarting only: kube-apiserver, kube-controller-manager, kube-scheduler ##'
}

api_is_away() { ! api_is_ready "$1"; } # NODE

mend_api_server() {
  "$here/cluster.sh" exec -n 2 sh -c 'cd /etc/kubernetes && if [ -f kube-apiserver.yaml ]; then mv kube-apiserver.yaml manifests/; fi'
}

no_endpoint() { # ADDRESS
  local found
  found=$(kube 1 --namespace default get endpoints kubernetes -o 'jsonpath={.subsets[*].addresses[*].ip}') || return 1
  [[ " $found " != *" $1 "* ]]
}

# A restart that goes wrong would cost the cluster its quorum.
while_another_etcd_member_is_down_nothing_is_restarted() {
  prepare 5
  remember_all
  trap 'start_member || true' EXIT # of the scenario
  "$here/cluster.sh" exec -n 2 mv /etc/kubernetes/manifests/etcd.yaml /etc/kubernetes/etcd.yaml
  within 60 member_is_gone || fail "etcd of node2 does not end"
  begin 1 run "${schedule[@]}" --turn-timeout 10s
  finished 1 23
  says "$output" "etcd member 'node2' is not healthy"
  renewed "$before" "${leaves[@]}"
  not_restarted "${components[@]}"
  start_member
  within 60 member_is_healthy 2 || fail "etcd of node2 does not come back"
  within 120 api_is_ready 2 || fail "the API server of node2 does not come back"
  begin 1 run "${schedule[@]}"
  done_on 1 0
  says "$output" '## Restarting only: kube-apiserver, kube-controller-manager, kube-scheduler ##'
}

start_member() { "$here/cluster.sh" exec -n 2 sh -c 'cd /etc/kubernetes && if [ -f etcd.yaml ]; then mv etcd.yaml manifests/; fi'; }
member_is_gone() { [ -z "$("$here/cluster.sh" exec -n 2 crictl ps --name '^etcd$' -q)" ]; }

# The first-year outage, everywhere: nobody to take turns with, until the first has repaired itself.
three_nodes_with_expired_certificates_repair_themselves_in_any_order() {
  local n order force=()
  prepare -1
  mapfile -t order < <(shuf -e "${nodes[@]}")
  echo "in the order ${order[*]}"
  # etcd does not let them in any more: they end again and again
  for node in "${nodes[@]}"; do kill -KILL "$(process kube-apiserver)"; done
  remember_all
  for n in "${nodes[@]}"; do
    ! api_is_ready "$n" || fail "the API server of node$n is ready, with certificates that have expired"
  done
  if ! clock_is_synchronised; then
    force=(--force)
    begin "${order[0]}" run
    finished "${order[0]}" 27
    says "$output" synchronised
  fi
  for n in "${order[@]}"; do
    begin "$n" run "${force[@]}"
    wait "${job[$n]}"
  done
  for n in "${order[@]}"; do done_on "$n" 0; done
  # its own may be back before that, as kubelet starts it again and again
  for n in "${order[@]}"; do
    said "$n" 'no API server of this cluster answers, so there is nobody to take turns with' ||
      said "$n" 'going on all the same, since a certificate in use ends' || [ "$n" = "${order[2]}" ] ||
      fail "node$n does not say why it goes on while others are down"
  done
}

two_runs_that_race_for_the_turn_never_both_have_it() {
  no_turn
  cd "$here/../.."
  on_node cargo test --locked --test it turn_race:: -- --ignored --nocapture
  no_turn
}

a_playbook_rolls_over_the_nodes() {
  prepare 5
  "$here/ansible.sh" "$program"
}

# --- the test

trap finish EXIT

main() { # SCENARIO...
  local scenario scenarios=(
    three_nodes_started_at_once_restart_one_after_another
    a_node_killed_in_its_turn_is_waited_out_and_no_longer
    while_an_api_server_is_broken_the_others_wait_for_it
    while_another_etcd_member_is_down_nothing_is_restarted
    three_nodes_with_expired_certificates_repair_themselves_in_any_order
    two_runs_that_race_for_the_turn_never_both_have_it
    a_playbook_rolls_over_the_nodes
  )
  for scenario in "$@"; do
    [ "$(type -t "$scenario")" = function ] || fail "no scenario '$scenario'"
  done
  [ $# = 0 ] || scenarios=("$@")
  variant stacked
  "$here/build.sh"
  "$here/cluster.sh" down
  NODES=${#nodes[@]} "$here/cluster.sh" up
  for node in "${nodes[@]}"; do
    on_node tar -C / -cf - --exclude etc/kubernetes/manifests etc/kubernetes root/.kube >"$logs/node$node.tar"
  done
  node=1
  for scenario in "${scenarios[@]}"; do play "$scenario"; done
  if [ -f "$logs/figures" ]; then cat "$logs/figures"; fi
  echo "end-to-end, three nodes: $passed passed, $failed failed"
  [ "$failed" = 0 ]
}

main "$@"
