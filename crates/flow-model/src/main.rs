//! `flow-model`: explores every world, then looks for every mutant, and says what it saw. Parses, times and prints;
//! what a world is and what must hold is the library's.

use std::fmt::Display;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use flow_model::hunt::{self, CounterExample, Explored};
use flow_model::worlds;
use flow_testkit::mutants::Mutant;

/// What a full run must visit at the least, over all worlds: fewer, and the worlds have shrunk unnoticed.
const LEAST_STATES: usize = 1_000_000;

/// How often a running search says how far it is.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// Visits every state of small worlds with the shipped decisions, and shows that every deliberate fault is noticed.
#[derive(Debug, Parser)]
#[command(name = "flow-model")]
struct Arguments {
    /// The small worlds alone: a minute at most.
    #[arg(long)]
    quick: bool,
    /// This world alone, and no mutant.
    #[arg(long, value_name = "NAME", conflicts_with = "quick")]
    world: Option<String>,
    /// This mutant alone, with its shortest counter-example told in full.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["quick", "world"])]
    mutant: Option<String>,
    /// Threads that explore one world [default: one per processor].
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let threads = arguments.threads.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
    });
    let ended = match (&arguments.mutant, &arguments.world) {
        (Some(name), _) => tell_mutant(name),
        (None, Some(name)) => explore_one(name, threads),
        (None, None) => prove(arguments.quick, threads),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn prove(quick: bool, threads: usize) -> Result<(), String> {
    let worlds = if quick { worlds::quick() } else { worlds::all() };
    let states = explore_all(&worlds, threads)?;
    if !quick && states < LEAST_STATES {
        return Err(format!("only {states} unique states, at least {LEAST_STATES} are wanted: the worlds have shrunk"));
    }
    println!();
    hunt_all()
}

fn explore_one(name: &str, threads: usize) -> Result<(), String> {
    let world = worlds::named(name).ok_or_else(|| {
        let names: Vec<&str> = worlds::all().iter().map(|world| world.name).collect();
        format!("there is no world \"{name}\"; there are: {}", names.join(", "))
    })?;
    explore_all(&[world], threads).map(|_| ())
}

/// Explores and prints a table; the number of unique states over all of them.
fn explore_all(worlds: &[flow_model::world::World], threads: usize) -> Result<usize, String> {
    let (mut states, mut broken) = (0, 0);
    let (mut edges, mut actions) = (Vec::new(), Vec::new());
    let watch = Stopwatch::start();
    print_world("world", "unique states", "depth", "seconds", "result");
    for world in worlds {
        let (explored, seconds) = timed(world.name, |say| hunt::explore(world, threads, say));
        let result = match &explored.broken {
            None => "explored completely, every promise kept".to_owned(),
            Some(example) => format!("BROKEN {}", example.promise),
        };
        print_world(world.name, grouped(explored.unique_states), explored.depth, seconds, result);
        if let Some(example) = &explored.broken {
            broken += 1;
            tell(example);
        }
        states += explored.unique_states;
        edges.extend(explored.edges);
        actions.extend(explored.actions);
    }
    print_world("all", grouped(states), "", watch.seconds(), "");
    edges.sort_by_key(|edge| *edge as u8);
    edges.dedup();
    actions.sort_by_key(|action| *action as u8);
    actions.dedup();
    println!("edges taken: {} of 6; downstream actions and writes performed: {} of 8", edges.len(), actions.len());
    if broken == 0 { Ok(states) } else { Err(format!("{broken} worlds break a promise")) }
}

fn hunt_all() -> Result<(), String> {
    let mut survivors = Vec::new();
    let watch = Stopwatch::start();
    print_mutant("mutant", "found", "world", "steps", "states", "broken promise");
    for mutant in Mutant::ALL {
        let (hunted, _) = timed(mutant.name(), |say| hunt::hunt(mutant, say));
        let Explored { unique_states, broken, .. } = &hunted.explored;
        let states = grouped(*unique_states);
        match broken {
            Some(example) => {
                let steps = example.story.len();
                print_mutant(mutant.name(), "yes", hunted.world, steps, states, &example.promise.to_string());
            }
            None => {
                survivors.push(mutant.name());
                print_mutant(mutant.name(), "NO", hunted.world, "", states, "");
            }
        }
    }
    let found = Mutant::ALL.len() - survivors.len();
    println!("{found} of {} mutants found in {} s", Mutant::ALL.len(), watch.seconds());
    if survivors.is_empty() { Ok(()) } else { Err(format!("not found: {}", survivors.join(", "))) }
}

fn tell_mutant(name: &str) -> Result<(), String> {
    let mutant = Mutant::named(name).ok_or_else(|| {
        let names = Mutant::ALL.map(Mutant::name);
        format!("there is no mutant \"{name}\"; there are: {}", names.join(", "))
    })?;
    let (hunted, _) = timed(name, |say| hunt::hunt(mutant, say));
    println!("{name}: {}", mutant.explain());
    println!("world \"{}\", after {} states:", hunted.world, grouped(hunted.explored.unique_states));
    match &hunted.explored.broken {
        Some(example) => {
            tell(example);
            Ok(())
        }
        None => Err(format!("{name} was not found")),
    }
}

fn tell(example: &CounterExample) {
    for (number, line) in example.story.iter().enumerate() {
        println!("  {:>2}. {line}", number + 1);
    }
    println!("      {}", example.promise);
}

fn print_world(
    name: &str,
    states: impl Display,
    depth: impl Display,
    seconds: impl Display,
    result: impl Display,
) {
    println!("{name:<16} {states:>14} {depth:>6} {seconds:>8}  {result}");
}

fn print_mutant(
    name: &str,
    found: &str,
    world: &str,
    steps: impl Display,
    states: impl Display,
    promise: &str,
) {
    println!("{name:<30} {found:<6} {world:<14} {steps:>6} {states:>9}  {promise}");
}

/// Digits in groups of three.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Runs a search that says every two seconds how far it is; with the seconds that it took.
fn timed<T>(name: &str, search: impl FnOnce(&mut dyn FnMut(usize)) -> T) -> (T, String) {
    let watch = Stopwatch::start();
    let mut said = Duration::ZERO;
    let found = search(&mut |states| {
        let elapsed = watch.elapsed();
        if elapsed.saturating_sub(said) >= SAY_EVERY {
            said = elapsed;
            eprintln!("… {name}: {} states after {} s", grouped(states), watch.seconds());
        }
    });
    (found, watch.seconds())
}

/// For showing how long something took.
#[derive(Clone, Copy)]
struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "developer tool: measures its own steps")]
    fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    fn seconds(self) -> String {
        let tenths = self.elapsed().as_millis() / 100;
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}
