//! Times of the command line: read and shown in the zone of `TZ`, else of the host; with `--utc` in UTC.
//!
//! JSON has RFC 3339 in UTC always. A local time that daylight saving repeats or skips is refused with both of its
//! readings, because a guess would measure a count against the stock of another hour.

use super::environment::environment;
use crate::model::Timestamp;
use crate::present::sentence::{SentencePart, sentence_parts};
use chrono::{
    DateTime, Datelike, FixedOffset, Local, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, TimeDelta,
};
use chrono_tz::Tz;
use std::sync::OnceLock;
use std::time::Duration;

/// The zone of the process: set by `--utc`, else read from the environment at the first use.
static ZONE: OnceLock<CliZone> = OnceLock::new();

/// The years whose offsets the zone tables hold; other times are shown in UTC.
const LOCAL_YEARS: std::ops::RangeInclusive<i32> = 1..=9999;

/// The earliest year that is read: `26-11-22` is of the year 26.
const YEAR_MIN: i32 = 2000;

/// The time by which another clock may be ahead of this host's.
const AHEAD_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Eq)]
enum CliZone {
    /// A zone that `TZ` names, or UTC. Its table is in the program, because a small host has no zone files.
    Named(Tz),
    /// The zone of the host, or a rule or file in `TZ`.
    Host,
    /// The value of `TZ`, which names no zone. No time is read, because the C library would take it for UTC.
    Unknown(String),
}

impl CliZone {
    fn from_variable(variable: Option<&str>) -> Self {
        let Some(name) = variable.map(|name| name.strip_prefix(':').unwrap_or(name)) else {
            return Self::Host;
        };
        // A rule such as `CET-1CEST` has digits.
        let is_name = !name.starts_with('/') && !name.contains(|c: char| c.is_ascii_digit());
        match name.parse() {
            Ok(zone) => Self::Named(zone),
            Err(_) if !is_name || name.is_empty() || name == "localtime" => Self::Host,
            Err(_) => Self::Unknown(name.to_owned()),
        }
    }

    fn local(&self, at: Timestamp) -> DateTime<FixedOffset> {
        let utc = at.to_datetime();
        match self {
            Self::Named(zone) if LOCAL_YEARS.contains(&utc.year()) => utc.with_timezone(zone).fixed_offset(),
            Self::Host if LOCAL_YEARS.contains(&utc.year()) => utc.with_timezone(&Local).fixed_offset(),
            _ => utc.fixed_offset(),
        }
    }
}

fn zone() -> &'static CliZone {
    ZONE.get_or_init(|| CliZone::from_variable(environment("TZ").as_deref()))
}

/// Reads and shows times in UTC; for the start of the program.
pub(super) fn use_utc() {
    ZONE.get_or_init(|| CliZone::Named(Tz::UTC));
}

/// Returns a time for people, such as `2026-11-22 06:27:23+01:00`. [`parse_time`] accepts it.
pub(super) fn local_time(at: Timestamp) -> String {
    zoned_text(zone().local(at))
}

pub(super) fn local_sentence(sentence: impl AsRef<str>) -> String {
    let mut text = String::new();
    for part in sentence_parts(sentence.as_ref()) {
        match part {
            SentencePart::Text(part) => text.push_str(part),
            SentencePart::Time(at) => text.push_str(&local_time(at)),
            SentencePart::Code(code) => text.push_str(&format!("`{code}`")),
        }
    }
    text
}

fn zoned_text(at: DateTime<FixedOffset>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1)
}

/// Reads the time of something that happened: `08:40` is of today, and a time without a zone is local.
pub(super) fn parse_time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    match parse_any_time(text, now)? {
        at if at <= now.plus(AHEAD_MAX) => Ok(at),
        at => Err(format!(
            "`{text}` is in the future: it is {}, and now it is {}. A time that ends with Z is of UTC; write a local time \
             without Z, and a time of yesterday with its date",
            local_time(at),
            local_time(now)
        )),
    }
}

/// Reads a time as [`parse_time`] does, and takes one that is to come.
pub(super) fn parse_any_time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    match zone() {
        CliZone::Unknown(name) => Err(format!(
            "the variable TZ is `{name}`, which is no time zone; write one such as Europe/Berlin, or use --utc"
        )),
        zone => parse_in_zone(text, now, zone),
    }
}

/// Returns a time of a file, which needs a date, because a file may be imported on another day.
pub(super) fn require_date(text: &str) -> Result<&str, String> {
    match parse_clock_time(text) {
        Some(_) => Err(format!("`{text}` has no date; write it as 2026-11-22 08:40")),
        None => Ok(text),
    }
}

/// Returns a time that was read from `text` for the platform: a date alone stays, a time becomes UTC.
pub(super) fn platform_date(text: &str, at: Timestamp) -> String {
    text.trim().parse::<NaiveDate>().map_or_else(|_| at.to_rfc3339(), |_| text.trim().to_owned())
}

