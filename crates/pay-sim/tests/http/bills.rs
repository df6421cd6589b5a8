//! Bills as the simulator serves them, read back by the product's own readers: right, and wrong on request.

use chrono::{Days, NaiveDate};
use chrono_tz::Tz;
use flow_bills::{
    Amounts, BillEntry, BillError, BillFormat, BillRules, BillSink, BillSummary, Columns, EntryKind,
    GenericCsv, KindRule, QuarantinedRow, RefundSign, SinkError, StripeItemised, Trailer, WechatTrade,
    read_bill,
};
use pay_sim::sim::now_ms;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::rig::Rig;

#[derive(Debug, Default)]
struct Kept(Vec<BillEntry>);

impl BillSink for Kept {
    fn entry(&mut self, entry: BillEntry) -> Result<(), SinkError> {
        self.0.push(entry);
        Ok(())
    }

    /// They are counted, and a bill that should be clean is asked for its count.
    fn quarantined(&mut self, _row: QuarantinedRow) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A zone in which it is noon now, so that no test runs past midnight.
fn noon() -> (Tz, NaiveDate) {
    let hours = now_ms() / 3_600_000;
    let ahead = 12 - hours % 24;
    // The names count westwards.
    let name = if ahead < 0 { format!("Etc/GMT+{}", -ahead) } else { format!("Etc/GMT-{ahead}") };
    let zone: Tz = name.parse().unwrap();
    let now = chrono::DateTime::from_timestamp_millis(now_ms()).unwrap();
    (zone, now.with_timezone(&zone).date_naive())
}

const FORMATS: [&str; 5] = ["ledger-csv", "generic-csv", "wechat-trade", "alipay-detail", "stripe-itemised"];

fn format_of(name: &str) -> BillFormat {
    match name {
        "ledger-csv" => BillFormat::LedgerCsv,
        "wechat-trade" => {
            BillFormat::WechatTrade(WechatTrade { user_column: Some("商户数据包".to_owned()) })
        }
        "alipay-detail" => BillFormat::AlipayDetail,
        "stripe-itemised" => BillFormat::StripeItemised(StripeItemised {
            trade_order_column: "payment_metadata[trade_order_no]".to_owned(),
            refund_order_column: Some("refund_metadata[refund_order_no]".to_owned()),
            user_column: Some("payment_metadata[user_id]".to_owned()),
        }),
        _ => BillFormat::GenericCsv(Box::new(bank())),
    }
}

fn bank() -> GenericCsv {
    GenericCsv {
        encoding: "utf-8".to_owned(),
        delimiter: ';',
        quoting: false,
        skip_lines: 0,
        comment: None,
        strip: String::new(),
        columns: Columns {
            order_no: "order_no".to_owned(),
            refund_order_no: Some("refund_order_no".to_owned()),
            amount: "amount".to_owned(),
            refund_amount: None,
            at: "booked_at".to_owned(),
            at_time: None,
            currency: Some("currency".to_owned()),
            user: Some("user_id".to_owned()),
            channel_ref: Some("reference".to_owned()),
        },
        currency: None,
        kind: KindRule::Column {
            name: "kind".to_owned(),
            payment: vec!["PAY".to_owned()],
            refund: vec!["REFUND".to_owned()],
            ignore: Vec::new(),
        },
        amounts: Amounts { refund_sign: RefundSign::Negative, ..Amounts::default() },
        time_format: "%Y-%m-%d %H:%M:%S".to_owned(),
        filters: Vec::new(),
        proof: None,
        trailer: Some(Trailer { starts_with: "TOTAL".to_owned(), rows_cell: Some(2), amount_cell: Some(3) }),
        ends_with_line_end: true,
    }
}

type Told = Vec<(EntryKind, String, u64)>;

fn told(kept: &Kept) -> Told {
    let mut told: Told =
        kept.0.iter().map(|entry| (entry.kind, entry.order_no.clone(), entry.amount_minor)).collect();
    told.sort();
    told
}

struct Bills {
    rig: Rig,
    zone: Tz,
    today: NaiveDate,
}

/// The zone as a query spells it.
fn spelled(zone: Tz) -> String {
    zone.name().replace('+', "%2B")
}

impl Bills {
    /// Two charges, and the first given back.
    async fn start() -> Self {
        let (zone, today) = noon();
        let rig = Rig::start().await;
        for number in ["a", "b"] {
            assert_eq!(rig.client.debit(number).await.unwrap().1["status"], "SUCCESS");
        }
        assert_eq!(rig.client.refund("a").await.unwrap().1["status"], "SUCCESS");
        Self { rig, zone, today }
    }

    async fn fault(&self, fault: serde_json::Value) {
        let (status, body) = self.rig.client.post("/bills/faults", &fault).await.unwrap();
        assert_eq!(status, StatusCode::NO_CONTENT, "{fault}: {body}");
    }

    async fn clear(&self) {
        let cleared = self.rig.client.send(Method::DELETE, "/bills/faults", None).await.unwrap();
        assert_eq!(cleared.status(), StatusCode::NO_CONTENT);
    }

