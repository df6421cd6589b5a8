//! Packs the files of a bill.

use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{Bill, NoBill, Pack};

/// Packs the files; where only one fits, the one with the rows, which comes first.
pub(super) fn pack(mut files: Vec<(String, Vec<u8>)>, pack: Pack) -> Result<Bill, NoBill> {
    let packed = match pack {
        Pack::None => None,
        Pack::Gz => Some(gz(files.first().map_or(&[][..], |(_, content)| content.as_slice()))),
        Pack::Zip => Some(zip(&files).map_err(|error| error.to_string())),
    };
    let content_type = match pack {
        Pack::None => "text/csv",
        Pack::Gz => "application/gzip",
        Pack::Zip => "application/zip",
    };
    let unpacked = if files.is_empty() { Vec::new() } else { files.swap_remove(0).1 };
    let bytes = packed.transpose().map_err(|what| NoBill::Unwritable { what })?;
    Ok(Bill { bytes: bytes.unwrap_or_else(|| unpacked.clone()), unpacked, content_type })
}

fn gz(content: &[u8]) -> Result<Vec<u8>, String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).map_err(|error| error.to_string())?;
    encoder.finish().map_err(|error| error.to_string())
}

/// The summary comes first, as it does in the archives that Alipay serves.
fn zip(files: &[(String, Vec<u8>)]) -> zip::result::ZipResult<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files.iter().rev() {
        writer.start_file(name.as_str(), SimpleFileOptions::default())?;
        writer.write_all(content)?;
    }
    Ok(writer.finish()?.into_inner())
}