fn parse_in_zone(text: &str, now: Timestamp, zone: &CliZone) -> Result<Timestamp, String> {
    let text = text.trim();
    let (zoned, today) = (parse_zoned(text), zone.local(now).date_naive());
    let local = parse_clock_time(text).map(|time| today.and_time(time));
    let local = local.or_else(|| parse_local(text)).or(zoned.map(|at| at.naive_utc())).ok_or_else(|| {
        format!(
            "`{text}` is not a time; write 08:40 (today), 2026-11-22 08:40 (local time) or 2026-11-22T08:40:00+01:00"
        )
    })?;
    if local.year() < YEAR_MIN {
        return Err(format!(
            "`{text}` is of the year {}; write the year with four digits, as 2026-11-22",
            local.year()
        ));
    }
    zoned.map_or_else(|| to_instant(text, local, zone), |at| Ok(Timestamp(at.timestamp_millis())))
}

fn parse_zoned(text: &str) -> Option<DateTime<FixedOffset>> {
    let text = date_and_time(text).replace('Z', "+00:00");
    let formats = ["%Y-%m-%d %H:%M:%S%.f%:z", "%Y-%m-%d %H:%M%:z"];
    formats.iter().find_map(|format| DateTime::parse_from_str(&text, format).ok())
}

fn parse_clock_time(text: &str) -> Option<NaiveTime> {
    ["%H:%M", "%H:%M:%S"].iter().find_map(|form| NaiveTime::parse_from_str(text.trim(), form).ok())
}

fn parse_local(text: &str) -> Option<NaiveDateTime> {
    let text = date_and_time(text);
    let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"];
    let read = formats.iter().find_map(|format| NaiveDateTime::parse_from_str(&text, format).ok());
    let read = read.or_else(|| Some(text.parse::<NaiveDate>().ok()?.and_time(NaiveTime::MIN)));
    read.filter(|local| LOCAL_YEARS.contains(&local.year()))
}

/// Returns the text in capitals, with a blank between date and time in place of a `T`.
fn date_and_time(text: &str) -> String {
    text.to_uppercase().replacen('T', " ", 1)
}

