//! `push`: delivers the outbox. This file has the wishes for stock; behind them go the others ([`super::deliver`]).
//!
//! Woken by the outbox, not by a schedule. It works in batches of as many SKUs as one read takes: what is stale in
//! the batch is read, what needs no call is settled, the rest is packed into as few calls as can be and sent. A call
//! that would not be full waits for the next batch while there is one, so the number of calls is the lower bound over
//! the whole backlog. Every call decides its cells once more from what is known at that moment ([`send`]).
//!
//! An operator's wish that arrives meanwhile ends the batch: what was not sent is planned again behind it.

pub(super) mod brake;
mod foresee;
mod send;
pub(super) mod work;

pub(super) use self::foresee::foresee;
use self::send::Sent;
use self::work::{Look, Work, gather};
use super::deliver::Deliver;
use super::{Context, JobError, Report, call, record};
use crate::client::{Verdict as Answered, wire};
use crate::limiter::Pace;
use crate::model::{Cell, ExchangeId, Lane, RunId, Sku, WishId};
use crate::outbox::{Delays, Reason, State};
use crate::reconcile::packing::{Entry, pack};
use crate::reconcile::{Outcome, Step};
use crate::store::{Claim, Durability, Verdict};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::task::JoinSet;

/// Reads of one cell in a run that brought no decision, after which its wishes are held. Two are normal where the
/// service does not return the SKU: only a small answer that lacks it again makes it missing.
const READS_MAX: u8 = 4;
/// The service's limit of entries in an update call (*Limits*).
const ENTRIES_MAX: usize = 25;
/// So few SKUs are asked for at a time where an earlier answer lacked them.
const SMALL_PAGE: usize = 25;

pub(super) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let mut push = Push {
        context,
        run,
        reads: BTreeMap::new(),
        own_read: None,
        halves: VecDeque::new(),
        tally: Tally::default(),
    };
    let mut deliver = Deliver::new(context, run);
    let mut broken = None;
    loop {
        if broken.is_none() {
            broken = push.drain().await?;
        }
        if !deliver.round(&mut push.tally).await? {
            break;
        }
    }
    broken.map_or_else(|| Ok(push.tally.report()), Err)
}

struct Push<'a> {
    context: &'a Context,
    run: RunId,
    /// How often each cell was read without a decision.
    reads: BTreeMap<Cell, u8>,
    /// The first read made for the batch at hand.
    own_read: Option<ExchangeId>,
    /// Calls the service refused as a whole, cut in two to find the culprit.
    halves: VecDeque<Vec<Cell>>,
    tally: Tally,
}

/// What the run did, for its summary.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: u64,
    applied: u64,
    rejected: u64,
    pub(super) held: u64,
    pub(super) in_doubt: u64,
    trouble: Option<String>,
}

impl Tally {
    /// Notes what went wrong; the first of it is reported.
    pub(super) fn note(&mut self, why: String) {
        self.trouble.get_or_insert(why);
    }

    /// Counts moves that were made.
    pub(super) fn count(&mut self, moves: &[Verdict]) {
        self.applied += count(moves, State::Applied);
        self.rejected += count(moves, State::Rejected);
        self.held += count(moves, State::Held);
        self.in_doubt += count(moves, State::InDoubt);
    }

    fn report(&self) -> Report {
        let mut summary = format!("{} wish(es) applied in {} call(s)", self.applied, self.calls);
        for (count, what) in [(self.rejected, "rejected"), (self.held, "held"), (self.in_doubt, "in doubt")] {
            if count > 0 {
                summary.push_str(&format!(", {count} {what}"));
            }
        }
        match &self.trouble {
            None => Report::ok(summary),
            Some(why) => Report::partial(format!("{summary}; then: {why}")),
        }
    }
}

