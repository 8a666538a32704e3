#!/bin/bash
# Real control-plane nodes (Kubernetes 1.20.2, containerd, etcd): real kubeadm, kubelet and static pods. A node is a network,
# a mount and a UTS namespace of this machine with a host name, /etc/kubernetes, /var/lib/kubelet, /etc/ssl/etcd,
# /root/.kube, /run/containerd ... of its own; the machine's own stay as they are.
# ETCD=host (default): laid out as kubespray does, with etcd as a service of the host, and kubeadm's files in
# /etc/kubernetes/ssl. ETCD=stacked: as plain kubeadm does, with etcd as a static pod, and everything in /etc/kubernetes/pki.
# Its CAs are a year old, as in a cluster whose first certificates are about to end. Needs root and what build.sh made.
#
#   cluster.sh up                      start; returns when every component of every node is healthy (25 seconds)
#   cluster.sh age DAYS [NODE]         re-issue every leaf that kubeadm manages on the node (default 1), so that it ends in
#                                      DAYS days (below 0: has ended), and restart the static pods, so that these are in use
#                                      (but etcd, which reads its own again at each handshake)
#   cluster.sh exec [-n NODE] CMD...   run a command on the node: with its files, and its apiserver at 127.0.0.1:6443
#   cluster.sh start|stop etcd|containerd|kubelet [NODE]
#   cluster.sh down                    stop everything and remove every trace
#
# NODES=3 cluster.sh up makes three nodes that share one CA and one etcd cluster, a member each. NODES and ETCD hold until
# `down`. Cache of build.sh: $CLUSTER_CACHE.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CLUSTER_CACHE:-/var/cache/k8s-cluster}
net=10.77.0
run=/run/k8s-cluster logs=/var/log/k8s-cluster data=/var/lib/k8s-cluster
kubernetes=/etc/kubernetes etcd_pki=/etc/ssl/etcd/ssl
socket=unix:///run/containerd/containerd.sock
programs=(kubeadm kubelet kubectl crictl)
# what a node has of its own
private=(/etc/kubernetes /etc/ssl/etcd /etc/containerd /root/.kube /var/lib/kubelet /var/lib/containerd /run/containerd
  /var/lib/etcd /var/log/pods /var/log/containers /var/lib/k8s-certs-renew)
private_files=(/etc/crictl.yaml /run/k8s-certs-renew.lock)
export PATH=$cache/bin:$PATH

die() {
  echo "cluster.sh: $*" >&2
  exit 1
}

address() { echo "$net.$((9 + $1))"; }

# Sets `enter`: the words that run a command on node $1.
set_enter() { enter=(nsenter "--net=/run/netns/k8scp$1" "--uts=$run/uts$1" "--mount=$run/mnt$1"); }

on() { # NODE CMD...
  local enter
  set_enter "$1"
  shift
  "${enter[@]}" "$@"
}

wait_for() { # SECONDS CMD...
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS >= end)); then return 1; fi
    sleep 0.2
  done
}

# --- programs: known by pid and start time, since a pid alone may be another program's by now

start_time() { # PID -> ticks since boot; the name before it in the file may hold spaces
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  read -ra stat <<<"${stat##*) }"
  echo "${stat[19]}"
}

spawn() { # NODE NAME CMD...
  local n=$1 name=$2 enter pid
  shift 2
  set_enter "$n"
  "${enter[@]}" setsid "$@" >>"$logs/$name$n.log" 2>&1 </dev/null &
  pid=$!
  echo "$pid $(start_time "$pid")" >"$run/$name$n.pid"
}

running() { # NODE NAME; sets `pid`
  local started
  [ -f "$run/$2$1.pid" ] || return 1
  read -r pid started <"$run/$2$1.pid"
  [ "$(start_time "$pid")" = "$started" ]
}

stopped() { ! running "$@"; }

stop() { # NODE NAME
  local pid
  if ! running "$1" "$2"; then return 0; fi
  kill "$pid"
  if ! wait_for 15 stopped "$1" "$2"; then
    kill -KILL "$pid"
    wait_for 5 stopped "$1" "$2" || die "node$1: $2 (pid $pid) does not end"
  fi
}

# --- one node

