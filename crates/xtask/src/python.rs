//! Programs from PyPI, each in an environment of its own under the build's folder; nothing of the machine's is touched.

use std::path::PathBuf;

use tokio::process::Command;

use crate::cargo;

/// The `bin` folder of an environment that holds this version of a package; made the first time.
///
/// # Errors
/// There is no `python3` with `venv`, or the package could not be fetched.
pub(crate) async fn environment(package: &str, version: &str) -> anyhow::Result<PathBuf> {
    let environment = xtask::target_dir().join(package).join(version);
    // Written last, so that an environment that was cut off is made anew.
    let mark = environment.join("complete");
    let programs = environment.join("bin");
    if !mark.exists() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--clear"]).arg(&environment);
        cargo::run("making a Python environment", &mut make).await?;
        let mut install = Command::new(programs.join("pip"));
        install.args(["install", "--quiet", "--disable-pip-version-check", &format!("{package}=={version}")]);
        cargo::run(&format!("fetching {package} {version}"), &mut install).await?;
        std::fs::write(&mark, version)?;
    }
    Ok(programs)
}
