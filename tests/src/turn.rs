//! One suite at a time on this machine, each with a limit.

use std::fs::File;
use std::time::Duration;

use xtask::db::Flavor;
use xtask::programs::is_missing;
use xtask::stack::Patience;

/// Runs one suite to its end, or fails.
///
/// # Panics
/// The suite failed or took too long.
pub fn run<F>(flavor: Flavor, name: &str, limit_s: u64, suite: impl FnOnce(Flavor) -> F)
where
    F: Future<Output = anyhow::Result<()>>,
{
    if is_missing(flavor.slug()) {
        eprintln!("{name}: not tested on {flavor}, it cannot be had here");
        return;
    }
    // Across processes, too: a test runner may give each test a process of its own, and two stacks on one small machine
    // would only measure each other.
    let turn = lock("the turn of the end-to-end suites");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be built");
    let patience = Patience::of(Duration::from_secs(limit_s));
    let outcome =
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(limit_s), suite(flavor)).await });
    runtime.shutdown_timeout(Duration::from_secs(5));
    drop(turn);
    match outcome {
        Ok(Ok(())) => eprintln!("{name} on {flavor}: {:.1?}", patience.elapsed()),
        Ok(Err(error)) => panic!("{name} on {flavor} failed: {error:#}"),
        Err(_) => panic!("{name} on {flavor} has not ended after {limit_s} s"),
    }
}

fn lock(what: &str) -> File {
    let path = xtask::target_dir().join("e2e.lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.unwrap_or_else(|error| panic!("can not open {} for {what}: {error}", path.display()));
    file.lock().unwrap_or_else(|error| panic!("can not lock {} for {what}: {error}", path.display()));
    file
}
