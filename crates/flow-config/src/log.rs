//! `[log]`

use std::fmt;
use std::str::FromStr;

use crate::reader::Table;

/// Logging.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// How a line looks.
    pub format: LogFormat,
    /// Which lines are written, as `tracing`'s `EnvFilter` takes it, e.g. `info` or `info,flow_core=debug`.
    pub filter: String,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line, for machines.
    Json,
    /// For people.
    Pretty,
}

#[derive(Debug)]
struct NoFormat;

impl fmt::Display for NoFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be json or pretty")
    }
}

struct ParsedFormat(LogFormat);

impl FromStr for ParsedFormat {
    type Err = NoFormat;
    fn from_str(text: &str) -> Result<ParsedFormat, NoFormat> {
        match text {
            "json" => Ok(ParsedFormat(LogFormat::Json)),
            "pretty" => Ok(ParsedFormat(LogFormat::Pretty)),
            _ => Err(NoFormat),
        }
    }
}

impl LogConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<LogConfig> {
        let format = table.parsed::<ParsedFormat>("format");
        let filter = table.parsed("filter");
        Some(LogConfig { format: format?.0, filter: filter? })
    }
}
