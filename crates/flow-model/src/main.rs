//! `flow-model`: explores every world, then looks for every mutant, and says what it saw. Parses, times and prints;
//! what a world is and what must hold is the library's.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use flow_core::decide::Action;
use flow_core::state::Edge;
use flow_model::hunt::{self, CounterExample, Explored};
use flow_model::world::World;
use flow_model::worlds;
use flow_testkit::mutants::Mutant;

/// What a full run must visit at the least, over all worlds: fewer, and the worlds have shrunk unnoticed.
const LEAST_STATES: usize = 1_000_000;

/// How often a running search says how far it is.
const SAY_EVERY: Duration = Duration::from_secs(10);

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
    /// Worlds that are explored at a time [default: one per processor].
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let threads = arguments
        .threads
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get));
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
        return Err(format!(
            "only {states} unique states, at least {LEAST_STATES} are wanted: the worlds have shrunk"
        ));
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

/// Explores as many worlds at a time as there are threads, and prints a table; the unique states over all of them.
fn explore_all(worlds: &[World], threads: usize) -> Result<usize, String> {
    let watch = Stopwatch::start();
    println!("Every state of every world is visited, and every promise checked in it.");
    print_world("world", "unique states", "depth", "seconds", "promises", "what is in it");
    let (done, came) = mpsc::channel();
    let next = AtomicUsize::new(0);
    let mut totals = Totals::default();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, worlds.len()) {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                while let Some(world) = worlds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (explored, seconds) = timed(world.name, |say| hunt::explore(world, say));
                    // The receiver outlives the scope.
                    let _ = done.send((world, explored, seconds));
                }
            });
        }
        drop(done);
        let mut waiting = HashMap::new();
        let mut names = worlds.iter().map(|world| world.name).peekable();
        for (world, explored, seconds) in came {
            waiting.insert(world.name, (world, explored, seconds));
            // In the order of the list.
            while let Some((world, explored, seconds)) = names.peek().and_then(|name| waiting.remove(name)) {
                names.next();
                totals.add(world, &explored, &seconds);
            }
        }
    });
    print_world("all", grouped(totals.states), "", &watch.seconds(), "", "");
    println!(
        "edges taken: {} of {}; kinds of action performed: {} of 8",
        totals.edges.len(),
        Edge::ALL.len(),
        totals.actions.len(),
    );
    if totals.broken == 0 {
        Ok(totals.states)
    } else {
        Err(format!("{} worlds break a promise", totals.broken))
    }
}

#[derive(Default)]
struct Totals {
    states: usize,
    broken: usize,
    edges: HashSet<Edge>,
    actions: HashSet<Action>,
}

impl Totals {
    fn add(&mut self, world: &World, explored: &Explored, seconds: &str) {
        let result = match &explored.broken {
            None => "kept".to_owned(),
            Some(example) => format!("BROKEN {}", example.promise),
        };
        print_world(
            world.name,
            grouped(explored.unique_states),
            explored.depth,
            seconds,
            &result,
            world.about,
        );
        if let Some(example) = &explored.broken {
            self.broken += 1;
            tell(example);
        }
        self.states += explored.unique_states;
        self.edges.extend(explored.edges.iter().copied());
        self.actions.extend(explored.actions.iter().copied());
    }
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
    for (number, line) in example.calm.iter().enumerate() {
        let heading = if number == 0 { "from here on nothing goes wrong any more: " } else { "" };
        println!("  {:>2}. {heading}{line}", example.story.len() + number + 1);
    }
    println!("      {}", example.promise);
}

fn print_world(
    name: &str,
    states: impl Display,
    depth: impl Display,
    seconds: &str,
    promises: &str,
    about: &str,
) {
    println!("{name:<16} {states:>13} {depth:>5} {seconds:>7}  {promises:<8}  {about}");
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

/// Runs a search that says now and then how far it is; with the seconds that it took.
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
