//! `generic-csv`: three banks that do it their own way, and rules that contradict themselves.

use chrono::{TimeZone as _, Utc};
use chrono_tz::Tz;
use flow_bills::{
    Amounts, BillFormat, Columns, Filter, GenericCsv, KindRule, Only, Proof, ProofRule, RefundSign, Sign,
    Trailer,
};

use crate::fixtures::{gbk, payment, read, refund, refused, rules, with};

/// Everything at its default.
fn plain(kind: KindRule) -> GenericCsv {
    GenericCsv {
        encoding: "utf-8".to_owned(),
        delimiter: ',',
        quoting: false,
        skip_lines: 0,
        comment: None,
        strip: String::new(),
        columns: Columns {
            order_no: "order".to_owned(),
            refund_order_no: Some("refund".to_owned()),
            amount: "amount".to_owned(),
            refund_amount: None,
            at: "time".to_owned(),
            at_time: None,
            currency: Some("currency".to_owned()),
            user: None,
            channel_ref: None,
        },
        currency: None,
        kind,
        amounts: Amounts::default(),
        time_format: "%Y-%m-%d %H:%M:%S".to_owned(),
        filters: Vec::new(),
        proof: None,
        trailer: None,
        ends_with_line_end: true,
    }
}

fn by_column() -> KindRule {
    let values = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    KindRule::Column {
        name: "type".to_owned(),
        payment: values(&["PAY"]),
        refund: values(&["REF"]),
        ignore: values(&["FEE"]),
    }
}

fn format(rules: GenericCsv) -> BillFormat {
    BillFormat::GenericCsv(Box::new(rules))
}

const SIMPLE: &str = "type,order,refund,amount,currency,time\n\
    PAY,h2r_1_a,,19.90,CNY,2026-11-29 08：35:41\n\
    FEE,,,0.10,CNY,2026-11-29 08:35:41\n\
    REF,h2r_1_a,r_h2r_1_a,19.90,CNY,2026-11-29 12:00:00\n";

#[test]
fn a_plain_table_is_read() {
    let (summary, kept) = read(&format(plain(by_column())), &rules(), SIMPLE);
    assert_eq!(kept.told(), [payment("h2r_1_a", 1990), refund("r_h2r_1_a", 1990)]);
    assert_eq!((summary.rows, summary.ignored), (3, 1));
    assert_eq!(kept.entries[0].at, Utc.with_ymd_and_hms(2026, 11, 29, 0, 35, 41).unwrap());
    assert_eq!(kept.entries[1].trade_order_no.as_deref(), Some("h2r_1_a"));
}

#[test]
fn a_german_bank_writes_it_so() {
    let mut bank = plain(KindRule::Sign(Sign::NegativeIsRefund));
    bank.encoding = "windows-1252".to_owned();
    bank.delimiter = ';';
    bank.quoting = true;
    bank.skip_lines = 2;
    bank.columns.order_no = "Referenz|Kundenreferenz".to_owned();
    bank.columns.refund_order_no = Some("Rückreferenz".to_owned());
    bank.columns.amount = "Betrag".to_owned();
    bank.columns.at = "Datum".to_owned();
    bank.columns.at_time = Some("Uhrzeit".to_owned());
    bank.columns.currency = None;
    bank.currency = Some("EUR".to_owned());
    bank.amounts = Amounts { decimal_point: ',', grouping: Some('.'), ..Amounts::default() };
    bank.time_format = "%d.%m.%Y %H:%M".to_owned();
    bank.trailer =
        Some(Trailer { starts_with: "Summe".to_owned(), rows_cell: Some(2), amount_cell: Some(3) });
    let bill = "Kontoauszug\nvom 29.11.2026\n\
        Datum;Uhrzeit;Betrag;Kundenreferenz;Rückreferenz;Zweck\n\
        29.11.2026;08:35;\"1.990,00\";h2r_1_a;;\"Größe; blau\"\n\
        29.11.2026;12:00;\"-1.990,00\";h2r_1_a;r_h2r_1_a;zurück\n\
        Summe;2;0,00\n";
    let encoded = |text: &str| encoding_rs::WINDOWS_1252.encode(text).0.into_owned();
    let mut berlin = rules();
    berlin.zone = Tz::Europe__Berlin;
    let (summary, kept) = read(&format(bank.clone()), &berlin, encoded(bill));
    assert_eq!(kept.told(), [payment("h2r_1_a", 199_000), refund("r_h2r_1_a", 199_000)]);
    assert_eq!((summary.rows, kept.entries[0].line), (2, 4));
    assert_eq!(kept.entries[0].at, Utc.with_ymd_and_hms(2026, 11, 29, 7, 35, 0).unwrap());
    for (from, to, code) in [
        ("Summe;2", "Summe;3", "COUNT_MISMATCH"),
        ("Summe;2;0,00", "Summe;2;0,01", "SUM_MISMATCH"),
        ("Summe;2;0,00", "Summe;2", "TRUNCATED"),
        ("Summe;2;0,00\n", "", "TRUNCATED"),
        ("Summe;2;0,00\n", "Summe;2;0,00\nx;y\n", "AFTER_END"),
        ("Betrag", "Wert", "HEADER_MISSING"),
    ] {
        let error = refused(&format(bank.clone()), &berlin, encoded(&with(bill, from, to)));
        assert_eq!(error.code(), code, "{to}: {error}");
    }
}

