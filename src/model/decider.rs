//! Decider: the person behind a decision.

use std::fmt;

/// Person behind a decision, as the journal names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decider {
    /// Account of the host, on the command line.
    User(String),
    /// Name of the token by which a browser was let in.
    PageToken(String),
}

impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user:{name}"),
            Self::PageToken(name) => write!(f, "token:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_and_a_token_of_one_name_are_two() {
        assert_eq!(Decider::User("anna".into()).to_string(), "user:anna");
        assert_eq!(Decider::PageToken("anna".into()).to_string(), "token:anna");
    }
}
