//! The drop-in that holds all of our service, whatever stands below it.
//!
//! What each version of systemd knows is from its NEWS and manual pages (systemd.unit(5), .service(5), .exec(5), .timer(5)).

use std::path::Path;

/// The one copy of the service.
pub const SERVICE: &str = include_str!("../../units/k8s-certs-renew.service");
/// The one copy of the timer.
pub const TIMER: &str = include_str!("../../units/k8s-certs-renew.timer");

/// The first systemd that takes every line of our units as it is written: `Restart=` with `Type=oneshot` (NEWS of 244).
pub const MODERN: u32 = 244;

/// What a base could have that ours has not, and that would change how the job runs. An empty value takes back what a base says.
/// (`RootDirectory=/` would not: systemd 252 then fails to set up the mounts, 226/NAMESPACE.)
const RESETS: [(&str, &str, &str); 33] = [
    ("Unit", "AssertPathExists", ""),
    ("Service", "ExecCondition", ""),
    ("Service", "ExecStartPre", ""),
    ("Service", "ExecStartPost", ""),
    ("Service", "ExecReload", ""),
    ("Service", "ExecStop", ""),
    ("Service", "ExecStopPost", ""),
    ("Service", "RemainAfterExit", "no"),
    ("Service", "WatchdogSec", "0"),
    ("Service", "RuntimeMaxSec", "infinity"),
    ("Service", "RestartForceExitStatus", ""),
    ("Service", "Environment", ""),
    ("Service", "EnvironmentFile", ""),
    ("Service", "PassEnvironment", ""),
    ("Service", "UnsetEnvironment", ""),
    ("Service", "User", ""),
    ("Service", "Group", ""),
    ("Service", "SupplementaryGroups", ""),
    ("Service", "DynamicUser", "no"),
    ("Service", "WorkingDirectory", ""),
    ("Service", "RootDirectory", ""),
    ("Service", "UMask", "0022"),
    ("Service", "ProtectHome", "no"),
    ("Service", "PrivateNetwork", "no"),
    ("Service", "PrivateUsers", "no"),
    ("Service", "InaccessiblePaths", ""),
    ("Service", "ReadOnlyPaths", ""),
    ("Service", "ReadWritePaths", ""),
    // a node without its files is no control plane, and nothing would be judged
    ("Service", "TemporaryFileSystem", ""),
    ("Service", "BindPaths", ""),
    ("Service", "BindReadOnlyPaths", ""),
    ("Service", "RootImage", ""),
    ("Service", "IPAddressDeny", ""),
];

/// Settings of ours that add up, so that an empty one has to come first. `After=` cannot be taken back, and harms nobody.
const LISTS: [&str; 7] = [
    "ConditionPathExists",
    "ExecStart",
    "SuccessExitStatus",
    "RestartPreventExitStatus",
    "CapabilityBoundingSet",
    "RestrictAddressFamilies",
    "SystemCallFilter",
];

/// The systemd that has a setting first; those that are not here are known to 219 (CentOS 7).
const SINCE: [(&str, u32); 27] = [
    ("PassEnvironment", 228),
    ("RandomizedDelaySec", 229),
    ("RuntimeMaxSec", 229),
    ("StartLimitIntervalSec", 230),
    ("InaccessiblePaths", 231),
    ("ReadOnlyPaths", 231),
    ("ReadWritePaths", 231),
    ("MemoryDenyWriteExecute", 231),
    ("RestrictRealtime", 231),
    ("PrivateUsers", 232),
    ("DynamicUser", 232),
    ("ProtectControlGroups", 232),
    ("ProtectKernelModules", 232),
    ("ProtectKernelTunables", 232),
    ("RestrictNamespaces", 233),
    ("BindPaths", 233),
    ("BindReadOnlyPaths", 233),
    ("RootImage", 233),
    ("UnsetEnvironment", 235),
    ("IPAddressDeny", 235),
    ("LockPersonality", 235),
    ("TemporaryFileSystem", 238),
    ("ProtectHostname", 242),
    ("RestrictSUIDSGID", 242),
    ("ExecCondition", 243),
    ("ProtectKernelLogs", MODERN),
    ("FixedRandomDelay", 247),
];

const HEAD: &str = "\
# All of k8s-certs-renew's service, whatever stands below it: kubespray's playbook writes a base of this very name, and may do so again at
# any time. What you want otherwise goes into a drop-in that sorts after this one: systemctl edit k8s-certs-renew.service
";

