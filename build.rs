//! Rebuilds when a migration is added: `migrate!` embeds the files but does not watch them.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
