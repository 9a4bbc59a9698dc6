//! Which SKU a wish means (rules.md 12): the exact spelling wins, else a fold that only one has.

use crate::model::Sku;

/// What a wish's spelling means among the SKUs the service knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// This one; the service's spelling is sent.
    Known(Sku),
    /// Several differ from it only in case or blanks: the wish is held.
    Ambiguous(Vec<Sku>),
    /// None.
    Unknown,
}

/// Looks `wanted` up among the `known` SKUs, or those of them that have its fold.
pub fn resolve(wanted: &Sku, known: &[Sku]) -> Spelling {
    if known.contains(wanted) {
        return Spelling::Known(wanted.clone());
    }
    let fold = wanted.fold();
    let mut twins: Vec<Sku> = known.iter().filter(|sku| sku.fold() == fold).cloned().collect();
    twins.sort();
    twins.dedup();
    match twins.as_slice() {
        [] => Spelling::Unknown,
        [one] => Spelling::Known(one.clone()),
        [_, _, ..] => Spelling::Ambiguous(twins),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sku(text: &str) -> Sku {
        Sku::new(text).unwrap()
    }

    #[test]
    fn the_exact_spelling_wins_then_a_unique_fold() {
        let known = [sku("AB"), sku("ab"), sku("Cd "), sku("É-1")];
        let cases = [
            ("ab", Spelling::Known(sku("ab"))),
            ("aB", Spelling::Ambiguous(vec![sku("AB"), sku("ab")])),
            ("CD", Spelling::Known(sku("Cd "))),
            (" é-1", Spelling::Known(sku("É-1"))),
            ("A B", Spelling::Unknown),
        ];
        for (wanted, expected) in cases {
            assert_eq!(resolve(&sku(wanted), &known), expected, "{wanted}");
        }
    }
}
