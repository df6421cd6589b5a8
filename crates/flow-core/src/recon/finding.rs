//! The kinds of difference: what each means, what must be confirmed before it is repaired, and who may repair it.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

/// What may be done about a difference without people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// An authoritative query decides: the flow is woken, and asks.
    Ask,
    /// The flow is held, and people decide.
    Hold,
    /// People decide; there is no flow that could be woken or held for it.
    People,
}

/// Every kind has its spelling, its remedy, whether its repair moves money, its explanation and what must be confirmed.
macro_rules! kinds {
    ($($kind:ident = $name:literal, $remedy:ident, $moves_money:literal, $explanation:literal, $confirm:literal;)+) => {
        /// A kind of difference.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub enum FindingKind {
            $(#[doc = $explanation] $kind),+
        }

        impl FindingKind {
            /// All kinds.
            pub const ALL: &[FindingKind] = &[$(FindingKind::$kind),+];

            /// The spelling used in the database, in logs, reports and over HTTP.
            pub const fn as_str(self) -> &'static str {
                match self { $(FindingKind::$kind => $name),+ }
            }

            /// What may be done about it without people.
            pub const fn remedy(self) -> Remedy {
                match self { $(FindingKind::$kind => Remedy::$remedy),+ }
            }

            /// Whether repairing it by hand charges or pays back: a second person confirms such a repair.
            pub const fn moves_money(self) -> bool {
                match self { $(FindingKind::$kind => $moves_money),+ }
            }

            /// What it means, for whoever reads the ticket.
            pub const fn explanation(self) -> &'static str {
                match self { $(FindingKind::$kind => $explanation),+ }
            }

            /// What must be confirmed before anything is repaired.
            pub const fn confirm(self) -> &'static str {
                match self { $(FindingKind::$kind => $confirm),+ }
            }
        }
    };
}

kinds! {
    WalletPaidLocalOpen = "WALLET_PAID_LOCAL_OPEN", Ask, false,
        "The wallet's bill has the charge, the payment is still open here: an answer was lost, or nobody worked on it.",
        "Order number, amount and user are the same on both sides; the wallet's own query says that it was charged.";
    WalletPaidLocalPayFail = "WALLET_PAID_LOCAL_PAY_FAIL", People, true,
        "The wallet's bill has the charge, the payment ended here as failed: the user paid and was told otherwise.",
        "The wallet's query says that it was charged and not paid back; no other attempt of the target was charged.";
    WalletPaidNoFlow = "WALLET_PAID_NO_FLOW", People, true,
        "The wallet's bill has a charge under a number that was never created here.",
        "The row belongs to this merchant, this environment and this channel; who made the number.";
    LocalPaidWalletNothing = "LOCAL_PAID_WALLET_NOTHING", Ask, true,
        "The payment counts as charged here, and the wallet's bill of the day has no such charge.",
        "The bill covers this account and this day; the wallet's query of the number; the neighbouring days' bills.";
    LocalSuccessWalletNothing = "LOCAL_SUCCESS_WALLET_NOTHING", People, true,
        "The benefit was handed over as paid, and the wallet's bill of the day has no such charge.",
        "The bill covers this account, this day and this environment; the wallet's query of the number.";
    WalletRefundedLocalRefunding = "WALLET_REFUNDED_LOCAL_REFUNDING", Ask, false,
        "The wallet's bill has the refund, here it is still under way: the refund's answer was lost.",
        "Original charge, refund number and refunded amount are the same on both sides.";
    WalletRefundedLocalSuccess = "WALLET_REFUNDED_LOCAL_SUCCESS", People, true,
        "The wallet paid back a payment whose benefit was handed over.",
        "Who asked the wallet for the refund; whether the benefit is still owned by this order.";
    LocalRefundedWalletOpen = "LOCAL_REFUNDED_WALLET_OPEN", People, true,
        "The payment counts as refunded here, and the wallet's bill of the day has no refund that was paid out.",
        "The refund order's state by the wallet's query; a bill may list a refund as accepted days before it is paid.";
    WalletRefundedUnasked = "WALLET_REFUNDED_UNASKED", Hold, true,
        "The wallet's bill has a refund of this payment that nobody here decided on.",
        "Who asked the wallet for the refund, under which number; whether ours would now be a second one.";
    RefundWithoutPayment = "REFUND_WITHOUT_PAYMENT", Hold, true,
        "The wallet's bill has a refund of a payment that neither the bill nor this service knows as charged.",
        "The original charge in the bills of earlier days; whose money was paid out.";
    RefundAbovePayment = "REFUND_ABOVE_PAYMENT", Hold, true,
        "More was paid back than was charged.",
        "Charge and every refund by the wallet's query; which of the refunds was asked for by whom.";
    RefundOfAnotherPayment = "REFUND_OF_ANOTHER_PAYMENT", Hold, true,
        "The bill books a refund number of this payment against another payment.",
        "Which charge the wallet reduced; whether the other payment was to be refunded.";
    AmountDiffers = "AMOUNT_DIFFERS", Hold, true,
        "Bill and payment disagree about the amount.",
        "The wallet's order by query, the frozen amount, and which of the two the user agreed to.";
    CarriedAmountDiffers = "CARRIED_AMOUNT_DIFFERS", Hold, true,
        "Bill and payment lie on different sides of a midnight, belong together, and disagree about the amount.",
        "That it is one payment and not two of neighbouring days; then as for any difference of amounts.";
    CurrencyDiffers = "CURRENCY_DIFFERS", Hold, true,
        "Bill and payment disagree about the currency.",
        "The account that the wallet charged, and the frozen currency.";
    UserDiffers = "USER_DIFFERS", Hold, true,
        "The bill names another payer than the payment.",
        "Whose balance was charged; whether two users' numbers were exchanged.";
    ReferenceDiffers = "REFERENCE_DIFFERS", Hold, false,
        "The bill gives the order another transaction than the one that was confirmed here.",
        "Both transactions by the wallet's query: one may be a second charge.";
    DuplicateBillRow = "DUPLICATE_BILL_ROW", People, false,
        "The bill lists one transaction more than once.",
        "That it is one transaction and not two charges; the bill's own totals.";
    TwoCharges = "TWO_CHARGES", Hold, true,
        "The wallet charged one order number more than once, in different transactions.",
        "Each transaction by the wallet's query; pay back all but one.";
    TwoAttemptsCharged = "TWO_ATTEMPTS_CHARGED", Hold, true,
        "Two attempts at one target were charged, and only one of them owns the benefit.",
        "Which attempt owns the benefit; the other one is paid back.";
    BenefitWithoutPayment = "BENEFIT_WITHOUT_PAYMENT", Hold, true,
        "The business system handed the benefit over for this order, and it is not charged, or was paid back.",
        "The wallet's query of charge and refund; whether the benefit can be taken back.";
    BenefitOwnedByOther = "BENEFIT_OWNED_BY_OTHER", Hold, true,
        "This payment was charged, and the benefit belongs to another order.",
        "Which order the business system handed the benefit over for; what that order paid.";
    PayedBenefitUnattributed = "PAYED_BENEFIT_UNATTRIBUTED", Hold, false,
        "The payment is charged and not ended, while the business system says that the benefit is handed over.",
        "Which attempt the success belongs to; an old writer may have left the owner out.";
    SuccessWithoutBenefit = "SUCCESS_WITHOUT_BENEFIT", People, true,
        "The payment ended as successful, and the business system has not handed the benefit over.",
        "The business record of the target; whether the benefit was taken back afterwards.";
    FactUnreadable = "FACT_UNREADABLE", People, false,
        "The business system gave no definite answer about this order; the third side was not compared.",
        "The business record of the target, read by hand.";
    TimeGap = "TIME_GAP", People, false,
        "Both sides agree, at times that lie further apart than is usual.",
        "The clocks of both sides, and how long the answer was under way.";
}

