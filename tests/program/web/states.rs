//! A page for each state and reason of a change, and for each kind of conflict, made from a database in that state.
//!
//! The matches have no arm for the rest, so a new state or reason needs its row here.

use super::{Visit, plain};
use crate::support::World;
use crate::support::outsider::quoted;
use tallyd::model::{Quantity, ShipmentId};
use tallyd::outbox::{ChangeKind, ChangeState, ChangeStatus, Reason, Resolution};

const SET: ChangeKind = ChangeKind::QuantitySet;
const ADJUST: ChangeKind = ChangeKind::QuantityAdjust;
const SHIP: ChangeKind = ChangeKind::ShipmentCreate;
const TRACK: ChangeKind = ChangeKind::TrackingSubmit;
const PRODUCT: ChangeKind = ChangeKind::ProductUpdate;

/// Returns a kind of change that has the reason, and the states that have it.
fn situations(reason: Reason) -> (ChangeKind, &'static [ChangeState]) {
    use ChangeState::{Cancelled, Held, InDoubt, Pending, Rejected};
    use Reason as R;
    match reason {
        R::Negative | R::TooLarge => (ADJUST, &[Held]),
        R::Conflict | R::Brake | R::StaleBase | R::Mismatch | R::AmbiguousSku => (SET, &[Held]),
        R::NotShown | R::Restored | R::Exists => (PRODUCT, &[Held]),
        R::TooLittleLeft | R::Undecided => (SHIP, &[Held]),
        R::TrackingConflict => (TRACK, &[Held]),
        R::BadBody | R::Kit | R::RemoteWins => (SET, &[Rejected]),
        R::NoShipment => (TRACK, &[Rejected]),
        R::ServiceRefused => (SHIP, &[Rejected]),
        R::Superseded | R::Landed => (SET, &[Cancelled]),
        R::Operator => (SET, &[Cancelled, Rejected]),
        R::AwaitsOther | R::SetAside | R::NotSent | R::NotLanded => (SET, &[Pending]),
        R::NoAnswer | R::LandedOrAnother => (SHIP, &[InDoubt]),
        R::Unmatched => (SET, &[InDoubt, Pending]),
    }
}

/// Returns the states on the way from the insertion.
fn way_to(state: ChangeState) -> &'static [ChangeState] {
    use ChangeState::{Applied, Cancelled, Held, InDoubt, Pending, Rejected, Sending};
    match state {
        Pending => &[],
        Sending => &[Sending],
        Applied => &[Sending, Applied],
        Held => &[Held],
        Rejected => &[Rejected],
        InDoubt => &[Sending, InDoubt],
        Cancelled => &[Cancelled],
    }
}

/// Brings a new change into a state, as the daemon's statements do.
pub(super) async fn bring(
    world: &World,
    key: &str,
    kind: ChangeKind,
    state: ChangeState,
    reason: Option<Reason>,
) {
    let (sku, warehouse, _) = world.shop().await.remove(0);
    let body = match kind {
        SHIP => "{\"order_id\": 1}".to_owned(),
        TRACK => "{\"shipment_key\": \"no-such-shipment\", \"tracking_number\": \"1Z\"}".to_owned(),
        PRODUCT => format!("{{\"Sku\": \"{sku}\", \"Name\": \"a name\"}}"),
        ADJUST => format!("{{\"sku\": \"{sku}\", \"warehouse_id\": {warehouse}, \"delta\": -15}}"),
        _ => format!("{{\"sku\": \"{sku}\", \"warehouse_id\": {warehouse}, \"quantity\": 15}}"),
    };
    world.change(key, kind.as_str(), &body).await;
    let reason = reason.map_or_else(|| "NULL".to_owned(), |reason| quoted(reason.as_str()));
    let mut sql = format!("UPDATE outbox SET revision = revision + 1, reason = {reason} WHERE key = '{key}'");
    for step in way_to(state) {
        let settled = if step.is_final() { "'2026-01-02T03:04:05.678Z'" } else { "NULL" };
        sql.push_str(&format!(
            "; UPDATE outbox SET revision = revision + 1, state = '{step}', detail = 'it is {step} for a test', \
             state_changed_ms = 1767323045678, settled_at = {settled}, mine = '15', theirs = '181', \
             exchange_id = (SELECT max(id) FROM exchange) WHERE key = '{key}'"
        ));
    }
    // A sent change has a reason only once its outcome is unknown.
    world.sql(&sql).await;
}

