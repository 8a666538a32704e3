# shellcheck shell=bash
# The scenarios about kubelet's own certificates: each way from a broken node to a rotating one, typed as docs/kubelet.md has it.
# Sourced by run.sh, whose variables and functions are used here.
# shellcheck disable=SC2154

# shellcheck disable=SC2034 # for run.sh
kubelet_scenarios=(
  kubelets_certificates_are_helped_along
  an_expired_kubelet_client_is_made_anew
  a_lost_kubelet_comes_back_by_a_bootstrap_token
  a_kubelet_that_does_not_rotate_is_put_right
  an_expired_kubelet_crt_is_remade_and_then_signed_by_the_cluster
  what_keeps_a_renewal_pending_is_named_and_mended
  a_worker_judges_what_it_can_see
)
page=$here/../../docs/kubelet.md
own=/var/lib/kubelet/pki
current=$own/kubelet-client-current.pem
conf=/etc/kubernetes/kubelet.conf

# --- what is typed

# The commands of a case of the page: the block of that number below the words in bold. Up to 1.20 kubeadm's command is an alpha one.
steps() { # WORDS [NUMBER]
  local text
  text=$(awk -v words="**$1" -v number="${2:-1}" '
    /^\*\*/ || /^## / { inside = index($0, words) == 1 }
    !/^    / { code = 0 }
    inside && /^    / { block += !code; code = 1; if (block == number) print substr($0, 5) }' "$page")
  [ -n "$text" ] || fail "docs/kubelet.md has no block ${2:-1} of commands below '**$1'"
  sed 's/\bNODE\b/node1/g; s/kubeadm kubeconfig user/kubeadm alpha kubeconfig user/' <<<"$text"
}

# The command that `kubelet check` prints to mend what a finding is about.
mend() { # ID
  findings | awk -F '\t' -v id="$1" '$2 == id && $1 != "ok" { print $3; found = 1 } END { exit !found }' ||
    fail "kubelet check has nothing to mend about $1"
}

# Types commands on the node, as root does at a shell of its own. There is no systemd: cluster.sh starts and stops kubelet.
typed() { # COMMANDS
  local bin=$logs/bin
  mkdir -p "$bin" "$logs/shell"
  ln -sfn "$program" "$bin/k8s-certs-renew"
  cat >"$bin/systemctl" <<END2
#!/bin/bash
set -euo pipefail
cluster() { nsenter --target $$ --mount --net --uts "$here/cluster.sh" "\$@"; }
case "\$1 \$2" in
  'restart kubelet')
    cluster stop kubelet
    cluster start kubelet
    ;;
  'start kubelet' | 'stop kubelet') cluster "\$1" kubelet ;;
  *) exit 1 ;;
esac
END2
  chmod 755 "$bin/systemctl"
  # shellcheck disable=SC2001 # a prompt before each line
  sed 's/^/# /' <<<"$1"
  on_node env HOME=/root "PATH=$bin:/usr/local/bin:$PATH" bash -eu -c "cd '$logs/shell'"$'\n'"$1"
}

# --- kubelet, and what it is seen to do

kubectl() { "$here/cluster.sh" exec -n 1 kubectl --kubeconfig /etc/kubernetes/admin.conf "$@"; }

restart_kubelet() {
  "$here/cluster.sh" stop kubelet
  "$here/cluster.sh" start kubelet
}

# One line a finding: status, id and what mends it.
findings() {
  { on_node "$program" kubelet check -o json 2>/dev/null || true; } | /usr/bin/python3 -c '
import json, sys
for one in json.load(sys.stdin)["findings"]: print(one["status"], one["id"], one["mend"] or "", sep="\t")'
}

all_ok() { on_node "$program" kubelet check -q; }

becomes_all_ok() { within 60 all_ok || fail "not all is ok: $(on_node "$program" kubelet check)"; }

found() { findings | cut -f 1,2 | grep -qx "$1"$'\t'"$2"; } # STATUS ID

client_serial() { on_node openssl x509 -in $current -noout -serial 2>/dev/null; }

