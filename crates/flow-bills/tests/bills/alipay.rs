//! Alipay.

use chrono::{NaiveDate, TimeZone as _, Utc};
use flow_bills::{BillError, BillFormat, BillSummary, NoStatement, Proof};

use crate::fixtures::{Kept, gbk, payment, read, refund, refused, rules, with, zipped};

const FORMAT: BillFormat = BillFormat::AlipayDetail;

pub(crate) fn detail() -> String {
    [
        "#支付宝业务明细查询",
        "#账号：[20880000000000000001]",
        "#起始日期：[2026年11月29日 00:00:00]   终止日期：[2026年11月30日 00:00:00]",
        "#-----------------------------------------业务明细列表----------------------------------------",
        "支付宝交易号,商户订单号,业务类型,商品名称,创建时间,完成时间,门店编号,门店名称,操作员,终端号,对方账户,订单金额（元）,商家实收（元）,支付宝红包（元）,集分宝（元）,支付宝优惠（元）,商家优惠（元）,券核销金额（元）,券名称,商家红包消费金额（元）,卡消费金额（元）,退款批次号/请求号,服务费（元）,分润（元）,备注",
        "2026112900000000000001\t,h2r_1_a\t,交易\t,续费,2026-11-29 08:35:00,2026-11-29 08:35:41,\t,\t,\t,\t,*某(us***@example.invalid)\t,19.90,18.90,0.00,0.00,0.00,1.00,0.00,,0.00\t,0.00,\t,-0.11,0.00,",
        "2026112900000000000002\t,h2r_1_b\t,交易\t,续费,2026-11-29 10:00:00,2026-11-29 10:00:01,\t,\t,\t,\t,*某(us***@example.invalid)\t,5.00,5.00,0.00,0.00,0.00,0.00,0.00,,0.00\t,0.00,\t,-0.03,0.00,",
        "2026112900000000000001\t,h2r_1_a\t,退款\t,续费,2026-11-29 08:35:00,2026-11-29 12:00:00,\t,\t,\t,\t,*某(us***@example.invalid)\t,-19.90,-18.90,0.00,0.00,0.00,-1.00,0.00,,0.00\t,0.00,r_h2r_1_a\t,0.11,0.00,",
        "#-----------------------------------------业务明细列表结束------------------------------------",
        "#交易合计：2笔，商家实收共23.90元，商家优惠共1.00元",
        "#退款合计：1笔，商家实收退款共-18.90元，商家优惠退款共-1.00元",
        "#导出时间：[2026年11月30日 06:27:10]",
        "",
    ]
    .join("\r\n")
}

fn summary_file() -> String {
    [
        "#支付宝业务汇总查询",
        "#账号：[20880000000000000001]",
        "#起始日期：[2026年11月29日 00:00:00]   终止日期：[2026年11月30日 00:00:00]",
        "#-----------------------------------------业务汇总列表----------------------------------------",
        "门店编号,门店名称,交易订单总笔数,退款订单总笔数,订单金额（元）,商家实收（元）,支付宝优惠（元）,商家优惠（元）,卡消费金额（元）,服务费（元）,分润（元）,实收净额（元）",
        "合计\t,\t,2,1,5.00,5.00,0.00,0.00,0.00,-0.03,0.00,4.97",
        "#----------------------------------------业务汇总列表结束-------------------------------------",
        "#导出时间：[2026年11月30日 06:27:10]",
        "",
    ]
    .join("\r\n")
}

fn archive(detail: &str, summary: &str) -> Vec<u8> {
    zipped(&[("2088_20261129_(1).csv", &gbk(summary)), ("2088_20261129_(2).csv", &gbk(detail))])
}

fn ok(detail: &str) -> (BillSummary, Kept) {
    read(&FORMAT, &rules(), gbk(detail))
}

fn verdict(detail: &str) -> BillError {
    refused(&FORMAT, &rules(), gbk(detail))
}

