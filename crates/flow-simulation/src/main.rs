//! `sim`: runs simulations by seed; tells the story of a failing one; shows that deliberate faults are found.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Parser;
use flow_simulation::CAN_MUTATE;
use flow_simulation::campaign::{Campaign, Totals};
use flow_simulation::run::{Ran, Setup, run};
use flow_simulation::shrink::shrink;
use flow_testkit::mutants::{Mutant, Subject};

/// How often progress is shown.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Simulate the payment service in virtual time: one seed is one run, repeated exactly.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Threads [default: one per core].
    #[arg(long)]
    threads: Option<usize>,
    /// Run this seed alone.
    #[arg(long)]
    seed: Option<u64>,
    /// Print the events of --seed; of a run that breaks a promise, the shortest ones found that still break one.
    #[arg(long, requires = "seed")]
    story: bool,
    /// With --story: print every event, shrink nothing.
    #[arg(long, requires = "story")]
    whole: bool,
    /// Every call that changes something arrives twice.
    #[arg(long)]
    doubled: bool,
    /// Put this deliberate fault into the product: the run must find it.
    #[arg(long, value_parser = parse_mutant)]
    mutant: Option<Mutant>,
    /// Run every deliberate fault until it is found, and print the table.
    #[arg(long, conflicts_with_all = ["seed", "mutant"])]
    mutants: bool,
}

fn parse_mutant(name: &str) -> Result<Mutant, String> {
    let names: Vec<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
    Mutant::named(name).ok_or_else(|| format!("no such mutant; there are: {}", names.join(", ")))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if (arguments.mutants || arguments.mutant.is_some()) && !CAN_MUTATE {
        eprintln!("error: this build cannot put faults into the product; build with --features mutants");
        return ExitCode::FAILURE;
    }
    let subject = arguments.mutant.map_or(Subject::SHIPPED, Subject::with);
    let good = match arguments.seed {
        Some(seed) => {
            one(&arguments, Setup { seed, subject, doubled: arguments.doubled, ..Setup::default() })
        }
        None if arguments.mutants => every_mutant(&arguments),
        None => many(&arguments, subject),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn threads(arguments: &Arguments) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    arguments.threads.unwrap_or_else(cores)
}

fn campaign(arguments: &Arguments, subject: Subject) -> Campaign {
    Campaign {
        seeds: arguments.from..arguments.from.saturating_add(arguments.seeds),
        subject,
        doubled: arguments.doubled,
        threads: threads(arguments),
        enough_failures: 1,
    }
}

/// One seed; whether it kept every promise (or, with a mutant, whether the mutant was found).
fn one(arguments: &Arguments, setup: Setup) -> bool {
    let ran = run(&Setup { keep_trace: arguments.story, ..setup.clone() });
    match &ran.broken {
        Some(_) if arguments.story && !arguments.whole => tell_shrunk(&setup),
        Some(_) | None if arguments.story => tell(&ran),
        Some(_) | None => {}
    }
    println!(
        "seed {}: {} flows {:?}, {} events, digest {:016x}, {} s of virtual time",
        setup.seed,
        ran.flows,
        ran.ends,
        ran.events,
        ran.digest,
        ran.virtual_ms / 1_000
    );
    match &ran.broken {
        Some(broken) => println!("BROKEN: {broken}"),
        None => println!("every promise was kept"),
    }
    ran.broken.is_some() == setup.subject.mutant().is_some()
}

fn tell(ran: &Ran) {
    ran.lines.iter().for_each(|line| println!("{line}"));
}

fn tell_shrunk(setup: &Setup) {
    let before = run(setup);
    let (short, ran) = shrink(setup);
    let left = ran.incidents.len();
    println!(
        "seed {}, shrunk from {} incidents and {} events to {left} incidents and {} events{}:\n",
        setup.seed,
        before.incidents.len(),
        before.events,
        ran.events,
        if short.plain { ", without random latencies" } else { "" }
    );
    tell(&ran);
    println!();
}

/// Many seeds; whether they kept every promise (or, with a mutant, whether the mutant was found).
fn many(arguments: &Arguments, subject: Subject) -> bool {
    let started = now();
    let totals = campaign(arguments, subject).run(progress(arguments.seeds, started));
    summary(&totals, started.elapsed());
    let Some((seed, broken)) = totals.failures.first_key_value() else {
        return subject.mutant().is_none();
    };
    println!("\nseed {seed} BROKE A PROMISE: {broken}");
    let with = subject.mutant().map(|mutant| format!(" --mutant {}", mutant.name())).unwrap_or_default();
    let twice = if arguments.doubled { " --doubled" } else { "" };
    println!("replay: cargo xtask sim --seed {seed} --story{twice}{with}\n");
    tell_shrunk(&Setup { seed: *seed, subject, doubled: arguments.doubled, ..Setup::default() });
    subject.mutant().is_some()
}

/// A line now and then, from whichever thread comes by.
fn progress(seeds: u64, started: Instant) -> impl Fn(&Totals) + Sync {
    let last = Mutex::new(started);
    move |totals| {
        let Ok(mut last) = last.try_lock() else { return };
        if last.elapsed() < PROGRESS_EVERY {
            return;
        }
        *last = now();
        eprintln!(
            "  {} of {seeds} seeds, {} flows, {} flows/s, {} broken",
            totals.seeds,
            totals.flows,
            per_second(totals.flows, started.elapsed()),
            totals.failures.len()
        );
    }
}

fn summary(totals: &Totals, took: Duration) {
    let faults: u64 = totals.faults.values().sum();
    println!(
        "{} seeds, {} flows, {} events, {} faults, {} hours of virtual time in {:.1} s: {} flows/s, {} seeds/s",
        totals.seeds,
        totals.flows,
        totals.events,
        faults,
        totals.virtual_ms / 3_600_000,
        took.as_secs_f64(),
        per_second(totals.flows, took),
        per_second(totals.seeds, took),
    );
    println!("flows by their end:");
    totals.ends.iter().for_each(|(end, flows)| println!("  {flows:>10}  {end}"));
    println!("faults by kind:");
    totals.faults.iter().for_each(|(kind, count)| println!("  {count:>10}  {kind}"));
    println!("broken promises: {}", totals.failures.len());
}

/// The table of deliberate faults; whether every one was found.
fn every_mutant(arguments: &Arguments) -> bool {
    println!("{:<30} {:>8} {:>8}  broken promise", "mutant", "seed", "s");
    let mut missed = 0;
    for mutant in Mutant::ALL {
        let started = now();
        let totals = campaign(arguments, Subject::with(mutant)).run(|_| {});
        let took_s = started.elapsed().as_secs_f64();
        match totals.failures.first_key_value() {
            Some((seed, broken)) => println!("{:<30} {seed:>8} {took_s:>8.1}  {broken}", mutant.name()),
            None => {
                missed += 1;
                println!(
                    "{:<30} {:>8} {took_s:>8.1}  NOT FOUND in {} seeds",
                    mutant.name(),
                    "-",
                    totals.seeds
                );
            }
        }
    }
    println!("{} of {} found", Mutant::ALL.len() - missed, Mutant::ALL.len());
    missed == 0
}

fn per_second(count: u64, took: Duration) -> u64 {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    count.saturating_mul(1_000) / ms
}

#[allow(
    clippy::disallowed_methods,
    reason = "how long the runs take, for display; the runs themselves are in virtual time"
)]
fn now() -> Instant {
    Instant::now()
}
