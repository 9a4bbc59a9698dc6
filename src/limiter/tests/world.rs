//! A strict platform and the program's journal in virtual time, for hours of calls with crashes.
//!
//! After a crash the program has the state that a journal would give, while the requests in flight still
//! arrive. Deterministic: the same seed gives the same hours.

use super::*;
use tokio::sync::oneshot;

pub(super) const LIMIT: usize = 120;
/// Enough workers that calls never wait for answers.
const WORKERS: usize = 24;
/// Operations answered 400 one time in eight.
const POISONED: [Operation; 2] = [Operation::UpdateQuantityOnHand, Operation::CreateProduct];

/// Conditions of a run, beside crashes and lost answers.
#[derive(Clone, Copy)]
pub(super) struct Conditions {
    /// Stalls of network trips: one trip in so many, for at most so many milliseconds.
    pub(super) stalls: Option<(u64, u64)>,
    /// True with quiet hours, calendar steps, suspends, slow answers, answers of 400, and calls that are
    /// never sent. Otherwise a backlog is endless and each answer quick.
    pub(super) is_disturbed: bool,
}

impl Conditions {
    /// Returns the time of one network trip in milliseconds.
    fn trip_time(self, random: &mut LimiterRandom) -> u64 {
        let stall = match self.stalls {
            Some((one_in, longest)) if random.one_in(one_in) => random.next_below(longest),
            _ => 0,
        };
        20 + random.next_below(400) + stall
    }
}

/// A call as seen by the platform, in milliseconds of a clock without steps.
#[derive(Clone, Copy)]
pub(super) struct CallArrival {
    pub(super) operation: Operation,
    pub(super) from: i64,
    pub(super) until: i64,
    pub(super) is_bad: bool,
}

/// Journal row of a call: written before the send and completed at the answer.
struct CallRecord {
    operation: Operation,
    answered: Option<Moment>,
    bad_at: Option<Moment>,
}

/// State that survives a crash: the platform, the journal, and the calendar.
pub(super) struct CallWorld {
    conditions: Conditions,
    pub(super) clock: Arc<TestClock>,
    random: Mutex<LimiterRandom>,
    arrivals: Mutex<Vec<CallArrival>>,
    journal: Mutex<Vec<CallRecord>>,
}

impl CallWorld {
    pub(super) fn new(seed: u64, conditions: Conditions) -> Arc<Self> {
        let (clock, random) = (TestClock::new(), Mutex::new(LimiterRandom(seed)));
        Arc::new(Self { conditions, clock, random, arrivals: Mutex::default(), journal: Mutex::default() })
    }

    pub(super) fn roll<T>(&self, roll: impl FnOnce(&mut LimiterRandom) -> T) -> T {
        roll(&mut self.random.lock().unwrap())
    }

    /// Waits for less than `bound_ms` milliseconds.
    pub(super) async fn pause_below(&self, bound_ms: u64) {
        let pause = self.roll(|random| random.next_below(bound_ms));
        sleep(Duration::from_millis(pause)).await;
    }

    pub(super) fn arrival_count(&self) -> usize {
        self.arrivals.lock().unwrap().len()
    }

    /// Returns all calls in the order of their arrival.
    pub(super) fn sorted_arrivals(&self) -> Vec<CallArrival> {
        let mut arrivals = self.arrivals.lock().unwrap().clone();
        arrivals.sort_unstable_by_key(|call| call.from);
        arrivals
    }

    pub(super) fn forget_journal(&self) {
        self.journal.lock().unwrap().clear();
    }

