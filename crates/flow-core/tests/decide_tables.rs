//! The two decision functions, printed whole: every state, every evidence, every circumstance. A reviewer reads the
//! snapshots; a change of behaviour is a change of a line. Update with `UPDATE_EXPECT=1`.

mod situations;

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use expect_test::expect_file;
use flow_core::decide::{Entry, Evidence, decide, next_action};
use flow_core::state::State;

use situations::{
    CANCEL_MS, DEADLINE_MS, GRACE_MS, LATE_ENTRY_MS, SETTLE_MARGIN_MS, Situation, UNREADABLE_HOLD_MS,
    all_evidence, at, facts, told,
};

#[test]
fn next_action_as_a_table() {
    let mut table = String::new();
    let columns = [
        ("before deadline", false, DEADLINE_MS - 1),
        ("from deadline on", false, DEADLINE_MS),
        ("cancelled", true, DEADLINE_MS - 1),
        ("both", true, DEADLINE_MS),
    ];
    write!(table, "{:<12}{:<6}{:<14}", "state", "held", "entry").unwrap();
    for (name, _, _) in columns {
        write!(table, "{name:<18}").unwrap();
    }
    let mut rows = 0;
    for state in State::ALL {
        for held in [false, true] {
            for (entry_name, entry) in [("just entered", Entry::JustEntered), ("found", Entry::Found)] {
                let held_name = if held { "held" } else { "-" };
                write!(table, "\n{:<12}{held_name:<6}{entry_name:<14}", state.as_str()).unwrap();
                for (_, cancelled, now_ms) in columns {
                    let flow = Situation { cancelled, held, ..Situation::plain(state) }.flow();
                    write!(table, "{:<18}", next_action(&flow, entry, at(now_ms)).as_str()).unwrap();
                    rows += 1;
                }
            }
        }
    }
    assert_eq!(rows, 7 * 2 * 2 * 4);
    let trimmed: Vec<&str> = table.lines().map(str::trim_end).collect();
    expect_file!["./snapshots/next_action.txt"].assert_eq(&format!("{}\n", trimmed.join("\n")));
}

/// Moments at which something may change: each is tried a millisecond before and exactly.
const MOMENTS: [(&str, i64); 9] = [
    ("cancel", CANCEL_MS),
    ("cancel + grace", CANCEL_MS + GRACE_MS),
    ("cancel + unreadable limit", CANCEL_MS + UNREADABLE_HOLD_MS),
    ("deadline", DEADLINE_MS),
    ("deadline + margin", DEADLINE_MS + SETTLE_MARGIN_MS),
    ("deadline + grace", DEADLINE_MS + GRACE_MS),
    ("late entry", LATE_ENTRY_MS),
    ("deadline + margin + unreadable limit", DEADLINE_MS + SETTLE_MARGIN_MS + UNREADABLE_HOLD_MS),
    ("late entry + unreadable limit", LATE_ENTRY_MS + UNREADABLE_HOLD_MS),
];

