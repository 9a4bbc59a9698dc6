//! Nothing is created twice: products, warehouses and templates by their names, which the trade never uses
//! twice.

use std::collections::BTreeMap;

/// Records that the platform created for the daemon.
#[derive(Debug, Default)]
pub struct Creates {
    made: BTreeMap<(&'static str, String), u32>,
}

impl Creates {
    /// Counts a created record; returns a violation if it is the second of its name.
    pub fn made(&mut self, what: &'static str, name: &str) -> Option<String> {
        let count = self.made.entry((what, name.to_owned())).or_default();
        *count += 1;
        (*count > 1).then(|| format!("the {what} {name} was created {count} times"))
    }

    pub fn len(&self) -> usize {
        self.made.len()
    }
}

#[test]
fn a_second_of_the_same_name_is_seen() {
    let mut creates = Creates::default();
    assert_eq!(creates.made("product", "A"), None);
    assert_eq!(creates.made("warehouse", "A"), None);
    assert!(creates.made("product", "A").is_some());
}
