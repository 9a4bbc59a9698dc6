//! Changes queued from the command line, validated as the daemon validates them.

use super::context::Place;
use super::output::plain;
use super::{Answer, Failure, csv};
use crate::outbox;
use crate::store::Durability;
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The wish's name.
#[derive(Debug, Args)]
pub(super) struct Key {
    /// Your own name for the wish: the same key again changes nothing [default: a new one]
    #[arg(long)]
    key: Option<String>,
}

/// A change to be inserted.
pub(super) struct Wish {
    key: String,
    kind: &'static str,
    /// The JSON text as given, so that the outbox can detect a duplicate field.
    body: String,
    priority: i64,
}

impl Wish {
    /// Creates a change typed by an operator, with priority over bulk changes.
    pub(super) fn single(place: &Place, kind: &'static str, body: impl Display, key: Key) -> Self {
        let key = key.key.unwrap_or_else(|| place.new_key());
        Self { key, kind, body: body.to_string(), priority: 1 }
    }

    /// Creates a change from a line of a file, with the line's `key` column or a derived key.
    pub(super) fn imported(line: &csv::Line, kind: &'static str, body: impl Display) -> Result<Self, String> {
        let body = body.to_string();
        outbox::parse(kind, &body).map_err(|rejection| rejection.detail)?;
        let key = line.get("key").map_or_else(|| line.key.clone(), str::to_owned);
        Ok(Self { key, kind, body, priority: 0 })
    }
}

/// Warns if an earlier file of equal name holds most of these movements.
///
/// Lines were probably appended to that file, and an import would book all earlier lines again.
pub(super) async fn repeated(place: &Place, wishes: &[Wish]) -> Result<Option<String>, Failure> {
    let movements: Vec<&Wish> = wishes.iter().filter(|wish| wish.kind == "quantity.adjust").collect();
    let Some((name, own)) = movements.iter().find_map(|wish| file_of(&wish.key)) else { return Ok(None) };
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, body) in place.store_or_new().await?.outbox_movements_named(name).await? {
        if let Some((_, file)) = file_of(&key).filter(|(of, _)| *of == name) {
            files.entry(file.to_owned()).or_default().push(body);
        }
    }
    // An unchanged file changes nothing.
    if files.contains_key(own) {
        return Ok(None);
    }
    let shared = |bodies: &Vec<String>| {
        let mut left: BTreeMap<&str, usize> = BTreeMap::new();
        bodies.iter().for_each(|body| *left.entry(body).or_default() += 1);
        let is_there = |wish: &&&Wish| match left.get_mut(wish.body.as_str()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        };
        movements.iter().filter(is_there).count()
    };
    let most = files.values().map(shared).max().unwrap_or(0);
    Ok((most * 2 > movements.len()).then(|| {
        format!(
            "warning: {most} of {} movement(s) stood in an earlier file `{name}`: where lines were added to that file, they \
             are booked a second time; cancel what is too much (`tallyd outbox list`), and hand in new lines in a file \
             of their own",
            movements.len()
        )
    }))
}

/// Returns name and content digest of the file in a derived key; `None` for a key chosen by a user.
fn file_of(key: &str) -> Option<(&str, &str)> {
    let mut parts = key.rsplitn(3, ':');
    let (line, digest, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_ours = line.parse::<u64>().is_ok() && digest.len() == 16;
    (is_ours && digest.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some((name, digest))
}

/// Inserts changes into the outbox, all or none; `notes` tell the ignored parts of a file.
pub(super) async fn insert(place: &Place, wishes: &[Wish], notes: &[String]) -> Result<Answer, Failure> {
    for wish in wishes {
        outbox::parse(wish.kind, &wish.body).map_err(|why| Failure::usage(why.detail))?;
    }
    let store = place.store_or_new().await?;
    let mut write = store.begin(Durability::Full).await?;
    let mut new = 0;
    for wish in wishes {
        let inserted = write.outbox_insert(&wish.key, wish.kind, &wish.body, wish.priority).await;
        let named = |error| Failure::failed(format!("the wish `{}`: {error}; nothing was taken", wish.key));
        new += u64::from(inserted.map_err(named)?);
    }
    write.commit().await?;
    let known = wishes.len() as u64 - new;
    let mut text = match wishes {
        [only] if new == 1 => format!("wish {} stands in the outbox\n", plain(&only.key)),
        _ => format!("{new} wish(es) stand in the outbox, {known} were known by their keys\n"),
    };
    csv::tell(&mut text, notes);
    Ok(text.into())
}
