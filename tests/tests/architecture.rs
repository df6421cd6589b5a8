//! The rules of `ARCHITECTURE.md`, enforced: who may know whom, how large a file may grow, and that page and code agree.
//!
//! Reads the sources as text. Comments and doc comments do not count as knowing somebody.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use flow_core::state::Edge;

/// Files of this many lines or more want a seam.
const MAX_LINES: usize = 500;

/// Which of the workspace's own crates a crate may depend on, in its normal and in its test dependencies.
///
/// A new crate is added here with a line of thought: binaries never know each other, and nothing ships the testkit.
const MAY_KNOW: [(&str, &[&str], &[&str]); 14] = [
    ("flow-core", &[], &["flow-testkit"]),
    // Reads files; knows no flow.
    ("flow-bills", &[], &[]),
    ("flow-config", &["flow-core", "flow-bills"], &["flow-testkit"]),
    ("flow-adapters", &["flow-core", "flow-config"], &["flow-testkit", "pay-sim"]),
    ("flow-testkit", &["flow-core", "pay-sim"], &[]),
    ("flow-model", &["flow-core", "flow-testkit"], &[]),
    // Drives the shipped entrances of both binaries, through their libraries, over fakes; nothing depends on it.
    (
        "flow-simulation",
        &["flow-core", "flow-adapters", "flow-testkit", "pay-api", "pay-scanner", "pay-sim"],
        &["flow-simulation"],
    ),
    ("pay-runtime", &["flow-core", "flow-config", "flow-adapters"], &["flow-testkit"]),
    ("pay-api", &["flow-core", "flow-config", "flow-adapters", "pay-runtime"], &["flow-testkit"]),
    // Its tests reconcile the simulation's histories, whose books are the simulator's.
    (
        "pay-recon",
        &["flow-core", "flow-bills", "flow-config", "pay-runtime"],
        &["flow-testkit", "flow-simulation", "pay-sim"],
    ),
    ("pay-scanner", &["flow-core", "flow-config", "flow-adapters", "pay-runtime"], &["flow-testkit"]),
    // Stands for somebody else's systems; its tests read its bills with the product's readers.
    ("pay-sim", &[], &["flow-bills"]),
    ("xtask", &[], &[]),
    // The adapters for their ports' suites, which need servers that only the suites here have.
    ("e2e", &["xtask"], &["flow-core", "flow-config", "flow-adapters", "flow-testkit"]),
];

/// Which crates may use an outside crate that carries a technology.
const TECHNOLOGY: [(&str, &[&str]); 7] = [
    ("axum", &["pay-api", "pay-sim"]),
    ("utoipa", &["pay-api"]),
    ("sqlx", &["flow-core", "xtask", "e2e"]),
    ("reqwest", &["flow-adapters", "pay-sim", "xtask", "e2e"]),
    ("hyper", &["pay-runtime", "pay-sim"]),
    ("async-nats", &["flow-adapters", "e2e"]),
    ("redis", &["flow-adapters"]),
];

/// What the files under a path of `flow-core/src` must not name.
const CORE_RULES: [(&[&str], &[&str]); 6] = [
    // Decisions are pure: no database, runtime, HTTP, clock, chance, log or metric.
    (
        &["state", "ids", "money", "flow", "answer", "decide", "retry", "cas", "notify", "recon"],
        &[
            "sqlx",
            "tokio",
            "axum",
            "hyper",
            "reqwest",
            "async",
            "await",
            "rand",
            "metrics",
            "tracing",
            "ports",
            "advance",
            "create",
            "store",
            "downstream",
            "SystemTime",
            "Instant",
            "env",
            "fs",
            "net",
            "thread",
        ],
    ),
    // What takes requests and what advances flows know ports, not what is behind them.
    (
        &["create", "advance", "entrance", "ports"],
        &["sqlx", "axum", "hyper", "reqwest", "MySqlStore", "crate::store"],
    ),
    (&["create", "entrance", "ports", "decisions"], &["tokio", "crate::advance", "crate::downstream"]),
    (&["advance"], &["axum", "tokio"]),
    // Takes what channels say: knows ports and `advance`, and can write no flow.
    (&["callback"], &["sqlx", "axum", "tokio", "hyper", "reqwest", "crate::store", "crate::cas", "CasWrite"]),
    (&["downstream", "store", "crash"], &["axum", "hyper", "reqwest", "crate::advance", "crate::create"]),
];

