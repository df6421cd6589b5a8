//! One difference of each kind: bills that are wrong, books that were moved past the service, rows that were written by hand.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::{Value, json};
use sqlx::MySqlConnection;
use xtask::stack::{Audit, SimClient};

use super::rows::{self, AMOUNT, Confirmed, Flow};
use crate::commands::demo::scenes::Story;

/// Kinds by order number.
pub(super) type Differences = BTreeMap<String, BTreeSet<String>>;

/// The first user whose orders are planted; one user for each.
const FIRST_USER: u64 = 201;
const OTHER_USER: u64 = 999;
const TWENTY_MINUTES_S: u64 = 20 * 60;
const A_DAY_S: u64 = 24 * 60 * 60;

/// What the wallet charged for the order.
enum Charge {
    Nothing,
    Right,
    More(i64),
    InPoints,
    OfOtherUser,
    Twice,
}

/// What it paid back.
enum Back {
    Nothing,
    Right,
    Twice,
    AgainstOtherCharge,
}

/// Whom the benefit was handed over for.
enum Benefit {
    Nobody,
    ThisOrder,
    OtherOrder,
    NotReadable,
}

/// An order that differs, as the three sides have it.
struct Case {
    kinds: &'static [&'static str],
    state: &'static str,
    charge: Charge,
    back: Back,
    benefit: Benefit,
    paid_ago_s: u64,
    /// Another transaction than the wallet's.
    reference: Option<&'static str>,
    /// The charge is in no bill.
    is_unbilled: bool,
    /// A second attempt at the target was paid and got the benefit.
    has_second_attempt: bool,
}

/// Three sides that agree.
const SUCCESS: Case = Case {
    kinds: &[],
    state: "BIZ_SUCCESS",
    charge: Charge::Right,
    back: Back::Nothing,
    benefit: Benefit::ThisOrder,
    paid_ago_s: 0,
    reference: None,
    is_unbilled: false,
    has_second_attempt: false,
};
const PAYED: Case = Case { state: "PAYED", benefit: Benefit::Nobody, ..SUCCESS };
const REFUNDED: Case = Case { state: "REFUNDED", back: Back::Right, ..PAYED };
const FAILED: Case = Case { state: "PAY_FAIL", charge: Charge::Nothing, ..PAYED };

/// What is planted by rows and books. The others are planted on payments of the stories, by a bill that is wrong.
const CASES: [Case; 21] = [
    Case { kinds: &["WALLET_PAID_LOCAL_OPEN"], state: "PAYING", ..PAYED },
    Case { kinds: &["WALLET_PAID_LOCAL_PAY_FAIL"], charge: Charge::Right, ..FAILED },
    Case { kinds: &["LOCAL_PAID_WALLET_NOTHING"], charge: Charge::Nothing, ..PAYED },
    Case { kinds: &["WALLET_REFUNDED_LOCAL_REFUNDING"], state: "REFUNDING", ..REFUNDED },
    Case { kinds: &["WALLET_REFUNDED_LOCAL_SUCCESS"], back: Back::Right, ..SUCCESS },
    Case { kinds: &["WALLET_REFUNDED_UNASKED"], back: Back::Right, ..PAYED },
    Case {
        kinds: &["REFUND_WITHOUT_PAYMENT"],
        charge: Charge::Right,
        back: Back::Right,
        is_unbilled: true,
        ..FAILED
    },
    Case { kinds: &["REFUND_ABOVE_PAYMENT"], back: Back::Twice, ..REFUNDED },
    Case { kinds: &["REFUND_OF_ANOTHER_PAYMENT"], back: Back::AgainstOtherCharge, ..REFUNDED },
    Case { kinds: &["CURRENCY_DIFFERS"], charge: Charge::InPoints, ..SUCCESS },
    Case { kinds: &["USER_DIFFERS"], charge: Charge::OfOtherUser, ..SUCCESS },
    Case { kinds: &["REFERENCE_DIFFERS"], reference: Some("some-other-transaction"), ..SUCCESS },
    Case { kinds: &["TIME_GAP"], paid_ago_s: TWENTY_MINUTES_S, ..SUCCESS },
    Case {
        kinds: &["CARRIED_AMOUNT_DIFFERS", "TIME_GAP"],
        charge: Charge::More(100),
        paid_ago_s: A_DAY_S,
        ..SUCCESS
    },
    Case { kinds: &["TWO_CHARGES"], charge: Charge::Twice, ..SUCCESS },
    Case {
        kinds: &["TWO_ATTEMPTS_CHARGED", "WALLET_PAID_LOCAL_PAY_FAIL"],
        charge: Charge::Right,
        has_second_attempt: true,
        ..FAILED
    },
    Case { kinds: &["BENEFIT_WITHOUT_PAYMENT"], benefit: Benefit::ThisOrder, ..FAILED },
    Case { kinds: &["BENEFIT_OWNED_BY_OTHER"], benefit: Benefit::OtherOrder, ..SUCCESS },
    Case { kinds: &["PAYED_BENEFIT_UNATTRIBUTED"], benefit: Benefit::ThisOrder, ..PAYED },
    Case { kinds: &["SUCCESS_WITHOUT_BENEFIT"], benefit: Benefit::Nobody, ..SUCCESS },
    Case { kinds: &["FACT_UNREADABLE"], benefit: Benefit::NotReadable, ..SUCCESS },
];

