//! The command line. Only this room prints and reads the environment and operators' files.
//!
//! | file | subject |
//! |---|---|
//! | `commands/` | the commands, each in its own file |
//! | `context.rs` | configuration, clock and store of a command |
//! | `change.rs` | a change of the command line, and its insertion into the outbox |
//! | `csv.rs` | operators' CSV files |
//! | `output/` | tables, JSON, streamed lists and progress |
//! | `logging.rs` | the log of a process |
//! | `examples.rs` | the examples in the help |
//!
//! A command returns text and an exit code: 0 done, 1 failed, 2 wrong usage or configuration, 3 unhealthy.
//! Reading commands take `--json`; the fields of their JSON are a contract.

mod change;
mod commands;
mod context;
pub mod csv;
mod examples;
mod logging;
mod output;

use self::commands::catalog::{product, report, storefront, supplier, template, warehouse};
use self::commands::daemon::{check, quota, run, status};
use self::commands::demo::{self, sandbox};
use self::commands::generate;
use self::commands::journal::{backup, entries, job, replay, restored};
use self::commands::outbox::{self, plan, ship, tracking};
use self::commands::stock::{explain, levels, quantity, verify};
use self::commands::tracked::{order, quarantine, sku};
use clap::{Args, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Keeps a warehouse's stock book and a selling platform's stock book the same.
#[derive(Debug, Parser)]
#[command(name = "tallyd", version, max_term_width = 100, subcommand_required = true)]
struct Cli {
    /// The configuration [default: /etc/tallyd/tallyd.toml, then ./config/tallyd.toml]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows it all at work: a sandbox with a living shop, and the daemon against it
    Demo(demo::Demo),
    /// Runs the daemon in the foreground
    Run(run::Run),
    /// Validates the configuration and says what is in force
    Check(check::Check),
    /// Says how the daemon is and what needs a person
    Status(status::Args),
    /// Which SKUs are tracked
    #[command(subcommand)]
    Sku(sku::Command),
    /// Which orders are tracked
    #[command(subcommand)]
    Order(order::Command),
    /// Quantities per warehouse, what is pending, and how old the fact is
    Stock(levels::Stock),
    /// Wishes for stock: counts and adjustments
    #[command(subcommand)]
    Quantity(quantity::Command),
    /// Products at the service
    #[command(subcommand)]
    Product(product::Command),
    /// The company's warehouses
    #[command(subcommand)]
    Warehouse(warehouse::Command),
    /// The company's suppliers
    #[command(subcommand)]
    Supplier(supplier::Command),
    /// The company's storefronts
    #[command(subcommand)]
    Storefront(storefront::Command),
    /// The storefronts' listing templates
    #[command(subcommand)]
    Template(template::Command),
    /// The service's reports, out of the mirror
    #[command(subcommand)]
    Report(report::Command),
    /// A wish to ship an order, or lines of it
    Ship(ship::Ship),
    /// Wishes for tracking numbers
    #[command(subcommand)]
    Tracking(tracking::Command),
    /// Why a quantity is what it is: which exchange, wish, merge or brake
    Explain(explain::Explain),
    /// What the next push would send, byte for byte; makes no call
    Plan(Reading),
    /// Compares mirror and service within some calls; writes no fact
    Verify(verify::Verify),
    /// The wishes and what became of them
    #[command(subcommand)]
    Outbox(outbox::Command),
    /// Entries that fail alone and are tried by themselves
    #[command(subcommand)]
    Quarantine(quarantine::Command),
    /// The account's quota
    #[command(subcommand)]
    Quota(quota::Command),
    /// The journal of runs
    #[command(subcommand)]
    Job(job::Command),
    /// The record of exchanges and events
    #[command(subcommand)]
    Journal(entries::Command),
    /// Folds the journal into a fresh mirror, offline, and compares it with the live one
    Replay(replay::Replay),
    /// Copies the database to a file, proves the copy and marks it as one
    Backup(backup::Backup),
    /// Mark the database as restored by another tool: the next start holds what may have been done since
    Restored,
    /// Serves the sandbox: a complete implementation of the service
    Sandbox(sandbox::Serve),
    /// Prints completions for a shell
    Completions(generate::Completions),
    /// Prints the manual page
    Man(generate::Man),
}

/// What every reading command takes.
#[derive(Clone, Copy, Debug, Args)]
struct Reading {
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

/// The output and exit code of a command.
#[derive(Default)]
struct Answer {
    text: String,
    code: u8,
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self { text, code: 0 }
    }
}

/// The message and exit code of a failed command.
#[derive(Debug)]
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// Creates a failure with exit code 1.
    fn failed(message: impl AsRef<str>) -> Self {
        Self::new(message, 1)
    }

    /// Creates a failure for wrong usage or configuration, with exit code 2.
    fn usage(message: impl AsRef<str>) -> Self {
        Self::new(message, 2)
    }

    /// Creates a message of one line; text from outside cannot begin another line.
    fn new(message: impl AsRef<str>, code: u8) -> Self {
        Self { message: output::plain(message.as_ref()).into_owned(), code }
    }

    /// Creates a message of several lines. Text from outside must be masked with [`output::plain`].
    fn lines(message: impl Into<String>, code: u8) -> Self {
        Self { message: message.into(), code }
    }
}