/// The service as a drop-in for a program at `program`, in words that this version of systemd takes: what it does not know is left
/// out, and what would harm there is said otherwise (see [`workarounds`]).
pub fn drop_in(program: &Path, systemd: u32) -> String {
    let mut text = HEAD.to_owned();
    let mut section = "";
    for line in SERVICE.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
            push(&mut text, &format!("\n[{section}]"));
            for (_, key, value) in RESETS.iter().filter(|(of, key, _)| *of == section && is_known(key, systemd)) {
                push(&mut text, &format!("{key}={value}"));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
        if LISTS.contains(&key) && can_be_reset(key, systemd) {
            push(&mut text, &format!("{key}="));
        }
        for said in said(section, key, value, program, systemd) {
            push(&mut text, &said);
        }
    }
    text
}

/// The service itself for a program at `program`. Only its program differs from the one copy: what an old systemd needs is in the
/// drop-in.
pub fn service(program: &Path) -> String {
    let mut text = String::new();
    for line in SERVICE.lines() {
        match line.strip_prefix("ExecStart=") {
            Some(_) => push(&mut text, &format!("ExecStart={}", exec(program))),
            None => push(&mut text, line),
        }
    }
    text
}

/// What is done otherwise for this systemd, in words for the operator; nothing for a modern one.
pub fn workarounds(systemd: u32) -> Vec<String> {
    let mut told = Vec::new();
    if systemd < MODERN {
        let limit =
            if is_known("RuntimeMaxSec", systemd) { "" } else { ", and it cannot limit how long a run may take" };
        told.push(format!(
            "systemd {systemd} refuses retries of a oneshot service, so the service is a simple one: 'systemctl start' returns before the job has ended{limit}"
        ));
    }
    if systemd < 239 {
        told.push(format!(
            "systemd {systemd} does not know the group @system-service, so system calls are not filtered"
        ));
    }
    let unknown = unknown_settings(systemd);
    if !unknown.is_empty() {
        told.push(format!("systemd {systemd} does not know {}; left out of the service", unknown.join(", ")));
    }
    if !is_known("RandomizedDelaySec", systemd) {
        told.push(format!(
            "systemd {systemd} does not know RandomizedDelaySec=, so all control planes fire at the same second: give each node a minute of its own, with OnCalendar= and OnCalendar=Mon *-*-1..7 03:10 (03:20 on the next, and so on) in: systemctl edit k8s-certs-renew.timer"
        ));
    } else if !is_known("FixedRandomDelay", systemd) {
        told.push(format!(
            "systemd {systemd} does not know FixedRandomDelay=: the timer's random delay is drawn anew each time, so two control planes may now and then come close"
        ));
    }
    told
}

/// Settings of ours, by name, that this systemd does not know and that nothing stands in for.
fn unknown_settings(systemd: u32) -> Vec<&'static str> {
    let keys = SERVICE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.split_once('=')?.0));
    keys.filter(|key| !is_known(key, systemd) && *key != "StartLimitIntervalSec").collect()
}

/// Whether this systemd knows a setting of ours.
pub fn is_known(key: &str, systemd: u32) -> bool {
    SINCE.iter().all(|(name, since)| *name != key || systemd >= *since)
}

/// Before 229 each assignment of a bounding set took more away, so that an empty one left nothing, for good
/// (`config_parse_bounding_set`).
fn can_be_reset(key: &str, systemd: u32) -> bool {
    key != "CapabilityBoundingSet" || systemd >= 229
}

fn said(section: &str, key: &str, value: &str, program: &Path, systemd: u32) -> Vec<String> {
    let plain = format!("{key}={value}");
    match (section, key) {
        ("Service", "ExecStart") => vec![format!("ExecStart={}", exec(program))],
        // NEWS of 244: before, anything but Restart=no is refused with Type=oneshot
        ("Service", "Type") if systemd < MODERN => vec!["Type=simple".to_owned()],
        // no start of a simple service takes time; what it may take until it ends is another setting
        ("Service", "TimeoutStartSec") if systemd < MODERN => {
            if is_known("RuntimeMaxSec", systemd) {
                vec![format!("RuntimeMaxSec={value}")]
            } else {
                Vec::new()
            }
        }
        // an unknown group is passed over, and what is left would be the whole list
        ("Service", "SystemCallFilter") if systemd < 239 => Vec::new(),
        // NEWS of 230: they moved from [Service] to [Unit]
        ("Unit", "StartLimitIntervalSec" | "StartLimitBurst") if systemd < 230 => Vec::new(),
        ("Service", "Restart") if systemd < 230 => {
            vec![
                format!("StartLimitInterval={}", of_unit("StartLimitIntervalSec")),
                format!("StartLimitBurst={}", of_unit("StartLimitBurst")),
                plain,
            ]
        }
        _ if !is_known(key, systemd) => Vec::new(),
        _ => vec![plain],
    }
}

