//! The demonstration of a standby, on a server that the caller names.

use crate::support::cluster::Cluster;
use std::process::{Command, Stdio};

#[tokio::test(flavor = "multi_thread")]
async fn the_demonstration_of_a_standby_goes_on_after_the_death_of_its_leader() {
    let Some(cluster) = Cluster::start() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.args(["demo", "--seconds", "8", "--standby", &cluster.url()]).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let [said, complaint] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(0), "{said}\n{complaint}");
    for expected in [
        "the leader north was killed",
        "south leads",
        "mirror and sandbox are equal",
        "DROP SCHEMA tallyd_demo_",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let row = said.lines().find(|line| line.starts_with("calls answered 429")).unwrap();
    assert!(row.ends_with(" 0"), "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demonstration_of_a_standby_says_why_a_server_cannot_be_used() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.args(["demo", "--standby", "postgres:///shop?host=/nowhere&user=tallyd"]).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("the server of `--standby` cannot be used"), "{complaint}");
}
