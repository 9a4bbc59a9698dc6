//! `init`: asks for the platform's address and the keys, proves them, and writes the configuration and key files.
//!
//! Nothing is written before the platform has accepted the keys. The proof uses the settings that are in force once the
//! files are written, and a temporary database, because the daemon's own belongs to the user of the unit. A file that
//! exists is kept, or changed only with `--replace`.

use crate::cli::context::CliContext;
use crate::cli::output;
use crate::cli::{CommandFailure, CommandResult};
use crate::config::{Config, KeySource, set_in_text, value_in_text};
use crate::daemon::{ControlRequest, send_control_request};
use crate::exec::KeyStatus;
use crate::reconcile::proof::KeyState;
use clap::Args;
use console::Term;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The packaged configuration: every key at its default, with its meaning.
const PACKAGED: &str = include_str!("../../../../config/tallyd.toml");
/// The address of the packaged configuration, which no account has.
const EXAMPLE_ADDRESS: &str = "https://service.example";
const PACKAGED_FOLDER: &str = "/etc/tallyd";
/// A proxy's address in the configuration may hold a password.
const CONFIG_MODE: u32 = 0o640;
const KEY_MODE: u32 = 0o400;
const FOLDER_MODE: u32 = 0o750;

#[derive(Debug, Args)]
pub(in crate::cli) struct InitArgs {
    /// Address of the platform [default: asked for]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// File with the integration key [default: asked for, without echo]
    #[arg(long, value_name = "FILE")]
    integration_key: Option<PathBuf>,
    /// File with the gateway key [default: asked for, without echo]
    #[arg(long, value_name = "FILE")]
    gateway_key: Option<PathBuf>,
    /// Change files that exist and say something else
    #[arg(long)]
    replace: bool,
    /// Write the files without a call that proves the keys
    #[arg(long)]
    offline: bool,
}

/// A file to be written, and its state now.
struct PlannedFile {
    path: PathBuf,
    text: String,
    mode: u32,
    /// The effect of the write, for the line about it.
    effect: &'static str,
}

/// The effect on a file that exists and says something else, which needs `--replace`.
const REPLACED: &str = "replaced";

pub(in crate::cli) async fn init_command(context: &CliContext, args: InitArgs) -> CommandResult {
    let config_file = std::path::absolute(context.new_config_file())
        .map_err(CommandFailure::cannot("find the present folder"))?;
    let folder = config_file.parent().unwrap_or(Path::new("/")).to_owned();
    let base_url = match &args.base_url {
        Some(url) => url.clone(),
        None => ask("address of the platform, such as https://service.example", false)?,
    };
    let integration = read_key(args.integration_key.as_deref(), "integration key")?;
    let gateway = read_key(args.gateway_key.as_deref(), "gateway key")?;

    let address = Config::default_for(&base_url)?.service.base_url;
    let text = config_text(&config_file, &address)?;
    let files = [
        PlannedFile::new(config_file.clone(), text.clone(), CONFIG_MODE)?,
        PlannedFile::new(folder.join("integration-key"), integration.clone() + "\n", KEY_MODE)?,
        PlannedFile::new(folder.join("gateway-key"), gateway.clone() + "\n", KEY_MODE)?,
    ];
    let different = files.iter().filter(|file| file.effect == REPLACED && !args.replace);
    let different: Vec<String> = different.map(|file| file.path.display().to_string()).collect();
    if !different.is_empty() {
        return Err(CommandFailure::usage(format!(
            "{} would be changed; nothing was written. To change them: tallyd init --replace",
            different.join(", ")
        )));
    }
    let config = Config::from_text(Some(&config_file), &text, std::env::vars())?;
    refuse_without_effect(&config, &address, &folder)?;
    let keys = KeySource::from_keys(&integration, &gateway);
    keys.read_keys()?;
    let mut said = String::new();
    if !args.offline {
        prove_keys(context, config, keys).await?;
        said.push_str(&format!("{address} accepts the keys\n"));
    }
    create_folder(&folder)?;
    for file in &files {
        said.push_str(&file.write()?);
    }
    Ok((said + &next_steps(&config_file)).into())
}