# Remembers the outermost directory that is made for $1, so that `down` takes away no other.
make_directory() {
  local first=$1
  if [ -d "$1" ]; then return; fi
  while [ ! -d "$(dirname "$first")" ]; do first=$(dirname "$first"); done
  mkdir -p "$1"
  echo "$first" >>$run/made
}

make_link() { # TARGET LINK
  if [ -L "$2" ]; then return; fi
  ln -s "$1" "$2"
  echo "$2" >>$run/made
}

namespaces() { # NODE: a veth to the bridge, private mounts over the node's directories
  local n=$1 directory file
  if [ -e "/run/netns/k8scp$n" ]; then return; fi
  ip netns add "k8scp$n"
  ip -n "k8scp$n" link set lo up
  ip link add "k8sv$n" netns k8sbr type veth peer name eth0 netns "k8scp$n"
  ip -n k8sbr link set "k8sv$n" master br0 up
  ip -n "k8scp$n" addr add "$(address "$n")/24" dev eth0
  ip -n "k8scp$n" link set eth0 up
  ip -n "k8scp$n" route add default via "$net.1"
  touch "$run/mnt$n" "$run/uts$n"
  unshare "--mount=$run/mnt$n" "--uts=$run/uts$n" --propagation private hostname "node$n"
  for directory in "${private[@]}"; do
    make_directory "$directory"
    mkdir -p "$data/node$n$directory"
    on "$n" mount --bind "$data/node$n$directory" "$directory"
  done
  for file in "${private_files[@]}"; do
    if [ ! -e "$file" ]; then
      touch "$file"
      echo "$file" >>$run/made
    fi
    mkdir -p "$(dirname "$data/node$n$file")"
    touch "$data/node$n$file"
    on "$n" mount --bind "$data/node$n$file" "$file"
  done
  printf 'runtime-endpoint: %s\nimage-endpoint: %s\ntimeout: 30\n' $socket $socket >"$data/node$n/etc/crictl.yaml"
}

etcd_certificate() { # DIR NAME SANS
  local key=$1/$2-key.pem csr=$1/$2.csr
  openssl req -newkey rsa:2048 -nodes -keyout "$key" -out "$csr" -subj "/CN=etcd-$2" 2>/dev/null
  openssl x509 -req -in "$csr" -CA "$data/etcd-ca.pem" -CAkey "$data/etcd-ca-key.pem" -CAcreateserial -days 36500 \
    -out "$1/$2.pem" -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth' "$3") 2>/dev/null
  rm "$csr"
}