impl Push<'_> {
    /// Batches until nothing is left to do now. Facts that cannot be read stop the quantities and nobody else.
    async fn drain(&mut self) -> Result<Option<JobError>, JobError> {
        loop {
            match self.batch().await {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(
                    error @ (JobError::GivenUp { .. } | JobError::Rejected { .. } | JobError::Implausible(_)),
                ) => return Ok(Some(error)),
                Err(error @ (JobError::Stopped | JobError::Refused(_) | JobError::Store(_))) => {
                    return Err(error);
                }
            }
        }
    }

    /// One batch; false when nothing is left to do now.
    async fn batch(&mut self) -> Result<bool, JobError> {
        let settings = self.context.settings();
        let look = Look { settings: &settings.quantities, now: self.context.now(), own_read: self.own_read };
        let gathered = gather(&self.context.store, look, None).await?;
        self.reject(&gathered.rejected).await?;
        let held = brake::judge_backlog(self.context, &gathered.works).await?;
        if held > 0 {
            self.tally.held += held;
            return Ok(true);
        }
        let page = settings.skus_per_call;
        let (batch, has_more) = first_skus(&gathered.works, page);
        let stale: Vec<&Work> = batch.iter().copied().filter(|work| work.plan.step == Step::Read).collect();
        if !stale.is_empty() {
            self.read(&stale).await?;
            return Ok(true);
        }
        let settled = self.settle(&batch).await?;
        let writes: Vec<&Work> =
            batch.into_iter().filter(|work| matches!(work.plan.step, Step::Write { .. })).collect();
        if writes.is_empty() && self.halves.is_empty() {
            return Ok(settled && has_more);
        }
        self.send(&writes, has_more, gathered.newest).await
    }

    /// Moves what makes no sense to where it is read.
    async fn reject(&mut self, moves: &[Verdict]) -> Result<(), JobError> {
        if moves.is_empty() {
            return Ok(());
        }
        let mut write = self.context.store.begin(Durability::Full).await?;
        self.tally.rejected += write.outbox_move(State::Pending, moves, self.context.now()).await?;
        write.commit().await?;
        Ok(())
    }

    /// Reads the cells whose facts are missing or too old for a write, many in one call.
    async fn read(&mut self, stale: &[&Work]) -> Result<(), JobError> {
        let tired: Vec<&Work> = stale.iter().copied().filter(|work| self.reads(work) >= READS_MAX).collect();
        if !tired.is_empty() {
            return self.hold_unread(&tired).await;
        }
        let skus = skus_to_read(stale);
        let urgent = stale.iter().any(|work| work.urgent);
        for work in stale.iter().filter(|work| skus.contains(&work.ask)) {
            *self.reads.entry(work.cell.clone()).or_default() += 1;
        }
        let lane = if urgent { Lane::Operator } else { Lane::Push };
        self.read_page(lane, &skus).await
    }

    /// Reads one page, halving it where it is too much for the service.
    async fn read_page(&mut self, lane: Lane, skus: &[Sku]) -> Result<(), JobError> {
        let mut delays = Delays::page_retry().take(call::ATTEMPTS);
        let mut size = skus.len();
        loop {
            let page = &skus[..size];
            let request =
                wire::get_product_balances(page).map_err(|why| JobError::Implausible(why.to_string()))?;
            let answer = self.context.read_once(self.run, lane, request).await?;
            match answer.reply.verdict {
                Answered::Accepted => {
                    record::balances_page(self.context, &answer, page).await?;
                    self.own_read.get_or_insert(answer.id);
                    return Ok(());
                }
                Answered::Throttled(_) => self.context.end_alone(&answer).await?,
                Answered::Rejected { .. }
                | Answered::Refused { .. }
                | Answered::Transient
                | Answered::NotSent
                | Answered::InDoubt => {
                    self.context.end_alone(&answer).await?;
                    self.context
                        .give_up_if_hopeless(self.run, "balances before a push", &answer.reply)
                        .await?;
                    if answer.reply.wants_smaller_page() {
                        size = (size / 2).max(1);
                    }
                    let why = call::words(&answer.reply);
                    let what = "balances before a push".to_owned();
                    let delay = delays.next().ok_or(JobError::GivenUp { what, why })?;
                    self.context.pause(delay).await?;
                }
            }
        }
    }

    fn reads(&self, work: &Work) -> u8 {
        self.reads.get(&work.cell).copied().unwrap_or(0)
    }

    async fn hold_unread(&mut self, works: &[&Work]) -> Result<(), JobError> {
        let held = |id: &WishId| {
            let detail = "the service was asked for this cell several times and no answer decided it";
            Verdict::new(*id, State::Held, Some(Reason::NoFact.as_str()), detail)
        };
        let moves: Vec<Verdict> = works.iter().flat_map(|work| work.pending.iter().map(held)).collect();
        let mut write = self.context.store.begin(Durability::Full).await?;
        self.tally.held += write.outbox_move(State::Pending, &moves, self.context.now()).await?;
        write.commit().await?;
        Ok(())
    }

    /// Carries out what needs no call; whether anything moved is returned.
    async fn settle(&mut self, works: &[&Work]) -> Result<bool, JobError> {
        let mut moves = Settled::default();
        for work in works {
            moves.add(work);
        }
        if moves.is_empty() {
            return Ok(false);
        }
        let now = self.context.now();
        let mut write = self.context.store.begin(Durability::Full).await?;
        for (exchange, agreed) in &moves.agreed {
            let claims: Vec<Claim> = agreed.iter().map(|(claim, _)| *claim).collect();
            let applied: Vec<Verdict> = agreed.iter().map(|(_, verdict)| verdict.clone()).collect();
            write.outbox_claim(*exchange, &claims, now).await?;
            self.tally.applied += write.outbox_move(State::Sending, &applied, now).await?;
        }
        let agreed = works.iter().filter(|work| matches!(work.plan.step, Step::Agreed(_)));
        let agreed = agreed.filter_map(|work| Some((work.product?, work.cell.warehouse_id.0)));
        write.mismatch_end(&agreed.collect::<Vec<_>>()).await?;
        self.tally.held += count(&moves.waiting, State::Held);
        self.tally.rejected += count(&moves.waiting, State::Rejected);
        write.outbox_move(State::Pending, &moves.waiting, now).await?;
        write.outbox_move(State::Held, &moves.superseded, now).await?;
        write.commit().await?;
        moves.tell();
        Ok(true)
    }

    /// Packs and sends; always worth another look afterwards.
    async fn send(&mut self, writes: &[&Work], has_more: bool, newest: WishId) -> Result<bool, JobError> {
        let mut calls = VecDeque::from(calls(writes, has_more));
        let mut flying: JoinSet<Result<Sent, JobError>> = JoinSet::new();
        // The first call goes straight behind the read that made its facts fresh, which paid its pace.
        let mut pace = Pace::Paid;
        let at_once = self.context.settings().calls_in_flight.max(1);
        let mut broken = None;
        loop {
            while broken.is_none() && flying.len() < at_once {
                let (cells, urgent) = match self.halves.pop_front() {
                    Some(half) => (half, false),
                    None => match self.next_call(&mut calls, newest).await? {
                        Some(call) => call,
                        None => break,
                    },
                };
                let lane = if urgent { Lane::Operator } else { Lane::Push };
                let call = send::Call { run: self.run, lane, pace, own_read: self.own_read, cells };
                flying.spawn(send::send(self.context.clone(), call));
                pace = Pace::Paced;
            }
            // What is in flight concludes, also when another call broke off: left alone it would be in doubt.
            match flying.join_next().await.map(joined) {
                None => break,
                Some(Ok(sent)) => self.sent(sent),
                Some(Err(error)) => broken = Some(error),
            }
        }
        if let Some(error) = broken {
            return Err(error);
        }
        self.own_read = None;
        Ok(self.tally.trouble.is_none())
    }

    /// The next packed call, unless an operator's wish has arrived or something went wrong.
    async fn next_call(
        &self,
        calls: &mut VecDeque<Vec<&Work>>,
        newest: WishId,
    ) -> Result<Option<(Vec<Cell>, bool)>, JobError> {
        if self.tally.trouble.is_some() || calls.is_empty() {
            return Ok(None);
        }
        if self.context.store.outbox_has_urgent_after(newest).await? {
            return Ok(None);
        }
        let Some(call) = calls.pop_front() else { return Ok(None) };
        let urgent = call.iter().any(|work| work.urgent);
        Ok(Some((call.into_iter().map(|work| work.cell.clone()).collect(), urgent)))
    }

    fn sent(&mut self, sent: Sent) {
        match sent {
            Sent::Nothing => {}
            Sent::Concluded { cells, applied, rejected, held, in_doubt } => {
                self.tally.calls += 1;
                self.tally.applied += applied;
                self.tally.rejected += rejected;
                self.tally.held += held;
                self.tally.in_doubt += in_doubt;
                for cell in &cells {
                    self.reads.remove(cell);
                }
            }
            Sent::Halved(halves) => {
                self.tally.calls += 1;
                self.halves.extend(halves);
            }
            Sent::Waits(why) => {
                self.tally.calls += 1;
                self.tally.trouble = self.tally.trouble.take().or(why);
            }
        }
    }
}

