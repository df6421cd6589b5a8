//! Flows, a bill and a business system that say what the test says.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use chrono_tz::Tz;
use flow_bills::{BillEntry, BillError, BillSummary, EntryKind, Proof};
use flow_core::advance::{AdvanceSettings, Advancer};
use flow_core::answer::{
    Answered, ChargeAnswer, ErrorCode, ExecuteAnswer, FactAnswer, NoAnswer, Receipt, RefundAnswer,
    UnknownCause,
};
use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::decide::Transition;
use flow_core::downstream::{BreakerLimits, BudgetLimits, BusinessRules, Downstreams, Limits, WalletRules};
use flow_core::flow::{Flow, RefundReason, Trigger};
use flow_core::ids::{ChannelName, OrderRef, RefundOrderNo, Target, TradeOrderNo};
use flow_core::ports::{Business, CasOutcome, ChargeOrder, Created, Execution, RefundOrder, Wallet};
use flow_core::recon::{FindingKind, Partition};
use flow_core::state::State;
use flow_testkit::clock::ManualClock;
use flow_testkit::jitter::FixedJitter;
use flow_testkit::mem_recon::MemRecon;
use flow_testkit::mem_store::MemStore;
use flow_testkit::samples;
use flow_testkit::wake::RecordingWake;
use pay_recon::calendar::Calendar;
use pay_recon::order::Rules;
use pay_recon::run::{Bill, Channel, NoProgress, RunError, RunReport, RunSettings, Runner, Task};
use tokio_util::sync::CancellationToken;

const UNKNOWN: NoAnswer = NoAnswer::Unknown(UnknownCause::TimedOut);

/// The day that is compared: the second of January, in UTC.
pub(crate) fn today() -> NaiveDate {
    date(2)
}

pub(crate) fn date(day: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 1, day).unwrap()
}

pub(crate) fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// Answers queries as it is told; otherwise nothing definite.
#[derive(Debug, Default)]
pub(crate) struct ToldWallet {
    pub(crate) charges: Mutex<HashMap<String, ChargeAnswer>>,
}

#[async_trait]
impl Wallet for ToldWallet {
    async fn debit(&self, _order: &ChargeOrder) -> Answered<ChargeAnswer> {
        Answered::bare(ChargeAnswer::None(UNKNOWN))
    }
    async fn query(&self, number: &TradeOrderNo) -> Answered<ChargeAnswer> {
        let told = self.charges.lock().unwrap().get(number.as_str()).cloned();
        Answered::bare(told.unwrap_or(ChargeAnswer::None(UNKNOWN)))
    }
    async fn close(&self, _number: &TradeOrderNo) -> Answered<ChargeAnswer> {
        Answered::bare(ChargeAnswer::None(UNKNOWN))
    }
    async fn refund(&self, _order: &RefundOrder) -> Answered<RefundAnswer> {
        Answered::bare(RefundAnswer::None(UNKNOWN))
    }
    async fn query_refund(&self, _number: &RefundOrderNo) -> Answered<RefundAnswer> {
        Answered::bare(RefundAnswer::None(UNKNOWN))
    }
}

/// Tells the fact of a target; of one it was not told about, that nothing was done.
#[derive(Debug, Default)]
pub(crate) struct ToldBusiness {
    pub(crate) facts: Mutex<HashMap<Target, FactAnswer>>,
    pub(crate) done_when_executed: Mutex<bool>,
}

#[async_trait]
impl Business for ToldBusiness {
    async fn execute(&self, execution: &Execution) -> Answered<ExecuteAnswer> {
        if *self.done_when_executed.lock().unwrap() {
            let owner = OrderRef::new(execution.trade_order_no.as_str()).unwrap();
            self.facts.lock().unwrap().insert(execution.target.clone(), FactAnswer::Done { owner });
        }
        Answered::bare(ExecuteAnswer::Processing)
    }
    async fn fact(&self, target: &Target) -> Answered<FactAnswer> {
        let told = self.facts.lock().unwrap().get(target).cloned();
        Answered::bare(told.unwrap_or(FactAnswer::NotDone))
    }
}

/// A world with a bill per day.
pub(crate) struct Rig {
    pub(crate) clock: ManualClock,
    pub(crate) flows: MemStore,
    pub(crate) store: MemRecon,
    pub(crate) wallet: Arc<ToldWallet>,
    pub(crate) business: Arc<ToldBusiness>,
    pub(crate) bills: BTreeMap<NaiveDate, Vec<BillEntry>>,
    pub(crate) channel: Channel,
    runner: Runner,
    next: i64,
}

fn limits() -> Limits {
    Limits {
        max_concurrent_calls: 64,
        queue_wait_ms: 10_000,
        budget: BudgetLimits { calls_per_s: 1_000_000, burst_calls: 1_000_000 },
        breaker: BreakerLimits { failures_to_open: 1_000_000, open_ms: 1, max_open_ms: 1, probes: 1 },
    }
}

