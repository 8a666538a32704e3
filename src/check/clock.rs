//! "certificate has expired or is not yet valid": whether the clock is wrong or the time of the certificates is over. Pure.

use chrono::{DateTime, Duration, Utc};

use crate::decision::moment;
use crate::report::check_report::{Cause, Dates};

/// By how much a hardware clock may differ: it may be kept in local time, and time zones reach 14 hours.
const ANOTHER_ZONE: Duration = Duration::hours(24);
/// By how much a file's time may be ahead: files come from other machines, and from archives.
const OTHER_MACHINE: Duration = Duration::hours(24);
/// By how much the last run may be ahead, as for a run (`decision::clock`).
const STEP_BACK: Duration = Duration::minutes(5);

/// What it is judged by.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The instant that everything was judged by (UTC).
    pub now: DateTime<Utc>,
    /// Whether it is the machine's own clock's. Of another instant nothing is said of the clock.
    pub by_clock: bool,
    /// Certificates and authorities that are not valid yet, and from when on they are (UTC).
    pub not_yet: Vec<(String, DateTime<Utc>)>,
    /// Certificates and authorities that have expired, by name.
    pub expired: Vec<String>,
    /// Those of them that a run renews.
    pub renewable: Vec<String>,
    /// The file of a certificate that was changed last, and when (UTC).
    pub newest_file: Option<(String, DateTime<Utc>)>,
    /// What the hardware clock says, read as UTC.
    pub hardware: Option<DateTime<Utc>>,
    /// When the job last came to a decision (UTC).
    pub last_run: Option<DateTime<Utc>>,
    /// Whether the kernel takes its clock to be set.
    pub synchronised: Option<bool>,
}

/// Tells a wrong clock from certificates whose time is over. None where nothing has expired, all is valid, and nothing
/// says that the clock is behind.
pub fn explain(facts: &Facts) -> Option<Dates> {
    let behind = behind(facts);
    let ahead = ahead(facts);
    if facts.expired.is_empty() && facts.not_yet.is_empty() && behind.is_empty() {
        return None;
    }
    if !facts.by_clock {
        return Some(of_another_instant(facts));
    }
    Some(if facts.synchronised == Some(true) {
        by_a_right_clock(facts, behind)
    } else {
        by_any_clock(facts, behind, ahead)
    })
}

/// A time source has set the clock, so that whatever contradicts it was made by another clock.
fn by_a_right_clock(facts: &Facts, signs: Vec<String>) -> Dates {
    let now = format!("the clock says {}, and is synchronised", moment(facts.now));
    let anew = "k8s-certs-renew run --force makes new ones, and notes the right time".to_owned();
    if signs.is_empty() {
        let what = format!("{}; nothing speaks against the clock", have_expired(facts));
        return Dates { cause: Cause::Certificates, what, signs: vec![now], todo: renew(facts, "") };
    }
    let what =
        "the clock is right, and another one was ahead, by which certificates were made or the job ran".to_owned();
    let todo = [vec![anew], renew(facts, " --force")].concat();
    Dates { cause: Cause::Certificates, what, signs: [signs, vec![now]].concat(), todo }
}

fn by_any_clock(facts: &Facts, behind: Vec<String>, ahead: Vec<String>) -> Dates {
    let now = moment(facts.now);
    if !behind.is_empty() {
        let cause = if behind.len() == 1 && facts.not_yet.len() == 1 { Cause::Unsure } else { Cause::Clock };
        let (what, rest) = match cause {
            Cause::Clock => (format!("this node's clock is behind: it says {now}"), None),
            _ => (
                format!(
                    "this node's clock is behind ({now}), or that of the machine that made the certificate was ahead"
                ),
                Some("if the clock is right: wait until then, or have the certificate made anew".to_owned()),
            ),
        };
        return Dates { cause, what, signs: behind, todo: set_the_clock().into_iter().chain(rest).collect() };
    }
    if !ahead.is_empty() {
        let what = format!("this node's clock is ahead: it says {now}, and nothing may have expired");
        return Dates { cause: Cause::Clock, what, signs: ahead, todo: set_the_clock() };
    }
    if facts.synchronised == Some(false) {
        let todo = renew(facts, " --force").into_iter().map(|todo| format!("if it is right: {todo}"));
        return Dates {
            cause: Cause::Unsure,
            what: format!("{} by this node's clock, and whether that is right cannot be told", have_expired(facts)),
            signs: vec![format!("the clock says {now}, and the kernel says that it is not synchronised")],
            todo: std::iter::once("look whether the clock is right: timedatectl, chronyc tracking".to_owned())
                .chain(todo)
                .collect(),
        };
    }
    let what = format!("{}; nothing speaks against the clock", have_expired(facts));
    Dates { cause: Cause::Certificates, what, signs: vec![format!("the clock says {now}")], todo: renew(facts, "") }
}

