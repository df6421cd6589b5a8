//! Why a bill as a whole is refused. Whatever was read of it before counts for nothing.

use std::fmt;

use crate::sink::SinkError;

/// What a file is when it is not the bill that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundFormat {
    /// An Excel workbook (OOXML).
    Xlsx,
    /// An old Excel workbook or another OLE document.
    Xls,
    /// A web page: a login form or an error.
    Html,
    /// An XML document that is no known answer.
    Xml,
    /// A JSON document that is no known answer.
    Json,
    /// A PDF document.
    Pdf,
    /// A zip archive whose files are encrypted.
    EncryptedZip,
    /// A zip archive without a bill in it, or inside of another container.
    Zip,
    /// A gzip file inside of another container.
    Gzip,
    /// A RAR, 7z, bzip2, xz or zstd file.
    OtherArchive,
    /// Text in UTF-16 or UTF-32.
    Utf16,
    /// Binary data of no known kind.
    Binary,
}

impl fmt::Display for FoundFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Xlsx => "an Excel workbook (.xlsx)",
            Self::Xls => "an old Excel workbook (.xls)",
            Self::Html => "a web page (HTML)",
            Self::Xml => "an XML document",
            Self::Json => "a JSON document",
            Self::Pdf => "a PDF document",
            Self::EncryptedZip => "an encrypted zip archive",
            Self::Zip => "a zip archive without a bill in it",
            Self::Gzip => "a gzip file inside of another archive",
            Self::OtherArchive => "an archive of an unsupported kind",
            Self::Utf16 => "text in UTF-16 or UTF-32",
            Self::Binary => "binary data",
        })
    }
}

/// What a channel means when it answers with no bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoStatement {
    /// The channel says that nothing happened on the day. True only where our own books say so too.
    NothingHappened,
    /// The bill is still being made; ask again later.
    NotReady,
}

