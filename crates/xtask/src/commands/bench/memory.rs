//! Resident memory of each process, from the kernel.

use serde::Serialize;
use xtask::stack::Stack;

/// Resident memory of one process, in KiB.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Memory {
    name: &'static str,
    peak_kib: u64,
    present_kib: u64,
}

/// Reads all three.
///
/// # Errors
/// A process has ended.
pub(super) fn read(stack: &mut Stack) -> anyhow::Result<Vec<Memory>> {
    let mut all = Vec::new();
    let mut add = |name, (peak_kib, present_kib)| all.push(Memory { name, peak_kib, present_kib });
    add("pay-api", stack.api_process(0).memory_kib()?);
    add("pay-scanner", stack.scanner_process(0).memory_kib()?);
    if let Some(sim) = stack.sim_process() {
        add("pay-sim", sim.memory_kib()?);
    }
    Ok(all)
}

/// Prints both readings side by side.
pub(super) fn print(at_rest: &[Memory], under_load: &[Memory]) {
    println!("\nResident memory, MB (goal: under 32). The simulator keeps every order it ever saw.");
    println!("{:<14} {:>8} {:>14}", "", "at rest", "peak with load");
    for (rest, load) in at_rest.iter().zip(under_load) {
        println!("{:<14} {:>8} {:>14}", rest.name, mb(rest.present_kib), mb(load.peak_kib));
    }
}

fn mb(kib: u64) -> String {
    let tenths = kib * 10 / 1_024;
    format!("{}.{}", tenths / 10, tenths % 10)
}
