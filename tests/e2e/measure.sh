#!/bin/bash
# What the program costs on a real control plane, beside what the shell script's own commands cost in the same run: the
# table of docs/performance.md, on stdout. As root; the machine should have nothing else to do.
#
#   measure.sh [PROGRAM]     PROGRAM: default target/release/k8s-certs-renew
#
# RUNS (20) of each short command, ROUNDS (5) of each renewal; medians. About 10 minutes.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

program=$(realpath "${1:-$here/../../target/release/k8s-certs-renew}")
[ -x "$program" ] || fail "no program at $program: build it with cargo build --release"
variant host
runs=${RUNS:-20} rounds=${ROUNDS:-5}
work=$(mktemp -d /tmp/k8s-certs-renew-measure.XXXXXX)
finish() {
  "$here/cluster.sh" down
  rm -rf "$work"
}
trap finish EXIT

dpkg -s hyperfine time >/dev/null 2>&1 || {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq hyperfine time >/dev/null
}
say() { echo "$*" >&2; }

# What the script does until it skips.
cat >"$work/skip.sh" <<'END'
#!/bin/bash
kubeadm certs check-expiration
systemd-analyze calendar 'Mon *-*-1,2,3,4,5,6,7 03:00:00'
kubeadm certs check-expiration
END
chmod 755 "$work/skip.sh"

# --- short commands: milliseconds of wall time

time_it() { # RUNS CMD -> median in ms
  on_node hyperfine -N --style none --warmup 1 --runs "$1" --export-json "$work/time.json" "$2" >/dev/null 2>"$work/errors" ||
    fail "$2: $(cat "$work/errors")"
  /usr/bin/python3 -c 'import json, sys; print(round(json.load(open(sys.argv[1]))["results"][0]["median"] * 1000, 1))' "$work/time.json"
}

# hyperfine wants two runs; a script that hangs for minutes gets one.
time_once() { # CMD -> ms
  local start
  start=$(date +%s%N)
  on_node "$1" >/dev/null 2>&1
  echo $((($(date +%s%N) - start) / 1000000))
}

skip_rows() { # CASE OURS SCRIPT SCRIPT_RUNS
  awk -v what="$1" -v ours="$2" -v script="$3" -v runs="$4" -v n="$runs" 'BEGIN {
    printf "| skip run, %s | %s ms (n=%s) | %s ms (n=%s) | 1 : %.0f |\n", what, ours, n, script, runs, script / ours }'
}

skip_runs() {
  local ours script pid
  ours=$(time_it "$runs" "$program run")
  script=$(time_it "$runs" "$work/skip.sh")
  skip_rows "API up" "$ours" "$script" "$runs"

  "$here/cluster.sh" stop kubelet # or it would bring the apiserver back
  pid=$(process kube-apiserver)
  kill -STOP "$pid"
  ours=$(time_it "$runs" "$program run")
  script=$(time_once "$work/skip.sh")
  skip_rows "API does not answer" "$ours" "$script" 1

  on_node crictl -t 60s rmp -f "$(sandbox kube-apiserver)" >/dev/null
  ours=$(time_it "$runs" "$program run")
  script=$(time_it 5 "$work/skip.sh")
  skip_rows "API refuses connections" "$ours" "$script" 5
  "$here/cluster.sh" start kubelet
  settle
}

peak_memory() {
  local highest=0 now
  for _ in $(seq 5); do
    now=$(on_node /usr/bin/time -f %M "$program" run 2>&1 >/dev/null | tail -1)
    if ((now > highest)); then highest=$now; fi
  done
  echo "| peak memory of a skip run | $highest KiB | | |"
}

# --- renewals

settle() {
  for _ in $(seq 120); do
    if [ "$(readyz)" = 200 ] && [ -n "$(sandbox kube-scheduler)" ] && [ -n "$(sandbox kube-controller-manager)" ]; then break; fi
    sleep 0.5
  done
  sleep 10
}

# One line of JSON a round in $work/NAME.json, see watch.py.
watch() { # NAME ARG...
  local name=$1
  shift
  on_node "$here/watch.py" "$@" >>"$work/$name.json"
  settle
}

renewals() {
  local round pods
  for round in $(seq "$rounds"); do
    say "renewals: round $round of $rounds"
    watch bare crictl -t 60s rmp -f "$(sandbox kube-apiserver)"
    watch ours --seen 'kube-apiserver restarted' "$program" run --force
    mapfile -t pods < <(on_node crictl pods --name 'kube-scheduler-*|kube-controller-manager-*|kube-apiserver-*|etcd-*' -q)
    watch script crictl -t 60s rmp -f "${pods[@]}"
  done
  /usr/bin/python3 - "$work" "$rounds" <<'END'
import json, statistics, sys

work, rounds = sys.argv[1:]

def read(name):
    with open(f"{work}/{name}.json") as file:
        found = [json.loads(line) for line in file]
    bad = [one for one in found if one["code"] != 0]
    if bad:
        sys.exit(f"a round of '{name}' failed: {bad}")
    return found

def median(rows, key):
    return statistics.median(one[key] for one in rows)

def outage(rows):
    each = [one["outage"] for one in rows]
    return f"{statistics.median(each):.2f} s ({min(each):.2f} to {max(each):.2f}, n={rounds})"

def row(what, ours, others, name):
    ratio = median(ours, "outage") / median(others, "outage")
    print(f"| {what} | {outage(ours)} | {name} {outage(others)} | {ratio:.2f} : 1 |")

ours, bare, script = (read(name) for name in ("ours", "bare", "script"))
row("API outage of a renewal, beside the bare kill", ours, bare, "`crictl rmp -f` of kube-apiserver:")
row("API outage of a renewal, beside the script's removal", ours, script, "`crictl rmp -f` of all pods at once:")
print(f"| whole renewal, with three restarts, one after another | {median(ours, 'took'):.1f} s | | |")
print(f"| peak memory of a renewal, without kubeadm and crictl | {max(one['memory'] for one in ours)} KiB | | |")
seen = [one["seen"] for one in ours]
if None in seen:
    print("| from /readyz 200 to having seen it | not found in the output | | |")
else:
    each = ", ".join(f"{value * 1000:.0f}" for value in seen)
    print(f"| from /readyz 200 to having seen it | {statistics.median(seen) * 1000:.0f} ms | each round: {each} ms | |")
END
}

"$here/build.sh" >&2
"$here/cluster.sh" down
"$here/cluster.sh" up >&2
settle
echo "| what | k8s-certs-renew | the script's commands | ratio |"
echo "| --- | --- | --- | --- |"
skip_runs
peak_memory
renewals
say "on: $(nproc) cores of $(sed -n 's/^model name\t*: //p' /proc/cpuinfo | head -1), $(uname -sr), $(date -u +%F)"
