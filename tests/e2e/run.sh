#!/bin/bash
# The end-to-end test: the program's whole job on real control planes, with etcd on the host and as a static pod (see
# cluster.sh), as root.
#
#   run.sh [PROGRAM [SCENARIO...]]     PROGRAM: default target/release/k8s-certs-renew; SCENARIO: some instead of all
#
# Builds what the clusters need (first time: 5 minutes); starts each, plays its scenarios, takes it down. One line a scenario;
# the output of those that failed is shown and kept, with the clusters' logs. ETCD=host or ETCD=stacked plays on that cluster
# alone; KEEP_CLUSTER=1 leaves the last one up. What wants several nodes is in ha.sh.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=kubelet.sh
source "$here/kubelet.sh"

program=$(realpath "${1:-$here/../../target/release/k8s-certs-renew}")
[ -x "$program" ] || fail "no program at $program: build it with cargo build --release"
shift || true
cache=${CLUSTER_CACHE:-/var/cache/k8s-cluster}
logs=$(mktemp -d /tmp/k8s-certs-renew-e2e.XXXXXX)
output=$logs/output
skip_line='## Skip cert renew and K8S container restart, since all residualTimes are beyond threshold ##'
for variable in ${!K8S_CERTS_RENEW_@}; do unset "$variable"; done # the defaults are under test

# --- helpers

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

skips() {
  local first
  first=$(state)
  run 0 run --detailed-exitcode
  says "$output" "$skip_line"
  unchanged "$first"
}

# What the program says of a component, and why.
verdict() { # COMPONENT
  on_node "$program" run --dry-run -o json 2>/dev/null | /usr/bin/python3 -c '
import json, sys
found = [one for one in json.load(sys.stdin)["components"] if one["name"] == sys.argv[1]]
print("{verdict}: {reason}".format(**found[0]) if found else "none")' "$1"
}

is() { [[ $(verdict "$1") = "$2: "*"${3:-}"* ]]; } # COMPONENT VERDICT [WORDS]

judged() { # COMPONENT VERDICT [WORDS]
  is "$@" || fail "$1: expected to be '$2' (${3:-whatever the reason}), is '$(verdict "$1")'"
}

# kubeadm that ends its caller, by SIGKILL, as soon as it has done its work.
deadly_kubeadm() {
  cat >"$logs/kubeadm" <<'END'
#!/bin/bash
kubeadm "$@"
kill -KILL "$PPID"
END
  chmod 755 "$logs/kubeadm"
}

# crictl that does nothing but end its caller, by SIGKILL, once a condition holds.
deadly_crictl() { # CONDITION (of bash; its arguments are $*)
  cat >"$logs/crictl" <<END
#!/bin/bash
if $1; then
  kill -KILL "\$PPID"
  exit 1
fi
exec crictl "\$@"
END
  chmod 755 "$logs/crictl"
}

# As kubeadm's manual has it; kubespray keeps a configuration on the node.
renew_by_hand() { # NAME
  local config=()
  [ "$ETCD" = stacked ] || config=(--config /etc/kubernetes/kubeadm-config.yaml)
  on_node kubeadm certs renew "$1" "${config[@]}" >/dev/null
}

healthy() { [ "$(on_node curl -sk --max-time 2 "https://127.0.0.1:$1/healthz")" = ok ]; } # PORT

# While kubelet is about to start a container in the very sandbox, containerd refuses to remove it.
pod_removed() { on_node crictl -t 60s rmp -f "$1" || ! sandbox_exists "$1"; } # SANDBOX

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
  skips
}

# Everything has ended a day ago, and the API does not answer: its process hangs, or ends again and again, since etcd does not
# let it in any more. The clock that tells that the certificates have ended may be the one to blame.
the_first_year_outage_is_repaired() {
  local said first
  prepare -1
  said=$(on_node kubectl --kubeconfig /root/.kube/config get nodes 2>&1) && fail "kubectl works with certificates that have expired"
  grep -q 'certificate has expired' <<<"$said" || fail "kubectl does not say that a certificate has expired: $said"
  case $ETCD in
    host) kill -STOP "$(process kube-apiserver)" ;;
    stacked) kill -KILL "$(process kube-apiserver)" ;;
  esac
  remember
  if clock_is_synchronised; then
    run 0 run
  else
    first=$(state)
    run 27 run
    says "$output" synchronised
    says "$output" --force
    unchanged "$first"
    run 0 run --force
  fi
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
  begin '## Renewing certificates managed by kubeadm ##' run --detailed-exitcode
  first=$output output=$logs/output.second
  run 75 run
  output=$first
  wait "$job" || code=$?
  ended 10 $code run --detailed-exitcode # something was done
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
  within 30 on_node curl -sf --max-time 1 http://127.0.0.1:10248/healthz
  remember
  run 0 run
  says "$output" '## Restarting only: kube-apiserver, kube-controller-manager, kube-scheduler ##'
  all_restarted_and_working
  in_use
}

