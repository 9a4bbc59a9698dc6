//! Answers that do not identify their entries: the stock levels are read back at once, without delaying other
//! changes.

use super::between::Scene;
use super::support::{A_MOMENT, BALANCES, UPDATE};

#[tokio::test]
async fn an_answer_that_names_no_entry_is_read_back_at_once_and_nothing_is_sent_twice() {
    let scene = Scene::open().await;
    let levels = scene.levels().await;
    let (done, lost, other) = (&levels[0], &levels[1], &levels[2]);
    scene.lose(&[lost], "something is wrong with one of them");
    scene.adjust("done", done, -2).await;
    scene.adjust("lost", lost, -2).await;
    let reads = scene.calls(BALANCES);
    scene.push().await;
    assert_eq!(
        scene.calls(BALANCES),
        reads + 2,
        "one read before the write, one after it for both stock levels"
    );
    assert_eq!((scene.state("done").await, scene.state("lost").await), ("applied".into(), "in_doubt".into()));
    scene.restore();
    scene.adjust("other", other, -1).await;
    scene.adjust("later", lost, -1).await;
    scene.push().await;
    assert_eq!(
        (scene.state("other").await, scene.state("later").await),
        ("applied".into(), "pending".into())
    );
    scene.settle().await;
    assert_eq!(scene.state("lost").await, "in_doubt", "the second look is not due");
    scene.later(A_MOMENT);
    scene.settle().await;
    let (state, reason, detail) = scene.fate("lost").await;
    assert_eq!(
        (state.as_str(), reason.as_str()),
        ("pending", "unmatched"),
        "another may be what was refused"
    );
    assert!(
        detail.contains("something is wrong with one of them") && detail.contains("a call of its own"),
        "{detail}"
    );
    scene.push().await;
    for key in ["lost", "later"] {
        assert_eq!(scene.state(key).await, "applied", "{key}");
    }
    assert_eq!(scene.holds(lost).await, lost.quantity - 3);
    assert_eq!((scene.holds(done).await, scene.calls(UPDATE)), (done.quantity - 2, 3));
}

#[tokio::test]
async fn what_an_answer_without_a_name_may_mean_is_sent_alone_and_refused_only_then() {
    let scene = Scene::open().await;
    let levels = scene.levels().await;
    let lost = [&levels[0], &levels[1], &levels[2]];
    scene.lose(&lost, "something is wrong with one of them");
    for (key, level) in ["a", "b", "c"].into_iter().zip(lost) {
        scene.adjust(key, level, -2).await;
    }
    scene.push().await;
    scene.later(A_MOMENT);
    scene.settle().await;
    assert_eq!(scene.calls(UPDATE), 1);
    for key in ["a", "b", "c"] {
        assert_eq!(scene.state(key).await, "pending", "{:?}", scene.fate(key).await);
    }
    scene.lose(&lost[..1], "something is wrong with it");
    scene.push().await;
    assert_eq!(scene.calls(UPDATE), 4, "each alone");
    scene.later(A_MOMENT);
    scene.settle().await;
    assert_eq!(scene.fate("a").await.1, "service_refused", "{:?}", scene.fate("a").await);
    for (key, level) in ["b", "c"].into_iter().zip(&lost[1..]) {
        assert_eq!(
            (scene.state(key).await, scene.holds(level).await),
            ("applied".into(), level.quantity - 2)
        );
    }
}

#[tokio::test]
async fn a_stock_level_that_shows_neither_is_held_with_its_numbers_and_the_services_words() {
    let scene = Scene::open().await;
    let level = scene.levels().await.remove(0);
    scene.lose(&[], "no entry is named here");
    scene.adjust("w", &level, -2).await;
    scene.adjust("witness", &scene.levels().await[1], -2).await;
    scene.blind(true);
    scene.push().await;
    scene.blind(false);
    scene.show(&level, Some(level.quantity - 9));
    scene.settle().await;
    let (state, reason, detail) = scene.fate("w").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "undecided"));
    let numbers =
        format!("{} was to become {} and is {}", level.quantity, level.quantity - 2, level.quantity - 9);
    assert!(detail.contains(&numbers) && detail.contains("no entry is named here"), "{detail}");
    assert_eq!(scene.state("witness").await, "applied");
}

#[tokio::test]
async fn where_the_read_fails_too_the_changes_are_in_doubt_and_settle_takes_them_on() {
    let scene = Scene::open().await;
    let levels = scene.levels().await;
    scene.lose(&[&levels[1]], "one of them");
    scene.adjust("done", &levels[0], -2).await;
    scene.adjust("lost", &levels[1], -2).await;
    scene.blind(true);
    scene.push().await;
    for key in ["done", "lost"] {
        assert_eq!(
            (scene.state(key).await, scene.reason(key).await),
            ("in_doubt".into(), "unmatched".into())
        );
    }
    scene.blind(false);
    scene.restore();
    scene.settle().await;
    scene.later(A_MOMENT);
    scene.settle().await;
    assert_eq!((scene.state("done").await, scene.state("lost").await), ("applied".into(), "pending".into()));
    assert_eq!(scene.holds(&levels[1]).await, levels[1].quantity);
}
