//! Running a program to its end, with its complaint kept.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::error::SourceError;

/// How much of a failed program's output is kept, in bytes.
const KEPT_OUTPUT_BYTES: usize = 2_000;

/// Runs `command` to its end without a terminal and returns its standard output.
pub(super) fn run(command: &mut Command) -> Result<String, SourceError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(SourceError::io("run", Path::new(command.get_program())))?;
    check(command, output)
}

/// Turns a finished program into its output or its complaint.
pub(super) fn check(command: &Command, output: Output) -> Result<String, SourceError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.trim().is_empty() {
        said = String::from_utf8_lossy(&output.stdout).into_owned();
    }
    Err(SourceError::Command {
        program: describe(command),
        status: output.status,
        stderr: tail(said.trim(), KEPT_OUTPUT_BYTES).to_owned(),
    })
}

/// The program and its last argument: enough to know which step it was.
fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program()).to_string_lossy();
    match command.get_args().last() {
        Some(last) => format!("{name} … {}", last.to_string_lossy()),
        None => name.into_owned(),
    }
}

/// The last `max_bytes` of `text`, cut at a character boundary.
pub(super) fn tail(text: &str, max_bytes: usize) -> &str {
    let mut from = text.len().saturating_sub(max_bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

/// Whether `program` is an executable file on PATH.
pub(super) fn on_path(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_never_cuts_a_character() {
        assert_eq!(tail("abcdef", 3), "def");
        assert_eq!(tail("ab", 3), "ab");
        assert_eq!(tail("aéb", 2), "b");
        assert_eq!(tail("", 2), "");
    }

    #[test]
    fn a_failing_program_keeps_its_complaint() {
        let error = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("broken") && text.contains('3'), "{text}");
    }
}