# kubelet has another certificate than before, and not the one of kubelet.conf, which it begins with.
rotated() { # SERIAL
  local now
  now=$(client_serial) && [ "$now" != "$1" ] && [ "$now" != "$(serial kubelet.conf 2>/dev/null)" ] && found ok client-certificate
}

becomes_rotated() { within 120 rotated "$1" || fail "kubelet has not rotated: $(on_node "$program" kubelet check)"; } # SERIAL

ends_in() { # DAYS FILE
  on_node /usr/bin/python3 "$here/pki.py" reissue "$pki" "$1" "$2" 2>/dev/null
}

kubelet_log() { tail -n "+$logged" /var/log/k8s-cluster/kubelet1.log; }

# Starts kubelet anew, and waits until it has ended for want of a login.
does_not_start() {
  logged=$(($(wc -l </var/log/k8s-cluster/kubelet1.log) + 1))
  restart_kubelet
  within 30 gave_up || fail "kubelet does not say that it cannot start: $(kubelet_log | tail -5)"
}
gave_up() { kubelet_log | grep -qF 'unable to load bootstrap kubeconfig: stat /etc/kubernetes/bootstrap-kubelet.conf: no such file or directory'; }

client_request_is_issued() { [[ $(on_node "$program" kubelet check) =~ 'client requests of node1: '[0-9]+' issued' ]]; }

serves_a_serial() {
  on_node openssl s_client -connect 127.0.0.1:10250 </dev/null 2>/dev/null | openssl x509 -noout -serial
}

serving_request_is_pending() { kubectl get csr --no-headers | grep 'kubelet-serving.*Pending'; }

# A kubelet as kubeadm sets it up, before it has rotated for the first time.
fresh_kubelet() {
  "$here/cluster.sh" stop kubelet
  kubectl delete csr --all >/dev/null
  # shellcheck disable=SC2016 # for the node's shell
  on_node sh -c 'rm -rf "$1" /etc/kubernetes/bootstrap-kubelet.conf "$2".*
    tar -C / -xf - etc/kubernetes/kubelet.conf var/lib/kubelet/config.yaml' sh $own $conf <"$logs/node.tar"
  "$here/cluster.sh" start kubelet
  within 60 client_request_is_issued || fail "the client's request is not issued by itself: $(on_node "$program" kubelet check)"
}

# Makes all right, as the page has it.
rotating_kubelet() {
  trap 'fresh_kubelet >/dev/null || true' EXIT # of the scenario, however it ends
  fresh_kubelet
  within 60 serving_request_is_pending || fail "kubelet does not ask for a serving certificate"
  typed "$(steps 'The serving certificate is to be signed' 2)"
  within 60 serves_a_serial || fail "kubelet does not serve the certificate that was approved"
  typed "$(steps 'kubelet.conf holds a certificate of its own')"
  becomes_all_ok
}

# --- scenarios

# The client's comes by itself, the serving one waits for `kubelet approve`, and what is missing for both is named, and mended as it
# says.
kubelets_certificates_are_helped_along() {
  local bindings=(kubeadm:kubelet-bootstrap kubeadm:node-autoapprove-bootstrap kubeadm:node-autoapprove-certificate-rotation)
  prepare 300
  fresh_kubelet
  within 60 serving_request_is_pending || fail "kubelet does not ask for a serving certificate"
  run 1 kubelet check
  says "$output" 'kubelet has asked for a serving certificate, and has none: its request waits for somebody to approve it'
  run 0 kubelet approve --dry-run
  says "$output" 'would be approved: '
  ! serves_a_serial || fail "kubelet serves a certificate that nobody has approved"
  run 0 kubelet approve
  within 60 serves_a_serial || fail "kubelet does not serve the certificate that was approved"
  run 0 kubelet approve
  says_not "$output" approved:

  kubectl delete clusterrolebinding "${bindings[@]}"
  run 2 kubelet check
  for id in bootstrap-create bootstrap-approval renewal-approval; do says "$output" "($id)"; done
  on_node "$program" kubelet rbac | kubectl apply -f -
  on_node "$program" kubelet rbac --diff >"$output"
  equal "what is still missing" '' "$(cat "$output")"

  # the certificate that kubeadm's first phase has put into kubelet.conf is not the one that rotates
  run 1 kubelet check
  says "$output" '(kubelet-conf)'
  typed "$(mend kubelet-conf)"
  becomes_all_ok
}

