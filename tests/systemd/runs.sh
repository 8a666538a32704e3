# shellcheck shell=bash disable=SC2154,SC2034,SC2086 # variables, none of them with blanks, are of lib.sh, steps.sh and systemd.sh
# Scenarios: what systemd makes of runs, and runs of systemd. Sourced by systemd.sh.

the_timer_fires_and_the_service_renews() {
  node
  arm 3
  run_ends 40
  succeeds 0
  renewed "$old" "$pods"
  has $timer ActiveState active
  equal "the lines of the old job" "## Check Expiration before renewal ##
## Renewing certificates managed by kubeadm ##
## Restarting control plane pods managed by kubeadm ##
## Updating /root/.kube/config ##
## Waiting for apiserver to be up again ##
## Expiration after renewal ##" "$(journal -u $service | grep '^##')"

  echo "- a second run skips"
  remember
  arm 2
  run_ends 20
  succeeds 0
  journal_says '## Skip cert renew and K8S container restart, since all residualTimes are beyond threshold ##'
  equal "serials after the skip" "$old" "$(serials)"
  equal "sandboxes after the skip" "$pods" "$(sandboxes)"

  echo "- a run that tells by its exit code that something was renewed has not failed either"
  echo K8S_CERTS_RENEW_DETAILED_EXITCODE=yes | write /etc/default/k8s-certs-renew
  age 5
  remember
  arm 2
  run_ends 30
  succeeds 10
  renewed "$old" "$pods"
}

a_failing_run_is_a_failed_unit_and_tried_again() {
  node
  drop_in $service '[Service]' RestartSec=1s
  other_kubeadm <<<$'#!/bin/sh\necho kubeadm cannot >&2\nexit 1'
  start
  becomes 40 $service ActiveState failed
  has $service ExecMainStatus 20
  equal "starts" 4 "$(journal -u $service | grep -c '^## Check Expiration before renewal ##')"
  has $timer ActiveState active
  equal "serials" "$old" "$(serials)"

  echo "- what went by itself is not failed any more: at first another kubeadm is at work"
  real_kubeadm
  inside systemctl reset-failed $service
  drop_in $service '[Service]' RestartSec=3s
  inside bash -c 'exec -a kubeadm sleep 4' &
  start
  becomes 10 $service ExecMainStatus 75
  has $service Result exit-code
  becomes 30 $service ActiveState inactive
  succeeds 0
  renewed "$old" "$pods"
}

what_needs_a_person_is_not_tried_again() {
  node
  drop_in $service '[Service]' RestartSec=1s
  mv "$root$pki/ca.key" "$root/root/"
  is_not_retried 25
  mv "$root/root/ca.key" "$root$pki/"

  chmod -x "$root/usr/local/bin/kubeadm"
  is_not_retried 69
  chmod +x "$root/usr/local/bin/kubeadm"

  echo K8S_CERTS_RENEW_DAYS_BUFER=14 | write /etc/default/k8s-certs-renew
  is_not_retried 78
  journal_says K8S_CERTS_RENEW_DAYS_BUFER
}

is_not_retried() { # CODE
  inside systemctl reset-failed $service
  start
  run_ends 20
  sleep 2
  has $service ActiveState failed
  has $service Result exit-code
  has $service ExecMainStatus "$1"
  has $service NRestarts 0
}

a_node_that_is_no_control_plane_is_passed_over() {
  node
  mv "$root$kubernetes/manifests" "$root/root/"
  inside systemctl start $service
  has $service ConditionResult no
  has $service ActiveState inactive
  has $service Result success
  equal "serials" "$old" "$(serials)"
}

a_firing_that_was_slept_through_is_made_up_for_at_boot() {
  node
  # the runtime and the pods are not there yet when it fires
  printf '[Service]\nEnvironment=START_DELAY=6\n' | write /etc/systemd/system/kubelet.service.d/90-test.conf
  arm 5
  shut_down
  sleep 5
  boot
  run_ends 60
  succeeds 0
  [ "$(journal -b -u $service | grep -c '^## Renewing')" = 1 ] || fail "the run at boot renews nothing"
  renewed "$old" "$pods"

  echo "- with nothing due it is a skip from the files alone: no kubelet, no runtime, no pods"
  inside systemctl --quiet disable --now kubelet
  arm 5
  old=$(serials)
  shut_down
  sleep 5
  boot
  run_ends 20
  succeeds 0
  [ "$(journal -b -u $service | grep -c '^## Skip cert renew')" = 1 ] || fail "the run at boot does not skip"
  equal "serials after the skip" "$old" "$(serials)"
}