etcd_certificates() { # NODE
  local n=$1 dir=$data/node$1$etcd_pki kind
  if [ -f "$dir/ca.pem" ]; then return; fi
  if [ ! -f $data/etcd-ca.pem ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -keyout $data/etcd-ca-key.pem -out $data/etcd-ca.pem -days 36500 \
      -subj /CN=etcd-ca 2>/dev/null
  fi
  mkdir -p "$dir"
  for kind in member admin node; do
    etcd_certificate "$dir" "$kind-node$n" "IP:127.0.0.1,IP:$(address "$n"),DNS:localhost,DNS:node$n"
  done
  cp $data/etcd-ca-key.pem "$dir/ca-key.pem"
  cp $data/etcd-ca.pem "$dir/ca.pem"
}

etcd_urls() { # FORMAT PORT -> for every node, joined by commas
  local n out=
  for n in $(seq "$nodes"); do
    # shellcheck disable=SC2059 # the format is the caller's
    out+=,$(printf "$1" "$n" "https://$(address "$n"):$2")
  done
  echo "${out#,}"
}

start_etcd() { # NODE
  local n=$1 pair=$etcd_pki/member-node$1
  local own
  own=https://$(address "$n")
  spawn "$n" etcd etcd --name "etcd$n" --data-dir "$data/node$n/etcd-data" \
    --listen-client-urls "$own:2379,https://127.0.0.1:2379" --advertise-client-urls "$own:2379" \
    --listen-peer-urls "$own:2380" --initial-advertise-peer-urls "$own:2380" \
    --initial-cluster "$(etcd_urls 'etcd%s=%s' 2380)" \
    --client-cert-auth --trusted-ca-file $etcd_pki/ca.pem --cert-file "$pair.pem" --key-file "$pair-key.pem" \
    --peer-client-cert-auth --peer-trusted-ca-file $etcd_pki/ca.pem --peer-cert-file "$pair.pem" --peer-key-file "$pair-key.pem"
}

start_containerd() { # NODE
  local n=$1 image
  cat >"$data/node$n/etc/containerd/config.toml" <<END
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "k8s.gcr.io/pause:3.2"
  restrict_oom_score_adj = true
END
  spawn "$n" containerd containerd
  wait_for 30 on "$n" crictl version || die "node$n: containerd does not answer; see $logs/containerd$n.log"
  for image in "$cache"/img/*.tar; do
    on "$n" ctr --namespace k8s.io images import "$image" >>"$logs/containerd$n.log" 2>&1 ||
      die "node$n: $image cannot be imported; see $logs/containerd$n.log"
  done
}

# What kubelet is told. Made by `up` only: what a test changes in it outlives a restart.
kubelet_config() { # NODE
  local n=$1
  cat >"$data/node$n/var/lib/kubelet/config.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
# a machine whose disk is rather full is none of the node's business
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
failSwapOn: false
rotateCertificates: true
serverTLSBootstrap: true
staticPodPath: $kubernetes/manifests
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
END
}

start_kubelet() { # NODE
  local n=$1
  drop_leftovers "$n"
  spawn "$n" kubelet kubelet --config /var/lib/kubelet/config.yaml --kubeconfig $kubernetes/kubelet.conf \
    --bootstrap-kubeconfig $kubernetes/bootstrap-kubelet.conf \
    --container-runtime=remote --container-runtime-endpoint=$socket --hostname-override "node$n" \
    --node-ip "$(address "$n")" --cgroups-per-qos=false --enforce-node-allocatable=
}

etcd_config() { # NODE
  case $etcd in
    host)
      cat <<END
  external:
    endpoints: [$(etcd_urls '"%.0s%s"' 2379)]
    caFile: $etcd_pki/ca.pem
    certFile: $etcd_pki/node-node$1.pem
    keyFile: $etcd_pki/node-node$1-key.pem
END
      ;;
    # `initial-cluster`, as kubeadm knows no members but its own node at `init`; the tag is build.sh's
    stacked)
      cat <<END
  local:
    imageTag: 3.4.23-0
    dataDir: /var/lib/etcd
    extraArgs: {initial-cluster: "$(etcd_urls 'node%s=%s' 2380)"}
END
      ;;
  esac
}

kubeadm_config() { # NODE
  cat <<END
apiVersion: kubeadm.k8s.io/v1beta2
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: $(address "$1"), bindPort: 6443}
nodeRegistration: {name: node$1, criSocket: $socket}
---
apiVersion: kubeadm.k8s.io/v1beta2
kind: ClusterConfiguration
kubernetesVersion: v1.20.2
certificatesDir: $pki
controlPlaneEndpoint: "$(address 1):6443"
apiServer: {certSANs: [127.0.0.1, localhost]}
etcd:
$(etcd_config "$1")
END
}

phase() { # NODE PHASE...
  local n=$1
  shift
  on "$n" kubeadm init phase "$@" --config "$data/node$n/kubeadm-config.yaml" >>"$logs/kubeadm$n.log" 2>&1 ||
    die "node$n: kubeadm init phase $* failed; see $logs/kubeadm$n.log"
}

# Certificates and kubeconfigs, and the manifest of a static-pod etcd.
node_files() { # NODE
  local n=$1 dir=$data/node$1$pki file
  mkdir -p "$dir"
  kubeadm_config "$n" >"$data/node$n/kubeadm-config.yaml"
  if [ "$etcd" = host ]; then # kubespray keeps it on the node, and links kubeadm's own directory
    cp "$data/node$n/kubeadm-config.yaml" "$data/node$n$kubernetes/"
    [ -L "$data/node$n$kubernetes/pki" ] || ln -s $pki "$data/node$n$kubernetes/pki"
  fi
  if [ -f "$data/node$n$kubernetes/admin.conf" ]; then return; fi
  if [ "$n" != 1 ]; then
    for file in "${shared[@]}"; do install -D -m 600 "$data/node1$pki/$file" "$dir/$file"; done
  fi
  /usr/bin/python3 "$here/pki.py" authorities "$dir" "${authorities[@]}"
  phase "$n" certs all
  phase "$n" kubeconfig all
  if [ "$etcd" = stacked ]; then
    phase "$n" etcd local
    # a kubelet that starts refuses for good a static pod that asks for storage before it has measured its own
    sed -i '/ephemeral-storage: /d' "$data/node$n$kubernetes/manifests/etcd.yaml"
  fi
}

control_plane() { # NODE
  [ -f "$data/node$1$kubernetes/manifests/kube-apiserver.yaml" ] || phase "$1" control-plane all
}

answers_ok() { # NODE URL
  [ "$(on "$1" curl -sk --max-time 2 "$2")" = ok ]
}

apiserver_ready() { # NODE
  wait_for 120 answers_ok "$1" https://127.0.0.1:6443/readyz || die "node$1: kube-apiserver is not ready; see $logs/kubelet$1.log"
}

node_ready() { # NODE
  apiserver_ready "$1"
  wait_for 60 answers_ok "$1" https://127.0.0.1:10257/healthz || die "node$1: kube-controller-manager is not healthy"
  wait_for 60 answers_ok "$1" https://127.0.0.1:10259/healthz || die "node$1: kube-scheduler is not healthy"
}

copy_kubeconfig() { cp "$data/node$1$kubernetes/admin.conf" "$data/node$1/root/.kube/config"; }

# --- commands

start() { # NAME NODE
  local pid
  if ! running "$2" "$1"; then "start_$1" "$2"; fi
}

up() {
  local program link n
  [ -x "$cache/bin/crictl" ] || die "$cache/bin is not complete: run build.sh first"
  for program in "${programs[@]}"; do # where kubespray puts them
    link=/usr/local/bin/$program
    if [ -e "$link" ] || [ -L "$link" ]; then
      [ "$(readlink "$link")" = "$cache/bin/$program" ] || die "$link is in the way: it is not this cluster's"
    fi
  done
  mkdir -p $run $logs $data
  echo "$nodes" >$run/nodes
  echo "$etcd" >$run/etcd
  make_directory /usr/local/bin
  for program in "${programs[@]}"; do make_link "$cache/bin/$program" "/usr/local/bin/$program"; done

  # `unshare --mount=FILE` wants the file on a mount that is not shared
  if ! mountpoint -q $run; then
    mount --bind $run $run
    mount --make-private $run
  fi
  if [ ! -e /run/netns/k8sbr ]; then
    ip netns add k8sbr
    ip -n k8sbr link add br0 type bridge
    ip -n k8sbr link set br0 up
  fi
  for n in $(seq "$nodes"); do
    namespaces "$n"
    if [ "$etcd" = host ]; then
      etcd_certificates "$n"
      start etcd "$n"
    fi
  done
  for n in $(seq "$nodes"); do
    start containerd "$n"
    node_files "$n"
    kubelet_config "$n"
    start kubelet "$n"
  done
  for n in $(seq "$nodes"); do # one after another, now that etcd can have its quorum
    control_plane "$n"
    node_ready "$n"
    copy_kubeconfig "$n"
  done
  phase 1 upload-config all
  phase 1 bootstrap-token
  echo "up: $nodes node(s), readyz $(on 1 kubectl --kubeconfig $kubernetes/admin.conf get --raw /readyz)"
}

# While the kubelet is about to start a container in the very sandbox, containerd refuses to remove it: once more then.
pod_removed() { # NODE POD
  on "$1" crictl -t 60s rmp -f "$2" || ! on "$1" crictl pods -q | grep -qx "$2"
}

# Removes containers whose sandbox is gone: kubelet was just making them when it was removed, and does not start beside them.
drop_leftovers() { # NODE
  local pods containers id sandbox
  pods=$(on "$1" crictl pods -q) || return 0
  containers=$(on "$1" crictl ps -a -o json | /usr/bin/python3 -c '
import json, sys
for container in json.load(sys.stdin).get("containers") or []: print(container["id"], container["podSandboxId"])')
  while read -r id sandbox; do
    if [ -n "$id" ] && ! grep -qx "$sandbox" <<<"$pods"; then on "$1" crictl -t 60s rm -f "$id" >/dev/null; fi
  done <<<"$containers"
}

reissue() { # NODE DAYS FILE...
  local n=$1 days=$2
  shift 2
  on "$n" /usr/bin/python3 "$here/pki.py" reissue $pki "$days" "$@"
}

age() { # DAYS NODE
  local days=$1 n=$2 component id pods=()
  reissue "$n" "$days" $pki/{apiserver,apiserver-kubelet-client,front-proxy-client}.crt \
    $kubernetes/{admin,controller-manager,scheduler}.conf
  for component in kube-apiserver kube-controller-manager kube-scheduler; do
    id=$(on "$n" crictl pods --namespace '^kube-system$' --label "component=$component" --state ready -q)
    [ -n "$id" ] || die "node$n: there is no static pod $component to restart"
    pods+=("$id")
  done
  for id in "${pods[@]}"; do
    wait_for 20 pod_removed "$n" "$id" || die "node$n: sandbox $id cannot be removed; see $logs/containerd$n.log"
  done
  case $days in
    -*) apiserver_ready "$n" ;; # the others cannot work with what has ended
    *) node_ready "$n" ;;
  esac
  # last: what has ended keeps a new kube-apiserver from etcd, though connections that it has live on
  if [ "$etcd" = stacked ]; then
    reissue "$n" "$days" $pki/apiserver-etcd-client.crt $pki/etcd/{server,peer,healthcheck-client}.crt
  fi
  drop_leftovers "$n"
  copy_kubeconfig "$n"
}

network_empty() { [ -z "$(ip netns pids "k8scp$1")" ]; }

remove_node() { # NODE
  local n=$1 pod process
  stop "$n" kubelet
  if on "$n" test -S /run/containerd/containerd.sock; then
    while read -r pod; do wait_for 10 pod_removed "$n" "$pod" || true; done < <(on "$n" crictl pods -q)
  fi
  stop "$n" etcd
  stop "$n" containerd
  # whatever still lives in the node's network is the node's: programs that lost their parent
  for process in $(ip netns pids "k8scp$n"); do kill -KILL "$process" 2>/dev/null || true; done
  wait_for 10 network_empty "$n" || die "node$n: these do not end: $(ip netns pids "k8scp$n" | paste -sd' ')"
  umount "$run/mnt$n" "$run/uts$n" 2>/dev/null || true
  ip netns del "k8scp$n"
}

down() {
  local netns path
  for netns in /run/netns/k8scp*; do
    [ ! -e "$netns" ] || remove_node "${netns#/run/netns/k8scp}"
  done
  [ ! -e /run/netns/k8sbr ] || ip netns del k8sbr
  if [ -f $run/made ]; then
    while read -r path; do # empty, as nothing but mounts of the nodes' namespaces was ever in them
      if [ -d "$path" ]; then find "$path" -depth -type d -empty -delete; else rm -f "$path"; fi
    done < <(tac $run/made)
  fi
  if mountpoint -q $run; then umount $run; fi
  rm -rf $run $data $logs
}

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \?//;p}' "${BASH_SOURCE[0]}" >&2
  exit 64
}

[ "$(id -u)" = 0 ] || die "must be run as root"
nodes=${NODES:-$(cat $run/nodes 2>/dev/null || echo 1)}
etcd=$(cat $run/etcd 2>/dev/null || echo "${ETCD:-host}")
authorities=(ca front-proxy-ca)
shared=({ca,front-proxy-ca}.{crt,key} sa.key sa.pub)
case $etcd in
  host) pki=$kubernetes/ssl ;;
  stacked)
    pki=$kubernetes/pki
    authorities+=(etcd/ca)
    shared+=(etcd/ca.{crt,key})
    ;;
  *) usage ;;
esac
command=${1:-}
[ $# = 0 ] || shift
case $command in
  up | down)
    [ $# = 0 ] || usage
    "$command"
    ;;
  *)
    [ -e $run/nodes ] || die "no cluster is up"
    case $command in
      age)
        [[ ${1:-} =~ ^-?[0-9]+(\.[0-9]+)?$ ]] || usage
        age "$1" "${2:-1}"
        ;;
      start | stop)
        case ${1:-} in
          containerd | kubelet) ;;
          etcd) [ "$etcd" = host ] || die "etcd is a static pod here" ;;
          *) usage ;;
        esac
        if [ "$command" = start ]; then start "$1" "${2:-1}"; else stop "${2:-1}" "$1"; fi
        ;;
      exec)
        node=1
        if [ "${1:-}" = -n ]; then
          node=$2
          shift 2
        fi
        [ $# -gt 0 ] || usage
        set_enter "$node"
        exec "${enter[@]}" "--wdns=$PWD" "$@" # relative paths hold
        ;;
      *) usage ;;
    esac
    ;;
esac
