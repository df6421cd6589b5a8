//! A business system behind `contracts/business.yaml`.

use async_trait::async_trait;
use flow_config::TransportConfig;
use flow_core::answer::{Answered, ExecuteAnswer, FactAnswer};
use flow_core::ids::Target;
use flow_core::ports::{Business, Execution};
use reqwest::Method;

use crate::classify;
use crate::transport::{Call, Transport, TransportError};
use crate::wire::{ExecutionRequest, time_text, to_json};

/// A business system over HTTP.
#[derive(Debug, Clone)]
pub struct HttpBusiness {
    transport: Transport,
}

impl HttpBusiness {
    /// Makes the client; connects to nothing.
    ///
    /// # Errors
    /// See [`Transport::new`].
    pub fn new(config: &TransportConfig) -> Result<HttpBusiness, TransportError> {
        Ok(HttpBusiness { transport: Transport::new(config)? })
    }
}

#[async_trait]
impl Business for HttpBusiness {
    async fn execute(&self, execution: &Execution) -> Answered<ExecuteAnswer> {
        let body = ExecutionRequest {
            trade_order_no: &execution.trade_order_no,
            user_id: execution.target.user_id,
            scene: &execution.target.scene,
            biz_key: &execution.target.biz_key,
            not_after: time_text(execution.not_after),
            context: execution.context.as_deref(),
        };
        let call = Call {
            method: Method::POST,
            path: &["business", "v1", "executions"],
            query: &[],
            body: Some(to_json(&body)),
        };
        let classify = |reply: classify::Reply<'_>| classify::execution(&execution.trade_order_no, reply);
        self.transport.exchange(call, classify, ExecuteAnswer::None).await
    }

    async fn fact(&self, target: &Target) -> Answered<FactAnswer> {
        let user_id = target.user_id.to_string();
        let call = Call {
            method: Method::GET,
            path: &["business", "v1", "facts"],
            query: &[
                ("user_id", user_id.as_str()),
                ("scene", target.scene.as_str()),
                ("biz_key", target.biz_key.as_str()),
            ],
            body: None,
        };
        let classify = |reply: classify::Reply<'_>| classify::fact(target, reply);
        self.transport.exchange(call, classify, FactAnswer::None).await
    }
}
