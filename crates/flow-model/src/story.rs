//! Tells a run in sentences: one per step, from what the step was and what it changed.

use flow_core::decide::Action;

use crate::answers::{Charge, Execute, Fact, Heard, Refund, Silence};
use crate::model::{PaymentModel, Step};
use crate::process::{Asking, Writing};
use crate::row::Row;
use crate::state::{
    Attempt, Books, Call, ChargeRecord, Client, Message, Owner, Process, RefundRecord, Seat, Snapshot,
};

/// A line per step.
pub fn tell(model: &PaymentModel, path: &[(Snapshot, Option<Step>)]) -> Vec<String> {
    let told = path.windows(2).filter_map(|pair| {
        let step = pair[0].1?;
        Some(Told { model, before: &pair[0].0, after: &pair[1].0 }.sentence(step))
    });
    told.collect()
}

struct Told<'a> {
    model: &'a PaymentModel,
    before: &'a Snapshot,
    after: &'a Snapshot,
}

impl Told<'_> {
    fn sentence(&self, step: Step) -> String {
        match step {
            Step::Load { who, attempt } => self.load(who, attempt),
            Step::Act { who, asking } => self.act(who, asking),
            Step::Serve { who, twice, .. } => {
                let carried_out = self.carried_out();
                let copy = if twice { "; a copy of the request is still under way" } else { "" };
                format!("{}: {carried_out}{copy}", self.request_of(who, "arrives"))
            }
            Step::GiveUp { who } => {
                format!(
                    "process {} hears nothing and gives up; {}",
                    who + 1,
                    self.request_of(who, "is still under way")
                )
            }
            Step::Hear { who, writing } => self.hear(who, writing),
            Step::Crash { who } => format!("process {} dies", who + 1),
            Step::Arrive { message, twice, .. } => {
                let request = self.request(self.before.network[message], "arrives late");
                let copy = if twice { "; and a copy of it is still under way" } else { "" };
                format!("{request}: {}{copy}", self.carried_out())
            }
            Step::Vanish { message } => self.request(self.before.network[message], "is lost"),
            Step::LateWrite { write } => {
                let index = self.before.writes[write].seat.attempt.index();
                match (self.before.rows[index], self.after.rows[index]) {
                    (Some(before), Some(after)) if before.state != after.state => {
                        format!("the database carries a write out that was given up: {}", after.state)
                    }
                    _ => "the database carries a write out that was given up; the state stays".to_owned(),
                }
            }
            Step::SettleCharge { attempt, charged } => {
                let how = if charged { "charges" } else { "refuses" };
                format!("the wallet {how} what it had accepted under {}", self.number(attempt))
            }
            Step::SettleRefund { attempt, paid } => {
                let how = if paid { "pays out" } else { "refuses" };
                format!("the wallet {how} the refund that it had accepted for {}", self.number(attempt))
            }
            Step::Ask { who } => match self.after.clients[who] {
                Client::Idle => format!("client {} asks for a payment: none is to be made", who + 1),
                Client::Inserting(attempt) => {
                    format!(
                        "client {} asks for a payment: attempt {} is to be made",
                        who + 1,
                        attempt.index() + 1
                    )
                }
            },
            Step::Insert { who } => {
                let inserted = self.before.rows != self.after.rows;
                let how =
                    if inserted { "its attempt is inserted" } else { "a unique key refuses its attempt" };
                format!("client {}: {how}", who + 1)
            }
            Step::Cancel { attempt } => format!("a client cancels attempt {}", attempt.index() + 1),
            Step::Hold { attempt } => format!("an operator holds attempt {}", attempt.index() + 1),
            Step::Release { attempt } => format!("an operator releases attempt {}", attempt.index() + 1),
            Step::Rival => "another order takes the benefit".to_owned(),
            Step::Clock => format!("the database's clock reaches {}", self.after.now.as_str()),
            Step::BusinessClock => "the business's clock passes the deadline".to_owned(),
        }
    }

    fn number(&self, attempt: Attempt) -> String {
        self.model.base(attempt).trade_order_no.to_string()
    }

    fn load(&self, who: usize, attempt: Attempt) -> String {
        let row = self.before.rows[attempt.index()].map_or_else(String::new, |row| shown(&row));
        let next = match &self.after.processes[who] {
            Process::Idle => "leaves it",
            Process::Acting { action, .. } => intention(*action),
            Process::Waiting { .. } => "waits",
            Process::Answered { heard: Heard::Entering, .. } => "is going to write PAYING",
            Process::Answered { .. } => "takes the answer for granted",
        };
        format!("process {} reads attempt {} ({row}) and {next}", who + 1, attempt.index() + 1)
    }

    fn act(&self, who: usize, asking: Asking) -> String {
        let who_text = format!("process {}", who + 1);
        let Process::Acting { action, seat, .. } = self.before.processes[who] else { return who_text };
        let number = self.number(seat.attempt);
        let asked = match (action, asking) {
            (Action::QueryCharge, _) => format!("{who_text} asks the wallet about {number}"),
            (Action::QueryRefund, _) => format!("{who_text} asks the wallet about the refund of {number}"),
            (Action::ReadFact, _) => format!("{who_text} asks the business who owns the benefit"),
            (_, Asking::Refused) => format!("{who_text} tries to {}, and is refused for load", verb(action)),
            (_, Asking::Well | Asking::Lost | Asking::Contradicts) => {
                return match self.after.processes[who] {
                    Process::Waiting { message, .. } => format!("{who_text} sends {}", self.named(message)),
                    Process::Idle | Process::Acting { .. } | Process::Answered { .. } => {
                        format!("{who_text} does not ask")
                    }
                };
            }
        };
        match self.after.processes[who] {
            Process::Answered { heard, .. } => format!("{asked}: {}", self.answer(heard)),
            Process::Idle | Process::Acting { .. } | Process::Waiting { .. } => asked,
        }
    }

    fn hear(&self, who: usize, writing: Writing) -> String {
        let who_text = format!("process {}", who + 1);
        let Process::Answered { seat, heard, asked } = self.before.processes[who] else { return who_text };
        let old = if asked == self.before.now { "" } else { ", late," };
        let heard_text = match heard {
            Heard::Entering => who_text,
            Heard::Debit(_)
            | Heard::ChargeQuery(_)
            | Heard::Close(_)
            | Heard::Business { .. }
            | Heard::Refund(_)
            | Heard::RefundQuery(_) => format!("{who_text} hears{old} {}", self.answer(heard)),
        };
        let (before, after) = (self.before.rows[seat.attempt.index()], self.after.rows[seat.attempt.index()]);
        let written = match (before, after) {
            (Some(before), Some(after)) if before.state != after.state => format!("writes {}", after.state),
            (Some(before), Some(after)) if before.hold != after.hold => "holds the flow".to_owned(),
            _ => self.unwritten(who, seat),
        };
        let unknown = match writing {
            Writing::Well => "",
            Writing::UnknownWritten | Writing::UnknownLost | Writing::UnknownLater => {
                "; the connection breaks during the write"
            }
        };
        let next = match &self.after.processes[who] {
            Process::Acting { action, .. } => format!(", then {}", intention(*action)),
            Process::Idle | Process::Waiting { .. } | Process::Answered { .. } => String::new(),
        };
        format!("{heard_text} {} {written}{unknown}{next}", if heard == Heard::Entering { "" } else { "and" })
            .replace("  ", " ")
    }

    fn unwritten(&self, who: usize, seat: Seat) -> String {
        match &self.after.processes[who] {
            Process::Acting { after: Some(_), .. } => "writes nothing".to_owned(),
            Process::Idle | Process::Acting { .. } | Process::Waiting { .. } | Process::Answered { .. } => {
                let lost = !seat.current;
                if lost { "loses its write, the row has changed" } else { "leaves it for later" }.to_owned()
            }
        }
    }

    fn request_of(&self, who: usize, verb: &str) -> String {
        match self.before.processes[who] {
            Process::Waiting { message, .. } => {
                format!("process {}'s {}", who + 1, self.request(message, verb).trim_start_matches("the "))
            }
            Process::Idle | Process::Acting { .. } | Process::Answered { .. } => verb.to_owned(),
        }
    }

    fn request(&self, message: Message, verb: &str) -> String {
        format!("{} {verb}", self.named(message))
    }

    fn named(&self, message: Message) -> String {
        let number = self.number(message.attempt);
        let invented = if message.invented { "a new number for " } else { "" };
        match message.call {
            Call::Debit => format!("the debit of {invented}{number}"),
            Call::Close => format!("the close of {number}"),
            Call::Execute(Some(_)) => format!("the execution for {number}"),
            Call::Execute(None) => format!("the execution without a deadline for {number}"),
            Call::Refund => format!("the refund of {invented}{number}"),
        }
    }

    /// What arriving changed at wallet and business.
    fn carried_out(&self) -> String {
        if self.before.owner != self.after.owner {
            return "the benefit is handed over".to_owned();
        }
        let changed = Attempt::ALL.into_iter().find_map(|attempt| {
            change(&self.before.books[attempt.index()], &self.after.books[attempt.index()])
        });
        changed.unwrap_or("nothing changes").to_owned()
    }

    fn answer(&self, heard: Heard) -> String {
        match heard {
            Heard::Entering => "nobody was asked".to_owned(),
            Heard::Debit(answer) | Heard::ChargeQuery(answer) | Heard::Close(answer) => {
                charge(answer).to_owned()
            }
            Heard::Refund(answer) | Heard::RefundQuery(answer) => refund(answer).to_owned(),
            Heard::Business { executed, fact } => {
                let fact = match fact {
                    Fact::Is(Owner::Nobody) => "\"not done\"".to_owned(),
                    Fact::Is(Owner::Attempt(attempt)) => format!("\"done, for {}\"", self.number(attempt)),
                    Fact::Is(Owner::Rival) => "\"done, for another order\"".to_owned(),
                    Fact::Contradiction => "a contradiction".to_owned(),
                    Fact::None(silence) => silent(silence).to_owned(),
                };
                match executed {
                    Some(Execute::Rejected) => format!("{fact} (the execution was refused)"),
                    Some(Execute::Done | Execute::Processing | Execute::None(_)) | None => fact,
                }
            }
        }
    }
}

