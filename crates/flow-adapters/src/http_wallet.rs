//! A wallet behind `contracts/wallet.yaml`.

use async_trait::async_trait;
use flow_config::TransportConfig;
use flow_core::answer::{Answered, ChargeAnswer, RefundAnswer};
use flow_core::ids::{RefundOrderNo, TradeOrderNo};
use flow_core::ports::{ChargeOrder, RefundOrder, Wallet};
use reqwest::Method;
use serde::Serialize;

use crate::classify::{self, ChargeCall, RefundCall};
use crate::transport::{Call, Transport, TransportError};
use crate::wire::{DebitRequest, RefundRequest, time_text, to_json};

/// A wallet over HTTP.
#[derive(Debug, Clone)]
pub struct HttpWallet {
    transport: Transport,
}

impl HttpWallet {
    /// Makes the client; connects to nothing.
    ///
    /// # Errors
    /// See [`Transport::new`].
    pub fn new(config: &TransportConfig) -> Result<HttpWallet, TransportError> {
        Ok(HttpWallet { transport: Transport::new(config)? })
    }

    async fn charge(
        &self,
        call: ChargeCall,
        asked: &TradeOrderNo,
        request: Call<'_>,
    ) -> Answered<ChargeAnswer> {
        let classify = |reply: classify::Reply<'_>| classify::charge(call, asked, reply);
        self.transport.exchange(request, classify, ChargeAnswer::None).await
    }

    async fn refund_call(
        &self,
        call: RefundCall,
        asked: &RefundOrderNo,
        request: Call<'_>,
    ) -> Answered<RefundAnswer> {
        let classify = |reply: classify::Reply<'_>| classify::refund(call, asked, reply);
        self.transport.exchange(request, classify, RefundAnswer::None).await
    }
}

fn get<'a>(path: &'a [&'a str]) -> Call<'a> {
    Call { method: Method::GET, path, query: &[], body: None }
}

fn post<'a>(path: &'a [&'a str], body: Option<&impl Serialize>) -> Call<'a> {
    Call { method: Method::POST, path, query: &[], body: body.map(to_json) }
}

#[async_trait]
impl Wallet for HttpWallet {
    async fn debit(&self, order: &ChargeOrder) -> Answered<ChargeAnswer> {
        let body = DebitRequest {
            trade_order_no: &order.trade_order_no,
            user_id: order.user_id,
            money: &order.money,
            not_after: time_text(order.not_after),
        };
        let request = post(&["wallet", "v1", "debits"], Some(&body));
        self.charge(ChargeCall::Debit, &order.trade_order_no, request).await
    }

    async fn query(&self, trade_order_no: &TradeOrderNo) -> Answered<ChargeAnswer> {
        let path = ["wallet", "v1", "debits", trade_order_no.as_str()];
        self.charge(ChargeCall::Query, trade_order_no, get(&path)).await
    }

    async fn close(&self, trade_order_no: &TradeOrderNo) -> Answered<ChargeAnswer> {
        let path = ["wallet", "v1", "debits", trade_order_no.as_str(), "close"];
        self.charge(ChargeCall::Close, trade_order_no, post(&path, None::<&()>)).await
    }

    async fn refund(&self, order: &RefundOrder) -> Answered<RefundAnswer> {
        let body = RefundRequest {
            refund_order_no: &order.refund_order_no,
            trade_order_no: &order.trade_order_no,
            user_id: order.user_id,
            money: &order.money,
            reason: order.reason.as_str(),
        };
        let request = post(&["wallet", "v1", "refunds"], Some(&body));
        self.refund_call(RefundCall::Refund, &order.refund_order_no, request).await
    }

    async fn query_refund(&self, refund_order_no: &RefundOrderNo) -> Answered<RefundAnswer> {
        let path = ["wallet", "v1", "refunds", refund_order_no.as_str()];
        self.refund_call(RefundCall::Query, refund_order_no, get(&path)).await
    }
}
