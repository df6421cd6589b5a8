//! External sort in bounded memory: records go into a buffer, full buffers are sorted and spilled to files that have no
//! name, and merges give everything back, group by group. Knows groups, keys and bytes, not what they mean.
//!
//! Of our own, and small: the crates that sort externally hold one heap object per record and bound their memory by
//! counting them. Here a record is a key and a payload in one arena, and what is counted is bytes. Groups come back in the
//! order of their numbers, which are hashes: comparing two of them is comparing two words, whatever the keys look like.

mod merge;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::path::{Path, PathBuf};

pub use merge::Merge;

/// Most files of a lane at once; that many are merged into one.
const MAX_RUNS: usize = 64;
/// Buffer of one file.
const FILE_BUFFER_BYTES: usize = 128 * 1024;
/// Group, length of the key and length of the payload, before a record.
const HEAD_BYTES: usize = 16;

/// Where records lie, and how much memory they may take.
#[derive(Debug, Clone)]
pub struct SortOptions {
    /// Where files are made; they vanish with the process, whatever ends it.
    pub folder: PathBuf,
    /// Largest buffer, of all lanes together.
    pub buffer_bytes: usize,
    /// How many merges there are in the end, each of which has whole groups and may run in a thread of its own.
    pub lanes: usize,
}

/// A record that has come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sorted<'a> {
    /// Its group.
    pub group: u64,
    /// Its key.
    pub key: &'a [u8],
    /// What it carries.
    pub payload: &'a [u8],
}

impl Sorted<'_> {
    /// By group, then key, then payload.
    fn order(&self, other: &Sorted<'_>) -> Ordering {
        let by_bytes = || (self.key, self.payload).cmp(&(other.key, other.payload));
        self.group.cmp(&other.group).then_with(by_bytes)
    }
}

/// Takes records.
#[derive(Debug)]
pub struct Sorter {
    options: SortOptions,
    lanes: Vec<Lane>,
    records: u64,
    spilled_bytes: u64,
}

/// The groups of one merge.
#[derive(Debug, Default)]
struct Lane {
    arena: Vec<u8>,
    places: Vec<Place>,
    runs: Vec<File>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    group: u64,
    start: usize,
}

fn length(bytes: &[u8]) -> io::Result<[u8; 4]> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::Error::other("a record is longer than 4 GiB"))?;
    Ok(length.to_le_bytes())
}

/// What the head at the front of these bytes says: the group and both lengths.
fn head(bytes: &[u8]) -> (u64, usize, usize) {
    let number = |at: usize| {
        let mut number = [0_u8; 4];
        number.copy_from_slice(&bytes[at..at + 4]);
        usize::try_from(u32::from_le_bytes(number)).unwrap_or(usize::MAX)
    };
    let mut group = [0_u8; 8];
    group.copy_from_slice(&bytes[..8]);
    (u64::from_le_bytes(group), number(8), number(12))
}

/// The whole record at the front of these bytes, and how long it is with its head.
fn record(bytes: &[u8]) -> (Sorted<'_>, usize) {
    let (group, key, payload) = head(bytes);
    let end = HEAD_BYTES + key + payload;
    let (key, payload) = (&bytes[HEAD_BYTES..HEAD_BYTES + key], &bytes[HEAD_BYTES + key..end]);
    (Sorted { group, key, payload }, end)
}

impl Sorter {
    /// Takes nothing yet.
    pub fn new(options: SortOptions) -> Sorter {
        let lanes = options.lanes.max(1);
        let options =
            SortOptions { buffer_bytes: options.buffer_bytes.max(FILE_BUFFER_BYTES), lanes, ..options };
        let lanes = std::iter::repeat_with(Lane::default).take(lanes).collect();
        Sorter { options, lanes, records: 0, spilled_bytes: 0 }
    }

