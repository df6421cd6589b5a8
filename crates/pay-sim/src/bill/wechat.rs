//! WeChat Pay's trade bill of the kind ALL: a backtick before every cell, two lines at the end that count and sum up.

use super::rows::Row;
use super::{Ask, NoBill, decimal, local, only_yuan};

const HEADER: &str = "交易时间,公众账号ID,商户号,特约商户号,设备号,微信订单号,商户订单号,用户标识,交易类型,交易状态,付款银行,货币种类,应结订单金额,代金券金额,微信退款单号,商户退款单号,退款金额,充值券退款金额,退款类型,退款状态,商品名称,商户数据包,手续费,费率,订单金额,申请退款金额,费率备注";
const TRAILER: &str =
    "总交易单数,应结订单总金额,退款总金额,充值券退款总金额,手续费总金额,订单总金额,申请退款总金额";

pub(super) fn write(rows: &[Row], ask: &Ask) -> Result<String, NoBill> {
    only_yuan(rows, ask.format)?;
    let mut text = format!("\u{feff}{HEADER}\r\n");
    let (mut paid, mut refunded) = (0, 0);
    for row in rows {
        let amount = decimal(i128::from(row.money.amount), 2);
        let refund = row.refund_order_no.as_deref();
        let (ordered, given_back) = match refund {
            Some(_) => ("0.00", amount.as_str()),
            None => (amount.as_str(), "0.00"),
        };
        match refund {
            Some(_) => refunded += i128::from(row.money.amount),
            None => paid += i128::from(row.money.amount),
        }
        let at = local(row.at_ms, ask.zone);
        let user = row.user_id.to_string();
        let openid = format!("openid-{user}");
        let (state, refund_ref, refund_no, refund_kind, refund_state) = match refund {
            Some(number) => ("REFUND", row.transaction_id.as_str(), number, "ORIGINAL", "SUCCESS"),
            None => ("SUCCESS", "0", "0", "", ""),
        };
        let cells: [&str; 27] = [
            &at,
            "wx0000000000000000",
            "1900000000",
            "0",
            "",
            &row.transaction_id,
            &row.trade_order_no,
            &openid,
            "JSAPI",
            state,
            "OTHERS",
            "CNY",
            ordered,
            "0.00",
            refund_ref,
            refund_no,
            given_back,
            "0.00",
            refund_kind,
            refund_state,
            "renewal, one month",
            &user,
            "0.00000",
            "0.60%",
            ordered,
            given_back,
            "",
        ];
        text.push_str(&cells.map(|cell| format!("`{cell}")).join(","));
        text.push_str("\r\n");
    }
    let (count, paid) = (rows.len() + usize::from(ask.wrong_total), decimal(paid, 2));
    let refunded = decimal(refunded, 2);
    text.push_str(&format!(
        "{TRAILER}\r\n`{count},`{paid},`{refunded},`0.00,`0.00000,`{paid},`{refunded}\r\n"
    ));
    Ok(text)
}
