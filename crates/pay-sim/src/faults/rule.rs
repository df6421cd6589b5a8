//! One fault rule: its filter, its dose and its kind, and which combinations make sense.

use serde::{Deserialize, Serialize};

use crate::ledger::decimal_id;

/// The longest time any fault may take, in milliseconds: one hour.
const MAX_MS: u64 = 3_600_000;

/// The calls of the two contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Take money.
    Debit,
    /// Read a wallet order.
    Query,
    /// Close a wallet order.
    Close,
    /// Give money back.
    Refund,
    /// Read a refund.
    QueryRefund,
    /// Grant a benefit.
    Execute,
    /// Read a business fact.
    Fact,
}

/// The two systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// Moves money.
    Wallet,
    /// Grants benefits.
    Business,
}

impl Call {
    /// Every call there is.
    pub const ALL: [Self; 7] =
        [Self::Debit, Self::Query, Self::Close, Self::Refund, Self::QueryRefund, Self::Execute, Self::Fact];

    /// Its name in JSON and in queries.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Debit => "debit",
            Self::Query => "query",
            Self::Close => "close",
            Self::Refund => "refund",
            Self::QueryRefund => "query_refund",
            Self::Execute => "execute",
            Self::Fact => "fact",
        }
    }

    /// Whose call it is.
    #[must_use]
    pub fn system(self) -> System {
        match self {
            Self::Debit | Self::Query | Self::Close | Self::Refund | Self::QueryRefund => System::Wallet,
            Self::Execute | Self::Fact => System::Business,
        }
    }
}

/// On which side of the commit a fault strikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Nothing has been committed (a delay: not yet).
    #[default]
    Before,
    /// It is committed, and only the answer suffers.
    After,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// The connection is closed without an answer.
    Drop,
    /// The call (stage `before`) or its answer (stage `after`) waits. It goes on when the caller hangs up meanwhile.
    Delay {
        /// How long, in milliseconds.
        ms: u64,
    },
    /// An HTTP error: 500 to 599, or 429 (stage `before` only: a throttled call did nothing).
    Status {
        /// The status.
        status: u16,
        /// Value of `Retry-After`, in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_s: Option<u32>,
        /// A 503 promises, with code NOT_EXECUTED, that the call had no effect. Without it the caller can't tell.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        not_executed: bool,
    },
    /// 200 with a body that is not the contract's.
    Garbage {
        /// The body; a truncated document by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
    },
    /// PROCESSING is answered. A debit, refund or execution is accepted and carried out later; the reading calls and
    /// close only claim not to know.
    Processing {
        /// Carried out after so many milliseconds; without it, on the next query.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
    },
    /// Definitely refused, for debit (sticky), refund and execute (both may be tried again).
    Refuse {
        /// The failure code to answer.
        code: String,
    },
    /// The system is out, until the rule ends.
    Unavailable {
        /// How it shows.
        #[serde(default)]
        mode: UnavailableMode,
        /// A 503 promises, with code NOT_EXECUTED, that the call had no effect. Without it the caller can't tell.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        not_executed: bool,
    },
    /// The world gets the request twice; the answer is the first one's.
    Duplicate {
        /// When the copy arrives, in milliseconds after the first; 0 is at once.
        #[serde(default)]
        second_after_ms: u64,
    },
    /// The caller loses the connection at once; the request reaches the world later: the delayed message.
    Late {
        /// How much later, in milliseconds.
        after_ms: u64,
    },
    /// The answer names another amount than the one committed.
    WrongAmount,
    /// The answer names another user.
    WrongUser,
    /// The answer names another currency.
    WrongCurrency,
    /// The answered fact contradicts itself.
    Contradict {
        /// In which way.
        shape: Contradiction,
    },
}

/// How an outage shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnavailableMode {
    /// 503 is answered.
    #[default]
    Status503,
    /// Connections are closed without an answer; a system's own port (where it has one) is closed altogether, so that
    /// connecting is refused.
    Refused,
}

/// How a fact contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contradiction {
    /// DONE, by nobody.
    DoneWithoutOwner,
    /// NOT_DONE, and yet owned.
    NotDoneWithOwner,
}

/// A rule as it is posted. Absent filters match everything; of several rules, the oldest that strikes wins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Which calls; empty or absent: all that the kind can apply to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Only this order. A refund query matches once its refund is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trade_order_no: Option<String>,
    /// Only this refund.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund_order_no: Option<String>,
    /// Only this user (a decimal string).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Only this business key; a wallet call matches once an execution has tied its order to the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub biz_key: Option<String>,
    /// On which side of the commit.
    #[serde(default)]
    pub stage: Stage,
    /// Strikes at most so often; absent: without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Lets so many matching calls pass first.
    #[serde(default)]
    pub skip: u32,
    /// Chance to strike, 0 to 1. The draw depends on seed, call, number and repetition alone, not on the order of arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Seed of the draws.
    #[serde(default)]
    pub seed: u64,
    /// The rule ends so many milliseconds after it was added; absent: when it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// What goes wrong.
    pub fault: Fault,
}

/// What a call is about, as far as call and world can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Which call.
    pub call: Call,
    /// The order, if known.
    pub trade_order_no: Option<String>,
    /// The refund, for the two refund calls.
    pub refund_order_no: Option<String>,
    /// The user, if known.
    pub user_id: Option<u64>,
    /// The business key, if known.
    pub biz_key: Option<String>,
}

