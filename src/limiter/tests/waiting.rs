//! Order of calls: the window, the pace, the lanes, and cancelled waits.

use super::*;

/// Makes `count` calls one after the other, each answered at once. Returns the time of each grant.
async fn make_calls(limiter: &Limiter, count: usize) -> Vec<Instant> {
    let mut granted = Vec::new();
    for _ in 0..count {
        let permit = limiter.acquire(READ, Lane::Poll, PacePayment::Paced).await;
        granted.push(Instant::now());
        assert_eq!(permit.complete_call(QuotaOutcome::Answered), []);
    }
    granted
}

fn spawn_calls(limiter: &Limiter, count: usize) -> JoinHandle<usize> {
    let limiter = limiter.clone();
    tokio::spawn(async move { make_calls(&limiter, count).await.len() })
}

/// Returns the result of a task. On paused time a lost notification would hang the test instead of failing
/// it.
async fn within_an_hour<T>(task: JoinHandle<T>) -> T {
    timeout(seconds(3600), task).await.expect("the notification was lost").unwrap()
}

/// Returns the largest number of calls in any minute.
fn most_in_a_minute(calls: &[Instant]) -> usize {
    let within = |end: Instant| calls.iter().filter(|at| **at <= end && end - **at <= ONE_MINUTE).count();
    calls.iter().map(|end| within(*end)).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn bulk_calls_leave_the_reserve_free_in_every_minute_and_are_spread_over_it() {
    let limiter = limiter(LimiterSettings::default());
    let calls = make_calls(&limiter, 130).await;
    assert_eq!(most_in_a_minute(&calls), 118);
    let gaps = calls.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.clone().all(|gap| gap >= Duration::from_millis(500)));
    let pauses = gaps.filter(|gap| *gap > Duration::from_millis(501));
    assert!(pauses.count() <= 2, "steady, not in rushes");
}

#[tokio::test(start_paused = true)]
async fn an_operators_call_in_a_backlog_waits_for_nothing() {
    let limiter = limiter(LimiterSettings::default());
    let bulk = spawn_calls(&limiter, 300);
    for _ in 0..10 {
        sleep(seconds(13)).await;
        let permit = urgent(&limiter, PUSH).await;
        drop(permit.complete_call(QuotaOutcome::Answered));
    }
    assert_eq!(bulk.await.unwrap(), 300);
}

