//! Table of messages: spellings of an index, and texts that only look like one.

use super::*;
use proptest::prelude::*;

fn attributed(status: UpdateStatus, messages: &[&str], skus: &[&str]) -> Option<Vec<usize>> {
    let skus: Vec<Sku> = skus.iter().map(|sku| Sku::new(*sku).unwrap()).collect();
    let messages = messages.iter().map(|&message| message.to_owned()).collect();
    let found = attribute_messages(&UpdateAnswer { status, messages }, &skus)?;
    Some(found.into_iter().map(|(index, _)| index).collect())
}

fn partial(message: &str, skus: &[&str]) -> Option<Vec<usize>> {
    attributed(UpdateStatus::PartialSuccess, &[message], skus)
}

#[test]
fn an_index_before_a_colon_is_known() {
    let spelled = [
        "Index 1: no active product",
        "INDEX 1: no active product",
        "Index 1 : no active product",
        "Index#1: no active product",
        "Index #1: no active product",
        "Index [1]: no active product",
        "[Index 1]: no active product",
        "1: no active product",
        "1 : no active product",
        "01: no active product",
        "[1]: no active product",
        "(1): no active product",
        "#1: no active product",
        "1): no active product",
        "Entry 1: no active product",
        "Entry (1): no active product",
        "item[1]: no active product",
        "  Row 1: no active product",
        "Index 1: no active product with the SKU ktl-2 was found",
        "Index 1: quantity 1000 is too large",
        "Index 1:",
    ];
    for message in spelled {
        assert_eq!(partial(message, &["KTL-1", "KTL-2", "KTL-3"]), Some(vec![1]), "{message}");
    }
}

#[test]
fn any_other_text_is_read_back() {
    let other = [
        "index 1 - no active product",
        "INDEX 1 no active product",
        "Index: 1 - no active product",
        "Index=1: no active product",
        "Index(1) no active product",
        "[Index 1] no active product",
        "Array index 1: no active product",
        "1 - no active product",
        "1) no active product",
        "1. no active product",
        "[1] no active product",
        "(1) no active product",
        "#1 no active product",
        "item 1 – no active product",
        "updates[1]: no active product",
        "  Row 1, no active product",
        "Index 1",
        "no active product",
        "SKU 1: no active product",
        "Product 1 is not active",
        "1 entries failed",
        "1 of 3 entries failed",
        "2 products were not found",
        "1",
        "1st entry failed",
        "1.5 is not a whole number",
        "1-2: failed",
        "1, 2: failed",
        "1 and 2: failed",
        "Index 1 and 2: failed",
        "Index 0 to 1: failed",
        "Index 1, 2: failed",
        "Index 1 of 3: failed",
        "[0][1] failed",
        "Indexes 1: failed",
        "Updates 1 failed",
        "1/2 failed",
        "1:30 maintenance begins",
        "Index -1: failed",
        "Index 3: failed",
        "Index 99999999999999999999999: failed",
        "Index one: failed",
        "KTL-2: no active product",
        "index",
        "Updates 1: failed",
        "1-2: 3 failed",
    ];
    for message in other {
        assert_eq!(partial(message, &["KTL-1", "KTL-2", "KTL-3"]), None, "{message}");
    }
}

/// Rows: SKUs of the call, the message, the refused entry; `None`: read back.
#[test]
fn a_message_that_names_another_sku_of_the_call_is_not_attributed() {
    let cases: &[(&[&str], &str, Option<usize>)] = &[
        (&["KTL-1", "MUG-2"], "Index 0: no product MUG-2", None),
        (&["KTL-1", "MUG-2"], "Index 0: no product mug-2", None),
        (&["KTL-1", "MUG-2"], "Index 0: no product KTL-1", Some(0)),
        (&["KTL-1", "MUG-2"], "Index 0: neither KTL-1 nor MUG-2", None),
        (&["KTL-1", "MUG-2"], "Index 1: same SKU as index 0", Some(1)),
        // A SKU that is a part of another, or of a word.
        (&["AB-1", "AB-1-X"], "Index 0: no product AB-1", Some(0)),
        (&["AB-1", "AB-1-X"], "Index 1: no product AB-1-X", None),
        (&["KTL-1", "act"], "Index 0: no active product", None),
        // SKUs that look like numbers.
        (&["4711", "1"], "4711: no product", None),
        (&["1", "KTL-1"], "Index 1: not found", None),
        (&["KTL-2", "1"], "1: not found", Some(1)),
        (&["KTL-2", "25"], "Index 0: quantity 250 is too large", None),
        // A SKU that looks like a spelled index.
        (&["Item 1", "KTL-1"], "Item 1: not found", None),
        (&["Index 0", "KTL-1"], "Index 0: not found", Some(0)),
        // A SKU that begins with digits, at the position of the index.
        (&["KTL-1", "2 x", "1-A"], "1-A: gone", None),
        (&["1-A", "KTL-1"], "Index 1-A: gone", None),
        // Blanks, case and letters outside ASCII.
        (&["Größe 5", "KTL-1"], "Index 1: GRÖSSE 5", None),
        (&["Größe 5", "KTL-1"], "Index 1: GROSSE 5", Some(1)),
        (&[" KTL-1 ", "MUG-2"], "Index 1: no product ktl-1.", None),
    ];
    for (skus, message, entry) in cases {
        assert_eq!(partial(message, skus), entry.map(|entry| vec![entry]), "{message} of {skus:?}");
    }
}

