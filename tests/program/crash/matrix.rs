//! The crash matrix: the process ends at each event of a push and a settle, and is started again.
//!
//! The events are each commit and both sides of each call. Every change then took effect exactly once, or is
//! in doubt with its effect there exactly once. `kinds.rs` has the table of the changes, with every kind.
//!
//! *After* a commit is *before* the next event: nothing in between outlives the process. On a server, the
//! reply of a commit can be lost while the process lives; then that reply is lost of each commit in turn.

use super::kinds::{Flow, Shop};
use super::rig::{self, Hook, Life, Moved, Wire};
use crate::support::proxy::{CommitFate, Proxy};
use crate::support::replayed;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tallyd::client::Transport;
use tallyd::daemon::run_job;
use tallyd::model::{JobKind, RunTrigger};
use tallyd::store::{DatabaseLocation, StoreOptions};
use tokio_util::sync::CancellationToken;

/// Longer than the quiet time of a create, and than the distance of two checks.
const LONG_MS: i64 = 11 * 60 * 1000;
const SENDING: &str = "SELECT count(*) FROM outbox WHERE state = 'sending'";

/// Counts down by one with each event; the process is dead at zero.
struct Fuse {
    left: AtomicUsize,
    burnt: AtomicUsize,
    dead: CancellationToken,
}

impl Fuse {
    fn of(events: usize) -> Arc<Self> {
        let (left, burnt) = (AtomicUsize::new(events), AtomicUsize::new(0));
        Arc::new(Self { left, burnt, dead: CancellationToken::new() })
    }

    /// Returns true if the process survives this event.
    fn step(&self) -> bool {
        let lives =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if lives {
            self.burnt.fetch_add(1, Ordering::SeqCst);
        } else {
            self.dead.cancel();
        }
        lives
    }

    fn opening(self: &Arc<Self>) -> StoreOptions {
        let fuse = Arc::clone(self);
        StoreOptions { commit_hook: Some(Arc::new(move || fuse.step())), ..StoreOptions::default() }
    }

    async fn proxy(self: &Arc<Self>, server: &DatabaseLocation) -> Proxy {
        let fuse = Arc::clone(self);
        Proxy::start(server, move || if fuse.step() { CommitFate::Passes } else { CommitFate::Lost }).await
    }

    fn hook(self: &Arc<Self>) -> Hook {
        let fuse = Arc::clone(self);
        Box::new(move |_, _| {
            let lives = fuse.step();
            Box::pin(async move { lives })
        })
    }
}

/// An account with changes, and the clock of all lives of the process.
struct Scene {
    shop: Shop,
    clock: Arc<Moved>,
}

impl Scene {
    async fn set(flow: Flow) -> Self {
        let clock = Moved::new();
        Self { shop: Shop::open(flow, &clock).await, clock }
    }

    /// Runs one life, until its fuse is at zero or its work is done. The fuse hears of a file's commits by
    /// SQLite's hook, and of a server's by a proxy.
    async fn live(&self, fuse: &Arc<Fuse>) {
        let direct = &self.shop.world.location;
        let proxy = match direct.server() {
            Some(_) => Some(fuse.proxy(direct).await),
            None => None,
        };
        let location = proxy.as_ref().map_or(direct, |proxy| &proxy.location);
        self.live_at(location, fuse).await;
    }

    /// Runs one life at a location; returns true if a daemon would go on after it.
    async fn live_at(&self, location: &DatabaseLocation, fuse: &Arc<Fuse>) -> bool {
        let world = &self.shop.world;
        let inner = rig::transport(&rig::config(world, ""));
        let wire: Arc<dyn Transport> = Arc::new(Wire { inner, hook: fuse.hook() });
        let begun = Life::begin_at(location, world, &self.clock, wire, fuse.opening());
        let Ok(life) = begun.await else { return false };
        let context = life.context.clone();
        let work = async {
            for kind in [JobKind::Push, JobKind::Settle] {
                if run_job(&context, kind, RunTrigger::Once).await.is_err() {
                    return false;
                }
            }
            true
        };
        let goes_on = tokio::select! {
            () = fuse.dead.cancelled() => false,
            goes_on = work => goes_on,
        };
        // The kernel closes the files of a dead process.
        drop(life);
        context.store.clone().close().await.ok();
        goes_on
    }

    /// Starts the process again and runs it until it has no work left.
    async fn recover(&self) {
        let world = &self.shop.world;
        let daemon = rig::daemon(world, "", &self.clock).await;
        assert_eq!(world.number("SELECT count(*) FROM run WHERE outcome = 'running'").await, 0);
        assert_eq!(world.number(SENDING).await, 0);
        for _ in 0..4 {
            for kind in [JobKind::Push, JobKind::Settle] {
                run_job(daemon.context(), kind, RunTrigger::Once).await.unwrap();
            }
            self.clock.later(LONG_MS);
        }
        world.assert_sound().await;
        daemon.context().store.clone().close().await.unwrap();
    }
}

/// Kills a life at each of its events; asserts that there are at least this many.
async fn kill_everywhere(flow: Flow, at_least: usize) {
    let fuse = Fuse::of(usize::MAX);
    Scene::set(flow).await.live(&fuse).await;
    let events = fuse.burnt.load(Ordering::SeqCst);
    assert!(events > at_least, "{events}");
    println!("{flow:?}: killed at each of {events} events");
    for at in 0..events {
        let scene = Scene::set(flow).await;
        scene.live(&Fuse::of(at)).await;
        scene.recover().await;
        scene.shop.judge(&format!("killed at event {at} of {events}")).await;
    }
}

/// Loses the reply of each commit of a life in turn; asserts that there are at least this many. The process goes on
/// or ends, as a daemon would.
async fn lose_each_reply(flow: Flow, at_least: usize) {
    for at in 0.. {
        let scene = Scene::set(flow).await;
        let world = &scene.shop.world;
        if world.is_on_file("a commit to a file has no reply") {
            return;
        }
        let commits = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&commits);
        let fate = move || match counted.fetch_add(1, Ordering::SeqCst) == at {
            true => CommitFate::ReplyLost,
            false => CommitFate::Passes,
        };
        let proxy = Proxy::start(&world.location, fate).await;
        let goes_on = scene.live_at(&proxy.location, &Fuse::of(usize::MAX)).await;
        if commits.load(Ordering::SeqCst) <= at {
            println!("{flow:?}: lost the reply of each of {at} commits");
            assert!(at > at_least, "{at}");
            return;
        }
        if goes_on {
            let sending = world.number(SENDING).await;
            assert_eq!(sending, 0, "the reply of commit {at} was lost, and nobody concludes what it claimed");
        }
        scene.recover().await;
        scene.shop.judge(&format!("the reply of commit {at} was lost")).await;
        replayed::assert_replayed(&world.location).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_of_any_commit_of_a_push_of_quantities_loses_and_doubles_nothing() {
    lose_each_reply(Flow::Quantities, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_of_any_commit_of_a_push_of_creates_makes_each_thing_exactly_once() {
    lose_each_reply(Flow::Creates, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_of_any_commit_of_a_push_of_shipments_ships_exactly_once() {
    lose_each_reply(Flow::Shipping, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_anywhere_in_a_push_of_quantities_loses_and_doubles_nothing() {
    kill_everywhere(Flow::Quantities, 15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_anywhere_in_a_push_of_creates_makes_each_thing_exactly_once() {
    kill_everywhere(Flow::Creates, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_anywhere_in_a_push_of_shipments_and_trackings_ships_exactly_once() {
    kill_everywhere(Flow::Shipping, 15).await;
}
