//! Runs a world: visits everything, or stops at the first broken promise and tells how it came about.

use std::thread;
use std::time::Duration;

use flow_core::decide::Action;
use flow_core::state::Edge;
use flow_testkit::mutants::{Mutant, Subject};
use stateright::{Checker as _, HasDiscoveries, Model as _};

use crate::model::PaymentModel;
use crate::promises::{Broken, Watch};
use crate::story;
use crate::world::World;
use crate::worlds;

/// How often it is looked whether a search has ended, and whoever waits is told how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What became of a world.
#[derive(Debug, Clone)]
pub struct Explored {
    /// Different states that were visited.
    pub unique_states: usize,
    /// States that were come to, over every way.
    pub steps: usize,
    /// Longest of the shortest ways to a state.
    pub depth: usize,
    /// The edges that were taken.
    pub edges: Vec<Edge>,
    /// The actions that were performed.
    pub actions: Vec<Action>,
    /// How a promise was broken, if one was: then not everything was visited.
    pub broken: Option<CounterExample>,
}

/// How a promise is broken.
#[derive(Debug, Clone)]
pub struct CounterExample {
    /// Which promise.
    pub promise: Broken,
    /// How it comes to that, a line per step.
    pub story: Vec<String>,
    /// What happens after that though nothing goes wrong any more, if the promise is broken only then.
    pub calm: Vec<String>,
}

/// A mutant that was found, or not.
#[derive(Debug, Clone)]
pub struct Hunted {
    /// Which.
    pub mutant: Mutant,
    /// Where it was looked for.
    pub world: &'static str,
    /// What became of that.
    pub explored: Explored,
}

/// Visits every state of a world with the shipped code.
pub fn explore(world: &World, progress: &mut dyn FnMut(usize)) -> Explored {
    run(world, Subject::SHIPPED, Watch::Everything, progress)
}

/// Looks for a mutant in the world that it is most at home in. The counter-example is one of the shortest there.
pub fn hunt(mutant: Mutant, progress: &mut dyn FnMut(usize)) -> Hunted {
    let world = worlds::home_of(mutant);
    let subject = Subject::with(mutant);
    // A promise that is broken in a state is plainer than a bad end.
    let mut explored = run(&world, subject, Watch::Numbered, progress);
    if explored.broken.is_none() {
        explored = run(&world, subject, Watch::Everything, progress);
    }
    Hunted { mutant, world: world.name, explored }
}

/// One thread for one world, so that the search is strictly breadth-first: depths are exact, and the first broken promise
/// that is met is one of the nearest.
fn run(world: &World, subject: Subject, watch: Watch, progress: &mut dyn FnMut(usize)) -> Explored {
    // A story wants to tell processes apart, an exploration does not.
    let interchangeable = subject == Subject::SHIPPED;
    let model = PaymentModel::new(world.clone(), subject, watch, interchangeable);
    let checker = model.checker().threads(1).finish_when(HasDiscoveries::Any).spawn_bfs();
    while !checker.is_done() {
        thread::sleep(LOOK_EVERY);
        progress(checker.unique_state_count());
    }
    let checker = checker.join();
    let broken = checker.discoveries().into_values().next().map(|path| {
        let model = checker.model();
        let promise = model.broken_promise(path.last_state()).expect("the search ends where one is broken");
        let calm = model.calm_after(path.last_state());
        let told = story::tell(model, &path.into_vec());
        let then = story::tell(model, &calm);
        CounterExample { promise, story: told, calm: then }
    });
    Explored {
        unique_states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        edges: checker.model().edges_seen(),
        actions: checker.model().actions_seen(),
        broken,
    }
}
