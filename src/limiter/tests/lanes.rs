//! Bound on the wait of each lane while all lanes before it are endless, over hours of virtual time.

use super::*;

/// Longest wait of a call while the lanes before its own are endless, at 120 calls a minute.
///
/// A poll has every fifth bulk turn, and bulk calls have every tenth turn of operators. Operators' calls are
/// not paced and use up the minute in a rush; then every call waits for the first reservation to end.
const POLL_BEHIND_PUSHES: Duration = Duration::from_secs(4);
const PUSH_BEHIND_OPERATORS: Duration = Duration::from_secs(60);
const POLL_BEHIND_BOTH: Duration = Duration::from_secs(60);

/// Returns the longest wait in the last of these lanes.
///
/// All lanes are endless for two hours.
async fn longest_wait(lanes: &[Lane]) -> Duration {
    let limiter = limiter(LimiterSettings::default());
    let longest = Arc::new(Mutex::new(Duration::ZERO));
    let last = *lanes.last().unwrap();
    let mut callers = JoinSet::new();
    // The measured lane has one caller, so that the caller does not wait behind its own lane.
    let crowd = lanes.iter().filter(|lane| **lane != last).flat_map(|lane| [*lane; 4]);
    for (n, lane) in crowd.chain([last]).enumerate() {
        let (limiter, longest) = (limiter.clone(), Arc::clone(&longest));
        let operation = Operation::ALL[n % Operation::ALL.len()];
        callers.spawn(async move {
            loop {
                let begun = Instant::now();
                let permit = limiter.acquire(operation, lane, PacePayment::Paced).await;
                if lane == last {
                    let longest = &mut *longest.lock().unwrap();
                    *longest = (*longest).max(begun.elapsed());
                }
                sleep(Duration::from_millis(200)).await;
                drop(permit.complete_call(QuotaOutcome::Answered));
            }
        });
    }
    sleep(seconds(2 * 3600)).await;
    callers.shutdown().await;
    Arc::into_inner(longest).unwrap().into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_lane_waits_longer_than_its_bound() {
    let cases: [(&[Lane], Duration); 3] = [
        (&[Lane::Push, Lane::Poll], POLL_BEHIND_PUSHES),
        (&[Lane::Operator, Lane::Push], PUSH_BEHIND_OPERATORS),
        (&[Lane::Operator, Lane::Push, Lane::Poll], POLL_BEHIND_BOTH),
    ];
    for (lanes, bound) in cases {
        let longest = longest_wait(lanes).await;
        assert!(longest <= bound, "{lanes:?}: {longest:?}, at most {bound:?}");
        assert!(longest * 2 >= bound, "{lanes:?}: {longest:?}: the bound says too little");
    }
}
