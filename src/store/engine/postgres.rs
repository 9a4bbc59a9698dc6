//! PostgreSQL's words for the statements that both engines share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct Statement {
    pub(super) text: Arc<str>,
    /// Numbers of the values in the text that it came from: `$1` is the first of them.
    pub(super) values: Vec<usize>,
}

/// Statements of each text, by the text.
static STATEMENTS: Mutex<BTreeMap<String, Arc<[Statement]>>> = Mutex::new(BTreeMap::new());

/// Returns the statements of a text.
///
/// PostgreSQL prepares them one by one. A statement is kept by its text with the number of its values, so
/// each has its own numbers only.
pub(super) fn statements(text: &str) -> Arc<[Statement]> {
    let mut known = STATEMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(statements) = known.get(text) {
        return Arc::clone(statements);
    }
    let statements: Arc<[Statement]> = text.split("; ").map(translate).collect();
    known.insert(text.to_owned(), Arc::clone(&statements));
    statements
}

/// Returns the statements that a server prepares for a text of both engines.
#[cfg(test)]
pub(crate) fn server_statements(text: &str) -> Vec<String> {
    statements(text).iter().map(|statement| statement.text.to_string()).collect()
}

/// From version 16 on, PostgreSQL parses `json_array` and `json_object` as syntax of its own, which drops NULLs.
fn translate(statement: &str) -> Statement {
    let statement =
        statement.replace("json_array(", "json_build_array(").replace("json_object(", "json_build_object(");
    let mut parts = statement.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    // A `$` without a number begins a path in JSON.
    let parts = parts.map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        (part[..end].parse::<usize>().ok(), &part[end..])
    });
    let parts: Vec<(Option<usize>, &str)> = parts.collect();
    let values: BTreeSet<usize> = parts.iter().filter_map(|(number, _)| *number).collect();
    let values: Vec<usize> = values.into_iter().collect();
    for (number, tail) in parts {
        text.push('$');
        if let Some(number) = number {
            let place = values.iter().take_while(|value| **value < number).count() + 1;
            text.push_str(&place.to_string());
        }
        text.push_str(tail);
    }
    Statement { text: text.into(), values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_of_a_text_has_its_own_numbers() {
        let text = "UPDATE a SET n = n + 1; INSERT INTO b VALUES ($3, json_array($10), $3); SELECT '$.x' || $2; COMMIT";
        let found = statements(text);
        let found: Vec<(&str, &[usize])> = found.iter().map(|one| (&*one.text, &*one.values)).collect();
        let expected: [(&str, &[usize]); 4] = [
            ("UPDATE a SET n = n + 1", &[]),
            ("INSERT INTO b VALUES ($1, json_build_array($2), $1)", &[3, 10]),
            ("SELECT '$.x' || $1", &[2]),
            ("COMMIT", &[]),
        ];
        assert_eq!(found, expected);
    }
}
