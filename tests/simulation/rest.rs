//! Waits until a world is at rest: nobody can go on, no statement is under way, no request is inside the service.
//!
//! In a runtime of our own ([`runtime`]) the thread sleeps while SQLite's works, and is asked each time it has nothing left
//! to do; elsewhere (`#[tokio::test]`) it looks again and again, which costs a core and, between two busy threads, most of
//! the time.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use tokio::runtime::Runtime;

/// So many rounds of the runtime without anybody moving are rest, where one has to look.
const QUIET_ROUNDS: u32 = 3;

/// Who waits for rest on this thread, and how he knows it.
struct Waiting {
    waker: Waker,
    is_at_rest: Box<dyn Fn() -> bool>,
}

/// `None`: the runtime of this thread does not tell when it has nothing to do.
enum Hook {
    Absent,
    Idle,
    Waiting(Waiting),
}

thread_local! {
    static HOOK: RefCell<Hook> = const { RefCell::new(Hook::Absent) };
}

/// A runtime that tells when it has nothing to do, for a world on this thread.
///
/// What SQLite's thread has done is looked at when nobody else can go on: otherwise it would be chance who goes first.
pub fn runtime() -> Runtime {
    HOOK.with_borrow_mut(|hook| *hook = Hook::Idle);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().global_queue_interval(u32::MAX).on_thread_park(about_to_sleep).build().unwrap()
}

fn about_to_sleep() {
    let woken = HOOK.with_borrow_mut(|hook| match hook {
        Hook::Waiting(waiting) if (waiting.is_at_rest)() => {
            let waker = waiting.waker.clone();
            *hook = Hook::Idle;
            Some(waker)
        }
        _ => None,
    });
    if let Some(waker) = woken {
        waker.wake();
    }
}

/// Waits until nobody moves and `is_at_rest` says so.
pub async fn until(is_at_rest: impl Fn() -> bool + 'static) {
    if HOOK.with_borrow(|hook| matches!(hook, Hook::Absent)) {
        return look(is_at_rest).await;
    }
    let mut is_at_rest: Option<Box<dyn Fn() -> bool>> = Some(Box::new(is_at_rest));
    poll_fn(|context| {
        let waker = context.waker().clone();
        HOOK.with_borrow_mut(|hook| match (is_at_rest.take(), &mut *hook) {
            (Some(is_at_rest), _) => {
                *hook = Hook::Waiting(Waiting { waker, is_at_rest });
                Poll::Pending
            }
            (None, Hook::Waiting(waiting)) => {
                waiting.waker = waker;
                Poll::Pending
            }
            (None, _) => Poll::Ready(()),
        })
    })
    .await;
}

async fn look(is_at_rest: impl Fn() -> bool) {
    let mut quiet = 0;
    while quiet < QUIET_ROUNDS {
        tokio::task::yield_now().await;
        let rests = is_at_rest();
        quiet = if rests { quiet + 1 } else { 0 };
        if !rests {
            // SQLite works in threads of its own, and may want this one's core.
            std::thread::yield_now();
        }
    }
}
