//! Compares two files without a database: what the sort, the merge and the comparison alone take. For measuring beside other
//! tools: `two_files make N FOLDER`, then `two_files compare FOLDER`.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on stops there")]

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use chrono_tz::Tz;
use flow_bills::{
    BillEntry, BillFormat, BillRules, BillSink, GenericCsv, QuarantinedRow, SinkError, read_bill,
};
use flow_core::ids::{
    AttemptNo, BizKey, DownstreamName, DownstreamRef, FlowId, OrderRef, RefundOrderNo, Scene, Target,
    TradeOrderNo, UserId, Version,
};
use flow_core::money::{Currency, Money};
use flow_core::ports::{Clock as _, ReconFlow, SystemClock};
use flow_core::recon::Day;
use flow_core::state::State;
use pay_recon::finding::findings;
use pay_recon::group::Groups;
use pay_recon::order::{BillRow, Due, Fact, Order, Rules};
use pay_recon::record::{Record, encode, group_of, key_of};
use pay_recon::sort::{Merge, SortOptions, Sorter};

/// As a run has them.
const BUFFER_BYTES: usize = 64 * 1024 * 1024;
const LANES: usize = 2;

const USAGE: &str = "two_files make N FOLDER | two_files compare FOLDER";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", rows, folder] => make(rows.parse().unwrap(), Path::new(folder)),
        ["compare", folder] => compare(Path::new(folder)),
        _ => panic!("{USAGE}"),
    }
}

fn day() -> Day {
    let from: DateTime<Utc> = "2026-01-02T00:00:00Z".parse().unwrap();
    Day { date: NaiveDate::from_ymd_opt(2026, 1, 2).unwrap(), from, until: from + TimeDelta::days(1) }
}

/// Every number from 1 to `rows` once, in an order that looks like none.
fn shuffled(rows: u64, factor: u64) -> impl Iterator<Item = u64> {
    let step = (factor % rows).max(1);
    let step = (step..).find(|step| gcd(*step, rows) == 1).unwrap();
    (0..rows).scan(0, move |at, _| {
        *at = (*at + step) % rows;
        Some(*at + 1)
    })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// One row in ten thousand differs in its amount, one is missing on either side.
fn make(rows: u64, folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let number = |id: u64| {
        let id = i64::try_from(id).unwrap();
        TradeOrderNo::derive(UserId::new(1_000 + id % 50_000).unwrap(), FlowId::new(id).unwrap())
    };
    let at = |id: u64| {
        (day().from + TimeDelta::milliseconds(i64::try_from(id % 86_000_000).unwrap())).format("%F %T")
    };
    let mut bill = BufWriter::new(File::create(folder.join("bill.csv")).unwrap());
    writeln!(bill, "no,amount,currency,user,ref,at").unwrap();
    for id in shuffled(rows, 2_654_435_761).filter(|id| id % 10_000 != 1) {
        let amount = 100 + id % 9_000 + u64::from(id % 10_000 == 2);
        writeln!(bill, "{},{amount},CNY,{},txn-{id},{}", number(id), 1_000 + id % 50_000, at(id)).unwrap();
    }
    let mut flows = BufWriter::new(File::create(folder.join("flows.csv")).unwrap());
    // Our side comes from a database, which gives times as numbers.
    writeln!(flows, "no,amount,currency,user,ref,at").unwrap();
    for id in shuffled(rows, 40_503_131).filter(|id| id % 10_000 != 3) {
        let amount = 100 + id % 9_000;
        let at = day().from.timestamp() + i64::try_from(id % 86_000_000 / 1_000).unwrap();
        writeln!(flows, "{},{amount},CNY,{},txn-{id},{at}", number(id), 1_000 + id % 50_000).unwrap();
    }
}

struct Into {
    sorter: Sorter,
    key: Vec<u8>,
    payload: Vec<u8>,
}

impl Into {
    fn put(&mut self, order_no: &OrderRef, record: &Record) {
        key_of(order_no, record, &mut self.key);
        encode(order_no, record, &mut self.payload);
        self.sorter.push(group_of(order_no), &self.key, &self.payload).unwrap();
    }
}

impl BillSink for Into {
    fn entry(&mut self, entry: BillEntry) -> Result<(), SinkError> {
        let (order_no, row) = BillRow::of(entry).map_err(SinkError::new)?;
        self.put(&order_no, &Record::Bill(row));
        Ok(())
    }

    fn quarantined(&mut self, row: QuarantinedRow) -> Result<(), SinkError> {
        panic!("line {} of a file of our own: {}", row.line, row.reason)
    }
}

fn layout() -> BillFormat {
    let generic: GenericCsv = serde_json::from_value(serde_json::json!({
        "columns": {
            "order_no": "no", "amount": "amount", "currency": "currency", "user": "user", "channel_ref": "ref", "at": "at",
        },
        "kind": { "only": "payment" },
        "amounts": { "minor": true },
    }))
    .unwrap();
    BillFormat::GenericCsv(Box::new(generic))
}

fn flow(line: &str, shared: &(Scene, DownstreamName, Currency)) -> ReconFlow {
    let mut cells = line.split(',');
    let mut cell = || cells.next().unwrap();
    let trade_order_no = TradeOrderNo::try_from(cell().to_owned()).unwrap();
    let (user_id, id) = trade_order_no.parts().unwrap();
    let amount = cell().parse().unwrap();
    let _currency = cell();
    let _user = cell();
    let transaction = DownstreamRef::new(cell()).unwrap();
    let at = DateTime::from_timestamp_secs(cell().parse().unwrap()).unwrap();
    let (scene, wallet, currency) = shared.clone();
    ReconFlow {
        id,
        target: Target { user_id, scene, biz_key: BizKey::new(format!("R:{id}")).unwrap() },
        attempt_no: AttemptNo::FIRST,
        refund_order_no: RefundOrderNo::derive(&trade_order_no),
        trade_order_no,
        state: State::BizSuccess,
        version: Version(3),
        money: Money::new(amount, currency).unwrap(),
        business: wallet.clone(),
        wallet,
        wallet_pay_txn: Some(transaction),
        wallet_refund_txn: None,
        refund_amount: None,
        paid_at: Some(at),
        finished_at: Some(at),
        is_held: false,
    }
}

fn compare(folder: &Path) {
    let started_ms = SystemClock.monotonic_ms();
    let passed = || SystemClock.monotonic_ms() - started_ms;
    // As a run does: both sides are read side by side, each into half of the buffer, and merged by lanes.
    let (bill, flows) = std::thread::scope(|scope| {
        let bill = scope.spawn(|| read_whole_bill(folder));
        let flows = scope.spawn(|| read_flows(folder));
        (bill.join().unwrap(), flows.join().unwrap())
    });
    let rows = [bill.sorter.records(), flows.sorter.records()];
    let mut sorter = bill.sorter;
    sorter.join(flows.sorter).unwrap();
    let spilled_mb = sorter.spilled_bytes() / 1_000_000;
    let read_ms = passed();
    let lanes = sorter.finish().unwrap();
    let compared: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let lanes: Vec<_> = lanes.into_iter().map(|lane| scope.spawn(|| compare_lane(lane))).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
    });
    let differing: u64 = compared.iter().map(|(differing, _)| differing).sum();
    let orders: u64 = compared.iter().map(|(_, orders)| orders).sum();
    let all_ms = passed();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak_kb =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")).unwrap();
    let peak_mb = peak_kb.parse::<u64>().unwrap() / 1_024;
    let report = serde_json::json!({
        "bill_rows": rows[0], "flows": rows[1], "orders": orders, "differing": differing, "read_ms": read_ms,
        "compare_ms": all_ms - read_ms, "all_ms": all_ms, "spilled_mb": spilled_mb, "peak_mb": peak_mb,
    });
    println!("{report}");
}

