//! A server beyond this host: its certificate is verified, and nothing is sent in the clear.

use super::server::{tallyd, text};
use crate::support::World;
use crate::support::cluster::{Cluster, leave_out};
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use tallyd::store::{DatabaseLocation, PostgresDatabase};

/// Returns an address of this host that other hosts see. No packet is sent.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let address = socket.connect("198.51.100.1:9").ok().and_then(|()| socket.local_addr().ok());
    address.map(|address| address.ip()).filter(|address| !address.is_loopback())
}

/// Makes the certificates of two authorities, and two for a server by the first: for its address and for another.
fn make_certificates(cluster: &Cluster, address: IpAddr) {
    let openssl = |arguments: String| {
        let mut openssl = Command::new("openssl");
        openssl.args(arguments.split_whitespace()).current_dir(cluster.dir());
        let done = cluster.as_owner(&mut openssl).output().unwrap();
        assert!(done.status.success(), "{arguments}: {}", text(&done.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for authority in ["ours", "theirs"] {
        openssl(format!(
            "req -x509 {key} -days 2 -subj /CN={authority} -keyout {authority}.key -out {authority}.pem"
        ));
    }
    for (name, address) in [("server", address.to_string()), ("elsewhere", "192.0.2.77".into())] {
        let extensions = cluster.dir().join(format!("{name}.ext"));
        std::fs::write(extensions, format!("subjectAltName=IP:{address}\n")).unwrap();
        openssl(format!("req {key} -subj /CN={name} -keyout {name}.key -out {name}.csr"));
        openssl(format!(
            "x509 -req -in {name}.csr -CA ours.pem -CAkey ours.key -CAcreateserial -days 2 \
             -extfile {name}.ext -out {name}.pem"
        ));
    }
}

#[tokio::test]
async fn a_server_beyond_this_host_shows_a_certificate_that_verifies_or_is_refused() {
    let Some(cluster) = Cluster::start() else { return };
    let Some(address) = outer_address() else { return leave_out("address beside the loopback") };
    if Command::new("openssl").arg("version").output().is_err() {
        return leave_out("openssl");
    }
    make_certificates(&cluster, address);
    cluster.authenticate("host all all all trust");
    let mut world = World::on_server(&cluster, "north").await;
    let dir = cluster.dir().to_owned();
    let file = |name: &str| dir.join(name).display().to_string();
    for (certificate, query, reasons) in [
        (Some("server"), String::new(), ["UnknownIssuer", "`?sslrootcert=FILE`"]),
        (Some("server"), format!("?sslrootcert={}", file("theirs.pem")), ["UnknownIssuer", "certificate"]),
        (
            Some("elsewhere"),
            format!("?sslrootcert={}", file("ours.pem")),
            ["not valid for name", "certificate"],
        ),
        (Some("server"), format!("?sslrootcert={}", file("none.pem")), ["No such file", "sslrootcert"]),
        (None, format!("?sslrootcert={}", file("ours.pem")), ["does not support TLS", "`ssl = on`"]),
    ] {
        let options = certificate.map_or_else(String::new, |name| {
            let [key, certificate] = ["key", "pem"].map(|kind| file(&format!("{name}.{kind}")));
            format!("-c ssl=on -c ssl_cert_file={certificate} -c ssl_key_file={key}")
        });
        let port = cluster.listen(address, &options);
        let url = format!("postgres://tallyd@{address}:{port}/postgres{query}");
        world.location =
            DatabaseLocation::on_server(PostgresDatabase::new(&url, "north").unwrap(), &world.path);
        // A start that waits would not end.
        for arguments in [&["check"][..], &["run"]] {
            let done = tallyd(&world, arguments).await;
            let why = text(&done.stderr);
            for reason in reasons {
                assert!(why.contains(reason), "{certificate:?} {query} {arguments:?}: {why}");
            }
            assert_eq!(done.status.code(), Some(1), "{why}");
        }
    }
    let options =
        format!("-c ssl=on -c ssl_cert_file={} -c ssl_key_file={}", file("server.pem"), file("server.key"));
    let port = cluster.listen(address, &options);
    let url = format!("postgres://tallyd@{address}:{port}/postgres?sslrootcert={}", file("ours.pem"));
    world.location = DatabaseLocation::on_server(PostgresDatabase::new(&url, "north").unwrap(), &world.path);
    for arguments in [&["check"][..], &["run", "--once"], &["status"]] {
        let done = tallyd(&world, arguments).await;
        assert!(done.status.success(), "{arguments:?}: {}{}", text(&done.stdout), text(&done.stderr));
    }
}

#[tokio::test]
async fn no_setting_takes_a_connection_in_the_clear_beyond_this_host() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    let ours = world.toml("");
    let config = world.path.with_file_name("clear.toml");
    for mode in ["disable", "allow", "prefer", "require", "verify-ca"] {
        let url = format!("postgres://tallyd@db.example/stock?sslmode={mode}");
        std::fs::write(&config, ours.replace(&cluster.url(), &url)).unwrap();
        let mut check = tokio::process::Command::new(env!("CARGO_BIN_EXE_tallyd"));
        let done = check.arg("--config").arg(&config).arg("check").output().await.unwrap();
        assert_eq!(done.status.code(), Some(2));
        assert!(
            text(&done.stderr).contains("is always verified: leave out `sslmode`"),
            "{}",
            text(&done.stderr)
        );
    }
}