killed_after_kubeadm_a_run_is_finished_by_the_next() {
  prepare 5
  remember
  deadly_kubeadm
  run 137 run --kubeadm "$logs/kubeadm"
  renewed "$before" "${leaves[@]}"
  not_restarted "${components[@]}"
  remember
  run 0 run
  says "$output" '## Restarting only: kube-apiserver, kube-controller-manager, kube-scheduler ##'
  equal "serials, which the first run has renewed" "$before" "$(serials)"
  all_restarted_and_working
  in_use
  skips
}

# First before the second pod is removed, then, of the run that is to finish it, before the kubeconfig copy is written.
killed_after_the_first_pod_and_before_the_copy_a_run_is_finished_by_the_next() {
  prepare 5
  remember
  deadly_crictl "[[ \" \$* \" = *' ${old[kube-controller-manager]} '* ]]"
  run 137 run --crictl "$logs/crictl"
  renewed "$before" "${leaves[@]}"
  restarted kube-apiserver "${old[kube-apiserver]}"
  not_restarted kube-controller-manager kube-scheduler

  remember
  deadly_crictl "! crictl pods -q | grep -qx ${old[kube-scheduler]} && [ \"\$(curl -sk https://127.0.0.1:10259/healthz)\" = ok ]"
  run 137 run --crictl "$logs/crictl"
  says "$output" '## Restarting only: kube-controller-manager, kube-scheduler ##'
  equal "serials, which the first run has renewed" "$before" "$(serials)"
  not_restarted kube-apiserver
  restarted kube-controller-manager "${old[kube-controller-manager]}"
  restarted kube-scheduler "${old[kube-scheduler]}"
  [ "$(serial admin.conf)" != "$(serial admin.conf /root/.kube/config)" ] || fail "the copy was written before the run was killed"

  remember
  run 0 run
  says "$output" '## Updating /root/.kube/config ##'
  equal "serials, which the first run has renewed" "$before" "$(serials)"
  not_restarted "${components[@]}"
  works kube-controller-manager
  works kube-scheduler
  in_use
  skips
}

# Files are new, and two processes still work with the old ones: half of the work, done by hand.
what_was_renewed_by_hand_is_put_to_use() {
  prepare 300
  skips
  renew_by_hand all
  remember
  judged kube-controller-manager stale
  judged kube-scheduler stale
  judged etcd 'in use'
  # it looks at its files once a minute; a run before that, on the other cluster, leaves it alone as well
  [ "$ETCD" = stacked ] || within 90 is kube-apiserver 'in use' || judged kube-apiserver 'in use'
  run 10 run --detailed-exitcode
  says "$output" '## Restarting only: kube-controller-manager, kube-scheduler ##'
  equal "serials, which are new already" "$before" "$(serials)"
  not_restarted kube-apiserver
  restarted kube-controller-manager "${old[kube-controller-manager]}"
  restarted kube-scheduler "${old[kube-scheduler]}"
  works kube-controller-manager
  works kube-scheduler
  [ "$ETCD" = stacked ] || in_use
  skips
}

