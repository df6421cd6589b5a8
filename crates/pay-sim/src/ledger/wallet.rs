//! The wallet's rules: debit, query, close, refund, query refund.

use super::types::{
    CloseRefusal, Course, Debit, DebitRefusal, DebitView, Money, Refund, RefundRefusal, RefundStatus,
    RefundView,
};
use super::world::{DebitRecord, DebitState, DebitTerms, Effect, RefundRecord, RefundState, Touch, World};

/// The balance does not cover the charge.
const INSUFFICIENT_FUNDS: &str = "INSUFFICIENT_FUNDS";
/// The debit arrived, or would have taken effect, at or after its `not_after`.
const DEADLINE_PASSED: &str = "DEADLINE_PASSED";

impl World {
    /// Takes money once per number. See [`World::debit_as`].
    ///
    /// # Errors
    /// When the number is bound to other parameters or the amount is not positive; nothing was charged then.
    pub fn debit(&mut self, debit: &Debit, now_ms: i64) -> Result<DebitView, DebitRefusal> {
        self.debit_as(debit, &Course::Normal, now_ms)
    }

    /// Takes money once per number, at once or as the course says. An order that already has a state answers that state.
    ///
    /// # Errors
    /// When the number is bound to other parameters or the amount is not positive; nothing was charged then.
    pub fn debit_as(
        &mut self,
        debit: &Debit,
        course: &Course,
        now_ms: i64,
    ) -> Result<DebitView, DebitRefusal> {
        let no = debit.trade_order_no.as_str();
        self.order_mut(no).calls.debit += 1;
        if debit.money.amount <= 0 {
            return Err(DebitRefusal::InvalidAmount);
        }
        self.settle_debit(no, Touch::Any, now_ms);
        if let Some(record) = self.orders.get(no).and_then(|order| order.debit.as_ref()) {
            let same =
                record.terms.as_ref().is_none_or(|t| t.user_id == debit.user_id && t.money == debit.money);
            if !same {
                return Err(DebitRefusal::OrderConflict);
            }
            if self.switches.double_charge && matches!(record.state, DebitState::Charged { .. }) {
                drop(self.post_charge(no, debit.user_id, &debit.money, now_ms));
            }
        } else {
            let terms = DebitTerms {
                user_id: debit.user_id,
                money: debit.money.clone(),
                not_after_ms: debit.not_after_ms,
            };
            let state = match course {
                Course::Normal => self.charge(no, &terms, now_ms),
                Course::Defer(deferral) => DebitState::Pending(deferral.clone()),
                Course::Refuse { code } => DebitState::Failed { code: code.clone(), at_ms: now_ms },
            };
            self.order_mut(no).debit = Some(DebitRecord { terms: Some(terms), state });
        }
        Ok(self.debit_view(no).expect("the order got a debit record above"))
    }

    /// The order's state, or none when no debit and no close ever arrived under this number.
    pub fn query(&mut self, trade_order_no: &str, now_ms: i64) -> Option<DebitView> {
        self.settle_debit(trade_order_no, Touch::Query, now_ms);
        self.debit_view(trade_order_no)
    }

    /// Whether [`World::query`] would change the world now.
    #[must_use]
    pub fn query_settles(&self, trade_order_no: &str, now_ms: i64) -> bool {
        self.debit_is_due(trade_order_no, Touch::Query, now_ms)
    }

    /// Makes sure that the number will never be charged, unless it was: then it answers `Success` and stays charged.
    ///
    /// # Errors
    /// When this wallet can not close.
    pub fn close(&mut self, trade_order_no: &str, now_ms: i64) -> Result<DebitView, CloseRefusal> {
        self.order_mut(trade_order_no).calls.close += 1;
        if self.switches.close_unsupported {
            return Err(CloseRefusal::Unsupported);
        }
        self.settle_debit(trade_order_no, Touch::Any, now_ms);
        let order = self.order_mut(trade_order_no);
        if order.debit.is_none() {
            let state = DebitState::Closed { at_ms: now_ms };
            order.debit = Some(DebitRecord { terms: None, state });
        }
        Ok(self.debit_view(trade_order_no).expect("the order got a debit record above"))
    }

    /// Gives money back once per number. See [`World::refund_as`].
    ///
    /// # Errors
    /// When it was refused without a record; no money moved then.
    pub fn refund(&mut self, refund: &Refund, now_ms: i64) -> Result<RefundView, RefundRefusal> {
        self.refund_as(refund, &Course::Normal, now_ms)
    }

