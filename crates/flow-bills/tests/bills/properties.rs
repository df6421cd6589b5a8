//! Random bills: what was written is read back, a bill that was cut or changed is refused, and no bytes do harm.

use std::fmt::Write as _;

use flow_bills::{EntryKind, Proof, read_bill};
use proptest::prelude::*;

use crate::fixtures::{Kept, Told, gbk, gz, read, rules};
use crate::{alipay, ledger, stripe, wechat};

#[path = "../properties/bills.rs"]
mod statement;

/// Kind, number and amount of every row; numbers are told apart by their place.
fn rows() -> impl Strategy<Value = Vec<Told>> {
    let row = (any::<bool>(), "[a-z0-9]{1,12}", 1u64..=u64::from(u32::MAX));
    prop::collection::vec(row, 0..20).prop_map(|rows| {
        let told = |(place, (is_refund, number, amount)): (usize, (bool, String, u64))| {
            let kind = if is_refund { EntryKind::Refund } else { EntryKind::Payment };
            (kind, format!("{number}_{place}"), amount)
        };
        rows.into_iter().enumerate().map(told).collect()
    })
}

fn yuan(minor: u128) -> String {
    format!("{}.{:02}", minor / 100, minor % 100)
}

fn sum(rows: &[Told], kind: EntryKind) -> (usize, u128) {
    let of_kind = rows.iter().filter(|row| row.0 == kind);
    (of_kind.clone().count(), of_kind.map(|row| u128::from(row.2)).sum())
}

fn ledger_bill(rows: &[Told]) -> String {
    let mut bill = "#ledger-csv,1,2026-11-29,Asia/Shanghai\nkind,order_no,trade_order_no,amount_minor,currency,user_id,channel_ref,at,status\n".to_owned();
    for (kind, number, amount) in rows {
        writeln!(bill, "{kind},{number},,{amount},CNY,42,ch,2026-11-29T01:02:03Z,SETTLED").unwrap();
    }
    for kind in [EntryKind::Payment, EntryKind::Refund] {
        let (count, sum) = sum(rows, kind);
        if count > 0 {
            writeln!(bill, "#total,{kind},CNY,{count},{sum}").unwrap();
        }
    }
    writeln!(bill, "#rows,{}", rows.len()).unwrap();
    ledger::sealed(&bill)
}

fn wechat_bill(rows: &[Told]) -> String {
    let template = wechat::all();
    let lines: Vec<&str> = template.lines().collect();
    let mut bill = format!("{}\n", lines[0]);
    for (kind, number, amount) in rows {
        let amount = yuan(u128::from(*amount));
        let row = match kind {
            EntryKind::Payment => format!(
                "`2026-11-29 01:02:03,`wx,`1,`0,`,`4200,`{number},`o,`JSAPI,`SUCCESS,`OTHERS,`CNY,`{amount},`0.00,`0,`0,`0.00,`0.00,`,`,`x,`,`0.00000,`0.60%,`{amount},`0.00,`"
            ),
            EntryKind::Refund => format!(
                "`2026-11-29 01:02:03,`wx,`1,`0,`,`4200,`t,`o,`JSAPI,`REFUND,`OTHERS,`CNY,`0.00,`0.00,`5,`{number},`{amount},`0.00,`ORIGINAL,`SUCCESS,`x,`,`0.00000,`0.60%,`0.00,`{amount},`"
            ),
        };
        writeln!(bill, "{row}").unwrap();
    }
    let (paid, back) = (yuan(sum(rows, EntryKind::Payment).1), yuan(sum(rows, EntryKind::Refund).1));
    writeln!(bill, "{}\n`{},`{paid},`{back},`0.00,`0.00000,`{paid},`{back}", lines[4], rows.len()).unwrap();
    bill
}

fn alipay_bill(rows: &[Told]) -> String {
    let template = alipay::detail();
    let lines: Vec<&str> = template.lines().collect();
    let mut bill = format!("{}\r\n", lines[..5].join("\r\n"));
    for (kind, number, amount) in rows {
        let amount = yuan(u128::from(*amount));
        let (name, trade, amount, refund) = match kind {
            EntryKind::Payment => ("交易", number.as_str(), amount, ""),
            EntryKind::Refund => ("退款", "t", format!("-{amount}"), number.as_str()),
        };
        write!(bill, "1\t,{trade}\t,{name}\t,续费,2026-11-29 01:02:03,2026-11-29 01:02:03,,,,,,{amount},{amount},0.00,0.00,0.00,0.00,0.00,,0.00,0.00,{refund}\t,0.00,0.00,\r\n").unwrap();
    }
    let (paid, back) = (sum(rows, EntryKind::Payment), sum(rows, EntryKind::Refund));
    write!(bill, "#----业务明细列表结束----\r\n#交易合计：{}笔，商家实收共{}元，商家优惠共0.00元\r\n#退款合计：{}笔，商家实收退款共-{}元，商家优惠退款共0.00元\r\n", paid.0, yuan(paid.1), back.0, yuan(back.1)).unwrap();
    bill
}