/// Proves the keys by one call, beside whatever database the configuration names.
async fn prove_keys(context: &CliContext, mut config: Config, keys: KeySource) -> Result<(), CommandFailure> {
    let base_url = config.service.base_url.clone();
    let folder = std::env::temp_dir().join(format!("tallyd-init-{}", std::process::id()));
    let action = format!("create {}", folder.display());
    DirBuilder::new().mode(0o700).create(&folder).map_err(CommandFailure::cannot(action))?;
    config.service.keys = keys;
    (config.database.path, config.database.server) = (folder.join("proof.db"), None);
    let (clock, request) = (Arc::new(context.clock()), ControlRequest::Keys {});
    let proved = send_control_request(config, clock, &request).await;
    // The host removes a temporary folder that cannot be removed here.
    drop(fs::remove_dir_all(&folder));
    let KeyStatus { key, why } = proved?;
    match key {
        KeyState::Works => Ok(()),
        KeyState::Refused => Err(CommandFailure::failed(format!(
            "{base_url} refuses the keys: {why}; nothing was written. Check both keys, and which is which"
        ))),
        KeyState::NotKnown => Err(CommandFailure::failed(format!(
            "{base_url} does not answer as the platform does: {why}; nothing was written. Check the address and the \
             network, or write the files with --offline"
        ))),
    }
}

/// Returns a line of the terminal, or the next line of standard input if that is no terminal.
fn ask(what: &str, is_secret: bool) -> Result<String, CommandFailure> {
    let (terminal, is_terminal) = (Term::stderr(), io::stdin().is_terminal());
    let asked = if is_terminal { terminal.write_str(&format!("{what}: ")) } else { Ok(()) };
    let answer = asked.and_then(|()| {
        if is_terminal && is_secret {
            return terminal.read_secure_line();
        }
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    let answer = answer.map_err(CommandFailure::cannot(format!("read the {what}")))?.trim().to_owned();
    if answer.is_empty() {
        return Err(CommandFailure::failed(format!("cannot read the {what}: nothing was entered")));
    }
    Ok(answer)
}

fn read_key(file: Option<&Path>, what: &str) -> Result<String, CommandFailure> {
    let Some(file) = file else { return ask(what, true) };
    let text = fs::read_to_string(file);
    let text = text.map_err(CommandFailure::cannot(format!("read the {what} from {}", file.display())))?;
    Ok(text.trim().to_owned())
}

/// Returns the configuration: the one that is there, or the packaged one, with the address.
fn config_text(file: &Path, base_url: &str) -> Result<String, CommandFailure> {
    match fs::read_to_string(file) {
        Ok(present) => set_in_text(&present, "service", "base_url", base_url).ok_or_else(|| {
            // The problems of the file come first: a missing address is one of them.
            Config::from_text(Some(file), &present, []).map_or_else(CommandFailure::from, |_| {
                let file = file.display();
                CommandFailure::usage(format!(
                    "{file} sets no service.base_url; write {base_url} there by hand"
                ))
            })
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let database = new_database_path(file.parent().unwrap_or(Path::new("/")));
            let text = set_in_text(PACKAGED, "service", "base_url", base_url);
            let text =
                text.and_then(|text| set_in_text(&text, "database", "path", &database.to_string_lossy()));
            text.ok_or_else(|| CommandFailure::failed("the packaged configuration lacks a line"))
        }
        Err(error) => Err(CommandFailure::usage(format!("cannot read {}: {error}", file.display()))),
    }
}

/// Returns the database of a new configuration: for the packaged units in `/var/lib/tallyd`.
fn new_database_path(folder: &Path) -> PathBuf {
    match folder.strip_prefix(PACKAGED_FOLDER) {
        Ok(instance) => Path::new("/var/lib/tallyd").join(instance).join("tallyd.db"),
        Err(_) => folder.join("tallyd.db"),
    }
}

/// Refuses files that would not be read, because the environment or the configuration names another place.
fn refuse_without_effect(config: &Config, address: &str, folder: &Path) -> Result<(), CommandFailure> {
    let (in_force, places) = (&config.service.base_url, config.service.keys.places());
    let files = ["integration-key", "gateway-key"].map(|name| folder.join(name).display().to_string());
    if in_force == address && places == files {
        return Ok(());
    }
    Err(CommandFailure::usage(format!(
        "in force would be {in_force} with the keys of {}, which the environment or the configuration names; nothing was \
         written. Remove what names them (docs/configuration.md), then repeat the command",
        places.join(" and ")
    )))
}

/// Creates the folder of the configuration, for the group of the folder above.
fn create_folder(folder: &Path) -> Result<(), CommandFailure> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().unwrap_or(Path::new("/"));
    let created = fs::create_dir_all(folder)
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE)))
        .and_then(|()| give_group_of(above, folder));
    created.map_err(CommandFailure::cannot(format!("create the folder {}", folder.display())))
}

