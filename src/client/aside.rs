//! Work that may block, such as the read of a file on a hung mount, on a thread of its own.
//!
//! The runtime's own threads for such work are not used, because the end of the runtime waits for them.

use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

const ASIDE_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of such threads, so that work that hangs again and again does not use up the host.
static PLACES: Semaphore = Semaphore::const_new(8);

/// Reads `what` on a thread of its own. Work that takes longer than its limit goes on there, and its result is dropped.
/// Fails if the work takes longer than 5 s.
pub(crate) async fn run_aside<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let aside = async {
        let place = PLACES.acquire().await.ok()?;
        let (done, result) = oneshot::channel();
        let run = move || {
            drop(done.send(work()));
            drop(place);
        };
        std::thread::Builder::new().name("aside".into()).spawn(run).ok()?;
        result.await.ok()
    };
    let done = timeout(ASIDE_TIMEOUT, aside).await.ok().flatten();
    let seconds = ASIDE_TIMEOUT.as_secs();
    done.ok_or_else(|| {
        format!("cannot read {what} within {seconds} s: check the file, and its disk or mount")
    })
}
