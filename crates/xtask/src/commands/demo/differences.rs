//! One difference of every kind, as each comes about: a bill that is wrong, a payment that stands still, a business record
//! that nobody can explain. Made over HTTP alone, by the simulator's faults and the API.

use anyhow::Context as _;
use serde_json::{Value, json};
use xtask::stack::{ApiClient, Keys, Payment, SimClient, Stack, utc_now};

use super::{STORY_END, eventually};

/// An order, and the kinds that its ticket must name.
pub(super) struct Planted {
    pub(super) order_no: String,
    pub(super) kinds: &'static [&'static str],
}

/// A payment that succeeded, and what its bill says of it.
struct InTheBill {
    user: u64,
    kind: &'static [&'static str],
    fault: fn(&Order) -> Value,
}

/// An order that was made here.
struct Order {
    number: String,
    flow_id: String,
    user: u64,
}

impl Order {
    /// A row of a bill about it: what never happened.
    fn row(&self, refund: bool, transaction: &str) -> Value {
        let refund_order_no = refund.then(|| format!("r_{}", self.number));
        json!({ "kind": "added", "row": {
            "trade_order_no": self.number, "refund_order_no": refund_order_no, "user_id": self.user,
            "money": { "amount": 1_990, "currency": "CNY" }, "transaction_id": transaction,
            "at_ms": utc_now().timestamp_millis(),
        }})
    }

    fn altered(&self, how: &str, to: impl Into<Value>) -> Value {
        json!({ "kind": "altered", "order_no": self.number, how: to.into() })
    }
}

const IN_THE_BILL: [InTheBill; 9] = [
    InTheBill {
        user: 201,
        kind: &["LOCAL_SUCCESS_WALLET_NOTHING"],
        fault: |order| json!({ "kind": "missing", "order_no": order.number }),
    },
    InTheBill {
        user: 202,
        kind: &["AMOUNT_DIFFERS"],
        fault: |order| json!({ "kind": "wrong_amount", "order_no": order.number, "by": -90 }),
    },
    InTheBill { user: 203, kind: &["CURRENCY_DIFFERS"], fault: |order| order.altered("currency", "USD") },
    InTheBill { user: 204, kind: &["USER_DIFFERS"], fault: |order| order.altered("user_id", 999) },
    InTheBill {
        user: 205,
        kind: &["DUPLICATE_BILL_ROW"],
        fault: |order| json!({ "kind": "doubled", "order_no": order.number }),
    },
    InTheBill { user: 206, kind: &["TWO_CHARGES"], fault: |order| order.row(false, "txn-second") },
    InTheBill {
        user: 207,
        kind: &["WALLET_REFUNDED_LOCAL_SUCCESS"],
        fault: |order| order.row(true, "txn-back"),
    },
    InTheBill { user: 208, kind: &["TIME_GAP"], fault: |order| order.altered("later_ms", 660_000) },
    InTheBill {
        user: 209,
        kind: &["REFERENCE_DIFFERS"],
        fault: |order| order.altered("transaction_id", "txn-elsewhere"),
    },
];

/// Makes them all; what must be found, in the order in which they were made.
pub(super) async fn plant(stack: &Stack) -> anyhow::Result<Vec<Planted>> {
    let plants = Plants { api: stack.api(0), sim: stack.sim() };
    let mut planted = Vec::new();
    for wrong in IN_THE_BILL {
        let order = plants.ended(wrong.user, "BIZ_SUCCESS").await?;
        plants.sim.bill_fault(&(wrong.fault)(&order)).await?;
        planted.push(Planted { order_no: order.number, kinds: wrong.kind });
    }
    planted.extend(plants.never_charged_here().await?);
    planted.extend(plants.paid_back().await?);
    planted.extend(plants.standing_still().await?);
    planted.extend(plants.in_the_business().await?);
    Ok(planted)
}

struct Plants {
    api: ApiClient,
    sim: SimClient,
}

impl Plants {
    async fn pays(&self, payment: &Payment) -> anyhow::Result<Order> {
        let key = format!("recon-{}", payment.user_id);
        let reply = self.api.pay(&key, &payment.body(), Some(1)).await?;
        anyhow::ensure!(!reply.flow_id().is_empty(), "no flow: {}", reply.body);
        let flow = self.api.get(&format!("/payment-flows/{}", reply.flow_id())).await?;
        let number = flow.text("trade_order_no").to_owned();
        Ok(Order { number, flow_id: reply.flow_id().to_owned(), user: payment.user_id })
    }

