//! Every deliberate fault is noticed, and the shortest story about one of them.

use expect_test::expect;
use flow_model::{hunt, worlds};
use flow_testkit::mutants::Mutant;

#[test]
fn every_mutant_is_found() {
    let mut survivors = Vec::new();
    for mutant in Mutant::ALL {
        let hunted = hunt::hunt(mutant, &mut |_| {});
        match hunted.explored.broken {
            Some(example) => assert!(!example.story.is_empty(), "{} is broken from the start", mutant.name()),
            None => survivors.push(mutant.name()),
        }
    }
    assert!(survivors.is_empty(), "not found: {survivors:?}");
}

#[test]
fn a_mutant_lives_in_a_world_that_the_shipped_code_is_proved_in() {
    let proved: Vec<&str> = worlds::all().iter().map(|world| world.name).collect();
    for mutant in Mutant::ALL {
        let home = worlds::home_of(mutant);
        assert!(proved.contains(&home.name), "{} lives in {}", mutant.name(), home.name);
    }
}

/// The race that a naive version loses: an execution that arrives after the refund.
#[test]
fn the_story_of_an_execution_without_a_deadline() {
    let hunted = hunt::hunt(Mutant::NoNotAfter, &mut |_| {});
    let example = hunted.explored.broken.expect("it is found");
    let story = format!("{}\n{}\n", example.story.join("\n"), example.promise);
    expect![[r#""#]].assert_eq(&story);
}
