//! External sort in bounded memory: records go into one buffer, full buffers are sorted and spilled to files that have no
//! name, and a merge gives everything back in order. Knows keys and bytes, not what they mean.
//!
//! Of our own, and small: the crates that sort externally hold one heap object per record and bound their memory by
//! counting them. Here a record is a key and a payload in one arena, and what is counted is bytes.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::path::PathBuf;

/// Most files at once; that many are merged into one.
const MAX_RUNS: usize = 64;
/// Buffer of one file.
const FILE_BUFFER_BYTES: usize = 128 * 1024;
/// Length of both lengths before a record.
const HEAD_BYTES: usize = 8;

/// Where records lie, and how much memory they may take.
#[derive(Debug, Clone)]
pub struct SortOptions {
    /// Where files are made; they vanish with the process, whatever ends it.
    pub folder: PathBuf,
    /// Largest buffer.
    pub buffer_bytes: usize,
}

/// A record that has come back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sorted {
    /// Its key.
    pub key: Vec<u8>,
    /// What it carries.
    pub payload: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// The first bytes of the key behind what most keys begin with alike.
    prefix: u128,
    start: usize,
}

/// Takes records.
#[derive(Debug)]
pub struct Sorter {
    options: SortOptions,
    arena: Vec<u8>,
    places: Vec<Place>,
    runs: Vec<File>,
    records: u64,
    spilled_bytes: u64,
}

/// Bytes that are compared at once.
fn prefix_of(key: &[u8]) -> u128 {
    let mut first = [0_u8; 16];
    let length = key.len().min(first.len());
    first[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(first)
}

fn length(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| io::Error::other("a record is longer than 4 GiB"))
}

fn parts(arena: &[u8], start: usize) -> (&[u8], &[u8]) {
    let number = |at: usize| {
        let mut bytes = [0_u8; 4];
        bytes.copy_from_slice(&arena[at..at + 4]);
        usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX)
    };
    let (key, payload) = (number(start), number(start + 4));
    let body = start + HEAD_BYTES;
    (&arena[body..body + key], &arena[body + key..body + key + payload])
}

impl Sorter {
    /// Takes nothing yet.
    pub fn new(options: SortOptions) -> Sorter {
        let buffer_bytes = options.buffer_bytes.max(FILE_BUFFER_BYTES);
        let options = SortOptions { buffer_bytes, ..options };
        Sorter {
            options,
            arena: Vec::new(),
            places: Vec::new(),
            runs: Vec::new(),
            records: 0,
            spilled_bytes: 0,
        }
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
    pub fn push(&mut self, key: &[u8], payload: &[u8]) -> io::Result<()> {
        let size = HEAD_BYTES + key.len() + payload.len();
        let in_use = self.arena.len() + self.places.len() * size_of::<Place>();
        if !self.places.is_empty() && in_use + size + size_of::<Place>() > self.options.buffer_bytes {
            self.spill()?;
        }
        self.reserve(size);
        let start = self.arena.len();
        self.arena.extend_from_slice(&length(key)?.to_le_bytes());
        self.arena.extend_from_slice(&length(payload)?.to_le_bytes());
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(payload);
        self.places.push(Place { prefix: prefix_of(key), start });
        self.records += 1;
        Ok(())
    }

    /// Grows the arena by a quarter of the buffer at a time: doubling would overshoot the bound by as much again.
    fn reserve(&mut self, size: usize) {
        if self.arena.capacity() - self.arena.len() < size {
            let step = (self.options.buffer_bytes / 8).max(size);
            self.arena.reserve_exact(step);
        }
        if self.places.len() == self.places.capacity() {
            self.places.reserve_exact(self.options.buffer_bytes / 8 / size_of::<Place>() + 1);
        }
    }

    fn sort(&mut self) {
        let arena = &self.arena;
        self.places.sort_unstable_by(|a, b| {
            let by_key = || parts(arena, a.start).cmp(&parts(arena, b.start));
            a.prefix.cmp(&b.prefix).then_with(by_key)
        });
    }

    fn spill(&mut self) -> io::Result<()> {
        if self.runs.len() >= MAX_RUNS {
            self.merge_runs()?;
        }
        self.sort();
        let mut writer = BufWriter::with_capacity(FILE_BUFFER_BYTES, self.new_file()?);
        for place in &self.places {
            let (key, payload) = parts(&self.arena, place.start);
            let size = HEAD_BYTES + key.len() + payload.len();
            writer.write_all(&self.arena[place.start..place.start + size])?;
        }
        self.spilled_bytes += u64::try_from(self.arena.len()).unwrap_or(u64::MAX);
        self.runs.push(finished(writer)?);
        self.arena.clear();
        self.places.clear();
        Ok(())
    }

    fn new_file(&self) -> io::Result<File> {
        tempfile::tempfile_in(&self.options.folder)
    }

    /// Many files become one.
    fn merge_runs(&mut self) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(FILE_BUFFER_BYTES, self.new_file()?);
        let mut merge = Merge::over(std::mem::take(&mut self.runs))?;
        let mut record = Sorted::default();
        while merge.next_into(&mut record)? {
            writer.write_all(&length(&record.key)?.to_le_bytes())?;
            writer.write_all(&length(&record.payload)?.to_le_bytes())?;
            writer.write_all(&record.key)?;
            writer.write_all(&record.payload)?;
        }
        self.runs.push(finished(writer)?);
        Ok(())
    }

