//! The small worlds, whole: every promise is kept in every state, and the worlds are as rich as they claim to be.

use std::collections::HashSet;

use flow_core::decide::Action;
use flow_core::state::Edge;
use flow_model::{hunt, worlds};

#[test]
fn every_small_world_keeps_every_promise() {
    let (mut edges, mut actions) = (HashSet::new(), HashSet::new());
    for world in worlds::quick() {
        let explored = hunt::explore(&world, &mut |_| {});
        if let Some(example) = explored.broken {
            panic!("{} breaks {}:\n{}", world.name, example.promise, example.story.join("\n"));
        }
        edges.extend(explored.edges);
        actions.extend(explored.actions);
    }
    // Promises are easily kept where nothing happens.
    assert_eq!(edges, HashSet::from(Edge::ALL));
    let performed = [
        Action::EnterPaying,
        Action::Debit,
        Action::QueryCharge,
        Action::CloseCharge,
        Action::ExecuteThenReadFact,
        Action::ReadFact,
        Action::Refund,
        Action::QueryRefund,
    ];
    assert_eq!(actions, HashSet::from(performed));
}

#[test]
fn worlds_have_names_of_their_own() {
    let names: HashSet<&str> = worlds::all().iter().map(|world| world.name).collect();
    assert_eq!(names.len(), worlds::all().len());
    for world in worlds::quick() {
        assert!(names.contains(world.name), "{} is not among all", world.name);
    }
}
