//! Leaders whose host vanishes: its wire is dead, with data on it that nobody acknowledges.
//!
//! Ignored by default, because it needs root and waits for minutes; `.ci/long` runs it.

#![allow(clippy::print_stdout, reason = "a measurement prints its figures")]

use super::hosts::{Host, Inserting, fill, judge, separate_boots, settling, write_config};
use super::takeover::{ROUNDS, print_spread, wait_for_phase};
use crate::support::World;
use crate::support::cluster::Cluster;
use crate::support::network::{NetworkHost, server_address};
use crate::support::road::open_road;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tokio::time::{Duration, Instant, sleep};

/// Host whose ways to the server and to the platform are a wire.
struct Wired {
    network: NetworkHost,
    config: PathBuf,
}

impl Wired {
    fn new(world: &World, name: &str, server: SocketAddr, platform: SocketAddr) -> Self {
        let ours = world.location.server().unwrap().url().to_owned();
        let url = format!("postgres://tallyd@{server}/postgres?sslmode=disable");
        let config = settling(world)
            .replace(&ours, &url)
            .replace(&world.sandbox.local_addr().to_string(), &platform.to_string());
        let (ip, config) = (server.ip().to_string().parse().unwrap(), write_config(world, name, &config));
        Self { network: NetworkHost::new(ip), config }
    }

    fn start(&self) -> Host {
        Host::start_on(&self.network, self.config.clone())
    }

    /// Makes the host of a leader vanish while the server waits for an acknowledgement; returns when that began.
    async fn vanish(&self, leader: &mut Host, port: u16) -> Instant {
        let begun = Instant::now();
        self.network.lose_packets_to();
        while !self.network.has_unacknowledged(port) {
            assert!(begun.elapsed() < Duration::from_secs(10), "the server sends nothing to the leader");
            sleep(Duration::from_millis(2)).await;
        }
        self.network.unplug();
        leader.signal("-KILL").await;
        leader.ended().await;
        begun
    }
}

/// Makes the leader's host vanish in each round; returns the times to the next lead.
async fn vanishing_leaders(cluster: &Cluster, address: Ipv4Addr, port: u16, number: usize) -> Vec<Duration> {
    let world = World::on_server(cluster, &format!("vanish_{number}")).await;
    fill(&world).await;
    separate_boots(&world).await;
    let before = world.shop().await;
    let platform = open_road(address.into(), world.sandbox.local_addr(), |_| {}).await;
    let sites = ["one", "other"].map(|name| Wired::new(&world, name, (address, port).into(), platform));
    let inserting = Inserting::start(&world, Duration::from_millis(100)).await;
    let mut leader = sites[0].start();
    leader.until("daemon.ready").await;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let (site, next) = (&sites[round % 2], &sites[(round + 1) % 2]);
        let mut standby = next.start();
        standby.until("lead.standby").await;
        wait_for_phase(number, round).await;
        let vanished = site.vanish(&mut leader, port).await;
        standby.until("lead.taken").await;
        times.push(vanished.elapsed());
        standby.until("daemon.ready").await;
        site.network.plug_in();
        leader = standby;
    }
    judge(&world, &before, inserting.stop().await, leader).await;
    times
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, and takes four minutes; .ci/long runs it"]
async fn twenty_hosts_vanish_with_data_unacknowledged_and_are_replaced_within_20_s() {
    let Some(address) = server_address() else { return };
    let Some(cluster) = Cluster::start() else { return };
    cluster.authenticate("host all all all trust\nlocal all all trust");
    let port = cluster.listen(address.into(), "");
    let [a, b, c, d] = [0, 1, 2, 3].map(|number| vanishing_leaders(&cluster, address, port, number));
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    let times = [a, b, c, d].concat();
    let longest = *times.iter().max().unwrap();
    print_spread("a host that vanishes: to the lead", times);
    assert!(longest <= Duration::from_secs(20), "{longest:?}");
}