# `check` and kubeadm, of every certificate that both know: kubeadm's table is exact to the minute, the certificates themselves are
# to the second.
check_agrees_with_kubeadm() {
  local name first code=0
  prepare 5 # less than the days-buffer
  first=$(state)
  on_node kubeadm certs check-expiration --cert-dir "$pki" >"$logs/kubeadm.txt" 2>/dev/null
  on_node "$program" check -o json >"$logs/check.json" || code=$?
  equal "exit code of check, with certificates that should have been renewed" 2 "$code"
  for name in "${leaves[@]}"; do echo "$name $(leaf "$name" | openssl x509 -noout -enddate)"; done >"$logs/ends.txt"
  /usr/bin/python3 - "$logs/kubeadm.txt" "$logs/check.json" "$logs/ends.txt" <<'END'
import datetime, json, re, sys
table, report, ends = open(sys.argv[1]).read(), json.load(open(sys.argv[2])), open(sys.argv[3]).read()
ours = {one["name"]: datetime.datetime.strptime(one["expirationDate"], "%Y-%m-%dT%H:%M:%SZ")
        for one in report["certificates"] + report["certificateAuthorities"] if one["expirationDate"]}
theirs = dict(re.findall(r"^(\S+) +(\w{3} \d\d, \d{4} \d\d:\d\d) UTC", table, re.M))
bad = [f"kubeadm says {end} of {name}, check says {ours.get(name)}" for name, end in theirs.items()
       if name not in ours or ours[name].strftime("%b %d, %Y %H:%M") != end]
seconds = dict(re.findall(r"^(\S+) notAfter=(.*) GMT$", ends, re.M))
bad += [f"{name} ends {end}, check says {ours.get(name)}" for name, end in seconds.items()
        if ours.get(name) != datetime.datetime.strptime(end, "%b %d %H:%M:%S %Y")]
print(f"{len(theirs)} of kubeadm, {len(seconds)} to the second")
bad += ["too few were compared"] if len(theirs) < len(seconds) + 2 or len(seconds) < 6 else []
sys.exit("\n".join(bad) or 0)
END
  code=0
  on_node "$program" check >"$output" || code=$?
  ended 2 "$code" check
  says "$output" 'could renew   yes'
  code=0
  on_node "$program" check -q --textfile "$logs/metrics.prom" || code=$?
  equal "exit code of check -q" 2 "$code"
  says "$logs/metrics.prom" 'k8s_certs_renew_certificate_not_after_timestamp_seconds{'
  unchanged "$first"
  run 0 run --textfile "$logs/metrics.prom"
  says "$logs/metrics.prom" 'k8s_certs_renew_last_exit_code 0'
  says "$logs/metrics.prom" 'k8s_certs_renew_component_verdict{component="kube-scheduler",verdict="in_use"} 1'
  code=0
  on_node "$program" check >"$output" || code=$?
  printf '%s\n(exit %s)\n' "$(cat "$output")" "$code"
  says "$output" 'in use: kube-apiserver, kube-controller-manager, kube-scheduler, etcd'
  says_not "$output" critical
}

# A second kube-controller-manager, which is not the leader, outlives its certificate without a word to /healthz. The first one
# was restarted since the renewal, and hides nothing.
a_standby_with_an_expired_certificate_is_stale() {
  local argv standby id
  prepare 300
  on_node cat /etc/kubernetes/controller-manager.conf >"$logs/standby.conf"
  on_node /usr/bin/python3 "$here/pki.py" reissue "$pki" 0.0004 "$logs/standby.conf" # 35 seconds
  mapfile -t -d '' argv <"/proc/$(process kube-controller-manager)/cmdline"
  # with patience, so that it is not the one to lead when the first is restarted
  "$here/cluster.sh" exec -n 1 "$cache/bin/kube-controller-manager" "${argv[@]:1}" --secure-port=10357 \
    --kubeconfig="$logs/standby.conf" --authentication-kubeconfig="$logs/standby.conf" \
    --authorization-kubeconfig="$logs/standby.conf" --leader-elect-lease-duration=120s --leader-elect-renew-deadline=110s \
    >"$logs/standby.log" 2>&1 </dev/null &
  standby=$!
  # shellcheck disable=SC2064 # this very process
  trap "kill -KILL $standby 2>/dev/null || true" EXIT # of the scenario
  within 30 healthy 10357 || fail "the standby does not come up: $(tail -5 "$logs/standby.log")"
  ! is kube-controller-manager stale || fail "kube-controller-manager is stale before anything was renewed"
  sleep 2 # a start within a second of a file's time proves nothing
  renew_by_hand controller-manager.conf
  sleep 2 # a start within a second of a file's time proves nothing
  id=$(sandbox kube-controller-manager)
  within 20 pod_removed "$id" || fail "sandbox $id cannot be removed"
  within 60 healthy 10257 || fail "kube-controller-manager does not come back"
  within 90 grep -q Unauthorized "$logs/standby.log" || fail "the standby is not turned away: $(tail -5 "$logs/standby.log")"
  healthy 10357 || fail "the standby has noticed that its certificate has ended"
  judged kube-controller-manager stale "process $standby: "
  restarted kube-controller-manager "$id"
  works kube-controller-manager

  kill "$standby"
  wait "$standby" || true
  judged kube-controller-manager 'in use'
  skips
}

# As somebody types them on the node, README's and those of docs/: see tests/docs.py.
the_commands_of_the_docs_do_as_they_say() {
  prepare 5
  by_the_docs node
  skips
  prepare -1
  by_the_docs outage
  skips
}

