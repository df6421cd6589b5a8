//! Rows, keys, audit log, and the guards that the database puts on them. Synchronous; knows no faults and no ports.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use flow_core::flow::{Flow, Lane, Trigger};
use flow_core::ids::{
    CallerId, Fingerprint, FlowId, IdempotencyKey, RefundOrderNo, Target, TradeOrderNo, Version,
};
use flow_core::ports::{
    Bound, CasOutcome, CasWrite, Change, Created, DueFlow, FlowEvent, FlowFilter, FlowPage, KeyBinding,
    Lookup, NewFlow, RequestRecord, ScanPage, Seen, StateSummary, StoreError,
};
use flow_core::state::{Edge, State};

use super::outbox::OutboxTable;
use crate::mutants::Subject;

/// Everything the database holds.
#[derive(Debug, Default)]
pub(super) struct Table {
    flows: BTreeMap<FlowId, Flow>,
    /// The target's attempts in the order of their creation.
    attempts: HashMap<Target, Vec<FlowId>>,
    keys: HashMap<(CallerId, IdempotencyKey), (Fingerprint, FlowId)>,
    events: BTreeMap<FlowId, Vec<FlowEvent>>,
    pub(super) outbox: OutboxTable,
    last_id: i64,
    /// The shipped guards, unless a proof takes one away.
    subject: Subject,
}

impl Table {
    pub(super) fn load(&self, flow_id: FlowId) -> Option<Flow> {
        self.flows.get(&flow_id).cloned()
    }

    pub(super) fn flows(&self) -> Vec<Flow> {
        self.flows.values().cloned().collect()
    }

    pub(super) fn all_events(&self) -> Vec<FlowEvent> {
        self.events.values().flatten().cloned().collect()
    }

    pub(super) fn next_due(&self) -> Option<DateTime<Utc>> {
        let moving = |flow: &&Flow| !flow.state.is_terminal() && flow.hold.is_none();
        self.flows.values().filter(moving).map(|flow| flow.next_retry_time).min()
    }

    pub(super) fn set_subject(&mut self, subject: Subject) {
        self.subject = subject;
    }

    pub(super) fn look_up(&self, caller: &CallerId, key: &IdempotencyKey, target: &Target) -> Lookup {
        let request = self.keys.get(&(caller.clone(), key.clone())).and_then(|(fingerprint, flow_id)| {
            let flow = self.flows.get(flow_id)?.clone();
            Some(RequestRecord { fingerprint: *fingerprint, flow })
        });
        let latest = self.attempts_of(target).max_by_key(|flow| flow.attempt_no).cloned();
        Lookup { request, latest }
    }

    fn attempts_of(&self, target: &Target) -> impl Iterator<Item = &Flow> {
        self.attempts.get(target).into_iter().flatten().filter_map(|id| self.flows.get(id))
    }

    pub(super) fn create(&mut self, new: NewFlow, now: DateTime<Utc>) -> Created {
        // An id is used up even by an insert that fails, as by AUTO_INCREMENT.
        self.last_id += 1;
        let key = (new.caller.clone(), new.key.clone());
        if self.keys.contains_key(&key) {
            return Created::KeyTaken;
        }
        let taken = |flow: &Flow| flow.attempt_no == new.attempt_no || self.subject.holds_target(flow);
        if self.attempts_of(&new.target).any(taken) {
            return Created::TargetTaken;
        }
        let id = FlowId::new(self.last_id).expect("ids count up from 1");
        self.keys.insert(key, (new.fingerprint, id));
        self.attempts.entry(new.target.clone()).or_default().push(id);
        let flow = fresh_row(id, &new, now);
        self.events.insert(id, vec![created_event(&flow, &new)]);
        self.flows.insert(id, flow.clone());
        Created::Inserted(Seen { value: flow, now })
    }

    pub(super) fn bind_key(&mut self, binding: KeyBinding) -> Result<Bound, StoreError> {
        if !self.flows.contains_key(&binding.flow_id) {
            return Err(guarded("a request key must stand for a flow that exists"));
        }
        let key = (binding.caller, binding.key);
        if self.keys.contains_key(&key) {
            return Ok(Bound::KeyTaken);
        }
        self.keys.insert(key, (binding.fingerprint, binding.flow_id));
        Ok(Bound::Bound)
    }

    pub(super) fn cas(&mut self, write: &CasWrite, now: DateTime<Utc>) -> Result<CasOutcome, StoreError> {
        if !self.subject.is_legal(write) {
            return Err(guarded(&format!("illegal write from {} to {}", write.from, write.to())));
        }
        let Some(row) = self.flows.get(&write.flow_id).filter(|row| self.subject.matches(write, row)) else {
            return Ok(CasOutcome::Lost);
        };
        let next = write.apply(row, now);
        if self.subject == Subject::SHIPPED {
            guard(row, &next)?;
        }
        let event = write_event(write, &next, now);
        self.put(next, event);
        Ok(CasOutcome::Applied)
    }

