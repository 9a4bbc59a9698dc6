//! A trial: one seed run to its end, with a check of the auditor after every step. It stops at the first
//! violation, because later steps prove nothing.

use super::super::auditor::{Auditor, Effect};
use super::super::books::Level;
use super::super::random::Random;
use super::super::storm::Storm;
use super::super::wire::Weather;
use super::super::world::{Plan, World};
use super::agenda::{Act, BEGIN_MS, agenda};
use super::beside;
use super::claims::Claims;
use super::counts::LaterCount;
use super::files::BroughtFile;
use super::forms::Browser;
use super::health::Waiting;
use super::journal::Journal;
use super::kinds::Kinds;
use super::kits::KitSet;
use super::refusals::Sending;
use super::restores::Restores;
use super::shipping::Order;
use super::strikes;
use super::waits::Fair;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::MutexGuard;
use tallyd::store::DatabaseLocation;

/// Polls in place of the packaged ones, which are too many for a thousand weeks.
///
/// They are 96 balances and 48 reads of orders a day. Each hour of the nights with a time change has some of
/// them.
const SCHEDULES: &str = r#"
[jobs.balances]
schedule = "0 */15 * * * *"
timezone = "Europe/Berlin"
skus_per_call = SKUS
[jobs.order_lines]
schedule = "30 */30 * * * *"
timezone = "Australia/Sydney"
[jobs.shipments]
schedule = "15 5 * * * *"
[jobs.warehouses]
schedule = "0 7 2,8,14,20 * * *"
timezone = "Europe/Berlin"
[jobs.suppliers]
schedule = "0 11 2 * * *"
timezone = "Europe/Berlin"
missed = "skip"
[jobs.storefronts]
schedule = "0 23 2,14 * * *"
timezone = "Australia/Sydney"
[jobs.listing_templates]
schedule = "0 17 2 * * *"
timezone = "Europe/Berlin"
[jobs.kit_components]
schedule = "0 31 2 * * *"
timezone = "Australia/Sydney"
[jobs.top_selling]
schedule = "0 41 4 1 * *"
missed = "skip"
[jobs.business_health]
schedule = "0 47 4 * * *"
[jobs.work_queue]
schedule = "45 20 * * * *"
[jobs.settle]
schedule = "10 */20 * * * *"
[jobs.prune]
schedule = "0 13 3 * * *"
timezone = "Europe/Berlin"
[jobs.backup]
enabled = false
"#;
/// Allowance beside the allowed age of a fact: the time until the send, and the lag of a replica.
const SLOP_MS: i64 = 3_500;
/// Delay of a replica from which it may show the quantity before our own write twice.
pub const LATE_MS: i64 = 5_000;
/// Time for which a read that a push made for its own writes serves the push.
const OWN_READ_MS: i64 = 5_000;
/// Number that rises with each insertion and each transition of a change.
const MOVES: &str = "SELECT CAST(count(*) + coalesce(sum(revision), 0) AS BIGINT) FROM outbox";

/// The result of a seed.
#[derive(Debug, Default)]
pub struct Outcome {
    pub violations: Vec<String>,
    pub figures: BTreeMap<String, i64>,
    pub journal: Journal,
}

/// Hosts of a world; two share a database on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    One,
    Two,
}

/// The configuration of one start.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub policy: &'static str,
    pub calls_per_minute: usize,
    pub max_fact_age_ms: i64,
    pub skus_per_call: usize,
}

/// A world, and the knowledge of its persons.
pub struct Trial {
    pub world: World,
    pub random: Random,
    pub settings: Settings,
    /// Units that can truly be sold, by stock level: the shelf less what is sold.
    pub truth: BTreeMap<Level, i64>,
    pub orders: Vec<Order>,
    pub discontinued: Vec<String>,
    /// Stock level that a change was last inserted for.
    pub amid: Option<Level>,
    /// Stock level that a customer bought from shortly before the next adjust.
    pub before: Option<Level>,
    pub count_later: Option<LaterCount>,
    pub kinds: Kinds,
    pub claims: Claims,
    pub fair: Fair,
    pub waiting: Waiting,
    pub kits: Vec<KitSet>,
    /// Delay of the replica in ms, now and before that.
    pub lags: (i64, i64),
    /// Number of names given so far.
    pub names: i64,
    pub is_calm: bool,
    pub figures: BTreeMap<&'static str, i64>,
    runs_judged: u64,
    moves_judged: i64,
    /// The last pruning before the last projection of the journal.
    pub folded: Option<i64>,
    pub takeovers_judged: i64,
    /// Random numbers of the events that [`beside`] adds.
    pub hands: Random,
    pub browser: Browser,
    pub brought: Option<BroughtFile>,
    pub restores: Restores,
    /// Table whose updates another program's trigger refuses.
    pub refused: Option<&'static str>,
    pub sending: Sending,
    /// Time of the last look at the view `stock`, and the stock levels that it showed.
    pub shown_last: (i64, BTreeSet<Level>),
}

