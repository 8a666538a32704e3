//! Whether a process started after the credential that it reads only at its start was there.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::Verdict;
use crate::files::Root;
use crate::journal::FirstSeen;

/// How much later than a file's time a process must have started: both are cut to different grains, and the wall clock
/// drifts against the one since boot.
const GRAIN: TimeDelta = TimeDelta::seconds(1);

/// One moment by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The machine's wall clock (UTC).
    pub now: DateTime<Utc>,
    /// Time since boot at that same moment.
    pub since_boot: Duration,
}

/// When a process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Time since boot.
    pub since_boot: Duration,
    /// How far off that may be.
    pub grain: Duration,
}

impl Start {
    /// As `/proc` tells it: to the tick, whatever the wall clock does. A tick is cut off, so it is never too late.
    pub fn of_process(since_boot: Duration) -> Self {
        Self { since_boot, grain: Duration::ZERO }
    }

    /// As the wall clock told it when it started. Wrong by each step that the clock has made since.
    pub fn by_wall_clock(started: DateTime<Utc>, at: &Moment) -> Self {
        let since_boot = since_boot(started, at).max(TimeDelta::zero());
        Self { since_boot: since_boot.to_std().unwrap_or_default(), grain: Duration::from_secs(2) }
    }
}

/// What a file's own times say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTimes {
    /// Last change of content, name, mode or owner (`st_ctime`). Set by the kernel alone: the content was there by then.
    pub changed: DateTime<Utc>,
    /// The time that the writer gave the content (`st_mtime`): `cp -p`, `rsync -t` and `tar` set an old one. It proves nothing,
    /// and only helps to say what may have happened.
    pub modified: DateTime<Utc>,
}

impl FileTimes {
    /// The times of a file; through a link, the later ones of the link and of what it leads to. None where they cannot be read.
    pub fn read(root: &Root, path: &Path) -> Option<Self> {
        let time = |seconds, nanoseconds| DateTime::from_timestamp(seconds, u32::try_from(nanoseconds).ok()?);
        let of = |metadata: &std::fs::Metadata| {
            Some(Self {
                changed: time(metadata.ctime(), metadata.ctime_nsec())?,
                modified: time(metadata.mtime(), metadata.mtime_nsec())?,
            })
        };
        let target = of(&root.metadata(path).ok()?)?;
        // a link that was made to lead elsewhere shows another file without touching one
        match root.symlink_metadata(path).ok().filter(std::fs::Metadata::is_symlink).and_then(|link| of(&link)) {
            Some(link) => Some(target.latest(link)),
            None => Some(target),
        }
    }

    /// The later of each.
    pub fn latest(self, other: Self) -> Self {
        Self { changed: self.changed.max(other.changed), modified: self.modified.max(other.modified) }
    }
}

/// When a credential appeared, as far as anything tells.
#[derive(Debug, Clone, Copy, Default)]
pub struct Appeared<'a> {
    /// What the journal says.
    pub seen: Option<&'a FirstSeen>,
    /// What its file says.
    pub times: Option<FileTimes>,
}

/// Judges a process that started at `start` and reads this credential at its start only; the reason completes
/// "the process ...".
///
/// The journal comes first, since it goes by the clock since boot. It bounds the moment from both sides: the serial was there
/// when first seen, and was not while another stood in its place. A process that started between the two, and a credential
/// that the journal does not know, are judged by the file's `ctime`: what started later has read what is there now. What
/// started earlier counts as stale even where only mode or owner may have changed since: it is not proven, and a restart
/// settles it for good, as the journal knows the serial from then on.
pub fn judge(start: Start, appeared: Appeared<'_>, boot_id: Option<&str>, at: &Moment) -> (Verdict, String) {
    let started = ago(at.since_boot.saturating_sub(start.since_boot));
    let seen = appeared.seen.zip(boot_id);
    if let Some((seen, boot_id)) = seen {
        if seen.boot_id != boot_id {
            return (
                Verdict::InUse,
                format!("started {started} ago, and the credential was seen before the machine was booted"),
            );
        }
        let first = Duration::from_millis(seen.since_boot_ms);
        // later than now in the same boot: no clock of this machine wrote that
        if first <= at.since_boot {
            if start.since_boot >= first + start.grain {
                return (Verdict::InUse, format!("started {started} ago, after the credential was seen on disk"));
            }
            if seen.other_until_ms.is_some_and(|until| start.since_boot <= Duration::from_millis(until)) {
                let age = ago(at.since_boot.saturating_sub(first));
                return (
                    Verdict::Stale,
                    format!("started {started} ago, and the credential was put there after that, {age} ago at least"),
                );
            }
        }
    }
    let Some(times) = appeared.times else {
        return (Verdict::Unknown, format!("started {started} ago, and nothing tells when the credential appeared"));
    };
    if times.changed > at.now + GRAIN {
        let time = times.changed.format("%Y-%m-%d %H:%M:%S UTC");
        return (
            Verdict::Unknown,
            format!("started {started} ago; the file's time, {time}, lies in the future and proves nothing"),
        );
    }
    let grain = TimeDelta::from_std(start.grain).unwrap_or_default() + GRAIN;
    let start = TimeDelta::from_std(start.since_boot).unwrap_or(TimeDelta::MAX);
    let age = ago((at.now - times.changed).to_std().unwrap_or_default());
    let changed = since_boot(times.changed, at);
    if start >= changed + grain {
        (Verdict::InUse, format!("started {started} ago, after the last change of the file, {age} ago"))
    } else if start >= changed - grain {
        // kubeadm writes a kubeconfig and starts its reader within the same seconds: neither is proven
        (Verdict::Unknown, format!("started {started} ago, at about the time of the last change of the file"))
    } else if start >= since_boot(times.modified, at) + grain {
        let how = "its mode or owner, or an old content was put back";
        (Verdict::Stale, format!("started {started} ago, and the file was changed after that, {age} ago ({how})"))
    } else {
        (Verdict::Stale, format!("started {started} ago, and the file was written after that, {age} ago"))
    }
}