the_random_delay_is_within_the_threshold_and_stays_what_it_is() {
  local next latest
  node
  next=$(property $timer NextElapseUSecRealtime)
  latest=$({ inside k8s-certs-renew check -o prometheus || true; } | sed -n 's/^k8s_certs_renew_latest_start_timestamp_seconds //p')
  echo "next $next, latest start $latest"
  (($(date -d "$next" +%s) <= ${latest%.*} && $(date -d "$next" +%s) > ${latest%.*} - 32 * 60)) ||
    fail "$next is not within the delay that ends at $(date -d "@$latest")"
  inside systemctl daemon-reload
  equal "next firing after a reload" "$next" "$(property $timer NextElapseUSecRealtime)"
  shut_down
  boot
  equal "next firing after a reboot" "$next" "$(property $timer NextElapseUSecRealtime)"
}

hardening_is_in_the_way_of_no_step() {
  local runtime
  node
  mkdir -p "$root"/{var/lib/prometheus/node-exporter,home/ops/.kube}
  chroot "$root" useradd --home-dir /home/ops ops
  install -m 600 "$root$kubernetes/admin.conf" "$root/home/ops/.kube/config"
  chroot "$root" chown -R ops: /home/ops
  write /etc/default/k8s-certs-renew <<'FILE'
K8S_CERTS_RENEW_TEXTFILE=/var/lib/prometheus/node-exporter/k8s.prom
K8S_CERTS_RENEW_KUBECONFIG_COPY=/root/.kube/config; /home/ops/.kube/config
FILE
  hardened_run_renews
  # a call that is forbidden ends the program now, so that none goes unseen because it is done without
  drop_in $service '[Service]' SystemCallErrorNumber=kill
  for runtime in crictl docker; do
    echo "- with $runtime; a forbidden call kills"
    if [ $runtime = docker ]; then
      sed -i /containerRuntimeEndpoint/d "$root/var/lib/kubelet/config.yaml"
      drop_in kubelet.service '[Service]' Environment=RUNTIME=docker
      inside systemctl restart kubelet
      # crictl, which the test asks, has a runtime of its own: the socket is docker's
      sleep 2
      rm "$root/usr/local/bin/crictl"
    fi
    age 5
    old=$(serials)
    hardened_run_renews
  done
  echo "- with what has expired the kernel is asked for its clock, and says either"
  age -1
  inside systemctl reset-failed $service
  start
  run_ends 60
  has $service ExecMainStatus '0|27'
  no_call_was_forbidden
}

no_call_was_forbidden() { journal_says_not 'EPERM|operation not permitted|permission denied|read-only file system'; }

hardened_run_renews() {
  local copy=home/ops/.kube/config
  inside systemctl reset-failed $service # so that the day's limit of starts is not in the way
  start
  run_ends 60
  succeeds 0
  no_call_was_forbidden
  [ "$old" != "$(serials)" ] || fail "nothing is renewed"
  cmp "$root/$copy" "$root$kubernetes/admin.conf" || fail "/$copy is not the new admin.conf"
  equal "owner and mode of /$copy" "ops 600" "$(chroot "$root" stat -c '%U %a' "/$copy")"
  equal "owner of admin.conf" "kube 600" "$(chroot "$root" stat -c '%U %a' $kubernetes/admin.conf)"
  grep -qx 'k8s_certs_renew_last_exit_code 0' "$root/var/lib/prometheus/node-exporter/k8s.prom" || fail "no metrics are written"
  [ -n "$(find "$root/var/lib/k8s-certs-renew/backups" -name admin.conf)" ] || fail "there is no backup"
}

a_hung_kubeadm_is_ended_and_the_timer_goes_on() {
  node
  drop_in $service '[Service]' TimeoutStartSec=4s TimeoutStopSec=2s Restart=no
  other_kubeadm <<'SH'
#!/bin/sh
case "$*" in *renew*) exec sleep infinity ;; esac
exec kubeadm.real "$@"
SH
  arm 2 16
  becomes 10 $service ActiveState activating
  run_ends 14
  has $service ActiveState failed
  has $service Result timeout
  ! inside grep -lqx sleep /proc/[0-9]*/comm 2>/dev/null || fail "kubeadm is still there"
  real_kubeadm
  drop_in $service '[Service]' Restart=no
  run_ends 30
  succeeds 0
  renewed "$old" "$pods"
}