pub async fn trial(
    seed: u64,
    days: i64,
    (kinds, hosts): (Kinds, Hosts),
    location: impl FnOnce(&Path) -> DatabaseLocation,
) -> Outcome {
    let mut random = Random::new(seed, "full");
    let mut agenda = agenda(days, &mut random);
    beside::add(BEGIN_MS, days, &mut Random::new(seed, "beside"), &mut agenda);
    beside::add_office(BEGIN_MS, days, &mut Random::new(seed, "office"), &mut agenda);
    if hosts == Hosts::Two {
        strikes::add(BEGIN_MS, days, &mut Random::new(seed, "strikes"), &mut agenda);
    }
    agenda.retain(|(_, act)| kinds.allow(*act));
    play(seed, &agenda, random, (kinds, hosts), location).await
}

/// Runs an agenda to its end.
pub async fn play(
    seed: u64,
    agenda: &[(i64, Act)],
    random: Random,
    (kinds, hosts): (Kinds, Hosts),
    location: impl FnOnce(&Path) -> DatabaseLocation,
) -> Outcome {
    let mut trial = Trial::open(seed, random, (kinds, hosts), location).await;
    let violations = trial.live(agenda).await;
    let mut figures = trial.figures();
    let journal = Journal::read(&mut trial.world.outsider).await;
    figures.insert("journal rows".into(), i64::try_from(journal.rows()).unwrap());
    Outcome { violations, figures, journal }
}

impl Trial {
    async fn open(
        seed: u64,
        random: Random,
        (kinds, hosts): (Kinds, Hosts),
        location: impl FnOnce(&Path) -> DatabaseLocation,
    ) -> Self {
        let settings =
            Settings { policy: "merge", calls_per_minute: 120, max_fact_age_ms: 10_000, skus_per_call: 200 };
        let plan = Plan {
            seed,
            skus: 18,
            warehouses: 2,
            begins_ms: BEGIN_MS,
            config: settings.toml(),
            polls: Vec::new(),
            is_scheduled: true,
        };
        let mut auditor = Auditor::default();
        auditor.quota.allow(settings.calls_per_minute, BEGIN_MS);
        let world = World::open_before(plan, Some(auditor), hosts == Hosts::Two, location).await;
        let mut trial = Self {
            world,
            random,
            settings,
            truth: BTreeMap::new(),
            orders: Vec::new(),
            discontinued: Vec::new(),
            amid: None,
            before: None,
            count_later: None,
            kinds,
            claims: Claims::default(),
            fair: Fair::default(),
            waiting: Waiting::default(),
            kits: Vec::new(),
            lags: (0, 0),
            names: 0,
            is_calm: false,
            figures: BTreeMap::new(),
            runs_judged: 0,
            moves_judged: 0,
            folded: None,
            takeovers_judged: 0,
            hands: Random::new(seed, "hands"),
            browser: Browser::default(),
            brought: None,
            restores: Restores::default(),
            refused: None,
            sending: Sending::default(),
            shown_last: (0, BTreeSet::new()),
        };
        trial.put_in_force(settings);
        for (level, units) in trial.world.stock().await {
            trial.auditor(|auditor| auditor.levels.known(&level, units, BEGIN_MS));
            trial.truth.insert(level, units);
        }
        trial.name_in_other_scripts().await;
        trial
    }

    /// Runs the agenda; returns the first violations.
    async fn live(&mut self, agenda: &[(i64, Act)]) -> Vec<String> {
        for (at, act) in agenda {
            if let Err(broken) = self.go_on_to(*at).await {
                return broken;
            }
            self.count(act.name());
            self.happen(*act).await;
            self.weather_changed(*act);
            self.host_changed(*act);
            if let Err(broken) = self.look().await {
                return broken.into_iter().map(|why| format!("{why} (after {act:?})")).collect();
            }
        }
        Vec::new()
    }

    /// Advances to a time, with a check of the auditor after every step.
    pub async fn go_on_to(&mut self, at_ms: i64) -> Result<(), Vec<String>> {
        while self.world.step(at_ms).await {
            self.look().await?;
        }
        let now = self.world.clock.now_ms();
        self.world.clock.advance_to(at_ms.max(now));
        Ok(())
    }

    async fn look(&mut self) -> Result<(), Vec<String>> {
        if self.world.runs > self.runs_judged {
            self.world.rest().await;
            self.runs_judged = self.world.runs;
            let moves = self.world.number(MOVES).await;
            if std::mem::replace(&mut self.moves_judged, moves) != moves {
                self.judge_sending().await;
                self.judge_levels().await;
                self.judge_refusals().await;
            }
            self.judge_shown().await;
        }
        self.note_trouble();
        self.judge_takeover().await;
        self.judge_waits().await;
        self.judge_health().await;
        self.judge_sending_long().await;
        let broken = self.auditor(|auditor| std::mem::take(&mut auditor.violations));
        if broken.is_empty() { Ok(()) } else { Err(broken) }
    }

