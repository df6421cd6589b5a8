//! Scripted faults: which call is disturbed, when, how often, and in what way.
//!
//! Rules are data and the choice is pure (given the time); carrying a fault out is the business of the HTTP side.
//! Rules live in memory only: a restarted simulator is a healthy one.

mod rule;
mod set;

pub use rule::{BadRule, Call, Contradiction, Fault, Rule, Stage, Subject, System, UnavailableMode};
pub use set::{FaultSet, RuleReport, TooManyRules};

#[cfg(test)]
mod tests;