/// What says that the clock is behind.
fn behind(facts: &Facts) -> Vec<String> {
    let mut signs = Vec::new();
    match facts.not_yet.as_slice() {
        [] => {}
        [(name, from)] => signs.push(format!("{name} is not valid before {}", moment(*from))),
        all => {
            let latest = all.iter().map(|(_, from)| *from).max().unwrap_or_default();
            signs.push(format!(
                "{} certificates are not valid yet, the last one not before {}",
                all.len(),
                moment(latest)
            ));
        }
    }
    if !facts.by_clock {
        return signs;
    }
    if let Some(last) = facts.last_run.filter(|last| *last - facts.now > STEP_BACK) {
        signs.push(format!("the job last ran on {}", moment(last)));
    }
    // these two bear it out, and alone mean little: batteries end, and files come from elsewhere
    if signs.is_empty() || facts.synchronised == Some(true) {
        return signs;
    }
    if let Some(hardware) = facts.hardware.filter(|hardware| *hardware - facts.now > ANOTHER_ZONE) {
        signs.push(format!("the hardware clock says {}", moment(hardware)));
    }
    let ahead = |(_, changed): &&(String, DateTime<Utc>)| *changed - facts.now > OTHER_MACHINE;
    if let Some((file, changed)) = facts.newest_file.as_ref().filter(ahead) {
        signs.push(format!("'{file}' was changed on {}", moment(*changed)));
    }
    signs
}

fn ahead(facts: &Facts) -> Vec<String> {
    let hardware = facts.hardware.filter(|hardware| facts.now - *hardware > ANOTHER_ZONE);
    hardware.map(|hardware| format!("the hardware clock says {}", moment(hardware))).into_iter().collect()
}

fn of_another_instant(facts: &Facts) -> Dates {
    let not_yet = match facts.not_yet.len() {
        0 => None,
        1 => Some("1 certificate is not valid yet".to_owned()),
        number => Some(format!("{number} certificates are not valid yet")),
    };
    let expired = (!facts.expired.is_empty()).then(|| have_expired(facts));
    let what: Vec<String> = not_yet.into_iter().chain(expired).collect();
    Dates {
        cause: Cause::Certificates,
        what: format!("{} at the instant that was asked for (--at)", what.join(", and ")),
        signs: vec![format!("judged as of {}; the clock was not looked at", moment(facts.now))],
        todo: Vec::new(),
    }
}

fn have_expired(facts: &Facts) -> String {
    match facts.expired.as_slice() {
        [one] => format!("{one} has expired"),
        all => format!("{} certificates have expired", all.len()),
    }
}

fn set_the_clock() -> Vec<String> {
    vec![
        "set the clock: timedatectl set-ntp true, or timedatectl set-time 'YYYY-MM-DD HH:MM:SS'; then check again"
            .to_owned(),
        "renew nothing before that: by a wrong clock it would only make certificates with wrong dates".to_owned(),
    ]
}

