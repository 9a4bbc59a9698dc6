//! The decider of the command line: the account that the operator logged in with.
//!
//! `sudo` hides that account behind root and names it in `SUDO_USER`. The variable counts only for root, because
//! every other account may set it to any name.

use crate::model::Decider;
use nix::unistd::{Uid, User};

pub(super) fn command_line_user() -> Decider {
    let uid = Uid::current();
    let sudo_user = std::env::var_os("SUDO_USER").map(|name| name.to_string_lossy().into_owned());
    // An account that cannot be looked up is named by its number.
    let account = User::from_uid(uid).ok().flatten().map(|user| user.name);
    Decider::User(user_name(uid, sudo_user, account))
}

fn user_name(uid: Uid, sudo_user: Option<String>, account: Option<String>) -> String {
    sudo_user.filter(|name| uid.is_root() && !name.is_empty()).or(account).unwrap_or_else(|| uid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sudo_names_the_person_only_where_root_says_so() {
        for (uid, sudo_user, account, name) in [
            (0, Some("anna"), Some("root"), "anna"),
            (0, Some(""), Some("root"), "root"),
            (0, None, Some("root"), "root"),
            (1000, Some("anna"), Some("ben"), "ben"),
            (1000, None, None, "1000"),
            (1000, Some("anna"), None, "1000"),
        ] {
            let (sudo_user, account) = (sudo_user.map(str::to_owned), account.map(str::to_owned));
            assert_eq!(user_name(Uid::from_raw(uid), sudo_user, account), name);
        }
    }
}