    /// How many records it has taken.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// How much went to files, so far.
    pub const fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes
    }

    /// Takes a record.
    ///
    /// # Errors
    /// A full buffer could not be spilled; the sorter is of no more use.
    pub fn push(&mut self, group: u64, key: &[u8], payload: &[u8]) -> io::Result<()> {
        let size = HEAD_BYTES + key.len() + payload.len();
        let buffer_bytes = self.options.buffer_bytes / self.options.lanes;
        // Not the bits that a merge compares first: a lane would hold a stretch of them.
        let number = usize::try_from(group % u64::try_from(self.options.lanes).unwrap_or(1)).unwrap_or(0);
        let lane = &mut self.lanes[number];
        if lane.is_full(size, buffer_bytes) {
            self.spilled_bytes += lane.spill(&self.options.folder)?;
        }
        lane.take(group, key, payload, buffer_bytes)?;
        self.records += 1;
        Ok(())
    }

    /// Takes what another sorter with as many lanes has taken.
    ///
    /// # Errors
    /// Its buffer could not be spilled; both are of no more use.
    pub fn join(&mut self, mut other: Sorter) -> io::Result<()> {
        if other.lanes.len() != self.lanes.len() {
            return Err(io::Error::other("two sorts with different numbers of lanes are no one sort"));
        }
        for (lane, others) in self.lanes.iter_mut().zip(&mut other.lanes) {
            other.spilled_bytes += others.spill(&self.options.folder)?;
            lane.runs.append(&mut others.runs);
            if lane.runs.len() >= MAX_RUNS {
                lane.merge_runs(&self.options.folder)?;
            }
        }
        self.records += other.records;
        self.spilled_bytes += other.spilled_bytes;
        Ok(())
    }

    /// Everything in order, one merge per lane. The buffer is given back before they begin.
    ///
    /// # Errors
    /// The rest could not be spilled.
    pub fn finish(mut self) -> io::Result<Vec<Merge>> {
        let mut files = Vec::with_capacity(self.lanes.len());
        for mut lane in std::mem::take(&mut self.lanes) {
            lane.spill(&self.options.folder)?;
            files.push(lane.runs);
        }
        files.into_iter().map(Merge::over).collect()
    }
}

impl Lane {
    fn is_full(&self, size: usize, buffer_bytes: usize) -> bool {
        let in_use = self.arena.len() + self.places.len() * size_of::<Place>();
        !self.places.is_empty() && in_use + size + size_of::<Place>() > buffer_bytes
    }

    fn take(&mut self, group: u64, key: &[u8], payload: &[u8], buffer_bytes: usize) -> io::Result<()> {
        let (key_length, payload_length) = (length(key)?, length(payload)?);
        // By an eighth of the buffer at a time: doubling would overshoot the bound by as much again.
        let (size, step) = (HEAD_BYTES + key.len() + payload.len(), buffer_bytes / 8);
        if self.arena.capacity() - self.arena.len() < size {
            self.arena.reserve_exact(step.max(size));
        }
        if self.places.len() == self.places.capacity() {
            self.places.reserve_exact(step / size_of::<Place>() + 1);
        }
        self.places.push(Place { group, start: self.arena.len() });
        self.arena.extend_from_slice(&group.to_le_bytes());
        self.arena.extend_from_slice(&key_length);
        self.arena.extend_from_slice(&payload_length);
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(payload);
        Ok(())
    }

    /// Sorts what is in the buffer into a file. Returns its length.
    fn spill(&mut self, folder: &Path) -> io::Result<u64> {
        if self.places.is_empty() {
            return Ok(0);
        }
        if self.runs.len() >= MAX_RUNS {
            self.merge_runs(folder)?;
        }
        let arena = &self.arena;
        self.places.sort_unstable_by(|a, b| {
            let by_bytes = || record(&arena[a.start..]).0.order(&record(&arena[b.start..]).0);
            a.group.cmp(&b.group).then_with(by_bytes)
        });
        let mut writer = BufWriter::with_capacity(FILE_BUFFER_BYTES, tempfile::tempfile_in(folder)?);
        for place in &self.places {
            let bytes = &arena[place.start..];
            writer.write_all(&bytes[..record(bytes).1])?;
        }
        self.runs.push(finished(writer)?);
        let spilled = u64::try_from(arena.len()).unwrap_or(u64::MAX);
        self.arena.clear();
        self.places.clear();
        Ok(spilled)
    }

    /// Many files become one.
    fn merge_runs(&mut self, folder: &Path) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(FILE_BUFFER_BYTES, tempfile::tempfile_in(folder)?);
        let mut merge = Merge::over(std::mem::take(&mut self.runs))?;
        while let Some(Sorted { group, key, payload }) = merge.head() {
            writer.write_all(&group.to_le_bytes())?;
            writer.write_all(&length(key)?)?;
            writer.write_all(&length(payload)?)?;
            writer.write_all(key)?;
            writer.write_all(payload)?;
            merge.advance()?;
        }
        self.runs.push(finished(writer)?);
        Ok(())
    }
}

fn finished(writer: BufWriter<File>) -> io::Result<File> {
    let mut file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}
