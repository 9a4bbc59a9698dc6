//! Days in virtual time with all disturbances at once, judged by the calls that arrived at the platform.
//!
//! The disturbances: rushes and quiet hours, crashes, suspends, calendar steps of an hour, a network that
//! jitters and stalls, lost answers, calls that are never sent, and requests answered 400.
//!
//! The short form runs with every test. `TALLYD_ENDURANCE=1000000 cargo test --release endurance` runs a
//! million calls (about a week of the account's quota).

use super::world::{CallArrival, CallWorld, Conditions, LIMIT, count_violations};
use super::*;

const SHORT: usize = 90_000;
const BAD_REQUESTS_A_DAY: usize = 500;

/// Returns the most calls of one operation at the platform at once.
fn most_at_once(arrivals: &[CallArrival]) -> i64 {
    let at_once = |operation: &Operation| {
        let calls = arrivals.iter().filter(|call| call.operation == *operation);
        // At the same instant, an end sorts before a beginning.
        let mut edges: Vec<(i64, i64)> = calls.flat_map(|call| [(call.from, 1), (call.until, -1)]).collect();
        edges.sort_unstable();
        edges.iter().fold((0, 0), |(most, count), (_, step)| (most.max(count + step), count + step)).0
    };
    Operation::ALL.iter().map(at_once).max().unwrap_or(0)
}

fn most_bad_in_a_day(arrivals: &[CallArrival]) -> usize {
    let bad: Vec<i64> = arrivals.iter().filter(|call| call.is_bad).map(|call| call.from).collect();
    let in_a_day = |(index, from): (usize, &i64)| {
        bad[index..].iter().take_while(|at| **at - from < 24 * 3_600_000).count()
    };
    bad.iter().enumerate().map(in_a_day).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn days_of_everything_at_once_break_no_limit_of_the_service() {
    let calls = std::env::vars().find(|(name, _)| name == "TALLYD_ENDURANCE");
    let calls: usize = calls.map_or(SHORT, |(_, calls)| calls.parse().unwrap());
    let conditions = Conditions { stalls: Some((50, 3_500)), is_disturbed: true };
    let world = CallWorld::new(0x7a11_1d5e_ed00_0001, conditions);
    let (mut stored, mut lives) = (LimiterState::default(), 0);
    while world.arrival_count() < calls {
        stored = world.run_life(calls, ONE_MINUTE * 60, stored).await;
        lives += 1;
        world.pause_below(5_000).await;
    }
    let arrivals = world.sorted_arrivals();
    let (violations, at_once) = (count_violations(&arrivals), most_at_once(&arrivals));
    let bad = most_bad_in_a_day(&arrivals);
    let count = arrivals.len();
    println!("{count} calls, {lives} lives: {violations} violations, {at_once} at once, {bad} bad in a day");
    assert_eq!(violations, 0, "more than {LIMIT} within 60 s");
    assert_eq!(at_once, 3, "calls of one operation at once");
    assert!(bad < BAD_REQUESTS_A_DAY, "{bad} in a day");
    assert!(bad > 300, "the poison was not tried: {bad}");
}
