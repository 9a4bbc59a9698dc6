//! The known name that a person probably meant: the one with the fewest slips of the keyboard.

use crate::model::look_alike_key;
use crate::store::{Store, StoreError};

#[derive(Debug)]
pub(crate) struct NearestName<'a> {
    text: &'a str,
    key: String,
    /// The slips, and the name as it is shown.
    best: Option<(usize, String)>,
    slips_max: usize,
    /// True if the text itself is one of the names.
    is_known: bool,
}

impl<'a> NearestName<'a> {
    /// Begins a search; names with more slips than a third of the text's characters are not near.
    pub(crate) fn new(text: &'a str) -> Self {
        let key = look_alike_key(text);
        let slips_max = (key.chars().count() / 3).max(1);
        Self { text, key, best: None, slips_max, is_known: false }
    }

    pub(crate) fn compare(&mut self, key: &str, shown: &str) {
        let slips = strsim::osa_distance(&self.key, key);
        let is_better = self.best.as_ref().is_none_or(|(best, _)| slips < *best);
        self.is_known |= shown == self.text;
        if slips <= self.slips_max && is_better {
            self.best = Some((slips, shown.to_owned()));
        }
    }

    /// Returns the end of a sentence with the nearest name; empty if none is near.
    pub(crate) fn hint(&self) -> String {
        match self.best.as_ref().filter(|_| !self.is_known) {
            Some((0, shown)) => {
                format!("; the nearest is `{shown}`, which looks alike and has other characters")
            }
            Some((_, shown)) => format!("; the nearest is `{shown}`"),
            None => String::new(),
        }
    }
}

/// Returns the end of a sentence for each text, with the nearest tracked SKU.
pub(crate) async fn nearest_skus<'a>(
    store: &Store,
    texts: impl Iterator<Item = &'a str>,
) -> Result<Vec<String>, StoreError> {
    let mut searches: Vec<NearestName<'_>> = texts.map(NearestName::new).collect();
    let compare = |rows: Vec<(String, String)>| {
        for (sku, _) in rows {
            let key = look_alike_key(&sku);
            searches.iter_mut().for_each(|search| search.compare(&key, &sku));
        }
        true
    };
    store.tracked_sku_each(compare).await?;
    Ok(searches.iter().map(NearestName::hint).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(text: &str, names: &[&str]) -> String {
        let mut search = NearestName::new(text);
        names.iter().for_each(|name| search.compare(&look_alike_key(name), name));
        search.hint()
    }

    #[test]
    fn the_nearest_name_has_the_fewest_slips() {
        let names = ["MUG-10144-NAV", "MUG-10145-NAV", "SHIRT"];
        for (text, expected) in [
            ("mug-10144-nva", "; the nearest is `MUG-10144-NAV`"),
            ("MUG10145-NAV", "; the nearest is `MUG-10145-NAV`"),
            ("SHRIT", "; the nearest is `SHIRT`"),
            ("LAMP", ""),
        ] {
            assert_eq!(hint(text, &names), expected, "{text}");
        }
    }

    #[test]
    fn a_name_that_looks_alike_is_the_nearest() {
        let names = ["TÜR-7", "TAR-7"];
        for text in
            ["TU\u{308}R-7", "TÜR\u{200b}-7", "TÜR\u{ad}-7", "\u{a0}TÜR-7", "TUR-7", "tu\u{308}r\u{feff}-7"]
        {
            let expected = "; the nearest is `TÜR-7`, which looks alike and has other characters";
            assert_eq!(hint(text, &names), expected, "{text:?}");
        }
        assert_eq!(hint("TÜR-7", &["TÜR-7"]), "", "the name itself is no hint");
    }
}
