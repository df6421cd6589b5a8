//! Configuration files under any environment. Input: lines of variables, and the file.

#![no_main]

#[path = "../../crates/flow-config/tests/properties/configuration.rs"]
mod configuration;

use std::path::PathBuf;
use std::sync::LazyLock;

/// A folder of this process alone: several may run at once.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("pay-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    folder
});

libfuzzer_sys::fuzz_target!(|input: &str| {
    let (env, text) = configuration::layers_in(input);
    configuration::check(&FOLDER, &env, text);
});