an_expired_kubelet_client_is_made_anew() {
  local old
  rotating_kubelet
  ends_in -1 $current
  old=$(client_serial)
  does_not_start
  run 2 kubelet check
  says "$output" '(client-certificate)'
  says "$output" 'expired on'
  typed "$(steps 'The client certificate has expired' 1)"
  on_node cp "$logs/shell/node1.conf" $conf.new
  typed "$(steps 'The client certificate has expired' 2)"
  becomes_rotated "$old"
  typed "$(steps 'The client certificate has expired' 3)"
  becomes_all_ok

  # what `kubelet check` prints does it as well
  ends_in -1 $current
  old=$(client_serial)
  does_not_start
  typed "$(mend client-certificate)"
  becomes_rotated "$old"
  typed "$(mend kubelet-conf)"
  becomes_all_ok
  equal "mode of kubelet.conf" 600 "$(on_node stat -c %a $conf)"
}

a_lost_kubelet_comes_back_by_a_bootstrap_token() {
  rotating_kubelet
  # shellcheck disable=SC2016 # for the node's shell
  on_node sh -c 'rm "$1" "$2"/kubelet-client-*' sh $conf $own
  does_not_start
  run 2 kubelet check
  says "$output" '(client-certificate)'
  says "$output" '(kubelet-conf)'
  typed "$(steps 'With a bootstrap token' 1)"
  on_node install -m 600 "$logs/shell/bootstrap-kubelet.conf" /etc/kubernetes/bootstrap-kubelet.conf
  run 2 kubelet check
  says "$output" 'a first request would be taken'
  typed "$(steps 'With a bootstrap token' 2)"
  becomes_all_ok
  on_node grep -F "client-certificate: $current" $conf
  typed "$(steps 'With a bootstrap token' 3)"
  restart_kubelet
  becomes_all_ok
}

a_kubelet_that_does_not_rotate_is_put_right() {
  local old
  rotating_kubelet

  on_node sed -i 's/^rotateCertificates: .*/rotateCertificates: false/' /var/lib/kubelet/config.yaml
  ends_in 18 $current # of 365: past the last moment of 90 %
  old=$(client_serial)
  restart_kubelet
  within 60 serves_a_serial || fail "kubelet does not come back"
  run 1 kubelet check
  says "$output" '(rotate-certificates)'
  equal "kubelet's certificate, which does not rotate" "$old" "$(client_serial)"
  typed "$(steps 'Rotation is off')"
  becomes_rotated "$old"
  becomes_all_ok

  on_node tar -C / -xf - etc/kubernetes/kubelet.conf <"$logs/node.tar"
  ends_in -1 $conf
  does_not_start
  run 2 kubelet check
  says "$output" '(kubelet-conf)'
  typed "$(steps 'kubelet.conf holds a certificate of its own')"
  becomes_all_ok

  on_node cp $current $current.file
  on_node mv $current.file $current
  ends_in 18 $current
  old=$(client_serial)
  logged=$(($(wc -l </var/log/k8s-cluster/kubelet1.log) + 1))
  restart_kubelet
  within 60 rotation_fails || fail "kubelet rotates a file that is no link"
  run 1 kubelet check
  says "$output" '(client-link)'
  typed "$(steps 'A file is in the place of the link')"
  becomes_rotated "$old"
  becomes_all_ok

  on_node ln -sfn /nowhere.pem $current
  run 2 kubelet check
  says "$output" "a link to '/nowhere.pem', where nothing is"
  typed "$(mend client-certificate)"
  becomes_all_ok
}
rotation_fails() { kubelet_log | grep -qF 'to be a symlink'; }

