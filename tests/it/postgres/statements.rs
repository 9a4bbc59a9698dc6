//! Every statement of `src/store` is prepared by a PostgreSQL server and by SQLite.
//!
//! The statements are read from the sources, so that none is left out because no test runs it. Each call of a
//! method that takes a statement is a site, and the test fails unless it can evaluate the statement of the site:
//! literals, `concat!`, macros, constants, `format!` and `match`. What only the running program knows of a text
//! stands in [`HOLES`]. The statements of `src/store/engine` for one engine are not among them; their tests run
//! them on that engine.

use crate::it::support::cluster::Cluster;
use crate::it::support::outsider::Outsider;
use sqlx::{AssertSqlSafe, Executor as _, SqlSafeStr as _};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tallyd::store::{DatabaseLock, Store, server_statements};

/// Values in place of what a text gets when the program runs: the file, the name in braces, a value.
const HOLES: &[(&str, &str, &str)] = &[
    ("mirror/platform_lists.rs", "table", "supplier"),
    ("mirror/platform_lists.rs", "scope", "CAST($1 AS BIGINT) IS NULL"),
    ("mirror/platform_lists.rs", "id", "id"),
    ("mirror/platform_lists.rs", "key", "id"),
    ("mirror/platform_lists.rs", "names", "name, is_active"),
    (
        "mirror/platform_lists.rs",
        "values",
        "CAST(value->>'id' AS BIGINT), CAST(value->>'name' AS TEXT), CAST(value->>'is_active' AS BOOLEAN)",
    ),
    ("mirror/platform_lists.rs", "stored", "supplier.name, supplier.is_active"),
    ("mirror/platform_lists.rs", "excluded", "excluded.name, excluded.is_active"),
    ("mirror/work_queue.rs", "COUNT_COLUMNS", "open_work_orders"),
    ("mirror/work_queue.rs", "values", ", CAST($3->>0 AS BIGINT)"),
    ("views/health.rs", "which", "operation IN (SELECT atom FROM json_each($3))"),
];

/// Token of a source; texts are evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Text(String),
    Word(String),
    Mark(char),
}

use Token::{Mark, Text, Word};

/// Returns the tokens of a source without its comments and its unit tests.
fn tokens(source: &str) -> Vec<Token> {
    let source = source.split("\n#[cfg(test)]\nmod ").next().unwrap();
    let chars: Vec<char> = source.chars().collect();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1);
        let begin = at;
        match c {
            '/' if next == Some(&'/') => at += chars[at..].iter().take_while(|c| **c != '\n').count(),
            '"' => tokens.push(Text(text(&chars, &mut at))),
            'r' if matches!(next, Some('"' | '#')) => tokens.push(Text(raw_text(&chars, &mut at))),
            // A character, or the begin of a lifetime.
            '\'' if next == Some(&'\\') => {
                at += 3 + chars[at + 3..].iter().take_while(|c| **c != '\'').count()
            }
            '\'' if chars.get(at + 2) == Some(&'\'') => at += 3,
            c if c.is_alphanumeric() || c == '_' => {
                at += chars[at..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count();
                tokens.push(Word(chars[begin..at].iter().collect()));
            }
            c => {
                at += 1;
                if !c.is_whitespace() {
                    tokens.push(Mark(c));
                }
            }
        }
        assert!(at > begin);
    }
    tokens
}

fn text(chars: &[char], at: &mut usize) -> String {
    let mut text = String::new();
    *at += 1;
    while chars[*at] != '"' {
        if chars[*at] == '\\' {
            *at += 1;
            match chars[*at] {
                '\n' => {
                    *at += chars[*at..].iter().take_while(|c| c.is_whitespace()).count();
                    continue;
                }
                'n' => text.push('\n'),
                c @ ('"' | '\\') => text.push(c),
                // No statement has another escape.
                _ => text.push(char::REPLACEMENT_CHARACTER),
            }
        } else {
            text.push(chars[*at]);
        }
        *at += 1;
    }
    *at += 1;
    text
}

fn raw_text(chars: &[char], at: &mut usize) -> String {
    let hashes = chars[*at + 1..].iter().take_while(|c| **c == '#').count();
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let begin = *at + hashes + 2;
    let length = chars[begin..].windows(end.len()).position(|window| window == end).unwrap();
    *at = begin + length + end.len();
    chars[begin..begin + length].iter().collect()
}