#[test]
fn crates_know_only_whom_they_may() {
    let manifests = manifests();
    let ours: BTreeSet<&str> = manifests.keys().map(String::as_str).collect();
    let listed: BTreeSet<&str> = MAY_KNOW.iter().map(|(name, _, _)| *name).collect();
    assert_eq!(ours, listed, "a crate of the workspace is missing from the table, or the other way round");
    for (name, normal, dev) in MAY_KNOW {
        let manifest = &manifests[name];
        for known in manifest.normal.iter().filter(|known| ours.contains(known.as_str())) {
            assert!(normal.contains(&known.as_str()), "{name} must not depend on {known}");
        }
        for known in manifest.dev.iter().filter(|known| ours.contains(known.as_str())) {
            let allowed = normal.contains(&known.as_str()) || dev.contains(&known.as_str());
            assert!(allowed, "{name} must not depend on {known}, not even in its tests");
        }
    }
}

#[test]
fn each_technology_lives_in_its_crates() {
    for (name, manifest) in manifests() {
        for (technology, allowed) in TECHNOLOGY {
            let uses = manifest.normal.iter().any(|known| known == technology);
            assert!(!uses || allowed.contains(&name.as_str()), "{name} must not depend on {technology}");
        }
    }
}

#[test]
fn nothing_that_ships_is_built_for_the_simulation() {
    for (name, text) in manifest_texts() {
        // The core offers the feature, the simulation turns it on for its own tests; nobody else knows of it.
        let knows = text.contains("mutants");
        assert!(
            !knows || ["flow-core", "flow-simulation"].contains(&name.as_str()),
            "{name} knows of mutants"
        );
        assert!(
            !text.lines().any(|line| line.starts_with("default =")),
            "{name} has features that are on by themselves"
        );
    }
    let simulation = read(&root().join("crates/flow-simulation/Cargo.toml"));
    let normal = simulation.split("[dev-dependencies]").next().unwrap_or_default();
    let turned_on = normal.lines().filter(|line| line.contains("mutants") && !line.starts_with('#'));
    assert_eq!(turned_on.collect::<Vec<_>>(), [r#"mutants = ["flow-core/mutants"]"#]);
    // Built by package: otherwise cargo unites the features of the whole workspace, the simulation's stopped clock included.
    let image = read(&root().join("Dockerfile"));
    let build = image.lines().find(|line| line.contains("cargo build")).expect("the image is built by cargo");
    assert!(build.contains("--package pay-api") && !build.contains("--workspace"), "{build}");
}

#[test]
fn the_core_keeps_its_layers() {
    let core = root().join("crates/flow-core/src");
    let mut checked = 0;
    for (modules, forbidden) in CORE_RULES {
        for module in modules {
            let mut files = rust_files(&core.join(module));
            let single = core.join(format!("{module}.rs"));
            files.extend(single.exists().then_some(single));
            assert!(!files.is_empty(), "flow-core has no module {module}: correct the rule");
            for file in files {
                let code = code_of(&file);
                for word in forbidden {
                    let found = code.iter().find(|(_, line)| names(line, word));
                    assert!(found.is_none(), "{} must not know {word}: {found:?}", shown(&file));
                }
                checked += 1;
            }
        }
    }
    assert!(checked >= 15, "only {checked} files were looked at");
    let mut known: Vec<String> =
        CORE_RULES.iter().flat_map(|(modules, _)| *modules).map(|name| (*name).to_owned()).collect();
    known.push("lib".to_owned());
    for entry in fs::read_dir(&core).expect("flow-core has sources") {
        let module = entry.expect("it can be listed").path();
        let module = module.file_stem().expect("a module has a name").to_string_lossy().into_owned();
        assert!(known.contains(&module), "module {module} of flow-core is under no rule: add it to one");
    }
}

#[test]
fn only_advance_changes_a_flow() {
    let writers = [
        "crates/flow-core/src/advance/",
        "crates/flow-core/src/store/",
        "crates/flow-testkit/",
        "crates/flow-simulation/",
    ];
    // The benchmark issues the product's statements by hand, on a database of its own.
    let measured = "crates/xtask/src/commands/bench/";
    for file in sources().iter().filter(|file| is_shipped(file)) {
        let name = shown(file);
        if writers.iter().any(|writer| name.starts_with(writer)) || name.starts_with(measured) {
            continue;
        }
        for (number, line) in code_of(file) {
            let writes = line.contains(".cas(") || line.to_uppercase().contains("UPDATE INTERNAL_PAY_FLOW");
            assert!(!writes, "{name}:{number} writes a flow past advance: {line}");
        }
    }
}

#[test]
fn adapters_and_runtime_do_not_know_what_is_not_theirs() {
    let rules: [(&str, &[&str]); 3] = [
        (
            "crates/flow-adapters/src",
            &["flow_core::store", "flow_core::advance", "flow_core::create", "sqlx", "axum"],
        ),
        ("crates/pay-runtime/src", &["flow_core::create", "flow_core::cas", "axum"]),
        ("crates/flow-config/src", &["flow_core::store", "flow_core::advance", "tokio", "sqlx", "axum"]),
    ];
    for (folder, forbidden) in rules {
        for file in rust_files(&root().join(folder)) {
            for word in forbidden {
                let found = code_of(&file).into_iter().find(|(_, line)| names(line, word));
                assert!(found.is_none(), "{} must not know {word}: {found:?}", shown(&file));
            }
        }
    }
}

#[test]
fn files_stay_small_and_say_what_they_hold() {
    for file in sources() {
        let text = read(&file);
        let lines = text.lines().count();
        assert!(lines < MAX_LINES, "{} has {lines} lines: find the seam", shown(&file));
        assert!(text.starts_with("//!"), "{} must open with a //! that says what it holds", shown(&file));
    }
}

#[test]
fn no_module_is_named_after_nothing() {
    let nothing = ["util", "utils", "helper", "helpers", "common", "misc", "shared", "stuff"];
    for file in sources() {
        let parts: Vec<String> = shown(&file).split(['/', '.']).map(str::to_owned).collect();
        let found = parts.iter().find(|part| nothing.contains(&part.as_str()));
        assert!(found.is_none(), "{}: name the module after what it holds", shown(&file));
        for (number, line) in code_of(&file) {
            let module = line.trim_start().trim_start_matches("pub ").strip_prefix("mod ");
            let named = module.map(|rest| rest.trim_end_matches([';', ' ', '{']));
            let found = named.is_some_and(|name| nothing.contains(&name));
            assert!(!found, "{}:{number}: name the module after what it holds", shown(&file));
        }
    }
}

#[test]
fn architecture_md_mentions_every_crate() {
    let page = read(&root().join("ARCHITECTURE.md"));
    for entry in fs::read_dir(root().join("crates")).expect("the workspace has crates") {
        let name = entry.expect("it can be listed").file_name().to_string_lossy().into_owned();
        assert!(page.contains(&format!("`crates/{name}`")), "ARCHITECTURE.md does not mention crates/{name}");
    }
}

#[test]
fn the_diagram_shows_exactly_the_edges_of_the_code() {
    let page = read(&root().join("ARCHITECTURE.md"));
    let start = page.find("\nWAIT_PAY ->").expect("ARCHITECTURE.md has the diagram of the states") + 1;
    let end = page[start..].find("```").expect("the diagram ends") + start;
    let drawn = edges_of(&page[start..end]);
    let coded: BTreeSet<(String, String)> =
        Edge::ALL.iter().map(|edge| (edge.from().to_string(), edge.to().to_string())).collect();
    assert_eq!(drawn, coded);
}

#[test]
fn the_diagram_reader_reads_branches() {
    let edges = edges_of("A -> B -> C\n     |    +--> D\n     +-> E_F\n");
    let expected = [("A", "B"), ("B", "C"), ("B", "E_F"), ("C", "D")];
    assert_eq!(edges, expected.map(|(from, to)| (from.to_owned(), to.to_owned())).into());
}

/// Arrows of the drawing: along a line, or from a `+` up through `|` to the state above.
fn edges_of(drawing: &str) -> BTreeSet<(String, String)> {
    let lines: Vec<&str> = drawing.lines().collect();
    let states: Vec<Vec<(usize, String)>> = lines.iter().map(|line| states_in(line)).collect();
    let mut edges = BTreeSet::new();
    for (row, line) in lines.iter().enumerate() {
        for (index, (column, name)) in states[row].iter().enumerate() {
            let source = match (index.checked_sub(1), line[..*column].rfind('+')) {
                (Some(before), _) => Some(states[row][before].1.clone()),
                (None, Some(corner)) => Some(state_above(&lines, &states, row, corner)),
                (None, None) => None,
            };
            edges.extend(source.map(|source| (source, name.clone())));
        }
    }
    edges
}

fn states_in(line: &str) -> Vec<(usize, String)> {
    let mut states: Vec<(usize, String)> = Vec::new();
    for (column, c) in line.char_indices().filter(|(_, c)| c.is_ascii_uppercase() || *c == '_') {
        match states.last_mut() {
            Some((start, name)) if *start + name.len() == column => name.push(c),
            Some(_) | None => states.push((column, c.to_string())),
        }
    }
    states
}

fn state_above(lines: &[&str], states: &[Vec<(usize, String)>], row: usize, column: usize) -> String {
    for above in (0..row).rev() {
        let found =
            states[above].iter().find(|(start, name)| (*start..*start + name.len()).contains(&column));
        if let Some((_, name)) = found {
            return name.clone();
        }
        assert_eq!(
            lines[above].as_bytes().get(column),
            Some(&b'|'),
            "line {above}, column {column} leads nowhere"
        );
    }
    panic!("the arrow in line {row}, column {column} comes from nowhere");
}

struct Manifest {
    normal: Vec<String>,
    dev: Vec<String>,
}

/// Every crate's `Cargo.toml`, by the crate's folder.
fn manifest_texts() -> BTreeMap<String, String> {
    let mut folders: Vec<PathBuf> = vec![root().join("tests")];
    let crates = fs::read_dir(root().join("crates")).expect("the workspace has crates");
    folders.extend(crates.map(|entry| entry.expect("it can be listed").path()));
    let named = |folder: PathBuf| {
        let name = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        (name, read(&folder.join("Cargo.toml")))
    };
    folders.into_iter().map(named).collect()
}

/// Every crate of the workspace, by name.
fn manifests() -> BTreeMap<String, Manifest> {
    let mut manifests = BTreeMap::new();
    for text in manifest_texts().into_values() {
        let mut section = "";
        let mut name = None;
        let mut manifest = Manifest { normal: Vec::new(), dev: Vec::new() };
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                section = line;
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let key = key.trim().split('.').next().unwrap_or_default().to_owned();
            match section {
                "[package]" if key == "name" => name = Some(value.trim().trim_matches('"').to_owned()),
                "[dependencies]" | "[build-dependencies]" => manifest.normal.push(key),
                "[dev-dependencies]" => manifest.dev.push(key),
                _ => {}
            }
        }
        manifests.insert(name.expect("a crate has a name"), manifest);
    }
    manifests
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the workspace").to_owned()
}

fn shown(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).to_string_lossy().into_owned()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{} cannot be read: {error}", shown(file)))
}

