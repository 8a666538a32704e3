#!/bin/bash
# docs/ansible/k8s-certs-renew.yml on two real control planes: `tests/e2e/ansible.sh PROGRAM`, as root, while cluster.sh has at least two
# nodes up. Installs ansible-core where it is missing.
#
# Ansible reaches a node by its local connection: the interpreter of a host is a script that enters the node, and runs Python there. There
# /usr/local/bin, /etc/systemd/system and /etc/default are the node's own for this test, everything else of the machine is read-only, and
# systemd does not run, so that `install` writes units and starts nothing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$(realpath "$1")
playbook=$here/../../docs/ansible/k8s-certs-renew.yml
work=$(mktemp -d)
own=(/usr/local/bin /etc/systemd/system /etc/default)

leave() {
  local code=$?
  if [ $code != 0 ] && [ -e "$work/play.log" ]; then tail -100 "$work/play.log"; fi
  rm -rf "$work"
}
trap leave EXIT

fail() {
  echo "ansible.sh: $*" >&2
  exit 1
}

on() { # NODE CMD...
  local node=$1
  shift
  "$here/cluster.sh" exec -n "$node" "$@"
}

# What this machine has where the playbook installs.
machine() {
  find "${own[@]}" -printf '%p %M %s %T@ %l\n' | sort
}

host() { # NODE: its directories, and the interpreter that enters it
  local directory
  for directory in "${own[@]}"; do mkdir -p "$work/node$1$directory"; done
  cp -a /usr/local/bin/{kubeadm,kubelet,kubectl,crictl} "$work/node$1/usr/local/bin/"
  cat >"$work/python$1" <<END
#!/bin/bash
# what runs on the node already, as a job in the background does, is not to enter it again
[ -z "\${NODE_ENTERED:-}" ] || exec /usr/bin/python3 "\$@"
exec "$here/cluster.sh" exec -n $1 unshare --mount --propagation private "$work/enter" $1 "\$@"
END
  chmod +x "$work/python$1"
}

hosts() {
  cat >"$work/enter" <<END
#!/bin/bash
set -euo pipefail
node=\$1
shift
for directory in ${own[*]}; do mount --bind "$work/node\$node\$directory" "\$directory"; done
[ ! -d /run/systemd ] || mount -t tmpfs none /run/systemd
mount --bind /tmp /tmp
mount -o remount,ro,bind /
# a login's, and not cluster.sh's, which finds kubeadm elsewhere
export NODE_ENTERED=\$node PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec /usr/bin/python3 "\$@"
END
  chmod +x "$work/enter"
  host 1
  host 2
  mkdir "$work/async"
  cat >"$work/inventory" <<END
[kube_control_plane]
node1 ansible_python_interpreter=$work/python1
node2 ansible_python_interpreter=$work/python2
[kube_control_plane:vars]
ansible_connection=local
ansible_remote_tmp=$work/tmp
ansible_async_dir=$work/async
k8s_certs_renew_source=$program
END
}

play() { # OPTIONS...; its exit code is `code`
  code=0
  ANSIBLE_LOCAL_TEMP=$work/tmp ANSIBLE_RETRY_FILES_ENABLED=0 ANSIBLE_NOCOLOR=1 \
    ansible-playbook -i "$work/inventory" "$@" "$playbook" >"$work/play.log" 2>&1 </dev/null || code=$?
}

# A number of the recap, such as `changed` or `failed`; nothing for a node that the play did not come to.
recap() { # NODE NUMBER
  sed -n "/^PLAY RECAP/,\$s/^node$1 .*\\b$2=\\([0-9]*\\).*/\\1/p" "$work/play.log"
}

expect_recap() { # NODE NUMBER VALUE
  local value
  value=$(recap "$1" "$2")
  [ "$value" = "$3" ] || fail "node$1: $2=$value in the recap, not $3"
}

# Asks the report of a check: Python that has it as `report`.
ask() { # NODE EXPRESSION
  { on "$1" "$program" check -o json || [ $? -le 3 ]; } |
    /usr/bin/python3 -c 'import json, sys; report = json.load(sys.stdin); print(eval(sys.argv[1]))' "$2"
}

serials() { # NODE: of what kubeadm renews
  ask "$1" '"\n".join(c["name"] + " " + c["serial"] for c in report["certificates"] if c["manager"] == "kubeadm" and c["serial"])'
}

# Nothing is done that lasts: neither by a syntax check nor by a dry run.
nothing_is_changed_without_a_run() {
  local before
  before=$(serials 1)
  play --syntax-check
  [ $code = 0 ] || fail "the playbook has an error of syntax"
  play --check
  [ $code = 0 ] || fail "a dry run on nodes that have no program yet ends with $code"
  [ ! -e "$work/node1/usr/local/bin/k8s-certs-renew" ] || fail "a dry run has installed the program"
  [ "$(serials 1)" = "$before" ] || fail "a dry run has renewed"
}

