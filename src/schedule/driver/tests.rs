//! Tests of the driver: the board is asked directly, except in tests that need real seconds.

use super::super::Missed;
use super::*;
use crate::model::Moment;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::mpsc;

/// The system's clock, or a clock moved by hand.
struct TestClock(Option<AtomicI64>);

impl Clock for TestClock {
    #[allow(clippy::disallowed_methods, reason = "the scheduler beneath reads the system's clock")]
    fn now(&self) -> Timestamp {
        let system = || Timestamp(Utc::now().timestamp_millis());
        self.0.as_ref().map_or_else(system, |hand| Timestamp(hand.load(Ordering::Relaxed)))
    }

    fn moment(&self) -> Moment {
        Moment(self.now().0)
    }
}

impl TestClock {
    fn set(&self, text: &str) {
        self.0.as_ref().unwrap().store(at(text).0, Ordering::Relaxed);
    }
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn schedule(expression: &str, zone: &str, missed: Missed) -> Schedule {
    Schedule::parse(expression, zone, Duration::ZERO, missed).unwrap()
}

fn board(now: &str, entry: Schedule) -> (Board, Arc<TestClock>, JobId) {
    let clock = Arc::new(TestClock(Some(AtomicI64::new(at(now).0))));
    let board = Board::new(clock.clone());
    let mut job = Job::new(UNUSED_EXPRESSION, |_, _| {}).unwrap();
    board.open(job.guid(), JobKind::Balances, entry);
    board.insert(job.job_data().unwrap());
    (board, clock, job.guid())
}

fn next(board: &Board) -> String {
    Timestamp(i64::try_from(board.look().0[0].next_tick).unwrap() * 1000).rfc3339()
}

#[test]
fn ticks_keep_the_wall_clock_through_a_clock_change_without_a_restart() {
    let entry = schedule("0 30 8 * * *", "Europe/Berlin", Missed::Skip);
    let (board, clock, id) = board("2027-03-26T12:00:00Z", entry);
    assert_eq!(next(&board), "2027-03-27T07:30:00.000Z");
    clock.set("2027-03-27T07:30:00.400Z");
    board.ticked(id, Some(clock.now().datetime()));
    assert_eq!(next(&board), "2027-03-28T06:30:00.000Z");
}

#[test]
fn an_occurrence_fires_once_however_often_it_ticks() {
    let (board, clock, id) = board("2026-11-21T08:00:00Z", schedule("0 * * * * *", "UTC", Missed::Skip));
    clock.set("2026-11-21T08:01:00.3Z");
    assert_eq!(board.due(id), Some((JobKind::Balances, at("2026-11-21T08:01:00Z"))));
    clock.set("2026-11-21T08:01:00.8Z");
    assert_eq!(board.due(id), None);
}

#[test]
fn a_tick_that_slept_through_goes_by_the_policy() {
    for (missed, expected) in [(Missed::Skip, None), (Missed::RunOnce, Some("2026-11-22T02:00:00Z"))] {
        let (board, clock, id) = board("2026-11-21T22:00:00Z", schedule("0 0 2 * * *", "UTC", missed));
        clock.set("2026-11-22T08:00:00Z");
        assert_eq!(board.due(id).map(|(_, due)| due), expected.map(at), "{missed:?}");
        assert_eq!(board.due(id), None, "{missed:?}");
    }
}

#[test]
fn a_clock_set_back_does_not_leave_jobs_waiting_for_the_old_time() {
    let (board, clock, id) = board("2036-01-01T00:00:00Z", schedule("0 0 * * * *", "UTC", Missed::Skip));
    clock.set("2036-01-01T01:00:00Z");
    assert!(board.due(id).is_some());
    board.ticked(id, Some(clock.now().datetime()));
    clock.set("2026-11-21T08:00:30Z");
    assert_eq!(next(&board), "2026-11-21T09:00:00.000Z");
    assert_eq!(board.look().0[0].last_tick, None);
    clock.set("2026-11-21T09:00:00Z");
    assert_eq!(board.due(id), Some((JobKind::Balances, at("2026-11-21T09:00:00Z"))));
}

#[tokio::test]
async fn it_fires_each_second_and_never_after_stop() {
    let (tx, mut rx) = mpsc::unbounded_channel();
    let entries = vec![(JobKind::WorkQueue, schedule("* * * * * *", "UTC", Missed::Skip))];
    let fire = move |kind, due| assert!(tx.send((kind, due)).is_ok());
    let driver = Driver::start(entries, Arc::new(TestClock(None)), fire).await.unwrap();
    let (kind, first) = rx.recv().await.unwrap();
    let (_, second) = rx.recv().await.unwrap();
    assert_eq!(kind, JobKind::WorkQueue);
    assert!(second > first && first.0 % 1000 == 0, "{first} {second}");
    driver.stop().await;
    // The callback is gone, so the channel has no sender left: nothing can fire.
    let closed = async { while rx.recv().await.is_some() {} };
    assert!(
        tokio::time::timeout(Duration::from_secs(5), closed).await.is_ok(),
        "the callback outlived `stop`"
    );
}

#[tokio::test]
async fn a_reload_keeps_what_did_not_change() {
    let hourly = || schedule("0 0 * * * *", "UTC", Missed::Skip);
    let entries = vec![(JobKind::Balances, hourly()), (JobKind::Prune, hourly())];
    let mut driver = Driver::start(entries, Arc::new(TestClock(None)), |_, _| {}).await.unwrap();
    let ids = |driver: &Driver| {
        let state = driver.board.state();
        let mut ids: Vec<_> = state.slots.iter().map(|(id, slot)| (slot.occurrences.job(), *id)).collect();
        ids.sort();
        ids
    };
    let before = ids(&driver);
    let daily = schedule("0 0 3 * * *", "UTC", Missed::Skip);
    driver.replace(vec![(JobKind::Balances, hourly()), (JobKind::Backup, daily)]).await.unwrap();
    let after = ids(&driver);
    assert_eq!(after.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [JobKind::Balances, JobKind::Backup]);
    assert_eq!(after[0], before[0]);
    driver.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_pulse_beats_for_who_asks_often_and_not_once_the_ticking_has_ended() {
    let driver = idle_driver().await;
    let mut pulse = driver.pulse();
    tokio::time::sleep(SILENCE).await;
    assert!(pulse.has_beaten());
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(pulse.has_beaten(), "it was asked for");
    }
    driver.stop().await;
    tokio::time::sleep(SILENCE).await;
    pulse.has_beaten();
    tokio::time::sleep(SILENCE).await;
    assert!(!pulse.has_beaten());
}

#[test]
fn the_board_is_silent_until_just_before_the_next_tick() {
    let (board, clock, _) = board("2026-11-21T08:00:00Z", schedule("0 * * * * *", "UTC", Missed::Skip));
    for (now, silent_ms) in [
        ("2026-11-21T08:00:00Z", Some(10_000)),
        ("2026-11-21T08:00:55Z", Some(4_510)),
        ("2026-11-21T08:00:59.509Z", Some(1)),
        ("2026-11-21T08:00:59.51Z", None),
        ("2026-11-21T08:01:07Z", None),
    ] {
        clock.set(now);
        assert_eq!(board.look().1, silent_ms.map(Duration::from_millis), "{now}");
    }
}

/// Starts a driver with one job due tomorrow, on a clock that stands still.
async fn idle_driver() -> Driver {
    let clock = Arc::new(TestClock(Some(AtomicI64::new(at("2026-11-21T08:00:00Z").0))));
    let daily = schedule("0 0 3 * * *", "UTC", Missed::Skip);
    Driver::start(vec![(JobKind::Backup, daily)], clock, |_, _| {}).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn while_nothing_is_due_there_is_a_look_every_ten_seconds_and_no_more() {
    let driver = idle_driver().await;
    let beats = || driver.board.beats.load(Ordering::Relaxed);
    let before = beats();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let looks = beats() - before;
    assert!((58..=62).contains(&looks), "{looks} looks in ten minutes");
    driver.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reload_does_not_wait_for_the_end_of_a_silence() {
    let mut driver = idle_driver().await;
    for expression in ["0 0 4 * * *", "0 0 5 * * *"] {
        tokio::time::sleep(Duration::from_secs(601)).await;
        let begun = tokio::time::Instant::now();
        let entry = (JobKind::Backup, schedule(expression, "UTC", Missed::Skip));
        driver.replace(vec![entry]).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(1), "{expression}: {:?}", begun.elapsed());
    }
    driver.stop().await;
}

#[test]
fn a_tick_is_late_after_a_minute_and_not_before() {
    for (now, is_fired) in [("2026-11-22T02:01:00Z", true), ("2026-11-22T02:01:00.001Z", false)] {
        let (board, clock, id) = board("2026-11-21T22:00:00Z", schedule("0 0 2 * * *", "UTC", Missed::Skip));
        clock.set(now);
        assert_eq!(board.due(id).is_some(), is_fired, "{now}");
    }
}

#[test]
fn a_step_back_of_ten_seconds_only_delays_a_tick_and_a_longer_one_begins_anew() {
    for (now, is_again) in [("2026-11-21T08:59:59Z", false), ("2026-11-21T08:59:58.999Z", true)] {
        let (board, clock, id) = board("2026-11-21T08:00:00Z", schedule("0 0 * * * *", "UTC", Missed::Skip));
        clock.set("2026-11-21T09:00:09Z");
        assert!(board.due(id).is_some());
        board.ticked(id, Some(clock.now().datetime()));
        assert_eq!(next(&board), "2026-11-21T10:00:00.000Z");
        assert_eq!(board.look().0[0].last_tick, Some(1_795_251_609));
        clock.set(now);
        let expected = if is_again { "2026-11-21T09:00:00.000Z" } else { "2026-11-21T10:00:00.000Z" };
        assert_eq!(next(&board), expected, "{now}");
    }
}

#[test]
fn a_clock_that_goes_on_after_a_step_back_is_not_set_back_again() {
    let (board, clock, id) = board("2026-11-21T09:00:00Z", schedule("0 0 * * * *", "UTC", Missed::Skip));
    clock.set("2026-11-21T08:30:00Z");
    board.look();
    clock.set("2026-11-21T09:00:00Z");
    assert!(board.due(id).is_some());
    board.ticked(id, None);
    clock.set("2026-11-21T09:00:30Z");
    assert_eq!(next(&board), "2026-11-21T10:00:00.000Z");
    assert_eq!(board.due(id), None, "it has fired, and nothing has made it forget that");
}

#[tokio::test]
async fn the_storage_answers_what_the_scheduler_asks() {
    let (mut board, _, id) = board("2026-11-21T08:00:00Z", schedule("0 0 * * * *", "UTC", Missed::Skip));
    board.answer_at_once(true);
    board.init().await.unwrap();
    assert!(board.inited().await.unwrap());
    let row = board.get(id).await.unwrap().unwrap();
    assert_eq!(board.list_next_ticks().await.unwrap()[0].next_tick, row.next_tick);
    board.set_next_and_last_tick(id, None, Some(at("2026-11-21T09:00:00Z").datetime())).await.unwrap();
    assert_eq!(next(&board), "2026-11-21T10:00:00.000Z");
    board.add_or_update(row).await.unwrap();
    assert_eq!(next(&board), "2026-11-21T09:00:00.000Z", "a row that is put in is told its next tick anew");
    assert_eq!(board.time_till_next_job().await.unwrap(), None);
    board.delete(id).await.unwrap();
    assert!(board.get(id).await.unwrap().is_none() && board.look().0.is_empty());
}
