//! Bills in zip archives.
//!
//! The directory of an archive is at its end and channels leave sizes out of the entries before it, so that the archive is kept in
//! an anonymous temporary file first. Without its directory it is cut off.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::{BillError, FoundFormat};
use crate::layout::Part;
use crate::read::Reading;
use crate::source::{Decompressed, HEAD_BYTES, bill_error};

/// Most entries of an archive; a bill has two at most, a workbook a dozen.
const MAX_ENTRIES: usize = 64;

type Archive = ZipArchive<BufReader<File>>;

/// Reads the bill in an archive, and then its summary if there is one.
pub(crate) fn read(reading: &mut Reading<'_, '_>, compressed: impl Read) -> Result<(), BillError> {
    let mut archive = spool(compressed)?;
    let parts = parts(reading, &mut archive)?;
    for part in [Part::Bill, Part::Summary] {
        let of_part: Vec<usize> =
            parts.iter().filter(|(_, is)| *is == part).map(|(index, _)| *index).collect();
        match (part, of_part.as_slice()) {
            (Part::Bill, []) => return Err(reading.something_else(FoundFormat::Zip)),
            (Part::Summary, []) => {}
            (Part::Bill | Part::Summary, [index]) => {
                let entry = archive.by_index(*index).map_err(damaged)?;
                reading.part(part, Decompressed(entry))?;
            }
            (Part::Bill | Part::Summary, [_, ..]) => {
                let what = format!("the archive holds {} bills", of_part.len());
                return Err(BillError::Corrupt { what });
            }
        }
    }
    Ok(())
}

fn spool(mut compressed: impl Read) -> Result<Archive, BillError> {
    let mut file = tempfile::tempfile().map_err(BillError::Io)?;
    io::copy(&mut compressed, &mut file).map_err(bill_error)?;
    file.rewind().map_err(BillError::Io)?;
    match ZipArchive::new(BufReader::new(file)) {
        Ok(archive) => Ok(archive),
        Err(ZipError::InvalidArchive(_)) => {
            Err(BillError::Truncated { what: "the archive's directory is missing" })
        }
        Err(error) => Err(damaged(error)),
    }
}

/// Which entry is which file of the bill.
fn parts(reading: &Reading<'_, '_>, archive: &mut Archive) -> Result<Vec<(usize, Part)>, BillError> {
    if archive.file_names_raw().any(|name| name == b"[Content_Types].xml") {
        return Err(reading.something_else(FoundFormat::Xlsx));
    }
    if archive.len() > MAX_ENTRIES {
        return Err(reading.something_else(FoundFormat::Zip));
    }
    let mut parts = Vec::new();
    for index in 0..archive.len() {
        let raw = archive.by_index_raw(index).map_err(damaged)?;
        if raw.encrypted() {
            return Err(reading.something_else(FoundFormat::EncryptedZip));
        }
        // Left behind by a Mac.
        if !raw.is_file() || raw.name_raw().starts_with(b"__MACOSX/") {
            continue;
        }
        drop(raw);
        let mut head = Vec::new();
        let entry = archive.by_index(index).map_err(damaged)?;
        Decompressed(entry).take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(bill_error)?;
        let (text, _, _) = reading.layout.encoding().decode(&head);
        parts.extend(reading.layout.part(&text).map(|part| (index, part)));
    }
    Ok(parts)
}

fn damaged(error: ZipError) -> BillError {
    if let ZipError::Io(error) = error {
        return bill_error(error);
    }
    BillError::Corrupt { what: format!("the zip archive: {error}") }
}
