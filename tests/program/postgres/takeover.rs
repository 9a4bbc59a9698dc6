//! Many takeovers of two hosts: how long they take, what a replaced leader does, and how much of the quota is used.
//!
//! Ignored by default, because each waits for minutes; `.ci/long` runs them.

#![allow(clippy::print_stdout, reason = "a measurement prints its figures")]

use super::hosts::{Host, Inserting, fill, judge, separate_boots, settling, write_config};
use crate::support::World;
use crate::support::cluster::Cluster;
use tallyd::sandbox::SandboxOptions;
use tokio::time::{Duration, Instant, sleep};

/// Prints median and worst of measured times.
pub(super) fn print_spread(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    println!(
        "{what}: median {:.1?}, longest {:.1?} of {}",
        times[times.len() / 2],
        times.last().unwrap(),
        times.len()
    );
}

/// Rounds of each world of a measurement.
pub(super) const ROUNDS: usize = 5;

/// Waits for a part of the heartbeat's interval of 5 s, another one in each round of each of four worlds: the time from
/// the last heartbeat to the end decides how long a takeover takes.
pub(super) async fn wait_for_phase(world: usize, round: usize) {
    let phase = u64::try_from(world * ROUNDS + round).unwrap();
    sleep(Duration::from_millis(250 * phase)).await;
}

/// Ends the leader in a way in each round, and returns the times to the next lead and from it to the first call.
async fn takeovers(cluster: &Cluster, kind: &str, number: usize, signal: &str) -> Vec<(Duration, Duration)> {
    let world = World::on_server(cluster, &format!("{kind}_{number}")).await;
    fill(&world).await;
    separate_boots(&world).await;
    let (before, config) = (world.shop().await, settling(&world));
    let configs = ["one", "other"].map(|name| write_config(&world, name, &config));
    let inserting = Inserting::start(&world, Duration::from_millis(100)).await;
    let mut leader = Host::start_with(configs[0].clone());
    leader.until("daemon.ready").await;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let mut standby = Host::start_with(configs[(round + 1) % 2].clone());
        standby.until("lead.standby").await;
        wait_for_phase(number, round).await;
        leader.signal(signal).await;
        leader.ended().await;
        let (ended, clock) = (Instant::now(), world.sandbox.core().clock());
        standby.until("lead.taken").await;
        let (took, taken_ms) = (ended.elapsed(), clock.now_ms());
        let ended_ms = taken_ms - i64::try_from(took.as_millis()).unwrap();
        let first_call = || {
            let calls = world.sandbox.logged_calls();
            calls.iter().map(|call| call.started_at_ms).find(|started| *started > ended_ms)
        };
        let called_ms = loop {
            match first_call() {
                Some(called_ms) => break called_ms,
                None => sleep(Duration::from_millis(10)).await,
            }
        };
        times.push((took, Duration::from_millis(called_ms.saturating_sub(taken_ms).try_into().unwrap_or(0))));
        leader = standby;
    }
    judge(&world, &before, inserting.stop().await, leader).await;
    times
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes three minutes; .ci/long runs it"]
async fn twenty_takeovers_of_each_kind_take_as_long_as_promised() {
    let Some(cluster) = Cluster::start() else { return };
    for (kind, signal, lead_limit) in [("stop", "-TERM", 500), ("kill", "-KILL", 17_000)] {
        let [a, b, c, d] = [0, 1, 2, 3].map(|number| takeovers(&cluster, kind, number, signal));
        let (a, b, c, d) = tokio::join!(a, b, c, d);
        let (leads, calls): (Vec<_>, Vec<_>) = [a, b, c, d].concat().into_iter().unzip();
        let longest = *leads.iter().max().unwrap();
        let last_call = *calls.iter().max().unwrap();
        print_spread(&format!("{kind}: to the lead"), leads);
        print_spread(&format!("{kind}: from the lead to the first call"), calls);
        assert!(longest <= Duration::from_millis(lead_limit), "{longest:?}");
        assert!(last_call <= Duration::from_secs(1), "{last_call:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes eleven minutes; .ci/long runs it"]
async fn leaders_that_change_every_20_s_keep_the_quota_and_use_it() {
    const CALLS_PER_MINUTE: usize = 120;
    let Some(cluster) = Cluster::start() else { return };
    let options = SandboxOptions {
        orders: 2_000,
        calls_per_minute: u32::try_from(CALLS_PER_MINUTE).unwrap(),
        ..SandboxOptions::default()
    };
    // The order lines are a backlog that never ends: each line has a call of its own. A page of balances would grow.
    let extra =
        "[limits]\ncalls_per_minute = 120\nshare = 1.0\n[jobs.order_lines]\nschedule = \"* * * * * *\"\n";
    let mut world = World::with(options, extra).await;
    world.location = cluster.location("north", &world.path);
    world.track_all().await;
    separate_boots(&world).await;
    let config = world.toml("");
    let configs = ["one", "other"].map(|name| write_config(&world, name, &config));
    let mut leader = Host::start_with(configs[0].clone());
    leader.until("daemon.ready").await;
    let begun_ms = world.sandbox.core().clock().now_ms();
    for round in 0..30 {
        let mut standby = Host::start_with(configs[(round + 1) % 2].clone());
        standby.until("lead.standby").await;
        sleep(Duration::from_secs(20)).await;
        leader.signal("-TERM").await;
        assert_eq!(leader.ended().await, Some(0));
        standby.until("daemon.ready").await;
        leader = standby;
    }
    let ended_ms = world.sandbox.core().clock().now_ms();
    let calls = world.sandbox.logged_calls();
    assert!(calls.iter().all(|call| call.status != Some(429)), "the platform refused a call");
    let started: Vec<i64> = calls.iter().map(|call| call.started_at_ms).collect();
    let fullest =
        started.iter().map(|from| started.iter().filter(|at| (*from..from + 60_000).contains(at)).count());
    let fullest = fullest.max().unwrap();
    let minutes = (ended_ms - begun_ms) as f64 / 60_000.0;
    let made = started.iter().filter(|at| (begun_ms..ended_ms).contains(at)).count();
    let used = made as f64 / (minutes * CALLS_PER_MINUTE as f64);
    println!("{made} calls in {minutes:.1} minutes: {used:.3} of the quota; fullest minute {fullest}");
    assert!(fullest <= CALLS_PER_MINUTE, "{fullest}");
    assert!(used >= 0.9, "{used}");
}