    /// Sends a request, which arrives even if its sender has crashed. Returns true for an answer of 400.
    fn send_request(self: &Arc<Self>, operation: Operation) -> oneshot::Receiver<bool> {
        let (answer, answered) = oneshot::channel();
        let world = Arc::clone(self);
        tokio::spawn(async move {
            let conditions = world.conditions;
            let (there, work, back, is_lost, is_bad) = world.roll(|random| {
                let is_bad = conditions.is_disturbed && POISONED.contains(&operation) && random.one_in(8);
                let work = match operation {
                    _ if !conditions.is_disturbed => 0,
                    // Slow enough to make reads wait for slots. Calls left by a crash end within the grace time.
                    READ => 1_500 + random.next_below(1_500),
                    _ => random.next_below(300),
                };
                (conditions.trip_time(random), work, conditions.trip_time(random), random.one_in(200), is_bad)
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
    async fn run_worker(self: Arc<Self>, limiter: Limiter, is_calm: bool) {
        loop {
            if is_calm {
                self.pause_below(30_000).await;
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
            self.make_call(operation, permit).await;
        }
    }

    async fn make_call(self: &Arc<Self>, operation: Operation, permit: Permit) {
        let is_hit = || self.conditions.is_disturbed && self.roll(|random| random.one_in(100));
        if is_hit() {
            permit.return_unused();
            return;
        }
        let claim = {
            let journal = &mut *self.journal.lock().unwrap();
            journal.push(CallRecord { operation, answered: None, bad_at: None });
            journal.len() - 1
        };
        let outcome = if is_hit() {
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
        let events = permit.complete_call(outcome);
        assert!(events.is_empty() || self.conditions.is_disturbed, "throttled: {events:?}");
    }

    /// Returns the state that the journal gives a starting program, and completes the calls left open by the
    /// crash.
    fn persisted_state(&self, limiter_state: LimiterState) -> PersistedState {
        let now = self.clock.moment();
        let mut journal = self.journal.lock().unwrap();
        let is_recent = |claim: &&CallRecord| claim.answered.is_none_or(|at| at > now.minus(ONE_MINUTE * 2));
        let reservations = journal.iter().filter(is_recent).map(|claim| match claim.answered {
            Some(at) => PastReservation::Answered(at),
            None => PastReservation::GivenUp(claim.operation, now),
        });
        let day_ago = now.minus(ONE_MINUTE * 60 * 24);
        let bad = journal.iter().filter_map(|claim| Some((claim.bad_at?, claim.operation)));
        let bad_requests = bad.filter(|(at, _)| *at >= day_ago).collect();
        let state = PersistedState { reservations: reservations.collect(), bad_requests, limiter_state };
        journal.iter_mut().for_each(|claim| claim.answered = claim.answered.or(Some(now)));
        state
    }

    /// Runs the program until `calls` have arrived in total or `at_most` has passed, then crashes it.
    ///
    /// Returns the state that the program has stored.
    pub(super) async fn run_life(
        self: &Arc<Self>,
        calls: usize,
        at_most: Duration,
        stored: LimiterState,
    ) -> LimiterState {
        let limiter =
            Limiter::new(LimiterSettings::default(), self.clock.clone(), self.persisted_state(stored));
        let is_calm = self.conditions.is_disturbed && self.roll(|random| random.one_in(4));
        let (mut workers, start) = (JoinSet::new(), Instant::now());
        for _ in 0..WORKERS {
            workers.spawn(Arc::clone(self).run_worker(limiter.clone(), is_calm));
        }
        while self.arrival_count() < calls && start.elapsed() < at_most {
            sleep(seconds(10)).await;
            if self.conditions.is_disturbed {
                self.disturb_clocks();
            }
            assert!(limiter.quota_usage().held <= 120);
        }
        workers.shutdown().await;
        limiter.persisted_state().limiter_state
    }

    fn disturb_clocks(&self) {
        match self.roll(|random| random.next_below(400)) {
            0 => self.clock.step_calendar(3_600_000),
            1 => self.clock.step_calendar(-3_600_000),
            2 => self.clock.suspend(self.roll(|random| i64::try_from(random.next_below(600_000)).unwrap())),
            _ => {}
        }
    }
}

/// Returns the arrivals beyond the quota, which a strict platform answers with 429.
pub(super) fn count_violations(sorted: &[CallArrival]) -> usize {
    sorted.windows(LIMIT + 1).filter(|calls| calls[LIMIT].from - calls[0].from <= 60_000).count()
}