    async fn read(&self, day: NaiveDate, format: &str, pack: &str) -> (Result<BillSummary, BillError>, Kept) {
        let path = format!("/bills/{day}?format={format}&pack={pack}&zone={}", spelled(self.zone));
        let response = self.rig.client.send(Method::GET, &path, None).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let sha1 = response.headers()["x-bill-sha1"].to_str().unwrap().to_owned();
        let bytes = response.bytes().await.unwrap();
        let exponents = [("CNY", 2), ("JPY", 0)].map(|(name, exponent)| (name.to_owned(), exponent));
        let mut rules = BillRules::new(self.zone, exponents);
        rules.day = Some(day);
        let vouched: Vec<u8> =
            (0..20).map(|place| u8::from_str_radix(&sha1[2 * place..2 * place + 2], 16).unwrap()).collect();
        rules.expected.sha1_uncompressed = vouched.try_into().ok();
        let mut kept = Kept::default();
        let verdict = read_bill(&format_of(format), &rules, &bytes[..], &mut kept);
        (verdict, kept)
    }

    async fn told(&self, day: NaiveDate, format: &str) -> Told {
        let (verdict, kept) = self.read(day, format, "none").await;
        assert!(verdict.as_ref().is_ok_and(BillSummary::is_clean), "{format}: {verdict:?}");
        told(&kept)
    }
}

fn payment(order_no: &str, amount: u64) -> (EntryKind, String, u64) {
    (EntryKind::Payment, order_no.to_owned(), amount)
}

fn refund(order_no: &str, amount: u64) -> (EntryKind, String, u64) {
    (EntryKind::Refund, order_no.to_owned(), amount)
}

#[tokio::test]
async fn every_format_tells_the_same_day() {
    let bills = Bills::start().await;
    for format in FORMATS {
        for pack in ["none", "gz", "zip"] {
            let (verdict, kept) = bills.read(bills.today, format, pack).await;
            let summary = verdict.unwrap_or_else(|error| panic!("{format} {pack}: {error}"));
            assert!(summary.is_clean(), "{format} {pack}: {summary:?}");
            assert_eq!(
                told(&kept),
                [payment("a", 100), payment("b", 100), refund("r_a", 100)],
                "{format} {pack}"
            );
            for entry in &kept.0 {
                let apart_ms = (entry.at.timestamp_millis() - now_ms()).abs();
                assert!(apart_ms < 60_000, "{format}: {entry:?}");
                assert!(entry.channel_ref.as_deref().is_some_and(|number| number.starts_with("wtx-")));
                let is_told = format != "alipay-detail";
                assert_eq!(entry.user.as_deref(), is_told.then_some("7"), "{format}: {entry:?}");
                let of_refund = (entry.kind == EntryKind::Refund).then_some("a");
                assert_eq!(entry.trade_order_no.as_deref(), of_refund, "{format}: {entry:?}");
            }
        }
        for empty in [bills.today.pred_opt().unwrap(), bills.today.succ_opt().unwrap()] {
            assert_eq!(bills.told(empty, format).await, [], "{format}");
        }
    }
}

#[tokio::test]
async fn a_wrong_channel_is_wrong_in_every_format_and_still_whole() {
    let bills = Bills::start().await;
    let tomorrow = bills.today.checked_add_days(Days::new(1)).unwrap();
    let whole = [payment("a", 100), payment("b", 100), refund("r_a", 100)];
    let without = [payment("a", 100), refund("r_a", 100)];
    for (fault, today, next) in [
        (json!({"kind": "missing", "order_no": "b"}), without.to_vec(), vec![]),
        (json!({"kind": "doubled", "order_no": "b"}), [&whole[..2], &whole[1..]].concat(), vec![]),
        (
            json!({"kind": "wrong_amount", "order_no": "r_a", "by": -1}),
            vec![payment("a", 100), payment("b", 100), refund("r_a", 99)],
            vec![],
        ),
        (json!({"kind": "shifted", "order_no": "b"}), without.to_vec(), vec![payment("b", 100)]),
        (json!({"kind": "late", "order_no": "b"}), without.to_vec(), vec![payment("b", 100)]),
    ] {
        bills.fault(fault.clone()).await;
        for format in FORMATS {
            assert_eq!(bills.told(bills.today, format).await, today, "{format} {fault}");
            assert_eq!(bills.told(tomorrow, format).await, next, "{format} {fault}");
        }
        bills.clear().await;
    }
    bills.fault(json!({"kind": "late", "order_no": "b"})).await;
    let late = bills.read(tomorrow, "ledger-csv", "none").await.1.0;
    assert_eq!(late[0].at.with_timezone(&bills.zone).date_naive(), bills.today, "late, and says when it was");
    bills.clear().await;
    bills.fault(json!({"kind": "shifted", "order_no": "b"})).await;
    let shifted = bills.read(tomorrow, "ledger-csv", "none").await.1.0;
    assert_eq!(shifted[0].at.with_timezone(&bills.zone).date_naive(), tomorrow);
    bills.clear().await;
    for format in FORMATS {
        assert_eq!(bills.told(bills.today, format).await, whole, "{format}");
    }
}

#[tokio::test]
async fn a_row_may_say_something_else_and_rows_of_nothing_be_added() {
    let bills = Bills::start().await;
    bills
        .fault(json!({"kind": "altered", "order_no": "b", "currency": "JPY", "user_id": 9, "later_ms": 1000}))
        .await;
    bills.fault(json!({"kind": "altered", "order_no": "a", "transaction_id": "wtx-other"})).await;
    let added = json!({"trade_order_no": "c", "user_id": 7, "money": {"amount": 5, "currency": "CNY"},
        "transaction_id": "wtx-c", "at_ms": now_ms()});
    bills.fault(json!({"kind": "added", "row": added})).await;
    let before = bills.read(bills.today.pred_opt().unwrap(), "ledger-csv", "none").await.1.0;
    assert!(before.is_empty(), "it happened today: {before:?}");
    let rows = bills.read(bills.today, "ledger-csv", "none").await.1.0;
    let of = |number: &str| rows.iter().find(|row| row.order_no == number).unwrap();
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert_eq!((of("b").currency.as_str(), of("b").user.as_deref()), ("JPY", Some("9")));
    assert_eq!((of("a").channel_ref.as_deref(), of("a").currency.as_str()), (Some("wtx-other"), "CNY"));
    assert_eq!((of("c").amount_minor, of("c").channel_ref.as_deref()), (5, Some("wtx-c")));
    bills.clear().await;
    assert_eq!(bills.told(bills.today, "ledger-csv").await.len(), 3);
}

#[tokio::test]
async fn what_is_cut_or_summed_up_wrongly_is_refused() {
    let bills = Bills::start().await;
    bills.fault(json!({"kind": "truncated"})).await;
    for format in FORMATS {
        for pack in ["none", "gz", "zip"] {
            let (verdict, _) = bills.read(bills.today, format, pack).await;
            let code = verdict.as_ref().map_err(BillError::code);
            // Cut inside of a row without a trailer, only the digest tells.
            let expected = ["TRUNCATED", "CORRUPT", "DIGEST_MISMATCH"];
            assert!(code.is_err_and(|code| expected.contains(&code)), "{format} {pack}: {verdict:?}");
        }
    }
    bills.clear().await;
    bills.fault(json!({"kind": "wrong_total"})).await;
    for format in FORMATS {
        let (verdict, kept) = bills.read(bills.today, format, "none").await;
        if format == "stripe-itemised" {
            assert_eq!(told(&kept).len(), 3, "a report without totals");
            assert!(verdict.is_ok());
        } else {
            assert!(matches!(&verdict, Err(BillError::CountMismatch { .. })), "{format}: {verdict:?}");
        }
    }
}

#[tokio::test]
async fn what_can_not_be_served_is_refused_with_the_reason() {
    let bills = Bills::start().await;
    let get = async |path: String| {
        let response = bills.rig.client.send(Method::GET, &path, None).await.unwrap();
        (response.status(), response.text().await.unwrap())
    };
    let today = bills.today;
    for path in [
        "/bills/yesterday".to_owned(),
        "/bills/2026-02-30".to_owned(),
        format!("/bills/{today}?format=xlsx"),
        format!("/bills/{today}?zone=Mars/Base"),
        format!("/bills/{today}?packed=gz"),
    ] {
        assert_eq!(get(path.clone()).await.0, StatusCode::BAD_REQUEST, "{path}");
    }
    let yen = json!({"trade_order_no": "yen", "user_id": "7", "money": {"amount": 500, "currency": "JPY"}});
    assert_eq!(bills.rig.client.post("/wallet/v1/debits", &yen).await.unwrap().1["status"], "SUCCESS");
    for format in ["wechat-trade", "alipay-detail"] {
        let path = format!("/bills/{today}?format={format}&zone={}", spelled(bills.zone));
        let (status, body) = get(path).await;
        assert!(status == StatusCode::UNPROCESSABLE_ENTITY && body.contains("JPY"), "{status} {body}");
    }
    for format in ["ledger-csv", "generic-csv", "stripe-itemised"] {
        assert!(bills.told(today, format).await.contains(&payment("yen", 500)), "{format}");
    }
    let bad = bills.rig.client.post("/bills/faults", &json!({"kind": "missing"})).await.unwrap();
    assert_eq!(bad.0, StatusCode::BAD_REQUEST);
    bills.fault(json!({"kind": "truncated"})).await;
    assert_eq!(
        bills.rig.client.get("/bills/faults").await.unwrap().1,
        json!({"faults": [{"kind": "truncated"}]})
    );
    bills.rig.client.send(Method::POST, "/reset", None).await.unwrap();
    assert_eq!(bills.rig.client.get("/bills/faults").await.unwrap().1, json!({"faults": []}));
}