a_stop_waits_for_kubeadm() {
  local leaf
  node
  other_kubeadm <<'SH'
#!/bin/sh
case "$*" in *renew*) touch /run/begun && sleep 4 && kubeadm.real "$@" && touch /run/ended && exit ;; esac
exec kubeadm.real "$@"
SH
  start
  within 20 inside test -e /run/begun || fail "kubeadm is not called"
  inside systemctl stop $service
  run_ends 5
  inside test -e /run/ended || fail "kubeadm was cut off"
  has $service ExecMainStatus 143
  has $service Result 'exit-code|signal'
  [ "$old" != "$(serials)" ] || fail "kubeadm has renewed nothing"
  equal "sandboxes after the stop" "$pods" "$(sandboxes)"
  for leaf in apiserver apiserver-kubelet-client front-proxy-client; do
    equal "the public key of $leaf" "$(openssl x509 -noout -pubkey -in "$root$pki/$leaf.crt")" \
      "$(openssl pkey -pubout -in "$root$pki/$leaf.key")"
  done

  echo "- the next run does the rest"
  real_kubeadm
  start
  run_ends 40
  succeeds 0
  renewed "$old" "$pods"
}

a_failure_is_told_once_it_is_final() {
  node
  cp "$here/../../docs/monitoring/k8s-certs-failed@.service" "$root/etc/systemd/system/"
  write /etc/systemd/system/$service.d/onfailure.conf <"$here/../../docs/monitoring/onfailure.conf"
  drop_in $service '[Service]' RestartSec=1s
  echo K8S_CERTS_RENEW_DAYS_BUFER=14 | write /etc/default/k8s-certs-renew
  start
  run_ends 20
  within 10 told "exited 78" || fail "nobody is told: $(journal -t k8s-certs-renew | tail -3)"

  echo "- one that is tried again is told when it is not tried any more"
  inside systemctl reset-failed $service
  rm "$root/etc/default/k8s-certs-renew"
  other_kubeadm <<<$'#!/bin/sh\nexit 1'
  start
  run_ends 20
  has $service ExecMainStatus 20
  ! told "exited 20" || fail "told before the last try"
  becomes 30 $service ActiveState failed
  within 10 told "exited 20" || fail "nobody is told of the end: $(journal -t k8s-certs-renew | tail -3)"
}

told() { [[ $(journal -t k8s-certs-renew) == *"$service has failed: $1"* ]]; } # HOW

# The container takes the place of the node's own systemd: it has its files, its network and its runtime. Processes it cannot see,
# so something there stands for kubelet's; the port of its health is the real one's.
a_real_node_is_renewed_by_its_timer() {
  local shared cluster=$here/../e2e/cluster.sh
  export ETCD=host
  fresh
  [ ! -e /run/k8s-cluster ] || fail "a cluster is up that is not this test's"
  touch "$work/cluster"
  "$cluster" up
  "$cluster" age 5
  files=/var/lib/k8s-cluster/node1 network=/run/netns/k8scp1
  for shared in /etc/kubernetes /etc/ssl/etcd /etc/crictl.yaml /root/.kube /run/containerd /var/lib/kubelet; do
    binds+=("--bind=$files$shared:$shared")
  done
  printf '[Service]\nExecStart=@/usr/bin/sleep kubelet infinity\n' | write /etc/systemd/system/kubelet.service
  rm "$root"/usr/local/bin/{crictl,docker}
  install -m 755 "$cluster_cache/bin/crictl" "$root/usr/local/bin/"
  touch "$root/etc/crictl.yaml" # for the mount
  install -D -m 755 "$program" "$root/root/download/k8s-certs-renew"
  boot
  remember
  install_program
  arm 3
  run_ends 180
  journal -u $service
  succeeds 0
  renewed "$old" "$pods"
  equal "the serial that kube-apiserver serves" "$(serial apiserver)" \
    "$("$cluster" exec openssl s_client -connect 127.0.0.1:6443 </dev/null 2>/dev/null | openssl x509 -noout -serial)"
  "$cluster" exec kubectl --kubeconfig /root/.kube/config get nodes

  echo "- a second run skips"
  remember
  arm 2
  run_ends 40
  succeeds 0
  equal "serials after the skip" "$old" "$(serials)"
  equal "sandboxes after the skip" "$pods" "$(sandboxes)"
}
