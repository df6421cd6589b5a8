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
    expect![[r#"
        process 1 reads attempt 1 (WAIT_PAY) and is going to write PAYING
        process 1 writes PAYING, then is going to debit
        process 1 sends the debit of h2r_1_1
        process 1's debit of h2r_1_1 arrives: the wallet charges
        process 1 hears "charged" and writes PAYED, then is going to execute
        process 1 sends the execution without a deadline for h2r_1_1
        the database's clock reaches the deadline
        process 2 reads attempt 1 (PAYED) and is going to read the fact
        the business's clock passes the deadline
        the database's clock reaches the deadline plus the settle margin
        process 2 asks the business who owns the benefit: "not done"
        process 1's execution without a deadline for h2r_1_1 arrives: the benefit is handed over
        process 2 hears "not done" and writes REFUNDING, then is going to refund
        I4: REFUNDING, and the benefit is owned
    "#]]
    .assert_eq(&story);
}
