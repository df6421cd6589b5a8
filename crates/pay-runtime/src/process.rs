//! The first and the last lines of a binary: reading the configuration, running, saying what went wrong.

use std::error::Error;
use std::fmt::Write as _;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use flow_config::{Config, ConfigError, LoadOptions};

use crate::descriptors;
use crate::key_files;
use crate::shutdown::Exit;
use crate::telemetry;

/// Longest wait, at the very end, for tasks that nobody waits for.
const LAST_TASKS: Duration = Duration::from_millis(500);

/// Reads the configuration and sets logging up. With `check_only`, reads the channels' key files, too, says that the
/// configuration is usable, and ends.
///
/// # Errors
/// How the process is to end; what is wrong has been said on standard error, every bad key by its name.
pub fn configure(file: Option<PathBuf>, check_only: bool) -> Result<Config, Exit> {
    let config = Config::load(LoadOptions::from_process(file)).map_err(|error| bad_config(&error))?;
    if check_only {
        let filter_problem = telemetry::check(&config.log).err();
        if let Some(error) = filter_problem {
            return Err(bad_config(&error));
        }
        let key_problems = key_files::check(&config.channels);
        if !key_problems.is_empty() {
            return Err(bad_config(&ConfigError::Invalid(key_problems)));
        }
        #[allow(clippy::print_stdout, reason = "the answer to --check-config")]
        {
            println!("the configuration is usable");
        }
        return Err(Exit::Done);
    }
    telemetry::install(&config.log).map_err(|error| bad_config(&error))?;
    Ok(config)
}

/// Logging may not be there yet: this goes to standard error as it is.
#[allow(clippy::print_stderr, reason = "there is no logging yet")]
fn bad_config(error: &dyn Error) -> Exit {
    eprintln!("{}", explain(error));
    Exit::BadConfig
}

/// Runs the process on a runtime of its own.
pub fn run(main: impl Future<Output = Exit>) -> ExitCode {
    descriptors::raise_limit();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the runtime could not be started");
            return Exit::Failed.into();
        }
    };
    let exit = runtime.block_on(main);
    runtime.shutdown_timeout(LAST_TASKS);
    exit.into()
}

/// An error with its causes, in one line. A cause that its error has quoted already is not said twice.
pub fn explain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            // Writing into a string does not fail.
            let _ = write!(text, ": {words}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not pay")]
    struct Outer(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("could not buy: {0}")]
    struct Quoting(#[source] Outer);

    #[test]
    fn an_explanation_has_every_cause_once() {
        let outer = || Outer(std::io::Error::other("no money"));
        assert_eq!(explain(&outer()), "could not pay: no money");
        assert_eq!(explain(&Quoting(outer())), "could not buy: could not pay: no money");
    }
}
