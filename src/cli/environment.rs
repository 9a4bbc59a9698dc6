//! The environment of the process, which only this room reads.

#[allow(clippy::disallowed_methods, reason = "only cli reads the environment")]
pub(super) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
