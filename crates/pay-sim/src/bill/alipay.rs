//! Alipay's detail bill and the summary beside it, in GBK.

use encoding_rs::GBK;

use super::rows::Row;
use super::{Ask, NoBill, decimal, local, only_yuan};

const HEADER: &str = "支付宝交易号,商户订单号,业务类型,商品名称,创建时间,完成时间,门店编号,门店名称,操作员,终端号,对方账户,订单金额（元）,商家实收（元）,支付宝红包（元）,集分宝（元）,支付宝优惠（元）,商家优惠（元）,券核销金额（元）,券名称,商家红包消费金额（元）,卡消费金额（元）,退款批次号/请求号,服务费（元）,分润（元）,备注";
const SUMMARY_HEADER: &str = "门店编号,门店名称,交易订单总笔数,退款订单总笔数,订单金额（元）,商家实收（元）,支付宝优惠（元）,商家优惠（元）,卡消费金额（元）,服务费（元）,分润（元）,实收净额（元）";

/// Rows of a kind.
#[derive(Clone, Copy, Default)]
struct Total {
    rows: usize,
    sum: i128,
}

/// The detail first.
pub(super) fn write(rows: &[Row], ask: &Ask) -> Result<Vec<(String, Vec<u8>)>, NoBill> {
    only_yuan(rows, ask.format)?;
    let (mut paid, mut refunded) = (Total::default(), Total::default());
    for row in rows {
        let total = if row.refund_order_no.is_some() { &mut refunded } else { &mut paid };
        *total = Total { rows: total.rows + 1, sum: total.sum + row.signed() };
    }
    let account = "20880000000000000000";
    let day = ask.day.format("%Y%m%d");
    let named = |name: &str| format!("{account}_{day}_{name}.csv");
    Ok(vec![
        (named("业务明细"), gbk(&detail(rows, ask, account, paid, refunded))?),
        (named("业务明细(汇总)"), gbk(&summary(ask, account, paid, refunded))?),
    ])
}

fn gbk(text: &str) -> Result<Vec<u8>, NoBill> {
    let (bytes, _, lost) = GBK.encode(text);
    if lost {
        return Err(NoBill::Unwritable { what: "a number holds characters that GBK has not".to_owned() });
    }
    Ok(bytes.into_owned())
}

fn head(ask: &Ask, account: &str, title: &str) -> String {
    let next = ask.day.succ_opt().unwrap_or(ask.day);
    let midnight = "%Y年%m月%d日 00:00:00";
    let (from, to) = (ask.day.format(midnight), next.format(midnight));
    format!("#支付宝{title}查询\r\n#账号：[{account}]\r\n#起始日期：[{from}]   终止日期：[{to}]\r\n")
}

fn detail(rows: &[Row], ask: &Ask, account: &str, paid: Total, refunded: Total) -> String {
    let mut text = head(ask, account, "业务明细");
    text.push_str(&format!("#----------------业务明细列表----------------\r\n{HEADER}\r\n"));
    for row in rows {
        let (kind, refund) = match &row.refund_order_no {
            Some(number) => ("退款", number.as_str()),
            None => ("交易", ""),
        };
        let (at, amount) = (local(row.at_ms, ask.zone), decimal(row.signed(), 2));
        text.push_str(&format!(
            "{}\t,{}\t,{kind}\t,会员续费,{at},{at},\t,\t,\t,\t,*某(use***@example.invalid)\t,{amount},{amount},0.00,0.00,0.00,0.00,0.00,,0.00\t,0.00,{refund}\t,0.00,0.00,\r\n",
            row.transaction_id, row.trade_order_no,
        ));
    }
    text.push_str("#----------------业务明细列表结束----------------\r\n");
    let count = paid.rows + usize::from(ask.wrong_total);
    let (paid, back) = (decimal(paid.sum, 2), decimal(refunded.sum, 2));
    text.push_str(&format!("#交易合计：{count}笔，商家实收共{paid}元，商家优惠共0.00元\r\n"));
    let count = refunded.rows;
    text.push_str(&format!("#退款合计：{count}笔，商家实收退款共{back}元，商家优惠退款共0.00元\r\n"));
    text
}

fn summary(ask: &Ask, account: &str, paid: Total, refunded: Total) -> String {
    let mut text = head(ask, account, "业务汇总");
    text.push_str(&format!("#----------------业务汇总列表----------------\r\n{SUMMARY_HEADER}\r\n"));
    let net = decimal(paid.sum + refunded.sum, 2);
    let (payments, refunds) = (paid.rows, refunded.rows);
    text.push_str(&format!("合计\t,\t,{payments},{refunds},{net},{net},0.00,0.00,0.00,0.00,0.00,{net}\r\n"));
    text.push_str("#----------------业务汇总列表结束----------------\r\n");
    text
}
