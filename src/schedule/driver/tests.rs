//! Tests of the driver: they call the tick store directly, except where real seconds are needed.

use super::super::MissedPolicy;
use super::*;
use crate::model::Moment;
use std::sync::atomic::{AtomicI64, Ordering};

/// The system's clock, or a clock moved by hand.
struct DriverClock(Option<AtomicI64>);

impl Clock for DriverClock {
    #[allow(clippy::disallowed_methods, reason = "the scheduler beneath reads the system's clock")]
    fn now(&self) -> Timestamp {
        let system = || Timestamp(Utc::now().timestamp_millis());
        self.0.as_ref().map_or_else(system, |hand| Timestamp(hand.load(Ordering::Relaxed)))
    }

    fn moment(&self) -> Moment {
        Moment(self.now().0)
    }
}

impl DriverClock {
    fn set(&self, text: &str) {
        self.0.as_ref().unwrap().store(at(text).0, Ordering::Relaxed);
    }
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn schedule(expression: &str, zone: &str, missed: MissedPolicy) -> Schedule {
    Schedule::parse(expression, zone, Duration::ZERO, missed).unwrap()
}

/// Returns the schedule in UTC that skips missed occurrences.
fn in_utc(expression: &str) -> Schedule {
    schedule(expression, "UTC", MissedPolicy::Skip)
}

fn clock_at(now: &str) -> Arc<DriverClock> {
    Arc::new(DriverClock(Some(AtomicI64::new(at(now).0))))
}

fn tick_store(now: &str, entry: Schedule) -> (TickStore, Arc<DriverClock>, JobId) {
    let clock = clock_at(now);
    let (mut tick_store, _) = TickStore::new(clock.clone());
    let mut job = Job::new(UNUSED_EXPRESSION, |_, _| {}).unwrap();
    tick_store.add_schedule(job.guid(), JobKind::Balances, entry);
    drop(tick_store.add_or_update(job.job_data().unwrap()));
    (tick_store, clock, job.guid())
}

fn record_tick(tick_store: &TickStore, id: JobId, at: Timestamp) {
    drop(tick_store.clone().set_next_and_last_tick(id, None, Some(at.to_datetime())));
}

fn next(tick_store: &TickStore) -> String {
    Timestamp(i64::try_from(tick_store.lock_state().poll_ticks().0[0].next_tick).unwrap() * 1000).to_rfc3339()
}

#[test]
fn ticks_keep_the_wall_clock_through_a_clock_change_without_a_restart() {
    let entry = schedule("0 30 8 * * *", "Europe/Berlin", MissedPolicy::Skip);
    let (tick_store, clock, id) = tick_store("2027-03-26T12:00:00Z", entry);
    assert_eq!(next(&tick_store), "2027-03-27T07:30:00.000Z");
    clock.set("2027-03-27T07:30:00.400Z");
    record_tick(&tick_store, id, clock.now());
    assert_eq!(next(&tick_store), "2027-03-28T06:30:00.000Z");
}

#[test]
fn an_occurrence_fires_once_however_often_it_ticks() {
    let (tick_store, clock, id) = tick_store("2026-11-21T08:00:00Z", in_utc("0 * * * * *"));
    clock.set("2026-11-21T08:01:00.3Z");
    assert_eq!(tick_store.lock_state().take_due(id), Some((JobKind::Balances, at("2026-11-21T08:01:00Z"))));
    clock.set("2026-11-21T08:01:00.8Z");
    assert_eq!(tick_store.lock_state().take_due(id), None);
}

#[test]
fn each_trigger_arrives_however_long_the_receiver_is_busy() {
    let clock = clock_at("2026-11-21T08:00:00Z");
    let (tick_store, mut due_jobs) = TickStore::new(clock.clone());
    let id = Job::new(UNUSED_EXPRESSION, |_, _| {}).unwrap().guid();
    tick_store.add_schedule(id, JobKind::WorkQueue, in_utc("* * * * * *"));
    for _ in 0..1_000 {
        tick_store.send_due(id);
        clock.0.as_ref().unwrap().fetch_add(1000, Ordering::Relaxed);
    }
    assert_eq!(std::iter::from_fn(|| due_jobs.try_recv().ok()).count(), 1_000);
}

#[test]
fn a_tick_that_slept_through_goes_by_the_policy() {
    for (missed, expected) in
        [(MissedPolicy::Skip, None), (MissedPolicy::RunOnce, Some("2026-11-22T02:00:00Z"))]
    {
        let (tick_store, clock, id) =
            tick_store("2026-11-21T22:00:00Z", schedule("0 0 2 * * *", "UTC", missed));
        clock.set("2026-11-22T08:00:00Z");
        assert_eq!(tick_store.lock_state().take_due(id).map(|(_, due)| due), expected.map(at), "{missed:?}");
        assert_eq!(tick_store.lock_state().take_due(id), None, "{missed:?}");
    }
}

#[test]
fn a_clock_set_back_does_not_leave_jobs_waiting_for_the_old_time() {
    let (tick_store, clock, id) = tick_store("2036-01-01T00:00:00Z", in_utc("0 0 * * * *"));
    clock.set("2036-01-01T01:00:00Z");
    assert!(tick_store.lock_state().take_due(id).is_some());
    record_tick(&tick_store, id, clock.now());
    clock.set("2026-11-21T08:00:30Z");
    assert_eq!(next(&tick_store), "2026-11-21T09:00:00.000Z");
    assert_eq!(tick_store.lock_state().poll_ticks().0[0].last_tick, None);
    clock.set("2026-11-21T09:00:00Z");
    assert_eq!(tick_store.lock_state().take_due(id), Some((JobKind::Balances, at("2026-11-21T09:00:00Z"))));
}

#[tokio::test]
async fn it_fires_each_second_and_never_after_stop() {
    let entries = vec![(JobKind::WorkQueue, in_utc("* * * * * *"))];
    let (driver, mut rx) = ScheduleDriver::start(entries, Arc::new(DriverClock(None))).await.unwrap();
    let (kind, first) = rx.recv().await.unwrap();
    let (_, second) = rx.recv().await.unwrap();
    assert_eq!(kind, JobKind::WorkQueue);
    assert!(second > first && first.0 % 1000 == 0, "{first} {second}");
    driver.stop().await;
    // The channel has no sender left: nothing can fire.
    let closed = async { while rx.recv().await.is_some() {} };
    assert!(tokio::time::timeout(Duration::from_secs(5), closed).await.is_ok(), "the sender outlived `stop`");
}

#[tokio::test]
async fn a_reload_keeps_what_did_not_change() {
    let hourly = || in_utc("0 0 * * * *");
    let entries = vec![(JobKind::Balances, hourly()), (JobKind::Prune, hourly())];
    let (mut driver, _) = ScheduleDriver::start(entries, Arc::new(DriverClock(None))).await.unwrap();
    let ids = |driver: &ScheduleDriver| {
        let state = driver.tick_store.lock_state();
        let mut ids: Vec<_> = state.jobs.iter().map(|(id, slot)| (slot.occurrences.job, *id)).collect();
        ids.sort();
        ids
    };
    let before = ids(&driver);
    let daily = in_utc("0 0 3 * * *");
    driver.replace_schedules(vec![(JobKind::Balances, hourly()), (JobKind::Backup, daily)]).await.unwrap();
    let after = ids(&driver);
    assert_eq!(after.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [JobKind::Balances, JobKind::Backup]);
    assert_eq!(after[0], before[0]);
    driver.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_heartbeat_beats_while_the_scheduler_ticks_and_not_after_its_end() {
    let driver = idle_driver().await;
    let mut heartbeat = driver.heartbeat();
    tokio::time::sleep(MAX_SLEEP).await;
    assert!(heartbeat.has_beaten());
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(heartbeat.has_beaten(), "it was asked for");
    }
    driver.stop().await;
    tokio::time::sleep(MAX_SLEEP).await;
    heartbeat.has_beaten();
    tokio::time::sleep(MAX_SLEEP).await;
    assert!(!heartbeat.has_beaten());
}

#[test]
fn the_tick_store_answers_just_before_the_next_tick() {
    let (tick_store, clock, _) = tick_store("2026-11-21T08:00:00Z", in_utc("0 * * * * *"));
    for (now, silent_ms) in [
        ("2026-11-21T08:00:00Z", Some(10_000)),
        ("2026-11-21T08:00:55Z", Some(4_510)),
        ("2026-11-21T08:00:59.509Z", Some(1)),
        ("2026-11-21T08:00:59.51Z", None),
        ("2026-11-21T08:01:07Z", None),
    ] {
        clock.set(now);
        assert_eq!(tick_store.lock_state().poll_ticks().1, silent_ms.map(Duration::from_millis), "{now}");
    }
}

/// Starts a driver with one job due tomorrow, on a clock that stands still.
async fn idle_driver() -> ScheduleDriver {
    let entries = vec![(JobKind::Backup, in_utc("0 0 3 * * *"))];
    ScheduleDriver::start(entries, clock_at("2026-11-21T08:00:00Z")).await.unwrap().0
}

#[tokio::test(start_paused = true)]
async fn while_nothing_is_due_the_scheduler_polls_every_ten_seconds() {
    let driver = idle_driver().await;
    let polled = || driver.tick_store.lock_state().polls;
    let before = polled();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let polls = polled() - before;
    assert!((58..=62).contains(&polls), "{polls} polls in ten minutes");
    driver.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reload_does_not_wait_for_the_end_of_a_silence() {
    let mut driver = idle_driver().await;
    for expression in ["0 0 4 * * *", "0 0 5 * * *"] {
        tokio::time::sleep(Duration::from_secs(601)).await;
        let begun = tokio::time::Instant::now();
        driver.replace_schedules(vec![(JobKind::Backup, in_utc(expression))]).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(1), "{expression}: {:?}", begun.elapsed());
    }
    driver.stop().await;
}

#[test]
fn a_tick_is_late_after_a_minute_and_not_before() {
    for (now, is_fired) in [("2026-11-22T02:01:00Z", true), ("2026-11-22T02:01:00.001Z", false)] {
        let (tick_store, clock, id) = tick_store("2026-11-21T22:00:00Z", in_utc("0 0 2 * * *"));
        clock.set(now);
        assert_eq!(tick_store.lock_state().take_due(id).is_some(), is_fired, "{now}");
    }
}

#[test]
fn a_step_back_brings_the_next_tick_forward_and_repeats_no_occurrence() {
    for now in ["2026-11-21T08:59:59Z", "2026-11-21T08:10:00Z"] {
        let (tick_store, clock, id) = tick_store("2026-11-21T08:00:00Z", in_utc("0 0 * * * *"));
        clock.set("2026-11-21T09:00:09Z");
        assert!(tick_store.lock_state().take_due(id).is_some());
        record_tick(&tick_store, id, clock.now());
        assert_eq!(next(&tick_store), "2026-11-21T10:00:00.000Z");
        assert_eq!(tick_store.lock_state().poll_ticks().0[0].last_tick, Some(1_795_251_609));
        clock.set(now);
        assert_eq!(next(&tick_store), "2026-11-21T09:00:00.000Z", "{now}");
        clock.set("2026-11-21T09:00:00Z");
        assert_eq!(tick_store.lock_state().take_due(id), None, "{now}");
    }
}

#[test]
fn a_clock_that_goes_on_after_a_step_back_is_not_set_back_again() {
    let (tick_store, clock, id) = tick_store("2026-11-21T09:00:00Z", in_utc("0 0 * * * *"));
    clock.set("2026-11-21T08:30:00Z");
    tick_store.lock_state().poll_ticks();
    clock.set("2026-11-21T09:00:00Z");
    assert!(tick_store.lock_state().take_due(id).is_some());
    drop(tick_store.clone().set_next_and_last_tick(id, None, None));
    clock.set("2026-11-21T09:00:30Z");
    assert_eq!(next(&tick_store), "2026-11-21T10:00:00.000Z");
    assert_eq!(tick_store.lock_state().take_due(id), None, "it has fired, and is not forgotten");
}

#[tokio::test]
async fn the_storage_answers_what_the_scheduler_asks() {
    let (mut tick_store, clock, id) = tick_store("2026-11-21T08:00:00Z", in_utc("0 0 * * * *"));
    tick_store.answer_at_once(true);
    tick_store.init().await.unwrap();
    assert!(tick_store.inited().await.unwrap());
    let row = tick_store.get(id).await.unwrap().unwrap();
    assert_eq!(tick_store.list_next_ticks().await.unwrap()[0].next_tick, row.next_tick);
    clock.set("2026-11-21T09:00:00Z");
    record_tick(&tick_store, id, clock.now());
    assert_eq!(next(&tick_store), "2026-11-21T10:00:00.000Z");
    clock.set("2026-11-21T08:00:00Z");
    tick_store.add_or_update(row).await.unwrap();
    assert_eq!(next(&tick_store), "2026-11-21T09:00:00.000Z", "an added row gets its next tick anew");
    assert_eq!(tick_store.time_till_next_job().await.unwrap(), None);
    tick_store.delete(id).await.unwrap();
    assert!(tick_store.get(id).await.unwrap().is_none() && tick_store.lock_state().poll_ticks().0.is_empty());
}
