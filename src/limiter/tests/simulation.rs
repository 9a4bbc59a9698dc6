//! Hours of backlog in virtual time against a strict platform: every arrival counts, in every 60 s of its own
//! clock.

use super::world::{CallWorld, Conditions, count_violations};
use super::*;

const LIVES: usize = 9;
const CALLS: usize = 22_000;
const STEADY: Conditions = Conditions { stalls: None, is_disturbed: false };
/// A tenth of the network trips stalls for up to 5 s.
const STALLING: Conditions = Conditions { stalls: Some((10, 5_000)), ..STEADY };

/// Returns the violations and the used part of the quota over all lives.
async fn simulate(seed: u64, conditions: Conditions) -> (usize, f64) {
    let world = CallWorld::new(seed, conditions);
    let start = Instant::now();
    for life in 1..=LIVES {
        world.run_life(CALLS * life / LIVES, Duration::MAX, LimiterState::default()).await;
        world.clock.step_calendar(-600_000);
        world.pause_below(2_000).await;
    }
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let arrived = u32::try_from(world.arrival_count()).unwrap();
    (count_violations(&world.sorted_arrivals()), f64::from(arrived) / (minutes * 120.0))
}

#[tokio::test(start_paused = true)]
async fn hours_of_backlog_with_crashes_break_no_minute_and_waste_little() {
    for seed in [0x5eed, 0xfeed_beef] {
        let (violations, used) = simulate(seed, STEADY).await;
        assert_eq!(violations, 0, "seed {seed:#x}");
        assert!(used >= 0.96, "seed {seed:#x}: {used}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_network_that_stalls_costs_calls_but_breaks_no_minute() {
    let (violations, used) = simulate(0xdead_cafe, STALLING).await;
    assert_eq!(violations, 0);
    assert!(used >= 0.95, "{used}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_without_state_is_caught_by_this_simulation() {
    let world = CallWorld::new(7, STEADY);
    for calls in [300, 400, 500] {
        world.run_life(calls, Duration::MAX, LimiterState::default()).await;
        world.forget_journal();
    }
    assert!(count_violations(&world.sorted_arrivals()) > 0);
}
