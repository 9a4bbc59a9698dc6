//! The token that lets a person in, and the cookies that it is exchanged for.
//!
//! The token is 32 random bytes as hexadecimal digits in a file that only its owner may read. A cookie names a session
//! of this process; after a restart the person opens the address with the token again. Secrets are kept and compared
//! as digests.

use crate::model::Moment;
use crate::present::ViewError;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq;

const SESSION_LIFE: Duration = Duration::from_hours(12);

/// A person's visit, from the token to the end of the cookie.
#[derive(Debug)]
pub(super) struct WebSession {
    expires: Moment,
    pub(super) csrf: String,
    /// The keys of the forms that are done, each with its result. The lock is held while a form is done.
    pub(super) done_forms: tokio::sync::Mutex<HashMap<String, String>>,
    /// The result of the last form, until a page shows it.
    pub(super) notice: Mutex<Option<PageNotice>>,
}

/// The result of a form, shown once.
#[derive(Clone, Debug)]
pub(super) struct PageNotice {
    pub(super) is_done: bool,
    pub(super) text: String,
}

impl WebSession {
    fn new(expires: Moment, csrf: String) -> Self {
        Self { expires, csrf, done_forms: tokio::sync::Mutex::default(), notice: Mutex::default() }
    }

    pub(super) fn is_csrf(&self, given: &str) -> bool {
        is_same(&digest(given), &digest(&self.csrf))
    }
}

pub(super) struct AccessControl {
    token: [u8; 32],
    cookie_name: String,
    sessions: Mutex<HashMap<[u8; 32], Arc<WebSession>>>,
}

impl AccessControl {
    /// Reads the token file, or creates it, and returns the token too. Browsers send a cookie to every port of a
    /// host, so its name has the port.
    pub(super) fn open(file: &Path, port: u16) -> Result<(Self, String), ViewError> {
        let failed = |error: io::Error| {
            ViewError::Unknown(format!("cannot create the token file {}: {error}", file.display()))
        };
        let token = match create_token(file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read_token(file)?,
            created => created.map_err(failed)?,
        };
        Ok((Self::new(&token, port), token))
    }

    fn new(token: &str, port: u16) -> Self {
        Self { token: digest(token), cookie_name: format!("tallyd-{port}"), sessions: Mutex::default() }
    }

    /// Exchanges a token for the value of a `Set-Cookie` header; `None` if it is wrong. `is_encrypted`: the browser
    /// reached a proxy by HTTPS.
    pub(super) fn exchange(&self, token: &str, now: Moment, is_encrypted: bool) -> Option<String> {
        if !is_same(&digest(token), &self.token) {
            return None;
        }
        let (cookie, csrf) = (random_text(), random_text());
        let session = WebSession::new(now.plus(SESSION_LIFE), csrf);
        let mut sessions = locked(&self.sessions);
        sessions.retain(|_, session| session.expires > now);
        sessions.insert(digest(&cookie), Arc::new(session));
        let secure = if is_encrypted { "; Secure" } else { "" };
        Some(format!(
            "{}={cookie}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}",
            self.cookie_name,
            SESSION_LIFE.as_secs()
        ))
    }

    pub(super) fn session(&self, cookies: &str, now: Moment) -> Option<Arc<WebSession>> {
        let named = |pair: &str| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie_name).then(|| digest(value))
        };
        let sessions = locked(&self.sessions);
        let session = cookies.split(';').filter_map(named).find_map(|digest| sessions.get(&digest));
        session.filter(|session| session.expires > now).cloned()
    }
}

/// A lock of values that are whole between any two statements, so a panic elsewhere does no harm.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

fn is_same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.ct_eq(b).into()
}

/// Returns a secret, or the key of a form, that no other one is equal to.
pub(super) fn random_text() -> String {
    let mut bytes = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    read.expect("each system has random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn create_token(file: &Path) -> io::Result<String> {
    let mut created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    let token = random_text();
    created.write_all(format!("{token}\n").as_bytes())?;
    created.sync_all()?;
    Ok(token)
}

fn read_token(file: &Path) -> Result<String, ViewError> {
    let path = file.display();
    let advice =
        "remove it, and the next start makes a new token; or name a file of your own in `web.token_file`";
    let failed = |error: io::Error| {
        ViewError::Unknown(format!(
            "cannot read the token file {path}, which may be no link: {error}; {advice}"
        ))
    };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut opened = OpenOptions::new().read(true).custom_flags(flags).open(file).map_err(failed)?;
    let facts = opened.metadata().map_err(failed)?;
    let mode = facts.mode() & 0o777;
    if !facts.is_file() || facts.uid() != geteuid().as_raw() || mode & 0o077 != 0 {
        return Err(ViewError::Invalid(format!(
            "the token file {path} must be a file of this user that nobody else can use, and has mode {mode:03o}: {advice}; \
             or, if nobody else has read it: chmod 600 {path}"
        )));
    }
    let mut text = String::new();
    opened.read_to_string(&mut text).map_err(failed)?;
    let token = text.trim_end();
    if token.len() != 64 || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(ViewError::Invalid(format!(
            "the token file {path} does not hold 64 hexadecimal digits: {advice}"
        )));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests;
