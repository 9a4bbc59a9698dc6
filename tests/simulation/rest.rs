//! Waits until a world is at rest: no task, statement or request is under way.
//!
//! In the runtime of [`runtime`], the thread sleeps while SQLite's threads work, and the condition is tested
//! each time the thread runs out of work. In another runtime (`#[tokio::test]`) the condition is polled.
//! Polling costs a core and, beside a busy thread, most of the time.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use tokio::runtime::Runtime;

/// Rounds of the runtime with the condition met that count as rest, where the condition is polled.
const QUIET_ROUNDS: u32 = 3;

/// The task that waits for rest on this thread, and its condition.
struct Waiting {
    waker: Waker,
    is_at_rest: Box<dyn Fn() -> bool>,
}

/// State of this thread; `Absent` means that its runtime has no idle callback.
enum Hook {
    Absent,
    Idle,
    Waiting(Waiting),
}

thread_local! {
    static HOOK: RefCell<Hook> = const { RefCell::new(Hook::Absent) };
}

/// Returns a runtime with an idle callback, for a world on this thread.
///
/// It takes results of SQLite's thread, and replies of a server, only when no other task can run. Otherwise
/// their order would depend on the scheduler.
pub fn runtime() -> Runtime {
    HOOK.with_borrow_mut(|hook| *hook = Hook::Idle);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().global_queue_interval(u32::MAX).event_interval(u32::MAX);
    builder.on_thread_park(about_to_sleep).build().unwrap()
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

/// Waits until no task can run and `is_at_rest` returns true.
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
            // SQLite works in threads of its own, and may need this core.
            std::thread::yield_now();
        }
    }
}
