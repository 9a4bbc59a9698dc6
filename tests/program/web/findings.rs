//! A first page for each finding of the health, made from a database with that fault.
//!
//! The match has no arm for the rest, so a new code needs its row here.

use super::states::bring;
use super::{Visit, plain};
use crate::support::World;
use futures_util::future::join_all;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tallyd::daemon::SystemClock;
use tallyd::health::FindingCode;
use tallyd::model::{Clock, Moment, Timestamp};
use tallyd::outbox::{ChangeKind, ChangeState, Reason};
use tallyd::sandbox::SandboxOptions;
use tallyd::store::{DatabaseLock, Store};

/// Time by which the page's clock is ahead: what began with the test has lasted longer than each limit.
const AHEAD_MS: i64 = 600_000;

/// Databases that are made side by side: one alone waits more than it works.
const WORLDS_AT_ONCE: usize = 4;

struct AheadClock;

impl Clock for AheadClock {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + AHEAD_MS)
    }

    fn moment(&self) -> Moment {
        Moment(SystemClock.moment().0 + AHEAD_MS)
    }
}

/// Returns the statement that brings about a fault; empty for one that no row shows.
fn fault_sql(code: FindingCode) -> String {
    use FindingCode as Code;
    let now = SystemClock.now().0;
    let run = |job: &str, outcome: &str| {
        format!(
            "INSERT INTO run (session_id, job, trigger, started_ms, ended_ms, outcome, summary) \
             SELECT max(id), '{job}', 'outbox', {now}, {now}, '{outcome}', 'the reason' FROM session"
        )
    };
    let limiter = |holds: &str, exhausted: &str| {
        format!(
            "DELETE FROM limiter_state; INSERT INTO limiter_state (id, state) VALUES (1, '{{\"holds\":[{holds}],\
             \"last_reduction\":null,\"guarded_since\":null,\"budget_exhausted\":{exhausted}}}')"
        )
    };
    match code {
        Code::Paused => {
            format!("INSERT INTO pause (job, since_ms, why) VALUES ('push', {now}, 'stocktaking')")
        }
        Code::KeyRefused => "UPDATE exchange SET verdict = 'refused', status = 401".into(),
        Code::Unreachable => {
            "UPDATE exchange SET verdict = 'not_sent', status = NULL, message = 'connection refused'".into()
        }
        Code::CallsFail => "UPDATE exchange SET verdict = 'rejected', status = 500, message = 'out of order'".into(),
        Code::PushFails => vec![run("push", "failed"); 3].join("; "),
        Code::QuotaHold => limiter(
            &format!(
                "{{\"scope\":\"account\",\"reason\":\"rate\",\"why\":\"\",\"since\":{now},\"duration_ms\":7200000}}"
            ),
            "null",
        ),
        Code::ReadsOnly => limiter("", &now.to_string()),
        Code::BadRequests => "UPDATE exchange SET verdict = 'rejected', status = 400".into(),
        Code::Stale => "UPDATE job_state SET last_good_ms = 1 WHERE job = 'balances'".into(),
        Code::BackupOld => "UPDATE job_state SET enabled = TRUE, interval_ms = 86400000, last_good_ms = 1 \
                            WHERE job = 'backup'"
            .into(),
        Code::NotPruned => run("prune", "partial"),
        Code::NotShown => "INSERT INTO mismatch (product, warehouse_id, exchange_id, written, shown, since_ms) \
                           SELECT product, warehouse_id, 1, 777, 776, 1 FROM balance \
                           ORDER BY product, warehouse_id LIMIT 1"
            .into(),
        Code::Quarantined => format!(
            "INSERT INTO quarantine (operation, subject, since_ms, tried_ms, failures, why) \
             SELECT 'POST /api/product/getProductBalances', sku, {now}, {now}, 3, 'answered 500' FROM product \
             ORDER BY sku LIMIT 1"
        ),
        Code::Unreadable => "INSERT INTO parked (exchange_id, record, why, raw) \
                             SELECT e.id, 0, 'no quantity', '{}' FROM exchange e JOIN run r ON r.id = e.run_id \
                             WHERE r.job = 'work_queue'"
            .into(),
        Code::Restored => {
            format!("INSERT INTO brake_trip (at_ms, what, restored_position) VALUES ({now}, 'it is a copy', 1)")
        }
        Code::MissingSkus => {
            "UPDATE product SET missing_since_ms = 1 WHERE id = (SELECT min(id) FROM product)".into()
        }
        Code::OtherAccount => {
            format!("{}; UPDATE run SET summary = 'the address or the key is of another account' \
                     WHERE id = (SELECT max(id) FROM run)", run("warehouses", "failed"))
        }
        Code::NothingTracked => "DELETE FROM tracked_sku; DELETE FROM outbox".into(),
        // Only of a server: tests/program/postgres.
        Code::StandbyAway => String::new(),
        // Of the files and the lock, and of changes.
        Code::DatabaseReplaced | Code::NoDaemon | Code::DiskLow | Code::FileUnwritten => String::new(),
        Code::Waiting | Code::Held | Code::InDoubt | Code::Rejected => String::new(),
    }
}

/// Returns the change behind a finding on the outbox.
fn change_behind(code: FindingCode) -> Option<(ChangeKind, ChangeState, Option<Reason>)> {
    use FindingCode as Code;
    let set = ChangeKind::QuantitySet;
    Some(match code {
        Code::Waiting => (set, ChangeState::Pending, None),
        Code::Held => (set, ChangeState::Held, Some(Reason::Brake)),
        Code::InDoubt | Code::PushFails => (set, ChangeState::InDoubt, Some(Reason::NoAnswer)),
        Code::Rejected => (set, ChangeState::Rejected, Some(Reason::BadBody)),
        _ => return None,
    })
}

