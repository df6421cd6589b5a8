//! The flow row as the domain sees it: what is frozen, what is confirmed, what is scheduled.
//!
//! Pure data. How it lies in a table is the store's business (`store::rows`).

use chrono::{DateTime, Utc};

use crate::answer::ErrorCode;
use crate::ids::{
    Actor, AttemptNo, CallerId, DownstreamName, DownstreamRef, FlowId, RefundOrderNo, Target, TradeOrderNo,
    Version,
};
use crate::money::Money;
use crate::state::{ClientState, State};

/// One payment attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Primary key; the order numbers are derived from it.
    pub id: FlowId,
    /// User, scene and business goal.
    pub target: Target,
    /// Ordinal within the target.
    pub attempt_no: AttemptNo,
    /// The wallet's number for the charge.
    pub trade_order_no: TradeOrderNo,
    /// The wallet's number for the refund.
    pub refund_order_no: RefundOrderNo,
    /// Where the attempt stands.
    pub state: State,
    /// Grows by one with every write.
    pub version: Version,
    /// What is charged, and refunded in full if it comes to that. Frozen.
    pub money: Money,
    /// From this moment on no debit and no execution may be started. Frozen.
    pub deadline: DateTime<Utc>,
    /// Wallet that serves it. Frozen.
    pub wallet: DownstreamName,
    /// Business system that serves it. Frozen.
    pub business: DownstreamName,
    /// Opaque text handed to the business system with the execution. Frozen.
    pub context: Option<String>,
    /// The application that asked. Frozen.
    pub caller: CallerId,
    /// When it is next due. Scheduling only: unrelated to the deadline.
    pub next_retry_time: DateTime<Utc>,
    /// Tries in the present state that the retry schedule counts.
    pub retry_count: u32,
    /// Why it did not move the last time.
    pub last_error_code: Option<ErrorCode>,
    /// The downstream's id of the last request.
    pub channel_request_id: Option<DownstreamRef>,
    /// Set once, while nothing was executed: no debit and no execution is started any more.
    pub cancel: Option<CancelRequest>,
    /// While set, nothing moves the flow but people.
    pub hold: Option<Hold>,
    /// Frozen when `REFUNDING` is entered.
    pub refund: Option<RefundTerms>,
    /// The wallet's transaction that charged.
    pub wallet_pay_txn: Option<DownstreamRef>,
    /// The wallet's transaction that refunded.
    pub wallet_refund_txn: Option<DownstreamRef>,
    /// When the charge was confirmed to us.
    pub paid_at: Option<DateTime<Utc>>,
    /// When a terminal state was entered.
    pub finished_at: Option<DateTime<Utc>>,
    /// When the present state was entered.
    pub state_entered_at: DateTime<Utc>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last written.
    pub updated_at: DateTime<Utc>,
}

impl Flow {
    /// What a client is shown.
    pub fn client_state(&self) -> ClientState {
        ClientState::of(self.state, self.hold.is_some())
    }

    /// Whether a debit or an execution may still be started at `now`.
    pub fn may_cause_effects(&self, now: DateTime<Utc>) -> bool {
        self.cancel.is_none() && now < self.deadline
    }
}

/// The two kinds of downstream system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Charges and refunds.
    Wallet,
    /// Hands over the benefit.
    Business,
}

/// One downstream system. Flows wait in line for it, and never behind those that wait for another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lane {
    /// Wallet or business system.
    pub side: Side,
    /// Its configured name.
    pub name: DownstreamName,
}

impl Lane {
    /// Whom the next call of a flow is for; of a terminal one, whom the last was for.
    pub fn of(state: State, wallet: DownstreamName, business: DownstreamName) -> Lane {
        match state {
            State::WaitPay | State::Paying | State::PayFail | State::Refunding | State::Refunded => {
                Lane { side: Side::Wallet, name: wallet }
            }
            State::Payed | State::BizSuccess => Lane { side: Side::Business, name: business },
        }
    }
}

/// A client's wish to stop the payment before anything was executed.
///
/// Accepted in `WAIT_PAY` and `PAYING` alone. Since a row that carries it can never be executed, and the row is only
/// executed from `PAYED`, a cancelled flow in `PAYED` is known never to have been executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelRequest {
    /// When it was recorded.
    pub at: DateTime<Utc>,
    /// By whom.
    pub by: Actor,
}

/// A freeze: the flow keeps its state and waits for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Why.
    pub reason: HoldReason,
    /// Since when.
    pub since: DateTime<Utc>,
    /// By whom; the system signs as `system`.
    pub by: Actor,
}

