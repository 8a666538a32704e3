#!/bin/bash
# The units at work under a real systemd: tests/systemd.sh [PROGRAM [SCENARIO...]], as root, on Debian 12.
#
# Each scenario boots a container of its own (systemd-nspawn) from Debian's packages, with a control plane's files made and
# renewed by real kubeadm 1.20.2, and a stand-in for what runs there (systemd/node.py); the last one joins a container to a node
# of the real cluster (e2e/cluster.sh). PROGRAM: default target/release/k8s-certs-renew; SCENARIO: some instead of all.
# One line a scenario; the output of those that failed is shown. Installs what it needs, and makes what containers are made of
# once, into /var/cache; the machine's own systemd, if it has one, is not asked. Nothing is left behind.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=systemd/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/systemd/lib.sh"
# shellcheck source-path=SCRIPTDIR source=systemd/steps.sh
source "$here/steps.sh"
# shellcheck source-path=SCRIPTDIR source=systemd/runs.sh
source "$here/runs.sh"
# shellcheck source-path=SCRIPTDIR source=systemd/installed.sh
source "$here/installed.sh"

program=$(realpath "${1:-$here/../../target/release/k8s-certs-renew}")
shift || true

scenarios=(
  the_timer_fires_and_the_service_renews
  a_failing_run_is_a_failed_unit_and_tried_again
  what_needs_a_person_is_not_tried_again
  a_node_that_is_no_control_plane_is_passed_over
  a_firing_that_was_slept_through_is_made_up_for_at_boot
  the_random_delay_is_within_the_threshold_and_stays_what_it_is
  hardening_is_in_the_way_of_no_step
  a_hung_kubeadm_is_ended_and_the_timer_goes_on
  a_stop_waits_for_kubeadm
  a_failure_is_told_once_it_is_final
  kubesprays_units_are_taken_over_and_given_back
  kubesprays_units_written_over_ours_change_nothing
  an_uninstalled_program_is_not_tried_again
  a_new_user_comes_and_goes_without_a_trace
  the_commands_of_the_docs_do_as_they_say
  a_real_node_is_renewed_by_its_timer
)

# --- the test

packages() {
  local need=(systemd-container debootstrap iproute2 util-linux openssl python3 python3-cryptography)
  dpkg -s "${need[@]}" >/dev/null 2>&1 || {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${need[@]}" >/dev/null
  }
}

passed=0 failed=0 scenario=''
finish() {
  [ -z "$scenario" ] || kill -KILL -- "-$scenario" 2>/dev/null || true
  clean_up
}

play() { # SCENARIO
  local what="${1//_/ }" start=$SECONDS code=0 log=$work/log
  # in the background, so that an interruption is not put off to its end; in a process group, which can be ended as a whole
  set -m
  (
    set -e
    "$1"
  ) >"$log" 2>&1 </dev/null &
  set +m
  scenario=$!
  wait $scenario || code=$?
  scenario=''
  take_down
  if [ $code = 0 ]; then
    passed=$((passed + 1))
    echo "PASS $what ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "FAIL $what ($((SECONDS - start)) s)"
    sed 's/^/    /' "$log"
  fi
}

debian='' # the root of Debian that is everyone's lowest layer
main() { # SCENARIO...
  local each
  [ "$(id -u)" = 0 ] || fail "must be run as root"
  [ -x "$program" ] || fail "no program at $program: build it with cargo build --release"
  for each in "$@"; do
    [ "$(type -t "$each")" = function ] || fail "no scenario '$each'"
  done
  packages
  "$here/../e2e/build.sh"
  debian=$("$here/root.sh")
  trap finish EXIT
  trap 'exit 130' INT TERM HUP
  make_network
  make_work
  make_node_layer
  if [ $# != 0 ]; then
    scenarios=("$@")
  elif [ -n "${CI:-}" ] || ls "$here"/../../target/packages/*.deb >/dev/null 2>&1; then
    scenarios+=(the_debian_package_comes_and_goes_without_a_trace)
  else
    echo "NOT PLAYED, as there is no package (tests/packages.sh builds it): the debian package comes and goes without a trace"
  fi
  for each in "${scenarios[@]}"; do play "$each"; done
  echo "under systemd: $passed passed, $failed failed"
  [ "$failed" = 0 ]
}

main "$@"