by_the_docs() { # KIND
  mkdir -p "$logs/bin"
  ln -sf "$program" "$logs/bin/k8s-certs-renew"
  (
    cd "$here/../.."
    tests/docs.py script "$1" >"$logs/docs"
    grep -q '^echo; ' "$logs/docs" || fail "the docs have no blocks of the kind '$1'"
    on_node env "PATH=$logs/bin:$PATH" bash -euo pipefail "$logs/docs"
  )
}

# What is removed without its image would not come back.
a_component_without_its_image_is_left_running() {
  local image=k8s.gcr.io/kube-scheduler:v1.20.2
  prepare 5
  remember
  trap 'bring_back_the_scheduler_image || true' EXIT # of the scenario
  on_node crictl rmi $image
  run 23 run
  says "$output" $image
  renewed "$before" "${leaves[@]}"
  restarted kube-apiserver "${old[kube-apiserver]}"
  restarted kube-controller-manager "${old[kube-controller-manager]}"
  not_restarted kube-scheduler
  works kube-controller-manager
  in_use
  bring_back_the_scheduler_image
  remember
  run 0 run
  says "$output" '## Restarting only: kube-scheduler ##'
  not_restarted kube-apiserver kube-controller-manager
  restarted kube-scheduler "${old[kube-scheduler]}"
  works kube-scheduler
  skips
}

bring_back_the_scheduler_image() {
  on_node ctr --namespace k8s.io images import "$cache/img/kube-scheduler.tar" >/dev/null
}

# By --restart all, and only so: its container ends gently, and a new one starts in the same sandbox.
a_static_pod_etcd_is_restarted_when_asked() {
  local pod
  prepare 300
  remember
  pod=$(sandbox etcd)
  run 10 run --restart all --detailed-exitcode
  equal "etcd: its sandbox" "$pod" "$(sandbox etcd)"
  [[ $(container etcd) =~ ^[0-9a-f]+$ ]] || fail "etcd does not run in one container but in '$(container etcd)'"
  [ "$(container etcd)" != "${old[etcd]}" ] || fail "etcd still runs in its old container"
  old[etcd]=$(container etcd)
  equal "serials, as nothing is due" "$before" "$(serials)"
  all_restarted_and_working
  in_use
  judged etcd 'in use'
  skips
}

# Sets `scenarios`: all that are played where etcd runs on the host, or as a static pod.
scenarios_of() { # host|stacked
  scenarios=(
    a_fresh_node_is_left_alone
    a_dry_run_tells_and_changes_nothing
    due_certificates_are_renewed_and_used
    the_first_year_outage_is_repaired
    a_terminated_run_leaves_whole_files_and_can_be_finished
    what_was_renewed_by_hand_is_put_to_use
    check_agrees_with_kubeadm
  )
  case $1 in
    host)
      scenarios+=(
        a_broken_scheduler_conf_stops_nothing_else
        a_broken_controller_manager_conf_stops_nothing_else
        a_second_run_at_once_is_refused
        without_a_kubelet_no_pod_is_removed
        killed_after_kubeadm_a_run_is_finished_by_the_next
        a_standby_with_an_expired_certificate_is_stale
        a_component_without_its_image_is_left_running
        "${kubelet_scenarios[@]}"
        the_commands_of_the_docs_do_as_they_say
      )
      ;;
    stacked)
      scenarios+=(
        killed_after_the_first_pod_and_before_the_copy_a_run_is_finished_by_the_next
        a_static_pod_etcd_is_restarted_when_asked
        # the two that hang on where kubeadm has its files; the others are the same on both
        kubelets_certificates_are_helped_along
        an_expired_kubelet_client_is_made_anew
      )
      ;;
  esac
}

# --- the test

trap finish EXIT

play_on() { # host|stacked SCENARIO...
  local scenario
  variant "$1"
  shift
  "$here/cluster.sh" down
  "$here/cluster.sh" up
  on_node tar -C / -cf - --exclude etc/kubernetes/manifests etc/kubernetes root/.kube var/lib/kubelet/config.yaml >"$logs/node.tar"
  for scenario in "$@"; do play "$scenario"; done
  keep_logs
}

main() { # SCENARIO...
  local etcd scenario
  for scenario in "$@"; do
    [ "$(type -t "$scenario")" = function ] || fail "no scenario '$scenario'"
  done
  "$here/build.sh"
  for etcd in ${ETCD:-host stacked}; do
    scenarios_of "$etcd"
    [ $# = 0 ] || scenarios=("$@")
    play_on "$etcd" "${scenarios[@]}"
  done
  echo "end-to-end: $passed passed, $failed failed"
  [ "$failed" = 0 ]
}

main "$@"