impl Rig {
    /// One o'clock in the morning of the day.
    pub(crate) fn new() -> Rig {
        let clock = ManualClock::new();
        clock.advance_to(at("2026-01-02T01:00:00Z"));
        Rig::at(clock)
    }

    /// On this clock.
    pub(crate) fn at(clock: ManualClock) -> Rig {
        let flows = MemStore::new(clock.clone());
        let store = MemRecon::new(flows.clone(), clock.clone());
        let (wallet, business) = (Arc::new(ToldWallet::default()), Arc::new(ToldBusiness::default()));
        let wallet_rules =
            WalletRules { can_close: true, in_flight_grace_ms: 1, refund_tries_before_hold: 1_000_000 };
        let business_rules = BusinessRules { settle_margin_ms: 5_000, unreadable_hold_ms: 86_400_000 };
        let downstreams = Downstreams::builder(Arc::new(clock.clone()))
            .wallet(samples::wallet_name(), wallet.clone(), wallet_rules, limits())
            .business(samples::business_name(), business.clone(), business_rules, limits())
            .build();
        let advancer = Advancer::new(
            Arc::new(flows.clone()),
            downstreams,
            Arc::new(RecordingWake::new()),
            Arc::new(clock.clone()),
            Arc::new(FixedJitter::NONE),
            AdvanceSettings::default(),
        );
        let settings = RunSettings {
            claim_ms: 60_000,
            page_rows: 7,
            max_parallel_facts: 8,
            max_unreadable_facts: 100,
            sort_buffer_bytes: 0,
            folder: std::env::temp_dir(),
            advance_budget_ms: 1_000,
            actor: samples::actor("pay-recon"),
        };
        let runner =
            Runner::new(Arc::new(store.clone()), Arc::new(flows.clone()), Arc::new(advancer), settings);
        Rig {
            clock,
            flows,
            store,
            wallet,
            business,
            bills: BTreeMap::new(),
            channel: channel(),
            runner,
            next: 1,
        }
    }

    /// A flow in a state, its charge and its end now; its bill rows and its fact as they should be.
    pub(crate) fn agreeing(&mut self, state: State) -> Flow {
        self.next += 1;
        self.clock.advance_ms(997);
        let flow = self.flow(samples::target(self.next, "R:1"), state);
        self.bill(&flow);
        if state == State::BizSuccess {
            self.owns(&flow, &flow);
        }
        flow
    }

    /// A flow for a target, without bill or fact.
    pub(crate) fn flow(&mut self, target: Target, state: State) -> Flow {
        self.next += 1;
        let attempts = self.flows.flows().iter().filter(|flow| flow.target == target).count();
        let mut new = samples::new_flow(self.next, self.clock.now() + TimeDelta::days(10));
        new.target = target;
        new.attempt_no = flow_core::ids::AttemptNo(u32::try_from(attempts).unwrap() + 1);
        let created = self.flows.create_now(new);
        let Created::Inserted(seen) = created else { panic!("{created:?}") };
        let mut flow = seen.value;
        for transition in path_to(&flow, state) {
            flow = self.moved(&flow, transition);
        }
        flow
    }

    pub(crate) fn moved(&self, flow: &Flow, transition: Transition) -> Flow {
        let change = Change::Move { transition, next_in_ms: 1_000 };
        let evidence = WriteEvidence::of(Trigger::Sync);
        let write = CasWrite { flow_id: flow.id, from: flow.state, version: flow.version, change, evidence };
        assert_eq!(self.flows.cas_now(&write).unwrap(), CasOutcome::Applied);
        self.flows.flow(flow.id).unwrap()
    }

    /// The rows that a bill has of a flow, on the days on which they happened.
    pub(crate) fn bill(&mut self, flow: &Flow) {
        if let Some(at) = flow.paid_at {
            self.row(at.date_naive(), payment(flow, at));
        }
        if let Some(at) = flow.finished_at.filter(|_| flow.state == State::Refunded) {
            self.row(at.date_naive(), refund(flow, at));
        }
    }

    pub(crate) fn row(&mut self, on: NaiveDate, entry: BillEntry) {
        self.bills.entry(on).or_default().push(entry);
    }

    /// The last row of the day's bill.
    pub(crate) fn last_row(&mut self) -> &mut BillEntry {
        self.bills.get_mut(&today()).unwrap().last_mut().unwrap()
    }

    pub(crate) fn owns(&self, target_of: &Flow, owner: &Flow) {
        let owner = OrderRef::new(owner.trade_order_no.as_str()).unwrap();
        self.says(target_of, FactAnswer::Done { owner });
    }