/// Returns the actions that the state, reason and kind of a change allow.
fn allowed_actions(status: &ChangeStatus<'_>) -> Vec<&'static str> {
    let may = |resolution| status.resolution_step(resolution).is_ok();
    let all = [
        ("release", status.check_release().is_ok()),
        ("retry", status.check_retry().is_ok()),
        ("mine", may(Resolution::Mine)),
        ("theirs", may(Resolution::Theirs)),
        ("number", may(Resolution::Exactly(Quantity(3)))),
        ("done", may(Resolution::TookEffect)),
        ("not-done", may(Resolution::HadNoEffect)),
        ("shipment", may(Resolution::Shipment(ShipmentId(1)))),
        ("cancel", status.check_cancel().is_ok()),
        ("acknowledge", status.state == ChangeState::Rejected),
    ];
    all.into_iter().filter(|(_, is_allowed)| *is_allowed).map(|(action, _)| action).collect()
}

/// Returns the values of the page's buttons.
fn offered_actions(html: &str) -> Vec<&str> {
    let buttons = html.split("name=\"action\" value=\"").skip(1);
    buttons.map(|rest| rest.split('"').next().unwrap()).collect()
}

async fn world_read_once() -> World {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn each_state_and_reason_of_a_change_has_a_page_with_its_remedy() {
    let world = world_read_once().await;
    let visit = Visit::start(&world).await;
    let without_reason = [ChangeState::Pending, ChangeState::Sending, ChangeState::Applied];
    let mut cases: Vec<(ChangeKind, ChangeState, Option<Reason>)> =
        without_reason.map(|state| (SET, state, None)).into();
    for reason in Reason::ALL.iter().copied() {
        let (kind, states) = situations(reason);
        cases.extend(states.iter().map(|state| (kind, *state, Some(reason))));
    }
    for state in ChangeState::ALL {
        assert!(cases.iter().any(|(_, shown, _)| shown == state), "no page of the state {state}");
    }
    for (number, (kind, state, reason)) in cases.into_iter().enumerate() {
        let key = format!("case-{number}");
        bring(&world, &key, kind, state, reason).await;
        let page = visit.get(&format!("/outbox/{key}")).await;
        let (case, text) = (format!("{state}, {reason:?}: {}", page.body), plain(&page.body));
        assert_eq!(page.status, 200, "{case}");
        assert!(
            page.body.contains(&format!("<strong>{}</strong>", state.as_str().replace('_', " "))),
            "{case}"
        );
        let status = ChangeStatus { key: &key, kind, state, reason };
        assert_eq!(offered_actions(&page.body), allowed_actions(&status), "{case}");
        let listed =
            format!("/outbox?state={state}{}", reason.map_or_else(String::new, |r| format!("&reason={r}")));
        let list = visit.get(&listed).await.body;
        assert!(list.contains(&format!("href=\"/outbox/{key}\"")), "{listed}: {list}");
        if let Some(reason) = reason {
            assert!(text.contains(reason.as_str()), "{case}");
            assert!(text.contains(&reason.advice_for(&key).replace('`', "")), "{case}");
            assert!(plain(&list).contains(&reason.what_to_do().replace('`', "")), "{listed}: {list}");
        }
        assert_eq!(visit.json(&format!("/outbox/{key}")).await["state"], state.as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_conflict_shows_both_sides_and_the_effect_of_each_choice() {
    let world = world_read_once().await;
    let visit = Visit::start(&world).await;
    let is_conflict = |reason: &Reason| {
        let held = ChangeStatus { key: "", kind: SET, state: ChangeState::Held, reason: Some(*reason) };
        held.resolution_step(Resolution::Theirs).is_ok()
    };
    let reasons: Vec<Reason> = Reason::ALL.iter().copied().filter(is_conflict).collect();
    assert!(reasons.contains(&Reason::Conflict) && reasons.len() >= 3, "{reasons:?}");
    for reason in reasons {
        for kind in [SET, ADJUST] {
            let key = format!("{reason}-{kind}");
            bring(&world, &key, kind, ChangeState::Held, Some(reason)).await;
            let page = visit.get(&format!("/outbox/{key}")).await.body;
            let text = plain(&page);
            let mine = if kind == SET {
                "The count is sent as it is: 15 is written."
            } else {
                "An adjustment has no quantity of its own"
            };
            for part in ["Mine15", mine, "Theirs181", "nothing is written, and the change is rejected"] {
                assert!(text.contains(part), "{key}: {part} in {text}");
            }
            let offered = offered_actions(&page);
            assert_eq!(offered.contains(&"mine") && offered.contains(&"number"), kind == SET, "{offered:?}");
            assert!(offered.contains(&"theirs"), "{offered:?}");
        }
    }
    let conflicts = visit.get("/stock?state=conflict").await.body;
    let (sku, ..) = world.shop().await.remove(0);
    assert!(conflicts.contains(&format!("href=\"/stock/{sku}\"")), "{conflicts}");
}

/// A written quantity that the platform does not show needs a count, and no decision on a change.
#[tokio::test(flavor = "multi_thread")]
async fn a_quantity_that_the_platform_does_not_show_is_on_the_page_of_its_sku() {
    let world = world_read_once().await;
    world
        .sql(
            "INSERT INTO mismatch (product, warehouse_id, exchange_id, written, shown, since_ms) \
             SELECT product, warehouse_id, 1, 777, 776, 1 FROM balance ORDER BY product, warehouse_id LIMIT 1",
        )
        .await;
    let visit = Visit::start(&world).await;
    let list = visit.get("/stock?state=conflict").await.body;
    let (_, link) = list.split_once("<th scope=\"row\"><a href=\"").unwrap();
    let page = visit.get(link.split('"').next().unwrap()).await.body;
    let text = plain(&page);
    assert!(text.contains("The platform accepted 777 and shows 776."), "{text}");
    assert!(text.contains("Check the product at the platform (is it a kit?), then count it."), "{text}");
    assert!(page.contains("value=\"count\""), "the remedy is a form of the page");
}
