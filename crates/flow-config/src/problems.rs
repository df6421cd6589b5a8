//! What is wrong with a configuration: every problem, each with the full path of its key.

use std::fmt;
use std::path::PathBuf;

/// One wrong, missing or unknown key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Full path of the key, e.g. `database.read_connections`, or the name of an environment variable.
    pub key: String,
    /// What is wrong, never with the value of a secret.
    pub text: String,
}

/// All problems of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    found: Vec<Problem>,
}

impl Problems {
    /// Notes one more.
    pub fn note(&mut self, key: impl Into<String>, text: impl Into<String>) {
        self.found.push(Problem { key: key.into(), text: text.into() });
    }

    /// Whether nothing is wrong.
    pub const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The problems, in the order in which they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.found.iter()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.text)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.found.iter().enumerate() {
            let line_end = if i == 0 { "" } else { "\n" };
            write!(f, "{line_end}  {problem}")?;
        }
        Ok(())
    }
}

/// Why there is no usable configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file given by `--config` cannot be read.
    #[error("the configuration file {} cannot be read; nothing was started", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no TOML. The text never quotes the file: the line may hold a password.
    #[error("the configuration file {} is not valid TOML: {text}; nothing was started", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and why.
        text: String,
    },
    /// Keys are wrong, missing or unknown.
    #[error("the configuration is not usable; nothing was started; correct these keys:\n{0}")]
    Invalid(Problems),
}
