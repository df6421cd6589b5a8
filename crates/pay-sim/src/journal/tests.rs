//! Replay, torn tails, and what is no torn tail.

use super::*;
use crate::ledger::{Course, Debit, Money};

fn debit(no: &str) -> Command {
    let money = Money { amount: 5, currency: "CNY".to_owned() };
    let debit = Debit { trade_order_no: no.to_owned(), user_id: u64::MAX, money, not_after_ms: Some(99) };
    Command::Debit { debit, course: Course::Normal }
}

fn written(path: &Path, numbers: &[&str]) -> World {
    let mut replayed = Journal::open(path, false).unwrap();
    for (at_ms, no) in (1_i64..).zip(numbers) {
        let command = debit(no);
        assert!(replayed.journal.append(at_ms, &command).unwrap().is_none(), "no sync was asked for");
        replayed.world.replay(&command, at_ms);
    }
    replayed.world
}

#[test]
fn a_journal_replays_to_the_same_world_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let world = written(&path, &["a", "b", "a"]);
    let replayed = Journal::open(&path, false).unwrap();
    assert_eq!((replayed.commands, replayed.torn_bytes), (3, 0));
    assert_eq!(replayed.world, world);
    drop(replayed);
    written(&path, &["c"]);
    assert_eq!(Journal::open(&path, false).unwrap().commands, 4);
}

#[test]
fn a_torn_last_line_is_cut_off_wherever_it_tore() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let world = written(&path, &["a", "b"]);
    let whole = std::fs::read(&path).unwrap();
    written(&path, &["c"]);
    let longer = std::fs::read(&path).unwrap();
    for torn_at in whole.len()..longer.len() {
        std::fs::write(&path, &longer[..torn_at]).unwrap();
        let replayed = Journal::open(&path, false).unwrap();
        assert_eq!(replayed.world, world, "torn at {torn_at}");
        assert_eq!(replayed.torn_bytes, (torn_at - whole.len()) as u64);
        assert_eq!(std::fs::read(&path).unwrap(), whole, "the next append starts on a line of its own");
    }
}

#[test]
fn a_broken_line_elsewhere_refuses_the_start_and_names_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    written(&path, &["a", "b", "c"]);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"b\"", "\"b", 1)).unwrap();
    match Journal::open(&path, false) {
        Err(JournalError::Corrupt { line: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn clearing_forgets_and_memory_keeps_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    written(&path, &["a"]);
    let mut replayed = Journal::open(&path, true).unwrap();
    replayed.journal.clear().unwrap();
    replayed.journal.append(1, &debit("b")).unwrap().expect("fsync was asked for").wait().unwrap();
    assert_eq!(Journal::open(&path, false).unwrap().commands, 1);
    let mut memory = Journal::Memory;
    assert!(memory.append(1, &debit("a")).unwrap().is_none());
    assert!(!memory.is_kept() && replayed.journal.is_kept());
}
