//! Values with units: durations such as `30s` or `1h 30m`, sizes such as `1 GiB`.
//!
//! A unit is required, because `timeout = 30` could be seconds or milliseconds.

use std::time::Duration;

const DURATION_UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

const SIZE_UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Parses one or more numbers with units, which add up: `90s`, `1h 30m`, `14d`. Fails with the expected form
/// if a unit is missing or unknown.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let hint = "write a number and ms, s, m, h, d or w, such as \"30s\" or \"14d\"";
    let (mut rest, mut total) = (text.trim(), 0u64);
    if rest.is_empty() {
        return Err(hint.into());
    }
    while !rest.is_empty() {
        let (number, unit, after) = number_and_unit(rest).ok_or(hint)?;
        let (_, factor) = DURATION_UNITS.iter().find(|(name, _)| *name == unit).ok_or(hint)?;
        let part = number.checked_mul(*factor).and_then(|part| total.checked_add(part));
        total = part.ok_or("longer than can be counted")?;
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let hint = "write a number and B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as \"1 GiB\"";
    let (number, unit, "") = number_and_unit(text.trim()).ok_or(hint)? else { return Err(hint.into()) };
    let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(hint)?;
    number.checked_mul(*factor).ok_or_else(|| "larger than can be counted".into())
}

fn number_and_unit(text: &str) -> Option<(u64, &str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, rest) = text.split_at(digits);
    let rest = rest.trim_start();
    let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (unit, after) = rest.split_at(letters);
    Some((number.parse().ok()?, unit, after.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit_and_only_so() {
        let cases = [
            ("30s", Some(30_000)),
            ("15m", Some(900_000)),
            ("14d", Some(1_209_600_000)),
            ("250 ms", Some(250)),
            ("1h 30m", Some(5_400_000)),
            ("1h30m", Some(5_400_000)),
            ("0s", Some(0)),
            ("30", None),
            ("", None),
            ("s", None),
            ("-5s", None),
            ("1.5h", None),
            ("5 minutes", None),
            ("30S", None),
            ("99999999999999999999d", None),
            ("18446744073709551615w", None),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text).ok(), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_in_both_thousands() {
        let cases = [
            ("1 GiB", Some(1 << 30)),
            ("1gib", Some(1 << 30)),
            ("512MB", Some(512_000_000)),
            ("0 B", Some(0)),
            ("1", None),
            ("1 GiB 2", None),
            ("1 G", None),
            ("99999999999 TiB", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text).ok(), bytes, "{text}");
        }
    }
}