fn shown(row: &Row) -> String {
    let mut text = row.state.to_string();
    if row.cancelled {
        text.push_str(", cancelled");
    }
    if row.hold.is_some() {
        text.push_str(", held");
    }
    text
}

const fn intention(action: Action) -> &'static str {
    match action {
        Action::RestTerminal | Action::RestHeld => "rests",
        Action::EnterPaying => "is going to write PAYING",
        Action::Debit => "is going to debit",
        Action::QueryCharge => "is going to query the charge",
        Action::CloseCharge => "is going to close the charge",
        Action::ExecuteThenReadFact => "is going to execute",
        Action::ReadFact => "is going to read the fact",
        Action::Refund => "is going to refund",
        Action::QueryRefund => "is going to query the refund",
    }
}

const fn verb(action: Action) -> &'static str {
    match action {
        Action::RestTerminal | Action::RestHeld => "rest",
        Action::EnterPaying => "enter PAYING",
        Action::Debit => "debit",
        Action::QueryCharge => "query",
        Action::CloseCharge => "close",
        Action::ExecuteThenReadFact => "execute",
        Action::ReadFact => "read the fact",
        Action::Refund => "refund",
        Action::QueryRefund => "query the refund",
    }
}

fn change(before: &Books, after: &Books) -> Option<&'static str> {
    let charge = before.charge.iter().zip(after.charge).find(|(before, after)| *before != after);
    let refund = before.refund.iter().zip(after.refund).find(|(before, after)| *before != after);
    match (charge, refund) {
        (Some((_, now)), _) => Some(match now {
            ChargeRecord::None => "the order is forgotten",
            ChargeRecord::Pending => "the wallet accepts it for later",
            ChargeRecord::Charged { wrong: false } => "the wallet charges",
            ChargeRecord::Charged { wrong: true } => "the wallet charges another amount",
            ChargeRecord::Failed => "the wallet refuses for ever",
            ChargeRecord::Closed => "the wallet bars the order",
        }),
        (None, Some((_, now))) => Some(match now {
            RefundRecord::None => "the refund is forgotten",
            RefundRecord::Pending => "the wallet accepts the refund for later",
            RefundRecord::Paid => "the wallet pays back",
            RefundRecord::Failed => "the wallet refuses the refund for now",
        }),
        (None, None) => None,
    }
}

const fn charge(answer: Charge) -> &'static str {
    match answer {
        Charge::Success { wrong: false } => "\"charged\"",
        Charge::Success { wrong: true } => "\"charged, another amount\"",
        Charge::Rejected => "\"refused\"",
        Charge::Closed => "\"closed\"",
        Charge::Processing => "\"still working on it\"",
        Charge::NotFound => "\"no such order\"",
        Charge::Unsupported => "\"not offered\"",
        Charge::None(silence) => silent(silence),
    }
}

const fn refund(answer: Refund) -> &'static str {
    match answer {
        Refund::Success => "\"paid back\"",
        Refund::Rejected => "\"refund refused\"",
        Refund::Processing => "\"still working on the refund\"",
        Refund::NotFound => "\"no such refund\"",
        Refund::None(silence) => silent(silence),
    }
}

const fn silent(silence: Silence) -> &'static str {
    match silence {
        Silence::Unknown => "nothing",
        Silence::Unavailable => "that it was not done",
    }
}