    /// Gives money back once per number, at once or as the course says. A failed refund is tried again.
    ///
    /// # Errors
    /// When it was refused without a record; no money moved then.
    pub fn refund_as(
        &mut self,
        refund: &Refund,
        course: &Course,
        now_ms: i64,
    ) -> Result<RefundView, RefundRefusal> {
        let no = refund.trade_order_no.as_str();
        self.order_mut(no).calls.refund += 1;
        if refund.money.amount <= 0 {
            return Err(RefundRefusal::InvalidAmount);
        }
        self.settle_debit(no, Touch::Any, now_ms);
        self.settle_refund(&refund.refund_order_no, Touch::Any, now_ms);
        if let Some(record) = self.refunds.get(&refund.refund_order_no) {
            if record.request != *refund {
                return Err(RefundRefusal::RefundConflict);
            }
            let view = record.view();
            match record.state {
                RefundState::Refunded { .. } if self.switches.double_refund => {
                    drop(self.post_refund(refund, now_ms));
                    return Ok(view);
                }
                RefundState::Pending(_) | RefundState::Refunded { .. } => return Ok(view),
                RefundState::Failed { .. } => {}
            }
        }
        self.check_refundable(refund)?;
        let state = match course {
            Course::Normal => {
                RefundState::Refunded { transaction_id: self.post_refund(refund, now_ms), at_ms: now_ms }
            }
            Course::Defer(deferral) => RefundState::Pending(deferral.clone()),
            Course::Refuse { code } => RefundState::Failed { code: code.clone(), at_ms: now_ms },
        };
        let record = RefundRecord { request: refund.clone(), state };
        let view = record.view();
        if self.refunds.insert(refund.refund_order_no.clone(), record).is_none() {
            self.order_mut(no).refund_nos.push(refund.refund_order_no.clone());
        }
        Ok(view)
    }

    /// The refund's state, or none when no refund was recorded under this number.
    pub fn query_refund(&mut self, refund_order_no: &str, now_ms: i64) -> Option<RefundView> {
        self.settle_refund(refund_order_no, Touch::Query, now_ms);
        self.refunds.get(refund_order_no).map(RefundRecord::view)
    }

    /// Whether [`World::query_refund`] would change the world now.
    #[must_use]
    pub fn query_refund_settles(&self, refund_order_no: &str, now_ms: i64) -> bool {
        self.refund_is_due(refund_order_no, Touch::Query, now_ms)
    }

    pub(super) fn settle_debit(&mut self, no: &str, touch: Touch, now_ms: i64) {
        if !self.debit_is_due(no, touch, now_ms) {
            return;
        }
        let terms = self.orders.get(no).and_then(|o| o.debit.as_ref()).and_then(|d| d.terms.clone());
        let terms = terms.expect("only a debit that arrived with its terms is ever pending");
        let state = self.charge(no, &terms, now_ms);
        self.order_mut(no).debit = Some(DebitRecord { terms: Some(terms), state });
    }

    pub(super) fn settle_refunds(&mut self, no: &str, now_ms: i64) {
        let refund_nos = self.orders.get(no).map(|order| order.refund_nos.clone()).unwrap_or_default();
        for refund_no in refund_nos {
            self.settle_refund(&refund_no, Touch::Any, now_ms);
        }
    }

    fn settle_refund(&mut self, refund_no: &str, touch: Touch, now_ms: i64) {
        if !self.refund_is_due(refund_no, touch, now_ms) {
            return;
        }
        let request = self.refunds.get(refund_no).map(|record| record.request.clone());
        let request = request.expect("a refund that is due is recorded");
        let transaction_id = self.post_refund(&request, now_ms);
        let state = RefundState::Refunded { transaction_id, at_ms: now_ms };
        self.refunds.insert(refund_no.to_owned(), RefundRecord { request, state });
    }

    fn debit_is_due(&self, no: &str, touch: Touch, now_ms: i64) -> bool {
        match self.orders.get(no).and_then(|order| order.debit.as_ref()).map(|debit| &debit.state) {
            Some(DebitState::Pending(deferral)) => deferral.is_due(touch, now_ms),
            Some(DebitState::Charged { .. } | DebitState::Failed { .. } | DebitState::Closed { .. })
            | None => false,
        }
    }

    fn refund_is_due(&self, refund_no: &str, touch: Touch, now_ms: i64) -> bool {
        match self.refunds.get(refund_no).map(|record| &record.state) {
            Some(RefundState::Pending(deferral)) => deferral.is_due(touch, now_ms),
            Some(RefundState::Refunded { .. } | RefundState::Failed { .. }) | None => false,
        }
    }