impl From<crate::store::StoreError> for Failure {
    fn from(error: crate::store::StoreError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<crate::store::LockError> for Failure {
    fn from(error: crate::store::LockError) -> Self {
        Self::failed(error.to_string())
    }
}

/// Parses the command line, runs the command and returns its exit code.
pub fn main() -> ExitCode {
    let parsed = Cli::from_arg_matches(&examples::command().get_matches());
    let cli = parsed.unwrap_or_else(|error| error.exit());
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::complain(&format!("tallyd: cannot start its threads: {error}"));
            return ExitCode::from(1);
        }
    };
    match runtime.block_on(dispatch(cli)) {
        Ok(answer) => {
            output::out(&answer.text);
            ExitCode::from(answer.code)
        }
        Err(failure) => {
            output::complain(&format!("tallyd: {}", failure.message));
            ExitCode::from(failure.code)
        }
    }
}

async fn dispatch(cli: Cli) -> Result<Answer, Failure> {
    let place = context::Place::new(cli.config);
    match cli.command {
        Command::Demo(demo) => demo::demo(demo).await,
        Command::Run(run) => run::run(&place, run).await,
        Command::Check(check) => check::check(&place, check).await,
        Command::Status(args) => status::status(&place, args).await,
        Command::Sku(command) => sku::sku(&place, command).await,
        Command::Order(command) => order::order(&place, command).await,
        Command::Stock(stock) => levels::stock(&place, stock).await,
        Command::Quantity(command) => quantity::quantity(&place, command).await,
        Command::Product(command) => product::product(&place, command).await,
        Command::Warehouse(command) => warehouse::warehouse(&place, command).await,
        Command::Supplier(command) => supplier::supplier(&place, command).await,
        Command::Storefront(command) => storefront::storefront(&place, command).await,
        Command::Template(command) => template::template(&place, command).await,
        Command::Report(command) => report::report(&place, command).await,
        Command::Ship(ship) => ship::ship(&place, ship).await,
        Command::Tracking(command) => tracking::tracking(&place, command).await,
        Command::Explain(args) => explain::explain(&place, args).await,
        Command::Plan(reading) => plan::plan(&place, reading).await,
        Command::Verify(args) => verify::verify(&place, args).await,
        Command::Outbox(command) => outbox::outbox(&place, command).await,
        Command::Quarantine(command) => quarantine::quarantine(&place, command).await,
        Command::Quota(command) => quota::quota(&place, command).await,
        Command::Job(command) => job::job(&place, command).await,
        Command::Journal(command) => entries::journal(&place, command).await,
        Command::Replay(args) => replay::replay(&place, args).await,
        Command::Backup(args) => backup::backup(&place, args).await,
        Command::Restored => restored::restored(&place).await,
        Command::Sandbox(serve) => sandbox::serve(serve).await,
        Command::Completions(shell) => Ok(generate::completions(&shell).into()),
        Command::Man(args) => generate::man(&args),
    }
}
