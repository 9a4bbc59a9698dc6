//! Hosts with a network of their own: network namespaces, each with a wire to this one.
//!
//! The servers of a test have an address of 127/8, which is local to each namespace elsewhere; here it is routed over
//! the wires. No packet leaves the machine. Needs root and Debian's iproute2.

use super::cluster::leave_out;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

/// Host in a network namespace; dropping it removes the namespace.
pub struct NetworkHost {
    name: String,
    /// End of the wire in this namespace.
    wire: String,
    /// Addresses of that end and of the host.
    ends: [Ipv4Addr; 2],
    server: Ipv4Addr,
}

/// Returns the address for the servers of this process's tests; `None`, which is printed: this host has no namespaces.
pub fn server_address() -> Option<Ipv4Addr> {
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root || Command::new("ip").arg("-V").output().is_err() {
        leave_out("network namespaces, which need root and `ip` (Debian: iproute2)");
        return None;
    }
    let [high, low] = process_number().to_be_bytes();
    Some(Ipv4Addr::new(127, 64 + high, low, 1))
}

/// Returns a number below 1024 that differs between test processes that run at the same time.
fn process_number() -> u16 {
    u16::try_from(std::process::id() % 1024).unwrap()
}

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

impl NetworkHost {
    /// Makes a host that reaches the servers of this process's tests.
    pub fn new(server: Ipv4Addr) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(number < 16, "a process has addresses for 16 hosts");
        let [high, low] = (process_number() * 16 + number).to_be_bytes();
        // Addresses of benchmarks (RFC 2544), four for each wire.
        let [third, fourth] = [(u16::from(high) << 8 | u16::from(low)) >> 6, u16::from(low & 63) * 4]
            .map(|part| u8::try_from(part).unwrap());
        let ends = [1, 2].map(|end| Ipv4Addr::new(198, 18, third, fourth + end));
        let (name, wire) = (format!("tallyd-{third}-{fourth}"), format!("tally{third}-{fourth}"));
        let host = Self { name, wire, ends, server };
        let Self { name, wire, ends: [here, there], .. } = &host;
        ip(&format!("netns add {name}"));
        ip(&format!("link add {wire} type veth peer name wire netns {name}"));
        ip(&format!("addr add {here}/30 dev {wire}"));
        ip(&format!("link set {wire} up"));
        std::fs::write(format!("/proc/sys/net/ipv4/conf/{wire}/route_localnet"), "1").unwrap();
        ip(&format!("-n {name} addr add {there}/30 dev wire"));
        ip(&format!("-n {name} link set lo up"));
        let allow = "echo 1 > /proc/sys/net/ipv4/conf/wire/route_localnet";
        assert!(host.command("sh").args(["-c", allow]).status().unwrap().success());
        host.plug_in();
        host
    }

    /// Returns a command that runs a program on the host, in its own process.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Plugs the wire in, so that all packets arrive.
    pub fn plug_in(&self) {
        let Self { name, wire, ends: [here, there], server } = self;
        ip(&format!("neigh flush dev {wire} nud permanent"));
        ip(&format!("-n {name} link set wire up"));
        ip(&format!("-n {name} route replace {server} via {here} dev wire src {there} table local"));
    }

    /// Loses every packet to the host; those from it still arrive.
    pub fn lose_packets_to(&self) {
        let Self { wire, ends: [_, there], .. } = self;
        // An Ethernet address that no one has.
        ip(&format!("neigh replace {there} lladdr 02:00:00:00:00:01 dev {wire} nud permanent"));
    }

    /// Unplugs the wire: nothing arrives in either direction, and no side is told.
    pub fn unplug(&self) {
        ip(&format!("-n {} link set wire down", self.name));
    }

    /// Returns true if a port here sent bytes to the host that it did not acknowledge.
    pub fn has_unacknowledged(&self, port: u16) -> bool {
        let hex = |address: Ipv4Addr| format!("{:08X}", u32::from_le_bytes(address.octets()));
        let (server, host) = (format!("{}:{port:04X}", hex(self.server)), hex(self.ends[1]));
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        sockets.lines().any(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            columns.get(1) == Some(&server.as_str())
                && columns[2].starts_with(&host)
                && !columns[4].starts_with("00000000")
        })
    }
}

impl Drop for NetworkHost {
    fn drop(&mut self) {
        // At the end of a failed test too, so that no failure hides the first one.
        for arguments in [["link", "del", &self.wire], ["netns", "del", &self.name]] {
            drop(Command::new("ip").args(arguments).output());
        }
    }
}
