//! Counts in sentences: `1 change`, `2 changes`.

use std::fmt::Display;

/// Returns a count with its noun, which stands in the plural unless the count is 1.
pub(crate) fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    match (count.as_str(), noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o']))) {
        ("1", _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stands_alone_and_the_others_in_the_plural() {
        let cases =
            [(0, "SKU", "0 SKUs"), (1, "entry", "1 entry"), (2, "entry", "2 entries"), (3, "day", "3 days")];
        for (count, noun, text) in cases {
            assert_eq!(counted(count, noun), text);
        }
    }
}
