//! The folder of a demonstration: configuration, keys, and the data of sandbox and daemon.

use crate::cli::CommandFailure;
use crate::config::Config;
use crate::sandbox::Sandbox;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The warehouse whose counts wait for a decision, so that the demonstration shows a conflict.
pub(super) const ASKING_WAREHOUSE: i64 = 5203;

/// The directory of the demonstration's files. A temporary one is removed with this value.
pub(super) struct DemoFolder {
    pub(super) path: PathBuf,
    pub(super) is_permanent: bool,
}

impl DemoFolder {
    pub(super) fn create(keep: Option<PathBuf>) -> Result<Self, CommandFailure> {
        let is_permanent = keep.is_some();
        let path =
            keep.unwrap_or_else(|| std::env::temp_dir().join(format!("tallyd-demo-{}", std::process::id())));
        let failed = CommandFailure::cannot(format!("create the folder {}", path.display()));
        std::fs::create_dir_all(&path).map_err(&failed)?;
        // The configuration names its files, and commands are run from other folders.
        let path = path.canonicalize().map_err(&failed)?;
        if path.join("tallyd.toml").exists() {
            let path = path.display();
            return Err(CommandFailure::usage(format!(
                "{path} contains another demonstration: go on with it by `tallyd demo --resume {path}`, or name an \
                 empty folder with --keep"
            )));
        }
        Ok(Self { path, is_permanent })
    }

    /// Opens the folder that `demo --keep` left, with the address of its sandbox.
    pub(super) fn open_kept(path: &Path) -> Result<(Self, Config, SocketAddr), CommandFailure> {
        let failed = |why: &str| {
            let path = path.display();
            CommandFailure::usage(format!(
                "cannot go on with the demonstration in {path}: {why}; `tallyd demo --keep DIR` makes one"
            ))
        };
        let path = path.canonicalize().map_err(|error| failed(&error.to_string()))?;
        if !path.join("sandbox.db").exists() {
            return Err(failed("the folder has no sandbox.db"));
        }
        let config = Config::load(&path.join("tallyd.toml"), [])?;
        let address = config.service.base_url.trim_start_matches("http://").trim_end_matches('/').parse();
        let address = address.map_err(|_| failed("its base_url is not the address of a sandbox"))?;
        Ok((Self { path, is_permanent: true }, config, address))
    }

    /// Writes a file with mode 0600, because some files hold keys.
    fn write_private_file(&self, name: &str, text: &str) -> Result<PathBuf, CommandFailure> {
        let path = self.path.join(name);
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(CommandFailure::cannot(format!("write {}", path.display())))?;
        Ok(path)
    }

    /// Writes the keys and a configuration for the sandbox; `database` has the lines of its section.
    pub(super) fn write_config(
        &self,
        name: &str,
        sandbox: &Sandbox,
        database: &str,
    ) -> Result<Config, CommandFailure> {
        let integration = self.write_private_file("integration-key", sandbox.integration_key())?;
        let gateway = self.write_private_file("gateway-key", sandbox.gateway_key())?;
        let text = format!(
            "# Written by `tallyd demo`: short intervals, so that changes are visible within seconds.\n\
             [service]\nbase_url = \"http://{}\"\nintegration_key_file = {integration:?}\ngateway_key_file = {gateway:?}\ntimeout = \"3s\"\n\n\
             [limits]\ncalls_per_minute = 120\n\n[database]\n{database}\n\n[backup]\ndirectory = {:?}\n\n\
             [metrics]\ntextfile = {:?}\n\n\
             [quantities]\npolicy = \"merge\"\nmax_fact_age = \"0s\"\n\
             # Counts of this warehouse wait for a decision where the platform sold meanwhile.\n\
             [quantities.warehouse.{ASKING_WAREHOUSE}]\npolicy = \"ask\"\n\n\
             [jobs.balances]\nschedule = \"*/3 * * * * *\"\n\
             [jobs.order_lines]\nschedule = \"*/20 * * * * *\"\n\
             [jobs.work_queue]\nschedule = \"*/10 * * * * *\"\n\
             [jobs.warehouses]\nschedule = \"0 * * * * *\"\n\
             # The first run of top_selling reads two years, a fifth of the minute's calls.\n[jobs.top_selling]\nenabled = false\n",
            sandbox.local_addr(),
            self.path.join("backup"),
            self.path.join(name).with_extension("prom"),
        );
        Ok(Config::load(&self.write_private_file(name, &text)?, [])?)
    }

    pub(super) fn next_steps_text(&self) -> String {
        let path = self.path.display();
        match self.is_permanent {
            true => format!(
                "\ngo on with it:  tallyd demo --resume {path}\nlook at it:     tallyd --config {path}/tallyd.toml status   \
                 (or: stock, outbox list, job list, order list)\n"
            ),
            false => "\nto keep the database for inspection: tallyd demo --keep DIR\n".into(),
        }
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        if !self.is_permanent {
            // The host removes a temporary directory that cannot be removed here.
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}