fn joined<T>(result: Result<T, tokio::task::JoinError>) -> T {
    match result {
        Ok(value) => value,
        // The calls are never cancelled, so what ends one early is a panic: it is handed on.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// The writes of a batch as calls; one that would not be full waits for the next batch while there is one.
fn calls<'w>(writes: &[&'w Work], has_more: bool) -> Vec<Vec<&'w Work>> {
    let entries: Vec<Entry<'_>> = writes.iter().map(|work| work.entry()).collect();
    let packed = pack(&entries).into_iter();
    let mut calls: Vec<Vec<&Work>> =
        packed.map(|call| call.into_iter().map(|index| writes[index]).collect()).collect();
    if has_more && calls.iter().any(|call| call.len() == ENTRIES_MAX) {
        calls.retain(|call| call.len() == ENTRIES_MAX);
    }
    calls
}

/// The SKUs of the next read before a push: all that are stale, or first a few of those an answer lacked.
fn skus_to_read(stale: &[&Work]) -> Vec<Sku> {
    let mut skus: BTreeSet<&Sku> = stale.iter().map(|work| &work.ask).collect();
    if stale.iter().any(|work| work.was_absent) {
        let absent = stale.iter().filter(|work| work.was_absent).map(|work| &work.ask);
        skus = absent.collect::<BTreeSet<_>>().into_iter().take(SMALL_PAGE).collect();
    }
    skus.into_iter().cloned().collect()
}