/// Returns the number of tokens up to a mark outside of brackets, or up to the end of the brackets.
fn up_to(tokens: &[Token], is_end: impl Fn(&[Token]) -> bool) -> usize {
    let mut depth = 0;
    for at in 0..tokens.len() {
        match tokens[at] {
            _ if depth == 0 && is_end(&tokens[at..]) => return at,
            Mark('(' | '[' | '{') => depth += 1,
            Mark(')' | ']' | '}') if depth == 0 => return at,
            Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Splits tokens at a mark outside of brackets.
fn split(tokens: &[Token], mark: char) -> Vec<&[Token]> {
    let (mut parts, mut rest) = (Vec::new(), tokens);
    while !rest.is_empty() {
        let length = up_to(rest, |tokens| tokens[0] == Mark(mark));
        parts.push(&rest[..length]);
        rest = rest.get(length + 1..).unwrap_or_default();
    }
    parts
}

/// Returns the tokens inside the bracket at the begin of a list.
fn inside(tokens: &[Token]) -> &[Token] {
    &tokens[1..1 + up_to(&tokens[1..], |_| false)]
}

fn word(name: &str) -> Token {
    Word(name.to_owned())
}

/// Returns the places at which these tokens stand.
fn places<'a>(tokens: &'a [Token], wanted: &'a [Token]) -> impl DoubleEndedIterator<Item = usize> + 'a {
    tokens.windows(wanted.len()).enumerate().filter(move |(_, found)| *found == wanted).map(|(at, _)| at)
}

/// The sources of the store, by their path under `src/store`.
struct Sources {
    files: BTreeMap<String, Vec<Token>>,
    /// Name, parameters and body of each macro.
    macros: BTreeMap<String, (Vec<String>, Vec<Token>)>,
    /// Expression of each constant, by its file and name.
    constants: BTreeMap<(String, String), Vec<Token>>,
}

impl Sources {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
        let mut files = BTreeMap::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            let entries: Vec<PathBuf> =
                std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            for path in entries {
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("tests.rs") {
                    let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                    files.insert(name, tokens(&std::fs::read_to_string(path).unwrap()));
                }
            }
        }
        Self::of(files)
    }

    fn of(files: BTreeMap<String, Vec<Token>>) -> Self {
        let (mut macros, mut constants) = (BTreeMap::new(), BTreeMap::new());
        for (file, tokens) in &files {
            for at in places(tokens, &[word("macro_rules"), Mark('!')]) {
                let Word(name) = &tokens[at + 2] else { continue };
                // The pattern of the first arm, an arrow, and its body.
                let arms = inside(&tokens[at + 3..]);
                let pattern = inside(arms);
                let parameters = pattern.windows(2).filter(|pair| pair[0] == Mark('$'));
                let parameters = parameters.filter_map(|pair| match &pair[1] {
                    Word(name) => Some(name.clone()),
                    _ => None,
                });
                let body = inside(&arms[pattern.len() + 4..]).to_vec();
                macros.insert(name.clone(), (parameters.collect(), body));
            }
            for at in places(tokens, &[word("const")]).chain(places(tokens, &[word("static")])) {
                let (Some(Word(name)), Some(Mark(':'))) = (tokens.get(at + 1), tokens.get(at + 2)) else {
                    continue;
                };
                let rest = &tokens[at..];
                let Some(begin) = rest.iter().position(|token| *token == Mark('=')) else { continue };
                let rest = &rest[begin + 1..];
                let end = up_to(rest, |tokens| tokens[0] == Mark(';'));
                constants.insert((file.clone(), name.clone()), rest[..end].to_vec());
            }
        }
        Self { files, macros, constants }
    }

    /// Returns the expression of a constant, of the file if it has one of this name.
    fn constant(&self, file: &str, name: &str) -> Option<&[Token]> {
        let own = self.constants.get(&(file.to_owned(), name.to_owned()));
        let any = || self.constants.iter().find(|((_, known), _)| known == name).map(|(_, value)| value);
        own.or_else(any).map(Vec::as_slice)
    }

    /// Returns the methods and functions that take a statement, with the number of that argument. They are those
    /// with a parameter `sql`; a function has no receiver.
    fn methods(&self) -> BTreeMap<String, (usize, bool)> {
        let mut methods = BTreeMap::new();
        for tokens in self.files.iter().filter(|(name, _)| !is_of_one_engine(name)).map(|(_, tokens)| tokens)
        {
            for at in places(tokens, &[word("fn")]) {
                let Some(Word(name)) = tokens.get(at + 1) else { continue };
                let Some(bracket) = tokens[at..].iter().position(|token| *token == Mark('(')) else {
                    continue;
                };
                let parameters = split(inside(&tokens[at + bracket..]), ',');
                let has_receiver = parameters.first().is_some_and(|first| {
                    first.contains(&word("self")) || first.starts_with(&[Mark('$'), word("self")])
                });
                if let Some(sql) =
                    parameters.iter().position(|parameter| parameter.starts_with(&[word("sql"), Mark(':')]))
                {
                    methods.insert(name.clone(), (sql - usize::from(has_receiver), has_receiver));
                }
            }
        }
        methods
    }
}

/// Returns true for the files whose statements are of one engine, and for the methods of connections.
fn is_of_one_engine(file: &str) -> bool {
    let of_both = ["engine/fetch.rs", "engine/watch.rs", "engine/rollback_detection.rs"];
    file.starts_with("engine/") && !of_both.contains(&file)
}

/// Evaluation of the expressions of a file.
struct Evaluation<'a> {
    sources: &'a Sources,
    file: &'a str,
    used_holes: BTreeSet<(&'static str, &'static str)>,
}

