//! Tests of the token and the sessions, with a clock of their own.

use super::*;
use std::os::unix::fs::PermissionsExt;

const MINUTE: Duration = Duration::from_secs(60);

fn cookie(access: &AccessControl, token: &str, now: Moment) -> Option<String> {
    let cookie = access.exchange(token, now, false)?;
    Some(cookie.split(';').next().unwrap().to_owned())
}

#[test]
fn a_token_is_exchanged_for_a_cookie_of_twelve_hours() {
    let (access, begin) = (AccessControl::new("right", 8484), Moment(1000));
    let cookie = cookie(&access, "right", begin).unwrap();
    assert!(cookie.starts_with("tallyd-8484=") && cookie.len() > 64, "{cookie}");
    let other = format!("a=b; {cookie}; c=d");
    assert!(access.session(&other, begin.plus(SESSION_LIFE).minus(MINUTE)).is_some());
    assert!(access.session(&other, begin.plus(SESSION_LIFE)).is_none());
    assert!(access.session(&cookie.replace("8484", "8485"), begin).is_none(), "another port's cookie");
    let mut changed = cookie.clone();
    let last = if changed.pop() == Some('0') { '1' } else { '0' };
    assert!(access.session(&format!("{changed}{last}"), begin).is_none());
}

#[test]
fn the_token_file_is_made_once_and_nobody_else_may_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    let (_, token) = AccessControl::open(&file, 1).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(AccessControl::open(&file, 1).unwrap().1, token);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    let refused = AccessControl::open(&file, 1).err().unwrap().to_string();
    assert!(refused.contains("mode 640") && refused.contains("chmod 600"), "{refused}");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(&file, "secret").unwrap();
    assert!(AccessControl::open(&file, 1).err().unwrap().to_string().contains("64 hexadecimal digits"));
}

/// The token may be known to the maker of the file.
#[test]
fn a_token_file_of_another_user_or_behind_a_link_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link, foreign) =
        (dir.path().join("token"), dir.path().join("link"), dir.path().join("foreign"));
    AccessControl::open(&file, 1).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let refused = AccessControl::open(&link, 1).err().unwrap().to_string();
    assert!(refused.contains("may be no link") && refused.contains("`web.token_file`"), "{refused}");
    std::os::unix::fs::symlink(dir.path().join("nowhere"), &foreign).unwrap();
    assert!(AccessControl::open(&foreign, 1).is_err(), "a link to no file");
    assert!(
        AccessControl::open(Path::new("/dev/null"), 1)
            .err()
            .unwrap()
            .to_string()
            .contains("must be a file of this user")
    );
    if geteuid().is_root() {
        std::os::unix::fs::chown(&file, Some(1), None).unwrap();
        let refused = AccessControl::open(&file, 1).err().unwrap().to_string();
        assert!(refused.contains("must be a file of this user"), "{refused}");
    }
}

#[test]
fn each_form_that_is_served_has_a_key_of_its_own() {
    let keys: std::collections::HashSet<String> = (0..100).map(|_| random_text()).collect();
    assert_eq!(keys.len(), 100);
}

#[test]
fn a_form_needs_the_token_of_its_visit() {
    let session = WebSession::new(Moment(1), "c".into());
    assert!(session.is_csrf("c") && !session.is_csrf("") && !session.is_csrf("d"));
}
