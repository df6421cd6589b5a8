//! Deliberate faults, one at a time, to show that a proof would notice them: the model check and the simulation must
//! each find every one.
//!
//! A [`Subject`] is what a proof drives: the shipped code, or the shipped code with exactly one [`Mutant`]. Each of its
//! functions stands for one place of the product ([`decisions`], [`shell`]) and answers there as the product does
//! unless its mutant lives in that place. Pure; knows no port implementation and no runner.

mod decisions;
mod shell;
#[cfg(test)]
mod tests;

pub use shell::WriteHeard;

/// A deliberate fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mutant {
    /// A payment found in `PAYING` is debited again without asking the wallet first.
    SkipQuery,
    /// An unknown outcome of a debit is taken for a refusal.
    TimeoutIsFailure,
    /// "No such order" is taken for a refusal, though a debit may be under way.
    NotFoundIsFailure,
    /// A wallet that cannot close gets no grace for debits under way.
    NoGrace,
    /// A close whose answer was lost is taken for done.
    CloseUnconfirmed,
    /// "Still working on it" is taken for a charge.
    ProcessingIsCharged,
    /// A receipt over another amount is taken as ours.
    ReceiptUnchecked,
    /// A debit is sent before `PAYING` is written.
    DebitBeforePaying,
    /// A late answer to a query still starts a debit.
    LateFollow,
    /// A retried debit gets a new number.
    NewTradeNumber,
    /// A retried refund gets a new number.
    NewRefundNumber,
    /// An unreadable business fact is taken for "not done".
    UnavailableIsNotDone,
    /// The execution carries no deadline.
    NoNotAfter,
    /// A refund does not wait for slow clocks.
    NoSettleMargin,
    /// A refused execution is refunded before the deadline.
    RefundOnRejection,
    /// The fact is not read before a refund.
    RefundUnread,
    /// An answer is judged by the clock at its hearing.
    HearingClock,
    /// The owner of a fact is not looked at.
    OwnerIgnored,
    /// A cancellation is accepted after the charge was confirmed.
    LateCancel,
    /// A cancelled payment is executed all the same.
    CancelIgnored,
    /// A refund that is accepted counts as paid out.
    RefundProcessingIsRefunded,
    /// A refund that the wallet does not know counts as paid out.
    RefundNotFoundIsRefunded,
    /// A charge without benefit rests for ever once the deadline has passed.
    RefundForgotten,
    /// A success is paid back once its deadline has passed.
    SuccessRefunded,
    /// A new attempt is made while one is open.
    SecondWhileOpen,
    /// A new attempt is made after one succeeded.
    SecondAfterSuccess,
    /// The compare-and-swap compares the state alone.
    CasWithoutVersion,
    /// The compare-and-swap compares neither state nor version: a terminal row can be revived.
    CasById,
    /// A lost compare-and-swap is taken for won.
    LostIsWon,
    /// A write of unknown outcome is taken for written.
    UnknownIsWritten,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 30] = [
        Mutant::SkipQuery,
        Mutant::TimeoutIsFailure,
        Mutant::NotFoundIsFailure,
        Mutant::NoGrace,
        Mutant::CloseUnconfirmed,
        Mutant::ProcessingIsCharged,
        Mutant::ReceiptUnchecked,
        Mutant::DebitBeforePaying,
        Mutant::LateFollow,
        Mutant::NewTradeNumber,
        Mutant::NewRefundNumber,
        Mutant::UnavailableIsNotDone,
        Mutant::NoNotAfter,
        Mutant::NoSettleMargin,
        Mutant::RefundOnRejection,
        Mutant::RefundUnread,
        Mutant::HearingClock,
        Mutant::OwnerIgnored,
        Mutant::LateCancel,
        Mutant::CancelIgnored,
        Mutant::RefundProcessingIsRefunded,
        Mutant::RefundNotFoundIsRefunded,
        Mutant::RefundForgotten,
        Mutant::SuccessRefunded,
        Mutant::SecondWhileOpen,
        Mutant::SecondAfterSuccess,
        Mutant::CasWithoutVersion,
        Mutant::CasById,
        Mutant::LostIsWon,
        Mutant::UnknownIsWritten,
    ];

    /// The name used on command lines and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Mutant::SkipQuery => "skip-query",
            Mutant::TimeoutIsFailure => "timeout-is-failure",
            Mutant::NotFoundIsFailure => "not-found-is-failure",
            Mutant::NoGrace => "no-grace",
            Mutant::CloseUnconfirmed => "close-unconfirmed",
            Mutant::ProcessingIsCharged => "processing-is-charged",
            Mutant::ReceiptUnchecked => "receipt-unchecked",
            Mutant::DebitBeforePaying => "debit-before-paying",
            Mutant::LateFollow => "late-follow",
            Mutant::NewTradeNumber => "new-trade-number",
            Mutant::NewRefundNumber => "new-refund-number",
            Mutant::UnavailableIsNotDone => "unavailable-is-not-done",
            Mutant::NoNotAfter => "no-not-after",
            Mutant::NoSettleMargin => "no-settle-margin",
            Mutant::RefundOnRejection => "refund-on-rejection",
            Mutant::RefundUnread => "refund-unread",
            Mutant::HearingClock => "hearing-clock",
            Mutant::OwnerIgnored => "owner-ignored",
            Mutant::LateCancel => "late-cancel",
            Mutant::CancelIgnored => "cancel-ignored",
            Mutant::RefundProcessingIsRefunded => "refund-processing-is-refunded",
            Mutant::RefundNotFoundIsRefunded => "refund-not-found-is-refunded",
            Mutant::RefundForgotten => "refund-forgotten",
            Mutant::SuccessRefunded => "success-refunded",
            Mutant::SecondWhileOpen => "second-while-open",
            Mutant::SecondAfterSuccess => "second-after-success",
            Mutant::CasWithoutVersion => "cas-without-version",
            Mutant::CasById => "cas-by-id",
            Mutant::LostIsWon => "lost-is-won",
            Mutant::UnknownIsWritten => "unknown-is-written",
        }
    }

    /// What is wrong with it, in one sentence.
    pub const fn explain(self) -> &'static str {
        match self {
            Mutant::SkipQuery => {
                "A payment found in PAYING is debited again, whatever the time, without asking the wallet."
            }
            Mutant::TimeoutIsFailure => "A debit without an answer is taken for refused.",
            Mutant::NotFoundIsFailure => {
                "\"No such order\" fails the payment before the deadline, though a debit may be under way."
            }
            Mutant::NoGrace => {
                "At a wallet that cannot close, \"no such order\" is final at the deadline, though a debit may be under way."
            }
            Mutant::CloseUnconfirmed => "A close without an answer is taken for done.",
            Mutant::ProcessingIsCharged => "\"Still working on it\" is taken for a charge.",
            Mutant::ReceiptUnchecked => "A receipt over another amount is taken as ours.",
            Mutant::DebitBeforePaying => "The wallet hears of the payment before PAYING is written.",
            Mutant::LateFollow => {
                "The answer to a query that was asked in time starts a debit, however late the answer is heard."
            }
            Mutant::NewTradeNumber => "A debit after \"no such order\" gets a new number.",
            Mutant::NewRefundNumber => "A refund after \"no such refund\" gets a new number.",
            Mutant::UnavailableIsNotDone => "An unreadable business fact is taken for \"not done\".",
            Mutant::NoNotAfter => {
                "The execution carries no deadline, so the business takes it however late it arrives."
            }
            Mutant::NoSettleMargin => {
                "A refund does not wait until the slowest clock has passed the deadline."
            }
            Mutant::RefundOnRejection => {
                "A refused execution is refunded before the deadline, though another may still arrive."
            }
            Mutant::RefundUnread => {
                "After the deadline the refund is decided without reading the business fact."
            }
            Mutant::HearingClock => "An answer is judged by the clock at its hearing, not at its asking.",
            Mutant::OwnerIgnored => "A benefit handed over for another order is taken for ours.",
            Mutant::LateCancel => {
                "A cancellation is recorded after the charge was confirmed, when an execution may be under way."
            }
            Mutant::CancelIgnored => "A cancelled payment is debited and executed all the same.",
            Mutant::RefundProcessingIsRefunded => "A refund that was only accepted counts as paid out.",
            Mutant::RefundNotFoundIsRefunded => "A refund that the wallet does not know counts as paid out.",
            Mutant::RefundForgotten => "A charge without a benefit rests once the deadline has passed.",
            Mutant::SuccessRefunded => {
                "A payment past its deadline that is come upon is paid back, though it succeeded."
            }
            Mutant::SecondWhileOpen => "A second attempt is made while the first is open.",
            Mutant::SecondAfterSuccess => "A second attempt is made after the first succeeded.",
            Mutant::CasWithoutVersion => {
                "The compare-and-swap compares the state alone, so an old row's owner still writes."
            }
            Mutant::CasById => "The compare-and-swap compares neither state nor version.",
            Mutant::LostIsWon => "A lost compare-and-swap is taken for won.",
            Mutant::UnknownIsWritten => "A write whose outcome is unknown is taken for written.",
        }
    }

    /// The mutant of this name.
    pub fn named(name: &str) -> Option<Mutant> {
        Mutant::ALL.into_iter().find(|mutant| mutant.name() == name)
    }
}

/// What a proof drives: the product as shipped, or with one fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Subject(Option<Mutant>);

impl Subject {
    /// The product as shipped.
    pub const SHIPPED: Subject = Subject(None);

    /// The product with this fault.
    pub const fn with(mutant: Mutant) -> Subject {
        Subject(Some(mutant))
    }

    /// Its fault.
    pub const fn mutant(self) -> Option<Mutant> {
        self.0
    }

    fn is(self, mutant: Mutant) -> bool {
        self.0 == Some(mutant)
    }
}
