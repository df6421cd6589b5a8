//! The business system's rules: execute and fact.

use super::types::{Course, ExecuteRefusal, Execution, ExecutionView, FactStatus, FactView, Target};
use super::world::{ExecutionRecord, Touch, World};

impl World {
    /// Grants the benefit once per target. See [`World::execute_as`].
    ///
    /// # Errors
    /// When it was refused; this call granted nothing then.
    pub fn execute(&mut self, execution: &Execution, now_ms: i64) -> Result<ExecutionView, ExecuteRefusal> {
        self.execute_as(execution, &Course::Normal, now_ms)
    }

    /// Grants the benefit once per target, at once or as the course says. A target this order already owns answers `Done`,
    /// also after `not_after`: nothing is granted again.
    ///
    /// # Errors
    /// When it was refused; this call granted nothing then.
    pub fn execute_as(
        &mut self,
        execution: &Execution,
        course: &Course,
        now_ms: i64,
    ) -> Result<ExecutionView, ExecuteRefusal> {
        let no = execution.trade_order_no.as_str();
        let order = self.order_mut(no);
        order.calls.execute += 1;
        match &order.execution {
            Some(record) if record.request != *execution => return Err(ExecuteRefusal::ExecutionConflict),
            Some(_) => {}
            None => {
                order.execution = Some(ExecutionRecord { request: execution.clone(), pending: None });
                self.targets.entry(execution.target.clone()).or_default().order_nos.push(no.to_owned());
            }
        }
        self.settle_execution(no, Touch::Any, now_ms);
        if self.execution_pending(no) {
            return Ok(not_done(None));
        }
        match course {
            Course::Normal => self.grant(execution, now_ms),
            Course::Defer(deferral) => {
                self.check_grantable(execution, now_ms)?;
                if self.owns(no, &execution.target) {
                    return Ok(done(no));
                }
                if let Some(record) = &mut self.order_mut(no).execution {
                    record.pending = Some(deferral.clone());
                }
                Ok(not_done(None))
            }
            Course::Refuse { .. } if self.owns(no, &execution.target) => Ok(done(no)),
            Course::Refuse { code } => Ok(not_done(Some(code.clone()))),
        }
    }

    /// Whether the target is done, and by which order. A target nobody ever executed is `NotDone`.
    pub fn fact(&mut self, target: &Target, now_ms: i64) -> FactView {
        if self.fact_settles(target, now_ms) {
            let order_nos =
                self.targets.get(target).map(|record| record.order_nos.clone()).unwrap_or_default();
            for order_no in order_nos {
                self.settle_execution(&order_no, Touch::Query, now_ms);
            }
        }
        match self.targets.get(target).and_then(|record| record.owner.as_ref()) {
            Some(owner) => FactView {
                status: FactStatus::Done,
                owner_order_no: Some(owner.order_no.clone()),
                finished_at_ms: Some(owner.at_ms),
            },
            None => FactView { status: FactStatus::NotDone, owner_order_no: None, finished_at_ms: None },
        }
    }

    /// Whether [`World::fact`] would change the world now.
    #[must_use]
    pub fn fact_settles(&self, target: &Target, now_ms: i64) -> bool {
        let Some(record) = self.targets.get(target) else { return false };
        record.order_nos.iter().any(|no| self.execution_is_due(no, Touch::Query, now_ms))
    }

    pub(super) fn settle_execution(&mut self, no: &str, touch: Touch, now_ms: i64) {
        if !self.execution_is_due(no, touch, now_ms) {
            return;
        }
        let request = self.orders.get_mut(no).and_then(|order| order.execution.as_mut()).map(|record| {
            record.pending = None;
            record.request.clone()
        });
        let request = request.expect("an execution that is due is recorded");
        // A refusal (too late, or another order was quicker) leaves the fact as it is; nobody waits for this answer.
        drop(self.grant(&request, now_ms));
    }

    /// The conditional write: the target's state and `not_after` are checked and the owner is set in one step.
    fn grant(&mut self, execution: &Execution, now_ms: i64) -> Result<ExecutionView, ExecuteRefusal> {
        let no = execution.trade_order_no.as_str();
        self.check_grantable(execution, now_ms)?;
        if !self.owns(no, &execution.target) {
            self.post_grant(no, &execution.target, now_ms);
        }
        Ok(done(no))
    }

    fn check_grantable(&self, execution: &Execution, now_ms: i64) -> Result<(), ExecuteRefusal> {
        match self.targets.get(&execution.target).and_then(|record| record.owner.as_ref()) {
            Some(owner) if owner.order_no == execution.trade_order_no => Ok(()),
            Some(owner) => Err(ExecuteRefusal::OwnedByOther { owner_order_no: owner.order_no.clone() }),
            None if now_ms >= execution.not_after_ms && !self.switches.ignore_not_after => {
                Err(ExecuteRefusal::DeadlinePassed)
            }
            None => Ok(()),
        }
    }

    fn owns(&self, no: &str, target: &Target) -> bool {
        let owner = self.targets.get(target).and_then(|record| record.owner.as_ref());
        owner.is_some_and(|owner| owner.order_no == no)
    }

    fn execution_pending(&self, no: &str) -> bool {
        let execution = self.orders.get(no).and_then(|order| order.execution.as_ref());
        execution.is_some_and(|record| record.pending.is_some())
    }

    fn execution_is_due(&self, no: &str, touch: Touch, now_ms: i64) -> bool {
        let execution = self.orders.get(no).and_then(|order| order.execution.as_ref());
        let pending = execution.and_then(|record| record.pending.as_ref());
        pending.is_some_and(|deferral| deferral.is_due(touch, now_ms))
    }
}

fn done(no: &str) -> ExecutionView {
    ExecutionView { status: FactStatus::Done, owner_order_no: Some(no.to_owned()), refusal_code: None }
}

fn not_done(refusal_code: Option<String>) -> ExecutionView {
    ExecutionView { status: FactStatus::NotDone, owner_order_no: None, refusal_code }
}