# The first node's kubeadm fails: the second is not touched.
a_node_that_fails_stops_the_play() {
  local tools=$work/node1/usr/local/bin before
  before=$(serials 2)
  rm "$tools/kubeadm"
  printf '#!/bin/sh\necho "no space left on device" >&2\nexit 1\n' >"$tools/kubeadm"
  chmod +x "$tools/kubeadm"
  play
  [ $code != 0 ] || fail "the play goes on although the first node failed"
  expect_recap 1 failed 1
  [ -z "$(recap 2 ok)" ] || fail "the play went on to node2"
  [ ! -e "$work/node2/usr/local/bin/k8s-certs-renew" ] || fail "the play has installed on node2"
  [ "$(serials 2)" = "$before" ] || fail "the play has renewed on node2"
  cp -a --remove-destination /usr/local/bin/kubeadm "$tools/"
}

# When the last run began and ended, in seconds; its journal is the node's.
began() { on "$1" cat /var/lib/k8s-certs-renew/state.json | /usr/bin/python3 -c '
import datetime, json, sys
journal = json.load(sys.stdin)
print(datetime.datetime.fromisoformat(journal["lastRun"].replace("Z", "+00:00")).timestamp())'; }

ended() { on "$1" cat /var/lib/k8s-certs-renew/state.json | /usr/bin/python3 -c '
import datetime, json, sys
journal = json.load(sys.stdin)
began = datetime.datetime.fromisoformat(journal["lastRun"].replace("Z", "+00:00")).timestamp()
print(began + journal["lastDurationMs"] / 1000)'; }

both_nodes_are_done_one_after_the_other() {
  local before1 before2 node event events
  before1=$(serials 1) before2=$(serials 2)
  play
  [ $code = 0 ] || fail "the play ends with $code"
  for node in 1 2; do
    expect_recap $node failed 0
    [ "$(ask $node 'report["done"]')" = True ] || fail "node$node is not done: $(ask $node 'report["toDo"]')"
    [ "$(ask $node 'sorted({c["verdict"] for c in report["components"] if c["name"] in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")})')" = "['in use']" ] ||
      fail "node$node does not use what is on disk: $(ask $node 'report["components"]')"
    cmp -s "$program" "$work/node$node/usr/local/bin/k8s-certs-renew" || fail "node$node has another program"
    [ -L "$work/node$node/etc/systemd/system/timers.target.wants/k8s-certs-renew.timer" ] || fail "node$node: the timer is not enabled"
  done
  # no line of before is left
  if grep -qxF "$before1" <<<"$(serials 1)" || grep -qxF "$before2" <<<"$(serials 2)"; then fail "an old certificate is left"; fi
  awk -v first="$(ended 1)" -v second="$(began 2)" 'BEGIN { exit !(first <= second) }' ||
    fail "node2 began at $(began 2), before node1 had ended at $(ended 1)"
  events=$(on 1 kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get events \
    -o 'jsonpath={range .items[*]}{.source.component} {.involvedObject.kind} {.involvedObject.name} {.type} {.reason}{"\n"}{end}')
  for node in 1 2; do
    for event in "Normal CertificatesRenewing" "Normal CertificatesRenewed"; do
      grep -qx "k8s-certs-renew Node node$node $event" <<<"$events" || fail "no Event '$event' of node$node: $events"
    done
  done
  grep -qx 'k8s-certs-renew Node node1 Warning CertificatesRenewalFailed' <<<"$events" || fail "no Event of node1's failure: $events"
}

a_second_play_changes_nothing() {
  local before node
  before=$(serials 1 && serials 2)
  for options in "" "--check" "--tags look" "--tags run"; do
    # shellcheck disable=SC2086 # words
    play $options
    [ $code = 0 ] || fail "the second play ($options) ends with $code"
    for node in 1 2; do expect_recap $node changed 0; done
  done
  [ "$(serials 1 && serials 2)" = "$before" ] || fail "the second play has renewed"
}

command -v ansible-playbook >/dev/null || {
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y -qq ansible-core >/dev/null || {
    apt-get update -qq
    apt-get install -y -qq ansible-core >/dev/null
  }
}
before=$(machine)
hosts
for node in 1 2; do
  # what is due already need not be made so
  if [ "$(ask $node 'report["decision"]["renew"] != []')" != True ]; then "$here/cluster.sh" age 5 $node; fi
done
for scenario in nothing_is_changed_without_a_run a_node_that_fails_stops_the_play both_nodes_are_done_one_after_the_other a_second_play_changes_nothing; do
  begin=$SECONDS
  $scenario
  echo "ok: ansible: $scenario ($((SECONDS - begin)) s)"
done
[ "$(machine)" = "$before" ] || fail "this machine is not as it was: $(diff <(echo "$before") <(machine))"
