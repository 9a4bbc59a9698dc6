//! `move`: moves the database from a file to a server, or back.

use crate::cli::context::CliContext;
use crate::cli::decider::command_line_user;
use crate::cli::output::progress::Progress;
use crate::cli::output::{SHOWN_MAX, columns, lines_text, shortened, table_text};
use crate::cli::{CommandFailure, CommandResult, OutputArgs};
use crate::config::DatabaseConfig;
use crate::model::time::whole_millis;
use crate::store::{self, DatabaseLocation, MoveReport, MovedTable, PostgresDatabase, ReplacedText};
use clap::Args;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(in crate::cli) struct MoveArgs {
    /// Database to move: the path of a file, or postgres://USER@HOST/DATABASE without a password
    #[arg(long, value_name = "FILE|URL")]
    from: String,
    /// Empty place to move it to; the file must not exist, and a schema must hold no database
    #[arg(long, value_name = "FILE|URL")]
    to: String,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn move_command(context: &CliContext, args: MoveArgs) -> CommandResult {
    let database = context.config()?.database;
    let (from, to) = (location(&args.from, &database)?, location(&args.to, &database)?);
    if from.server().is_some() == to.server().is_some() {
        return Err(CommandFailure::usage(
            "a move leads from a file to a server or back: name a path and an address. A file is copied by `tallyd \
             backup`, a schema by the server's tools",
        ));
    }
    let started = context.now();
    let mut progress = Progress::new("steps of the move");
    let advance = |done: usize, of: usize| progress.advance_to(done as u64, of as u64);
    let moved = store::move_database(&from, &to, (started, &command_line_user()), advance).await?;
    let elapsed_ms = whole_millis(context.now().duration_since(started));
    let ends = (&from, &to);
    let text = || move_text(ends, &moved, elapsed_ms);
    Ok(args.output.render(|| move_json(ends, &moved, elapsed_ms), text).into())
}

fn location(text: &str, database: &DatabaseConfig) -> Result<DatabaseLocation, CommandFailure> {
    if text.contains("://") {
        let server = PostgresDatabase::new(text, &database.schema);
        let server =
            server.map_err(|why| CommandFailure::usage(format!("the address is not usable: {why}")))?;
        return Ok(database.on_server(server)?);
    }
    let path = std::path::absolute(text)
        .map_err(|error| CommandFailure::usage(format!("`{text}` is no path of a file: {error}")))?;
    Ok(path.into())
}

fn move_text(
    (from, to): (&DatabaseLocation, &DatabaseLocation),
    moved: &MoveReport,
    elapsed_ms: i64,
) -> String {
    let MoveReport { tables, replaced, sentence } = moved;
    let mut text = String::new();
    if tables.is_empty() {
        text.push_str(&format!("{from} had been moved to {to} already; nothing was done\n"));
    } else {
        let filled = tables.iter().filter(|table| table.rows > 0);
        let columns = |table: &MovedTable| columns! {"table": table.name, "rows": table.rows, "": "equal"};
        text.push_str(&table_text(filled.map(columns), "no rows"));
        let rows: u64 = tables.iter().map(|table| table.rows).sum();
        text.push_str(&format!(
            "\n{rows} rows in {} tables are equal in {from} and {to}; took {elapsed_ms} ms\n",
            tables.len()
        ));
    }
    let line = |ReplacedText { table, column, row }: &ReplacedText| {
        format!("{table}, {row}: {column} held text that PostgreSQL does not store; U+FFFD is in its place")
    };
    text.push_str(&lines_text(&shortened(replaced.iter().map(line), SHOWN_MAX)));
    let settings = to.to_settings().join("\n    ");
    text.push_str(&format!(
        "\nwrite this in [database] of tallyd.toml, then run `sudo systemctl start tallyd`:\n    {settings}\n\n\
         the side left behind now says: {sentence}\n"
    ));
    text
}

fn move_json(
    (from, to): (&DatabaseLocation, &DatabaseLocation),
    moved: &MoveReport,
    elapsed_ms: i64,
) -> Value {
    let MoveReport { tables, replaced, sentence } = moved;
    let table = |table: &MovedTable| json!({"table": table.name, "rows": table.rows, "equal": true});
    let text = |text: &ReplacedText| json!({"table": text.table, "row": text.row, "column": text.column});
    json!({
        "from": from.to_string(), "to": to.to_string(), "was_moved": tables.is_empty(),
        "tables": tables.iter().map(table).collect::<Vec<_>>(),
        "replaced_texts": replaced.iter().map(text).collect::<Vec<_>>(),
        "mark": sentence, "elapsed_ms": elapsed_ms,
    })
}
