#!/bin/bash
# docs/monitoring with the real programs: `tests/monitoring.sh PROGRAM`, as root, on Debian 12.
# promtool reads the metrics and the rules, node_exporter the file, NRPE the plugin's lines, systemd the units, jq the reports. The packages are
# unpacked into a directory, not installed, so that none of their services starts.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache=${CI_CACHE:-/var/cache/k8s-certs-renew-ci}/monitoring
work=$(mktemp -d)
pids=()
# where every user can reach it
install -m 755 "$program" "$work/k8s-certs-renew"
program=$work/k8s-certs-renew

leave() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap leave EXIT

tools() {
  local packages=(prometheus prometheus-node-exporter nagios-nrpe-server nagios-nrpe-plugin jq libjq1 libonig5)
  [ -e "$cache/complete-with-jq" ] && return
  rm -rf "$cache"
  mkdir -p "$cache/root"
  (
    cd "$cache"
    apt-get download -qq "${packages[@]}" 2>/dev/null || {
      apt-get update -qq
      apt-get download -qq "${packages[@]}"
    }
    for package in *.deb; do dpkg-deb -x "$package" root; done
    rm ./*.deb
    touch complete-with-jq
  )
}

# A node that has what a check needs: an authority, two certificates, one of them with an awkward name, a manifest.
node() {
  local pki=$work/node/etc/kubernetes/pki
  awkward="$pki/extra \"quoted\" back\\slash.crt"
  mkdir -p "$pki" "$work/node/etc/kubernetes/manifests"
  openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=kubernetes -keyout "$pki/ca.key" -out "$pki/ca.crt" 2>/dev/null
  openssl req -newkey rsa:2048 -nodes -subj /CN=kube-apiserver -keyout "$pki/apiserver.key" -out "$work/csr" 2>/dev/null
  openssl x509 -req -in "$work/csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 300 -out "$pki/apiserver.crt" 2>/dev/null
  cp "$pki/apiserver.crt" "$awkward"
  cat >"$work/node/etc/kubernetes/manifests/kube-apiserver.yaml" <<'END'
apiVersion: v1
kind: Pod
metadata: {name: kube-apiserver, namespace: kube-system}
spec:
  containers:
  - name: kube-apiserver
    command: [kube-apiserver, --kubelet-client-certificate=/etc/kubernetes/pki/apiserver-kubelet-client.crt, --tls-cert-file=/etc/kubernetes/pki/apiserver.crt]
END
}

check() { "$program" check --root "$work/node" --also "${awkward#"$work/node"}" "$@"; }

# `check` ends with its verdict, which is none of this script's business.
verdict() { check "$@" || [ $? -le 3 ]; }

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

answers() { # PORT
  for _ in $(seq 100); do
    if python3 -c "import socket; socket.create_connection(('127.0.0.1', $1), 1)" 2>/dev/null; then return; fi
    sleep 0.1
  done
  echo "nothing answers at port $1"
  return 1
}

rules() {
  "$cache/root/usr/bin/promtool" check rules docs/monitoring/alerts.yml
  "$cache/root/usr/bin/promtool" test rules docs/monitoring/alerts.test.yml
}

# What promtool says of the metrics of each state that the tests have approved, and of this very program's.
metrics() {
  local snapshot
  for snapshot in tests/it/snapshots/monitoring/*_prometheus.snap; do
    sed '1,/^---$/d' "$snapshot" | "$cache/root/usr/bin/promtool" check metrics
  done
  verdict -o prometheus | "$cache/root/usr/bin/promtool" check metrics
}

collector() {
  local port file=$work/node/metrics/k8s_certs_renew.prom
  port=$(free_port)
  mkdir "$work/node/metrics"
  verdict -q --textfile /metrics/k8s_certs_renew.prom
  [ "$(stat -c %a "$file")" = 644 ]
  "$cache/root/usr/bin/prometheus-node-exporter" --collector.disable-defaults --collector.textfile \
    --collector.textfile.directory="$work/node/metrics" --web.listen-address="127.0.0.1:$port" 2>"$work/exporter.log" &
  pids+=($!)
  answers "$port"
  python3 - "$port" "$file" <<'END'
import re, sys, urllib.request

port, path = sys.argv[1:]
def series(text):
    """Each sample by name and labels, those that are empty left out, as Prometheus does."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        labels, value = line.rsplit(" ", 1)
        name, _, labels = labels.partition("{")
        labels = re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', labels)
        found[name, tuple(sorted(pair for pair in labels if pair[1]))] = float(value)
    return found

with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
    served = series(answer.read().decode())
with open(path) as file:
    written = series(file.read())
missing = {one: value for one, value in written.items() if served.get(one) != value}
assert len(written) > 20, written
assert not missing, f"node_exporter does not serve {missing}"
assert served["node_textfile_scrape_error", ()] == 0
assert any(name == "node_textfile_mtime_seconds" for name, _ in served), served
print(f"node_exporter serves all {len(written)} samples of the file")
END
}

nrpe() {
  local port first code=0
  port=$(free_port)
  # the line of the docs, with this program, this node, and no sudo: all may read the keys here
  chmod -R a+rX "$work"
  {
    echo "server_address=127.0.0.1"
    echo "server_port=$port"
    # it refuses to be root
    echo "nrpe_user=nobody"
    echo "nrpe_group=nogroup"
    echo "allowed_hosts=127.0.0.1"
    echo "pid_file=$work/nrpe.pid"
    sed "s#/usr/bin/sudo /usr/local/bin/k8s-certs-renew check#$program check --root $work/node#" docs/monitoring/nrpe.cfg
  } >"$work/nrpe.cfg"
  "$cache/root/usr/sbin/nrpe" -c "$work/nrpe.cfg" -f >"$work/nrpe.log" 2>&1 &
  pids+=($!)
  answers "$port"
  "$cache/root/usr/lib/nagios/plugins/check_nrpe" -H 127.0.0.1 -p "$port" -t 30 -c check_k8s_certs >"$work/nrpe.out" || code=$?
  first=$(head -1 "$work/nrpe.out")
  echo "$first" | cut -c 1-160
  [[ $first =~ ^"K8S-CERTS-RENEW "[A-Z]+" - ".*" | '" ]]
  [ "$code" = "$("$program" check --root "$work/node" -q; echo $?)" ]
}

units() {
  local unit
  mkdir "$work/units" "$work/units/k8s-certs-renew.service.d"
  cp units/*.service units/*.timer docs/monitoring/*.service docs/monitoring/*.timer "$work/units/"
  cp docs/monitoring/onfailure.conf "$work/units/k8s-certs-renew.service.d/"
  mv "$work/units/k8s-certs-failed@.service" "$work/units/k8s-certs-failed@x.service"
  sed -i "s#/usr/local/bin/k8s-certs-renew#$program#" "$work"/units/*.service
  for unit in k8s-certs-check.service k8s-certs-check.timer k8s-certs-renew.service k8s-certs-failed@x.service; do
    SYSTEMD_UNIT_PATH=$work/units: systemd-analyze verify "$work/units/$unit"
  done
}

# The line of README.md that names the nodes which are not done, over a report of this program's, and that of a node which is.
fleet() {
  local line
  mkdir "$work/reports"
  verdict -o json >"$work/reports/a.json"
  sed 's/"done": false/"done": true/; s/"node": "[^"]*"/"node": "well"/' "$work/reports/a.json" >"$work/reports/b.json"
  grep -q '"done": true' "$work/reports/b.json"
  line=$(sed -n 's/^    \(jq -r .*\)/\1/p' docs/monitoring/README.md)
  echo "$line"
  (
    cd "$work/reports"
    export PATH=$cache/root/usr/bin:$PATH LD_LIBRARY_PATH
    LD_LIBRARY_PATH=$(dirname "$(find "$cache/root/usr/lib" -name 'libjq.so.1')")
    bash -euc "$line" >"$work/not-done"
  )
  cat "$work/not-done"
  [ "$(grep -vc '^  ' "$work/not-done")" = 1 ]
  grep -q '^  ' "$work/not-done"
  if grep -q well "$work/not-done"; then return 1; fi
}

tools
node
for part in rules metrics collector nrpe units fleet; do
  echo "-- $part"
  $part
done