#[test]
fn the_indexed_entries_must_be_as_many_as_the_status_implies() {
    use UpdateStatus::{Failure, PartialSuccess, Success, Unknown};
    let (zero, one, two) = ("Index 0: no", "Index 1: no", "Index 2: no");
    let all = vec![zero, one, two];
    let cases = [
        (Success, vec![], Some(vec![])),
        (Success, vec!["", " "], Some(vec![])),
        (Success, vec!["all is well"], None),
        (Success, vec![one], None),
        (PartialSuccess, vec![], None),
        (PartialSuccess, vec![one], Some(vec![1])),
        (PartialSuccess, vec![two, zero], Some(vec![0, 2])),
        (PartialSuccess, vec![one, "and more"], None),
        (PartialSuccess, vec![one, "1: again"], Some(vec![1])),
        (PartialSuccess, all.clone(), None),
        (Failure, all.clone(), Some(vec![0, 1, 2])),
        (Failure, vec![zero, one], None),
        (Failure, vec![], None),
        (Failure, vec!["Index 0: no\r\nIndex 1: no\nIndex 2: no"], Some(vec![0, 1, 2])),
        (Unknown("Queued".into()), vec![one], None),
        (Unknown(String::new()), vec![], None),
    ];
    for (status, messages, refused) in cases {
        let found = attributed(status.clone(), &messages, &["KTL-1", "KTL-2", "KTL-3"]);
        assert_eq!(found, refused, "{status:?} {messages:?}");
    }
}

#[test]
fn the_reasons_of_one_entry_are_kept_together() {
    let skus = ["KTL-1", "KTL-2"].map(|sku| Sku::new(sku).unwrap());
    let messages = vec!["Index 1: no product".into(), "Index 1: no warehouse".into()];
    let found = attribute_messages(&UpdateAnswer { status: UpdateStatus::PartialSuccess, messages }, &skus);
    assert_eq!(found, Some(vec![(1, "no product; no warehouse".to_owned())]));
}

/// Pieces of generated messages, for combinations that a table would not list.
const MESSAGE_PIECES: &[&str] = &[
    "Index", "entry", "SKU", " ", ":", "-", "[", "]", "#", "0", "1", "2", "3", "ß", "İ", "A-1", "A", ".",
    "and",
];

fn odd_message() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(MESSAGE_PIECES), 0..9).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn odd_messages_refuse_no_entry_outside_the_call(messages in proptest::collection::vec(odd_message(), 0..4)) {
        let skus = ["A", "A-1", "İ"].map(|sku| Sku::new(sku).unwrap());
        let detail = messages.iter().filter(|message| !message.trim().is_empty()).count();
        let found = attribute_messages(&UpdateAnswer { status: UpdateStatus::PartialSuccess, messages }, &skus);
        let Some(refused) = found else { return Ok(()) };
        prop_assert!(refused.iter().all(|(index, _)| *index < skus.len()));
        prop_assert!(refused.len() <= detail);
        prop_assert!((1..skus.len()).contains(&refused.len()));
    }

    #[test]
    fn one_message_that_matches_nothing_makes_the_call_read_back(
        entries in proptest::collection::btree_set(0_usize..9, 1..9),
        spelling in proptest::sample::select(&["Index {}: gone", "[{}]: gone", "{}: gone", "#{}: gone"][..]),
        unmatched in proptest::option::of(0_usize..9),
    ) {
        let skus: Vec<Sku> = ('a'..='i').map(|name| Sku::new(format!("KTL-{name}")).unwrap()).collect();
        let mut messages: Vec<String> = entries.iter().map(|entry| spelling.replace("{}", &entry.to_string())).collect();
        if let Some(at) = unmatched {
            messages.insert(at.min(messages.len()), "something is gone".into());
        }
        let status = UpdateStatus::PartialSuccess;
        let found = attribute_messages(&UpdateAnswer { status, messages }, &skus);
        let found = found.map(|refused| refused.into_iter().map(|(index, _)| index).collect());
        prop_assert_eq!(found, unmatched.is_none().then(|| Vec::from_iter(entries)));
    }
}