/// What was planted, and how the bill is made right again.
pub(super) struct Planted {
    pub(super) differences: Differences,
    faults: Vec<Value>,
}

impl Planted {
    /// The order with a kind of difference.
    pub(super) fn order_of(&self, kind: &str) -> anyhow::Result<&str> {
        let found = self.differences.iter().find(|(_, kinds)| kinds.contains(kind));
        found.map(|(order_no, _)| order_no.as_str()).with_context(|| format!("no {kind} was planted"))
    }

    /// The channel corrects what its bill says of one order.
    pub(super) async fn correct_bill(&mut self, sim: &SimClient, order_no: &str) -> anyhow::Result<()> {
        self.faults.retain(|fault| fault["order_no"] != order_no);
        self.differences.remove(order_no);
        sim.clear_bill_faults().await?;
        for fault in &self.faults {
            sim.bill_fault(fault).await?;
        }
        Ok(())
    }

    async fn spoil_bill(&mut self, sim: &SimClient, fault: Value) -> anyhow::Result<()> {
        sim.bill_fault(&fault).await?;
        self.faults.push(fault);
        Ok(())
    }

    fn expect(&mut self, order_no: &str, kinds: &[&str]) {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        self.differences.insert(order_no.to_owned(), kinds);
    }
}

/// Plants them all.
pub(super) async fn plant_all(
    database: &mut MySqlConnection,
    sim: &SimClient,
    stories: &[Story],
    audit: &Audit,
) -> anyhow::Result<Planted> {
    let mut planted = Planted { differences: Differences::new(), faults: Vec::new() };
    spoil_stories(&mut planted, sim, stories, audit).await?;
    sim.charge("somebody-elses-1", OTHER_USER, AMOUNT, "CNY").await?;
    planted.expect("somebody-elses-1", &["WALLET_PAID_NO_FLOW"]);
    for (case, user_id) in CASES.iter().zip(FIRST_USER..) {
        let order_no = plant(database, sim, case, user_id, &mut planted)
            .await
            .with_context(|| format!("planting {}", case.kinds.join(" with ")))?;
        planted.expect(&order_no, case.kinds);
    }
    Ok(planted)
}

/// What the bill alone has wrong, on payments that the stories made.
async fn spoil_stories(
    planted: &mut Planted,
    sim: &SimClient,
    stories: &[Story],
    audit: &Audit,
) -> anyhow::Result<()> {
    let number = |title: &str| {
        let story = stories.iter().find(|story| story.title == title);
        let flow =
            story.and_then(|story| audit.flows.iter().find(|flow| flow.id.to_string() == story.flow_id));
        flow.map(|flow| flow.trade_order_no.clone()).with_context(|| format!("there is no story {title:?}"))
    };
    let missing = number("plain success")?;
    planted.spoil_bill(sim, json!({ "kind": "missing", "order_no": missing })).await?;
    planted.expect(&missing, &["LOCAL_SUCCESS_WALLET_NOTHING"]);
    let doubled = number("double click")?;
    planted.spoil_bill(sim, json!({ "kind": "doubled", "order_no": doubled })).await?;
    planted.expect(&doubled, &["DUPLICATE_BILL_ROW"]);
    let wrong = number("API killed in a debit")?;
    planted.spoil_bill(sim, json!({ "kind": "wrong_amount", "order_no": wrong, "by": -90 })).await?;
    planted.expect(&wrong, &["AMOUNT_DIFFERS"]);
    let refunded = number("missed deadline, lost refund")?;
    planted.spoil_bill(sim, json!({ "kind": "missing", "order_no": format!("r_{refunded}") })).await?;
    planted.expect(&refunded, &["LOCAL_REFUNDED_WALLET_OPEN"]);
    Ok(())
}