    pub(crate) fn says(&self, target_of: &Flow, fact: FactAnswer) {
        self.business.facts.lock().unwrap().insert(target_of.target.clone(), fact);
    }

    pub(crate) async fn run(&self, day: NaiveDate) -> RunReport {
        self.try_run(day, Partition::WHOLE, self.entries(day)).await.unwrap()
    }

    pub(crate) fn entries(&self, day: NaiveDate) -> Vec<BillEntry> {
        self.bills.get(&day).cloned().unwrap_or_default()
    }

    pub(crate) async fn try_run(
        &self,
        day: NaiveDate,
        partition: Partition,
        entries: Vec<BillEntry>,
    ) -> Result<RunReport, RunError> {
        self.run_bill(Task { day, partition, is_dry: false }, bill_of(entries, None)).await
    }

    pub(crate) async fn run_bill(&self, task: Task, bill: Bill) -> Result<RunReport, RunError> {
        // Days are compared in the mornings after them.
        let morning = task.day.succ_opt().unwrap().and_hms_opt(10, 0, 0).unwrap().and_utc();
        self.clock.advance_to(morning);
        self.runner.run(&self.channel, task, bill, &NoProgress, &CancellationToken::new()).await
    }

    /// What tickets say now, by order.
    pub(crate) fn found(&self) -> BTreeMap<String, BTreeSet<FindingKind>> {
        let tickets = self.store.tickets().into_iter().filter(|ticket| !ticket.findings.is_empty());
        let kinds =
            |ticket: &flow_core::recon::Ticket| ticket.findings.iter().map(|finding| finding.kind).collect();
        tickets.map(|ticket| (ticket.order_no.to_string(), kinds(&ticket))).collect()
    }
}

pub(crate) fn channel() -> Channel {
    Channel {
        name: ChannelName::new("main").unwrap(),
        wallet: samples::wallet_name(),
        calendar: Calendar::new(Tz::UTC),
        rules: Rules { time_gap_limit_ms: 600_000, compares_users: true, compares_references: true },
        near_midnight_ms: 600_000,
    }
}

/// A bill with these rows, numbered as they come; at the end, this verdict.
pub(crate) fn bill_of(entries: Vec<BillEntry>, refused: Option<BillError>) -> Bill {
    let read = move |sink: &mut dyn flow_bills::BillSink| {
        let rows = u64::try_from(entries.len()).unwrap();
        for (line, entry) in (2..).zip(entries) {
            sink.entry(BillEntry { line, ..entry })?;
        }
        match refused {
            Some(error) => Err(error),
            None => Ok(BillSummary { rows, bytes: rows, ..BillSummary::default() }),
        }
    };
    Bill { source: "a test".to_owned(), read: Box::new(read) }
}

fn receipt(flow: &Flow, kind: &str) -> Receipt {
    let transaction = Some(samples::reference(&format!("{kind}-{}", flow.id)));
    Receipt { transaction, ..samples::receipt_for(flow) }
}

pub(crate) fn path_to(flow: &Flow, state: State) -> Vec<Transition> {
    let enter = Transition::EnterPaying;
    let paid = Transition::ConfirmPayment(receipt(flow, "pay"));
    let refund = Transition::DecideRefund(RefundReason::DeadlinePassed);
    match state {
        State::WaitPay => vec![],
        State::Paying => vec![enter],
        State::PayFail => vec![enter, Transition::FailPayment(ErrorCode::clean("INSUFFICIENT_FUNDS"))],
        State::Payed => vec![enter, paid],
        State::BizSuccess => vec![enter, paid, Transition::ConfirmBusiness],
        State::Refunding => vec![enter, paid, refund],
        State::Refunded => vec![enter, paid, refund, Transition::ConfirmRefund(receipt(flow, "back"))],
    }
}

/// The row of a flow's charge.
pub(crate) fn payment(flow: &Flow, at: DateTime<Utc>) -> BillEntry {
    BillEntry {
        kind: EntryKind::Payment,
        order_no: flow.trade_order_no.to_string(),
        trade_order_no: None,
        amount_minor: flow.money.amount().unsigned_abs(),
        currency: flow.money.currency().to_string(),
        user: Some(flow.target.user_id.to_string()),
        channel_ref: Some(format!("pay-{}", flow.id)),
        at,
        proof: Proof::Settled,
        line: 0,
        raw: format!("payment,{}", flow.trade_order_no),
    }
}

/// The row of its refund.
pub(crate) fn refund(flow: &Flow, at: DateTime<Utc>) -> BillEntry {
    BillEntry {
        kind: EntryKind::Refund,
        order_no: flow.refund_order_no.to_string(),
        trade_order_no: Some(flow.trade_order_no.to_string()),
        channel_ref: Some(format!("back-{}", flow.id)),
        raw: format!("refund,{}", flow.refund_order_no),
        ..payment(flow, at)
    }
}
