//! Bills as they came, kept for good: what is compared is the copy that is kept, under its own digest.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use flow_core::ids::ChannelName;
use sha2::{Digest as _, Sha256};

/// Bytes copied at once.
const COPY_BYTES: usize = 128 * 1024;

/// A bill that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Where.
    pub path: PathBuf,
    /// Its digest, in hex.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
}

/// Copies a bill into the folder, under channel, day and digest. The same bill again is the same file.
///
/// # Errors
/// It cannot be read, or the folder cannot be written to.
pub fn keep(folder: &Path, channel: &ChannelName, day: NaiveDate, bill: &Path) -> io::Result<Kept> {
    let folder = folder.join(channel.as_str());
    fs::create_dir_all(&folder)?;
    let mut source = File::open(bill)?;
    let mut copy = tempfile::NamedTempFile::new_in(&folder)?;
    let (mut digest, mut bytes, mut buffer) = (Sha256::new(), 0_u64, vec![0_u8; COPY_BYTES]);
    loop {
        let count = source.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        digest.update(&buffer[..count]);
        copy.write_all(&buffer[..count])?;
        bytes += u64::try_from(count).unwrap_or(u64::MAX);
    }
    copy.as_file().sync_all()?;
    let sha256 = hex::encode(digest.finalize());
    let path = folder.join(format!("{day}-{sha256}"));
    if !path.exists() {
        copy.persist(&path).map_err(|error| error.error)?;
    }
    Ok(Kept { path, sha256, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_is_kept_once_under_its_digest_and_another_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let bill = folder.path().join("bill.csv");
        fs::write(&bill, "abc").unwrap();
        let channel = ChannelName::new("main").unwrap();
        let day = NaiveDate::from_ymd_opt(2026, 1, 2).unwrap();
        let kept = keep(folder.path(), &channel, day, &bill).unwrap();
        assert_eq!(kept.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!((kept.bytes, fs::read(&kept.path).unwrap()), (3, b"abc".to_vec()));
        assert_eq!(keep(folder.path(), &channel, day, &bill).unwrap(), kept);
        fs::write(&bill, "abd").unwrap();
        assert_ne!(keep(folder.path(), &channel, day, &bill).unwrap().path, kept.path);
        assert_eq!(fs::read_dir(folder.path().join("main")).unwrap().count(), 2);
        assert!(keep(folder.path(), &channel, day, &folder.path().join("none")).is_err());
    }
}