fn of_unit(key: &str) -> &'static str {
    SERVICE
        .lines()
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| *name == key)
        .map_or("", |(_, value)| value)
}

fn exec(program: &Path) -> String {
    // a percent sign is a specifier to systemd, a dollar a variable, a blank ends a word
    let path = program.display().to_string().replace('%', "%%").replace('$', "$$");
    let quoted = if path.contains(|c: char| c.is_whitespace() || c == '"' || c == '\'' || c == '\\') {
        format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        path
    };
    format!("{quoted} run")
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{LISTS, SERVICE, drop_in, exec, service, workarounds};

    /// What packages ship.
    const SHIPPED: &str = include_str!("../../units/k8s-certs-renew.service.d/50-k8s-certs-renew.conf");

    fn lines(systemd: u32) -> Vec<String> {
        drop_in(Path::new("/usr/bin/k8s-certs-renew"), systemd).lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_drop_in_of_the_packages_is_made_from_the_service() {
        let made = drop_in(Path::new("/usr/bin/k8s-certs-renew"), 252);
        assert_eq!(made, SHIPPED, "write this to units/k8s-certs-renew.service.d/50-k8s-certs-renew.conf:\n{made}");
    }

    #[test]
    fn it_has_every_setting_of_the_service_and_each_list_begins_anew() {
        let made = lines(252);
        let settings = SERVICE.lines().filter(|line| !line.starts_with('#') && line.contains('='));
        for setting in settings.filter(|line| !line.starts_with("ExecStart=")) {
            assert!(made.iter().any(|line| line == setting), "{setting}");
        }
        for list in LISTS {
            let at = made.iter().position(|line| *line == format!("{list}=")).unwrap_or_else(|| panic!("{list}"));
            assert!(made[at + 1].starts_with(&format!("{list}=")) && made[at + 1].len() > list.len() + 1, "{list}");
        }
    }

    #[test]
    fn nothing_that_an_old_systemd_refuses_or_takes_amiss_is_left() {
        for (systemd, simple, limit) in [
            (219, true, None),
            (229, true, Some("RuntimeMaxSec=150min")),
            (237, true, Some("RuntimeMaxSec=150min")),
            (243, true, Some("RuntimeMaxSec=150min")),
            (244, false, Some("TimeoutStartSec=150min")),
            (252, false, Some("TimeoutStartSec=150min")),
        ] {
            let made = lines(systemd);
            let has = |line: &str| made.iter().any(|one| one == line);
            assert_eq!((has("Type=simple"), has("Type=oneshot")), (simple, !simple), "{systemd}");
            assert!(has("Restart=on-failure"), "{systemd}");
            let limits: Vec<&String> = made.iter().filter(|line| line.ends_with("=150min")).collect();
            assert_eq!(limits, Vec::from_iter(limit), "{systemd}");
            assert!(has("SystemCallFilter="), "{systemd}");
            assert_eq!(made.iter().any(|line| line.contains("@system-service")), systemd >= 239, "{systemd}");
            assert_eq!(has("StartLimitInterval=1d"), systemd < 230, "{systemd}");
            assert_eq!(has("StartLimitIntervalSec=1d"), systemd >= 230, "{systemd}");
            assert_eq!(made.iter().filter(|line| *line == "StartLimitBurst=4").count(), 1, "{systemd}");
            assert_eq!(has("CapabilityBoundingSet="), systemd >= 229, "{systemd}");
            assert_eq!(has("ProtectKernelLogs=true"), systemd >= 244, "{systemd}");
            assert_eq!(workarounds(systemd).is_empty(), systemd >= 247, "{systemd}");
        }
    }

    #[test]
    fn no_root_directory_is_given_where_one_is_taken_back() {
        assert!(lines(252).contains(&"RootDirectory=".to_owned()));
    }

    #[test]
    fn the_service_differs_in_its_program_alone() {
        assert_eq!(service(Path::new("/usr/local/bin/k8s-certs-renew")), SERVICE);
        let other = service(Path::new("/opt/bin/k8s-certs-renew"));
        assert!(other.contains("\nExecStart=/opt/bin/k8s-certs-renew run\n"), "{other}");
    }

    #[test]
    fn what_systemd_reads_in_a_path_is_escaped() {
        assert_eq!(exec(Path::new("/srv/100%/a b/x$")), "\"/srv/100%%/a b/x$$\" run");
    }
}