type Values = Result<Vec<String>, String>;

impl<'a> Evaluation<'a> {
    /// Returns the texts that an expression may have; `before` is what stands before it in the file.
    fn texts(&mut self, expression: &[Token], before: &[Token]) -> Values {
        match expression {
            [Mark('&'), rest @ ..] => self.texts(rest, before),
            [Text(text)] => Ok(vec![text.clone()]),
            [Word(name), Mark('!'), arguments @ ..] if name == "concat" => {
                let parts = split(inside(arguments), ',');
                parts.into_iter().try_fold(vec![String::new()], |texts, part| {
                    let parts = self.texts(part, before)?;
                    Ok(texts
                        .iter()
                        .flat_map(|text| parts.iter().map(move |part| format!("{text}{part}")))
                        .collect())
                })
            }
            [Word(name), Mark('!'), arguments @ ..] if name == "format" => {
                let arguments = split(inside(arguments), ',');
                let [pattern, values @ ..] = &arguments[..] else { return Err("an empty format".into()) };
                let pattern = self.texts(pattern, before)?.remove(0);
                self.filled(&pattern, values, before)
            }
            [Word(name), Mark('!'), arguments @ ..] => {
                let (parameters, body) = self.sources.macros.get(name).ok_or(format!("the macro {name}"))?;
                let values = split(inside(arguments), ',');
                let mut expanded = Vec::new();
                for token in body {
                    let parameter = parameters.iter().position(|parameter| *token == Word(parameter.clone()));
                    match (parameter, expanded.last() == Some(&Mark('$'))) {
                        (Some(parameter), true) => {
                            expanded.pop();
                            expanded.extend_from_slice(values[parameter]);
                        }
                        _ => expanded.push(token.clone()),
                    }
                }
                self.texts(&expanded, before)
            }
            [Word(name), rest @ ..] if name == "match" => {
                let begin = up_to(rest, |tokens| tokens[0] == Mark('{'));
                self.arms(inside(&rest[begin..]), before)
            }
            [Word(name), rest @ ..] if name == "if" => {
                let begin = up_to(rest, |tokens| tokens[0] == Mark('{'));
                let block = inside(&rest[begin..]);
                let mut texts = self.texts(block, before)?;
                let [Word(_), otherwise @ ..] = &rest[begin + block.len() + 2..] else {
                    return Err("an `if` without `else`".into());
                };
                texts.extend(self.texts(inside(otherwise), before)?);
                Ok(texts)
            }
            // A statement of one engine, from the columns of its table; the tests of `move` and of replays run it.
            [.., Mark('.'), Word(name), Mark('('), Mark('&'), Word(_), Mark('.'), Word(_), Mark(')')]
                if name == "insertion" =>
            {
                Ok(Vec::new())
            }
            [rest @ .., Mark('.'), Word(name), Mark('('), Mark(')')] if name == "clone" => {
                self.texts(rest, before)
            }
            [Word(name), rest @ ..] if name == "AssertSqlSafe" => self.texts(inside(rest), before),
            [Word(name), Mark(':'), Mark(':'), rest @ ..] if name == "sqlx" => self.texts(rest, before),
            [subject @ .., Mark('.'), Word(name), Mark('('), Text(from), Mark(','), Text(to), Mark(')')]
                if name == "replace" =>
            {
                Ok(self.texts(subject, before)?.iter().map(|text| text.replace(from, to)).collect())
            }
            [Word(function), Mark('('), ..] => {
                let wanted = [word("fn"), Word(function.clone())];
                let found =
                    self.sources.files.iter().find(|(_, tokens)| places(tokens, &wanted).next().is_some());
                let (file, tokens) = found.ok_or(format!("the function {function}"))?;
                let begin = places(tokens, &wanted).next().unwrap();
                let body = begin + up_to(&tokens[begin..], |tokens| tokens[0] == Mark('{'));
                let last = split(inside(&tokens[body..]), ';').pop().unwrap();
                let mut evaluation = Evaluation { file, sources: self.sources, used_holes: BTreeSet::new() };
                let texts = evaluation.texts(last, &[]);
                self.used_holes.append(&mut evaluation.used_holes);
                texts
            }
            [.., Word(name)] if self.sources.constant(self.file, name).is_some() => {
                self.texts(self.sources.constant(self.file, name).unwrap(), before)
            }
            [Word(name)] => {
                let begins = [word("let"), Word(name.clone()), Mark('=')];
                let begin = places(before, &begins).next_back().ok_or(format!("the name {name}"))?;
                let rest = &before[begin + 3..];
                let end = up_to(rest, |tokens| tokens[0] == Mark(';'));
                self.texts(&rest[..end], &before[..begin])
            }
            _ => Err(format!("{expression:?}")),
        }
    }