an_expired_kubelet_crt_is_remade_and_then_signed_by_the_cluster() {
  rotating_kubelet
  on_node sed -i 's/^serverTLSBootstrap: .*/serverTLSBootstrap: false/' /var/lib/kubelet/config.yaml
  restart_kubelet
  within 60 on_node test -f $own/kubelet.crt || fail "kubelet makes no certificate itself"
  ends_in -1 $own/kubelet.crt
  restart_kubelet
  within 60 serves_a_serial || fail "kubelet does not come back"
  run 1 kubelet check
  says "$output" '(serving-certificate)'
  typed "$(steps "\`kubelet.crt\` has expired")"
  becomes_all_ok
  on_node openssl x509 -in $own/kubelet.crt -noout -checkend 86400

  on_node sh -c "rm $own/kubelet-server-*"
  typed "$(steps 'The serving certificate is to be signed' 1)"
  within 60 serving_request_is_pending || fail "kubelet does not ask for a serving certificate"
  typed "$(steps 'The serving certificate is to be signed' 2)"
  becomes_all_ok
}

what_keeps_a_renewal_pending_is_named_and_mended() {
  local old manifest=/etc/kubernetes/manifests/kube-controller-manager.yaml
  rotating_kubelet

  kubectl delete clusterrolebinding kubeadm:node-autoapprove-certificate-rotation
  ends_in 18 $current
  old=$(client_serial)
  restart_kubelet
  within 60 client_request_is Pending || fail "kubelet does not ask for its next certificate"
  run 2 kubelet check --at "$(date -u -d '5 minutes' +%FT%TZ)"
  says "$output" '(renewal-approval)'
  says "$output" '(client-requests)'
  typed "$(mend renewal-approval)"
  becomes_rotated "$old"
  becomes_all_ok

  on_node cat $manifest >"$logs/manifest"
  on_node sed -i '/--cluster-signing-/d' $manifest
  within 60 container_is_without --cluster-signing-cert-file || fail "kube-controller-manager is not started anew"
  ends_in 18 $current
  old=$(client_serial)
  restart_kubelet
  within 120 client_request_is 'Approved$' || fail "the request is not approved, or it is issued"
  run 2 kubelet check --at "$(date -u -d '5 minutes' +%FT%TZ)"
  says "$output" 'is given no CA to sign with'
  says "$output" 'is approved and never issued'
  on_node tee $manifest <"$logs/manifest" >/dev/null
  becomes_rotated "$old"
  becomes_all_ok
}
client_request_is() { kubectl get csr --no-headers | grep -q "client-kubelet .*$1"; } # STATE
container_is_without() { # FLAG
  local pid
  pid=$(process kube-controller-manager 2>/dev/null) && ! tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qF -- "$1" && healthy 10257
}

# A tree with nothing but what a worker has: kubelet's files and its process. The API server that kubelet.conf names is the real one.
a_worker_judges_what_it_can_see() {
  local pid tree=$logs/worker
  rotating_kubelet
  pid=$(cut -d ' ' -f 1 /run/k8s-cluster/kubelet1.pid)
  mkdir -p "$tree/etc/kubernetes" "$tree/var/lib/kubelet" "$tree/proc/$pid"
  on_node cp -p $conf "$tree/etc/kubernetes/"
  on_node cp -rp $own /var/lib/kubelet/config.yaml "$tree/var/lib/kubelet/"
  for file in stat comm cmdline; do cat "/proc/$pid/$file" >"$tree/proc/$pid/$file"; done
  run 0 kubelet check --root "$tree"
  says "$output" "renewals of this node's client certificate: granted"
  says "$output" 'client requests of node1: '
  says "$output" 'not visible from a worker, and not judged: bootstrap-create'
  kubectl delete clusterrolebinding kubeadm:node-autoapprove-certificate-rotation
  run 2 kubelet check --root "$tree"
  says "$output" '(renewal-approval)'
  typed "$(mend renewal-approval)"
  run 0 kubelet check --root "$tree"
}
