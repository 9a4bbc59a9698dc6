//! Table of verdicts: one row for each outcome of the platform, a proxy or the network.

use super::*;
use crate::client::FailureKind;
use Operation::{
    BusinessHealth, CreateShipments, GetProductBalances, KitComponents, ListStorefronts, ListSuppliers,
    ListWarehouses, TopSelling, UpdateQuantityOnHand, WorkQueue,
};

const NOW: Timestamp = Timestamp(784_111_777_000); // Sun, 06 Nov 1994 08:49:37 GMT

fn answer(status: u16, retry_after: Option<&str>, body: &str) -> Result<PlatformResponse, TransportError> {
    let retry_after = retry_after.map(str::to_owned);
    Ok(PlatformResponse { status, retry_after, body: body.into() })
}

fn failure(kind: FailureKind, status: Option<u16>) -> Result<PlatformResponse, TransportError> {
    Err(TransportError { kind, what: "it broke".into(), status, retry_after: None })
}

#[test]
fn a_status_means_the_same_for_reads_and_writes_where_it_proves_that_nothing_was_done() {
    let seconds = Duration::from_secs;
    let cases = [
        (400, None, Verdict::Rejected { status: 400 }),
        (401, None, Verdict::Refused),
        (401, Some("5"), Verdict::Refused),
        (403, None, Verdict::Rejected { status: 403 }),
        (403, Some("90"), Verdict::Throttled(ThrottleKind::BadRequests { wait: seconds(90) })),
        (404, None, Verdict::Rejected { status: 404 }),
        (405, None, Verdict::Rejected { status: 405 }),
        (407, None, Verdict::NotSent),
        (413, None, Verdict::Rejected { status: 413 }),
        (429, None, Verdict::Throttled(ThrottleKind::Concurrency)),
        (429, Some("7"), Verdict::Throttled(ThrottleKind::Rate { wait: seconds(7) })),
        (429, Some("soon"), Verdict::Throttled(ThrottleKind::Rate { wait: seconds(60) })),
        (429, Some(""), Verdict::Throttled(ThrottleKind::Rate { wait: seconds(60) })),
    ];
    for (status, wait, expected) in cases {
        for operation in [GetProductBalances, UpdateQuantityOnHand, CreateShipments] {
            for body in ["", "<html>", r#"{"Message":"no"}"#] {
                let verdict = classify_outcome(operation, &answer(status, wait, body), NOW);
                assert_eq!(verdict, expected, "{operation} {status} {wait:?} {body}");
            }
        }
    }
}

#[test]
fn an_outcome_that_proves_nothing_is_transient_for_reads_and_in_doubt_for_writes() {
    let empty = [200, 204, 301, 307, 408, 425, 499].map(|status| answer(status, None, ""));
    let cases = [
        answer(200, None, "<html>We will be back</html>"),
        answer(200, None, r#"[{"Sku":"#),
        answer(500, None, r#"{"Message":"something went wrong"}"#),
        answer(503, Some("30"), "<html>"),
        failure(FailureKind::Timeout, None),
        failure(FailureKind::Cut, Some(200)),
        failure(FailureKind::TooLarge, Some(200)),
        failure(FailureKind::Cut, Some(500)),
    ];
    for outcome in empty.iter().chain(&cases) {
        for (operation, expected) in [
            (GetProductBalances, Verdict::Transient),
            (ListSuppliers, Verdict::Transient),
            (UpdateQuantityOnHand, Verdict::InDoubt),
            (CreateShipments, Verdict::InDoubt),
        ] {
            assert_eq!(classify_outcome(operation, outcome, NOW), expected, "{operation}: {outcome:?}");
        }
    }
}

#[test]
fn what_never_left_is_not_sent() {
    let outcome = failure(FailureKind::Unsent, None);
    for operation in Operation::ALL {
        assert_eq!(classify_outcome(*operation, &outcome, NOW), Verdict::NotSent);
    }
}

#[test]
fn a_head_that_refuses_decides_although_its_body_was_cut() {
    let cut = |status| failure(FailureKind::Cut, Some(status));
    let verdict = |status| classify_outcome(CreateShipments, &cut(status), NOW);
    assert_eq!(verdict(400), Verdict::Rejected { status: 400 });
    assert_eq!(verdict(429), Verdict::Throttled(ThrottleKind::Concurrency));
    assert_eq!(verdict(403), Verdict::Rejected { status: 403 });
}

#[test]
fn a_403_may_mean_the_content_wherever_the_call_has_any() {
    let refused = answer(403, None, r#"{"Message":"Invalid StorefrontId"}"#);
    let without = [TopSelling, ListWarehouses, ListSuppliers, ListStorefronts, BusinessHealth, WorkQueue];
    for operation in Operation::ALL {
        let expected = match without.contains(operation) {
            true => Verdict::Refused,
            false => Verdict::Rejected { status: 403 },
        };
        assert_eq!(classify_outcome(*operation, &refused, NOW), expected, "{operation}");
    }
    assert_eq!(
        classify_outcome(KitComponents, &answer(403, Some("5"), ""), NOW),
        Verdict::Throttled(ThrottleKind::BadRequests { wait: Duration::from_secs(5) })
    );
}

#[test]
fn a_200_with_status_failure_answers_a_write_and_not_a_read() {
    let failed = answer(200, None, r#"{"status":"Failure","messages":["Index 0: no"],"data":[]}"#);
    assert_eq!(classify_outcome(UpdateQuantityOnHand, &failed, NOW), Verdict::Accepted);
    assert_eq!(classify_outcome(ListSuppliers, &failed, NOW), Verdict::Transient);
}

#[test]
fn retry_after_is_read_in_both_forms_and_kept_within_its_bounds() {
    let cases = [
        ("0", 1),
        ("1", 1),
        (" 30 ", 30),
        ("86400", 86_400),
        ("86401", 86_400),
        ("31622400", 86_400),
        ("31622401", 86_400),
        ("99999999999999999999999", 60),
        ("Sun, 06 Nov 1994 08:50:07 GMT", 30),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 1),
        ("Mon, 06 Nov 2034 08:00:00 GMT", 86_400),
        ("-5", 60),
        ("1.5", 60),
        ("next week", 60),
        ("", 60),
    ];
    for (text, seconds) in cases {
        assert_eq!(parse_retry_after(text, NOW), Duration::from_secs(seconds), "{text}");
    }
}
