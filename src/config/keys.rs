//! The sources of the account's two keys (docs/interface.md, *Authentication*), and their reading.
//!
//! The daemon keeps a source instead of the keys, which are read again at a reload and before each probe, because a
//! refused key is replaced while the daemon runs. For each key the first of these counts:
//!
//! 1. `TALLYD_SERVICE__INTEGRATION_KEY` or `TALLYD_SERVICE__GATEWAY_KEY`: the environment has precedence;
//! 2. `integration_key_file` or `gateway_key_file`, if the file names one;
//! 3. `$CREDENTIALS_DIRECTORY/integration-key` or `gateway-key`, if systemd set that directory;
//! 4. `integration-key` or `gateway-key` beside the configuration file, which the packaged units pass to systemd.
//!
//! The choice is made at start. A key missing at its source is an error; another source may hold an outdated key.
//!
//! The password of a database server is looked for in the same order, under the names of `DATABASE_PASSWORD`. The
//! packaged units load no such credential, because without its file the start would fail; the file counts then. The
//! password may be missing, unless `password_file` names it: a server may know the user by its socket.

use crate::client::AccountKeys;
use secrecy::{ExposeSecret, SecretString};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const INTEGRATION_KEY: KeyNames = KeyNames {
    what: "integration key",
    variable: "TALLYD_SERVICE__INTEGRATION_KEY",
    key: "integration_key_file",
    file: "integration-key",
};
const GATEWAY_KEY: KeyNames = KeyNames {
    what: "gateway key",
    variable: "TALLYD_SERVICE__GATEWAY_KEY",
    key: "gateway_key_file",
    file: "gateway-key",
};
const DATABASE_PASSWORD: KeyNames = KeyNames {
    what: "database password",
    variable: "TALLYD_DATABASE__PASSWORD",
    key: "password_file",
    file: "database-password",
};
const KEY_MODE: u32 = 0o400;
/// Mode of the password's file: the daemon, the page and the commands of the group's members read it.
const PASSWORD_MODE: u32 = 0o640;
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";
const CONFIG_DIRECTORY: &str = "/etc/tallyd";

#[derive(Clone, Copy)]
struct KeyNames {
    what: &'static str,
    variable: &'static str,
    key: &'static str,
    file: &'static str,
}

#[derive(Clone, Debug)]
pub struct LoadedKeys {
    pub account: AccountKeys,
    pub warnings: Vec<String>,
}

/// An error of reading a key. It never contains the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} cannot be read from {location}: {why}")]
pub struct KeyError {
    what: &'static str,
    location: String,
    why: String,
    kind: Option<ErrorKind>,
}

