//! The parts of tallyd's sentences: text, times and commands.

use crate::model::Timestamp;

/// The words before a time in the sentences of tallyd.
const TIME_PREPOSITIONS: [&str; 7] = ["at", "since", "until", "before", "after", "from", "try"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentencePart<'a> {
    Text(&'a str),
    Time(Timestamp),
    /// A command, a key or a value between backticks.
    Code(&'a str),
}

/// Returns the parts of a sentence. Only a time after a preposition counts as one, because a key may be a time too.
pub(crate) fn sentence_parts(sentence: &str) -> Vec<SentencePart<'_>> {
    let (mut parts, mut rest) = (Vec::new(), sentence);
    while let Some((before, (code, behind))) =
        rest.split_once('`').and_then(|(before, after)| Some((before, after.split_once('`')?)))
    {
        add_words(&mut parts, before);
        parts.push(SentencePart::Code(code));
        rest = behind;
    }
    add_words(&mut parts, rest);
    parts
}

fn add_words<'a>(parts: &mut Vec<SentencePart<'a>>, text: &'a str) {
    let mut is_after_preposition = false;
    for word in text.split_inclusive(' ') {
        let time = word.trim_end_matches([' ', ',', ';', '.', ')']);
        match Timestamp::parse(time).filter(|_| is_after_preposition && time.ends_with('Z')) {
            Some(at) => {
                let behind = word.get(time.len()..).unwrap_or_default();
                parts.extend([SentencePart::Time(at), SentencePart::Text(behind)]);
            }
            None => parts.push(SentencePart::Text(word)),
        }
        is_after_preposition = TIME_PREPOSITIONS.contains(&word.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SentencePart::{Code, Text, Time};

    #[test]
    fn times_after_prepositions_and_commands_are_parts() {
        let at = Timestamp::parse("2026-11-22T05:27:23.000Z").unwrap();
        let parts = sentence_parts("since 2026-11-22T05:27:23.000Z; see `tallyd status`.");
        assert_eq!(
            parts,
            [Text("since "), Time(at), Text("; "), Text("see "), Code("tallyd status"), Text(".")]
        );
        let key = "cli-1 2026-11-22T05:27:23.000Z `at 2026-11-22T05:27:23.000Z` `odd";
        assert!(sentence_parts(key).iter().all(|part| !matches!(part, Time(_))), "a key stays as it is");
        let text: String = sentence_parts(key)
            .iter()
            .map(|part| match part {
                Text(text) => (*text).to_owned(),
                Code(code) => format!("`{code}`"),
                Time(at) => at.to_string(),
            })
            .collect();
        assert_eq!(text, key);
    }
}