    /// Returns the texts of the arms of a `match`.
    fn arms(&mut self, mut arms: &[Token], before: &[Token]) -> Values {
        let mut texts = Vec::new();
        while !arms.is_empty() {
            let arrow = up_to(arms, |tokens| tokens.starts_with(&[Mark('='), Mark('>')]));
            let value = &arms[arrow + 2..];
            let is_block = value[0] == Mark('{');
            let end = if is_block {
                inside(value).len() + 2
            } else {
                up_to(value, |tokens| tokens[0] == Mark(','))
            };
            texts.extend(self.texts(if is_block { inside(value) } else { &value[..end] }, before)?);
            arms = value.get(end..).unwrap_or_default();
            arms = arms.strip_prefix(&[Mark(',')]).unwrap_or(arms);
        }
        Ok(texts)
    }

    /// Fills the braces of a format with each of their texts.
    fn filled(&mut self, pattern: &str, values: &[&[Token]], before: &[Token]) -> Values {
        let (mut texts, mut rest, mut values) = (vec![String::new()], pattern, values.iter());
        while let Some((head, tail)) = rest.split_once('{') {
            let (name, tail) = tail.split_once('}').unwrap();
            let listed = HOLES.iter().find(|(file, hole, _)| *file == self.file && *hole == name);
            let found = match (listed, name) {
                (Some((file, hole, value)), _) => {
                    self.used_holes.insert((file, hole));
                    vec![(*value).to_owned()]
                }
                (None, "") => self.texts(values.next().ok_or("a value of a format")?, before)?,
                (None, name) => self.texts(&[word(name)], before)?,
            };
            let filled =
                texts.iter().flat_map(|text| found.iter().map(move |value| format!("{text}{head}{value}")));
            texts = filled.collect();
            rest = tail;
        }
        Ok(texts.into_iter().map(|text| text + rest).collect())
    }
}

/// Result of reading the sites of the sources.
#[derive(Default)]
struct Found<'a> {
    /// Texts with their files.
    texts: Vec<(&'a str, String)>,
    /// Sites whose text cannot be read.
    unread: Vec<String>,
    used_holes: BTreeSet<(&'static str, &'static str)>,
}

