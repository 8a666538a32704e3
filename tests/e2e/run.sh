#!/bin/bash
# The end-to-end test: the program's whole job on a real control plane (see cluster.sh), as root.
#
#   run.sh [PROGRAM [SCENARIO...]]     PROGRAM: default target/release/k8s-certs-renew; SCENARIO: some instead of all
#
# Builds what the cluster needs (first time: 5 minutes), starts it, plays every scenario, takes it down. One line a scenario;
# the output of those that failed is shown and kept, with the cluster's logs. KEEP_CLUSTER=1 leaves the cluster up.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

program=$(realpath "${1:-$here/../../target/release/k8s-certs-renew}")
[ -x "$program" ] || fail "no program at $program: build it with cargo build --release"
shift || true
logs=$(mktemp -d /tmp/k8s-certs-renew-e2e.XXXXXX)
output=$logs/output # of the last run of the program
skip_line='## Skip cert renew and K8S container restart, since all residualTimes are beyond threshold ##'
for variable in ${!K8S_CERTS_RENEW_@}; do unset "$variable"; done # the defaults are under test

# --- helpers

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

# Starts the program on the node and returns when its output holds the words; `job` is its pid.
begin() { # WORDS ARG...
  local words=$1
  shift
  "$here/cluster.sh" exec -n 1 "$program" "$@" >"$output" 2>&1 </dev/null &
  job=$!
  for _ in $(seq 600); do
    if grep -qF -- "$words" "$output"; then return; fi
    kill -0 "$job" 2>/dev/null || break
    sleep 0.05
  done
  cat "$output"
  fail "k8s-certs-renew $* did not come to say '$words'"
}

# Puts the node back as it was first, whatever a scenario left behind, with leaves that end in DAYS days and are in use.
prepare() { # DAYS
  on_node sh -c 'rm -rf /var/lib/k8s-certs-renew/* && tar -C / -xf -' <"$logs/node.tar"
  "$here/cluster.sh" start kubelet
  "$here/cluster.sh" age "$1"
}

# Sets `before` (serials) and `old` (component -> sandbox).
declare -A old
remember() {
  local component
  before=$(serials)
  for component in "${components[@]}"; do old[$component]=$(sandbox "$component"); done
}

all_restarted_and_working() {
  local component
  for component in "${components[@]}"; do restarted "$component" "${old[$component]}"; done
  works kube-controller-manager
  works kube-scheduler
}

# --- scenarios

a_fresh_node_is_left_alone() {
  local first
  first=$(state)
  run 0 run
  says "$output" "$skip_line"
  run 0 --detailed-exitcode
  unchanged "$first"
}

a_dry_run_tells_and_changes_nothing() {
  local first name
  prepare 5
  first=$(state)
  run 0 --dry-run
  for name in "${leaves[@]}"; do says "$output" "$name"; done
  run 11 run --dry-run --detailed-exitcode
  unchanged "$first"
}

due_certificates_are_renewed_and_used() {
  local first
  prepare 5
  remember
  run 0 run
  says "$output" '## Renewing certificates managed by kubeadm ##'
  says "$output" '## Restarting control plane pods managed by kubeadm ##'
  says "$output" '## Updating /root/.kube/config ##'
  says "$output" '## Waiting for apiserver to be up again ##'
  says "$output" '## Expiration after renewal ##'
  renewed "$before" "${leaves[@]}"
  all_restarted_and_working
  in_use

  first=$(state)
  run 0 run
  says "$output" "$skip_line"
  unchanged "$first"
}

the_detailed_exit_code_tells_that_something_was_done() {
  prepare 5
  remember
  run 10 run --detailed-exitcode
  renewed "$before" "${leaves[@]}"
  in_use
  run 0 run --detailed-exitcode
}

# Everything has ended a day ago, and the API does not answer: its process hangs.
the_first_year_outage_is_repaired() {
  local said
  prepare -1
  said=$(on_node kubectl --kubeconfig /root/.kube/config get nodes 2>&1) && fail "kubectl works with certificates that have expired"
  grep -q 'certificate has expired' <<<"$said" || fail "kubectl does not say that a certificate has expired: $said"
  kill -STOP "$(process kube-apiserver)"
  remember
  run 0 run
  renewed "$before" "${leaves[@]}"
  all_restarted_and_working
  in_use
}

# kubeadm stops at a kubeconfig that it cannot read; what sorts behind it must not stay old for that.
a_broken_scheduler_conf_stops_nothing_else() {
  prepare 5
  on_node truncate -s 0 /etc/kubernetes/scheduler.conf
  remember
  run 20 run
  says "$output" scheduler.conf
  renewed "$before" admin.conf apiserver apiserver-kubelet-client controller-manager.conf front-proxy-client
  restarted kube-apiserver "${old[kube-apiserver]}"
  restarted kube-controller-manager "${old[kube-controller-manager]}"
  equal "kube-scheduler, which nothing was renewed for: its sandbox" "${old[kube-scheduler]}" "$(sandbox kube-scheduler)"
  works kube-controller-manager
  works kube-scheduler
  in_use
}

