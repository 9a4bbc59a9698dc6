//! Days in virtual time with all disturbances at once, judged by the calls that arrived at the platform.
//!
//! The disturbances: rushes and quiet hours, crashes, suspends, calendar steps of an hour, a network that
//! jitters and stalls, lost answers, calls that are never sent, and requests answered 400.
//!
//! The short form runs with every test. `TALLYD_ENDURANCE=1000000 cargo test --release endurance` runs a
//! million calls (about a week of the account's quota).

use super::*;
use tokio::sync::oneshot;

const LIMIT: usize = 120;
const SHORT: usize = 90_000;
const WORKERS: usize = 24;
/// Operations answered 400 one time in eight.
const POISONED: [Operation; 2] = [Operation::UpdateQuantityOnHand, Operation::CreateProduct];
const BAD_REQUESTS_A_DAY: usize = 500;

/// Returns the time of one network trip in milliseconds.
fn trip_time(random: &mut LimiterRandom) -> u64 {
    let stall = if random.one_in(50) { random.next_below(3_500) } else { 0 };
    20 + random.next_below(400) + stall
}

/// A call as seen by the platform, in milliseconds of a clock without steps.
#[derive(Clone, Copy)]
struct CallArrival {
    operation: Operation,
    from: i64,
    until: i64,
    is_bad: bool,
}

/// Row of the simulated journal.
struct CallRecord {
    operation: Operation,
    answered: Option<Moment>,
    bad_at: Option<Moment>,
}

struct EnduranceWorld {
    clock: Arc<TestClock>,
    random: Mutex<LimiterRandom>,
    arrivals: Mutex<Vec<CallArrival>>,
    journal: Mutex<Vec<CallRecord>>,
}

impl EnduranceWorld {
    fn roll<T>(&self, roll: impl FnOnce(&mut LimiterRandom) -> T) -> T {
        roll(&mut self.random.lock().unwrap())
    }

    fn arrival_count(&self) -> usize {
        self.arrivals.lock().unwrap().len()
    }

    /// Sends a request, which arrives even if its sender has crashed.
    fn send_request(self: &Arc<Self>, operation: Operation) -> oneshot::Receiver<bool> {
        let (answer, answered) = oneshot::channel();
        let world = Arc::clone(self);
        tokio::spawn(async move {
            let (there, work, back, is_lost, is_bad) = world.roll(|random| {
                let is_bad = POISONED.contains(&operation) && random.one_in(8);
                // Slow enough to make reads wait for slots. Calls left by a crash end within the grace time.
                let work =
                    if operation == READ { 1_500 + random.next_below(1_500) } else { random.next_below(300) };
                (trip_time(random), work, trip_time(random), random.one_in(200), is_bad)
            });
            sleep(Duration::from_millis(there)).await;
            let from = world.clock.moment().0;
            sleep(Duration::from_millis(work)).await;
            let until = world.clock.moment().0;
            world.arrivals.lock().unwrap().push(CallArrival { operation, from, until, is_bad });
            sleep(Duration::from_millis(back)).await;
            if is_lost {
                sleep(ONE_MINUTE).await;
            }
            let _ = answer.send(is_bad);
        });
        answered
    }

    /// Runs one worker of the program until the crash.
    async fn run_worker(self: Arc<Self>, limiter: Limiter, calm: bool) {
        loop {
            if calm {
                let pause = self.roll(|random| random.next_below(30_000));
                sleep(Duration::from_millis(pause)).await;
            }
            let (operation, lane) = self.roll(|random| {
                let any = Operation::ALL[usize::try_from(random.next_below(20)).unwrap()];
                let operation = if random.one_in(2) { READ } else { any };
                let lane = [Lane::Operator, Lane::Push, Lane::Push, Lane::Poll, Lane::Poll];
                (operation, lane[usize::try_from(random.next_below(5)).unwrap()])
            });
            // A call that waits too long is cancelled, which leaves no trace.
            let Ok(permit) = timeout(ONE_MINUTE, limiter.acquire(operation, lane, PacePayment::Paced)).await
            else {
                continue;
            };
            let Ok(permit) = permit else { return };
            self.make_call(operation, permit).await;
        }
    }

    async fn make_call(self: &Arc<Self>, operation: Operation, permit: Permit) {
        if self.roll(|random| random.one_in(100)) {
            permit.return_unused();
            return;
        }
        let claim = {
            let journal = &mut *self.journal.lock().unwrap();
            journal.push(CallRecord { operation, answered: None, bad_at: None });
            journal.len() - 1
        };
        let outcome = if self.roll(|random| random.one_in(100)) {
            QuotaOutcome::NotSent
        } else {
            match timeout(seconds(30), self.send_request(operation)).await {
                Ok(Ok(true)) => QuotaOutcome::BadRequest,
                Ok(_) => QuotaOutcome::Answered,
                Err(_) => QuotaOutcome::TimedOut,
            }
        };
        let record = &mut self.journal.lock().unwrap()[claim];
        record.answered = Some(self.clock.moment());
        record.bad_at = (outcome == QuotaOutcome::BadRequest).then(|| self.clock.moment());
        drop(permit.complete_call(outcome));
    }