fn all_texts(sources: &Sources) -> Found<'_> {
    let methods = sources.methods();
    let mut found = Found::default();
    for (file, tokens) in sources.files.iter().filter(|(file, _)| !is_of_one_engine(file)) {
        let mut evaluation = Evaluation { sources, file, used_holes: BTreeSet::new() };
        for at in 1..tokens.len() {
            let (Word(name), Some(Mark('('))) = (&tokens[at], tokens.get(at + 1)) else { continue };
            let Some((number, has_receiver)) = methods.get(name) else { continue };
            if tokens[at - 1] == word("fn") || *has_receiver != (tokens[at - 1] == Mark('.')) {
                continue;
            }
            let begin = places(&tokens[..at], &[word("fn")]).next_back().unwrap_or(0);
            let before = &tokens[begin..at];
            let arguments = split(inside(&tokens[at + 1..]), ',');
            match evaluation.texts(arguments[*number], before) {
                Ok(texts) => found.texts.extend(texts.into_iter().map(|text| (file.as_str(), text))),
                // A method that takes the statement itself; its callers are sites.
                Err(why)
                    if why == "the name sql"
                        && before.windows(2).any(|two| two == [word("sql"), Mark(':')]) => {}
                Err(why) => found.unread.push(format!("{file}: {name}: {why}")),
            }
        }
        for at in places(tokens, &[word("BulkInsert"), Mark('{')]) {
            let fields = split(inside(&tokens[at + 1..]), ',');
            let mut field = |name: &str| {
                let begin = [word(name), Mark(':')];
                let value = fields.iter().find_map(|field| field.strip_prefix(&begin)).unwrap();
                evaluation.texts(value, &[]).unwrap().remove(0)
            };
            let (target, conflict_clause) = (field("target"), field("conflict_clause"));
            let columns = target.matches(',').count() + 1;
            let values: Vec<String> = (1..=columns).map(|number| format!("${number}")).collect();
            let text = format!("INSERT INTO {target} VALUES ({}) {conflict_clause}", values.join(", "));
            found.texts.push((file.as_str(), text));
        }
        found.used_holes.append(&mut evaluation.used_holes);
    }
    found
}

#[tokio::test]
async fn every_statement_of_the_store_is_prepared_on_both_engines() {
    let Some(cluster) = Cluster::start() else { return };
    let sources = Sources::read();
    let Found { texts, unread, used_holes } = all_texts(&sources);
    assert!(unread.is_empty(), "statements that are not prepared: {unread:#?}");
    let unused: Vec<_> =
        HOLES.iter().filter(|(file, hole, _)| !used_holes.contains(&(*file, *hole))).collect();
    assert!(unused.is_empty(), "no text has these holes: {unused:?}");
    assert!(texts.len() > 320, "the sites are found: {}", texts.len());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.db");
    let mut failed = Vec::new();
    for location in [file.as_path().into(), cluster.location("north", &file)] {
        let lock = DatabaseLock::acquire(&file).unwrap();
        Store::open(&location, &lock).await.unwrap().close().await.unwrap();
        let mut database = Outsider::at(&location).await;
        for (file, text) in &texts {
            let prepared = match &mut database {
                Outsider::Sqlite(file) => {
                    file.prepare(AssertSqlSafe(text.as_str()).into_sql_str()).await.map(drop)
                }
                Outsider::Postgres(server) => {
                    let mut prepared = Ok(());
                    for statement in server_statements(text) {
                        let statement =
                            server.prepare(AssertSqlSafe(statement).into_sql_str()).await.map(drop);
                        prepared = prepared.and(statement);
                    }
                    prepared
                }
            };
            if let Err(error) = prepared {
                failed.push(format!("{location} {file}: {error}: {text}"));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), texts.len());
}

#[test]
fn a_statement_that_cannot_be_read_is_found() {
    let of = |call: &str| {
        let fetch = "fn fetch_all(&self, sql: impl SqlSafeStr, values: V) { self.rows(sql) }";
        let source = format!(
            "{fetch} macro_rules! m {{ ($n:literal) => {{ concat!(\"SELECT \", $n) }}; }} fn f() {{ {call} }}"
        );
        let sources = Sources::of(BTreeMap::from([("f.rs".to_owned(), tokens(&source))]));
        let Found { texts, unread, .. } = all_texts(&sources);
        (texts.into_iter().map(|(_, text)| text).collect::<Vec<_>>(), unread)
    };
    let (texts, unread) =
        of(r#"let sql = match x { A => "SELECT 1", B => { m!("2") } }; self.fetch_all(sql, ())"#);
    assert_eq!((texts, unread), (vec!["SELECT 1".to_owned(), "SELECT 2".to_owned()], vec![]));
    for call in ["self.fetch_all(made(), ())", "let sql = x.sql; self.fetch_all(sql, ())"] {
        assert_eq!(of(call).1.len(), 1, "{call}");
    }
    let (_, unread) = of(r#"self.fetch_all(format!("SELECT {hole}"), ())"#);
    assert_eq!(unread, ["f.rs: fetch_all: the name hole"]);
}
