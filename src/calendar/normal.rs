//! systemd's normal form: what `systemd-analyze calendar` prints as "Normalized form".

use std::fmt;

use super::field::{Item, MICROS};
use super::parse::WEEKDAYS;
use super::{Calendar, Form, Values};

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = &self.form;
        write_weekdays(f, form.weekdays)?;
        write_values(f, &form.year, 4)?;
        f.write_str("-")?;
        write_values(f, &form.month, 2)?;
        f.write_str(if form.from_month_end { "~" } else { "-" })?;
        write_values(f, &form.day, 2)?;
        f.write_str(" ")?;
        write_values(f, &form.hour, 2)?;
        f.write_str(":")?;
        write_values(f, &form.minute, 2)?;
        f.write_str(":")?;
        write_seconds(f, form)?;
        form.zone.fmt(f)
    }
}

fn write_weekdays(f: &mut fmt::Formatter<'_>, days: u8) -> fmt::Result {
    let has = |day: usize| days & (1 << day) != 0;
    let mut day = 0;
    let mut separator = "";
    while day < 7 {
        if !has(day) {
            day += 1;
            continue;
        }
        let first = day;
        while day < 7 && has(day) {
            day += 1;
        }
        write!(f, "{separator}{}", short(first))?;
        match day - first {
            1 => {}
            2 => write!(f, ",{}", short(day - 1))?,
            _ => write!(f, "..{}", short(day - 1))?,
        }
        separator = ",";
    }
    if days == 0 { Ok(()) } else { f.write_str(" ") }
}

fn short(day: usize) -> &'static str {
    WEEKDAYS.get(day).and_then(|name| name.get(..3)).unwrap_or_default()
}

fn write_values(f: &mut fmt::Formatter<'_>, values: &Values, width: usize) -> fmt::Result {
    let Some(items) = values else { return f.write_str("*") };
    write_items(
        f,
        items,
        1,
        |f, value, padded| {
            if padded { write!(f, "{value:0width$}") } else { write!(f, "{value}") }
        },
    )
}

fn write_seconds(f: &mut fmt::Formatter<'_>, form: &Form) -> fmt::Result {
    // loses what else the list holds, as systemd does
    if form.second.contains(&Item::every(0, MICROS)) {
        return f.write_str("*");
    }
    write_items(f, &form.second, MICROS, |f, micros, padded| {
        let (whole, fraction) = (micros / MICROS, micros % MICROS);
        write!(f, "{whole:0width$}", width = if padded { 2 } else { 1 })?;
        if fraction == 0 { Ok(()) } else { write!(f, ".{fraction:06}") }
    })
}

fn write_items(
    f: &mut fmt::Formatter<'_>,
    items: &[Item],
    unit: u32,
    write_value: impl Fn(&mut fmt::Formatter<'_>, u32, bool) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(",")?;
        }
        write_value(f, item.start, true)?;
        if let Some(end) = item.end {
            f.write_str("..")?;
            write_value(f, end, true)?;
        }
        if item.step != 0 && !(item.end.is_some() && item.step == unit) {
            f.write_str("/")?;
            write_value(f, item.step, false)?;
        }
    }
    Ok(())
}