    /// A by-hand `UPDATE`: no compare, no version, but the same guards and an audit line.
    pub(super) fn write_by_hand(
        &mut self,
        flow_id: FlowId,
        edit: impl FnOnce(&mut Flow),
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let row = self.flows.get(&flow_id).ok_or_else(|| guarded("there is no such row"))?;
        let mut next = row.clone();
        edit(&mut next);
        guard(row, &next)?;
        next.version = row.version.next();
        next.updated_at = now;
        let kind = if next.state == row.state { "RESCHEDULE" } else { "STATE" };
        let event = FlowEvent {
            flow_id,
            version: next.version,
            from: Some(row.state),
            to: next.state,
            kind: kind.to_owned(),
            trigger: "BY_HAND".to_owned(),
            action: None,
            outcome: None,
            error_code: next.last_error_code.as_ref().map(ToString::to_string),
            request_id: None,
            latency_ms: None,
            trace_id: None,
            actor: Some("by-hand".to_owned()),
            at: now,
        };
        self.put(next, event);
        Ok(())
    }

    pub(super) fn put_as_is(&mut self, flow: Flow) {
        self.last_id = self.last_id.max(flow.id.get());
        let attempts = self.attempts.entry(flow.target.clone()).or_default();
        if !attempts.contains(&flow.id) {
            attempts.push(flow.id);
        }
        self.flows.insert(flow.id, flow);
    }

    fn put(&mut self, next: Flow, event: FlowEvent) {
        self.events.entry(next.id).or_default().push(event);
        if let Some(old) = self.flows.get(&next.id) {
            self.outbox.written(old, &next);
        }
        self.flows.insert(next.id, next);
    }

    pub(super) fn list_due_after(&self, page: &ScanPage) -> Vec<DueFlow> {
        let partitions = i64::from(page.partitions.max(1));
        let mine = |id: i64| id % partitions == i64::from(page.partition);
        self.flows
            .values()
            .filter(|flow| flow.id.get() > page.after_id && mine(flow.id.get()))
            .filter(|flow| !flow.state.is_terminal() && flow.next_retry_time <= page.due_by)
            .take(page.limit_rows as usize)
            .map(|flow| DueFlow {
                id: flow.id,
                lane: Lane::of(flow.state, flow.wallet.clone(), flow.business.clone()),
            })
            .collect()
    }

    pub(super) fn summarise_open(&self, attention_tries: u32, now: DateTime<Utc>) -> Vec<StateSummary> {
        let mut summaries = Vec::new();
        for state in State::ALL.into_iter().filter(|state| !state.is_terminal()) {
            let rows: Vec<&Flow> = self.flows.values().filter(|flow| flow.state == state).collect();
            let count =
                |wanted: &dyn Fn(&Flow) -> bool| rows.iter().filter(|flow| wanted(flow)).count() as u64;
            let oldest_ms = rows.iter().map(|flow| age_ms(flow, now)).max().unwrap_or(0);
            summaries.push(StateSummary {
                state,
                rows: rows.len() as u64,
                held_rows: count(&|flow| flow.hold.is_some()),
                attention_rows: count(&|flow| flow.retry_count >= attention_tries),
                oldest_age_ms: oldest_ms,
            });
        }
        summaries
    }

    pub(super) fn find(
        &self,
        filter: &FlowFilter,
        before_id: Option<FlowId>,
        limit_rows: u32,
        now: DateTime<Utc>,
    ) -> FlowPage {
        let limit = limit_rows as usize;
        let before = |flow: &&Flow| before_id.is_none_or(|before| flow.id < before);
        let mut flows: Vec<Flow> = self
            .flows
            .values()
            .rev()
            .filter(before)
            .filter(|flow| passes(filter, flow, now))
            .take(limit + 1)
            .cloned()
            .collect();
        let has_more = flows.len() > limit;
        flows.truncate(limit);
        FlowPage { flows, has_more }
    }

    pub(super) fn events(&self, flow_id: FlowId, after: Option<Version>, limit_rows: u32) -> Vec<FlowEvent> {
        let wanted = |event: &&FlowEvent| after.is_none_or(|after| event.version > after);
        let log = self.events.get(&flow_id).into_iter().flatten();
        log.filter(wanted).take(limit_rows as usize).cloned().collect()
    }
}

fn guarded(message: &str) -> StoreError {
    StoreError::Guarded { message: message.to_owned() }
}

