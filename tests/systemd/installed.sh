# shellcheck shell=bash disable=SC2154,SC2034,SC2086 # variables, none of them with blanks, are of lib.sh, steps.sh and systemd.sh
# Scenarios: how the program comes onto a node and goes again, beside kubespray's job of the same name. Sourced by systemd.sh.

# As kubespray's playbook writes them, each time that it is played; here with a calendar of the operator's choice.
kubesprays_units() {
  write /etc/systemd/system/$service <<'UNIT'
[Unit]
Description=Renew K8S control plane certificates

[Service]
Type=oneshot
ExecStart=/usr/local/bin/k8s-certs-renew.sh
UNIT
  write /etc/systemd/system/$timer <<'UNIT'
[Unit]
Description=Timer to renew K8S control plane certificates

[Timer]
OnCalendar=Tue *-*-1,2,3,4,5,6,7 04:10:00
RandomizedDelaySec=30min
FixedRandomDelay=yes
Persistent=yes

[Install]
WantedBy=multi-user.target
UNIT
  write /usr/local/bin/k8s-certs-renew.sh <<<$'#!/bin/bash\ntouch /var/lib/kubesprays-script-was-here'
  chmod 755 "$root/usr/local/bin/k8s-certs-renew.sh"
  inside systemctl daemon-reload
  inside systemctl --quiet enable --now $timer
}

# Whatever stands below, the service runs this program, hardened, by kubespray's calendar.
takes_over() {
  [[ $(property $service ExecStart) = *" argv[]=/usr/local/bin/k8s-certs-renew run ;"* ]] ||
    fail "the service runs $(property $service ExecStart)"
  has $service SuccessExitStatus 10
  has $service ProtectSystem yes
  has $timer ActiveState active
  has $timer UnitFileState enabled
  [[ $(property $timer TimersCalendar) = *"OnCalendar=Tue *-*-01,02,03,04,05,06,07 04:10:00"* ]] ||
    fail "the timer fires by $(property $timer TimersCalendar)"
}

check_says() { # WORDS [not]
  local found=yes
  [[ $(inside /root/download/k8s-certs-renew check || true) == *"$1"* ]] || found=not
  equal "check says '$1'" "${2:-yes}" "$found"
}

kubesprays_job_is_back() {
  [[ $(property $service ExecStart) = *" argv[]=/usr/local/bin/k8s-certs-renew.sh ;"* ]] ||
    fail "the service runs $(property $service ExecStart)"
  has $timer ActiveState active
  has $timer UnitFileState enabled
}

kubesprays_units_are_taken_over_and_given_back() {
  local before
  bare_node
  kubesprays_units
  before=$(listing)
  check_says "k8s-certs-renew.timer starts '/usr/local/bin/k8s-certs-renew.sh'"
  install_program
  takes_over
  check_says "k8s-certs-renew.timer starts" not
  inside k8s-certs-renew uninstall
  as_before "$before" '/etc/default/k8s-certs-renew|/var/lib/k8s-certs-renew'
  kubesprays_job_is_back

  echo "- its playbook is played again, and the program renews all the same"
  install_program
  kubesprays_units
  takes_over
  start
  run_ends 40
  succeeds 0
  journal_says "k8s-certs-renew.timer: Tue *-*-1,2,3,4,5,6,7 04:10:00"
  renewed "$old" "$pods"
  [ ! -e "$root/var/lib/kubesprays-script-was-here" ] || fail "kubespray's script was run"
}

