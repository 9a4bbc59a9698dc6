//! The command line. Only this room prints and reads the environment and operators' files.
//!
//! | file | subject |
//! |---|---|
//! | `commands/` | the commands, each in its own file |
//! | `context.rs` | configuration, clock and store of a command |
//! | `change/` | changes of the command line: their insertion into the outbox, and the wait for their outcome |
//! | `decider.rs` | the operator, as the journal names them |
//! | `code_parser.rs` | values with codes, which completions and help list |
//! | `csv/` | operators' CSV files |
//! | `local_time.rs` | times in the local zone, in and out |
//! | `output/` | tables, JSON, streamed lists and progress |
//! | `wait_notes.rs` | what keeps an answer away, for a person who waits |
//! | `logging.rs` | the log of a process |
//! | `examples.rs` | the examples in the help |
//! | `manual.rs` | the manual pages |
//!
//! A command returns text and an exit code: 0 done, 1 failed, 2 wrong usage or configuration, 3 unhealthy; 4 to 7 tell
//! the outcome of a wait (`change/report.rs`).
//! Reading commands take `--json`; the fields of their JSON are a contract.

mod change;
mod code_parser;
mod commands;
mod context;
pub(crate) mod csv;
mod decider;
mod environment;
mod examples;
mod local_time;
mod logging;
mod manual;
mod output;
mod wait_notes;