    /// Returns the state that the journal gives a starting program, and completes the calls left open by the
    /// crash.
    fn persisted_state(&self, limiter_state: LimiterState) -> PersistedState {
        let now = self.clock.moment();
        let mut journal = self.journal.lock().unwrap();
        let recent = journal.iter().rev().take(LIMIT);
        let reservations = recent.map(|claim| match claim.answered {
            Some(at) => PastReservation::Answered(at),
            None => PastReservation::Unanswered(claim.operation),
        });
        let day_ago = now.minus(ONE_MINUTE * 60 * 24);
        let bad = journal.iter().filter_map(|claim| Some((claim.bad_at?, claim.operation)));
        let bad_requests = bad.filter(|(at, _)| *at >= day_ago).collect();
        let state = PersistedState { reservations: reservations.collect(), bad_requests, limiter_state };
        journal.iter_mut().for_each(|claim| claim.answered = claim.answered.or(Some(now)));
        state
    }

    /// Runs the program until `calls` have arrived or an hour has passed, then crashes it.
    async fn run_life(self: &Arc<Self>, calls: usize, stored: LimiterState) -> LimiterState {
        let limiter =
            Limiter::new(LimiterSettings::default(), self.clock.clone(), self.persisted_state(stored));
        let calm = self.roll(|random| random.one_in(4));
        let (mut workers, start) = (JoinSet::new(), Instant::now());
        for _ in 0..WORKERS {
            workers.spawn(Arc::clone(self).run_worker(limiter.clone(), calm));
        }
        while self.arrival_count() < calls && start.elapsed() < ONE_MINUTE * 60 {
            sleep(seconds(10)).await;
            match self.roll(|random| random.next_below(400)) {
                0 => self.clock.step_calendar(3_600_000),
                1 => self.clock.step_calendar(-3_600_000),
                2 => {
                    self.clock.suspend(self.roll(|random| i64::try_from(random.next_below(600_000)).unwrap()))
                }
                _ => {}
            }
        }
        workers.shutdown().await;
        limiter.persisted_state().limiter_state
    }
}

/// Figures that the platform's limits are checked against.
struct LimitFigures {
    calls: usize,
    full_minutes: usize,
    most_at_once: usize,
    most_bad_in_a_day: usize,
}

fn limit_figures(world: &EnduranceWorld) -> LimitFigures {
    let mut arrivals = world.arrivals.lock().unwrap().clone();
    arrivals.sort_unstable_by_key(|call| call.from);
    let full_minutes =
        arrivals.windows(LIMIT + 1).filter(|calls| calls[LIMIT].from - calls[0].from <= 60_000);
    let at_once = |operation: &Operation| {
        let calls = arrivals.iter().filter(|call| call.operation == *operation);
        // At the same instant, an end sorts before a beginning.
        let mut edges: Vec<(i64, i64)> = calls.flat_map(|call| [(call.from, 1), (call.until, -1)]).collect();
        edges.sort_unstable();
        let counts = edges.iter().scan(0i64, |count, (_, step)| {
            *count += step;
            Some(*count)
        });
        usize::try_from(counts.max().unwrap_or(0)).unwrap()
    };
    let bad: Vec<i64> = arrivals.iter().filter(|call| call.is_bad).map(|call| call.from).collect();
    let in_a_day = |(index, from): (usize, &i64)| {
        bad[index..].iter().take_while(|at| **at - from < 24 * 3_600_000).count()
    };
    LimitFigures {
        calls: arrivals.len(),
        full_minutes: full_minutes.count(),
        most_at_once: Operation::ALL.iter().map(at_once).max().unwrap_or(0),
        most_bad_in_a_day: bad.iter().enumerate().map(in_a_day).max().unwrap_or(0),
    }
}

#[tokio::test(start_paused = true)]
async fn days_of_everything_at_once_break_no_limit_of_the_service() {
    let calls = std::env::vars().find(|(name, _)| name == "TALLYD_ENDURANCE");
    let calls: usize = calls.map_or(SHORT, |(_, calls)| calls.parse().unwrap());
    let world = Arc::new(EnduranceWorld {
        clock: TestClock::new(),
        random: Mutex::new(LimiterRandom(0x7a11_1d5e_ed00_0001)),
        arrivals: Mutex::default(),
        journal: Mutex::default(),
    });
    let (mut stored, mut lives) = (LimiterState::default(), 0);
    while world.arrival_count() < calls {
        stored = world.run_life(calls, stored).await;
        lives += 1;
        let pause = world.roll(|random| random.next_below(5_000));
        sleep(Duration::from_millis(pause)).await;
    }
    let figures = limit_figures(&world);
    println!(
        "{} calls in {lives} lives: {} full minutes, {} at once, {} bad requests in a day",
        figures.calls, figures.full_minutes, figures.most_at_once, figures.most_bad_in_a_day
    );
    assert_eq!(figures.full_minutes, 0, "more than {LIMIT} within 60 s");
    assert_eq!(figures.most_at_once, 3, "calls of one operation at once");
    assert!(figures.most_bad_in_a_day < BAD_REQUESTS_A_DAY, "{} in a day", figures.most_bad_in_a_day);
    assert!(figures.most_bad_in_a_day > 300, "the poison was not tried: {}", figures.most_bad_in_a_day);
}
