//! `cargo xtask fuzz`: every target under `fuzz/` for a while, from its seeds and from what earlier runs found.
//!
//! Runs on stable Rust: the product has no unsafe code, so the targets are built without a sanitizer, and coverage
//! instrumentation alone needs nothing unstable.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use xtask::progress::Phase;

use crate::cargo;

/// The version that the project is tested with.
const CARGO_FUZZ_VERSION: &str = "0.13.2";
/// One input that takes longer is a finding.
const INPUT_LIMIT_S: u32 = 10;
/// A target that needs more memory is a finding.
const MEMORY_LIMIT_MB: u32 = 1_024;
/// Largest input: a little more than the largest body that is read.
const MAX_INPUT_BYTES: u32 = 70_000;
/// Lines of a failing target's output that are shown.
const SHOWN_LINES: usize = 25;

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long each target runs.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Run the target on this file alone, as a finding's message says.
    #[arg(long, requires = "target")]
    replay: Option<PathBuf>,
    /// This target alone [default: all].
    target: Option<String>,
}

/// What a target did.
#[derive(Debug, Default)]
struct Figures {
    executions: u64,
    per_second: u64,
    /// Edges of the control flow that were reached.
    edges: u64,
    corpus: String,
}

/// Runs them all; a finding ends it with an error, after the other targets have had their turn.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let known = targets()?;
    let chosen = match &arguments.target {
        None => known,
        Some(one) => {
            anyhow::ensure!(known.contains(one), "there is no target {one}; there are {}", known.join(", "));
            vec![one.clone()]
        }
    };
    build(&chosen).await?;
    let host = host().await?;
    if let (Some(file), [target]) = (&arguments.replay, chosen.as_slice()) {
        return replay(&program(&host, target), target, file).await;
    }
    let mut findings = Vec::new();
    let mut table = Vec::new();
    for target in &chosen {
        let (figures, finding) = fuzz(&program(&host, target), target, arguments.seconds).await?;
        table.push((target.clone(), figures, if finding.is_some() { "FOUND" } else { "nothing found" }));
        findings.extend(finding);
    }
    println!(
        "{:<18} {:>12} {:>10} {:>8} {:>14}  outcome",
        "target", "executions", "per s", "edges", "corpus"
    );
    for (target, figures, outcome) in table {
        let Figures { executions, per_second, edges, corpus } = figures;
        println!("{target:<18} {executions:>12} {per_second:>10} {edges:>8} {corpus:>14}  {outcome}");
    }
    for finding in &findings {
        eprintln!("\n{finding}");
    }
    anyhow::ensure!(findings.is_empty(), "{} of {} targets found something", findings.len(), chosen.len());
    Ok(())
}

fn fuzz_dir() -> PathBuf {
    xtask::workspace_root().join("fuzz")
}

/// Everything that is built and found lies here, out of git's sight.
fn work_dir() -> PathBuf {
    xtask::target_dir().join("fuzz")
}