    /// Everything in order. The buffer is given back before the merge begins.
    ///
    /// # Errors
    /// The rest could not be spilled.
    pub fn finish(mut self) -> io::Result<Merge> {
        if !self.places.is_empty() {
            self.spill()?;
        }
        (self.arena, self.places) = (Vec::new(), Vec::new());
        Merge::over(self.runs)
    }
}

fn finished(writer: BufWriter<File>) -> io::Result<File> {
    let mut file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}

#[derive(Debug)]
struct Run {
    reader: BufReader<File>,
    head: Sorted,
    number: usize,
}

impl Run {
    /// Reads the next record into the head; false at the end of the file.
    fn advance(&mut self) -> io::Result<bool> {
        let mut head = [0_u8; HEAD_BYTES];
        if self.reader.read(&mut head[..1])? == 0 {
            return Ok(false);
        }
        self.reader.read_exact(&mut head[1..])?;
        let size = |bytes: &[u8]| {
            let mut number = [0_u8; 4];
            number.copy_from_slice(bytes);
            usize::try_from(u32::from_le_bytes(number)).unwrap_or(usize::MAX)
        };
        self.head.key.resize(size(&head[..4]), 0);
        self.reader.read_exact(&mut self.head.key)?;
        self.head.payload.resize(size(&head[4..]), 0);
        self.reader.read_exact(&mut self.head.payload)?;
        Ok(true)
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Run) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Run {}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Run) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Run {
    fn cmp(&self, other: &Run) -> Ordering {
        let content =
            self.head.key.cmp(&other.head.key).then_with(|| self.head.payload.cmp(&other.head.payload));
        content.then(self.number.cmp(&other.number))
    }
}

/// Gives records back in the order of their keys; of one key, in that of their payloads.
#[derive(Debug)]
pub struct Merge {
    heap: BinaryHeap<Reverse<Run>>,
}

impl Merge {
    fn over(files: Vec<File>) -> io::Result<Merge> {
        let mut heap = BinaryHeap::with_capacity(files.len());
        for (number, file) in files.into_iter().enumerate() {
            let reader = BufReader::with_capacity(FILE_BUFFER_BYTES, file);
            let mut run = Run { reader, head: Sorted::default(), number };
            if run.advance()? {
                heap.push(Reverse(run));
            }
        }
        Ok(Merge { heap })
    }

    /// The next record, into a place that is used over and over; false at the end.
    ///
    /// # Errors
    /// A file could not be read, or ends in the middle of a record.
    pub fn next_into(&mut self, record: &mut Sorted) -> io::Result<bool> {
        let Some(mut first) = self.heap.peek_mut() else { return Ok(false) };
        std::mem::swap(record, &mut first.0.head);
        if first.0.advance()? {
            // Its new place is found when it is let go of.
            drop(first);
        } else {
            std::collections::binary_heap::PeekMut::pop(first);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorter(buffer_bytes: usize) -> Sorter {
        let mut sorter = Sorter::new(SortOptions { folder: std::env::temp_dir(), buffer_bytes: 0 });
        // Below what is allowed: many files of few records.
        sorter.options.buffer_bytes = buffer_bytes;
        sorter
    }

    fn all(mut merge: Merge) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut out = Vec::new();
        let mut record = Sorted::default();
        while merge.next_into(&mut record).unwrap() {
            out.push((record.key.clone(), record.payload.clone()));
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_sorts_whatever_the_buffer(
            mut records in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..24), prop::collection::vec(any::<u8>(), 0..40)), 0..400),
            buffer_bytes in 1_usize..4_000,
        ) {
            let mut sorter = sorter(buffer_bytes);
            for (key, payload) in &records {
                sorter.push(key, payload).unwrap();
            }
            let sorted = all(sorter.finish().unwrap());
            records.sort();
            prop_assert_eq!(sorted, records);
        }
    }

    #[test]
    fn more_files_than_may_be_open_become_one() {
        let mut sorter = sorter(1);
        for number in (0..1_000_u32).rev() {
            sorter.push(&number.to_be_bytes(), b"x").unwrap();
        }
        assert!(sorter.runs.len() <= MAX_RUNS, "{}", sorter.runs.len());
        let keys: Vec<u32> = all(sorter.finish().unwrap())
            .into_iter()
            .map(|(key, _)| u32::from_be_bytes(key.try_into().unwrap()))
            .collect();
        assert_eq!(keys, (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn the_buffer_is_all_it_takes() {
        let buffer_bytes = 1_000_000;
        let mut sorter = Sorter::new(SortOptions { folder: std::env::temp_dir(), buffer_bytes });
        for number in 0..50_000_u32 {
            sorter.push(&number.to_be_bytes(), &[7; 60]).unwrap();
            let held = sorter.arena.capacity() + sorter.places.capacity() * size_of::<Place>();
            assert!(held <= buffer_bytes + buffer_bytes / 3, "{held} bytes are held");
        }
        assert!(sorter.spilled_bytes() > 2_000_000);
        assert_eq!(all(sorter.finish().unwrap()).len(), 50_000);
    }

    #[test]
    fn a_file_that_ends_in_a_record_is_an_error() {
        let mut sorter = sorter(1);
        sorter.push(b"key", b"payload").unwrap();
        sorter.push(b"kez", b"payload").unwrap();
        let file = sorter.runs.first().unwrap();
        file.set_len(10).unwrap();
        assert!(sorter.finish().is_err());
    }
}
