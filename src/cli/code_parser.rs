//! Arguments whose values have codes, such as jobs, states and kinds: help, completions and errors list them.

use clap::builder::{PossibleValuesParser, TypedValueParser};

pub(super) fn code_parser<T: Copy + Send + Sync + 'static>(
    values: &'static [T],
    code: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let value_of = move |name: String| {
        let found = values.iter().copied().find(|value| code(*value) == name);
        found.expect("clap admits the codes of these values alone")
    };
    PossibleValuesParser::new(values.iter().map(|value| code(*value))).map(value_of)
}
