//! Sorted files become one sequence, read where they lie in their buffers.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read as _};

use super::{FILE_BUFFER_BYTES, HEAD_BYTES, Sorted, head, record};

/// A sorted file, at one of its records.
#[derive(Debug)]
struct Run {
    file: File,
    buffer: Vec<u8>,
    /// Where in the buffer the record begins, and where what was read ends.
    at: usize,
    filled: usize,
    /// The record's length with its head; nothing before the first.
    size: usize,
    group: u64,
}

impl Run {
    fn over(file: File) -> Run {
        Run { file, buffer: vec![0; FILE_BUFFER_BYTES], at: 0, filled: 0, size: 0, group: 0 }
    }

    /// Goes to the next record; false at the end of the file.
    fn advance(&mut self) -> io::Result<bool> {
        self.at += self.size;
        self.size = 0;
        if !self.fill(HEAD_BYTES)? {
            return Ok(false);
        }
        let (group, key, payload) = head(&self.buffer[self.at..]);
        let size = key.checked_add(payload).and_then(|size| size.checked_add(HEAD_BYTES));
        let size = size.ok_or_else(|| io::Error::other("a spilled record has no length"))?;
        if !self.fill(size)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (self.group, self.size) = (group, size);
        Ok(true)
    }

    /// Sees to it that so many bytes lie ahead; false where the file ends before the first of them.
    fn fill(&mut self, size: usize) -> io::Result<bool> {
        if self.filled - self.at >= size {
            return Ok(true);
        }
        self.buffer.copy_within(self.at..self.filled, 0);
        (self.filled, self.at) = (self.filled - self.at, 0);
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        while self.filled < size {
            match self.file.read(&mut self.buffer[self.filled..])? {
                0 if self.filled == 0 => return Ok(false),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.filled += read,
            }
        }
        Ok(true)
    }

    fn record(&self) -> Sorted<'_> {
        record(&self.buffer[self.at..self.at + self.size]).0
    }
}

/// Gives records back by group; of one group, in the order of their keys; of one key, in that of their payloads.
#[derive(Debug)]
pub struct Merge {
    runs: Vec<Run>,
    /// Runs that are not at their end, as a binary heap: none is before the one at half its place.
    heap: Vec<usize>,
}

impl Merge {
    pub(super) fn over(files: Vec<File>) -> io::Result<Merge> {
        let mut merge = Merge { runs: Vec::with_capacity(files.len()), heap: Vec::new() };
        for file in files {
            let mut run = Run::over(file);
            if run.advance()? {
                merge.heap.push(merge.runs.len());
                merge.runs.push(run);
            }
        }
        for place in (0..merge.heap.len() / 2).rev() {
            merge.sink(place);
        }
        Ok(merge)
    }

    /// The record it stands at; `None` at the end.
    pub fn head(&self) -> Option<Sorted<'_>> {
        self.heap.first().map(|first| self.runs[*first].record())
    }

    /// Goes to the next record.
    ///
    /// # Errors
    /// A file could not be read, or ends in the middle of a record.
    pub fn advance(&mut self) -> io::Result<()> {
        let Some(first) = self.heap.first().copied() else { return Ok(()) };
        if !self.runs[first].advance()? {
            self.heap.swap_remove(0);
        }
        self.sink(0);
        Ok(())
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        let (one, other) = (&self.runs[a], &self.runs[b]);
        match one.group.cmp(&other.group) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => one.record().order(&other.record()).then(a.cmp(&b)) == Ordering::Less,
        }
    }

    /// Lets what is at this place of the heap sink to where it belongs.
    fn sink(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            if left >= self.heap.len() {
                return;
            }
            let is_right = right < self.heap.len() && self.is_before(self.heap[right], self.heap[left]);
            let first = if is_right { right } else { left };
            if !self.is_before(self.heap[first], self.heap[place]) {
                return;
            }
            self.heap.swap(place, first);
            place = first;
        }
    }
}