a_broken_controller_manager_conf_stops_nothing_else() {
  prepare 5
  on_node sh -c 'echo "{" >/etc/kubernetes/controller-manager.conf'
  remember
  run 20 run
  says "$output" controller-manager.conf
  renewed "$before" admin.conf apiserver apiserver-kubelet-client front-proxy-client scheduler.conf
  restarted kube-apiserver "${old[kube-apiserver]}"
  restarted kube-scheduler "${old[kube-scheduler]}"
  equal "kube-controller-manager, which nothing was renewed for: its sandbox" \
    "${old[kube-controller-manager]}" "$(sandbox kube-controller-manager)"
  works kube-scheduler
  in_use
}

a_second_run_at_once_is_refused() {
  local code=0 first
  prepare 5
  remember
  begin '## Renewing certificates managed by kubeadm ##' run
  first=$output output=$logs/output.second
  run 75 run
  output=$first
  wait "$job" || code=$?
  ended 0 $code run
  renewed "$before" "${leaves[@]}"
  in_use
}

a_terminated_run_leaves_whole_files_and_can_be_finished() {
  local code=0
  prepare 5
  remember
  begin '## Restarting control plane pods managed by kubeadm ##' run
  kill -TERM "$job"
  wait "$job" || code=$?
  ended 143 $code run
  renewed "$before" "${leaves[@]}"
  remember
  run 0 run
  says "$output" '## Restarting only: kube-apiserver, kube-controller-manager, kube-scheduler ##'
  equal "serials, which the first run has renewed" "$before" "$(serials)"
  all_restarted_and_working
  in_use
}

without_a_kubelet_no_pod_is_removed() {
  local component
  prepare 5
  remember
  "$here/cluster.sh" stop kubelet
  run 23 run
  says "$output" kubelet
  renewed "$before" "${leaves[@]}"
  for component in "${components[@]}"; do
    equal "sandbox of $component" "${old[$component]}" "$(sandbox "$component")"
  done
  "$here/cluster.sh" start kubelet
  for _ in $(seq 60); do
    if on_node curl -sf --max-time 1 http://127.0.0.1:10248/healthz >/dev/null; then break; fi
    sleep 0.5
  done
  remember
  run 0 run
  says "$output" '## Restarting only: kube-apiserver, kube-controller-manager, kube-scheduler ##'
  all_restarted_and_working
  in_use
}

# Files are new, and two processes still work with the old ones: half of the work, done by hand.
what_was_renewed_by_hand_is_put_to_use() {
  local first
  prepare 300
  run 0 run
  says "$output" "$skip_line"
  on_node kubeadm certs renew all --config /etc/kubernetes/kubeadm-config.yaml >/dev/null
  remember
  run 10 run --detailed-exitcode
  says "$output" '## Restarting only: kube-controller-manager, kube-scheduler ##'
  equal "serials, which are new already" "$before" "$(serials)"
  equal "kube-apiserver, which reads its files again: its sandbox" "${old[kube-apiserver]}" "$(sandbox kube-apiserver)"
  restarted kube-controller-manager "${old[kube-controller-manager]}"
  restarted kube-scheduler "${old[kube-scheduler]}"
  works kube-controller-manager
  works kube-scheduler
  first=$(state)
  run 0 run --detailed-exitcode
  says "$output" "$skip_line"
  unchanged "$first"
}

scenarios=(
  a_fresh_node_is_left_alone
  a_dry_run_tells_and_changes_nothing
  due_certificates_are_renewed_and_used
  the_detailed_exit_code_tells_that_something_was_done
  the_first_year_outage_is_repaired
  a_broken_scheduler_conf_stops_nothing_else
  a_broken_controller_manager_conf_stops_nothing_else
  a_second_run_at_once_is_refused
  a_terminated_run_leaves_whole_files_and_can_be_finished
  without_a_kubelet_no_pod_is_removed
  what_was_renewed_by_hand_is_put_to_use
)

# --- the test

passed=0 failed=0
finish() {
  local code=$?
  if [ "$failed" = 0 ] && [ "$code" = 0 ]; then
    rm -rf "$logs"
  else
    cp -r /var/log/k8s-cluster "$logs/cluster" 2>/dev/null || true
    echo "logs are kept in $logs"
  fi
  [ -n "${KEEP_CLUSTER:-}" ] || "$here/cluster.sh" down
}
trap finish EXIT

play() { # SCENARIO
  local name=$1 start=$SECONDS code
  set +e # a scenario ends at its first failure; a subshell in a condition would not
  (
    set -e
    "$name"
  ) >"$logs/$name.log" 2>&1
  code=$?
  set -e
  if [ $code = 0 ]; then
    passed=$((passed + 1))
    echo "PASS ${name//_/ } ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "FAIL ${name//_/ } ($((SECONDS - start)) s)"
    sed 's/^/    /' "$logs/$name.log"
  fi
}

main() { # SCENARIO...
  local scenario
  "$here/build.sh"
  "$here/cluster.sh" down
  "$here/cluster.sh" up
  on_node tar -C / -cf - --exclude etc/kubernetes/manifests etc/kubernetes root/.kube >"$logs/node.tar"
  [ $# = 0 ] || scenarios=("$@")
  for scenario in "${scenarios[@]}"; do play "$scenario"; done
  echo "end-to-end: $passed passed, $failed failed"
  [ "$failed" = 0 ]
}

main "$@"