/// Gives a file the group of a folder, so that the group of the packaged folder reads the configuration.
fn give_group_of(folder: &Path, file: &Path) -> io::Result<()> {
    let group = fs::metadata(folder)?.gid();
    if fs::metadata(file)?.gid() == group { Ok(()) } else { chown(file, None, Some(group)) }
}

impl PlannedFile {
    fn new(path: PathBuf, text: String, mode: u32) -> Result<Self, CommandFailure> {
        let is_example = |present: &str| {
            mode == CONFIG_MODE
                && value_in_text(present, "service", "base_url").as_deref() == Some(EXAMPLE_ADDRESS)
        };
        let effect = match fs::read_to_string(&path) {
            Ok(present) if present.trim_end() == text.trim_end() => "unchanged",
            Ok(present) if is_example(&present) => "the address was set",
            Ok(_) => REPLACED,
            Err(error) if error.kind() == io::ErrorKind::NotFound => "written",
            Err(error) => return Err(CommandFailure::cannot(format!("read {}", path.display()))(error)),
        };
        Ok(Self { path, text, mode, effect })
    }

    /// Writes the file under another name and renames it, and returns a line about it.
    fn write(&self) -> Result<String, CommandFailure> {
        let path = self.path.display();
        self.replace().map_err(CommandFailure::cannot(format!("write {path}")))?;
        Ok(format!("{path}: {}, mode {:04o}\n", self.effect, self.mode))
    }

    fn replace(&self) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let name = PathBuf::from(name);
        if fs::symlink_metadata(&name).is_ok() {
            fs::remove_file(&name)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(self.mode).open(&name)?;
        file.write_all(self.text.as_bytes())?;
        file.sync_all()?;
        fs::set_permissions(&name, Permissions::from_mode(self.mode))?;
        give_group_of(self.path.parent().unwrap_or(Path::new("/")), &name)?;
        fs::rename(&name, &self.path)
    }
}

fn next_steps(config_file: &Path) -> String {
    let folder = config_file.parent().unwrap_or(Path::new("/"));
    let config = format!("--config {}", output::plain_line(&config_file.to_string_lossy()));
    match folder.strip_prefix(PACKAGED_FOLDER) {
        Ok(instance) => {
            let is_first = instance.as_os_str().is_empty();
            let (unit, config) = match is_first {
                true => ("tallyd".to_owned(), String::new()),
                false => (format!("tallyd@{}", instance.display()), format!(" {config}")),
            };
            format!(
                "\nnext:\n  sudo systemctl enable --now {unit}\n  sudo adduser $USER tallyd && newgrp tallyd\n  \
                 tallyd{config} status\n"
            )
        }
        Err(_) => format!(
            "\nnext:\n  tallyd {config} run       # in a terminal of its own\n  tallyd {config} sku add SKU\n  \
             tallyd {config} status\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packaged_configuration_has_the_lines_that_are_set() {
        let text = set_in_text(PACKAGED, "service", "base_url", "http://127.0.0.1:1").unwrap();
        let text = set_in_text(&text, "database", "path", "/srv/tallyd.db").unwrap();
        let config = Config::from_toml(&text).unwrap();
        assert_eq!(config.service.base_url, "http://127.0.0.1:1");
        assert_eq!(config.database.path, Path::new("/srv/tallyd.db"));
        assert_eq!(value_in_text(PACKAGED, "service", "base_url").as_deref(), Some(EXAMPLE_ADDRESS));
    }

    #[test]
    fn each_unit_has_its_database() {
        let path = |folder: &str| new_database_path(Path::new(folder));
        assert_eq!(path("/etc/tallyd"), Path::new("/var/lib/tallyd/tallyd.db"));
        assert_eq!(path("/etc/tallyd/north"), Path::new("/var/lib/tallyd/north/tallyd.db"));
        assert_eq!(path("/home/ann/shop"), Path::new("/home/ann/shop/tallyd.db"));
    }
}