type Dimension = (&'static str, fn(&mut Situation, bool));

const DIMENSIONS: [Dimension; 5] = [
    ("cancelled", |situation, yes| situation.cancelled = yes),
    ("wallet can close", |situation, yes| situation.can_close = yes),
    ("tries spent", |situation, yes| situation.tries_spent = yes),
    ("held", |situation, yes| situation.held = yes),
    ("late entry", |situation, yes| situation.late_entry = yes),
];

fn situation(state: State, bits: usize) -> Situation {
    let mut situation = Situation::plain(state);
    for (bit, (_, set)) in DIMENSIONS.iter().enumerate() {
        set(&mut situation, bits & (1 << bit) != 0);
    }
    situation
}

fn name_of(moment: DateTime<Utc>) -> String {
    let named = MOMENTS.iter().find(|(_, ms)| at(*ms) == moment);
    named.map_or_else(|| format!("an unnamed moment {moment}"), |(name, _)| (*name).to_owned())
}

/// What is decided as time goes by, from the earliest sensible moment on.
fn timeline(situation: Situation, evidence: &Evidence, asked: &mut usize) -> String {
    let (flow, rules) = (situation.flow(), situation.rules());
    let earliest_ms = match (situation.late_entry, situation.cancelled) {
        (true, _) => LATE_ENTRY_MS,
        (false, true) => CANCEL_MS,
        (false, false) => 30_000,
    };
    let samples = MOMENTS
        .iter()
        .flat_map(|(name, ms)| [(format!("just before {name}"), ms - 1), ((*name).to_owned(), *ms)]);
    let samples = std::iter::once(("its beginning".to_owned(), earliest_ms)).chain(samples);
    let mut segments: Vec<(String, String)> = Vec::new();
    for (name, now_ms) in samples.filter(|(_, ms)| *ms >= earliest_ms) {
        *asked += 1;
        let decided = told(&decide(&flow, evidence, &rules, at(now_ms)), name_of);
        if segments.last().is_none_or(|(_, last)| *last != decided) {
            segments.push((name, decided));
        }
    }
    let mut line = segments[0].1.clone();
    for (from, decided) in &segments[1..] {
        line += &format!(" | from {from}: {decided}");
    }
    line
}

/// One line per circumstance that makes a difference; what makes none is left out.
fn lines(state: State, evidence: &Evidence, asked: &mut usize) -> Vec<String> {
    let count = DIMENSIONS.len();
    let all: Vec<String> =
        (0..1 << count).map(|bits| timeline(situation(state, bits), evidence, asked)).collect();
    let matters: Vec<usize> =
        (0..count).filter(|bit| (0..1 << count).any(|bits| all[bits] != all[bits ^ (1 << bit)])).collect();
    let mut lines = Vec::new();
    for choice in 0..1_usize << matters.len() {
        let mut bits = 0;
        let mut when = Vec::new();
        for (position, bit) in matters.iter().enumerate() {
            let yes = choice & (1 << position) != 0;
            bits |= usize::from(yes) << bit;
            when.push(format!("{}{}", if yes { "" } else { "not " }, DIMENSIONS[*bit].0));
        }
        let when = if when.is_empty() { String::new() } else { format!("[{}] ", when.join(", ")) };
        lines.push(format!("{when}{}", all[bits]));
    }
    lines
}

#[test]
fn decide_as_a_table() {
    let mut table = String::new();
    let mut asked = 0;
    let evidence = all_evidence();
    for state in State::ALL {
        writeln!(table, "== {state}").unwrap();
        let mut reloads = 0;
        let mut blocks: Vec<(String, Vec<String>)> = Vec::new();
        for (name, evidence) in &evidence {
            let lines = lines(state, evidence, &mut asked);
            if lines == ["reload"] {
                reloads += 1;
            } else {
                blocks.push((name.clone(), lines));
            }
        }
        for (name, lines) in fold_executions(blocks) {
            writeln!(table, "{name}").unwrap();
            for line in lines {
                writeln!(table, "    {line}").unwrap();
            }
        }
        writeln!(table, "{reloads} of {} kinds of evidence belong elsewhere: reload\n", evidence.len())
            .unwrap();
    }
    writeln!(table, "{asked} decisions asked for").unwrap();
    expect_file!["./snapshots/decide.txt"].assert_eq(&table);
}

/// Where the execution's answer makes no difference to a fact, says so in one block.
fn fold_executions(blocks: Vec<(String, Vec<String>)>) -> Vec<(String, Vec<String>)> {
    let mut folded = blocks;
    for (fact, _) in facts() {
        let prefix = format!("fact: {fact};");
        let lines: Vec<&Vec<String>> =
            folded.iter().filter(|(name, _)| name.starts_with(&prefix)).map(|(_, lines)| lines).collect();
        let Some(first) = lines.first().map(|first| (*first).clone()) else { continue };
        if lines.iter().all(|lines| **lines == first) {
            let at = folded.iter().position(|(name, _)| name.starts_with(&prefix)).expect("lines were found");
            folded.retain(|(name, _)| !name.starts_with(&prefix));
            folded.insert(at, (format!("fact: {fact}; execute: whatever it answered"), first));
        }
    }
    folded
}
