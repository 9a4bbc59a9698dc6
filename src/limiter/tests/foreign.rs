//! Tests with an account that grants less than configured, because of other software or a lockout.
//!
//! A backlog runs in virtual time against a platform that counts strictly. The tests count the refused calls.

use super::*;

/// The account's quota for us, and its refusals.
#[derive(Clone, Copy)]
struct ForeignPlatform {
    /// Calls admitted in any 60 s.
    grants: usize,
    /// `None`: refusals carry no explanation.
    retry_after: Option<u64>,
    /// Seconds from the start in which no call is admitted.
    blocked_for: u64,
}

struct ForeignWorld {
    platform: ForeignPlatform,
    start: Instant,
    admitted: Mutex<Vec<Instant>>,
    refused: Mutex<Vec<Instant>>,
}

impl ForeignWorld {
    async fn answer_call(&self) -> QuotaOutcome {
        sleep(Duration::from_millis(150)).await;
        let now = Instant::now();
        let is_admitted = {
            let admitted = &mut *self.admitted.lock().unwrap();
            let recent = admitted.iter().filter(|at| now - **at < ONE_MINUTE).count();
            let free =
                now - self.start >= seconds(self.platform.blocked_for) && recent < self.platform.grants;
            free.then(|| admitted.push(now)).is_some()
        };
        sleep(Duration::from_millis(150)).await;
        if is_admitted {
            return QuotaOutcome::Answered;
        }
        self.refused.lock().unwrap().push(now);
        match self.platform.retry_after {
            Some(wait) => QuotaOutcome::RateThrottled(seconds(wait)),
            None => QuotaOutcome::ConcurrencyThrottled,
        }
    }

    /// Returns the most refused calls within any 35 s.
    fn most_in_vain(&self) -> usize {
        let refused = self.refused.lock().unwrap();
        let within =
            |from: Instant| refused.iter().filter(|at| **at >= from && **at - from < seconds(35)).count();
        refused.iter().map(|from| within(*from)).max().unwrap_or(0)
    }

    fn admitted_after(&self, from: u64) -> usize {
        self.admitted.lock().unwrap().iter().filter(|at| **at - self.start >= seconds(from)).count()
    }
}

/// Runs pushes and polls of several operations for `for_s` seconds.
async fn run_backlog(platform: ForeignPlatform, for_s: u64) -> Arc<ForeignWorld> {
    let start = Instant::now();
    let world =
        Arc::new(ForeignWorld { platform, start, admitted: Mutex::default(), refused: Mutex::default() });
    let limiter = limiter(LimiterSettings::default());
    let mut workers = JoinSet::new();
    for n in 0..12 {
        let (limiter, world) = (limiter.clone(), Arc::clone(&world));
        let (operation, lane) =
            [(PUSH, Lane::Push), (READ, Lane::Push), (Operation::GetOrderLineItems, Lane::Poll)][n % 3];
        workers.spawn(async move {
            loop {
                let permit = limiter.acquire(operation, lane, PacePayment::Paced).await;
                let outcome = world.answer_call().await;
                drop(permit.complete_call(outcome));
            }
        });
    }
    sleep(seconds(for_s)).await;
    workers.shutdown().await;
    world
}

#[tokio::test(start_paused = true)]
async fn far_less_than_configured_costs_eight_calls_in_35_s_at_most_and_what_is_granted_is_used() {
    for grants in [1, 5, 10, 20, 30, 60, 100] {
        for retry_after in [1, 2, 5, 20, 60] {
            let platform = ForeignPlatform { grants, retry_after: Some(retry_after), blocked_for: 0 };
            let world = run_backlog(platform, 600).await;
            let (in_vain, admitted) = (world.most_in_vain(), world.admitted_after(0));
            assert!(in_vain <= 8, "{grants} a minute, Retry-After {retry_after}: {in_vain} in vain");
            let used = admitted * 10 / grants; // of ten minutes, in percent
            assert!(used >= 60, "{grants} a minute, Retry-After {retry_after}: {used} % of it used");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_without_an_explanation_is_met_with_silence_and_single_calls_and_ends_when_it_ends() {
    let platform = ForeignPlatform { grants: 120, retry_after: None, blocked_for: 1_800 };
    let world = run_backlog(platform, 2_700).await;
    let in_vain = world.most_in_vain();
    assert!(in_vain <= 8, "{in_vain} in vain within 35 s");
    let all = world.refused.lock().unwrap().len();
    assert!(all <= 24, "{all} in vain in half an hour");
    assert!(world.admitted_after(2_100) >= 118 * 9, "{}", world.admitted_after(2_100));
}
