//! Hours of backlog in virtual time against a strict platform: every arrival counts, in every 60 s of its own
//! clock.
//!
//! The program crashes now and then. After a crash it has the state that a journal would give, while the
//! requests in flight still arrive. Deterministic: the same seed gives the same hours.

use super::*;
use tokio::sync::oneshot;

const LIMIT: usize = 120;
const LIVES: usize = 9;
const CALLS: usize = 22_000;
/// Enough workers that calls never wait for answers.
const WORKERS: usize = 24;

/// Network trips of 50 to 450 ms, some of them stalled for up to 5 s more.
#[derive(Clone, Copy)]
struct NetworkModel {
    stalling_percent: u64,
}

impl NetworkModel {
    fn trip_time(self, random: &mut LimiterRandom) -> Duration {
        let stalls = random.next_below(100) < self.stalling_percent;
        let stall = if stalls { random.next_below(5_000) } else { 0 };
        Duration::from_millis(50 + random.next_below(400) + stall)
    }
}

/// Journal row of a call: written before the send and completed at the answer.
struct JournalRow {
    operation: Operation,
    answered: Option<Moment>,
}

/// State that survives a crash: the platform, the journal, and the calendar.
struct SimulationWorld {
    network: NetworkModel,
    clock: Arc<TestClock>,
    random: Mutex<LimiterRandom>,
    arrivals: Mutex<Vec<Instant>>,
    journal: Mutex<Vec<JournalRow>>,
}

impl SimulationWorld {
    fn new(seed: u64, network: NetworkModel) -> Arc<Self> {
        let (clock, random) = (TestClock::new(), Mutex::new(LimiterRandom(seed)));
        Arc::new(Self { network, clock, random, arrivals: Mutex::default(), journal: Mutex::default() })
    }

    fn next_below(&self, bound: u64) -> u64 {
        self.random.lock().unwrap().next_below(bound)
    }

    fn arrivals(&self) -> usize {
        self.arrivals.lock().unwrap().len()
    }

    /// Sends a request, which arrives even if its sender has crashed. One answer in 200 is lost.
    fn send_request(self: &Arc<Self>) -> oneshot::Receiver<()> {
        let (answer, answered) = oneshot::channel();
        let world = Arc::clone(self);
        tokio::spawn(async move {
            let (there, back, lost) = {
                let random = &mut *world.random.lock().unwrap();
                (world.network.trip_time(random), world.network.trip_time(random), random.one_in(200))
            };
            sleep(there).await;
            world.arrivals.lock().unwrap().push(Instant::now());
            sleep(back).await;
            if lost {
                sleep(seconds(60)).await;
            }
            let _ = answer.send(());
        });
        answered
    }

    /// Runs one worker of the program until the crash.
    async fn run_worker(self: Arc<Self>, limiter: Limiter) {
        loop {
            let operation = Operation::ALL[usize::try_from(self.next_below(20)).unwrap()];
            let lane = match self.next_below(100) {
                0 => Lane::Operator,
                1..50 => Lane::Push,
                _ => Lane::Poll,
            };
            let Ok(permit) = limiter.acquire(operation, lane, PacePayment::Paced).await else { return };
            let claim = {
                let journal = &mut *self.journal.lock().unwrap();
                journal.push(JournalRow { operation, answered: None });
                journal.len() - 1
            };
            let outcome = match timeout(seconds(30), self.send_request()).await {
                Ok(_) => QuotaOutcome::Answered,
                Err(_) => QuotaOutcome::TimedOut,
            };
            self.journal.lock().unwrap()[claim].answered = Some(self.clock.moment());
            assert_eq!(permit.complete_call(outcome), [], "nothing was throttled");
        }
    }

    /// Returns the state that the journal gives a starting program.
    fn persisted_state(&self) -> PersistedState {
        let now = self.clock.moment();
        let mut journal = self.journal.lock().unwrap();
        let recent =
            |claim: &&JournalRow| claim.answered.is_none_or(|at| now.duration_since(at) < seconds(120));
        let reservations = journal.iter().filter(recent).map(|claim| match claim.answered {
            Some(at) => PastReservation::Answered(at),
            None => PastReservation::Unanswered(claim.operation),
        });
        let state = PersistedState { reservations: reservations.collect(), ..PersistedState::default() };
        // The start completes the calls that the crash left open.
        journal.iter_mut().for_each(|claim| claim.answered = claim.answered.or(Some(now)));
        state
    }

    /// Runs the program until `calls` have arrived in total, then crashes it.
    async fn run_life(self: &Arc<Self>, calls: usize) {
        let limiter = Limiter::new(LimiterSettings::default(), self.clock.clone(), self.persisted_state());
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(Arc::clone(self).run_worker(limiter.clone()));
        }
        while self.arrivals() < calls {
            sleep(Duration::from_millis(700)).await;
            assert!(limiter.quota_usage().held <= 120);
        }
        workers.shutdown().await;
    }

    /// Returns the arrivals beyond the quota, which a strict platform answers with 429.
    fn violations(&self) -> usize {
        let mut arrivals = self.arrivals.lock().unwrap().clone();
        arrivals.sort_unstable();
        let minutes = arrivals.windows(LIMIT + 1);
        minutes.filter(|calls| calls[LIMIT] - calls[0] <= seconds(60)).count()
    }
}

/// Returns the violations and the used part of the quota over all lives.
async fn simulate(seed: u64, network: NetworkModel) -> (usize, f64) {
    let world = SimulationWorld::new(seed, network);
    let start = Instant::now();
    for life in 1..=LIVES {
        world.run_life(CALLS * life / LIVES).await;
        world.clock.step_calendar(-600_000);
        sleep(Duration::from_millis(world.next_below(2_000))).await;
    }
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let arrived = u32::try_from(world.arrivals()).unwrap();
    (world.violations(), f64::from(arrived) / (minutes * 120.0))
}

#[tokio::test(start_paused = true)]
async fn hours_of_backlog_with_crashes_break_no_minute_and_waste_little() {
    for seed in [0x5eed, 0xfeed_beef] {
        let (violations, used) = simulate(seed, NetworkModel { stalling_percent: 0 }).await;
        assert_eq!(violations, 0, "seed {seed:#x}");
        assert!(used >= 0.96, "seed {seed:#x}: {used}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_network_that_stalls_costs_calls_but_breaks_no_minute() {
    let (violations, used) = simulate(0xdead_cafe, NetworkModel { stalling_percent: 10 }).await;
    assert_eq!(violations, 0);
    assert!(used >= 0.95, "{used}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_without_state_is_caught_by_this_simulation() {
    let world = SimulationWorld::new(7, NetworkModel { stalling_percent: 0 });
    for calls in [300, 400, 500] {
        world.run_life(calls).await;
        world.journal.lock().unwrap().clear();
    }
    assert!(world.violations() > 0);
}