/// Why a rule is not accepted. No rule was added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// The kind has no meaning for a call named.
    #[error("this fault can not apply to the call {0:?}; leave the call out or choose another kind")]
    CallMismatch(Call),
    /// The kind has no meaning at this stage.
    #[error("this fault acts before the commit; leave the stage out")]
    StageMismatch,
    /// The status is neither 5xx nor 429.
    #[error("the status must be 429 or 500 to 599, not {0}")]
    Status(u16),
    /// The promise of no effect would be false, or there is no 503 to make it with.
    #[error("not_executed is for a 503 before the commit; leave it out, or use status 503 at stage before")]
    NotExecuted,
    /// The probability is not in 0 to 1.
    #[error("the probability must be between 0 and 1")]
    Probability,
    /// A time is too long.
    #[error("times are limited to {MAX_MS} ms")]
    TooLong,
    /// The user is no decimal number.
    #[error("user_id must be a decimal string")]
    UserId,
}

impl Fault {
    /// Whether the kind has a meaning for this call.
    #[must_use]
    pub fn applies_to(&self, call: Call) -> bool {
        match self {
            Self::Drop | Self::Delay { .. } | Self::Status { .. } | Self::Garbage { .. } => true,
            Self::Unavailable { .. } | Self::Duplicate { .. } | Self::Late { .. } => true,
            Self::Processing { .. } => call != Call::Fact,
            Self::Refuse { .. } => matches!(call, Call::Debit | Call::Refund | Call::Execute),
            Self::WrongAmount | Self::WrongUser | Self::WrongCurrency => call.system() == System::Wallet,
            Self::Contradict { .. } => call == Call::Fact,
        }
    }

    fn applies_at(&self, stage: Stage) -> bool {
        match self {
            Self::Drop | Self::Delay { .. } | Self::Garbage { .. } => true,
            Self::Status { status, .. } => stage == Stage::Before || *status != 429,
            Self::Processing { .. } | Self::Refuse { .. } | Self::Unavailable { .. } => {
                stage == Stage::Before
            }
            Self::Duplicate { .. } | Self::Late { .. } => stage == Stage::Before,
            // They spoil the answer, whatever the stage says.
            Self::WrongAmount | Self::WrongUser | Self::WrongCurrency | Self::Contradict { .. } => true,
        }
    }

    /// Whether a promise of no effect, if one is made, is true. What acts before the commit only is checked elsewhere.
    fn promise_holds(&self, stage: Stage) -> bool {
        match self {
            Self::Status { status, not_executed, .. } => {
                !not_executed || (*status == 503 && stage == Stage::Before)
            }
            Self::Unavailable { mode, not_executed } => !not_executed || *mode == UnavailableMode::Status503,
            Self::Drop | Self::Delay { .. } | Self::Garbage { .. } | Self::Processing { .. } => true,
            Self::Refuse { .. } | Self::Duplicate { .. } | Self::Late { .. } => true,
            Self::WrongAmount | Self::WrongUser | Self::WrongCurrency | Self::Contradict { .. } => true,
        }
    }

    fn longest_ms(&self) -> u64 {
        match self {
            Self::Delay { ms } => *ms,
            Self::Processing { after_ms } => after_ms.unwrap_or(0),
            Self::Duplicate { second_after_ms } => *second_after_ms,
            Self::Late { after_ms } => *after_ms,
            Self::Drop | Self::Status { .. } | Self::Garbage { .. } | Self::Refuse { .. } => 0,
            Self::Unavailable { .. } | Self::WrongAmount | Self::WrongUser | Self::WrongCurrency => 0,
            Self::Contradict { .. } => 0,
        }
    }
}

impl Rule {
    /// Refuses rules that could never do what they seem to say.
    ///
    /// # Errors
    /// Names the first thing that makes no sense.
    pub fn check(&self) -> Result<(), BadRule> {
        if let Some(call) = self.calls.iter().find(|call| !self.fault.applies_to(**call)) {
            return Err(BadRule::CallMismatch(*call));
        }
        if !self.fault.applies_at(self.stage) {
            return Err(BadRule::StageMismatch);
        }
        if let Fault::Status { status, .. } = self.fault
            && status != 429
            && !(500..=599).contains(&status)
        {
            return Err(BadRule::Status(status));
        }
        if !self.fault.promise_holds(self.stage) {
            return Err(BadRule::NotExecuted);
        }
        if self.probability.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
            return Err(BadRule::Probability);
        }
        if self.fault.longest_ms().max(self.for_ms.unwrap_or(0)) > MAX_MS {
            return Err(BadRule::TooLong);
        }
        match self.user_id.as_deref().map(decimal_id::parse) {
            Some(None) => Err(BadRule::UserId),
            Some(Some(_)) | None => Ok(()),
        }
    }

    /// Whether the rule is about this call.
    #[must_use]
    pub fn matches(&self, subject: &Subject) -> bool {
        let user_id = subject.user_id.map(|id| id.to_string());
        self.fault.applies_to(subject.call)
            && (self.calls.is_empty() || self.calls.contains(&subject.call))
            && (self.trade_order_no.is_none() || self.trade_order_no == subject.trade_order_no)
            && (self.refund_order_no.is_none() || self.refund_order_no == subject.refund_order_no)
            && (self.user_id.is_none() || self.user_id == user_id)
            && (self.biz_key.is_none() || self.biz_key == subject.biz_key)
    }

    /// Whether the rule is about every call of a whole system, not about single orders or chance.
    #[must_use]
    pub fn covers(&self, system: System) -> bool {
        let unfiltered = self.trade_order_no.is_none()
            && self.refund_order_no.is_none()
            && self.user_id.is_none()
            && self.biz_key.is_none()
            && self.times.is_none()
            && self.skip == 0
            && self.probability.is_none();
        let mut calls = Call::ALL.iter().filter(|call| call.system() == system);
        unfiltered && (self.calls.is_empty() || calls.all(|call| self.calls.contains(call)))
    }
}
