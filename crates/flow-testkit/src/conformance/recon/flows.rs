//! Flows, as they are compared.

use chrono::{DateTime, TimeDelta, Utc};
use flow_core::answer::ErrorCode;
use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::decide::Transition;
use flow_core::flow::{Flow, RefundReason, Trigger};
use flow_core::ids::TradeOrderNo;
use flow_core::ports::{CasOutcome, Created, EndedFlowsPage, OpenFlowsPage, ReconFlow};
use flow_core::recon::Day;
use flow_core::state::State;

use super::{ReconBench, ReconFactory, date};
use crate::samples;

async fn created_in(bench: &ReconBench, number: i64, state: State) -> ReconFlow {
    let now = bench.flows.now().await.unwrap();
    let new = samples::new_flow(number, now + TimeDelta::minutes(10));
    let Created::Inserted(seen) = bench.flows.create(new).await.unwrap() else { panic!("{number} is taken") };
    let mut flow = seen.value;
    for transition in path_to(&flow, state) {
        let change = Change::Move { transition, next_in_ms: 1_000 };
        let evidence = WriteEvidence::of(Trigger::Sync);
        let write = CasWrite { flow_id: flow.id, from: flow.state, version: flow.version, change, evidence };
        assert_eq!(bench.flows.cas(write).await.unwrap(), CasOutcome::Applied);
        flow = bench.flows.load(flow.id).await.unwrap().value.unwrap();
    }
    let found = bench.store.flows_by_number(std::slice::from_ref(&flow.trade_order_no)).await.unwrap();
    found.into_iter().next().expect("it is there")
}

fn path_to(flow: &Flow, state: State) -> Vec<Transition> {
    let receipt = samples::receipt_for(flow);
    let enter = Transition::EnterPaying;
    let paid = Transition::ConfirmPayment(receipt.clone());
    let refund = Transition::DecideRefund(RefundReason::DeadlinePassed);
    match state {
        State::WaitPay => vec![],
        State::Paying => vec![enter],
        State::PayFail => {
            vec![enter, Transition::FailPayment(ErrorCode::clean("INSUFFICIENT_FUNDS"))]
        }
        State::Payed => vec![enter, paid],
        State::BizSuccess => vec![enter, paid, Transition::ConfirmBusiness],
        State::Refunding => vec![enter, paid, refund],
        State::Refunded => vec![enter, paid, refund, Transition::ConfirmRefund(receipt)],
    }
}

fn around(now: DateTime<Utc>) -> Day {
    Day { date: date(1), from: now - TimeDelta::minutes(5), until: now + TimeDelta::minutes(5) }
}

async fn ended(bench: &ReconBench, day: Day, page_rows: u32) -> Vec<ReconFlow> {
    let mut page = EndedFlowsPage {
        wallet: samples::wallet_name(),
        day,
        ended_from: day.from,
        after_id: 0,
        ended_until: day.until,
        limit_rows: page_rows,
    };
    let mut all = Vec::new();
    loop {
        let rows = bench.store.ended_flows(&page).await.unwrap();
        let Some(last) = rows.last() else { return all };
        assert!(rows.len() <= usize::try_from(page_rows).unwrap());
        (page.ended_from, page.after_id) = (last.finished_at.unwrap(), last.id.get());
        all.extend(rows);
    }
}

/// What is open is found by its charge; what ended, by either; what did neither, not at all.
pub async fn flows_of_a_day_are_found_by_charge_and_by_end(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let mut flows = Vec::new();
    for (number, state) in (1..).zip(State::ALL) {
        flows.push(created_in(&bench, number, state).await);
    }
    let of = |states: &[State]| {
        let mut wanted: Vec<ReconFlow> =
            flows.iter().filter(|flow| states.contains(&flow.state)).cloned().collect();
        wanted.sort_by_key(|flow| flow.id);
        wanted
    };
    let today = around(bench.flows.now().await.unwrap());
    let page = |day| OpenFlowsPage { wallet: samples::wallet_name(), day, after_id: 0, limit_rows: 100 };
    let open = bench.store.open_flows(&page(today)).await.unwrap();
    assert_eq!(open, of(&[State::Payed, State::Refunding]));
    let mut found = ended(&bench, today, 100).await;
    found.sort_by_key(|flow| flow.id);
    assert_eq!(found, of(&[State::PayFail, State::BizSuccess, State::Refunded]));
    let paid = found.iter().find(|flow| flow.state == State::Refunded).unwrap();
    assert!(paid.paid_at <= paid.finished_at && paid.refund_amount == Some(paid.money.amount()));
    assert!(paid.wallet_pay_txn.is_some() && paid.wallet_refund_txn.is_some() && !paid.is_held);

    let earlier = Day { from: today.from - TimeDelta::days(1), until: today.from, ..today };
    assert_eq!(bench.store.open_flows(&page(earlier)).await.unwrap(), []);
    assert_eq!(ended(&bench, earlier, 100).await, []);
    let elsewhere = OpenFlowsPage { wallet: samples::business_name(), ..page(today) };
    assert_eq!(bench.store.open_flows(&elsewhere).await.unwrap(), []);
    let after = OpenFlowsPage { after_id: open[0].id.get(), ..page(today) };
    assert_eq!(bench.store.open_flows(&after).await.unwrap(), open[1..]);
}

/// Several may end in one moment.
pub async fn ended_flows_come_in_pages_and_none_twice(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    for number in 1..=7 {
        created_in(&bench, number, State::BizSuccess).await;
    }
    let today = around(bench.flows.now().await.unwrap());
    let whole = ended(&bench, today, 100).await;
    assert_eq!(whole.len(), 7);
    for page_rows in [1, 2, 3] {
        assert_eq!(ended(&bench, today, page_rows).await, whole);
    }
}

/// A number without a flow is left out.
pub async fn flows_are_found_by_number_and_by_target(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let first = created_in(&bench, 1, State::PayFail).await;
    let other = created_in(&bench, 2, State::WaitPay).await;
    let unknown = TradeOrderNo::derive(samples::user(9), samples::flow_id(9));
    let numbers = [unknown, other.trade_order_no.clone(), first.trade_order_no.clone()];
    let mut found = bench.store.flows_by_number(&numbers).await.unwrap();
    found.sort_by_key(|flow| flow.id);
    assert_eq!(found, [first.clone(), other.clone()]);
    assert_eq!(bench.store.flows_by_number(&[]).await.unwrap(), []);
    assert_eq!(bench.store.target_flows(&first.target, 10).await.unwrap(), std::slice::from_ref(&first));
    let nobody = samples::target(77, "nothing");
    assert_eq!(bench.store.target_flows(&nobody, 10).await.unwrap(), []);
}