use self::commands::catalog::{lists, product};
use self::commands::daemon::{check, init, notify, pages, pause, quota, run, schema, status};
use self::commands::demo::{self, sandbox};
use self::commands::generate;
use self::commands::journal::{backup, entries, job, move_database, replay, restored};
use self::commands::outbox::{self, plan, ship, tracking};
use self::commands::stock::{explain, levels, quantity, verify};
use self::commands::tracked::{order, quarantine, sku};
use self::output::OutputArgs;
use crate::config::{ConfigError, KeyError};
use crate::daemon::{ControlError, StartError};
use crate::exec::JobError;
use crate::present::ViewError;
use crate::projection::ProjectionError;
use crate::sandbox::{SandboxError, SandboxOptions};
use crate::store::{LockError, StoreError};
use clap::error::ErrorKind;
use clap::{ArgMatches, FromArgMatches, Parser, Subcommand};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Keep the stock quantities of a warehouse and a selling platform equal.
#[derive(Debug, Parser)]
#[command(name = "tallyd", version, max_term_width = 100, subcommand_required = true)]
struct Cli {
    /// Configuration file [default: /etc/tallyd/tallyd.toml, then ./config/tallyd.toml]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Read and show times in UTC, not in the local time zone
    #[arg(long, global = true)]
    utc: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Demonstrate tallyd with a sandbox, simulated sales and the daemon
    Demo(demo::DemoArgs),
    /// Ask for the platform's address and the keys, prove them, and write configuration and key files
    ///
    /// Without a terminal, standard input has a line for each value that no option gives: address, integration key,
    /// gateway key. Without --config the files are those of the packaged unit, in /etc/tallyd.
    Init(init::InitArgs),
    /// Run the daemon in the foreground
    ///
    /// SIGTERM and SIGINT end it in order, SIGHUP reads the configuration again. A daemon that was started on a
    /// terminal also ends when the terminal closes, unless it was started by `nohup`.
    Run {
        /// Run each enabled job once, drain the outbox, then exit
        #[arg(long)]
        once: bool,
    },
    /// Validate the configuration and print the settings in force
    Check {
        /// Check the keys at the platform, with one call
        #[arg(long)]
        online: bool,
    },
    /// Show the health of the daemon and the findings that need attention
    Status {
        /// Show also the jobs, and the calls of the last hour by operation
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Serve the page: stock, changes, jobs and quota to look at, and the decisions on them
    Web(pages::WebArgs),
    /// Pause the pushes, or other jobs: changes wait, reads go on
    ///
    /// No write leaves once this command has ended; calls in flight are answered. The pause holds over restarts and on
    /// every host.
    Pause(pause::PauseArgs),
    /// End a pause: the changes that waited are merged with what happened meanwhile, and sent
    Resume(pause::JobNames),
    /// Try the notifiers, or tell that the daemon has failed
    #[command(subcommand)]
    Notify(notify::Command),
    /// Manage the tracked SKUs
    #[command(subcommand)]
    Sku(sku::Command),
    /// Manage the tracked orders
    #[command(subcommand)]
    Order(order::Command),
    /// Show stock levels with pending changes and the age of the facts
    Stock(levels::StockArgs),
    /// Queue counts and adjustments of stock levels
    ///
    /// A quantity means what the platform's QuantityOnHand means: what is on the shelf, less what is sold and not yet
    /// picked.
    #[command(subcommand)]
    Quantity(quantity::Command),
    /// Find products at the platform, and queue their creation or update
    #[command(subcommand)]
    Product(product::Command),
    /// List warehouses, or queue the creation of a warehouse
    #[command(subcommand)]
    Warehouse(lists::WarehouseCommand),
    /// List suppliers
    #[command(subcommand)]
    Supplier(lists::ListCommand),
    /// List storefronts
    #[command(subcommand)]
    Storefront(lists::ListCommand),
    /// List listing templates, or queue the creation of a listing template
    #[command(subcommand)]
    Template(lists::TemplateCommand),
    /// Show the platform's reports from the mirror
    #[command(subcommand)]
    Report(lists::ReportCommand),
    /// Queue a shipment of an order, or of some of its lines
    Ship(ship::ShipArgs),
    /// Queue tracking numbers of shipments
    #[command(subcommand)]
    Tracking(tracking::Command),
    /// Explain a stock level: its exchanges, changes, merges and brakes
    Explain(explain::ExplainArgs),
    /// Show the requests of the next push, byte for byte, without a call
    Plan(OutputArgs),
    /// Compare the mirror with the platform, using a limited number of calls; change no fact
    Verify(verify::VerifyArgs),
    /// List and manage changes in the outbox
    #[command(subcommand)]
    Outbox(outbox::Command),
    /// List and retry quarantined SKUs, orders and shipments
    #[command(subcommand)]
    Quarantine(quarantine::Command),
    /// Manage the waits that the platform orders
    #[command(subcommand)]
    Quota(quota::Command),
    /// List runs, or run a job now
    #[command(subcommand)]
    Job(job::Command),
    /// Show, export, compare and prune journal entries
    #[command(subcommand)]
    Journal(entries::Command),
    /// Rebuild the mirror from the journal, offline, and compare it with the live one
    Replay(replay::ReplayArgs),
    /// Copy the database to a file, verify the copy and mark it as a backup
    Backup {
        /// File to write; it must not exist yet
        file: PathBuf,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Put a copy in the place of the database, which is kept, and mark it as restored
    Restore {
        /// Copy of the database, made by `tallyd backup` or another tool
        file: PathBuf,
    },
    /// Mark the database as restored by another tool: the next start holds changes that may have been sent since
    Restored,
    /// Print the SQL of the roles and rights of a database on a PostgreSQL server, for psql
    Schema,
    /// Move the database from a file to a PostgreSQL server, or back: all rows, compared table by table
    ///
    /// Schema, password and lock come from the section `database` of the configuration. Stop the daemon first. The
    /// database left behind is marked as moved: tallyd never starts on it again, and every write to it is refused.
    Move(move_database::MoveArgs),
    /// Serve the sandbox, a complete implementation of the platform
    ///
    /// A program that needs a list of products or of orders cannot run here, because the interface has no such list.
    Sandbox(SandboxOptions),
    /// Print completions for a shell
    Completions(generate::CompletionsArgs),
    /// Print the manual page
    Man(generate::ManArgs),
}

#[derive(Default)]
struct CommandOutput {
    text: String,
    exit_code: u8,
}

impl From<String> for CommandOutput {
    fn from(text: String) -> Self {
        Self { text, exit_code: 0 }
    }
}

type CommandResult = Result<CommandOutput, CommandFailure>;

#[derive(Debug)]
struct CommandFailure {
    message: String,
    exit_code: u8,
}

impl CommandFailure {
    fn failed(message: impl AsRef<str>) -> Self {
        Self::new(message, 1)
    }

    /// Creates a failure for wrong usage or configuration, with exit code 2.
    fn usage(message: impl AsRef<str>) -> Self {
        Self::new(message, 2)
    }

    /// Creates a message of one line; text from outside cannot begin another line.
    fn new(message: impl AsRef<str>, code: u8) -> Self {
        Self { message: output::plain_line(message.as_ref()).into_owned(), exit_code: code }
    }

    /// Returns a function that names the failed action, to follow "cannot".
    fn cannot<E: std::fmt::Display>(action: impl std::fmt::Display) -> impl Fn(E) -> Self {
        move |error| Self::failed(format!("cannot {action}: {error}"))
    }

    /// Creates a message of several lines. Text from outside must be masked with [`output::plain_line`].
    fn multiline(message: impl Into<String>, code: u8) -> Self {
        Self { message: message.into(), exit_code: code }
    }
}

/// Errors, each with the condition under which wrong usage or configuration is the cause.
macro_rules! failures {
    ($($error:ty: $is_usage:expr),+ $(,)?) => {$(
        impl From<$error> for CommandFailure {
            fn from(error: $error) -> Self {
                let is_usage: fn(&$error) -> bool = $is_usage;
                Self::new(local_time::local_sentence(error.to_string()), if is_usage(&error) { 2 } else { 1 })
            }
        }
    )+};
}

failures! {
    KeyError: |_| false,
    LockError: |_| false,
    ProjectionError: |_| false,
    JobError: |_| false,
    StoreError: has_moved,
    ViewError: |error| match error {
        ViewError::Store(error) => has_moved(error),
        error => matches!(error, ViewError::Invalid(_)),
    },
    StartError: cannot_start,
    ControlError: |error| matches!(error, ControlError::Start(error) if cannot_start(error)),
    SandboxError: |error| matches!(error, SandboxError::RemoteAddress(_)),
}

/// Returns true if only another configuration leads to the database.
fn has_moved(error: &StoreError) -> bool {
    matches!(error, StoreError::Moved { .. })
}

/// Returns true if the daemon cannot start with this configuration.
fn cannot_start(error: &StartError) -> bool {
    use StartError::{FileHangs, Key, OtherAccount, Store, Transport};
    match error {
        Store(error) => has_moved(error),
        error => matches!(error, Key(_) | Transport(_) | FileHangs(..) | OtherAccount { .. }),
    }
}

impl From<ConfigError> for CommandFailure {
    fn from(error: ConfigError) -> Self {
        Self::multiline(error.to_string(), 2)
    }
}

/// Parses the command line, runs the command and returns its exit code.
pub fn main() -> ExitCode {
    // Every file and folder is its owner's, and its group may read it. The others have a mode of their own.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o027));
    let matches = examples::command_with_examples().try_get_matches().and_then(refuse_empty);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        // An error quotes arguments, which text from outside may have become.
        Err(error) if error.use_stderr() => {
            output::print_error(error.render().to_string().trim_end());
            return ExitCode::from(2);
        }
        Err(help) => help.exit(),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::print_error(&format!("tallyd: cannot start its threads: {error}"));
            return ExitCode::from(1);
        }
    };
    match runtime.block_on(dispatch(cli)) {
        Ok(answer) => {
            output::print_text(&answer.text);
            ExitCode::from(answer.exit_code)
        }
        Err(failure) => {
            output::print_error(&format!("tallyd: {}", failure.message));
            ExitCode::from(failure.exit_code)
        }
    }
}