fn count(moves: &[Verdict], state: State) -> u64 {
    moves.iter().filter(|verdict| verdict.to == state.as_str()).count() as u64
}

/// The works of the first `limit` SKUs, and whether there are more.
fn first_skus<'w>(works: impl IntoIterator<Item = &'w Work>, limit: usize) -> (Vec<&'w Work>, bool) {
    let mut skus = BTreeSet::new();
    let (mut batch, mut has_more) = (Vec::new(), false);
    for work in works {
        if skus.len() < limit || skus.contains(&work.cell.sku) {
            skus.insert(&work.cell.sku);
            batch.push(work);
        } else {
            has_more = true;
        }
    }
    (batch, has_more)
}

/// The moves of a batch that need no call.
#[derive(Default)]
struct Settled {
    /// The service holds the wanted quantity already: applied by the exchange that said so.
    agreed: BTreeMap<ExchangeId, Vec<(Claim, Verdict)>>,
    /// From pending.
    waiting: Vec<Verdict>,
    /// From held.
    superseded: Vec<Verdict>,
}

impl Settled {
    fn is_empty(&self) -> bool {
        self.agreed.is_empty() && self.waiting.is_empty() && self.superseded.is_empty()
    }

    fn add(&mut self, work: &Work) {
        for decision in &work.plan.decisions {
            let (id, verdict) = (decision.id, work.verdict(decision));
            match (&decision.outcome, &work.plan.step) {
                (Outcome::Settles { .. }, Step::Agreed(quantity)) => {
                    let claim = Claim { id, written: Some(quantity.0) };
                    self.agreed.entry(work.fact_exchange).or_default().push((claim, verdict));
                }
                (Outcome::Settles { .. }, Step::Nothing | Step::Read | Step::Write { .. }) => {}
                (Outcome::Held { .. } | Outcome::Rejected { .. } | Outcome::Cancelled { .. }, _) => {
                    let from_held = !work.pending.contains(&id);
                    if from_held { &mut self.superseded } else { &mut self.waiting }.push(verdict);
                }
            }
        }
    }

    fn tell(&self) {
        use crate::telemetry::event;
        for verdict in self.waiting.iter().filter(|verdict| verdict.reason == Some(Reason::Conflict.as_str()))
        {
            let detail = verdict.detail.as_deref().unwrap_or_default();
            tracing::warn!(event = event::CONFLICT_OPENED, wish = verdict.id.0, "{detail}");
        }
    }
}
