//! The binaries that the end-to-end suites run.

use anyhow::Context as _;
use xtask::stack::Profile;

use crate::cargo;
use crate::stand::Stand;

/// The product's binaries.
const BINARIES: [&str; 4] = ["pay-api", "pay-scanner", "pay-recon", "pay-sim"];

/// Of those that have crash points.
const FEATURES: &str = "pay-api/crash-points,pay-scanner/crash-points,pay-recon/crash-points";

/// Builds them twice: with crash points, put aside for the crash matrix, and then as they ship, for every other suite.
/// Both builds share everything outside the workspace, and cargo keeps both: what was not changed is not built again.
pub(crate) async fn build(stand: &Stand) -> anyhow::Result<()> {
    let mut armed = cargo::command(&["build", "--workspace", "--bins", "--features", FEATURES]);
    cargo::run("cargo build --workspace --bins, with crash points", stand.environment(&mut armed)).await?;
    for name in BINARIES {
        let (from, to) = (Profile::Debug.binary(name), Profile::CrashPoints.binary(name));
        put_aside(&from, &to)
            .with_context(|| format!("can not copy {} to {}", from.display(), to.display()))?;
    }
    let mut plain = cargo::command(&["build", "--workspace", "--bins"]);
    cargo::run("cargo build --workspace --bins", stand.environment(&mut plain)).await
}

fn put_aside(from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // The old one may be running, which forbids writing into it, and not replacing it.
    let draft = to.with_extension("new");
    std::fs::copy(from, &draft)?;
    std::fs::rename(&draft, to)
}