/// Why a bill is refused. No entry of a refused bill may be used.
#[derive(Debug, thiserror::Error)]
pub enum BillError {
    /// The file is something else.
    #[error("the file is {found}, not a {wanted} bill; fetch the bill itself")]
    NotThisFormat {
        /// The format that was asked for.
        wanted: &'static str,
        /// What it is.
        found: FoundFormat,
    },
    /// Not a single byte.
    #[error("the file is empty: even a day without payments has a header; fetch the bill again")]
    Empty,
    /// The file ends before its end.
    #[error("the bill is cut off ({what}); fetch it again")]
    Truncated {
        /// What is missing.
        what: &'static str,
    },
    /// The container or a line of the bill's frame is damaged.
    #[error("the bill is damaged ({what}); fetch it again")]
    Corrupt {
        /// What is damaged.
        what: String,
    },
    /// Something stands after the bill's end.
    #[error("line {line} stands after the bill's end; two bills in one file, or an altered one")]
    AfterEnd {
        /// Where.
        line: u64,
    },
    /// A trailer counts other rows than there are.
    #[error("the bill's trailer counts {trailer} rows ({what}), the file has {seen}; fetch it again")]
    CountMismatch {
        /// Which count.
        what: String,
        /// What the trailer says.
        trailer: u64,
        /// What was counted.
        seen: u64,
    },
    /// A trailer sums up to another amount than the rows do.
    #[error("the bill's trailer says {trailer} for `{what}`, its rows add up to {seen}; fetch it again")]
    SumMismatch {
        /// Which sum.
        what: String,
        /// What the trailer says, as a decimal number.
        trailer: String,
        /// What the rows add up to, as a decimal number.
        seen: String,
    },
    /// The bytes are not those that the channel or the bill's own trailer vouches for.
    #[error("the bill's {algorithm} is {seen}, expected {expected}; fetch it again")]
    DigestMismatch {
        /// Which digest.
        algorithm: &'static str,
        /// What was vouched for, in hexadecimal digits.
        expected: String,
        /// What the bytes have, in hexadecimal digits.
        seen: String,
    },
    /// The file has not as many bytes as its sender said.
    #[error("the bill has {seen} bytes, its sender announced {expected}; fetch it again")]
    LengthMismatch {
        /// Announced.
        expected: u64,
        /// Counted.
        seen: u64,
    },
    /// The channel answered that there is no bill.
    #[error("the channel has no bill for the day ({code})")]
    NoStatement {
        /// What it means.
        meaning: NoStatement,
        /// The channel's own code.
        code: String,
    },
    /// The channel answered with an error instead of a bill.
    #[error("the channel answered {code} instead of a bill")]
    ChannelRefused {
        /// The channel's own code, cut to something printable.
        code: String,
    },
    /// A column that the format needs is not in the header.
    #[error("the bill has no column `{name}`: another layout, or not this bill; see docs/bill-formats.md")]
    HeaderMissing {
        /// The column, by its first known name.
        name: String,
    },
    /// A column that is needed stands twice in the header.
    #[error("the bill has the column `{name}` twice: it can't be told which one counts")]
    HeaderTwice {
        /// The column.
        name: String,
    },
    /// The bill is for another day, channel or version than asked for.
    #[error("the bill's {what} is `{seen}`, asked for was `{expected}`")]
    AnotherBill {
        /// What differs.
        what: &'static str,
        /// What was asked for.
        expected: String,
        /// What the bill says.
        seen: String,
    },
    /// So many rows are illegible that the file is not what it claims to be.
    #[error(
        "more than {limit_rows} rows are illegible (the last in line {line}): the file is not what it claims to be"
    )]
    TooManyQuarantined {
        /// The limit.
        limit_rows: u64,
        /// Where it was passed.
        line: u64,
    },
    /// In a quoted format, a record without end: everything after the quotation mark would be swallowed.
    #[error("the record in line {line} does not end within {limit_bytes} bytes: a stray quotation mark")]
    RecordTooLong {
        /// Where it starts.
        line: u64,
        /// The limit.
        limit_bytes: usize,
    },
    /// The bill is larger than a bill may be.
    #[error(
        "the bill is larger than {limit_bytes} bytes once decompressed; raise the limit if it is genuine"
    )]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// The rules given for the format contradict themselves; the configuration should have refused them.
    #[error("the rules for reading the bill are wrong: {what}")]
    Rules {
        /// What is wrong.
        what: String,
    },
    /// The file could not be read, or decompressed to a temporary file.
    #[error("the bill could not be read: {0}")]
    Io(#[source] std::io::Error),
    /// Whoever took the rows could not keep one.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

impl BillError {
    /// Whether fetching or reading the very same bill again later may give another answer.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self {
            Self::Empty
            | Self::Truncated { .. }
            | Self::Corrupt { .. }
            | Self::CountMismatch { .. }
            | Self::SumMismatch { .. }
            | Self::DigestMismatch { .. }
            | Self::LengthMismatch { .. }
            | Self::ChannelRefused { .. }
            | Self::Io(_)
            | Self::Sink(_) => true,
            Self::NoStatement { meaning, .. } => match meaning {
                NoStatement::NothingHappened => false,
                NoStatement::NotReady => true,
            },
            Self::NotThisFormat { found, .. } => match found {
                FoundFormat::Html | FoundFormat::Xml | FoundFormat::Json => true,
                FoundFormat::Xlsx
                | FoundFormat::Xls
                | FoundFormat::Pdf
                | FoundFormat::EncryptedZip
                | FoundFormat::Zip
                | FoundFormat::Gzip
                | FoundFormat::OtherArchive
                | FoundFormat::Utf16
                | FoundFormat::Binary => false,
            },
            Self::AfterEnd { .. }
            | Self::HeaderMissing { .. }
            | Self::HeaderTwice { .. }
            | Self::AnotherBill { .. }
            | Self::TooManyQuarantined { .. }
            | Self::RecordTooLong { .. }
            | Self::TooLarge { .. }
            | Self::Rules { .. } => false,
        }
    }

    /// A stable code for logs, metrics and batches.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotThisFormat { .. } => "NOT_THIS_FORMAT",
            Self::Empty => "EMPTY",
            Self::Truncated { .. } => "TRUNCATED",
            Self::Corrupt { .. } => "CORRUPT",
            Self::AfterEnd { .. } => "AFTER_END",
            Self::CountMismatch { .. } => "COUNT_MISMATCH",
            Self::SumMismatch { .. } => "SUM_MISMATCH",
            Self::DigestMismatch { .. } => "DIGEST_MISMATCH",
            Self::LengthMismatch { .. } => "LENGTH_MISMATCH",
            Self::NoStatement { .. } => "NO_STATEMENT",
            Self::ChannelRefused { .. } => "CHANNEL_REFUSED",
            Self::HeaderMissing { .. } => "HEADER_MISSING",
            Self::HeaderTwice { .. } => "HEADER_TWICE",
            Self::AnotherBill { .. } => "ANOTHER_BILL",
            Self::TooManyQuarantined { .. } => "TOO_MANY_QUARANTINED",
            Self::RecordTooLong { .. } => "RECORD_TOO_LONG",
            Self::TooLarge { .. } => "TOO_LARGE",
            Self::Rules { .. } => "RULES",
            Self::Io(_) => "IO",
            Self::Sink(_) => "SINK",
        }
    }
}
