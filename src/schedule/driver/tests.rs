//! Tests of the driver: they poll the tick store directly, except where the scheduler itself is needed.

use super::super::MissedPolicy;
use super::*;
use crate::model::Moment;
use std::sync::atomic::{AtomicI64, Ordering};

/// The system's clock, or a clock moved by hand.
struct DriverClock(Option<AtomicI64>);

impl Clock for DriverClock {
    #[allow(clippy::disallowed_methods, reason = "a real second is needed where the scheduler itself ticks")]
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

/// Returns the schedule in UTC that skips missed occurrences.
fn in_utc(expression: &str) -> Schedule {
    Schedule::parse(expression, "UTC", Duration::ZERO, MissedPolicy::Skip).unwrap()
}

fn clock_at(now: &str) -> Arc<DriverClock> {
    Arc::new(DriverClock(Some(AtomicI64::new(at(now).0))))
}

/// Returns a store with one schedule and its scheduler's job, on a clock moved by hand.
fn tick_store(now: &str, expression: &str) -> (TickStore, mpsc::UnboundedReceiver<DueJob>, Arc<DriverClock>) {
    let clock = clock_at(now);
    let (mut ticks, due_jobs) = TickStore::new(clock.clone());
    ticks.lock_state().jobs = vec![JobOccurrences::new(JobKind::Balances, in_utc(expression), clock.now())];
    let mut job = Job::new(UNUSED_EXPRESSION, |_, _| {}).unwrap();
    drop(ticks.add_or_update(job.job_data().unwrap()));
    (ticks, due_jobs, clock)
}

/// Returns true if the scheduler is told to tick at once.
fn ticks_now(ticks: &TickStore) -> bool {
    ticks.lock_state().poll().is_ok()
}

#[tokio::test]
async fn the_tick_store_answers_when_an_occurrence_starts() {
    let (ticks, mut due_jobs, clock) = tick_store("2026-11-21T08:00:00Z", "0 * * * * *");
    for (now, is_due) in [
        ("2026-11-21T08:00:00Z", false),
        ("2026-11-21T08:00:59.999Z", false),
        ("2026-11-21T08:01:00Z", true),
        ("2026-11-21T08:01:07Z", true),
    ] {
        clock.set(now);
        assert_eq!(ticks_now(&ticks), is_due, "{now}");
    }
    let tick = ticks.clone().tick_in_time().await.unwrap();
    assert!(tick[0].id.is_some() && tick[0].next_tick > 0 && tick[0].last_tick.is_none());
    ticks.lock_state().send_due();
    assert!(!ticks_now(&ticks), "it is sent");
    ticks.lock_state().send_due();
    assert_eq!(due_jobs.try_recv().unwrap(), (JobKind::Balances, at("2026-11-21T08:01:00Z")));
    assert!(due_jobs.try_recv().is_err(), "a scheduler that ticks twice sends it once");
}

#[test]
fn each_trigger_arrives_however_long_the_receiver_is_busy() {
    let (ticks, mut due_jobs, clock) = tick_store("2026-11-21T08:00:00Z", "* * * * * *");
    for _ in 0..1_000 {
        clock.0.as_ref().unwrap().fetch_add(1000, Ordering::Relaxed);
        ticks.lock_state().send_due();
    }
    assert_eq!(std::iter::from_fn(|| due_jobs.try_recv().ok()).count(), 1_000);
}

#[tokio::test]
async fn a_clock_set_back_does_not_leave_jobs_waiting_for_the_old_time() {
    let (ticks, mut due_jobs, clock) = tick_store("2036-01-01T00:00:00Z", "0 0 * * * *");
    clock.set("2036-01-01T01:00:00Z");
    ticks.lock_state().send_due();
    assert!(due_jobs.try_recv().is_ok());
    clock.set("2026-11-21T08:00:30Z");
    assert!(!ticks_now(&ticks));
    clock.set("2026-11-21T09:00:00Z");
    assert!(ticks_now(&ticks));
    ticks.lock_state().send_due();
    assert_eq!(due_jobs.try_recv().unwrap(), (JobKind::Balances, at("2026-11-21T09:00:00Z")));
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
async fn a_reload_sends_what_has_started_and_goes_on_with_the_new_schedules() {
    let clock = clock_at("2026-11-21T08:59:59Z");
    let entries = vec![(JobKind::Balances, in_utc("0 0 * * * *"))];
    let (driver, mut due_jobs) = ScheduleDriver::start(entries, clock.clone()).await.unwrap();
    clock.set("2026-11-21T09:00:00Z");
    driver.replace_schedules(vec![(JobKind::Balances, in_utc("0 0 3 * * *"))]);
    assert_eq!(due_jobs.try_recv().unwrap(), (JobKind::Balances, at("2026-11-21T09:00:00Z")));
    let next = driver.ticks.lock_state().jobs[0].next_start();
    assert_eq!(next, Some(at("2026-11-22T03:00:00Z")));
    driver.stop().await;
}

/// Starts a driver with one job due tomorrow, on a clock that stands still.
async fn idle_driver() -> ScheduleDriver {
    let entries = vec![(JobKind::Backup, in_utc("0 0 3 * * *"))];
    ScheduleDriver::start(entries, clock_at("2026-11-21T08:00:00Z")).await.unwrap().0
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

#[tokio::test(start_paused = true)]
async fn while_nothing_is_due_the_scheduler_polls_every_ten_seconds() {
    let driver = idle_driver().await;
    let polled = || driver.ticks.lock_state().polls;
    let before = polled();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let polls = polled() - before;
    assert!((56..=62).contains(&polls), "{polls} polls in ten minutes");
    driver.stop().await;
}