/// Every Rust file of the workspace.
fn sources() -> Vec<PathBuf> {
    let mut files = rust_files(&root().join("crates"));
    files.extend(rust_files(&root().join("tests")));
    assert!(files.len() > 50, "only {} files were found", files.len());
    files
}

/// Code of the product, as opposed to tests.
fn is_shipped(file: &Path) -> bool {
    let name = shown(file);
    name.contains("/src/") && !name.ends_with("tests.rs") && !name.contains("/tests/")
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return files };
    for entry in entries {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The lines of a file that are code, with their numbers: no comments, and nothing of its unit tests.
fn code_of(file: &Path) -> Vec<(usize, String)> {
    let text = read(file);
    let mut code = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let tested = lines.next().map_or("", |(_, next)| next.trim());
            if tested.starts_with("mod ") && tested.ends_with('{') {
                // Unit tests close a file.
                break;
            }
            continue;
        }
        let line = line.split("//").next().unwrap_or_default();
        if !line.trim().is_empty() {
            code.push((index + 1, line.to_owned()));
        }
    }
    code
}

/// Whether the line names exactly this word or path: `ports` is not in `reports`, nor in a string.
fn names(line: &str, word: &str) -> bool {
    let outside_strings: String = line.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    outside_strings.match_indices(word).any(|(start, _)| {
        let before = outside_strings[..start].chars().next_back();
        let after = outside_strings[start + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[test]
fn a_word_is_found_as_a_word() {
    assert!(names("use crate::ports::Clock;", "ports"));
    assert!(names("use crate::store::MySqlStore;", "crate::store"));
    assert!(!names("let reports = 1;", "ports"));
    assert!(!names("let message = \"ports\";", "ports"));
    assert!(!names("let rand_x = 1;", "rand"));
}
