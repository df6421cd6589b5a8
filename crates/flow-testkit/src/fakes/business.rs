//! The business system's face of the fake world.

use async_trait::async_trait;
use flow_core::answer::{Answered, ErrorCode, ExecuteAnswer, FactAnswer};
use flow_core::ids::{DownstreamRef, OrderRef, Target};
use flow_core::ports::{Business, Execution};
use pay_sim::ledger::{ExecuteRefusal, ExecutionView, FactStatus, FactView};

use super::fault::Path;
use super::{Call, FakeWorld, LateMessage, Lie, sim_user};

/// A business system that keeps its contract, until the script says otherwise.
#[derive(Debug, Clone)]
pub struct FakeBusiness {
    pub(super) world: FakeWorld,
}

#[async_trait]
impl Business for FakeBusiness {
    async fn execute(&self, execution: &Execution) -> Answered<ExecuteAnswer> {
        let request = pay_sim::ledger::Execution {
            trade_order_no: execution.trade_order_no.as_str().to_owned(),
            target: sim_target(&execution.target),
            not_after_ms: execution.not_after.timestamp_millis(),
        };
        let answer = match Path::of(self.world.script.enter(Call::Execute)) {
            Path::Through(course, lie) => {
                let result = self.world.with(|world, now_ms| world.execute_as(&request, &course, now_ms));
                lied_execute(execute_answer(result), lie)
            }
            Path::AnswerLost(no_answer) => {
                drop(self.world.with(|world, now_ms| world.execute(&request, now_ms)));
                ExecuteAnswer::None(no_answer)
            }
            Path::HeldBack(no_answer) => {
                self.world.hold_back(LateMessage::Execute(request));
                ExecuteAnswer::None(no_answer)
            }
            Path::NotSent(no_answer) => ExecuteAnswer::None(no_answer),
        };
        self.answered(Call::Execute, answer).await
    }

    async fn fact(&self, target: &Target) -> Answered<FactAnswer> {
        let answer = match Path::of(self.world.script.enter(Call::Fact)) {
            Path::Through(_, lie) => {
                let view = self.world.with(|world, now_ms| world.fact(&sim_target(target), now_ms));
                lied_fact(fact_answer(view), lie)
            }
            Path::AnswerLost(no_answer) | Path::HeldBack(no_answer) | Path::NotSent(no_answer) => {
                FactAnswer::None(no_answer)
            }
        };
        self.answered(Call::Fact, answer).await
    }
}

impl FakeBusiness {
    async fn answered<A>(&self, call: Call, answer: A) -> Answered<A> {
        // The effect is there; others may act before the answer is heard.
        self.world.script.leave(call);
        tokio::task::yield_now().await;
        Answered { answer, request_id: DownstreamRef::new("business-request").ok() }
    }
}

fn sim_target(target: &Target) -> pay_sim::ledger::Target {
    pay_sim::ledger::Target {
        user_id: sim_user(target.user_id),
        scene: target.scene.as_str().to_owned(),
        biz_key: target.biz_key.as_str().to_owned(),
    }
}

fn execute_answer(result: Result<ExecutionView, ExecuteRefusal>) -> ExecuteAnswer {
    let rejected = |code: &str| ExecuteAnswer::Rejected(ErrorCode::clean(code));
    match result {
        Ok(ExecutionView { status: FactStatus::Done, .. }) => ExecuteAnswer::Done,
        Ok(ExecutionView { status: FactStatus::NotDone, refusal_code: Some(code), .. }) => rejected(&code),
        Ok(ExecutionView { status: FactStatus::NotDone, refusal_code: None, .. }) => {
            ExecuteAnswer::Processing
        }
        Err(ExecuteRefusal::DeadlinePassed) => rejected("DEADLINE_PASSED"),
        Err(ExecuteRefusal::OwnedByOther { .. }) => rejected("OWNED_BY_OTHER"),
        Err(ExecuteRefusal::ExecutionConflict) => ExecuteAnswer::Conflict,
    }
}

fn fact_answer(view: FactView) -> FactAnswer {
    match (view.status, view.owner_order_no) {
        (FactStatus::Done, Some(owner)) => match OrderRef::new(owner) {
            Ok(owner) => FactAnswer::Done { owner },
            Err(_) => FactAnswer::Contradiction,
        },
        (FactStatus::NotDone, None) => FactAnswer::NotDone,
        (FactStatus::Done, None) | (FactStatus::NotDone, Some(_)) => FactAnswer::Contradiction,
    }
}

fn lied_execute(answer: ExecuteAnswer, lie: Option<Lie>) -> ExecuteAnswer {
    match lie {
        Some(Lie::Processing | Lie::NotFound) => ExecuteAnswer::Processing,
        Some(Lie::Conflict | Lie::Contradiction) => ExecuteAnswer::Conflict,
        Some(Lie::WrongAmount | Lie::WrongUser | Lie::WrongCurrency) | None => answer,
    }
}

fn lied_fact(answer: FactAnswer, lie: Option<Lie>) -> FactAnswer {
    match lie {
        Some(Lie::Processing | Lie::NotFound) => FactAnswer::NotDone,
        Some(Lie::Conflict | Lie::Contradiction) => FactAnswer::Contradiction,
        Some(Lie::WrongAmount | Lie::WrongUser | Lie::WrongCurrency) | None => answer,
    }
}