/// How long the credential has been there at least; None where nothing tells.
pub fn there_for(appeared: Appeared<'_>, boot_id: Option<&str>, at: &Moment) -> Option<Duration> {
    let by_journal = appeared.seen.zip(boot_id).and_then(|(seen, boot_id)| {
        if seen.boot_id == boot_id {
            at.since_boot.checked_sub(Duration::from_millis(seen.since_boot_ms))
        } else {
            Some(at.since_boot)
        }
    });
    let by_file = appeared.times.and_then(|times| (at.now - times.changed).to_std().ok());
    by_journal.max(by_file)
}

/// The moment of the wall clock, by the clock since boot; negative before the boot.
fn since_boot(wall: DateTime<Utc>, at: &Moment) -> TimeDelta {
    TimeDelta::from_std(at.since_boot).unwrap_or(TimeDelta::MAX) - (at.now - wall)
}

/// A span of time for people: its largest unit.
fn ago(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::time::Duration;

    use chrono::{DateTime, TimeDelta, Utc};

    use super::{Appeared, FileTimes, Moment, Root, Start, Verdict, judge, there_for};
    use crate::journal::FirstSeen;

    const BOOT: &str = "this";

    /// 1000 s after boot.
    fn at() -> Moment {
        Moment { now: "2026-03-02T03:10:00Z".parse().unwrap(), since_boot: Duration::from_secs(1000) }
    }

    fn seen(boot_id: &str, seconds: u64, other_until: Option<u64>) -> FirstSeen {
        let other_until_ms = other_until.map(|seconds| seconds * 1000);
        FirstSeen { boot_id: boot_id.to_owned(), since_boot_ms: seconds * 1000, other_until_ms }
    }

    /// The wall clock at so many seconds after boot.
    fn wall(seconds: i64) -> DateTime<Utc> {
        at().now + TimeDelta::seconds(seconds - 1000)
    }

    fn times(changed: i64, modified: i64) -> FileTimes {
        FileTimes { changed: wall(changed), modified: wall(modified) }
    }

    fn verdict(start: u64, seen: Option<&FirstSeen>, times: Option<FileTimes>) -> Verdict {
        let start = Start::of_process(Duration::from_secs(start));
        judge(start, Appeared { seen, times }, Some(BOOT), &at()).0
    }

    #[test]
    fn the_journal_bounds_the_moment_from_both_sides() {
        use Verdict::{InUse, Stale};
        let late = Some(times(900, 900));
        let early = Some(times(100, 100));
        // start, first seen, another until, the file's times
        let table = [
            (500, seen(BOOT, 400, Some(300)), late, InUse),
            (400, seen(BOOT, 400, None), late, InUse),
            (300, seen(BOOT, 400, Some(300)), early, Stale),
            (100, seen(BOOT, 400, Some(300)), None, Stale),
            // between the two the file decides, and so it does where nothing is known of another
            (350, seen(BOOT, 400, Some(300)), early, InUse),
            (350, seen(BOOT, 400, Some(300)), Some(times(390, 390)), Stale),
            (350, seen(BOOT, 400, None), early, InUse),
            // seen before the boot
            (1, seen("before", 999_999, Some(999_998)), late, InUse),
            // a moment that this boot has not reached: nothing is made of it
            (500, seen(BOOT, 2000, Some(1999)), early, InUse),
            (500, seen(BOOT, 2000, Some(1999)), late, Stale),
        ];
        for (start, seen, times, expected) in table {
            assert_eq!(verdict(start, Some(&seen), times), expected, "{start} {seen:?} {times:?}");
        }
    }

    #[test]
    fn a_file_proves_by_its_last_change_only() {
        use Verdict::{InUse, Stale, Unknown};
        let table = [
            (500, Some(times(400, 400)), InUse),
            (500, Some(times(600, 600)), Stale),
            // cp -p, rsync -t, tar, a restore, a rename, and chmod alike
            (500, Some(times(600, 10)), Stale),
            // touch -d in the future: the content is no younger than its last change
            (500, Some(times(400, 5000)), InUse),
            // written before the boot
            (1, Some(times(-50_000, -50_000)), InUse),
            // within the grain of both nothing is proven
            (498, Some(times(500, 500)), Stale),
            (499, Some(times(500, 500)), Unknown),
            (500, Some(times(500, 500)), Unknown),
            (501, Some(times(500, 500)), InUse),
            // the future proves nothing, whatever started when
            (10, Some(times(1100, 1100)), Unknown),
            (999, Some(times(400_000_000, 400_000_000)), Unknown),
            (500, None, Unknown),
        ];
        for (start, times, expected) in table {
            assert_eq!(verdict(start, None, times), expected, "{start} {times:?}");
        }
    }

    #[test]
    fn through_a_link_the_later_change_of_both_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        let changed = |path: &str| FileTimes::read(&root, Path::new(path)).unwrap().changed;
        let own = |path: &Path| {
            let metadata = path.symlink_metadata().unwrap();
            (metadata.ctime(), metadata.ctime_nsec())
        };
        // the kernel's clock for files moves in steps of some milliseconds
        let until = |later: &dyn Fn() -> bool, again: &dyn Fn()| {
            let mut tries = 0;
            while !later() {
                tries += 1;
                assert!(tries < 1_000_000, "the clock for files stands still");
                again();
            }
        };
        let write = || std::fs::write(&file, "x").unwrap();
        let relink = || {
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink("file", &link).unwrap();
        };
        write();
        relink();
        until(&|| own(&file) > own(&link), &write);
        assert_eq!(changed("/link"), changed("/file"));
        until(&|| own(&link) > own(&file), &relink);
        assert!(changed("/link") > changed("/file"));
        assert!(FileTimes::read(&root, Path::new("/none")).is_none());
    }

    #[test]
    fn a_clock_that_was_stepped_back_by_a_year_leaves_the_journals_word() {
        let year = 365 * 86_400;
        let future = Some(times(900 + year, 900 + year));
        assert_eq!(verdict(950, Some(&seen(BOOT, 900, Some(800))), future), Verdict::InUse);
        assert_eq!(verdict(700, Some(&seen(BOOT, 900, Some(800))), future), Verdict::Stale);
        assert_eq!(verdict(700, Some(&seen(BOOT, 900, None)), future), Verdict::Unknown);
        assert_eq!(there_for(Appeared { seen: None, times: future }, Some(BOOT), &at()), None);
    }

    #[test]
    fn without_a_boot_id_the_journal_is_not_asked() {
        let seen = seen(BOOT, 100, None);
        let start = Start::of_process(Duration::from_secs(500));
        let by = |times| judge(start, Appeared { seen: Some(&seen), times }, None, &at()).0;
        assert_eq!(by(None), Verdict::Unknown);
        assert_eq!(by(Some(times(600, 600))), Verdict::Stale);
    }

    #[test]
    fn a_start_by_the_wall_clock_is_held_to_its_grain() {
        let by = |second| {
            judge(
                Start::by_wall_clock(wall(second), &at()),
                Appeared { seen: Some(&seen(BOOT, 500, Some(500))), times: None },
                Some(BOOT),
                &at(),
            )
            .0
        };
        assert_eq!(
            [by(499), by(500), by(501), by(502)].map(|verdict| verdict == Verdict::InUse),
            [false, false, false, true]
        );
        assert_eq!(by(-1_000_000), Verdict::Stale);
    }

    #[test]
    fn the_age_is_the_greater_of_what_journal_and_file_prove() {
        let age = |seen: Option<&FirstSeen>, times| {
            there_for(Appeared { seen, times }, Some(BOOT), &at()).map(|age| age.as_secs())
        };
        assert_eq!(age(Some(&seen(BOOT, 900, None)), Some(times(950, 0))), Some(100));
        assert_eq!(age(Some(&seen(BOOT, 900, None)), Some(times(700, 0))), Some(300));
        assert_eq!(age(Some(&seen("before", 5, None)), None), Some(1000));
        assert_eq!(age(Some(&seen(BOOT, 2000, None)), Some(times(2000, 0))), None);
    }
}
