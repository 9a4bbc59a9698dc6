//! The text of a configuration: the place of a key, and the change of one value, which keeps comments, order and all else.

use toml_edit::{Document, DocumentMut, Value};

/// Returns the text with the text value of `section.key` replaced; `None` if the text has none or is no TOML.
pub(crate) fn set_in_text(text: &str, section: &str, key: &str, value: &str) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let old = document.get_mut(section)?.get_mut(key)?.as_value_mut().filter(|old| old.is_str())?;
    let mut new = Value::from(value);
    *new.decor_mut() = old.decor().clone();
    *old = new;
    Some(document.to_string())
}

/// Returns the text of `section.key`, without the environment; `None` if the text has none or is no TOML.
pub(crate) fn value_in_text(text: &str, section: &str, key: &str) -> Option<String> {
    let document: DocumentMut = text.parse().ok()?;
    Some(document.get(section)?.get(key)?.as_str()?.to_owned())
}

/// Returns the line of a dotted key, or of a table, from 1.
pub(super) fn line_of(text: &str, path: &str) -> Option<usize> {
    let document = Document::parse(text).ok()?;
    let item = path.split('.').try_fold(document.as_item(), |item, key| item.get(key))?;
    Some(1 + text.get(..item.span()?.start)?.matches('\n').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_its_own_table() {
        let text = "top = 1\n[limits]\n# share = 2\nshare = 3\n[jobs.push]\n \"share\" = 4 # x\n[odd ]\n";
        let cases =
            [("top", Some(1)), ("limits.share", Some(4)), ("jobs.push.share", Some(6)), ("odd", Some(7))];
        for (path, expected) in cases.into_iter().chain([("share", None), ("limits", Some(2))]) {
            assert_eq!(line_of(text, path), expected, "{path}");
        }
    }

    const NEW: &str = "http://127.0.0.1:1";

    #[test]
    fn the_line_that_sets_the_value_is_changed_and_no_other() {
        let cases = [
            (
                "# base_url = \"a\"\n[service]\nbase_url = \"a\"\n",
                "# base_url = \"a\"\n[service]\nbase_url = \"N\"\n",
            ),
            ("[service]\n  base_url='a' # was b = 1\n", "[service]\n  base_url=\"N\" # was b = 1\n"),
            ("service.base_url = \"a\"\nx = 1\n", "service.base_url = \"N\"\nx = 1\n"),
            ("service = { base_url = \"a\" }\n", "service = { base_url = \"N\" }\n"),
            ("\"service\" . \"base_url\" = \"a\"\n", "\"service\" . \"base_url\" = \"N\"\n"),
            (
                "[other]\nbase_url = \"a\"\n[service]\nbase_url = \"a\"\n",
                "[other]\nbase_url = \"a\"\n[service]\nbase_url = \"N\"\n",
            ),
            (
                "[log]\nx = \"\"\"\nbase_url = \"a\"\n\"\"\"\n[service]\nbase_url = \"a#b\"\n",
                "[log]\nx = \"\"\"\nbase_url = \"a\"\n\"\"\"\n[service]\nbase_url = \"N\"\n",
            ),
        ];
        for (text, expected) in cases {
            let changed = set_in_text(text, "service", "base_url", NEW);
            assert_eq!(changed, Some(expected.replace('N', NEW)), "{text}");
        }
    }

    #[test]
    fn a_text_without_the_value_is_left_alone() {
        for text in [
            "",
            "# base_url = \"a\"\n[service]\n",
            "[service.headers]\nbase_url = \"a\"",
            "[[service]]\nbase_url = \"a\"",
            "[service]\nbase_url = 7",
        ] {
            assert_eq!(set_in_text(text, "service", "base_url", NEW), None, "{text}");
        }
        assert_eq!(set_in_text("[service", "service", "base_url", NEW), None);
    }
}
