//! A bill of any size is read in the same memory: a small one first, then one a dozen times as long, by the kernel's own account of the most that
//! this process ever had. One test in a program of its own: nothing else may allocate meanwhile.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "test code")]

use std::io::{Read, Write as _};

use chrono_tz::Tz;
use flate2::Compression;
use flate2::read::GzEncoder;
use flow_bills::{
    BillEntry, BillFormat, BillRules, BillSink, QuarantinedRow, SinkError, WechatTrade, read_bill,
};

/// What the larger bill may cost on top, in KiB: the allocator's own unrest, far from a row each.
const SLACK_KIB: u64 = 1_024;

/// A WeChat bill of so many rows that is made while it is read.
struct Generated {
    rows: u64,
    next: u64,
    ready: Vec<u8>,
    given: usize,
}

impl Generated {
    fn new(rows: u64) -> Self {
        Self { rows, next: 0, ready: Vec::new(), given: 0 }
    }

    fn make(&mut self) {
        self.ready.clear();
        self.given = 0;
        if self.next == 0 {
            writeln!(self.ready, "交易时间,微信订单号,商户订单号,交易状态,货币种类,商品名称,订单金额")
                .unwrap();
        }
        while self.ready.len() < 32 * 1024 && self.next < self.rows {
            self.next += 1;
            writeln!(
                self.ready,
                "`2026-11-29 08:35:41,`42000{0},`h2r_1_{0},`SUCCESS,`CNY,`renewal, {0},`19.90",
                self.next
            )
            .unwrap();
            if self.next == self.rows {
                let cents = 1990 * self.rows;
                let (yuan, rest) = (cents / 100, cents % 100);
                writeln!(self.ready, "总交易单数,订单总金额\n`{},`{yuan}.{rest:02}", self.rows).unwrap();
            }
        }
    }
}

impl Read for Generated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.given == self.ready.len() {
            self.make();
        }
        let read = (&self.ready[self.given..]).read(buffer)?;
        self.given += read;
        Ok(read)
    }
}

/// Lets everything go.
#[derive(Default)]
struct Counted(u64);

impl BillSink for Counted {
    fn entry(&mut self, _entry: BillEntry) -> Result<(), SinkError> {
        self.0 += 1;
        Ok(())
    }

    fn quarantined(&mut self, _row: QuarantinedRow) -> Result<(), SinkError> {
        Ok(())
    }
}

fn read(rows: u64, packed: bool) {
    let rules = BillRules::new(Tz::Asia__Shanghai, [("CNY".to_owned(), 2)]);
    let format = BillFormat::WechatTrade(WechatTrade::default());
    let (bill, mut seen) = (Generated::new(rows), Counted::default());
    let read = if packed {
        read_bill(&format, &rules, GzEncoder::new(bill, Compression::fast()), &mut seen)
    } else {
        read_bill(&format, &rules, bill, &mut seen)
    };
    assert_eq!((read.unwrap().payments, seen.0), (rows, rows));
}

/// The most memory this process ever had resident, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn memory_does_not_grow_with_the_bill() {
    for packed in [false, true] {
        read(8_000, packed);
        let small = peak_kib();
        read(100_000, packed);
        let large = peak_kib();
        println!("packed {packed}: {small} KiB after 8 000 rows, {large} KiB after 100 000");
        assert!(large < small + SLACK_KIB, "packed {packed}: {small} KiB became {large} KiB");
    }
}