/// A database with a fault, and the page on it.
struct FaultyWorld {
    _world: World,
    _daemon: Option<(DatabaseLock, Store)>,
    _disk: Option<SmallDisk>,
    visit: Visit,
}

impl FaultyWorld {
    /// Creates the database; `None` where the engine or the host cannot have the fault, which is printed.
    async fn with(code: FindingCode) -> Option<Self> {
        let options =
            SandboxOptions { skus: 40, orders: 12, calls_per_minute: 0, ..SandboxOptions::default() };
        let limits = "[limits]\ncalls_per_minute = 6000\nbad_requests_per_day = 5\n";
        let world = World::with(options, limits).await;
        let is_of_file = matches!(code, FindingCode::DatabaseReplaced | FindingCode::DiskLow);
        if is_of_file && world.is_on_server(&format!("a server has no finding {code}")) {
            return None;
        }
        world.track_all().await;
        world.once().await;
        world.once().await;
        let lock = (code != FindingCode::NoDaemon).then(|| DatabaseLock::acquire(&world.path).unwrap());
        let daemon = match lock {
            Some(lock) => {
                let store = Store::open_to_lead(&world.location, &lock, Default::default()).await.unwrap();
                Some((lock, store))
            }
            None => None,
        };
        if let Some((kind, state, reason)) = change_behind(code) {
            bring(&world, "a change", kind, state, reason).await;
        }
        let sql = fault_sql(code);
        if !sql.is_empty() {
            world.sql(&sql).await;
        }
        let (mut config, mut disk) = (world.config(), None);
        if code == FindingCode::DatabaseReplaced {
            let copy = world.path.with_file_name("copy.db");
            std::fs::copy(&world.path, &copy).unwrap();
            std::fs::rename(&copy, &world.path).unwrap();
        }
        if code == FindingCode::FileUnwritten {
            config.metrics_file = Some(world.path.with_file_name("missing").join("tallyd.prom"));
        }
        if code == FindingCode::DiskLow {
            let small = SmallDisk::mount(world.path.with_file_name("small"))?;
            for end in ["", "-wal"] {
                let file = |folder: &Path| folder.join(format!("tallyd.db{end}"));
                drop(std::fs::copy(file(world.path.parent().unwrap()), file(&small.0)));
            }
            config.database.path = small.0.join("tallyd.db");
            disk = Some(small);
        }
        let visit = Visit::by_clock(config, false, Arc::new(AheadClock)).await;
        Some(Self { _world: world, _daemon: daemon, _disk: disk, visit })
    }
}

/// A disk with less room than tallyd demands.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts the disk; `None`, with a note, where this process may not.
    #[allow(clippy::print_stdout, reason = "a test that skips says so")]
    fn mount(folder: PathBuf) -> Option<Self> {
        std::fs::create_dir(&folder).unwrap();
        let is_mounted = run("mount", &["-t", "tmpfs", "-o", "size=24m", "tmpfs"], &folder);
        if !is_mounted {
            println!("skipped: the page of a full disk, because only root may mount a small one");
        }
        is_mounted.then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["-l"], &self.0);
    }
}

fn run(program: &str, args: &[&str], folder: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(args).arg(folder).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Checks that the first page names the finding and its remedy, and that its link leads to a page.
async fn check_finding(code: FindingCode, visit: &Visit) -> Result<(), String> {
    let report = visit.json("/").await;
    let found = report["findings"].as_array().unwrap().iter().find(|found| found["code"] == code.as_str());
    let found = found.ok_or_else(|| format!("the database has no finding {code}: {report:#}"))?;
    let page = visit.get("/").await.body;
    let begin = format!("data-finding=\"{code}\"");
    let (_, block) = page.split_once(&begin).ok_or_else(|| format!("the page has no {code}: {page}"))?;
    let block = block.split("</div>").next().unwrap();
    let shown = plain(&format!("<p {block}"));
    // The page writes times otherwise, and a number may grow between the two requests.
    let is_word = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
    for field in ["text", "what_to_do"] {
        let sentence = found[field].as_str().unwrap().replace('`', "");
        let lost: Vec<&str> =
            sentence.split(' ').filter(is_word).filter(|word| !shown.contains(word)).collect();
        if sentence.is_empty() || !lost.is_empty() {
            return Err(format!("{code}: {lost:?} of its {field} are not in {shown}"));
        }
    }
    let outside = [
        FindingCode::DatabaseReplaced,
        FindingCode::OtherAccount,
        FindingCode::NoDaemon,
        FindingCode::DiskLow,
        FindingCode::FileUnwritten,
    ];
    let Some((_, link)) = block.split_once("href=\"") else {
        return if outside.contains(&code) { Ok(()) } else { Err(format!("{code} leads to no page")) };
    };
    let address = link.split('"').next().unwrap().replace("&amp;", "&");
    let status = visit.get(&address).await.status;
    if status == 200 { Ok(()) } else { Err(format!("{code} leads to {address}: {status}")) }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_finding_has_a_first_page_with_its_remedy() {
    let mut wrong = Vec::new();
    for codes in FindingCode::ALL.chunks(WORLDS_AT_ONCE) {
        let codes = codes.iter().filter(|code| **code != FindingCode::StandbyAway);
        let checks = codes.map(|code| async {
            let faulty = FaultyWorld::with(*code).await?;
            check_finding(*code, &faulty.visit).await.err()
        });
        wrong.extend(join_all(checks).await.into_iter().flatten());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
