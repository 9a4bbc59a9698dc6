//! The change of one value in the text of a configuration, which keeps all else.
//!
//! A candidate is a line that names the key. The parsed text decides whether the candidate sets the value, so a
//! comment, a line of a longer text and a key of another section are no candidates for long. A value that no single
//! line sets, as in an inline table, is left to a person.

use super::layers::merge_layers;

/// Returns the text with `section.key` set to `value`, or the text itself if it says so; `None` if no line sets it.
pub fn set_in_text(text: &str, section: &str, key: &str, value: &str) -> Option<String> {
    if value_in_text(text, section, key).as_deref() == Some(value) {
        return Some(text.to_owned());
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    (0..lines.len()).find_map(|index| {
        let (name, old) = lines[index].split_once('=')?;
        let last = name.rsplit('.').next()?.trim().trim_matches(['"', '\'']);
        if last != key {
            return None;
        }
        let new = format!("{name}= {value:?}{}", after_text(old.trim_start())?);
        let changed = [&lines[..index], &[&new], &lines[index + 1..]].concat().concat();
        (value_in_text(&changed, section, key).as_deref() == Some(value)).then_some(changed)
    })
}

/// Returns the text of `section.key`, without the environment; `None` if there is none or the file cannot be parsed.
pub fn value_in_text(text: &str, section: &str, key: &str) -> Option<String> {
    let tree = merge_layers(text, &[]).ok()?;
    let table = tree.get(section)?.clone().into_table().ok()?;
    table.get(key)?.clone().into_string().ok()
}

/// Returns what follows a text in quotes: blanks, a comment, the end of the line.
fn after_text(quoted: &str) -> Option<&str> {
    let quote = quoted.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let end = quoted[1..].find(quote)?;
    Some(&quoted[end + 2..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "http://127.0.0.1:1";

    #[test]
    fn the_line_that_sets_the_value_is_changed_and_no_other() {
        let cases = [
            (
                "# base_url = \"a\"\n[service]\nbase_url = \"a\"\n",
                "# base_url = \"a\"\n[service]\nbase_url = \"N\"\n",
            ),
            ("[service]\n  base_url='a' # was b = 1\n", "[service]\n  base_url= \"N\" # was b = 1\n"),
            ("service.base_url = \"a\"\r\nx = 1\r\n", "service.base_url = \"N\"\r\nx = 1\r\n"),
            ("\"service\" . \"base_url\" = \"a\"", "\"service\" . \"base_url\" = \"N\""),
            (
                "[other]\nbase_url = \"a\"\n[service]\nbase_url = \"a\"",
                "[other]\nbase_url = \"a\"\n[service]\nbase_url = \"N\"",
            ),
            (
                "[log]\nx = \"\"\"\nbase_url = \"a\"\n\"\"\"\n[service]\nbase_url = \"a#b\"",
                "[log]\nx = \"\"\"\nbase_url = \"a\"\n\"\"\"\n[service]\nbase_url = \"N\"",
            ),
        ];
        for (text, expected) in cases {
            let changed = set_in_text(text, "service", "base_url", NEW);
            assert_eq!(changed, Some(expected.replace('N', NEW)), "{text}");
        }
    }

    #[test]
    fn a_value_that_no_single_line_sets_is_left_alone() {
        for text in [
            "",
            "# base_url = \"a\"\n[service]\n",
            "service = { base_url = \"a\" }",
            "[service]\nbase_url = \"\"\"\na\"\"\"\n",
            "[service.headers]\nbase_url = \"a\"",
            "[[service]]\nbase_url = \"a\"",
            "[service]\nbase_url = 7",
        ] {
            assert_eq!(set_in_text(text, "service", "base_url", NEW), None, "{text}");
        }
        let same = format!("service = {{ base_url = {NEW:?} }}");
        assert_eq!(set_in_text(&same, "service", "base_url", NEW), Some(same.clone()));
    }
}
