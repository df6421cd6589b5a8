//! A chunk of orders: flows that the day's reading did not bring are looked up, facts are read, and whatever differs is looked
//! at once more with the flow as it is now.

use std::collections::HashMap;

use flow_core::ids::TradeOrderNo;
use flow_core::ports::{CarrySide, EntryKind, ReconFlow};
use flow_core::state::State;

use super::{Run, RunError};
use crate::finding::findings;
use crate::group::Group;
use crate::midnight::{Settled, settle};
use crate::order::{BillRow, Due, Fact, Order};

/// An order that was compared.
pub(super) struct Compared {
    pub(super) group: Group,
    pub(super) order: Order,
    pub(super) settled: Settled,
}

impl Run<'_> {
    /// Compares a chunk and writes what follows.
    pub(super) async fn chunk(&mut self, groups: Vec<Group>) -> Result<(), RunError> {
        let count = u64::try_from(groups.len()).unwrap_or(u64::MAX);
        let orders = self.orders(groups).await?;
        for (group, order) in orders {
            let settled = settle(&order, findings(&order, &self.channel.rules), &self.neighbours);
            self.count(&group, &order, &settled);
            self.write(Compared { group, order, settled }).await?;
        }
        self.progress.step(count);
        Ok(())
    }

    async fn orders(&mut self, groups: Vec<Group>) -> Result<Vec<(Group, Order)>, RunError> {
        let unread = groups.iter().filter(|group| group.local.is_none() && group.has_entries());
        let mut flows = self.look_up(unread.filter_map(|group| number_of(group.order_no.as_str()))).await?;
        let mut orders: Vec<(Group, Order)> = Vec::with_capacity(groups.len());
        for group in groups {
            let local = group.local.clone().or_else(|| flows.remove(group.order_no.as_str()));
            let order = self.order(&group, local);
            orders.push((group, order));
        }
        self.ask_facts(orders.iter_mut().map(|(_, order)| order).collect()).await?;
        // The flow may have moved on since it was read, and the difference with it.
        let rules = self.channel.rules;
        let differing = |order: &Order| order.local.is_some() && !findings(order, &rules).is_empty();
        let numbers: Vec<TradeOrderNo> = orders
            .iter()
            .filter(|(_, order)| differing(order))
            .filter_map(|(_, order)| order.local.as_ref().map(|flow| flow.trade_order_no.clone()))
            .collect();
        let mut now = self.look_up(numbers.into_iter()).await?;
        let mut moved = Vec::new();
        for (group, order) in &mut orders {
            let Some(flow) = now.remove(group.order_no.as_str()) else { continue };
            if order.local.as_ref().is_some_and(|read| read.version != flow.version) {
                *order = self.order(group, Some(flow));
                moved.push(order);
            }
        }
        self.ask_facts(moved).await?;
        Ok(orders)
    }

    /// The flows with these numbers, by number.
    pub(super) async fn look_up(
        &self,
        numbers: impl Iterator<Item = TradeOrderNo>,
    ) -> Result<HashMap<String, ReconFlow>, RunError> {
        let numbers: Vec<TradeOrderNo> = numbers.collect();
        if numbers.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.runner.store.flows_by_number(&numbers).await?;
        let mine = found.into_iter().filter(|flow| flow.wallet == self.channel.wallet);
        Ok(mine.map(|flow| (flow.trade_order_no.to_string(), flow)).collect())
    }

    async fn ask_facts(&mut self, mut orders: Vec<&mut Order>) -> Result<(), RunError> {
        let flows: Vec<&ReconFlow> = orders.iter().filter_map(|order| order.local.as_ref()).collect();
        let mut facts = self.facts(&flows).await?;
        for order in &mut orders {
            let fact = order.local.as_ref().and_then(|flow| facts.remove(&flow.id));
            order.fact = fact.unwrap_or(Fact::NotAsked);
        }
        Ok(())
    }

    /// The order of a group, its fact not asked yet.
    pub(super) fn order(&self, group: &Group, local: Option<ReconFlow>) -> Order {
        let waited_from = |kind: EntryKind| {
            let of_ours = |key: &flow_core::ports::CarryKey| key.side == CarrySide::Local && key.kind == kind;
            group.waited_for.iter().find(|waiting| of_ours(&waiting.key)).map(|waiting| waiting.day)
        };
        let due = |kind, is_today: bool| match (is_today, waited_from(kind)) {
            (true, Some(_) | None) => Due::Today,
            (false, Some(day)) => Due::WaitedFrom(day),
            (false, None) => Due::No,
        };
        let paid_at = local.as_ref().and_then(|flow| flow.paid_at);
        let refunded = local.as_ref().filter(|flow| flow.state == State::Refunded);
        let refunded_at = refunded.and_then(|flow| flow.finished_at);
        let is_today = |at: Option<chrono::DateTime<chrono::Utc>>| at.is_some_and(|at| self.day.contains(at));
        Order {
            order_no: group.order_no.clone(),
            day: self.day,
            payment_due: due(EntryKind::Payment, is_today(paid_at)),
            refund_due: due(EntryKind::Refund, is_today(refunded_at)),
            rows: group.rows.iter().cloned().chain(told(group)).collect(),
            rows_left_out: group.rows_left_out,
            fact: Fact::NotAsked,
            local,
        }
    }

    fn count(&mut self, group: &Group, order: &Order, settled: &Settled) {
        let tally = &mut self.tally;
        if group.has_entries() || order.local.is_some() {
            tally.orders += 1;
        }
        if let Some(flow) = &order.local {
            let sums = tally.sums.entry(flow.money.currency().to_string()).or_default();
            let amount = flow.money.amount().unsigned_abs();
            let is_paid = order.payment_due == Due::Today;
            let is_refunded = order.refund_due == Due::Today;
            if is_paid {
                sums.local_paid_minor = sums.local_paid_minor.saturating_add(amount);
            }
            if is_refunded {
                sums.local_refunded_minor = sums.local_refunded_minor.saturating_add(amount);
            }
            tally.local_rows += u64::from(is_paid || is_refunded);
        }
        let found = settled.result.found.iter().chain(&settled.result.carried);
        let mut differs = false;
        for finding in found {
            differs = true;
            *tally.by_kind.entry(finding.kind.as_str().to_owned()).or_default() += 1;
        }
        tally.differing_orders += u64::from(differs);
        tally.waiting_entries += u64::try_from(settled.waiting.len()).unwrap_or(u64::MAX);
        if !differs {
            tally.carried_matches += u64::try_from(group.waited_for.len()).unwrap_or(u64::MAX);
        }
    }
}

impl Group {
    /// Whether anything but a ticket is known about the order on the day.
    pub(super) fn has_entries(&self) -> bool {
        self.local.is_some() || !self.rows.is_empty() || !self.waited_for.is_empty()
    }
}

/// Rows of other days' bills that wait for this day.
fn told(group: &Group) -> impl Iterator<Item = BillRow> {
    let rows = group.waited_for.iter().filter(|waiting| waiting.key.side == CarrySide::Bill);
    rows.filter_map(|waiting| {
        let row = serde_json::from_str::<BillRow>(&waiting.record);
        if let Err(error) = &row {
            tracing::error!(%error, order_no = %waiting.key.order_no, "an entry that waited is not readable");
        }
        row.ok()
    })
}

/// The number of a flow of ours, if it may be one.
pub(super) fn number_of(order_no: &str) -> Option<TradeOrderNo> {
    TradeOrderNo::try_from(order_no.to_owned()).ok()
}
