//! Effect of an outcome on later calls, also over a restart.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_429_with_retry_after_stops_every_lane_for_that_time() {
    let limiter = limiter(Settings::default());
    let notices = urgent(&limiter, PUSH).await.conclude(Outcome::RateThrottled(seconds(17)));
    let [Notice::HoldStarted(hold), Notice::ShareShrunk { permille: 750, limit: 90, held: 1 }] = &notices[..]
    else {
        panic!("{notices:?}")
    };
    assert_eq!((hold.scope, hold.reason, hold.duration_ms), (Scope::Account, Reason::Rate, Some(17_000)));
    let start = Instant::now();
    let permit = limiter.acquire(READ, Lane::Operator, Pace::Paced).await.unwrap();
    assert_eq!(start.elapsed(), seconds(17));
    drop(permit);
}

#[tokio::test(start_paused = true)]
async fn a_429_without_it_stops_its_operation_until_one_of_its_calls_completes() {
    let limiter = limiter(Settings::default());
    let under_way = urgent(&limiter, PUSH).await;
    let notices = urgent(&limiter, PUSH).await.conclude(Outcome::ConcurrencyThrottled);
    assert_eq!(notices.len(), 1);
    assert!(waits(&limiter, PUSH, Lane::Operator).await);
    assert!(!waits(&limiter, READ, Lane::Operator).await);
    drop(under_way.conclude(Outcome::Answered));
    assert!(!waits(&limiter, PUSH, Lane::Operator).await);
}