fn targets() -> anyhow::Result<Vec<String>> {
    let folder = fuzz_dir().join("fuzz_targets");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("can not list {}", folder.display()))? {
        names.extend(entry?.path().file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// cargo-fuzz, from the project's own target folder; fetched and built the first time.
async fn cargo_fuzz() -> anyhow::Result<PathBuf> {
    let root = xtask::target_dir().join("tools").join(format!("cargo-fuzz-{CARGO_FUZZ_VERSION}"));
    let program = root.join("bin").join("cargo-fuzz");
    if !program.exists() {
        let mut install = cargo::command(&["install", "cargo-fuzz", "--locked", "--quiet"]);
        install.args(["--version", &format!("={CARGO_FUZZ_VERSION}")]).arg("--root").arg(&root);
        cargo::run("fetching and building cargo-fuzz", &mut install).await?;
    }
    Ok(program)
}

async fn build(chosen: &[String]) -> anyhow::Result<()> {
    let program = cargo_fuzz().await?;
    for target in chosen {
        let mut build = Command::new(&program);
        build.args(["fuzz", "build", "--sanitizer", "none", "--fuzz-dir"]).arg(fuzz_dir());
        build.arg("--target-dir").arg(work_dir()).arg(target).current_dir(fuzz_dir()).kill_on_drop(true);
        cargo::run(&format!("building {target}"), build.env("SQLX_OFFLINE", "true")).await?;
    }
    Ok(())
}

async fn host() -> anyhow::Result<String> {
    let said = Command::new("rustc").arg("-vV").output().await.context("could not run rustc")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_owned())
}

fn program(host: &str, target: &str) -> PathBuf {
    work_dir().join(host).join("release").join(target)
}

/// Runs one target; its figures, and what it found.
async fn fuzz(program: &Path, target: &str, seconds: u64) -> anyhow::Result<(Figures, Option<String>)> {
    let corpus = work_dir().join("corpus").join(target);
    let findings = work_dir().join("findings").join(target);
    for folder in [&corpus, &findings] {
        std::fs::create_dir_all(folder).with_context(|| format!("can not make {}", folder.display()))?;
    }
    let phase = Phase::start(format!("fuzzing {target} for {seconds} s"));
    let mut child = Command::new(program)
        .arg(&corpus)
        .arg(fuzz_dir().join("seeds").join(target))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_LIMIT_S}"))
        .arg(format!("-rss_limit_mb={MEMORY_LIMIT_MB}"))
        .arg(format!("-max_len={MAX_INPUT_BYTES}"))
        .arg("-print_final_stats=1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("could not run {}", program.display()))?;
    let mut lines = BufReader::new(child.stderr.take().context("its output can not be read")?).split(b'\n');
    let mut figures = Figures::default();
    let mut last_lines: Vec<String> = Vec::new();
    // Bytes, not text: a finding may be shown as it is.
    while let Some(line) = lines.next_segment().await? {
        let line = String::from_utf8_lossy(&line).into_owned();
        if figures.take(&line) {
            phase.note(&format!("{} executions, {} edges", figures.executions, figures.edges));
        } else {
            last_lines.push(line);
        }
        let surplus = last_lines.len().saturating_sub(SHOWN_LINES);
        last_lines.drain(..surplus);
    }
    if child.wait().await?.success() {
        phase.done();
        return Ok((figures, None));
    }
    drop(phase);
    let told = last_lines.join("\n");
    let unit = told.split("Test unit written to ").nth(1).and_then(|rest| rest.lines().next());
    let unit = unit.unwrap_or("(no input was written)");
    let finding = format!(
        "{target} found an input that breaks a property:\n{told}\n\nreplay: cargo xtask fuzz {target} --replay {unit}\n\
         keep:   once it is mended, copy it to fuzz/seeds/{target}/ under a name that says what it is"
    );
    Ok((figures, Some(finding)))
}

async fn replay(program: &Path, target: &str, file: &Path) -> anyhow::Result<()> {
    let status = Command::new(program).arg(file).status().await.context("could not run the target")?;
    anyhow::ensure!(status.success(), "{target} fails on {}", file.display());
    println!("{target} holds on {}", file.display());
    Ok(())
}

impl Figures {
    /// Takes what one line of libFuzzer's says; whether it was one with figures, such as
    /// `#1024 NEW cov: 12 ft: 34 corp: 5/67b exec/s: 512 rss: 40Mb` or `stat::number_of_executed_units: 2048`.
    fn take(&mut self, line: &str) -> bool {
        let mut words = line.split_whitespace().peekable();
        let number = |text: &str| text.parse::<u64>().ok();
        if let Some(rest) = line.strip_prefix("stat::") {
            let (name, value) = rest.split_once(':').unwrap_or((rest, ""));
            match (name, number(value.trim())) {
                ("number_of_executed_units", Some(value)) => self.executions = value,
                ("average_exec_per_sec", Some(value)) => self.per_second = value,
                _ => {}
            }
            return true;
        }
        let Some(executions) = words.next().and_then(|word| number(word.strip_prefix('#')?)) else {
            return false;
        };
        self.executions = executions;
        while let Some(word) = words.next() {
            match (word, words.peek()) {
                ("cov:", Some(value)) => self.edges = number(value).unwrap_or(self.edges),
                ("corp:", Some(value)) => self.corpus = (*value).to_owned(),
                _ => {}
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_libfuzzers_lines() {
        let mut figures = Figures::default();
        assert!(!figures.take("thread '<unnamed>' panicked at src/lib.rs:1:1"));
        assert!(figures.take(
            "#1024\tNEW    cov: 12 ft: 34 corp: 5/67b lim: 8 exec/s: 512 rss: 40Mb L: 3/8 MS: 1 CopyPart-"
        ));
        assert_eq!((figures.executions, figures.edges, figures.corpus.as_str()), (1_024, 12, "5/67b"));
        assert!(figures.take("stat::number_of_executed_units: 2048"));
        assert!(figures.take("stat::average_exec_per_sec:     682"));
        assert_eq!((figures.executions, figures.per_second, figures.edges), (2_048, 682, 12));
    }

    #[test]
    fn every_target_is_a_program_of_the_fuzz_workspace_and_has_seeds() {
        let manifest = std::fs::read_to_string(fuzz_dir().join("Cargo.toml")).unwrap();
        let targets = targets().unwrap();
        assert!(targets.len() >= 6, "{targets:?}");
        for target in &targets {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
            assert!(
                std::fs::read_dir(fuzz_dir().join("seeds").join(target)).unwrap().count() > 0,
                "{target}"
            );
        }
        assert_eq!(manifest.matches("[[bin]]").count(), targets.len());
    }
}
