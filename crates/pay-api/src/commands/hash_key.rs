//! `pay-api hash-key`: from an API key to what the configuration may hold of it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the answer to a command")]

use std::io::Read as _;

use flow_core::ids::CallerId;
use pay_api::auth::{generate_key, hash_key};
use pay_runtime::shutdown::Exit;

/// Longest key that is read.
const MAX_KEY_BYTES: u64 = 4_096;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Make a new key and show it, this once.
    #[arg(long)]
    generate: bool,
    /// The calling application that the key is for.
    #[arg(long, default_value = "shop")]
    name: CallerId,
    /// What it may do.
    #[arg(long, default_value = "client", value_parser = ["client", "on_call", "operator"])]
    role: String,
}

/// The key itself, if it is new, goes to standard error: standard output can be appended to a configuration file.
pub(crate) fn run(args: &Args) -> Exit {
    let made = if args.generate { generate_key().map_err(|error| error.to_string()) } else { read_key() };
    let section = made.and_then(|key| {
        let section = section(&key, args)?;
        if args.generate {
            eprintln!("the key, shown this once: {key}");
        }
        Ok(section)
    });
    match section {
        Ok(section) => {
            println!("{section}");
            Exit::Done
        }
        Err(problem) => {
            eprintln!("{problem}");
            Exit::Failed
        }
    }
}

fn read_key() -> Result<String, String> {
    let mut text = String::new();
    std::io::stdin()
        .take(MAX_KEY_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| format!("the key could not be read from standard input: {error}"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn section(key: &str, args: &Args) -> Result<String, String> {
    let hashed = hash_key(key).map_err(|error| error.to_string())?;
    Ok(format!(
        "[[api.keys]]\nname = \"{}\"\nrole = \"{}\"\nsha256 = \"{}\"",
        args.name, args.role, hashed.sha256_hex
    ))
}
