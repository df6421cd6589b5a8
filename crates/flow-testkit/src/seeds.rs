//! The inputs that the fuzz targets are started with, `fuzz/seeds/TARGET/`: ordinary ones, and every one that ever broke
//! a property. Ordinary test runs repeat them; nothing here knows what they mean.

use std::fs;
use std::path::Path;

/// Hands every seed of a target over, in the order of their names.
///
/// # Panics
/// There are none, or one cannot be read; whatever `check` panics with, after naming the seed.
pub fn each(target: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{} can not be listed: {error}", folder.display()));
    let mut paths: Vec<_> =
        entries.map(|entry| entry.expect("a folder can be listed to its end").path()).collect();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.sort();
    for path in paths {
        // Shown by the test runner with the failure that follows, if one does.
        eprintln!("{}", path.display());
        let bytes =
            fs::read(&path).unwrap_or_else(|error| panic!("{} can not be read: {error}", path.display()));
        check(&bytes);
    }
}