    /// The one place where a debit becomes a charge or a failure.
    fn charge(&mut self, no: &str, terms: &DebitTerms, now_ms: i64) -> DebitState {
        if terms.not_after_ms.is_some_and(|not_after_ms| now_ms >= not_after_ms) {
            return DebitState::Failed { code: DEADLINE_PASSED.to_owned(), at_ms: now_ms };
        }
        match self.post_charge(no, terms.user_id, &terms.money, now_ms) {
            Some(transaction_id) => DebitState::Charged { transaction_id, at_ms: now_ms },
            None => DebitState::Failed { code: INSUFFICIENT_FUNDS.to_owned(), at_ms: now_ms },
        }
    }

    /// Whether this refund may be posted: the order was charged, to this user, and enough of it is left.
    fn check_refundable(&self, refund: &Refund) -> Result<(), RefundRefusal> {
        let order = self.orders.get(&refund.trade_order_no).ok_or(RefundRefusal::OrderNotCharged)?;
        let charged = order.entries.iter().find_map(|entry| match &entry.effect {
            Effect::Charge { money, .. } => Some(money),
            Effect::Refund { .. } | Effect::Grant { .. } => None,
        });
        let terms = order.debit.as_ref().and_then(|debit| debit.terms.as_ref());
        let (Some(charged), Some(terms)) = (charged, terms) else {
            return Err(RefundRefusal::OrderNotCharged);
        };
        if terms.user_id != refund.user_id || charged.currency != refund.money.currency {
            return Err(RefundRefusal::RefundConflict);
        }
        let taken: i64 = order
            .refund_nos
            .iter()
            .filter(|refund_no| **refund_no != refund.refund_order_no)
            .filter_map(|refund_no| self.refunds.get(refund_no))
            .filter_map(RefundRecord::reserved)
            .map(|money| money.amount)
            .sum();
        match taken.checked_add(refund.money.amount) {
            Some(total) if total <= charged.amount => Ok(()),
            Some(_) | None => Err(RefundRefusal::RefundExceedsCharge),
        }
    }

    /// As [`World::query`], without carrying out anything deferred.
    #[must_use]
    pub fn debit_view(&self, trade_order_no: &str) -> Option<DebitView> {
        let record = self.orders.get(trade_order_no)?.debit.as_ref()?;
        let mut view = DebitView {
            trade_order_no: trade_order_no.to_owned(),
            status: record.state.status(),
            user_id: record.terms.as_ref().map(|terms| terms.user_id),
            money: record.terms.as_ref().map(|terms| terms.money.clone()),
            transaction_id: None,
            failure_code: None,
            finished_at_ms: None,
        };
        match &record.state {
            DebitState::Pending(_) => {}
            DebitState::Charged { transaction_id, at_ms } => {
                view.transaction_id = Some(transaction_id.clone());
                view.finished_at_ms = Some(*at_ms);
            }
            DebitState::Failed { code, at_ms } => {
                view.failure_code = Some(code.clone());
                view.finished_at_ms = Some(*at_ms);
            }
            DebitState::Closed { at_ms } => view.finished_at_ms = Some(*at_ms),
        }
        Some(view)
    }

    /// An order's charge and latest refund, without carrying out anything deferred.
    #[must_use]
    pub fn standing(&self, trade_order_no: &str) -> Option<(DebitView, Option<RefundView>)> {
        let debit = self.debit_view(trade_order_no)?;
        let latest = self.orders.get(trade_order_no)?.refund_nos.last();
        Some((debit, latest.and_then(|number| self.refunds.get(number)).map(RefundRecord::view)))
    }
}

impl RefundRecord {
    /// Money this refund took or may still take out of its charge.
    fn reserved(&self) -> Option<&Money> {
        match self.state {
            RefundState::Pending(_) | RefundState::Refunded { .. } => Some(&self.request.money),
            RefundState::Failed { .. } => None,
        }
    }

    fn view(&self) -> RefundView {
        let request = &self.request;
        let mut view = RefundView {
            refund_order_no: request.refund_order_no.clone(),
            trade_order_no: request.trade_order_no.clone(),
            status: RefundStatus::Processing,
            user_id: request.user_id,
            money: request.money.clone(),
            transaction_id: None,
            failure_code: None,
            finished_at_ms: None,
        };
        match &self.state {
            RefundState::Pending(_) => {}
            RefundState::Refunded { transaction_id, at_ms } => {
                view.status = RefundStatus::Success;
                view.transaction_id = Some(transaction_id.clone());
                view.finished_at_ms = Some(*at_ms);
            }
            RefundState::Failed { code, at_ms } => {
                view.status = RefundStatus::Failed;
                view.failure_code = Some(code.clone());
                view.finished_at_ms = Some(*at_ms);
            }
        }
        view
    }
}