#[test]
fn a_bill_is_read_whole() {
    let (summary, kept) = ok(&detail());
    assert_eq!(kept.told(), [payment("h2r_1_a", 1990), payment("h2r_1_b", 500), refund("r_h2r_1_a", 1990)]);
    assert_eq!((summary.rows, summary.quarantined), (3, 0));
    let back = &kept.entries[2];
    assert_eq!(back.at, Utc.with_ymd_and_hms(2026, 11, 29, 4, 0, 0).unwrap());
    assert_eq!((back.trade_order_no.as_deref(), back.proof), (Some("h2r_1_a"), Proof::Settled));
    assert_eq!((back.channel_ref.as_deref(), back.line), (Some("2026112900000000000001"), 8));
    assert!(back.raw.contains("续费"), "decoded: {}", back.raw);
}

#[test]
fn archive_and_summary_are_held_together() {
    let (summary, kept) = read(&FORMAT, &rules(), archive(&detail(), &summary_file()));
    assert_eq!((summary.rows, kept.entries.len()), (3, 3));
    for (from, to, code) in [
        (",2,1,5.00", ",3,1,5.00", "COUNT_MISMATCH"),
        (",2,1,5.00", ",2,2,5.00", "COUNT_MISMATCH"),
        (",2,1,5.00", ",2,1,5.01", "SUM_MISMATCH"),
        ("5.00,0.00,0.00,0.00,-0.03", "5.10,0.00,0.00,0.00,-0.03", "SUM_MISMATCH"),
        ("合计", "小计", "TRUNCATED"),
    ] {
        let bill = archive(&detail(), &with(&summary_file(), from, to));
        assert_eq!(refused(&FORMAT, &rules(), bill).code(), code, "{to}");
    }
    let alone = zipped(&[("only.csv", &gbk(&summary_file()))]);
    assert_eq!(refused(&FORMAT, &rules(), alone).code(), "NOT_THIS_FORMAT");
    let twice = zipped(&[("a.csv", &gbk(&detail())), ("b.csv", &gbk(&detail()))]);
    assert_eq!(refused(&FORMAT, &rules(), twice).code(), "CORRUPT");
}

#[test]
fn both_lines_that_sum_up_must_agree() {
    for (from, to, code) in [
        ("交易合计：2笔", "交易合计：3笔", "COUNT_MISMATCH"),
        ("退款合计：1笔", "退款合计：0笔", "COUNT_MISMATCH"),
        ("实收共23.90元", "实收共23.91元", "SUM_MISMATCH"),
        ("优惠共1.00元", "优惠共1.10元", "SUM_MISMATCH"),
        ("退款共-18.90元", "退款共-18.80元", "SUM_MISMATCH"),
        ("#退款合计", "#退款", "TRUNCATED"),
        ("业务明细列表结束", "业务明细列表", "TRUNCATED"),
        ("实收共23.90元", "实收共23.90", "SUM_MISMATCH"),
    ] {
        let error = verdict(&with(&detail(), from, to));
        // Without its unit a number runs into what follows.
        let code = if to.ends_with("23.90") { "CORRUPT" } else { code };
        assert_eq!(error.code(), code, "{to}: {error}");
    }
    // Some bills write refunds without the minus.
    let unsigned = with(&with(&detail(), "退款共-18.90元", "退款共18.90元"), "退款共-1.00元", "退款共1.00元");
    assert_eq!(ok(&unsigned).0.rows, 3);
}

#[test]
fn a_bill_that_ends_early_is_refused_wherever_it_ends() {
    let whole = detail();
    // Up to the last sum; what follows it carries nothing.
    let needed = whole.find("#导出时间").unwrap() - "元\r\n".len();
    for (end, _) in whole.char_indices().filter(|(end, _)| *end < needed) {
        let error = verdict(&whole[..end]);
        assert!(matches!(error.code(), "EMPTY" | "TRUNCATED" | "HEADER_MISSING"), "cut at {end}: {error}");
    }
}

#[test]
fn an_empty_day_is_a_whole_bill() {
    let lines: Vec<String> =
        detail().lines().map(str::to_owned).filter(|line| line.starts_with(['#', '支'])).collect();
    let empty = lines.join("\n");
    let empty =
        with(&empty, "2笔，商家实收共23.90元，商家优惠共1.00元", "0笔，商家实收共0.00元，商家优惠共0.00元");
    let empty = with(
        &empty,
        "1笔，商家实收退款共-18.90元，商家优惠退款共-1.00元",
        "0笔，商家实收退款共0.00元，商家优惠退款共0.00元",
    );
    assert_eq!(ok(&empty).0.rows, 0);
}