impl FindingKind {
    /// Reads the spelling of [`FindingKind::as_str`].
    pub fn parse(text: &str) -> Option<FindingKind> {
        FindingKind::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }

    /// Whether it says that an entry is missing on the other side: what a neighbouring day's entry may yet explain.
    pub const fn is_absence(self) -> bool {
        match self {
            FindingKind::WalletPaidNoFlow
            | FindingKind::LocalPaidWalletNothing
            | FindingKind::LocalSuccessWalletNothing
            | FindingKind::LocalRefundedWalletOpen
            | FindingKind::RefundWithoutPayment => true,
            FindingKind::WalletPaidLocalOpen
            | FindingKind::WalletPaidLocalPayFail
            | FindingKind::WalletRefundedLocalRefunding
            | FindingKind::WalletRefundedLocalSuccess
            | FindingKind::WalletRefundedUnasked
            | FindingKind::RefundAbovePayment
            | FindingKind::RefundOfAnotherPayment
            | FindingKind::AmountDiffers
            | FindingKind::CarriedAmountDiffers
            | FindingKind::CurrencyDiffers
            | FindingKind::UserDiffers
            | FindingKind::ReferenceDiffers
            | FindingKind::DuplicateBillRow
            | FindingKind::TwoCharges
            | FindingKind::TwoAttemptsCharged
            | FindingKind::BenefitWithoutPayment
            | FindingKind::BenefitOwnedByOther
            | FindingKind::PayedBenefitUnattributed
            | FindingKind::SuccessWithoutBenefit
            | FindingKind::FactUnreadable
            | FindingKind::TimeGap => false,
        }
    }
}

impl From<FindingKind> for String {
    fn from(kind: FindingKind) -> String {
        kind.as_str().to_owned()
    }
}

impl TryFrom<String> for FindingKind {
    type Error = String;
    fn try_from(text: String) -> Result<FindingKind, String> {
        FindingKind::parse(&text).ok_or_else(|| format!("there is no kind of difference called {text:?}"))
    }
}

/// What is in question, in minor units of a currency. The currency is the bill's word where only the bill has one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stake {
    /// Minor units.
    pub amount_minor: u64,
    /// Currency or asset.
    pub currency: String,
}

/// One difference of one order on one business day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Finding {
    /// The business day whose records disagree.
    pub day: NaiveDate,
    /// Of which kind.
    pub kind: FindingKind,
    /// Both values, in words. The same for the same records, whenever it is looked at.
    pub detail: String,
    /// How much is in question.
    pub stake: Stake,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_spelling_of_its_own_that_is_read_back() {
        let names: BTreeSet<&str> = FindingKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), FindingKind::ALL.len());
        for kind in FindingKind::ALL {
            assert_eq!(FindingKind::parse(kind.as_str()), Some(*kind));
            assert!(kind.as_str().len() <= 32, "{} does not fit the report's column", kind.as_str());
            assert!(kind.explanation().ends_with('.') && kind.confirm().ends_with('.'), "{}", kind.as_str());
        }
        assert_eq!(FindingKind::parse("amount_differs"), None);
    }

    #[test]
    fn what_is_repaired_by_asking_moves_no_money_by_hand_unless_the_money_is_missing() {
        for kind in FindingKind::ALL.iter().filter(|kind| kind.remedy() == Remedy::Ask) {
            assert!(!kind.moves_money() || kind.is_absence(), "{}", kind.as_str());
        }
    }
}