    async fn ended(&self, user: u64, state: &str) -> anyhow::Result<Order> {
        let order = self.pays(&Payment::new(user, format!("R:{user}:1"))).await?;
        self.is_in(&order, state).await?;
        Ok(order)
    }

    async fn is_in(&self, order: &Order, state: &str) -> anyhow::Result<()> {
        eventually(&format!("flow {} to be {state}", order.flow_id), || async {
            let flow = self.api.get(&format!("/payment-flows/{}", order.flow_id)).await?;
            Ok((flow.text("state") == state).then_some(()))
        })
        .await
    }

    /// Every such call about the user fails like this from now on.
    async fn fails(&self, user: u64, calls: &[&str], fault: Value) -> anyhow::Result<u64> {
        self.sim.fault(json!({ "calls": calls, "user_id": user.to_string(), "fault": fault })).await
    }

    /// The wallet has charges and refunds that our records do not know.
    async fn never_charged_here(&self) -> anyhow::Result<Vec<Planted>> {
        let foreign = Order { number: "foreign-1".to_owned(), flow_id: String::new(), user: 210 };
        self.sim.bill_fault(&foreign.row(false, "txn-foreign")).await?;
        // Attempt 1 of the fourth story failed, attempt 2 has the benefit; now the wallet says that it charged both.
        let on_call = self.api.with_key(Keys::ON_CALL);
        let attempts = on_call.get("/payment-flows?user_id=104").await?;
        let first = attempts.body["flows"]
            .as_array()
            .and_then(|flows| flows.iter().find(|flow| flow["attempt_no"] == 1));
        let number = first
            .and_then(|flow| flow["trade_order_no"].as_str())
            .context("the fourth story left no attempt 1")?;
        let twice = Order { number: number.to_owned(), flow_id: String::new(), user: 104 };
        self.sim.bill_fault(&twice.row(false, "txn-attempt-1")).await?;
        self.sim.balance(211, "CNY", 100).await?;
        let poor = self.ended(211, "PAY_FAIL").await?;
        self.sim.bill_fault(&poor.row(true, "txn-back")).await?;
        self.sim.balance(222, "CNY", 100).await?;
        let both = self.ended(222, "PAY_FAIL").await?;
        self.sim.bill_fault(&both.row(false, "txn-unasked")).await?;
        self.sim.bill_fault(&both.row(true, "txn-unasked-back")).await?;
        Ok(vec![
            Planted { order_no: foreign.number, kinds: &["WALLET_PAID_NO_FLOW"] },
            Planted {
                order_no: twice.number,
                kinds: &["TWO_ATTEMPTS_CHARGED", "WALLET_PAID_LOCAL_PAY_FAIL"],
            },
            Planted { order_no: poor.number, kinds: &["REFUND_WITHOUT_PAYMENT"] },
            Planted {
                order_no: both.number,
                kinds: &["WALLET_REFUNDED_UNASKED", "WALLET_PAID_LOCAL_PAY_FAIL"],
            },
        ])
    }

    /// Refunds that both sides tell differently.
    async fn paid_back(&self) -> anyhow::Result<Vec<Planted>> {
        let mut orders = Vec::new();
        for user in [212, 213, 214, 223] {
            self.fails(user, &["execute"], json!({ "kind": "status", "status": 500 })).await?;
        }
        // The third refund happens, and nobody can hear of it.
        self.sim.fault(json!({ "calls": ["refund"], "user_id": "214", "stage": "after", "times": 1, "fault": { "kind": "drop" } })).await?;
        self.fails(214, &["refund", "query_refund"], json!({ "kind": "status", "status": 500 })).await?;
        for user in [212, 213, 214, 223] {
            let payment = Payment { deadline_in_ms: 1_500, ..Payment::new(user, format!("R:{user}:1")) };
            orders.push(self.pays(&payment).await?);
        }
        let [missing, above, open, astray] = orders.try_into().ok().context("four orders were made")?;
        self.is_in(&missing, "REFUNDED").await?;
        self.is_in(&above, "REFUNDED").await?;
        self.is_in(&astray, "REFUNDED").await?;
        self.is_in(&open, "REFUNDING").await?;
        eventually("the third refund", || async {
            Ok((self.sim.ledger(&open.number).await?.refunds == 1).then_some(()))
        })
        .await?;
        let refund = |order: &Order| format!("r_{}", order.number);
        self.sim.bill_fault(&json!({ "kind": "missing", "order_no": refund(&missing) })).await?;
        self.sim.bill_fault(&json!({ "kind": "wrong_amount", "order_no": refund(&above), "by": 10 })).await?;
        // In place of the refund that happened, the bill has one of another payment, under the same number.
        self.sim.bill_fault(&json!({ "kind": "missing", "order_no": refund(&astray) })).await?;
        let mut elsewhere = astray.row(true, "txn-astray");
        elsewhere["row"]["trade_order_no"] = "another-payment".into();
        self.sim.bill_fault(&elsewhere).await?;
        Ok(vec![
            Planted { order_no: missing.number, kinds: &["LOCAL_REFUNDED_WALLET_OPEN"] },
            Planted { order_no: above.number, kinds: &["REFUND_ABOVE_PAYMENT"] },
            Planted { order_no: astray.number, kinds: &["REFUND_OF_ANOTHER_PAYMENT", "REFERENCE_DIFFERS"] },
            Planted { order_no: open.number, kinds: &["WALLET_REFUNDED_LOCAL_REFUNDING"] },
        ])
    }