    /// Returns access to the auditor.
    pub fn auditor<T>(&self, with: impl FnOnce(&mut Auditor) -> T) -> T {
        let mut audit: MutexGuard<'_, _> = self.world.audit();
        with(audit.full.as_mut().expect("a full world has its auditor"))
    }

    pub fn count(&mut self, what: &'static str) {
        *self.figures.entry(what).or_default() += 1;
    }

    pub fn broken(&self, why: String) {
        self.auditor(|auditor| auditor.violations.push(why));
    }

    /// Sets the settings in force, also in the auditor.
    pub fn put_in_force(&mut self, settings: Settings) {
        let (now, was) = (self.world.clock.now_ms(), self.settings);
        self.settings = settings;
        self.admit(was);
        self.auditor(|auditor| {
            auditor.quota.allow(settings.calls_per_minute, now);
            if settings.policy == "local" || was.policy == "local" {
                auditor.levels.anything_goes();
            }
        });
    }

    /// Tells the auditor the allowed age of a fact: by the settings, those before, and the delay of a
    /// replica.
    fn admit(&self, was: Settings) {
        let behind = self.lags.0.max(self.lags.1);
        let late = if behind > LATE_MS { behind } else { 0 };
        let window = self.settings.max_fact_age_ms.max(was.max_fact_age_ms).max(OWN_READ_MS) + SLOP_MS + late;
        self.auditor(|auditor| (auditor.window_ms, auditor.is_late) = (window, late > 0));
    }

    /// Sets the delay of the replica that balances come from.
    pub fn lag(&mut self, lag_ms: i64) {
        self.lags = (lag_ms, self.lags.0);
        self.weather(|weather| weather.lag_ms = lag_ms);
        self.admit(self.settings);
    }

    /// Returns true if a shown quantity may be from before our own last write.
    pub fn is_late(&self) -> bool {
        self.lags.0.max(self.lags.1) > LATE_MS
    }

    pub fn weather(&self, change: impl FnOnce(&mut Weather)) {
        self.world.wire.change(change);
    }

    /// Ends all faults.
    pub fn calm(&mut self) {
        self.is_calm = true;
        self.weather(|weather| *weather = Weather { storm: Storm::default(), ..Weather::default() });
        self.world.wire.odd(|odd| odd.calm());
        self.claims.cured(None, self.world.clock.now_ms());
        self.auditor(|auditor| auditor.is_wrong_key = false);
        self.world.calm_hosts();
        for host in 0..self.world.hosts() {
            self.world.set_calendar_of(host, 0);
        }
    }

    /// Inserts a change of a stock level and tells the auditor; returns its key.
    pub async fn change_level(
        &mut self,
        kind: &str,
        level: &Level,
        body: serde_json::Value,
        effect: Effect,
    ) -> String {
        let key = self.change(kind, &body).await;
        self.amid = Some(level.clone());
        self.auditor(|auditor| auditor.levels.queued(&key, level, effect));
        key
    }

    fn figures(&self) -> BTreeMap<String, i64> {
        let counted = self.figures.iter().map(|(name, figure)| ((*name).to_owned(), *figure));
        let mut figures = counted.collect::<BTreeMap<_, _>>();
        let mut insert = |name: &str, figure| figures.insert(name.to_owned(), figure);
        self.auditor(|auditor| {
            insert("calls", i64::try_from(auditor.quota.calls).unwrap());
            insert("stock level writes", i64::try_from(auditor.levels.writes).unwrap());
            insert("stock levels judged", i64::try_from(auditor.levels.judged).unwrap());
            insert("units too many, admitted", auditor.levels.admitted.0);
            insert("units too few, admitted", auditor.levels.admitted.1);
            insert("creates", i64::try_from(auditor.creates.len()).unwrap());
            insert("parcels", i64::try_from(auditor.parcels.len()).unwrap());
            insert("odd answers", auditor.odd_answers.values().sum());
            insert("calls failed for what they held, or all", auditor.failed);
        });
        insert("changes", i64::try_from(self.world.changes()).unwrap());
        insert("takeovers", self.world.takeovers);
        figures.extend(self.world.struck.iter().map(|(strike, times)| (strike.clone(), *times)));
        figures
    }
}

impl Settings {
    pub fn toml(self) -> String {
        let Self { policy, calls_per_minute, max_fact_age_ms, skus_per_call } = self;
        let schedules = SCHEDULES.replace("SKUS", &skus_per_call.to_string());
        format!(
            "[limits]\ncalls_per_minute = {calls_per_minute}\n[quantities]\npolicy = \"{policy}\"\n\
             max_fact_age = \"{}s\"\n[journal]\nkeep_bodies = \"3d\"\n{schedules}",
            max_fact_age_ms / 1_000
        )
    }
}