#[test]
fn another_days_bill_is_not_read() {
    let mut asked = rules();
    asked.day = NaiveDate::from_ymd_opt(2026, 11, 29);
    assert_eq!(read(&FORMAT, &asked, gbk(&detail())).0.rows, 3);
    asked.day = NaiveDate::from_ymd_opt(2026, 11, 30);
    assert!(matches!(refused(&FORMAT, &asked, gbk(&detail())), BillError::AnotherBill { what: "day", .. }));
}

#[test]
fn commas_in_a_goods_name_are_part_of_it() {
    let told = ok(&detail()).1.told();
    for name in ["茶, 两杯", "a,b,c", "5\" x", ","] {
        let (summary, kept) = ok(&with(&detail(), "交易\t,续费,", &format!("交易\t,{name},")));
        assert_eq!((kept.told(), summary.quarantined), (told.clone(), 0), "{name}");
    }
    // Anywhere else it can't be told what belongs where.
    let (summary, kept) = ok(&with(&detail(), "*某(us***@example.invalid)", "*某,(us***@example.invalid)"));
    assert_eq!(kept.set_aside(), [(6, "SHAPE")]);
    assert!(!summary.unverified_sums.is_empty());
}

#[test]
fn rows_that_nobody_can_read_are_set_aside() {
    for (from, to, line, code) in [
        ("h2r_1_a\t,交易", "2.02011E+27\t,交易", 6, "SPREADSHEET_NUMBER"),
        ("h2r_1_a\t,交易", "\t,交易", 6, "EMPTY"),
        ("r_h2r_1_a\t", "\t", 8, "EMPTY"),
        ("2026-11-29 08:35:41", "2026/11/29 8:35", 6, "TIME"),
        ("19.90,18.90", "19.905,18.90", 6, "TOO_MANY_DECIMALS"),
        ("-19.90,-18.90", "19.90,-18.90", 8, "SIGN"),
        ("0.00,1.00,0.00,,", "0.00,,0.00,,", 6, "AMOUNT"),
    ] {
        let (summary, kept) = ok(&with(&detail(), from, to));
        assert_eq!((kept.set_aside(), summary.quarantined), (vec![(line, code)], 1), "{to}");
    }
    let mut bytes = gbk(&detail());
    let place = bytes.windows(7).position(|window| window == b"h2r_1_b").unwrap();
    bytes[place] = 0xff;
    let (summary, kept) = read(&FORMAT, &rules(), bytes);
    assert_eq!(kept.set_aside(), [(7, "ENCODING")]);
    assert!(!summary.unverified_sums.is_empty());
}

#[test]
fn a_kind_that_is_neither_is_set_aside_and_not_counted() {
    let bill = with(&detail(), "h2r_1_b\t,交易", "h2r_1_b\t,提现");
    let bill = with(&bill, "2笔，商家实收共23.90元", "1笔，商家实收共18.90元");
    assert_eq!(ok(&bill).1.set_aside(), [(7, "STATUS")]);
}

#[test]
fn re_saved_as_utf8_with_a_mark_it_is_read() {
    let bill = format!("\u{feff}{}", detail());
    assert_eq!(read(&FORMAT, &rules(), bill).1.entries.len(), 3);
    // Without one it is taken for GBK, and nothing of it is where it should be.
    assert!(matches!(refused(&FORMAT, &rules(), detail()).code(), "HEADER_MISSING" | "CORRUPT"));
}

#[test]
fn answers_without_a_bill_mean_what_the_channel_means() {
    let answer = r#"{"alipay_data_dataservice_bill_downloadurl_query_response":{"code":"40004","sub_code":"isp.bill_not_exist"},"sign":"x"}"#;
    let error = refused(&FORMAT, &rules(), answer);
    assert!(matches!(error, BillError::NoStatement { meaning: NoStatement::NothingHappened, .. }), "{error}");
    let other = answer.replace("isp.bill_not_exist", "isv.invalid-signature");
    assert_eq!(refused(&FORMAT, &rules(), other).code(), "CHANNEL_REFUSED");
    assert_eq!(refused(&FORMAT, &rules(), "{\"a\":1}").code(), "NOT_THIS_FORMAT");
}