#[test]
fn clocks_that_were_changed_are_noticed() {
    let mut berlin = rules();
    berlin.zone = Tz::Europe__Berlin;
    let at = |time: &str| SIMPLE.replace("2026-11-29 08：35:41", time);
    let (summary, kept) = read(&format(plain(by_column())), &berlin, at("2026-10-25 02:30:00"));
    assert_eq!(
        (summary.ambiguous_times, kept.entries[0].at.to_rfc3339()),
        (1, "2026-10-25T00:30:00+00:00".to_owned())
    );
    let (_, kept) = read(&format(plain(by_column())), &berlin, at("2026-03-29 02:30:00"));
    assert_eq!(kept.set_aside(), [(2, "TIME_SKIPPED")]);
}

#[test]
fn an_offset_in_the_time_wins_over_the_zone() {
    let mut offset = plain(by_column());
    offset.time_format = "%Y-%m-%d %H:%M:%S %z".to_owned();
    let bill = SIMPLE.replace(":41\n", ":41 +0000\n").replace(":00\n", ":00 +0000\n");
    let (_, kept) = read(&format(offset), &rules(), bill);
    assert_eq!(kept.entries[0].at, Utc.with_ymd_and_hms(2026, 11, 29, 8, 35, 41).unwrap());
}

#[test]
fn rows_of_others_are_left_out() {
    let mut filtered = plain(by_column());
    filtered.filters =
        vec![Filter { column: "shop".to_owned(), keep: vec!["ours".to_owned()], ignore: Vec::new() }];
    let bill = "type,order,refund,amount,currency,time,shop\n\
        PAY,h2r_1_a,,1,CNY,2026-11-29 08:35:41,ours\n\
        PAY,broken,,x,CNY,whenever,theirs\n";
    let (summary, kept) = read(&format(filtered.clone()), &rules(), bill);
    assert_eq!((kept.told(), summary.ignored), (vec![payment("h2r_1_a", 100)], 1));
    filtered.filters =
        vec![Filter { column: "shop".to_owned(), keep: Vec::new(), ignore: vec!["ours".to_owned()] }];
    assert_eq!(read(&format(filtered), &rules(), bill).1.set_aside(), [(3, "AMOUNT")]);
}

#[test]
fn signs_and_units_are_as_configured() {
    let bill = |amount: &str, kind: &str| {
        format!("type,order,refund,amount,currency,time\n{kind},a,r,{amount},CNY,2026-11-29 08:35:41\n")
    };
    let mut minor = plain(by_column());
    minor.amounts.minor = true;
    assert_eq!(read(&format(minor), &rules(), bill("1990", "PAY")).1.told(), [payment("a", 1990)]);
    for (sign, amount, sound) in [
        (RefundSign::Positive, "5", true),
        (RefundSign::Positive, "-5", false),
        (RefundSign::Negative, "-5", true),
        (RefundSign::Negative, "5", false),
        (RefundSign::Any, "-5", true),
        (RefundSign::Any, "5", true),
    ] {
        let mut signed = plain(by_column());
        signed.amounts.refund_sign = sign;
        let (_, kept) = read(&format(signed), &rules(), bill(amount, "REF"));
        assert_eq!(kept.told().len(), usize::from(sound), "{sign:?} {amount}");
        assert_eq!(kept.set_aside().len(), usize::from(!sound), "{sign:?} {amount}");
    }
    let payer = plain(KindRule::Sign(Sign::NegativeIsPayment));
    assert_eq!(read(&format(payer.clone()), &rules(), bill("-5", "")).1.told(), [payment("a", 500)]);
    assert_eq!(read(&format(payer), &rules(), bill("5", "")).1.told(), [refund("r", 500)]);
    let mut only = plain(KindRule::Only(Only::Refund));
    only.columns.refund_amount = Some("currency|amount".to_owned());
    assert_eq!(read(&format(only), &rules(), bill("5", "")).1.set_aside(), [(2, "AMOUNT")]);
}

