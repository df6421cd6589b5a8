//! No statement and no external call without its crash points: read from the sources as text.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use flow_core::crash::Spot;

/// What sends a statement.
const STATEMENTS: [&str; 7] = [
    ".execute(",
    ".fetch_one(",
    ".fetch_all(",
    ".fetch_optional(",
    ".fetch(",
    ".fetch_many(",
    ".execute_many(",
];

/// What calls a wallet, a business system, a receiver of notifications or the entry lock.
const CALLS: [&str; 10] = [
    ".debit(&",
    ".query(&",
    ".close(&",
    ".refund(&",
    ".query_refund(&",
    ".execute(&",
    ".fact(&",
    "port.notify(",
    "lock.enter(",
    "lock.leave(",
];

/// What puts its argument between two points: the macro, and what takes a spot and uses the macro.
const SHIELDS: [&str; 6] =
    ["around!(", ".run(", ".run_once(", ".call_wallet(", ".call_business(", "gate.call("];

/// Files with statements that need no points, how many, and why.
const EXEMPT: [(&str, usize, &str); 1] =
    [("store/migrate.rs", 4, "a command of its own, run before there is a payment to lose")];

#[test]
fn every_statement_and_call_lies_between_crash_points() {
    let mut found = 0;
    for file in sources() {
        let (name, code) = (shown(&file), code_of(&file));
        let marks: &[&str] = if name.starts_with("store/") { &STATEMENTS } else { &CALLS };
        let shields = shields(&code);
        let bare: Vec<&str> = marks
            .iter()
            .flat_map(|mark| code.match_indices(mark))
            .filter(|(at, _)| !shields.iter().any(|(range, _)| range.contains(at)))
            .map(|(at, _)| line_at(&code, at))
            .collect();
        found += marks.iter().map(|mark| code.matches(mark).count()).sum::<usize>() - bare.len();
        let exempt = EXEMPT.iter().find(|(file, _, _)| *file == name).map_or(0, |(_, count, _)| *count);
        assert_eq!(
            bare.len(),
            exempt,
            "flow-core/src/{name}: put each between its crash points, with a spot of its own \
             (flow_core::crash), and into the crash matrix: {bare:#?}"
        );
    }
    assert!(found >= 30, "only {found} statements and calls were found: the scan is blind");
}

#[test]
fn every_spot_stands_in_one_place_around_one_statement() {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for file in sources() {
        let (name, code) = (shown(&file), code_of(&file));
        if name == "crash.rs" {
            continue;
        }
        for (at, _) in code.match_indices("Spot::") {
            let spot: String =
                code[at + "Spot::".len()..].chars().take_while(|c| c.is_alphanumeric()).collect();
            *uses.entry(spot).or_default() += 1;
        }
        for (range, shield) in shields(&code) {
            let inside = &code[range.clone()];
            let marks: &[&str] = if name.starts_with("store/") { &STATEMENTS } else { &CALLS };
            let count: usize = marks.iter().map(|mark| inside.matches(mark).count()).sum();
            assert!(count <= 1, "{name}: {shield} shields {count} statements: {inside}");
        }
    }
    for spot in Spot::ALL {
        // The end of a transaction chooses between two statements, and says ROLLBACK twice.
        let expected = if *spot == Spot::Rollback { 2 } else { 1 };
        let count = uses.remove(&format!("{spot:?}")).unwrap_or(0);
        assert_eq!(count, expected, "Spot::{spot:?} is used in {count} places");
    }
    assert!(uses.is_empty(), "not in the registry: {uses:?}");
}

#[test]
fn the_scan_sees_what_is_bare() {
    let code = "let a = around!(Spot::X, one.execute(b).await)?; let c = two.execute(d).await?;";
    let shields = shields(code);
    let bare: Vec<usize> = code
        .match_indices(".execute(")
        .map(|(at, _)| at)
        .filter(|at| !shields.iter().any(|(range, _)| range.contains(at)))
        .collect();
    assert_eq!(bare.len(), 1);
    assert_eq!(line_at(code, bare[0]), code);
    let in_string = "around!(Spot::X, \"(((\"); two.execute(d)";
    assert_eq!(super::sources::shields(in_string).len(), 1);
    assert!(!super::sources::shields(in_string)[0].0.contains(&in_string.find(".execute").unwrap()));
}

/// Where a shield's arguments lie.
fn shields(code: &str) -> Vec<(Range<usize>, &'static str)> {
    let mut found = Vec::new();
    for shield in SHIELDS {
        for (at, _) in code.match_indices(shield) {
            let start = at + shield.len();
            let first = code[start..].trim_start();
            // Other things are called `run`, too.
            let takes_spot =
                ![".run(", ".run_once(", "gate.call("].contains(&shield) || first.starts_with("Spot::");
            if takes_spot {
                found.push((start..closing(code, start), shield));
            }
        }
    }
    found
}

/// The offset of the parenthesis that closes the one before `start`, past strings.
fn closing(code: &str, start: usize) -> usize {
    let (mut depth, mut in_string, mut escaped) = (1_u32, false, false);
    for (offset, c) in code[start..].char_indices() {
        match (in_string, c) {
            (true, _) if escaped => escaped = false,
            (true, '\\') => escaped = true,
            (_, '"') => in_string = !in_string,
            (false, '(') => depth += 1,
            (false, ')') => depth -= 1,
            (true | false, _) => {}
        }
        if depth == 0 {
            return start + offset;
        }
    }
    panic!("a parenthesis is not closed: {}", line_at(code, start))
}

fn line_at(code: &str, at: usize) -> &str {
    let start = code[..at].rfind('\n').map_or(0, |newline| newline + 1);
    code[start..].lines().next().unwrap_or_default().trim()
}

fn core() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate lies in the workspace")
        .join("crates/flow-core/src")
}

fn shown(file: &Path) -> String {
    file.strip_prefix(core()).unwrap_or(file).to_string_lossy().into_owned()
}

/// Every file of `flow-core` but its port traits, whose methods are what is called.
fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![core()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("flow-core has sources") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(files.len() > 30, "only {} files were found", files.len());
    files
}

/// A file without its comments and its unit tests.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("it can be read");
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines()
        .map(|line| if line.trim_start().starts_with("//") { "" } else { line })
        .collect::<Vec<_>>()
        .join("\n")
}