#[tokio::test(start_paused = true)]
async fn with_none_of_ours_in_flight_the_operation_waits_one_second_then_two() {
    let limiter = limiter(Settings::default());
    for wait in [1, 2, 4] {
        drop(urgent(&limiter, PUSH).await.conclude(Outcome::ConcurrencyThrottled));
        let start = Instant::now();
        let permit = limiter.acquire(PUSH, Lane::Operator, Pace::Paced).await.unwrap();
        assert_eq!(start.elapsed(), seconds(wait));
        permit.give_back();
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_bad_request_throttle_one_read_goes_alone_and_then_only_reads() {
    let limiter = limiter(Settings::default());
    let notices = urgent(&limiter, PUSH).await.conclude(Outcome::BadRequestThrottled(seconds(600)));
    assert!(matches!(notices[..], [Notice::HoldStarted(_), Notice::LedgerFull { .. }]), "{notices:?}");
    assert!(waits(&limiter, READ, Lane::Probe).await);
    sleep(seconds(600)).await;
    let alone = urgent(&limiter, READ).await;
    assert!(waits(&limiter, READ, Lane::Operator).await);
    drop(alone.conclude(Outcome::Answered));
    let two = [urgent(&limiter, READ).await, urgent(&limiter, READ).await];
    assert!(waits(&limiter, PUSH, Lane::Operator).await);
    drop(two);
    sleep(seconds(24 * 60 * 60)).await;
    assert!(!waits(&limiter, PUSH, Lane::Operator).await);
}

#[tokio::test(start_paused = true)]
async fn bad_requests_stop_the_pushes_at_the_soft_line_and_what_answered_them_at_the_hard_one() {
    let limiter = limiter(Settings { bad_requests_per_day: 10, ..small(120, 2) });
    let mut notices = Vec::new();
    for _ in 0..8 {
        assert!(!waits(&limiter, PUSH, Lane::Operator).await);
        notices.extend(urgent(&limiter, PUSH).await.conclude(Outcome::BadRequest));
    }
    assert_eq!(notices, [Notice::SoftLine { count: 6 }, Notice::HardLine { count: 8 }]);
    assert!(waits(&limiter, Operation::CreateShipments, Lane::Push).await);
    assert!(waits(&limiter, PUSH, Lane::Operator).await);
    assert!(!waits(&limiter, Operation::CreateShipments, Lane::Operator).await);

    let kept = limiter.memory();
    let after = Limiter::new(Settings { bad_requests_per_day: 10, ..small(120, 2) }, TestClock::new(), kept);
    assert!(waits(&after, PUSH, Lane::Operator).await, "also after a restart");
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_stops_all_but_the_probe_until_it_is_lifted() {
    let limiter = limiter(Settings::default());
    let with_id = urgent(&limiter, Operation::KitComponents).await;
    assert_eq!(with_id.conclude(Outcome::RefusedKey), [], "the id may be at fault");
    assert!(!limiter.is_refused());

    let notices = urgent(&limiter, Operation::WorkQueue).await.conclude(Outcome::RefusedKey);
    assert!(matches!(&notices[..], [Notice::HoldStarted(hold)] if hold.scope == Scope::Key), "{notices:?}");
    assert!(limiter.is_refused() && limiter.refuse_key("again").is_none());
    assert!(waits(&limiter, READ, Lane::Operator).await);
    assert!(!waits(&limiter, READ, Lane::Probe).await);
    assert!(limiter.lift_refusal());
    assert!(!waits(&limiter, READ, Lane::Operator).await);
}

#[tokio::test(start_paused = true)]
async fn an_operation_to_be_judged_waits_alone_and_wakes_at_its_release() {
    let limiter = limiter(Settings::default());
    assert!(limiter.hold_operation(PUSH, "a whole-call 400").is_some());
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(PUSH, Lane::Push, Pace::Paced).await.map(Permit::give_back) }
    });
    settle().await;
    assert!(!waiting.is_finished());
    assert!(!waits(&limiter, READ, Lane::Push).await);
    assert!(limiter.release_operation(PUSH));
    settle().await;
    assert!(waiting.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_call_given_up_keeps_its_slot_a_while_and_a_dropped_permit_is_a_call_given_up() {
    let limiter = limiter(Settings { concurrent_calls_per_operation: 1, ..Settings::default() });
    for give_up in [|permit: Permit| drop(permit.conclude(Outcome::TimedOut)), |permit| drop(permit)] {
        give_up(limiter.acquire(PUSH, Lane::Operator, Pace::Paced).await.unwrap());
        let start = Instant::now();
        limiter.acquire(PUSH, Lane::Operator, Pace::Paced).await.unwrap().give_back();
        assert_eq!(start.elapsed(), slots::GRACE);
    }
    assert_eq!(limiter.budget().held, 2);
}

#[tokio::test(start_paused = true)]
async fn a_share_that_shrank_is_remembered_and_comes_back() {
    let clock = TestClock::new();
    let limiter = Limiter::new(Settings::default(), clock.clone(), Memory::default());
    drop(urgent(&limiter, READ).await.conclude(Outcome::RateThrottled(seconds(1))));
    let text = serde_json::to_string(&limiter.memory().kept).unwrap();
    let kept: Kept = serde_json::from_str(&text).unwrap();
    assert_eq!(kept, limiter.memory().kept);

    let after = Limiter::new(Settings::default(), clock, Memory { kept, ..Memory::default() });
    assert_eq!((after.budget().limit, after.budget().share_permille), (90, 750));
    sleep(seconds(25 * 60)).await;
    assert_eq!(urgent(&after, READ).await.conclude(Outcome::Answered), [Notice::ShareRecovered]);
    assert_eq!(after.budget().limit, 120);
}

#[tokio::test(start_paused = true)]
async fn a_hold_set_between_grant_and_send_is_seen() {
    let limiter = limiter(Settings::default());
    let (one, two) = (urgent(&limiter, READ).await, urgent(&limiter, PUSH).await);
    assert!(one.may_send());
    drop(two.conclude(Outcome::RateThrottled(seconds(9))));
    assert!(!one.may_send());
    one.give_back();
}

#[tokio::test(start_paused = true)]
async fn an_unexpected_429_adds_a_second_to_the_window() {
    let limiter = limiter(Settings::default());
    drop(urgent(&limiter, READ).await.conclude(Outcome::RateThrottled(seconds(1))));
    sleep(Duration::from_millis(60_500)).await;
    assert_eq!(limiter.budget().held, 1);
    sleep(Duration::from_millis(501)).await;
    assert_eq!(limiter.budget().held, 0);
}

#[tokio::test(start_paused = true)]
async fn calls_refused_together_for_their_slots_are_told_once() {
    let limiter = limiter(Settings::default());
    let [one, two, three] =
        [urgent(&limiter, PUSH).await, urgent(&limiter, PUSH).await, urgent(&limiter, PUSH).await];
    assert_eq!(one.conclude(Outcome::ConcurrencyThrottled).len(), 1, "until one of the others completes");
    assert_eq!(two.conclude(Outcome::ConcurrencyThrottled), []);
    assert_eq!(three.conclude(Outcome::ConcurrencyThrottled).len(), 1, "none is left: a second");
    assert!(waits(&limiter, PUSH, Lane::Operator).await);
    sleep(seconds(1)).await;
    assert!(!waits(&limiter, PUSH, Lane::Operator).await);
}

#[tokio::test(start_paused = true)]
async fn what_a_crash_left_unanswered_keeps_its_slot_for_the_grace_time() {
    let places = vec![Place::Unanswered(PUSH); 3];
    let limiter = Limiter::new(Settings::default(), TestClock::new(), Memory { places, ..Memory::default() });
    let start = Instant::now();
    limiter.acquire(PUSH, Lane::Operator, Pace::Paced).await.unwrap().give_back();
    assert_eq!(start.elapsed(), slots::GRACE);
}

#[tokio::test(start_paused = true)]
async fn what_was_given_up_before_a_restart_keeps_its_slot_for_what_is_left_of_the_grace_time() {
    let clock = TestClock::new();
    let given_up = clock.moment().minus(seconds(2));
    let places = vec![Place::GivenUp(PUSH, given_up); 3];
    let limiter = Limiter::new(Settings::default(), clock, Memory { places, ..Memory::default() });
    let start = Instant::now();
    limiter.acquire(PUSH, Lane::Operator, Pace::Paced).await.unwrap().give_back();
    assert_eq!(start.elapsed(), slots::GRACE - seconds(2));
}

#[tokio::test(start_paused = true)]
async fn a_share_that_grows_wakes_those_who_wait_for_a_place() {
    let limiter = limiter(small(100, 0));
    drop(urgent(&limiter, READ).await.conclude(Outcome::RateThrottled(seconds(1))));
    let start = Instant::now();
    let first = limiter.acquire(READ, Lane::Operator, Pace::Paced).await.unwrap();
    assert_eq!(first.conclude(Outcome::Answered), [], "it goes alone; its place stays held");
    let mut under_way = Vec::new();
    for _ in 0..74 {
        under_way.push(limiter.acquire(READ, Lane::Operator, Pace::Paced).await.unwrap());
    }
    assert_eq!(start.elapsed(), seconds(60), "75 are left, one more each minute");
}

#[tokio::test(start_paused = true)]
async fn what_fell_due_while_the_machine_was_suspended_goes_within_a_minute_of_its_waking() {
    let clock = TestClock::new();
    let limiter = Limiter::new(Settings::default(), clock.clone(), Memory::default());
    drop(urgent(&limiter, READ).await.conclude(Outcome::RateThrottled(seconds(3600))));
    let start = Instant::now();
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(READ, Lane::Operator, Pace::Paced).await.map(Permit::give_back) }
    });
    settle().await;
    clock.suspend(3_600_000);
    assert_eq!(waiting.await.unwrap(), Ok(()));
    assert_eq!(start.elapsed(), LONGEST_NAP);
}

#[tokio::test(start_paused = true)]
async fn where_calls_go_one_by_one_a_place_that_is_kept_for_a_read_does_not_stop_the_read() {
    for refusal in [Outcome::RateThrottled(seconds(1)), Outcome::BadRequestThrottled(seconds(1))] {
        let limiter = limiter(Settings::default());
        let write = urgent(&limiter, PUSH).await;
        drop(urgent(&limiter, READ).await.conclude(refusal));
        sleep(seconds(1)).await;
        assert!(waits(&limiter, READ, Lane::Operator).await, "{refusal:?}: the write may be sent any moment");
        let read = write.keep_for(limiter.acquire(READ, Lane::Push, Pace::Paid));
        let read = timeout(seconds(60), read).await.expect("the read goes").unwrap();
        assert!(waits(&limiter, READ, Lane::Operator).await, "{refusal:?}: one by one");
        drop(read.conclude(Outcome::Answered));
        assert!(!waits(&limiter, READ, Lane::Operator).await, "{refusal:?}: it was admitted");
        write.give_back();
    }
}
