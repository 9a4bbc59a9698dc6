//! Effect of an outcome on later calls, also over a restart.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_429_with_retry_after_stops_every_lane_for_that_time() {
    let limiter = limiter(LimiterSettings::default());
    let events = urgent(&limiter, PUSH).await.complete_call(QuotaOutcome::RateThrottled(seconds(17)));
    let [LimiterEvent::HoldStarted(hold), reduced] = &events[..] else { panic!("{events:?}") };
    assert_eq!(*reduced, LimiterEvent::LimitReduced { permille: 750, limit: 90, reservations: 1 });
    let expected = (HoldScope::Account, HoldReason::Rate, Some(17_000));
    assert_eq!((hold.scope, hold.reason, hold.duration_ms), expected);
    assert_eq!(length_of_wait(&limiter, READ, Lane::Operator).await, seconds(17));
}

#[tokio::test(start_paused = true)]
async fn a_429_without_it_stops_its_operation_until_one_of_its_calls_completes() {
    let limiter = limiter(LimiterSettings::default());
    let under_way = urgent(&limiter, PUSH).await;
    let events = urgent(&limiter, PUSH).await.complete_call(QuotaOutcome::ConcurrencyThrottled);
    assert_eq!(events.len(), 1);
    assert!(must_wait(&limiter, PUSH, Lane::Operator).await);
    assert!(!must_wait(&limiter, READ, Lane::Operator).await);
    drop(under_way.complete_call(QuotaOutcome::Answered));
    assert!(!must_wait(&limiter, PUSH, Lane::Operator).await);
}

