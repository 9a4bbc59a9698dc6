//! The demonstration of a standby, which starts a server of its own.

use crate::support::cluster::leave_out;
use std::process::{Command, Stdio};

#[tokio::test(flavor = "multi_thread")]
async fn the_demonstration_of_a_standby_goes_on_after_the_death_of_its_leader() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.args(["demo", "--standby", "--seconds", "8"]).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let [said, complaint] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    if complaint.contains("apt install postgresql") {
        return leave_out("PostgreSQL (Debian: postgresql)");
    }
    assert_eq!(output.status.code(), Some(0), "{said}\n{complaint}");
    for expected in ["the leader north was killed", "south leads", "mirror and sandbox are equal"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let row = said.lines().find(|line| line.starts_with("calls answered 429")).unwrap();
    assert!(row.ends_with(" 0"), "{row}");
}