fn stripe_bill(rows: &[Told]) -> String {
    let mut bill = format!("{}\n", stripe::report().lines().next().unwrap());
    for (kind, number, amount) in rows {
        let amount = yuan(u128::from(*amount));
        let (category, amount, numbers) = match kind {
            EntryKind::Payment => ("charge", amount, format!("{number},")),
            EntryKind::Refund => ("refund", format!("-{amount}"), format!("t,{number}")),
        };
        writeln!(
            bill,
            "txn,2026-11-29 01:02:03,,usd,{amount},0.00,{amount},{category},\"a\nb\",,,{numbers},42"
        )
        .unwrap();
    }
    bill
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_is_read_back(rows in rows()) {
        for (format, bill) in [
            (ledger::FORMAT, ledger_bill(&rows).into_bytes()),
            (wechat::format(), wechat_bill(&rows).into_bytes()),
            (flow_bills::BillFormat::AlipayDetail, gbk(&alipay_bill(&rows))),
            (stripe::format(), stripe_bill(&rows).into_bytes()),
        ] {
            for packed in [bill.clone(), gz(&bill)] {
                let (summary, kept) = read(&format, &rules(), packed);
                prop_assert_eq!(kept.told(), rows.clone(), "{}", format.name());
                prop_assert!(summary.is_clean());
                prop_assert!(kept.entries.iter().all(|entry| entry.proof == Proof::Settled));
                prop_assert!(kept.entries.iter().all(|entry| entry.at.to_rfc3339().starts_with("2026-11-2")));
            }
        }
    }

    /// Formats that sum up: any one byte of a digit that is changed is noticed or changes nothing that counts.
    #[test]
    fn a_changed_digit_never_becomes_another_amount(rows in rows(), place in any::<prop::sample::Index>(), digit in b'0'..=b'9') {
        for (format, bill) in [(ledger::FORMAT, ledger_bill(&rows)), (wechat::format(), wechat_bill(&rows))] {
            let mut bytes = bill.into_bytes();
            let digits: Vec<usize> = (0..bytes.len()).filter(|place| bytes[*place].is_ascii_digit()).collect();
            bytes[digits[place.index(digits.len())]] = digit;
            let mut kept = Kept::default();
            if read_bill(&format, &rules(), &bytes[..], &mut kept).is_ok() && kept.quarantined.is_empty() {
                let amounts = |told: &[Told]| told.iter().map(|row| row.2).collect::<Vec<_>>();
                prop_assert_eq!(amounts(&kept.told()), amounts(&rows));
            }
        }
    }

    #[test]
    fn a_bill_that_was_cut_is_refused(rows in rows(), place in any::<prop::sample::Index>()) {
        for (format, bill) in [(ledger::FORMAT, ledger_bill(&rows)), (wechat::format(), wechat_bill(&rows))] {
            let end = place.index(bill.trim_end().len());
            // Inside of a last number that is zero anyway nothing is lost.
            let lost = bill.as_bytes()[end..].iter().any(|byte| !matches!(byte, b'0' | b'.' | b'\n'));
            let verdict = read_bill(&format, &rules(), &bill.as_bytes()[..end], &mut Kept::default());
            prop_assert!(verdict.is_err() || !lost, "cut at {} of {}", end, bill.len());
        }
    }

    #[test]
    fn no_bytes_do_harm(first in any::<u8>(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        statement::check(&statement::format_of(first), &bytes);
    }

    #[test]
    fn no_change_of_a_bill_does_harm(
        rows in rows(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(b'"'), Just(b','), Just(b'`'), Just(b'\n'), any::<u8>()]), 1..6),
        packed in any::<bool>(),
    ) {
        for (format, bill) in [
            (0, ledger_bill(&rows).into_bytes()),
            (1, wechat_bill(&rows).into_bytes()),
            (2, gbk(&alipay_bill(&rows))),
            (3, stripe_bill(&rows).into_bytes()),
        ] {
            let mut bytes = if packed { gz(&bill) } else { bill };
            for (place, byte) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            statement::check(&statement::format_of(format), &bytes);
        }
    }
}