fn renew(facts: &Facts, options: &str) -> Vec<String> {
    let others = facts.expired.len() - facts.renewable.len().min(facts.expired.len());
    let mut todo = Vec::new();
    if !facts.renewable.is_empty() {
        todo.push(format!(
            "k8s-certs-renew run{options}: renews {}, and restarts what uses them",
            facts.renewable.join(", ")
        ));
    }
    if others > 0 {
        let which =
            if facts.renewable.is_empty() { "no run renews them here" } else { "the others are not renewed by it" };
        todo.push(format!("{which}: what to do about each stands below"));
    }
    todo
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::{Cause, Facts, explain};

    fn at(text: &str) -> DateTime<Utc> {
        format!("{text}T12:00:00Z").parse().unwrap()
    }

    fn names(number: usize) -> Vec<String> {
        (0..number).map(|number| format!("leaf-{number}")).collect()
    }

    /// A clock on 10 March 2026, synchronised, with a hardware clock and files that agree.
    fn facts() -> Facts {
        Facts {
            now: at("2026-03-10"),
            by_clock: true,
            newest_file: Some(("/etc/kubernetes/ssl/apiserver.crt".to_owned(), at("2026-02-01"))),
            hardware: Some(at("2026-03-10")),
            last_run: Some(at("2026-03-02")),
            synchronised: Some(true),
            ..Facts::default()
        }
    }

    fn expired(facts: Facts) -> Facts {
        Facts { expired: names(6), renewable: names(6), ..facts }
    }

    fn not_yet(number: usize) -> Vec<(String, DateTime<Utc>)> {
        names(number).into_iter().map(|name| (name, at("2026-05-01"))).collect()
    }

    #[test]
    fn a_wrong_clock_is_told_from_certificates_whose_time_is_over() {
        use Cause::{Certificates, Clock, Unsure};
        let unset = |facts: Facts| Facts { synchronised: Some(false), ..facts };
        let table = [
            ("all is well", facts(), None),
            ("not synchronised, all is well", unset(facts()), None),
            ("expired", expired(facts()), Some(Certificates)),
            (
                "expired, nothing known of the clock",
                expired(Facts { now: facts().now, by_clock: true, ..Facts::default() }),
                Some(Certificates),
            ),
            ("expired, not synchronised", expired(unset(facts())), Some(Unsure)),
            (
                "expired, hardware clock a year behind",
                expired(unset(Facts { hardware: Some(at("2025-03-10")), ..facts() })),
                Some(Clock),
            ),
            // a hardware clock whose battery is empty
            (
                "expired, hardware clock behind, synchronised",
                expired(Facts { hardware: Some(at("2000-01-01")), ..facts() }),
                Some(Certificates),
            ),
            // a hardware clock in local time
            (
                "expired, hardware clock in another zone",
                expired(unset(Facts { hardware: Some(at("2026-03-11")), ..facts() })),
                Some(Unsure),
            ),
            ("many not valid yet", unset(Facts { not_yet: not_yet(6), ..facts() }), Some(Clock)),
            (
                "many not valid yet, nothing known",
                Facts { not_yet: not_yet(6), synchronised: None, ..facts() },
                Some(Clock),
            ),
            ("many not valid yet, synchronised", Facts { not_yet: not_yet(6), ..facts() }, Some(Certificates)),
            ("one not valid yet", unset(Facts { not_yet: not_yet(1), ..facts() }), Some(Unsure)),
            (
                "one not valid yet, the hardware clock is ahead",
                unset(Facts { not_yet: not_yet(1), hardware: Some(at("2026-06-01")), ..facts() }),
                Some(Clock),
            ),
            (
                "one not valid yet, a file is ahead",
                unset(Facts { not_yet: not_yet(1), newest_file: Some(("/x".to_owned(), at("2026-06-01"))), ..facts() }),
                Some(Clock),
            ),
            (
                "one not valid yet, the last run is later",
                unset(Facts { not_yet: not_yet(1), last_run: Some(at("2026-04-01")), ..facts() }),
                Some(Clock),
            ),
            ("the last run is later", unset(Facts { last_run: Some(at("2027-01-01")), ..facts() }), Some(Clock)),
            (
                "files from the future, all is well",
                unset(Facts { newest_file: Some(("/x".to_owned(), at("2027-01-01"))), ..facts() }),
                None,
            ),
            ("hardware clock ahead, all is well", unset(Facts { hardware: Some(at("2027-03-10")), ..facts() }), None),
            ("some of both", expired(unset(Facts { not_yet: not_yet(2), ..facts() })), Some(Clock)),
            // as of another instant the clock does not matter
            (
                "--at, expired",
                expired(Facts { by_clock: false, synchronised: None, hardware: Some(at("2020-01-01")), ..facts() }),
                Some(Certificates),
            ),
            ("--at, not yet valid", Facts { by_clock: false, not_yet: not_yet(2), ..facts() }, Some(Certificates)),
            ("--at before the last run", Facts { by_clock: false, last_run: Some(at("2027-01-01")), ..facts() }, None),
        ];
        for (case, facts, cause) in table {
            let told = explain(&facts);
            assert_eq!(told.as_ref().map(|told| told.cause), cause, "{case}: {told:?}");
        }
    }

    #[test]
    fn both_ways_out_are_named() {
        let told = explain(&expired(facts())).unwrap();
        assert!(told.todo[0].starts_with("k8s-certs-renew run: renews leaf-0"), "{told:?}");
        let told = explain(&Facts { not_yet: not_yet(3), synchronised: None, ..facts() }).unwrap();
        assert!(told.todo[0].contains("timedatectl") && told.signs[0].contains("2026-05-01"), "{told:?}");
        let told = explain(&expired(Facts { synchronised: Some(false), ..facts() })).unwrap();
        assert!(told.todo[0].contains("timedatectl") && told.todo[1].contains("run --force"), "{told:?}");
        let told = explain(&Facts { renewable: Vec::new(), ..expired(facts()) }).unwrap();
        assert!(told.todo[0].starts_with("no run renews them"), "{told:?}");
    }
}
