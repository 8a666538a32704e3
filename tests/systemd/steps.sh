# shellcheck shell=bash disable=SC2154,SC2034,SC2086 # variables, none of them with blanks, are of lib.sh, steps.sh and systemd.sh
# The steps of scenarios: a node with the program installed, a timer that fires soon, a run that ends. Sourced by systemd.sh, which
# sets `program`.

# A booted node with due certificates, on which everything runs and the timer is armed. Sets `old`, `pods`.
node() {
  bare_node
  install_program
}

bare_node() {
  fresh
  install -D -m 755 "$program" "$root/root/download/k8s-certs-renew"
  boot
  within 20 node_runs || fail "the node's stand-ins do not come up: $(journal -u kubelet | tail -3)"
  remember
}

remember() { old=$(serials) pods=$(sandboxes); }

# As an operator does it who has downloaded the program.
install_program() {
  inside /root/download/k8s-certs-renew install
}

# Has the timer fire so many seconds from now, and again at each number that follows; once an hour each.
arm() { # SECONDS...
  local lines=('[Timer]' OnCalendar= RandomizedDelaySec=0 AccuracySec=1ms) seconds
  for seconds in "$@"; do lines+=("$(hourly_in "$seconds")"); done
  drop_in $timer "${lines[@]}"
  inside systemctl restart $timer
}

# Waits for the end of a run that is not the one that was waited for before.
invocation=''
run_ends() { # SECONDS
  local end=$((SECONDS + $1)) id state
  while ((SECONDS < end)); do
    id=$(property $service InvocationID) state=$(property $service ActiveState)/$(property $service SubState)
    if [ -n "$id" ] && [ "$id" != "$invocation" ] && [[ $state =~ ^(inactive|failed|activating/auto-restart) ]]; then
      invocation=$id
      return
    fi
    sleep 0.2
  done
  fail "no run ends within $1 s"
}

start() { inside systemctl start --no-block $service; }

succeeds() { # STATUS: by systemd's word
  has $service ExecMainStatus "$1"
  has $service Result success
  has $service ActiveState inactive
}