impl KeyError {
    /// Returns true if this user may not read the file, which another user may.
    pub(crate) fn is_denied(&self) -> bool {
        self.kind == Some(ErrorKind::PermissionDenied)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeySource {
    integration: KeyLocation,
    gateway: KeyLocation,
}

#[derive(Clone, Debug)]
enum KeyLocation {
    Given(SecretString),
    File(PathBuf),
    Credential(PathBuf),
}

impl KeySource {
    pub(crate) fn from_keys(integration: &str, gateway: &str) -> Self {
        let [integration, gateway] = [integration, gateway].map(|key| KeyLocation::Given(key.into()));
        Self { integration, gateway }
    }

    pub(super) fn new(
        integration_file: Option<PathBuf>,
        gateway_file: Option<PathBuf>,
        key_context: &KeyContext,
    ) -> Self {
        Self {
            integration: KeyLocation::choose_location(INTEGRATION_KEY, integration_file, key_context),
            gateway: KeyLocation::choose_location(GATEWAY_KEY, gateway_file, key_context),
        }
    }

    /// Reads both keys. May block for ever, as on a hung mount; the daemon reads them aside. Fails if a key
    /// is missing, empty, or contains a character that a header cannot carry.
    pub fn read_keys(&self) -> Result<LoadedKeys, KeyError> {
        let mut warnings = Vec::new();
        let integration = self.integration.read_key(INTEGRATION_KEY, &mut warnings)?;
        let gateway = self.gateway.read_key(GATEWAY_KEY, &mut warnings)?;
        Ok(LoadedKeys { account: AccountKeys { integration, gateway }, warnings })
    }

    pub(crate) fn places(&self) -> [String; 2] {
        [self.integration.to_text(INTEGRATION_KEY), self.gateway.to_text(GATEWAY_KEY)]
    }

    /// Returns true if a new key needs a restart. systemd copies credentials at the start of the unit, and
    /// the environment of a process does not change.
    pub(crate) fn needs_restart(&self) -> bool {
        [&self.integration, &self.gateway].iter().any(|location| !matches!(location, KeyLocation::File(_)))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PasswordSource {
    location: KeyLocation,
    is_named: bool,
}

impl PasswordSource {
    pub(super) fn new(file: Option<PathBuf>, key_context: &KeyContext) -> Self {
        let is_named = file.is_some();
        let location = match KeyLocation::choose_location(DATABASE_PASSWORD, file, key_context) {
            KeyLocation::Credential(path) if matches!(path.try_exists(), Ok(false)) => {
                KeyLocation::File(key_context.directory.join(DATABASE_PASSWORD.file))
            }
            location => location,
        };
        Self { location, is_named }
    }

    /// Reads the password; `None` if there is none. Fails if the file is empty or cannot be read, or is named
    /// in the configuration and does not exist.
    pub(crate) fn read_password(&self) -> Result<Option<SecretString>, KeyError> {
        match self.location.read_line(DATABASE_PASSWORD) {
            Err(error) if !self.is_named && error.kind == Some(ErrorKind::NotFound) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Returns a warning if the password is in a file that users outside of its group can read.
    pub(super) fn permission_warning(&self) -> Option<String> {
        match &self.location {
            KeyLocation::File(path) => permission_warning(path, PASSWORD_MODE),
            KeyLocation::Given(_) | KeyLocation::Credential(_) => None,
        }
    }
}

pub(super) type EnvVariables = Vec<(String, String)>;

pub(super) struct KeyContext {
    variables: EnvVariables,
    directory: PathBuf,
}

impl KeyContext {
    /// Splits the variables that concern the keys from the environment and returns the rest. The keys
    /// therefore never enter the tree of values, parts of which are shown in errors.
    pub(super) fn split_variables(environment: EnvVariables, file: Option<&Path>) -> (Self, EnvVariables) {
        let key_variables = [
            INTEGRATION_KEY.variable,
            GATEWAY_KEY.variable,
            DATABASE_PASSWORD.variable,
            CREDENTIALS_VARIABLE,
        ];
        let (variables, rest) =
            environment.into_iter().partition(|(name, _)| key_variables.contains(&name.as_str()));
        let directory = file.and_then(Path::parent).unwrap_or(Path::new(CONFIG_DIRECTORY)).to_owned();
        (Self { variables, directory }, rest)
    }

    fn variable(&self, wanted: &str) -> Option<&str> {
        self.variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }
}

impl KeyLocation {
    fn choose_location(name: KeyNames, file: Option<PathBuf>, key_context: &KeyContext) -> Self {
        if let Some(key) = key_context.variable(name.variable) {
            return KeyLocation::Given(key.into());
        }
        match (file, key_context.variable(CREDENTIALS_VARIABLE)) {
            (Some(file), _) => KeyLocation::File(file),
            (None, Some(directory)) => KeyLocation::Credential(Path::new(directory).join(name.file)),
            (None, None) => KeyLocation::File(key_context.directory.join(name.file)),
        }
    }

    fn read_key(&self, name: KeyNames, warnings: &mut Vec<String>) -> Result<SecretString, KeyError> {
        let key = self.read_line(name)?;
        if let Self::File(path) = self {
            warnings.extend(permission_warning(path, KEY_MODE));
        }
        if !key.expose_secret().chars().all(|c| c.is_ascii_graphic()) {
            let why = "it contains a space, a line break or a character that no header can contain";
            let location = self.to_text(name);
            return Err(KeyError { what: name.what, location, why: why.into(), kind: None });
        }
        Ok(key)
    }

    fn to_text(&self, name: KeyNames) -> String {
        match self {
            Self::Given(_) => name.variable.to_owned(),
            Self::File(path) | Self::Credential(path) => path.display().to_string(),
        }
    }

    fn read_line(&self, name: KeyNames) -> Result<SecretString, KeyError> {
        let text = match self {
            Self::Given(key) => Ok(key.clone()),
            Self::File(path) | Self::Credential(path) => {
                std::fs::read_to_string(path).map(SecretString::from)
            }
        };
        let failed =
            |kind, why: String| KeyError { what: name.what, location: self.to_text(name), why, kind };
        let text = text.map_err(|error| {
            let why = match (self, error.kind()) {
                (Self::File(_), ErrorKind::PermissionDenied) => {
                    format!("{error}: only its owner may read it; run the command with sudo")
                }
                (Self::File(_), _) => {
                    format!("{error}; write it there, or name another file in `{}`", name.key)
                }
                _ => error.to_string(),
            };
            failed(Some(error.kind()), why)
        })?;
        let line = text.expose_secret().trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            return Err(failed(None, "it is empty".into()));
        }
        Ok(line.into())
    }
}

/// Returns a warning if users can read the file whom `mode` does not let read it.
fn permission_warning(path: &Path, mode: u32) -> Option<String> {
    let found = std::fs::metadata(path).ok()?.permissions().mode();
    let warning = || format!("other users can read {}; chmod {mode:04o} it", path.display());
    (found & 0o044 & !mode != 0).then(warning)
}

/// Locations are equal if a reload would change nothing.
impl PartialEq for KeyLocation {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Given(a), Self::Given(b)) => a.expose_secret() == b.expose_secret(),
            (Self::File(a), Self::File(b)) | (Self::Credential(a), Self::Credential(b)) => a == b,
            _ => false,
        }
    }
}