fn to_instant(text: &str, local: NaiveDateTime, zone: &CliZone) -> Result<Timestamp, String> {
    let instant = |at: NaiveDateTime| Timestamp(at.and_utc().timestamp_millis());
    // The offsets of the day before and of the day after give both readings.
    let mut readings = [-1, 1].map(|days| {
        let offset = *zone.local(instant(local + TimeDelta::days(days))).offset();
        instant(local - offset)
    });
    readings.sort();
    let [earlier, later] = readings;
    let is_local = |at: Timestamp| instant(zone.local(at).naive_local()) == instant(local);
    match (is_local(earlier), is_local(later)) {
        (true, true) if earlier == later => Ok(earlier),
        (true, false) => Ok(earlier),
        (false, true) => Ok(later),
        _ => Err(format!(
            "`{text}` came twice or never was, because the clocks were changed. It is `{}` or `{}`: write the one that is \
             meant",
            zoned_text(zone.local(earlier)),
            zoned_text(zone.local(later))
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono_tz::Europe::Vienna;

    /// 2026-11-22, 09:00 in Vienna.
    const NOW: &str = "2026-11-22T08:00:00Z";

    fn read(text: &str) -> Result<String, String> {
        parse_in_zone(text, Timestamp::parse(NOW).unwrap(), &CliZone::Named(Vienna))
            .map(Timestamp::to_rfc3339)
    }

    #[test]
    fn a_time_without_a_zone_is_local() {
        let cases = [
            ("08:40", "2026-11-22T07:40:00.000Z"),
            (" 08:40:30 ", "2026-11-22T07:40:30.000Z"),
            ("2026-11-22 05:30", "2026-11-22T04:30:00.000Z"),
            ("2026-07-22T05:30", "2026-07-22T03:30:00.000Z"),
            ("2026-07-22 05:30:15.25", "2026-07-22T03:30:15.250Z"),
            ("2026-11-22", "2026-11-21T23:00:00.000Z"),
            ("2026-11-22T05:30:00Z", "2026-11-22T05:30:00.000Z"),
            ("2026-11-22 05:30Z", "2026-11-22T05:30:00.000Z"),
            ("2026-11-22T08:40:00-05:00", "2026-11-22T13:40:00.000Z"),
            ("2026-11-22 08:40+01:00", "2026-11-22T07:40:00.000Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn tz_is_a_name_a_rule_or_a_slip() {
        let zone = CliZone::from_variable;
        assert_eq!(zone(Some("Europe/Vienna")), CliZone::Named(Vienna));
        assert_eq!(zone(Some(":Europe/Vienna")), CliZone::Named(Vienna));
        assert_eq!(zone(Some("UTC")), CliZone::Named(Tz::UTC));
        assert_eq!(zone(Some("Europe/Viena")), CliZone::Unknown("Europe/Viena".into()));
        for host in
            [None, Some(""), Some("CET-1CEST,M3.5.0,M10.5.0/3"), Some("/etc/localtime"), Some("<+03>-3")]
        {
            assert_eq!(zone(host), CliZone::Host, "{host:?}");
        }
    }

    #[test]
    fn a_text_that_is_no_time_names_the_forms() {
        for text in ["noon", "", "8.40", "24:00", "2026-13-01 08:00", "22.11.2026 08:40", "99999-01-01 00:00"]
        {
            assert!(read(text).unwrap_err().contains("is not a time; write 08:40 (today)"), "{text}");
        }
    }

    #[test]
    fn a_year_has_four_digits_and_is_none_of_the_last_century() {
        for text in
            ["26-11-22", "26-11-22 08:40", "0026-11-22T08:40:00Z", "1999-12-31", "1970-01-01T00:00:00Z"]
        {
            let why = read(text).unwrap_err();
            assert!(why.contains("is of the year") && why.contains("four digits"), "{why}");
        }
        assert!(read("2000-01-01").is_ok());
    }

    #[test]
    fn what_happened_is_at_most_a_minute_ahead() {
        let now = Timestamp::parse(NOW).unwrap();
        for (seconds, is_past) in [(-86_400, true), (0, true), (60, true), (61, false), (3_600, false)] {
            let at = Timestamp(now.0 + seconds * 1000);
            let text = at.to_rfc3339();
            assert_eq!(parse_time(&text, now).is_ok(), is_past, "{seconds} s");
            assert!(parse_any_time(&text, now).is_ok(), "{seconds} s");
        }
        let why = parse_time("2026-11-22T09:00:00Z", now).unwrap_err();
        assert!(why.contains("is in the future") && why.contains("local time without Z"), "{why}");
        assert!(parse_time("2026-11-24", now).unwrap_err().contains("is in the future"));
    }

    #[test]
    fn a_clock_time_is_of_today() {
        assert_eq!(read("09:00").as_deref(), Ok("2026-11-22T08:00:00.000Z"));
        assert_eq!(read("23:50").as_deref(), Ok("2026-11-22T22:50:00.000Z"));
    }

    #[test]
    fn a_local_time_that_is_not_unique_is_refused_with_both_readings() {
        let why = read("2026-10-25 02:30").unwrap_err();
        assert!(why.contains("came twice"), "{why}");
        assert!(why.contains("`2026-10-25 02:30:00+02:00` or `2026-10-25 02:30:00+01:00`"), "{why}");
        let why = read("2026-03-29 02:30").unwrap_err();
        assert!(why.contains("never was"), "{why}");
        assert!(why.contains("`2026-03-29 01:30:00+01:00` or `2026-03-29 03:30:00+02:00`"), "{why}");
        for (reading, instant) in [
            ("2026-10-25 02:30:00+02:00", "2026-10-25T00:30:00.000Z"),
            ("2026-10-25 02:30:00+01:00", "2026-10-25T01:30:00.000Z"),
            ("2026-03-29 01:30:00+01:00", "2026-03-29T00:30:00.000Z"),
            ("2026-03-29 03:30:00+02:00", "2026-03-29T01:30:00.000Z"),
        ] {
            assert_eq!(read(reading).as_deref(), Ok(instant), "{reading}");
        }
    }

    #[test]
    fn a_shown_time_reads_as_the_instant_that_it_shows() {
        for text in ["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z", "2026-07-01T12:00:00.000Z"] {
            let at = Timestamp::parse(text).unwrap();
            let shown = zoned_text(CliZone::Named(Vienna).local(at));
            assert_eq!(read(&shown).as_deref(), Ok(text), "{shown}");
        }
    }

    #[test]
    fn a_sentence_keeps_its_keys() {
        let at = "2026-11-22T05:27:23.067Z";
        let shown = local_time(Timestamp::parse(at).unwrap());
        assert_ne!(shown, at);
        let sentence = format!("`cli-{at}-7` waits until {at}, since {at}; see: tallyd outbox show {at}");
        let expected =
            format!("`cli-{at}-7` waits until {shown}, since {shown}; see: tallyd outbox show {at}");
        assert_eq!(local_sentence(&sentence), expected);
    }

    #[test]
    fn a_file_has_dates_and_the_platform_keeps_them() {
        let now = Timestamp::parse(NOW).unwrap();
        assert!(require_date("08:40").unwrap_err().contains("has no date"));
        assert!(require_date("2026-11-22T05:30:00Z").is_ok());
        for (text, expected) in
            [(" 2031-05-04", "2031-05-04"), ("2031-05-04T10:00:00+02:00", "2031-05-04T08:00:00.000Z")]
        {
            assert_eq!(platform_date(text, parse_any_time(text, now).unwrap()), expected);
        }
    }
}