/// Why a flow is frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldReason {
    /// The wallet charged or refunded another amount than ours.
    AmountMismatch,
    /// The wallet answered in another currency than ours.
    CurrencyMismatch,
    /// The wallet's order belongs to another user.
    UserMismatch,
    /// The wallet knows our number with other parameters.
    WalletConflict,
    /// The business knows our number with other parameters.
    BusinessConflict,
    /// State and owner of the business fact contradict each other.
    BusinessContradiction,
    /// The business fact stayed unreadable for too long after the deadline: never a blind refund.
    BusinessUnreadable,
    /// The wallet refused the refund too often.
    RefundRefused,
    /// The wallet reports a refund for a charge it reports as never made, or the like.
    WalletContradiction,
    /// An operator decided so.
    Operator,
}

impl HoldReason {
    /// All reasons.
    pub const ALL: [HoldReason; 10] = [
        HoldReason::AmountMismatch,
        HoldReason::CurrencyMismatch,
        HoldReason::UserMismatch,
        HoldReason::WalletConflict,
        HoldReason::BusinessConflict,
        HoldReason::BusinessContradiction,
        HoldReason::BusinessUnreadable,
        HoldReason::RefundRefused,
        HoldReason::WalletContradiction,
        HoldReason::Operator,
    ];

    /// The spelling used in the database, in logs and over HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            HoldReason::AmountMismatch => "AMOUNT_MISMATCH",
            HoldReason::CurrencyMismatch => "CURRENCY_MISMATCH",
            HoldReason::UserMismatch => "USER_MISMATCH",
            HoldReason::WalletConflict => "WALLET_CONFLICT",
            HoldReason::BusinessConflict => "BUSINESS_CONFLICT",
            HoldReason::BusinessContradiction => "BUSINESS_CONTRADICTION",
            HoldReason::BusinessUnreadable => "BUSINESS_UNREADABLE",
            HoldReason::RefundRefused => "REFUND_REFUSED",
            HoldReason::WalletContradiction => "WALLET_CONTRADICTION",
            HoldReason::Operator => "OPERATOR",
        }
    }

    /// The reason spelled so.
    pub fn parse(text: &str) -> Option<HoldReason> {
        HoldReason::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// What is refunded and why: frozen when the refund is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundTerms {
    /// Always the whole charge, in minor units of the flow's currency.
    pub amount: i64,
    /// Why.
    pub reason: RefundReason,
    /// Which entrance decided it.
    pub source: Trigger,
}

/// Why a charge is paid back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefundReason {
    /// Not done, and the deadline plus the settle margin has passed.
    DeadlinePassed,
    /// Done, but for another order.
    OwnedByOther,
    /// Cancelled before anything was executed.
    Cancelled,
    /// Somebody moved the row by hand, and the database filled in the terms.
    ByHand,
}

impl RefundReason {
    /// All reasons.
    pub const ALL: [RefundReason; 4] = [
        RefundReason::DeadlinePassed,
        RefundReason::OwnedByOther,
        RefundReason::Cancelled,
        RefundReason::ByHand,
    ];

    /// The spelling used in the database, towards the wallet and over HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            RefundReason::DeadlinePassed => "DEADLINE_PASSED",
            RefundReason::OwnedByOther => "OWNED_BY_OTHER",
            RefundReason::Cancelled => "CANCELLED",
            RefundReason::ByHand => "BY_HAND",
        }
    }

    /// The reason spelled so.
    pub fn parse(text: &str) -> Option<RefundReason> {
        RefundReason::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// Which entrance woke the flow. Evidence for the audit log; never decided upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// The request that created it, or an explicit client action.
    Sync,
    /// The in-process timer.
    Timer,
    /// A wake-up message.
    Wake,
    /// The scanner's sweep.
    Scanner,
    /// A wallet's callback.
    Callback,
    /// A repair by reconciliation.
    Recon,
    /// A person on call.
    Operator,
}

impl Trigger {
    /// All entrances.
    pub const ALL: [Trigger; 7] = [
        Trigger::Sync,
        Trigger::Timer,
        Trigger::Wake,
        Trigger::Scanner,
        Trigger::Callback,
        Trigger::Recon,
        Trigger::Operator,
    ];

    /// The spelling used in the database, in logs and over HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            Trigger::Sync => "SYNC",
            Trigger::Timer => "TIMER",
            Trigger::Wake => "WAKE",
            Trigger::Scanner => "SCANNER",
            Trigger::Callback => "CALLBACK",
            Trigger::Recon => "RECON",
            Trigger::Operator => "OPERATOR",
        }
    }

    /// The entrance spelled so.
    pub fn parse(text: &str) -> Option<Trigger> {
        Trigger::ALL.into_iter().find(|trigger| trigger.as_str() == text)
    }
}
