//! One line a certificate.

use chrono::{DateTime, Duration, Utc};

use crate::evidence::Verdict;
use crate::report::check_report::{CheckReport, Row, Status};
use crate::report::words::{span, tame};

use super::text::{elide, length, pad};
use super::{Look, paint};

/// Orders of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The worst first, then what ends first.
    Urgency,
    /// By name.
    Name,
}

/// From this many columns on there is room for a bar.
const ROOM_FOR_BARS: usize = 110;
/// Cells of a bar.
const CELLS: usize = 24;
/// A leaf of kubeadm's is taken to live no longer: up to 1.30 it bears the NotBefore of its CA.
const USUAL: Duration = Duration::days(365);
/// No name is cut shorter than this.
const SHORTEST: usize = 12;

/// The table; nothing where there are no certificates.
pub fn lines(report: &CheckReport, look: &Look) -> Vec<String> {
    if report.rows.is_empty() {
        return Vec::new();
    }
    let mut rows: Vec<&Row> = report.rows.iter().collect();
    match look.order {
        Order::Name => rows.sort_by(|one, other| one.name.cmp(&other.name)),
        Order::Urgency => rows.sort_by(|one, other| urgency(one).cmp(&urgency(other))),
    }
    let narrow = look.width.filter(|_| !look.wide);
    let bars = !look.wide && look.width.is_some_and(|width| width >= ROOM_FOR_BARS);
    let cells: Vec<Vec<Cell>> = rows.iter().map(|row| cells(row, report, look, bars)).collect();
    let table = Table { header: header(look, bars), cells };
    table.fit(narrow).lines(look)
}

/// The worst first; among equals what is not used as it is on disk, then what ends first.
fn urgency(row: &Row) -> (std::cmp::Reverse<Status>, std::cmp::Reverse<bool>, Option<DateTime<Utc>>, &str) {
    let stale = row.in_use == Some(Verdict::Stale);
    (std::cmp::Reverse(row.status), std::cmp::Reverse(stale), row.not_after, &row.name)
}

#[derive(Debug, Clone)]
struct Cell {
    text: String,
    status: Option<Status>,
}

fn plain(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), status: None }
}

const NAME: usize = 0;
const EXPIRES: usize = 1;

fn header(look: &Look, bars: bool) -> Vec<&'static str> {
    let mut header = vec!["CERTIFICATE", "EXPIRES", "LEFT"];
    if bars {
        header.push("LIFE LEFT (|: due below)");
    }
    header.extend(["MANAGER", "IN USE", "VERDICT"]);
    if look.wide {
        header.extend(["SERIAL", "PATH"]);
    }
    header
}

fn cells(row: &Row, report: &CheckReport, look: &Look, bars: bool) -> Vec<Cell> {
    let date = |at: DateTime<Utc>| at.with_timezone(&report.zone).format("%Y-%m-%d %H:%M").to_string();
    let mut cells = vec![
        plain(tame(&row.name)),
        plain(row.not_after.map_or_else(|| "-".to_owned(), date)),
        plain(row.not_after.map_or_else(|| "-".to_owned(), |at| left(at, report.at))),
    ];
    if bars {
        cells.push(Cell { text: bar(row, report.at), status: Some(row.status) });
    }
    let (used, status) = used(row);
    cells.push(plain(tame(&row.manager)));
    cells.push(Cell { text: used.to_owned(), status });
    cells.push(Cell { text: row.state.clone(), status: Some(row.status) });
    if look.wide {
        cells.push(plain(row.serial.clone().unwrap_or_else(|| "-".to_owned())));
        let path = row.certificate.as_ref().map(|certificate| certificate.path.display().to_string());
        cells.push(plain(path.map_or_else(|| "-".to_owned(), |path| tame(&path).into_owned())));
    }
    cells
}

fn left(end: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let left = end - now;
    if left < Duration::zero() { format!("-{}", span(-left)) } else { span(left) }
}

fn used(row: &Row) -> (&'static str, Option<Status>) {
    match row.in_use {
        None => ("-", None),
        Some(Verdict::Unknown) if row.rereads => ("re-read", None),
        Some(Verdict::InUse) => ("in use", None),
        Some(Verdict::Unknown) => ("unknown", Some(Status::Unknown)),
        Some(Verdict::Stale) => ("stale", Some(Status::Warning)),
    }
}

