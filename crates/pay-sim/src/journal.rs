//! The append-only journal: one JSON line per command, handed to the operating system before the answer leaves.
//!
//! A killed process loses nothing that it answered; a killed machine may, unless `fsync` is asked for. The last line may be
//! torn (killed in the middle of a write): it was never answered, so it is cut off at the next start. A broken line anywhere
//! else is not the work of a kill, and the start is refused.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ledger::{Command, World};

/// Why a journal could not be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file can't be read or written.
    #[error("journal {path}: {source}; nothing was answered on its strength, check the file and its disk")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A whole line is no command.
    #[error(
        "journal {path}, line {line}: {source}; not a torn tail, so the world can not be rebuilt: restore or remove the file"
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// Where commands are kept.
#[derive(Debug)]
pub enum Journal {
    /// Nowhere: for benchmarks, where the far side must cost nothing.
    Memory,
    /// In a file.
    File(FileJournal),
}

/// An open journal file, positioned at its end.
#[derive(Debug)]
pub struct FileJournal {
    path: PathBuf,
    file: Arc<File>,
    fsync: bool,
    length_bytes: u64,
    line: Vec<u8>,
}

/// A promise that a written command reaches the disk: to be kept outside any lock, before the answer leaves.
#[derive(Debug, Clone)]
#[must_use]
pub struct PendingSync {
    path: PathBuf,
    file: Arc<File>,
}

#[derive(Serialize)]
struct WrittenLine<'a> {
    at_ms: i64,
    command: &'a Command,
}

#[derive(Deserialize)]
struct ReadLine {
    at_ms: i64,
    command: Command,
}

/// What a replay found.
#[derive(Debug)]
pub struct Replayed {
    /// The journal, ready to append.
    pub journal: Journal,
    /// The world its commands lead to.
    pub world: World,
    /// Number of commands replayed.
    pub commands: usize,
    /// Bytes of a torn last line that were cut off.
    pub torn_bytes: u64,
}

impl Journal {
    /// Opens or creates a journal file, rebuilds the world from it and cuts off a torn last line.
    ///
    /// # Errors
    /// When the file can't be read or written, or a line other than a torn last one is broken.
    pub fn open(path: &Path, fsync: bool) -> Result<Replayed, JournalError> {
        let io = |source| JournalError::Io { path: path.to_owned(), source };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(io)?;
        let length_bytes = file.metadata().map_err(io)?.len();
        let mut world = World::new();
        let mut commands = 0;
        let mut whole_bytes = 0_u64;
        let mut reader = BufReader::new(&mut file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read_bytes = reader.read_until(b'\n', &mut line).map_err(io)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            let read: ReadLine = serde_json::from_slice(&line).map_err(|source| JournalError::Corrupt {
                path: path.to_owned(),
                line: commands + 1,
                source,
            })?;
            world.replay(&read.command, read.at_ms);
            commands += 1;
            whole_bytes += read_bytes as u64;
        }
        drop(reader);
        let torn_bytes = length_bytes.saturating_sub(whole_bytes);
        if torn_bytes > 0 {
            file.set_len(whole_bytes).map_err(io)?;
        }
        file.seek(SeekFrom::End(0)).map_err(io)?;
        let file = FileJournal {
            path: path.to_owned(),
            file: Arc::new(file),
            fsync,
            length_bytes: whole_bytes,
            line,
        };
        Ok(Replayed { journal: Self::File(file), world, commands, torn_bytes })
    }

    /// Whether commands are kept at all; where not, none need be made.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        match self {
            Self::Memory => false,
            Self::File(_) => true,
        }
    }

    /// Hands a command to the operating system. Call it before the command is applied, in the order of application.
    /// With fsync on, the answer must also wait for the returned promise.
    ///
    /// # Errors
    /// When the write fails: the command must not be applied then. A part of the line that was written is taken back.
    pub fn append(&mut self, at_ms: i64, command: &Command) -> Result<Option<PendingSync>, JournalError> {
        match self {
            Self::Memory => Ok(None),
            Self::File(journal) => journal.append(at_ms, command),
        }
    }

    /// Forgets everything.
    ///
    /// # Errors
    /// When the file can't be truncated.
    pub fn clear(&mut self) -> Result<(), JournalError> {
        match self {
            Self::Memory => Ok(()),
            Self::File(journal) => {
                journal.file.set_len(0).map_err(|source| journal.io(source))?;
                journal.length_bytes = 0;
                Ok(())
            }
        }
    }
}

impl FileJournal {
    fn append(&mut self, at_ms: i64, command: &Command) -> Result<Option<PendingSync>, JournalError> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, &WrittenLine { at_ms, command })
            .map_err(|e| self.io(e.into()))?;
        self.line.push(b'\n');
        if let Err(source) = (&*self.file).write_all(&self.line) {
            // A half line in the middle of the file would spoil every later start.
            self.file.set_len(self.length_bytes).map_err(|source| self.io(source))?;
            return Err(self.io(source));
        }
        self.length_bytes += self.line.len() as u64;
        Ok(self.fsync.then(|| PendingSync { path: self.path.clone(), file: Arc::clone(&self.file) }))
    }

    fn io(&self, source: std::io::Error) -> JournalError {
        JournalError::Io { path: self.path.clone(), source }
    }
}

impl PendingSync {
    /// Waits until the disk has it. Blocks: not for an async thread.
    ///
    /// # Errors
    /// When the disk says no; whether the command survives a power cut is unknown then.
    pub fn wait(self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(|source| JournalError::Io { path: self.path, source })
    }
}

#[cfg(test)]
mod tests;