#[tokio::test(start_paused = true)]
async fn ten_urgent_calls_after_idle_wait_for_nothing_also_beside_a_backlog() {
    let limiter = limiter(small_limits(120, 2));
    let bulk = spawn_calls(&limiter, 30);
    run_until_idle().await;
    for _ in 0..10 {
        drop(urgent(&limiter, PUSH).await);
    }
    assert_eq!(bulk.await.unwrap(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_its_state_makes_no_extra_calls() {
    let clock = TestClock::new();
    let settings = small_limits(10, 0);
    let first = Limiter::new(settings.clone(), clock.clone(), PersistedState::default());
    for _ in 0..6 {
        drop(urgent(&first, READ).await.complete_call(QuotaOutcome::Answered));
    }
    let lost: Vec<_> = [urgent(&first, READ).await, urgent(&first, READ).await].into();
    sleep(seconds(30)).await;

    clock.step_calendar(-3_600_000);
    let second = Limiter::new(settings, clock, first.persisted_state());
    drop(lost);
    assert_eq!(second.quota_usage().held, 8);
    let more = [urgent(&second, READ).await, urgent(&second, READ).await];
    assert!(must_wait(&second, READ, Lane::Operator).await);
    sleep(seconds(31)).await;
    assert_eq!(second.quota_usage().held, 4, "answered calls are free after 60 s, unanswered ones later");
    sleep(seconds(90)).await;
    assert_eq!(second.quota_usage().held, 2, "two minutes after the restart only what is in flight is left");
    drop(more);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_operation_does_not_block_the_others_of_its_lane() {
    let limiter = limiter(LimiterSettings::default());
    let three = [urgent(&limiter, PUSH).await, urgent(&limiter, PUSH).await, urgent(&limiter, PUSH).await];
    let fourth = spawn_caller(&limiter, PUSH, Lane::Operator).await;
    assert!(!must_wait(&limiter, READ, Lane::Operator).await);
    assert!(!fourth.is_finished());
    drop(three.map(|permit| permit.complete_call(QuotaOutcome::Answered)));
    run_until_idle().await;
    assert!(fourth.is_finished());
}

/// Joins the lanes in this order while none can go, then releases them. Returns the order of the grants.
async fn serving_order(lanes: &[Lane]) -> Vec<usize> {
    let limiter = limiter(small_limits(120, 0));
    assert!(limiter.refuse_key(), "until all have come");
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut calls = JoinSet::new();
    for (index, lane) in lanes.iter().copied().enumerate() {
        let (limiter, served) = (limiter.clone(), Arc::clone(&served));
        calls.spawn(async move {
            let permit = limiter.acquire(READ, lane, PacePayment::Paced).await;
            served.lock().unwrap().push(index);
            drop(permit.complete_call(QuotaOutcome::Answered));
        });
        run_until_idle().await;
    }
    limiter.lift_refusal();
    calls.join_all().await;
    Arc::into_inner(served).unwrap().into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn lanes_go_in_their_order_and_within_a_lane_the_first_come_goes_first() {
    use Lane::{Operator, Poll, Push};
    let order = serving_order(&[Poll, Push, Operator, Poll, Push, Operator]).await;
    assert_eq!(order, [2, 5, 1, 4, 0, 3]);
    assert_eq!(serving_order(&[Push; 40]).await, (0..40).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn under_endless_pushes_a_poll_gets_its_turn_within_five() {
    let lanes = [[Lane::Push; 20].as_slice(), &[Lane::Poll; 2]].concat();
    let order = serving_order(&lanes).await;
    let turn_of = |index| order.iter().position(|it| *it == index);
    assert_eq!((turn_of(20), turn_of(21)), (Some(4), Some(9)));
}

#[tokio::test(start_paused = true)]
async fn under_endless_operators_calls_that_use_up_the_account_a_push_gets_its_turn() {
    let limiter = limiter(small_limits(20, 2));
    let end = Instant::now() + seconds(605);
    let endless = |lane| {
        let limiter = limiter.clone();
        async move {
            let mut calls = 0;
            let acquire = || limiter.acquire(READ, lane, PacePayment::Paced);
            while let Ok(permit) = tokio::time::timeout_at(end, acquire()).await {
                calls += 1;
                sleep(Duration::from_millis(10)).await;
                drop(permit.complete_call(QuotaOutcome::Answered));
            }
            calls
        }
    };
    let (operators, pushes) = (tokio::spawn(endless(Lane::Operator)), tokio::spawn(endless(Lane::Push)));
    let more = tokio::spawn(endless(Lane::Operator));
    let (urgent, pushed) = (operators.await.unwrap() + more.await.unwrap(), pushes.await.unwrap());
    assert!(urgent + pushed >= 200, "{urgent} + {pushed}");
    assert!((20..=30).contains(&pushed), "{urgent} + {pushed}");
}

#[tokio::test(start_paused = true)]
async fn a_bulk_call_that_takes_an_operators_turn_may_use_the_reserve() {
    let limiter = limiter(small_limits(12, 2));
    let hold = |admission: &mut Admission, now: DualInstant| {
        admission.holds.hold_shared_operation(PUSH, 0, now.moment, now.moment)
    };
    assert!(limiter.shared.with_admission(hold), "until the operator has had nine turns");
    let push = tokio::spawn({
        let limiter = limiter.clone();
        async move {
            let _permit = limiter.acquire(PUSH, Lane::Push, PacePayment::Paced).await;
            Instant::now()
        }
    });
    run_until_idle().await;
    let mut operators = Vec::new();
    for _ in 0..11 {
        operators.push(urgent(&limiter, READ).await);
    }
    limiter.end_hold(|holds, _| holds.record_completion(PUSH, true));
    let now = Instant::now();
    assert_eq!(within_an_hour(push).await, now);
}

#[tokio::test(start_paused = true)]
async fn the_pace_follows_the_limit() {
    let limiter = limiter(LimiterSettings::default());
    limiter.reconfigure(LimiterSettings { share: 0.25, ..LimiterSettings::default() });
    let calls = make_calls(&limiter, 5).await;
    assert!(calls.windows(2).all(|pair| pair[1] - pair[0] == seconds(2)), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_that_is_dropped_takes_nothing_and_the_next_one_keeps_the_time() {
    let limiter = limiter(small_limits(1, 0));
    drop(urgent(&limiter, READ).await.complete_call(QuotaOutcome::Answered));
    let start = Instant::now();
    let oldest = spawn_caller(&limiter, READ, Lane::Operator).await;
    let next = spawn_caller(&limiter, READ, Lane::Poll).await;
    oldest.abort();
    run_until_idle().await;
    assert_eq!(limiter.quota_usage().bulk_waiting, 1);
    within_an_hour(next).await;
    assert_eq!(start.elapsed(), window::WINDOW_LENGTH);
    assert_eq!(limiter.quota_usage().held, 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_between_its_grant_and_its_waking_leaves_reservation_slot_and_pace_to_the_next() {
    let limiter =
        limiter(LimiterSettings { concurrent_calls_per_operation: 1, ..LimiterSettings::default() });
    assert!(limiter.refuse_key(), "until both have come");
    let mut first = Box::pin(limiter.acquire(READ, Lane::Poll, PacePayment::Paced));
    let mut second = Box::pin(limiter.acquire(READ, Lane::Poll, PacePayment::Paced));
    assert!(timeout(Duration::ZERO, &mut first).await.is_err());
    assert!(timeout(Duration::ZERO, &mut second).await.is_err());
    limiter.lift_refusal();
    assert_eq!(limiter.quota_usage().held, 1, "the first has its grant, but has not been woken");
    drop(first);
    let permit = timeout(Duration::ZERO, &mut second).await.unwrap();
    assert_eq!(limiter.quota_usage().held, 1);
    permit.return_unused();
    assert_eq!(limiter.quota_usage().held, 0);
}

#[tokio::test(start_paused = true)]
async fn a_larger_limit_wakes_calls_that_wait_for_a_reservation() {
    let limiter = limiter(small_limits(1, 0));
    drop(urgent(&limiter, READ).await.complete_call(QuotaOutcome::Answered));
    let waiting = spawn_caller(&limiter, READ, Lane::Operator).await;
    assert!(!waiting.is_finished());
    limiter.reconfigure(small_limits(2, 0));
    run_until_idle().await;
    assert!(waiting.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_of_many_calls_costs_one_timer_a_minute() {
    let limiter = limiter(LimiterSettings::default());
    drop(urgent(&limiter, READ).await.complete_call(QuotaOutcome::BadRequestThrottled(seconds(3600))));
    let polls = Arc::new(AtomicUsize::new(0));
    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let (limiter, polls) = (limiter.clone(), Arc::clone(&polls));
        calls.spawn(async move {
            let mut acquire = Box::pin(limiter.acquire(READ, Lane::Poll, PacePayment::Paced));
            std::future::poll_fn(|cx| {
                polls.fetch_add(1, Ordering::Relaxed);
                acquire.as_mut().poll(cx)
            })
            .await
            .return_unused();
        });
    }
    sleep(seconds(3500)).await;
    assert!(polls.load(Ordering::Relaxed) <= 50 + 60, "{polls:?}");
    calls.abort_all();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_threads_lose_no_notification_and_never_exceed_the_slots() {
    let settings = LimiterSettings { concurrent_calls_per_operation: 2, ..small_limits(10_000_000, 0) };
    let limiter = limiter(settings);
    let in_flight = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for lane in [Lane::Operator, Lane::Push, Lane::Poll, Lane::Poll, Lane::Push, Lane::Operator] {
        let (limiter, in_flight) = (limiter.clone(), Arc::clone(&in_flight));
        callers.spawn(async move {
            for _ in 0..200 {
                let permit = limiter.acquire(READ, lane, PacePayment::Paced).await;
                assert!(in_flight.fetch_add(1, Ordering::SeqCst) < 2);
                tokio::task::yield_now().await;
                in_flight.fetch_sub(1, Ordering::SeqCst);
                drop(permit.complete_call(QuotaOutcome::Answered));
            }
        });
    }
    timeout(seconds(30), callers.join_all()).await.expect("a notification was lost");
    assert_eq!(limiter.quota_usage().held, 1200);
}