/// What the database's triggers refuse, for every writer.
fn guard(old: &Flow, new: &Flow) -> Result<(), StoreError> {
    if old.state != new.state && Edge::between(old.state, new.state).is_none() {
        return Err(guarded(&format!("state may not change from {} to {}", old.state, new.state)));
    }
    let identity = |flow: &Flow| {
        (
            (flow.id, flow.target.clone(), flow.attempt_no),
            (flow.trade_order_no.clone(), flow.refund_order_no.clone()),
            (flow.money.clone(), flow.deadline, flow.wallet.clone(), flow.business.clone()),
            (flow.context.clone(), flow.caller.clone(), flow.created_at),
        )
    };
    if identity(old) != identity(new) {
        return Err(guarded("identity and money of a flow may not change"));
    }
    if old.refund.is_some() && old.refund != new.refund {
        return Err(guarded("the refund terms of a flow are frozen"));
    }
    if old.cancel.is_some() && old.cancel != new.cancel {
        return Err(guarded("a cancel request is recorded once"));
    }
    Ok(())
}

fn fresh_row(id: FlowId, new: &NewFlow, now: DateTime<Utc>) -> Flow {
    let trade_order_no = TradeOrderNo::derive(new.target.user_id, id);
    let first_due_in_ms = i64::try_from(new.first_due_in_ms).unwrap_or(i64::MAX / 1_000_000);
    Flow {
        id,
        target: new.target.clone(),
        attempt_no: new.attempt_no,
        refund_order_no: RefundOrderNo::derive(&trade_order_no),
        trade_order_no,
        state: State::WaitPay,
        version: Version::FIRST,
        money: new.money.clone(),
        deadline: new.deadline,
        wallet: new.wallet.clone(),
        business: new.business.clone(),
        context: new.context.clone(),
        caller: new.caller.clone(),
        next_retry_time: now + TimeDelta::milliseconds(first_due_in_ms),
        retry_count: 0,
        last_error_code: None,
        channel_request_id: None,
        cancel: None,
        hold: None,
        refund: None,
        wallet_pay_txn: None,
        wallet_refund_txn: None,
        paid_at: None,
        finished_at: None,
        state_entered_at: now,
        created_at: now,
        updated_at: now,
    }
}

fn created_event(flow: &Flow, new: &NewFlow) -> FlowEvent {
    FlowEvent {
        flow_id: flow.id,
        version: flow.version,
        from: None,
        to: flow.state,
        kind: "CREATED".to_owned(),
        trigger: Trigger::Sync.as_str().to_owned(),
        action: None,
        outcome: None,
        error_code: None,
        request_id: None,
        latency_ms: None,
        trace_id: new.trace_id.as_ref().map(ToString::to_string),
        actor: None,
        at: flow.created_at,
    }
}

fn write_event(write: &CasWrite, next: &Flow, now: DateTime<Utc>) -> FlowEvent {
    let evidence = &write.evidence;
    let kind = match &write.change {
        Change::Move { .. } => "STATE",
        Change::Reschedule { .. } => "RESCHEDULE",
        Change::Hold { .. } => "HOLD",
        Change::Release => "RELEASE",
        Change::RequestCancel { .. } => "CANCEL",
    };
    FlowEvent {
        flow_id: write.flow_id,
        version: next.version,
        from: Some(write.from),
        to: next.state,
        kind: kind.to_owned(),
        trigger: evidence.trigger.as_str().to_owned(),
        action: evidence.action.map(|action| action.as_str().to_owned()),
        outcome: evidence.outcome.map(str::to_owned),
        error_code: next.last_error_code.as_ref().map(ToString::to_string),
        request_id: evidence.request_id.as_ref().map(ToString::to_string),
        latency_ms: evidence.latency_ms,
        trace_id: evidence.trace_id.as_ref().map(ToString::to_string),
        actor: evidence.actor.as_ref().map(ToString::to_string),
        at: now,
    }
}

fn age_ms(flow: &Flow, now: DateTime<Utc>) -> u64 {
    u64::try_from((now - flow.state_entered_at).num_milliseconds()).unwrap_or(0)
}

fn passes(filter: &FlowFilter, flow: &Flow, now: DateTime<Utc>) -> bool {
    fn is<T: PartialEq>(wanted: Option<&T>, found: &T) -> bool {
        wanted.is_none_or(|wanted| wanted == found)
    }
    is(filter.caller.as_ref(), &flow.caller)
        && is(filter.user_id.as_ref(), &flow.target.user_id)
        && is(filter.scene.as_ref(), &flow.target.scene)
        && is(filter.biz_key.as_ref(), &flow.target.biz_key)
        && is(filter.trade_order_no.as_ref(), &flow.trade_order_no)
        && is(filter.refund_order_no.as_ref(), &flow.refund_order_no)
        && is(filter.state.as_ref(), &flow.state)
        && is(filter.open.as_ref(), &!flow.state.is_terminal())
        && is(filter.held.as_ref(), &flow.hold.is_some())
        && filter.min_age_ms.is_none_or(|min_age_ms| age_ms(flow, now) >= min_age_ms)
}
