//! Times at which scheduled rules run: cron expressions of five fields (POSIX crontab) in a time zone.

use crate::json::text;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::Value;

/// Days that are looked through for the next time; 29 February comes at least every eight years.
const FARTHEST: usize = 366 * 9;

/// A cron expression in a time zone.
pub(crate) struct Cron {
    minutes: Vec<i8>,
    hours: Vec<i8>,
    days: Vec<i8>,
    months: Vec<i8>,
    weekdays: Vec<i8>,
    /// Days of the month and of the week are both restricted: then either suffices.
    either: bool,
    zone: TimeZone,
}

/// The schedule of a rule: its `schedulerCron`, else its `scheduler_frequency` (`hourly`, `daily`, `weekly`, `monthly`; at
/// nine, on Mondays, on the first). `None` without one.
///
/// # Errors
/// What is wrong with it, in words that follow its name.
pub(crate) fn of_rule(rule: &Value) -> Option<Result<Cron, &'static str>> {
    let cron = rule.get("schedulerCron").filter(|cron| !text(cron, "cron").trim().is_empty());
    let expression = match (cron, text(rule, "scheduler_frequency")) {
        (Some(cron), _) => text(cron, "cron"),
        (None, "hourly") => "0 * * * *",
        (None, "daily") => "0 9 * * *",
        (None, "weekly") => "0 9 * * 1",
        (None, "monthly") => "0 9 1 * *",
        _ => return None,
    };
    Some(Cron::read(expression, cron.map(|cron| text(cron, "timezone")).unwrap_or_default()))
}

impl Cron {
    /// Reads `minute hour day month weekday`, each `*`, numbers, ranges and steps; the zone is UTC when blank.
    fn read(expression: &str, zone: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "is not a valid cron expression";
        let parts: Vec<&str> = expression.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts.as_slice() else { return Err(WRONG) };
        let zone = match zone.trim() {
            "" | "UTC" => TimeZone::UTC,
            name => TimeZone::get(name).map_err(|_| "has an unknown timezone")?,
        };
        let mut week = numbers(weekdays, 0, 7).ok_or(WRONG)?;
        week.iter_mut().for_each(|day| *day %= 7);
        Ok(Self {
            minutes: numbers(minutes, 0, 59).ok_or(WRONG)?,
            hours: numbers(hours, 0, 23).ok_or(WRONG)?,
            days: numbers(days, 1, 31).ok_or(WRONG)?,
            months: numbers(months, 1, 12).ok_or(WRONG)?,
            weekdays: week,
            either: !days.starts_with('*') && !weekdays.starts_with('*'),
            zone,
        })
    }

    /// The first time after this one; `None` when there is none (30 February).
    pub(crate) fn after(&self, now: Timestamp) -> Option<Timestamp> {
        let today = self.zone.to_datetime(now).date();
        let days = today.series(jiff::ToSpan::days(1)).take(FARTHEST).filter(|day| self.has(*day));
        for day in days {
            for hour in &self.hours {
                for minute in &self.minutes {
                    let at = self.zone.to_timestamp(day.at(*hour, *minute, 0, 0)).ok();
                    if let Some(at) = at.filter(|at| *at > now) {
                        return Some(at);
                    }
                }
            }
        }
        None
    }

    fn has(&self, day: Date) -> bool {
        let of_month = self.days.contains(&day.day());
        let of_week = self.weekdays.contains(&day.weekday().to_sunday_zero_offset());
        self.months.contains(&day.month()) && if self.either { of_month || of_week } else { of_month && of_week }
    }
}

/// The numbers that one field names, in order.
fn numbers(field: &str, least: i8, most: i8) -> Option<Vec<i8>> {
    let mut named = Vec::new();
    for part in field.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let (from, to) = match (range, range.split_once('-')) {
            ("*", _) => (least, most),
            (_, Some((from, to))) => (from.parse().ok()?, to.parse().ok()?),
            (one, None) => {
                let one = one.parse().ok()?;
                (one, if step.is_some() { most } else { one })
            }
        };
        let step: usize = step.map_or(Ok(1), str::parse).ok().filter(|step| *step > 0)?;
        if from < least || to > most || from > to {
            return None;
        }
        named.extend((from..=to).step_by(step));
    }
    named.sort_unstable();
    named.dedup();
    Some(named)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    fn next(cron: &str, zone: &str, now: &str) -> String {
        let found = Cron::read(cron, zone).unwrap().after(now.parse().unwrap());
        found.map_or_else(|| "never".to_owned(), |at| at.to_string())
    }

    #[test]
    fn the_next_time_is_found() {
        let friday = "2026-02-27T10:30:00Z";
        for (cron, at) in [
            ("* * * * *", "2026-02-27T10:31:00Z"),
            ("30 10 * * *", "2026-02-28T10:30:00Z"),
            ("*/20 9-11 * * *", "2026-02-27T10:40:00Z"),
            ("0 9 * * 1", "2026-03-02T09:00:00Z"),
            ("0 9 * * 7", "2026-03-01T09:00:00Z"),
            ("0 0 31 * *", "2026-03-31T00:00:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("0 0 13 * 5", "2026-03-06T00:00:00Z"),
            ("0 0 30 2 *", "never"),
            ("5/30 12 * * *", "2026-02-27T12:05:00Z"),
        ] {
            assert_eq!(next(cron, "", friday), at, "{cron}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for cron in ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "5-1 * * * *", "*/0 * * * *", "a * * * *"]
        {
            assert!(Cron::read(cron, "").is_err(), "{cron}");
        }
        assert_eq!(Cron::read("* * * * *", "Nowhere/City").err(), Some("has an unknown timezone"));
        assert!(of_rule(&json!({ "scheduler_frequency": "daily" })).unwrap().is_ok());
        assert!(of_rule(&json!({ "schedulerCron": { "cron": " " } })).is_none());
    }
}
