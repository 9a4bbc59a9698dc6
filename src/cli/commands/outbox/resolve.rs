//! Operators' decisions on changes: `outbox cancel`, `retry`, `acknowledge` and `resolve`.
//!
//! An invalid decision changes nothing, exits with 1 and names the valid command.

use crate::cli::context::Place;
use crate::cli::output::plain;
use crate::cli::{Answer, Failure};
use crate::model::{Clock, Quantity, ShipmentId};
use crate::outbox::Resolution;
use crate::store::Durability;
use clap::Args;

/// A word on one wish.
#[derive(Debug, Args)]
pub(in crate::cli) struct Resolve {
    /// The wish's key
    key: String,
    #[command(flatten)]
    word: Word,
}

/// The word.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Word {
    /// It was done at the service
    #[arg(long)]
    landed: bool,
    /// It was not done there, and is planned anew
    #[arg(long)]
    not_landed: bool,
    /// It made this shipment, which is compared with what was sent
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..))]
    shipment: Option<i64>,
    /// Which number holds: the wish's, the service's, or this one
    #[arg(long = "use", value_name = "mine|theirs|N", value_parser = number, allow_negative_numbers = true)]
    number: Option<Resolution>,
}

/// Parses the value of `--use`.
fn number(text: &str) -> Result<Resolution, String> {
    match text {
        "mine" => Ok(Resolution::Mine),
        "theirs" => Ok(Resolution::Theirs),
        number => match number.parse().map(Quantity) {
            Ok(number) if (Quantity(0)..=Quantity::MAX).contains(&number) => Ok(Resolution::Exactly(number)),
            _ => Err(format!("say mine, theirs or a number from 0 to {}", Quantity::MAX)),
        },
    }
}

impl Word {
    fn resolution(&self) -> Resolution {
        match (self.shipment, self.number) {
            (Some(id), _) => Resolution::Shipment(ShipmentId(id)),
            (None, Some(number)) => number,
            (None, None) if self.landed => Resolution::Landed,
            // The argument group admits exactly one option, and this is the last one.
            (None, None) => Resolution::NotLanded,
        }
    }
}

pub(super) async fn resolve(place: &Place, args: &Resolve) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let max_base_age = place.config()?.quantities.max_base_age;
    let mut write = store.begin(Durability::Full).await?;
    let word = args.word.resolution();
    match write.outbox_resolve(&args.key, word, max_base_age, place.clock().now()).await? {
        Ok(done) => {
            write.commit().await?;
            let line = |key: &String| format!("{}: {}; {}\n", plain(key), done.state, plain(&done.next));
            Ok(done.keys.iter().map(line).collect::<String>().into())
        }
        Err(why) => Err(Failure::failed(format!("{}: not resolved: {why}", args.key))),
    }
}

pub(super) async fn retry(place: &Place, keys: &[String]) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let mut answers = Answers::default();
    for key in keys {
        let mut write = store.begin(Durability::Full).await?;
        let said = write.outbox_retry(key, place.clock().now()).await?;
        write.commit().await?;
        answers.add(key, "pending, planned anew", "not retried", said);
    }
    Ok(answers.0)
}

pub(super) async fn cancel(place: &Place, keys: &[String]) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let mut answers = Answers::default();
    for key in keys {
        let mut write = store.begin(Durability::Full).await?;
        let cancelled = write.outbox_cancel(key, place.clock().now()).await?;
        write.commit().await?;
        let said = match store.outbox_show(key).await? {
            _ if cancelled => Ok(()),
            Some(row) => Err(format!("it is {}, and only a wish that waits can be cancelled", row.state)),
            None => Err("there is no wish with this key".into()),
        };
        answers.add(key, "cancelled", "not cancelled", said);
    }
    Ok(answers.0)
}

pub(super) async fn acknowledge(place: &Place, keys: &[String]) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let mut answers = Answers::default();
    for key in keys {
        let mut write = store.begin(Durability::Full).await?;
        let said = write.outbox_acknowledge(key, place.clock().now()).await?;
        write.commit().await?;
        answers.add(key, "acknowledged", "not acknowledged", said);
    }
    Ok(answers.0)
}

pub(super) async fn acknowledge_all(place: &Place) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let mut write = store.begin(Durability::Full).await?;
    let news = write.outbox_acknowledge_all(place.clock().now()).await?;
    write.commit().await?;
    Ok(format!("{news} rejected wish(es) acknowledged\n").into())
}

/// A line per change; the exit code is 1 if any was refused.
#[derive(Default)]
struct Answers(Answer);

impl Answers {
    fn add(&mut self, key: &str, done: &str, refused: &str, said: Result<(), String>) {
        let key = plain(key);
        match said {
            Ok(()) => self.0.text.push_str(&format!("{key}: {done}\n")),
            Err(why) => {
                self.0.text.push_str(&format!("{key}: {refused}: {}\n", plain(&why)));
                self.0.code = 1;
            }
        }
    }
}
