//! Bytes on their way from the original to text: digests, decompression, bounds, and what went wrong on the way.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;

use crate::error::BillError;

/// How much of a file is looked at to tell what it is.
pub(crate) const HEAD_BYTES: usize = 8 * 1024;

/// A reader that knows length and, if asked for, digest of what went through it.
pub(crate) struct Tapped<R, D> {
    inner: R,
    digest: Option<D>,
    bytes: u64,
    limit_bytes: u64,
}

impl<R: Read, D: sha2::Digest> Tapped<R, D> {
    /// Reads on, and fails beyond so many bytes.
    pub(crate) fn new(inner: R, digest: Option<D>, limit_bytes: u64) -> Self {
        Self { inner, digest, bytes: 0, limit_bytes }
    }

    /// Reads what is left, so that digest and length are those of the whole.
    pub(crate) fn drain(&mut self) -> Result<(), BillError> {
        io::copy(self, &mut io::sink()).map(drop).map_err(bill_error)
    }

    /// Digest and length of what went through.
    pub(crate) fn finish(self) -> (Option<sha2::digest::Output<D>>, u64) {
        (self.digest.map(D::finalize), self.bytes)
    }
}

impl<R: Read, D: sha2::Digest> Read for Tapped<R, D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if let Some(digest) = &mut self.digest {
            digest.update(&buffer[..read]);
        }
        self.bytes = self.bytes.saturating_add(read as u64);
        if self.bytes > self.limit_bytes {
            return Err(io::Error::other(Fault::TooLarge { limit_bytes: self.limit_bytes }));
        }
        Ok(read)
    }
}

/// What a decompressor found, carried through readers that only know [`io::Error`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("more than {limit_bytes} bytes")]
    TooLarge { limit_bytes: u64 },
    #[error("compressed data end early")]
    Truncated,
    #[error("{what}")]
    Corrupt { what: String },
}

/// The verdict on a bill that could not be read on.
pub(crate) fn bill_error(error: io::Error) -> BillError {
    let kind = error.kind();
    match error.downcast::<Fault>() {
        Ok(Fault::TooLarge { limit_bytes }) => BillError::TooLarge { limit_bytes },
        Ok(Fault::Truncated) => BillError::Truncated { what: "the compressed data end early" },
        Ok(Fault::Corrupt { what }) => BillError::Corrupt { what },
        Err(_) if kind == io::ErrorKind::UnexpectedEof => {
            BillError::Truncated { what: "the transfer ended early" }
        }
        Err(error) => BillError::Io(error),
    }
}

/// How decompressors complain of what they read.
const COMPLAINTS: [io::ErrorKind; 3] =
    [io::ErrorKind::InvalidInput, io::ErrorKind::InvalidData, io::ErrorKind::Unsupported];

/// A decompressor whose complaints about its input are told from failures of the input.
pub(crate) struct Decompressed<R>(pub R);

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            if error.get_ref().is_some_and(|inner| inner.is::<Fault>()) {
                return error;
            }
            let kind = error.kind();
            if kind == io::ErrorKind::UnexpectedEof {
                io::Error::other(Fault::Truncated)
            } else if COMPLAINTS.contains(&kind) {
                io::Error::other(Fault::Corrupt { what: error.to_string() })
            } else {
                error
            }
        })
    }
}

/// A gzip file's content, all of its members and their trailers checked.
pub(crate) fn gunzip<R: Read>(compressed: R) -> impl Read {
    Decompressed(MultiGzDecoder::new(compressed))
}

/// Takes the first bytes off a reader, and gives them back in front of it.
pub(crate) fn head_of<R: Read>(mut reader: R) -> Result<(Vec<u8>, impl Read), BillError> {
    let mut head = Vec::new();
    reader.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(bill_error)?;
    Ok((head.clone(), Cursor::new(head).chain(reader)))
}