/// Refuses an argument with an empty value, which a variable of a shell that is not set leaves.
///
/// No argument means something when it is empty, and as a filter it would select everything.
fn refuse_empty(matches: ArgMatches) -> Result<ArgMatches, clap::Error> {
    let levels = std::iter::successors(Some(&matches), |matches| Some(matches.subcommand()?.1));
    let is_blank = |value: &OsStr| value.to_string_lossy().trim().is_empty();
    let mut ids = levels.flat_map(|matches| matches.ids().map(move |id| (matches, id.as_str())));
    let empty = ids.find(|(matches, id)| {
        matches.try_get_raw(id).ok().flatten().is_some_and(|mut values| values.any(is_blank))
    });
    if let Some((_, id)) = empty {
        let name = id.replace('_', "-");
        let why = format!("`{name}` must not be empty: give a value, or leave it out. Nothing was done\n");
        return Err(clap::Error::raw(ErrorKind::InvalidValue, why));
    }
    Ok(matches)
}

async fn dispatch(cli: Cli) -> CommandResult {
    if cli.utc {
        local_time::use_utc();
    }
    let context = context::CliContext::new(cli.config);
    match cli.command {
        Command::Demo(demo) => demo::demo_command(demo).await,
        Command::Init(args) => init::init_command(&context, args).await,
        Command::Run { once } => run::run_command(&context, once).await,
        Command::Check { online } => check::check_command(&context, online).await,
        Command::Status { all, output } => status::status_command(&context, all, output).await,
        Command::Web(args) => pages::web_command(&context, args).await,
        Command::Pause(args) => pause::pause_command(&context, args).await,
        Command::Resume(args) => pause::resume_command(&context, args).await,
        Command::Notify(command) => notify::notify_command(&context, command).await,
        Command::Sku(command) => sku::sku_command(&context, command).await,
        Command::Order(command) => order::order_command(&context, command).await,
        Command::Stock(stock) => levels::stock_command(&context, stock).await,
        Command::Quantity(command) => quantity::quantity_command(&context, command).await,
        Command::Product(command) => product::product_command(&context, command).await,
        Command::Warehouse(command) => lists::warehouse_command(&context, command).await,
        Command::Supplier(command) => lists::supplier_command(&context, command).await,
        Command::Storefront(command) => lists::storefront_command(&context, command).await,
        Command::Template(command) => lists::template_command(&context, command).await,
        Command::Report(command) => lists::report_command(&context, command).await,
        Command::Ship(ship) => ship::ship_command(&context, ship).await,
        Command::Tracking(command) => tracking::tracking_command(&context, command).await,
        Command::Explain(args) => explain::explain_command(&context, args).await,
        Command::Plan(output) => plan::plan_command(&context, output).await,
        Command::Verify(args) => verify::verify_command(&context, args).await,
        Command::Outbox(command) => outbox::outbox_command(&context, command).await,
        Command::Quarantine(command) => quarantine::quarantine_command(&context, command).await,
        Command::Quota(command) => quota::quota_command(&context, command).await,
        Command::Job(command) => job::job_command(&context, command).await,
        Command::Journal(command) => entries::journal_command(&context, command).await,
        Command::Replay(args) => replay::replay_command(&context, args).await,
        Command::Backup { file, output } => backup::backup_command(&context, &file, output).await,
        Command::Restore { file } => restored::restore_command(&context, &file).await,
        Command::Restored => restored::restored_command(&context).await,
        Command::Schema => schema::schema_command(&context),
        Command::Move(args) => move_database::move_command(&context, args).await,
        Command::Sandbox(serve) => sandbox::sandbox_command(serve).await,
        Command::Completions(args) => Ok(generate::completions_command(&args).into()),
        Command::Man(args) => generate::man_command(&args),
    }
}
