//! `ledger-csv`.

use chrono::{NaiveDate, TimeZone as _, Utc};
use flow_bills::{BillError, BillFormat, EntryKind, Proof};
use sha2::{Digest as _, Sha256};

use crate::fixtures::{gz, payment, read, refund, refused, rules, with};

pub(crate) const FORMAT: BillFormat = BillFormat::LedgerCsv;

/// Puts the digest behind the lines.
pub(crate) fn sealed(lines: &str) -> String {
    format!("{lines}#sha256,{}\n", hex(&Sha256::digest(lines)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lines() -> String {
    [
        "#ledger-csv,1,2026-11-29,Asia/Shanghai",
        "kind,order_no,trade_order_no,amount_minor,currency,user_id,channel_ref,at,status",
        "payment,h2r_1_a,,1990,CNY,42,ch-1,2026-11-29T00:35:41.123Z,SETTLED",
        "payment,h2r_1_b,,500,JPY,43,\"ch,2\",2026-11-29T09:00:00+09:00,SETTLED",
        "refund,r_h2r_1_a,h2r_1_a,1990,CNY,42,ch-3,2026-11-29T04:00:00Z,ACCEPTED",
        "#total,payment,CNY,1,1990",
        "#total,payment,JPY,1,500",
        "#total,refund,CNY,1,1990",
        "#rows,3",
        "",
    ]
    .join("\n")
}

/// A bill whose digest is right whatever was changed in it.
fn changed(from: &str, to: &str) -> String {
    sealed(&with(&lines(), from, to))
}

#[test]
fn a_bill_is_read_whole() {
    let (summary, kept) = read(&FORMAT, &rules(), sealed(&lines()));
    assert_eq!(kept.told(), [payment("h2r_1_a", 1990), payment("h2r_1_b", 500), refund("r_h2r_1_a", 1990)]);
    assert_eq!(summary.payment_sum_minor["JPY"], 500);
    let [first, second, back] = kept.entries.as_slice() else { panic!("{kept:?}") };
    assert_eq!(first.at.timestamp_subsec_millis(), 123);
    assert_eq!(second.at, Utc.with_ymd_and_hms(2026, 11, 29, 0, 0, 0).unwrap());
    assert_eq!((second.channel_ref.as_deref(), second.user.as_deref()), (Some("ch,2"), Some("43")));
    assert_eq!((back.kind, back.proof, back.line), (EntryKind::Refund, Proof::Accepted, 5));
    assert_eq!(back.trade_order_no.as_deref(), Some("h2r_1_a"));
    assert_eq!(read(&FORMAT, &rules(), gz(sealed(&lines()))).1.told(), kept.told());
    // Line ends and order of columns are the writer's.
    let crlf = sealed(&lines().replace('\n', "\r\n"));
    assert_eq!(read(&FORMAT, &rules(), crlf).1.told(), kept.told());
}

#[test]
fn whatever_disagrees_refuses_the_bill() {
    for (from, to, code) in [
        ("#rows,3", "#rows,4", "COUNT_MISMATCH"),
        ("payment,CNY,1,1990", "payment,CNY,2,1990", "COUNT_MISMATCH"),
        ("payment,CNY,1,1990", "payment,CNY,1,1991", "SUM_MISMATCH"),
        ("#total,payment,JPY,1,500\n", "", "COUNT_MISMATCH"),
        ("#total,payment,JPY,1,500", "#total,payment,EUR,1,500", "COUNT_MISMATCH"),
        ("#total,payment", "#total,gift", "CORRUPT"),
        ("#rows,3", "#rows,x", "CORRUPT"),
        ("#rows,3", "#lines,3", "CORRUPT"),
        ("#rows,3\n", "", "TRUNCATED"),
        ("#ledger-csv,1", "#ledger-csv,2", "ANOTHER_BILL"),
        ("#ledger-csv", "#ledger", "HEADER_MISSING"),
        ("Asia/Shanghai", "Asia/Tokyo", "ANOTHER_BILL"),
        ("amount_minor", "amount", "HEADER_MISSING"),
        ("#rows,3", "#rows,3\npayment,h2r_1_c,,1,CNY,,,2026-11-29T00:00:00Z,SETTLED", "AFTER_END"),
        // A missing and a doubled row.
        ("payment,h2r_1_a,,1990,CNY,42,ch-1,2026-11-29T00:35:41.123Z,SETTLED\n", "", "COUNT_MISMATCH"),
        (
            "refund,r_h",
            "payment,h2r_1_b,,500,JPY,43,c,2026-11-29T00:00:00Z,SETTLED\nrefund,r_h",
            "COUNT_MISMATCH",
        ),
    ] {
        let error = refused(&FORMAT, &rules(), changed(from, to));
        assert_eq!(error.code(), code, "{to}: {error}");
    }
    let altered = with(&sealed(&lines()), "h2r_1_a,,1990", "h2r_1_z,,1990");
    assert!(matches!(refused(&FORMAT, &rules(), altered), BillError::DigestMismatch { .. }));
    assert_eq!(refused(&FORMAT, &rules(), sealed(&lines()) + "#rows,3\n").code(), "AFTER_END");
}

#[test]
fn the_day_is_the_one_asked_for() {
    let mut asked = rules();
    asked.day = NaiveDate::from_ymd_opt(2026, 11, 29);
    assert_eq!(read(&FORMAT, &asked, sealed(&lines())).0.rows, 3);
    asked.day = NaiveDate::from_ymd_opt(2026, 11, 28);
    assert_eq!(refused(&FORMAT, &asked, sealed(&lines())).code(), "ANOTHER_BILL");
}

#[test]
fn rows_that_nobody_can_read_are_set_aside() {
    for (from, to, code) in [
        ("payment,h2r_1_a,", "payment,1.2E+15,", "SPREADSHEET_NUMBER"),
        ("payment,h2r_1_a,", "gift,h2r_1_a,", "STATUS"),
        ("123Z,SETTLED", "123Z,DONE", "STATUS"),
        (",1990,CNY,42,ch-1", ",19.90,CNY,42,ch-1", "TOO_MANY_DECIMALS"),
        (",1990,CNY,42,ch-1", ",-1990,CNY,42,ch-1", "SIGN"),
        (",1990,CNY,42,ch-1", ",1990,XTS,42,ch-1", "CURRENCY"),
        ("2026-11-29T00:35:41.123Z", "2026-11-29 00:35:41", "TIME"),
        (",42,ch-1", ",42", "SHAPE"),
        (",42,ch-1", ",42,c\"h-1\"", "QUOTES"),
    ] {
        let (summary, kept) = read(&FORMAT, &rules(), changed(from, to));
        assert_eq!(kept.set_aside(), [(3, code)], "{to}");
        assert_eq!((summary.rows, kept.entries.len()), (3, 2));
        assert_eq!(summary.unverified_sums, ["#total"]);
    }
}

#[test]
fn a_bill_that_ends_early_is_refused_wherever_it_ends() {
    let whole = sealed(&lines());
    for end in 0..whole.len() - 1 {
        let error = refused(&FORMAT, &rules(), &whole[..end]);
        assert!(
            matches!(
                error.code(),
                "EMPTY"
                    | "TRUNCATED"
                    | "HEADER_MISSING"
                    | "ANOTHER_BILL"
                    | "CORRUPT"
                    | "COUNT_MISMATCH"
                    | "SUM_MISMATCH"
            ),
            "cut at {end}: {error}"
        );
    }
    // The last line end is not part of what is proven.
    assert_eq!(read(&FORMAT, &rules(), whole.trim_end()).0.rows, 3);
}

#[test]
fn an_empty_day_is_a_whole_bill() {
    let lines: Vec<String> = lines().lines().take(2).map(str::to_owned).collect();
    let empty = sealed(&format!("{}\n#rows,0\n", lines.join("\n")));
    assert_eq!(read(&FORMAT, &rules(), empty).0.rows, 0);
}

#[test]
fn too_many_illegible_rows_are_not_a_bill() {
    let mut strict = rules();
    strict.limits.quarantined_rows = 1;
    let two = with(&changed("payment,h2r_1_a", "gift,h2r_1_a"), "payment,h2r_1_b", "gift,h2r_1_b");
    assert!(matches!(
        refused(&FORMAT, &strict, two),
        BillError::TooManyQuarantined { limit_rows: 1, line: 4 }
    ));
    let one = changed("payment,h2r_1_a", "gift,h2r_1_a");
    assert_eq!(read(&FORMAT, &strict, one).0.quarantined, 1);
}