/// Brings one case about; the order that differs.
async fn plant(
    database: &mut MySqlConnection,
    sim: &SimClient,
    case: &Case,
    user_id: u64,
    planted: &mut Planted,
) -> anyhow::Result<String> {
    let flow = rows::create(database, user_id, "recon", 1).await?;
    let pay_txn = charge(sim, &case.charge, &flow).await?;
    let refund_txn = pay_back(database, sim, &case.back, &flow).await?;
    hand_over(sim, &case.benefit, &flow).await?;
    if case.is_unbilled {
        planted.spoil_bill(sim, json!({ "kind": "missing", "order_no": flow.trade_order_no })).await?;
    }
    let pay_txn = case.reference.map(str::to_owned).or(pay_txn);
    let confirmed = Confirmed { pay_txn, refund_txn, paid_ago_s: case.paid_ago_s };
    rows::walk(database, &flow, case.state, &confirmed).await?;
    if case.has_second_attempt {
        paid_and_delivered(database, sim, user_id, "recon", 2).await?;
    }
    Ok(flow.trade_order_no)
}

async fn charge(sim: &SimClient, charge: &Charge, flow: &Flow) -> anyhow::Result<Option<String>> {
    let (number, user_id) = (&flow.trade_order_no, flow.user_id);
    Ok(match charge {
        Charge::Nothing => None,
        Charge::Right => Some(sim.charge(number, user_id, AMOUNT, "CNY").await?),
        Charge::More(by) => Some(sim.charge(number, user_id, AMOUNT + by, "CNY").await?),
        Charge::InPoints => Some(sim.charge(number, user_id, AMOUNT, "POINTS").await?),
        Charge::OfOtherUser => Some(sim.charge(number, OTHER_USER, AMOUNT, "CNY").await?),
        Charge::Twice => {
            sim.mutants(json!({ "double_charge": true })).await?;
            let first = sim.charge(number, user_id, AMOUNT, "CNY").await?;
            sim.charge(number, user_id, AMOUNT, "CNY").await?;
            sim.mutants(json!({})).await?;
            Some(first)
        }
    })
}

async fn pay_back(
    database: &mut MySqlConnection,
    sim: &SimClient,
    back: &Back,
    flow: &Flow,
) -> anyhow::Result<Option<String>> {
    let (refund, number, user_id) = (&flow.refund_order_no, &flow.trade_order_no, flow.user_id);
    Ok(match back {
        Back::Nothing => None,
        Back::Right => Some(sim.pay_back(refund, number, user_id, AMOUNT).await?),
        Back::Twice => {
            sim.mutants(json!({ "double_refund": true })).await?;
            let first = sim.pay_back(refund, number, user_id, AMOUNT).await?;
            sim.pay_back(refund, number, user_id, AMOUNT).await?;
            sim.mutants(json!({})).await?;
            Some(first)
        }
        Back::AgainstOtherCharge => {
            let other = paid_and_delivered(database, sim, user_id, "recon-other", 1).await?;
            Some(sim.pay_back(refund, &other.trade_order_no, user_id, AMOUNT).await?)
        }
    })
}

async fn hand_over(sim: &SimClient, benefit: &Benefit, flow: &Flow) -> anyhow::Result<()> {
    let owner = match benefit {
        Benefit::Nobody => return Ok(()),
        Benefit::OtherOrder => "somebody-elses-2",
        Benefit::ThisOrder | Benefit::NotReadable => &flow.trade_order_no,
    };
    sim.hand_over(owner, flow.user_id, &flow.biz_key).await?;
    if matches!(benefit, Benefit::NotReadable) {
        let fault = json!({ "kind": "status", "status": 500 });
        sim.fault(json!({ "calls": ["fact"], "user_id": flow.user_id.to_string(), "fault": fault })).await?;
    }
    Ok(())
}

/// A payment that all three sides have alike.
async fn paid_and_delivered(
    database: &mut MySqlConnection,
    sim: &SimClient,
    user_id: u64,
    biz_key: &str,
    attempt_no: u32,
) -> anyhow::Result<Flow> {
    let flow = rows::create(database, user_id, biz_key, attempt_no).await?;
    let pay_txn = charge(sim, &SUCCESS.charge, &flow).await?;
    hand_over(sim, &SUCCESS.benefit, &flow).await?;
    rows::walk(database, &flow, SUCCESS.state, &Confirmed { pay_txn, ..Confirmed::default() }).await?;
    Ok(flow)
}
