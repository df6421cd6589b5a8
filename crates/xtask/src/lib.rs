//! What the developer commands and the end-to-end suites share: private database servers, the product's processes
//! around them, and progress on the terminal.
//!
//! This library starts and stops things, and speaks to the product from outside. It must not depend on `flow-core`:
//! `cargo xtask sqlx` has to build while the committed query metadata, and with it `flow-core`, is out of date.

pub mod db;
pub mod programs;
pub mod progress;
pub mod stack;

use std::path::{Path, PathBuf};

/// The folder that holds the workspace's `Cargo.toml`.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this crate lies two folders below the workspace root")
        .to_path_buf()
}

/// Where cargo puts what it builds; private servers keep their data below it.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from)
}