#[test]
fn what_a_row_proves_is_as_configured() {
    let mut proven = plain(by_column());
    let settled = vec!["OK".to_owned()];
    proven.proof = Some(ProofRule { column: "state".to_owned(), settled, accepted: vec!["SENT".to_owned()] });
    for (state, expected) in
        [("OK", Ok(Proof::Settled)), ("SENT", Ok(Proof::Accepted)), ("BAD", Err("STATUS"))]
    {
        let bill = format!(
            "type,order,refund,amount,currency,time,state\nPAY,a,,1,CNY,2026-11-29 08:35:41,{state}\n"
        );
        let (_, kept) = read(&format(proven.clone()), &rules(), bill);
        let seen = kept.entries.first().map(|entry| entry.proof);
        let seen = seen.ok_or_else(|| kept.set_aside().first().map(|(_, code)| *code).unwrap_or_default());
        assert_eq!(seen, expected, "{state}");
    }
}

#[test]
fn remarks_marks_and_other_encodings_are_taken_off() {
    let mut marked = plain(by_column());
    marked.encoding = "gbk".to_owned();
    marked.comment = Some("#".to_owned());
    marked.strip = "'`".to_owned();
    marked.columns.order_no = "单号".to_owned();
    let bill =
        "#备注\ntype,单号,refund,amount,currency,time\nPAY,'h2r_1_a\t,,`19.90,CNY,2026-11-29 08:35:41\n#完\n";
    assert_eq!(read(&format(marked), &rules(), gbk(bill)).1.told(), [payment("h2r_1_a", 1990)]);
}

#[test]
fn without_a_trailer_the_last_line_end_counts() {
    let cut = SIMPLE.trim_end();
    assert_eq!(refused(&format(plain(by_column())), &rules(), cut).code(), "TRUNCATED");
    let mut open = plain(by_column());
    open.ends_with_line_end = false;
    assert_eq!(read(&format(open), &rules(), cut).0.rows, 3);
    let header = SIMPLE.lines().next().unwrap().to_owned() + "\n";
    assert_eq!(read(&format(plain(by_column())), &rules(), header).0.rows, 0);
}

#[test]
fn rules_that_contradict_themselves_read_nothing() {
    let mut bad: Vec<(&str, GenericCsv)> = Vec::new();
    let mut add = |field, change: &dyn Fn(&mut GenericCsv)| {
        let mut rules = plain(by_column());
        change(&mut rules);
        bad.push((field, rules));
    };
    add("encoding", &|rules| rules.encoding = "klingon".to_owned());
    add("encoding", &|rules| rules.encoding = "utf-16".to_owned());
    add("delimiter", &|rules| rules.delimiter = '"');
    add("delimiter", &|rules| rules.delimiter = '，');
    add("comment", &|rules| rules.comment = Some(String::new()));
    add("currency", &|rules| rules.currency = Some("CNY".to_owned()));
    add("currency", &|rules| rules.columns.currency = None);
    add("time_format", &|rules| rules.time_format = "%Y-%Q".to_owned());
    add("amounts.grouping", &|rules| rules.amounts.grouping = Some('.'));
    add("columns.refund_order_no", &|rules| rules.columns.refund_order_no = None);
    add("columns.order_no", &|rules| rules.columns.order_no = " ".to_owned());
    add("kind.column", &|rules| {
        rules.kind = KindRule::Column {
            name: "type".to_owned(),
            payment: vec!["A".to_owned()],
            refund: vec!["A".to_owned()],
            ignore: Vec::new(),
        };
    });
    add("filters", &|rules| {
        rules.filters = vec![Filter { column: "x".to_owned(), keep: Vec::new(), ignore: Vec::new() }];
    });
    add("proof", &|rules| {
        rules.proof = Some(ProofRule { column: "x".to_owned(), settled: Vec::new(), accepted: Vec::new() });
    });
    add("trailer", &|rules| {
        rules.trailer = Some(Trailer { starts_with: "T".to_owned(), rows_cell: Some(0), amount_cell: None });
    });
    for (field, rules_of_format) in bad {
        let format = format(rules_of_format);
        assert_eq!(format.check().first().map(|(field, _)| field.as_str()), Some(field));
        assert_eq!(refused(&format, &rules(), SIMPLE).code(), "RULES", "{field}");
    }
    assert_eq!(format(plain(by_column())).check(), []);
}
