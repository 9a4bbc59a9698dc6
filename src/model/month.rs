//! Calendar months in UTC, as the platform's reports use them.

use super::Timestamp;
use chrono::{Datelike, NaiveDate};
use std::fmt;

/// A month of a year: a year of four digits, and a number from 1 to 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Month {
    year: u16,
    number: u8,
}

impl Month {
    /// Returns the month, or `None` for a month that the platform rejects.
    pub(crate) fn new(year: u16, number: u8) -> Option<Self> {
        ((1000..=9999).contains(&year) && (1..=12).contains(&number)).then_some(Self { year, number })
    }

    /// Returns the month of an instant; `None` outside the years of four digits.
    pub(crate) fn from_timestamp(at: Timestamp) -> Option<Self> {
        let date = at.to_datetime();
        Self::new(u16::try_from(date.year()).ok()?, u8::try_from(date.month()).ok()?)
    }

    pub(crate) fn year(self) -> u16 {
        self.year
    }

    /// Returns the number within the year, from 1.
    pub(crate) fn number(self) -> u8 {
        self.number
    }

    /// Returns the end of the month. From then on the month's figures are final by the calendar.
    pub(crate) fn end(self) -> Timestamp {
        let (year, month) = if self.number == 12 { (self.year + 1, 1) } else { (self.year, self.number + 1) };
        let first = NaiveDate::from_ymd_opt(i32::from(year), u32::from(month), 1).unwrap_or(NaiveDate::MAX);
        Timestamp(first.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_millis())
    }

    /// Returns the months before this month, latest first.
    pub(crate) fn earlier_months(self) -> impl Iterator<Item = Month> {
        let earlier = |month: &Month| match month.number {
            1 => Self::new(month.year - 1, 12),
            number => Self::new(month.year, number - 1),
        };
        std::iter::successors(Some(self), earlier).skip(1)
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(text: &str) -> Month {
        Month::from_timestamp(Timestamp::parse(&format!("{text}-15")).unwrap()).unwrap()
    }

    #[test]
    fn a_month_the_service_does_not_know_cannot_be_asked_for() {
        for (year, month) in [(2026, 1), (2026, 12)] {
            assert!(Month::new(year, month).is_some(), "{year}-{month}");
        }
        for (year, month) in [(2026, 0), (2026, 13), (26, 1), (10_000, 1)] {
            assert_eq!(Month::new(year, month), None, "{year}-{month}");
        }
    }

    #[test]
    fn a_month_ends_where_the_next_begins() {
        let cases = [("2026-01", "2026-02-01"), ("2026-12", "2027-01-01"), ("2024-02", "2024-03-01")];
        for (text, end) in cases {
            assert_eq!(month(text).end(), Timestamp::parse(end).unwrap(), "{text}");
            assert_eq!(month(text).to_string(), text);
            assert_ne!(Month::from_timestamp(month(text).end()), Some(month(text)), "its end is outside it");
        }
    }

    #[test]
    fn the_months_before_cross_the_year_and_stop_at_the_first_of_four_digits() {
        let before: Vec<String> =
            month("2026-02").earlier_months().take(3).map(|month| month.to_string()).collect();
        assert_eq!(before, ["2026-01", "2025-12", "2025-11"]);
        assert_eq!(Month::new(1000, 2).unwrap().earlier_months().count(), 1);
    }
}