fn into(folder: &Path) -> Into {
    let options = SortOptions { folder: folder.to_owned(), buffer_bytes: BUFFER_BYTES / 2, lanes: LANES };
    Into { sorter: Sorter::new(options), key: Vec::new(), payload: Vec::new() }
}

fn read_whole_bill(folder: &Path) -> Into {
    let mut into = into(folder);
    let rules = BillRules::new(Tz::UTC, [("CNY".to_owned(), 2)]);
    let file = File::open(folder.join("bill.csv")).unwrap();
    read_bill(&layout(), &rules, file, &mut into).unwrap();
    into
}

fn read_flows(folder: &Path) -> Into {
    let mut into = into(folder);
    let shared =
        (Scene::new("renew").unwrap(), DownstreamName::new("main").unwrap(), Currency::new("CNY").unwrap());
    let mut file = BufReader::with_capacity(1 << 20, File::open(folder.join("flows.csv")).unwrap());
    let mut line = String::new();
    file.read_line(&mut line).unwrap();
    loop {
        line.clear();
        if file.read_line(&mut line).unwrap() == 0 {
            return into;
        }
        let flow = flow(line.trim_end(), &shared);
        into.put(&OrderRef::new(flow.trade_order_no.as_str()).unwrap(), &Record::Local(Box::new(flow)));
    }
}

fn compare_lane(merge: Merge) -> (u64, u64) {
    let rules = Rules { time_gap_limit_ms: 600_000, compares_users: true, compares_references: true };
    let (day, mut groups) = (day(), Groups::over(merge));
    let (mut differing, mut orders) = (0, 0);
    while let Some(group) = groups.next_group().unwrap() {
        let payment_due = if group.local.is_some() { Due::Today } else { Due::No };
        let order = Order {
            order_no: group.order_no,
            day,
            local: group.local,
            payment_due,
            refund_due: Due::No,
            rows: group.rows,
            rows_left_out: group.rows_left_out,
            fact: Fact::NotAsked,
        };
        orders += 1;
        differing += u64::from(!findings(&order, &rules).is_empty());
    }
    (differing, orders)
}