    /// Payments that are still under way when the day is compared.
    async fn standing_still(&self) -> anyhow::Result<Vec<Planted>> {
        let error = || json!({ "kind": "status", "status": 500 });
        self.sim.fault(json!({ "calls": ["debit"], "user_id": "215", "stage": "after", "times": 1, "fault": { "kind": "drop" } })).await?;
        self.fails(215, &["debit", "query"], error()).await?;
        let unheard = self.pays(&Payment::new(215, "R:215:1")).await?;
        self.sim.wait_for_calls("debit", &unheard.number, 1, STORY_END).await?;
        self.fails(216, &["execute"], error()).await?;
        let waiting = self.pays(&Payment::new(216, "R:216:1")).await?;
        self.is_in(&waiting, "PAYED").await?;
        self.sim.bill_fault(&json!({ "kind": "missing", "order_no": waiting.number })).await?;
        Ok(vec![
            Planted { order_no: unheard.number, kinds: &["WALLET_PAID_LOCAL_OPEN"] },
            Planted { order_no: waiting.number, kinds: &["LOCAL_PAID_WALLET_NOTHING"] },
        ])
    }

    /// Benefits that do not go with their payments.
    async fn in_the_business(&self) -> anyhow::Result<Vec<Planted>> {
        let error = || json!({ "kind": "status", "status": 500 });
        let nobodys = || json!({ "kind": "contradict", "shape": "done_without_owner" });
        self.sim.balance(217, "CNY", 100).await?;
        let unpaid = self.ended(217, "PAY_FAIL").await?;
        self.granted(&unpaid, &unpaid.number).await?;
        let refuses = self.fails(218, &["execute"], error()).await?;
        let overtaken = self.pays(&Payment::new(218, "R:218:1")).await?;
        self.is_in(&overtaken, "PAYED").await?;
        // Held, so that it is still paid when somebody else has the benefit.
        let held = self
            .api
            .with_key(Keys::OPERATOR)
            .post(&format!("/payment-flows/{}/hold", overtaken.flow_id))
            .await?;
        anyhow::ensure!(held.status == 200, "not held: {}", held.body);
        self.sim.remove_fault(refuses).await?;
        self.granted(&overtaken, "somebody-elses").await?;
        self.fails(219, &["execute"], error()).await?;
        self.fails(219, &["fact"], nobodys()).await?;
        let unexplained = self.pays(&Payment::new(219, "R:219:1")).await?;
        self.is_in(&unexplained, "PAYED").await?;
        let silent = self.ended(220, "BIZ_SUCCESS").await?;
        self.fails(220, &["fact"], error()).await?;
        let undone = self.ended(221, "BIZ_SUCCESS").await?;
        self.fails(221, &["fact"], nobodys()).await?;
        Ok(vec![
            Planted { order_no: unpaid.number, kinds: &["BENEFIT_WITHOUT_PAYMENT"] },
            Planted { order_no: overtaken.number, kinds: &["BENEFIT_OWNED_BY_OTHER"] },
            Planted { order_no: unexplained.number, kinds: &["PAYED_BENEFIT_UNATTRIBUTED"] },
            Planted { order_no: silent.number, kinds: &["FACT_UNREADABLE"] },
            Planted { order_no: undone.number, kinds: &["SUCCESS_WITHOUT_BENEFIT"] },
        ])
    }

    /// The benefit of an order's target, in the name of any number.
    async fn granted(&self, order: &Order, number: &str) -> anyhow::Result<()> {
        let not_after = utc_now() + chrono::TimeDelta::minutes(10);
        self.sim
            .execute(&json!({
                "trade_order_no": number, "user_id": order.user.to_string(), "scene": "renew",
                "biz_key": format!("R:{}:1", order.user),
                "not_after": not_after.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            }))
            .await
    }
}
