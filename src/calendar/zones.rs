//! The time zone behind an expression.

use std::fmt;

use chrono_tz::Tz;

/// The zone that an expression runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Zone {
    /// None is named: the node's.
    Local,
    /// The node's, named by the link that some zone databases have for it.
    NamedLocal,
    /// `posix/` in front of the name is kept for the normal form.
    Named { tz: Tz, posix: bool },
}

impl Zone {
    /// The zone of this suffix, as systemd 252 looks it up below `/usr/share/zoneinfo`: `UTC` in any case, else a name of
    /// the database in its own case, also below `posix/`. Not known: `right/` (clocks with leap seconds) and
    /// abbreviations of the node's zone.
    pub(super) fn of_suffix(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("UTC") {
            return Some(Self::Named { tz: Tz::UTC, posix: false });
        }
        if name == "localtime" {
            return Some(Self::NamedLocal);
        }
        let plain = name.strip_prefix("posix/");
        let tz = plain.unwrap_or(name).parse().ok()?;
        Some(Self::Named { tz, posix: plain.is_some() })
    }

    /// `None`: the node's.
    pub(super) fn tz(&self) -> Option<Tz> {
        match self {
            Self::Local | Self::NamedLocal => None,
            Self::Named { tz, .. } => Some(*tz),
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => Ok(()),
            Self::NamedLocal => f.write_str(" localtime"),
            Self::Named { tz, posix } => write!(f, " {}{}", if *posix { "posix/" } else { "" }, tz.name()),
        }
    }
}

/// The zone of this name: `UTC` in any case, or a name of the IANA database, also below `posix/`.
pub fn zone_named(name: &str) -> Option<Tz> {
    Zone::of_suffix(name)?.tz()
}

#[cfg(test)]
mod tests {
    use super::{Zone, zone_named};

    #[test]
    fn names_are_taken_in_their_own_case_and_utc_in_any() {
        assert_eq!(zone_named("uTc"), Some(chrono_tz::UTC));
        assert_eq!(zone_named("posix/Europe/Berlin"), Some(chrono_tz::Europe::Berlin));
        for unknown in
            ["europe/berlin", "CEST", "Z", "+02:00", "UTC+2", "Europe", "", "right/Europe/Berlin", "/Europe/Berlin"]
        {
            assert_eq!(zone_named(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_spelling_of_a_name_is_kept() {
        for name in ["UTC", "GMT+0", "EST", "US/Eastern", "Etc/UTC", "W-SU", "posix/Japan", "localtime"] {
            assert_eq!(Zone::of_suffix(name).unwrap().to_string(), format!(" {name}"));
        }
    }
}