/// The life that is left, as a gauge. The mark stands where a warning begins: less than that is due.
fn bar(row: &Row, now: DateTime<Utc>) -> String {
    let (Some(begin), Some(end)) = (row.not_before, row.not_after) else { return String::new() };
    let whole = end - begin;
    let whole = if row.manager == "kubeadm" && !row.is_authority { whole.min(USUAL) } else { whole };
    let cells_of = |length: Duration| -> usize {
        let (length, whole) = (length.num_seconds().max(0), whole.num_seconds().max(1));
        let cells = i64::try_from(CELLS).unwrap_or_default();
        usize::try_from((length.saturating_mul(cells) + whole - 1) / whole).unwrap_or_default().min(CELLS)
    };
    let filled = cells_of(end - now);
    let mark = row.warn_before.map(|before| cells_of(before - now)).filter(|cells| *cells > 0);
    let cell = |index: usize| match () {
        () if mark == Some(index + 1) => '|',
        () if index < filled => '#',
        () => '.',
    };
    (0..CELLS).map(cell).collect()
}

struct Table {
    header: Vec<&'static str>,
    cells: Vec<Vec<Cell>>,
}

impl Table {
    /// Makes it narrower where it has to be: first without the time of day, then with the middle of long names left out, then
    /// without the manager.
    fn fit(mut self, width: Option<usize>) -> Self {
        let Some(width) = width else { return self };
        if self.width() > width {
            for row in &mut self.cells {
                let date: String = row[EXPIRES].text.chars().take(10).collect();
                row[EXPIRES].text = date;
            }
        }
        if self.width() > width {
            self.shorten(width);
        }
        if self.width() > width
            && let Some(manager) = self.header.iter().position(|header| *header == "MANAGER")
        {
            self.header.remove(manager);
            self.cells.iter_mut().for_each(|row| _ = row.remove(manager));
        }
        self
    }

    fn shorten(&mut self, width: usize) {
        let too_much = self.width() - width;
        let names = self.widths()[NAME];
        let room = names.saturating_sub(too_much).max(SHORTEST);
        for row in &mut self.cells {
            row[NAME].text = elide(&row[NAME].text, room);
        }
    }

    fn widths(&self) -> Vec<usize> {
        let column = |index: usize| {
            let cells = self.cells.iter().map(|row| length(&row[index].text));
            cells.chain([length(self.header[index])]).max().unwrap_or_default()
        };
        (0..self.header.len()).map(column).collect()
    }

    fn width(&self) -> usize {
        self.widths().iter().sum::<usize>() + 2 * (self.header.len() - 1)
    }

    fn lines(&self, look: &Look) -> Vec<String> {
        let widths = self.widths();
        let header: Vec<Cell> = self.header.iter().map(|text| plain(*text)).collect();
        let line = |row: &Vec<Cell>| {
            let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
            let mut line = String::new();
            for (index, cell) in row.iter().enumerate().take(last + 1) {
                let padded = if index == last { cell.text.clone() } else { pad(&cell.text, widths[index]) };
                // blanks are not coloured
                let (text, blanks) = padded.split_at(cell.text.len());
                line.push_str(&cell.status.map_or_else(|| text.to_owned(), |status| paint(text, status, look)));
                line.push_str(blanks);
                line.push_str(if index == last { "" } else { "  " });
            }
            line
        };
        std::iter::once(&header).chain(&self.cells).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Duration, Utc};

    use super::{CELLS, bar};
    use crate::report::check_report::{Row, Status};

    fn row(life: i64, left: i64, warn: Option<i64>, manager: &str) -> (Row, DateTime<Utc>) {
        let now: DateTime<Utc> = "2026-03-10T12:00:00Z".parse().unwrap();
        let row = Row {
            name: "x".to_owned(),
            certificate: None,
            is_authority: false,
            not_before: Some(now + Duration::days(left - life)),
            not_after: Some(now + Duration::days(left)),
            serial: None,
            manager: manager.to_owned(),
            readers: Vec::new(),
            in_use: None,
            rereads: false,
            warn_before: warn.map(|days| now + Duration::days(days)),
            due: false,
            state: "ok".to_owned(),
            status: Status::Ok,
        };
        (row, now)
    }

    #[test]
    fn a_bar_is_the_life_that_is_left_and_its_mark_where_a_warning_begins() {
        let table = [
            (240, 240, Some(50), "etcd", "####|###################"),
            (240, 120, Some(50), "etcd", "####|#######............"),
            (240, 20, Some(50), "etcd", "##..|..................."),
            (240, 1, Some(50), "etcd", "#...|..................."),
            (240, -1, Some(50), "etcd", "....|..................."),
            (240, 120, None, "etcd", "############............"),
            // by the CA's NotBefore it would be old
            (3650, 365, Some(30), "kubeadm", "#|######################"),
            (3650, 365, Some(30), "etcd", "|##....................."),
            // a threshold beyond all of its life
            (24, 24, Some(50), "etcd", "#######################|"),
        ];
        for (life, left, warn, manager, expected) in table {
            let (row, now) = row(life, left, warn, manager);
            let bar = bar(&row, now);
            assert_eq!(bar, expected, "{life} {left} {warn:?} {manager}");
            assert_eq!(bar.len(), CELLS);
        }
    }
}