#[tokio::test(start_paused = true)]
async fn with_none_of_ours_in_flight_the_operation_waits_one_second_then_two() {
    let limiter = limiter(LimiterSettings::default());
    for wait in [1, 2, 4] {
        drop(urgent(&limiter, PUSH).await.complete_call(QuotaOutcome::ConcurrencyThrottled));
        assert_eq!(length_of_wait(&limiter, PUSH, Lane::Operator).await, seconds(wait));
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_bad_request_throttle_one_read_goes_alone_and_then_only_reads() {
    let limiter = limiter(LimiterSettings::default());
    let events = urgent(&limiter, PUSH).await.complete_call(QuotaOutcome::BadRequestThrottled(seconds(600)));
    let [LimiterEvent::HoldStarted(_), LimiterEvent::BudgetExhausted { .. }] = events[..] else {
        panic!("{events:?}")
    };
    assert!(must_wait(&limiter, READ, Lane::Probe).await);
    sleep(seconds(600)).await;
    let first = urgent(&limiter, READ).await;
    assert!(must_wait(&limiter, READ, Lane::Operator).await);
    drop(first.complete_call(QuotaOutcome::Answered));
    let two = [urgent(&limiter, READ).await, urgent(&limiter, READ).await];
    assert!(must_wait(&limiter, PUSH, Lane::Operator).await);
    drop(two);
    sleep(seconds(24 * 60 * 60)).await;
    assert!(!must_wait(&limiter, PUSH, Lane::Operator).await);
}

#[tokio::test(start_paused = true)]
async fn bad_requests_stop_the_pushes_at_the_soft_line_and_what_answered_them_at_the_hard_one() {
    let settings = LimiterSettings { bad_requests_per_day: 10, ..small_limits(120, 2) };
    let limiter = limiter(settings.clone());
    let mut events = Vec::new();
    for _ in 0..8 {
        assert!(!must_wait(&limiter, PUSH, Lane::Operator).await);
        events.extend(urgent(&limiter, PUSH).await.complete_call(QuotaOutcome::BadRequest));
    }
    assert_eq!(events, [LimiterEvent::SoftThreshold { count: 6 }, LimiterEvent::HardThreshold { count: 8 }]);
    assert!(must_wait(&limiter, Operation::CreateShipments, Lane::Push).await);
    assert!(must_wait(&limiter, PUSH, Lane::Operator).await);
    assert!(!must_wait(&limiter, Operation::CreateShipments, Lane::Operator).await);

    let after = Limiter::new(settings, TestClock::new(), limiter.persisted_state());
    assert!(must_wait(&after, PUSH, Lane::Operator).await, "also after a restart");
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_stops_all_but_the_probe_until_it_is_lifted() {
    let limiter = limiter(LimiterSettings::default());
    assert!(limiter.refuse_key());
    assert!(limiter.is_refused() && !limiter.refuse_key(), "it is refused already");
    assert!(must_wait(&limiter, READ, Lane::Operator).await);
    assert!(!must_wait(&limiter, READ, Lane::Probe).await);
    let waiting = spawn_caller(&limiter, PUSH, Lane::Push).await;
    assert!(!waiting.is_finished());
    limiter.lift_refusal();
    run_until_idle().await;
    assert!(waiting.is_finished(), "the end of the refusal wakes it");
    assert!(!must_wait(&limiter, READ, Lane::Operator).await);
}

#[tokio::test(start_paused = true)]
async fn a_call_given_up_keeps_its_slot_a_while_and_a_dropped_permit_is_a_call_given_up() {
    let limiter =
        limiter(LimiterSettings { concurrent_calls_per_operation: 1, ..LimiterSettings::default() });
    for give_up in
        [|permit: Permit| drop(permit.complete_call(QuotaOutcome::TimedOut)), |permit| drop(permit)]
    {
        give_up(urgent(&limiter, PUSH).await);
        assert_eq!(length_of_wait(&limiter, PUSH, Lane::Operator).await, slots::LINGER_TIME);
    }
    assert_eq!(limiter.quota_usage().held, 2);
}

#[tokio::test(start_paused = true)]
async fn a_lowered_adaptive_limit_survives_a_restart_and_recovers() {
    let clock = TestClock::new();
    let limiter = Limiter::new(LimiterSettings::default(), clock.clone(), PersistedState::default());
    drop(urgent(&limiter, READ).await.complete_call(QuotaOutcome::RateThrottled(seconds(1))));
    let text = serde_json::to_string(&limiter.persisted_state().limiter_state).unwrap();
    let limiter_state: LimiterState = serde_json::from_str(&text).unwrap();
    assert_eq!(limiter_state, limiter.persisted_state().limiter_state);

    let state = PersistedState { limiter_state, ..PersistedState::default() };
    let after = Limiter::new(LimiterSettings::default(), clock, state);
    assert_eq!(after.quota_usage().limit, 90);
    sleep(seconds(25 * 60)).await;
    let events = urgent(&after, READ).await.complete_call(QuotaOutcome::Answered);
    assert_eq!(events, [LimiterEvent::LimitRecovered]);
    assert_eq!(after.quota_usage().limit, 120);
}

#[tokio::test(start_paused = true)]
async fn a_hold_set_between_grant_and_send_is_seen() {
    let limiter = limiter(LimiterSettings::default());
    let (one, two) = (urgent(&limiter, READ).await, urgent(&limiter, PUSH).await);
    assert!(one.may_send());
    drop(two.complete_call(QuotaOutcome::RateThrottled(seconds(9))));
    assert!(!one.may_send());
    one.return_unused();
}

#[tokio::test(start_paused = true)]
async fn an_unexpected_429_adds_a_second_to_the_window() {
    let limiter = limiter(LimiterSettings::default());
    drop(urgent(&limiter, READ).await.complete_call(QuotaOutcome::RateThrottled(seconds(1))));
    sleep(Duration::from_millis(60_500)).await;
    assert_eq!(limiter.quota_usage().held, 1);
    sleep(Duration::from_millis(501)).await;
    assert_eq!(limiter.quota_usage().held, 0);
}

#[tokio::test(start_paused = true)]
async fn calls_refused_together_for_their_slots_make_one_event() {
    let limiter = limiter(LimiterSettings::default());
    let [one, two, three] =
        [urgent(&limiter, PUSH).await, urgent(&limiter, PUSH).await, urgent(&limiter, PUSH).await];
    let throttled = QuotaOutcome::ConcurrencyThrottled;
    assert_eq!(one.complete_call(throttled).len(), 1, "until one of the others completes");
    assert_eq!(two.complete_call(throttled), []);
    assert_eq!(three.complete_call(throttled).len(), 1, "none is left: a second");
    assert!(must_wait(&limiter, PUSH, Lane::Operator).await);
    sleep(seconds(1)).await;
    assert!(!must_wait(&limiter, PUSH, Lane::Operator).await);
}

/// Returns the wait for the only reservation of the minute after a restart with this one.
async fn wait_for_the_minute_after(reservation: PastReservation) -> Duration {
    let state = PersistedState { reservations: vec![reservation], ..PersistedState::default() };
    let limiter = Limiter::new(small_limits(1, 0), TestClock::new(), state);
    length_of_wait(&limiter, READ, Lane::Operator).await
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_counts_until_a_window_after_its_quiet_time() {
    let minute = window::WINDOW_LENGTH;
    let quiet = small_limits(1, 0).quiet_time;
    let live = limiter(small_limits(1, 0));
    drop(urgent(&live, READ).await.complete_call(QuotaOutcome::TimedOut));
    assert_eq!(length_of_wait(&live, READ, Lane::Operator).await, quiet + minute);
    let now = TestClock::new().moment();
    let ahead = now.plus(seconds(900));
    let cases = [
        (PastReservation::Answered(now), minute),
        (PastReservation::Answered(ahead), minute),
        (PastReservation::GivenUp(READ, now.minus(seconds(10))), quiet + minute - seconds(10)),
        (PastReservation::GivenUp(READ, ahead), quiet + minute),
        (PastReservation::GivenUp(READ, now), quiet + minute),
    ];
    for (reservation, expected) in cases {
        assert_eq!(wait_for_the_minute_after(reservation).await, expected, "{reservation:?}");
    }
}

/// Returns the wait of a push after a restart with three reservations of pushes.
async fn wait_after_restart(clock: Arc<TestClock>, reservation: PastReservation) -> Duration {
    let state = PersistedState { reservations: vec![reservation; 3], ..PersistedState::default() };
    let limiter = Limiter::new(LimiterSettings::default(), clock, state);
    length_of_wait(&limiter, PUSH, Lane::Operator).await
}

#[tokio::test(start_paused = true)]
async fn what_a_crash_left_unanswered_keeps_its_slot_for_the_grace_time() {
    let wait =
        wait_after_restart(TestClock::new(), PastReservation::GivenUp(PUSH, TestClock::new().moment())).await;
    assert_eq!(wait, slots::LINGER_TIME);
}

#[tokio::test(start_paused = true)]
async fn what_was_given_up_before_a_restart_keeps_its_slot_for_what_is_left_of_the_grace_time() {
    let clock = TestClock::new();
    let given_up = clock.moment().minus(seconds(2));
    let wait = wait_after_restart(clock, PastReservation::GivenUp(PUSH, given_up)).await;
    assert_eq!(wait, slots::LINGER_TIME - seconds(2));
}

#[tokio::test(start_paused = true)]
async fn a_rising_adaptive_limit_wakes_calls_that_wait_for_a_reservation() {
    let limiter = limiter(small_limits(100, 0));
    drop(urgent(&limiter, READ).await.complete_call(QuotaOutcome::RateThrottled(seconds(1))));
    let start = Instant::now();
    let first = limiter.acquire(READ, Lane::Operator, PacePayment::Paced).await;
    assert_eq!(first.complete_call(QuotaOutcome::Answered), [], "alone; its reservation stays in use");
    let mut under_way = Vec::new();
    for _ in 0..74 {
        under_way.push(limiter.acquire(READ, Lane::Operator, PacePayment::Paced).await);
    }
    assert_eq!(start.elapsed(), seconds(60), "75 are left, one more each minute");
}

#[tokio::test(start_paused = true)]
async fn what_fell_due_while_the_machine_was_suspended_goes_within_a_minute_of_its_waking() {
    let clock = TestClock::new();
    let limiter = Limiter::new(LimiterSettings::default(), clock.clone(), PersistedState::default());
    drop(urgent(&limiter, READ).await.complete_call(QuotaOutcome::RateThrottled(seconds(3600))));
    let start = Instant::now();
    let waiting = spawn_caller(&limiter, READ, Lane::Operator).await;
    clock.suspend(3_600_000);
    waiting.await.unwrap();
    assert_eq!(start.elapsed(), QUOTA_WINDOW);
}

#[tokio::test(start_paused = true)]
async fn where_calls_go_one_by_one_a_kept_reservation_does_not_stop_the_read() {
    for refusal in [QuotaOutcome::RateThrottled(seconds(1)), QuotaOutcome::BadRequestThrottled(seconds(1))] {
        let limiter = limiter(LimiterSettings::default());
        let write = urgent(&limiter, PUSH).await;
        drop(urgent(&limiter, READ).await.complete_call(refusal));
        sleep(seconds(1)).await;
        assert!(must_wait(&limiter, READ, Lane::Operator).await, "{refusal:?}: the write may be sent");
        let read = write.keep_while(limiter.acquire(READ, Lane::Push, PacePayment::Paid));
        let read = timeout(seconds(60), read).await.expect("the read goes");
        assert!(must_wait(&limiter, READ, Lane::Operator).await, "{refusal:?}: one by one");
        drop(read.complete_call(QuotaOutcome::Answered));
        assert!(!must_wait(&limiter, READ, Lane::Operator).await, "{refusal:?}: it was admitted");
        write.return_unused();
    }
}