kubesprays_units_written_over_ours_change_nothing() {
  bare_node
  install_program
  kubesprays_units
  takes_over
  start
  run_ends 40
  succeeds 0
  renewed "$old" "$pods"
  [ ! -e "$root/var/lib/kubesprays-script-was-here" ] || fail "kubespray's script was run"

  echo "- nor does a base that would keep the job from its work"
  write /etc/systemd/system/$service <<'UNIT'
[Unit]
AssertPathExists=/nonexistent
[Service]
Type=simple
User=nobody
Environment=K8S_CERTS_RENEW_DAYS_BUFFER=a-week
ExecStartPre=/bin/false
ExecStart=/usr/local/bin/k8s-certs-renew.sh
ExecStopPost=/bin/false
ProtectHome=yes
ProtectSystem=strict
ReadOnlyPaths=/etc
PrivateNetwork=yes
RootDirectory=/srv
TemporaryFileSystem=/etc/kubernetes
BindReadOnlyPaths=/srv:/var/lib
SystemCallFilter=@basic-io
TimeoutStartSec=1s
UNIT
  inside systemctl daemon-reload
  age 5
  remember
  start
  run_ends 40
  succeeds 0
  renewed "$old" "$pods"
  kubesprays_units

  echo "- what it wrote since is left when the program goes"
  inside k8s-certs-renew uninstall --purge --yes
  kubesprays_job_is_back
  [ ! -e "$root/usr/local/bin/k8s-certs-renew" ] || fail "the program is still there"
}

an_uninstalled_program_is_not_tried_again() {
  node
  other_kubeadm <<<$'#!/bin/sh\nexit 1'
  start
  run_ends 20
  has $service SubState auto-restart
  inside k8s-certs-renew uninstall
  has $service LoadState not-found
  has $service ActiveState inactive
  [ -e "$root/var/lib/k8s-certs-renew/state.json" ] || fail "the state is gone, without --purge"
}

# By the command that the README gives to people, where it leaves the program; and off again.
a_new_user_comes_and_goes_without_a_trace() {
  local command before
  command=$(sed -n 's/^    \(# \)\?\(sudo \)\?\([^ ]*k8s-certs-renew install\)\( .*\)\?$/\3/p' "$here/../../README.md" | head -1)
  [ -n "$command" ] || fail "README.md has no line that installs"
  bare_node
  install -D -m 755 "$program" "$root/root/${command% install}"
  before=$(listing)
  inside sh -exuc "cd /root && $command --dry-run"
  as_before "$before"
  inside sh -exuc "cd /root && $command"
  has $timer ActiveState active
  has $timer UnitFileState enabled
  [ -n "$(property $timer NextElapseUSecRealtime)" ] || fail "the timer has no next firing"
  inside systemctl --no-pager list-timers $timer
  inside k8s-certs-renew --dry-run
  inside k8s-certs-renew check --quiet || [ $? -le 2 ] # due certificates are a warning
  inside k8s-certs-renew uninstall --purge --yes
  as_before "$before"
  has $timer LoadState not-found
}

# As somebody types them where kubespray's job stands: see tests/docs.py.
the_commands_of_the_docs_do_as_they_say() {
  local top=$here/../.. pages
  bare_node
  kubesprays_units
  install -D -m 755 "$program" "$root/usr/local/bin/k8s-certs-renew"
  mapfile -t pages < <(git -C "$top" ls-files README.md docs)
  mkdir "$root/root/pages"
  tar -C "$top" -cf - "${pages[@]}" | tar --no-same-owner -C "$root/root/pages" -xf -
  (cd "$top" && tests/docs.py script booted) >"$root/root/pages/commands"
  grep -q '^echo; ' "$root/root/pages/commands" || fail "the docs have no blocks for a booted machine"
  inside bash -euc 'cd /root/pages && exec bash -euo pipefail commands'
}

# The package that tests/packages.sh has built.
the_debian_package_comes_and_goes_without_a_trace() {
  local before
  bare_node
  cp "$here"/../../target/packages/*.deb "$root/root/k8s-certs-renew.deb" || fail "there is no package: tests/packages.sh builds it"
  before=$(listing)
  inside dpkg -i /root/k8s-certs-renew.deb
  has $timer ActiveState active
  has $timer UnitFileState enabled
  [[ $(property $service ExecStart) = *" argv[]=/usr/bin/k8s-certs-renew run ;"* ]] ||
    fail "the service runs $(property $service ExecStart)"
  arm 3
  run_ends 40
  succeeds 0
  renewed "$old" "$pods"
  rm -r "$root/etc/systemd/system/$timer.d"
  inside dpkg --purge k8s-certs-renew
  as_before "$before" "$kubernetes|/root/.kube/config|/var/lib/dpkg/|/var/log/"
  has $timer LoadState not-found
}
