//! The table at the end of the demo.

use xtask::stack::Audit;

use super::scenes::Story;

/// Prints one line per flow: the database's word beside the simulator's books.
pub(super) fn print(stories: &[Story], audit: &Audit) {
    println!(
        "\n{:<30} {:>6} {:<18} {:<12} {:>7} {:>7} {:>6} {:>16}",
        "story", "flow", "trade_order_no", "state", "charges", "refunds", "grants", "time to terminal"
    );
    for story in stories {
        let Some(flow) = audit.flows.iter().find(|flow| flow.id.to_string() == story.flow_id) else {
            println!("{:<30} {:>6} is not in the database", story.title, story.flow_id);
            continue;
        };
        let (charges, refunds, grants) =
            audit.ledger(flow).map_or((0, 0, 0), |order| (order.charges, order.refunds, order.grants));
        let took = flow.took_ms.map_or("open".to_owned(), |ms| format!("{ms} ms"));
        let mark = if flow.status == story.expected { "" } else { "  <- unexpected" };
        println!(
            "{:<30} {:>6} {:<18} {:<12} {:>7} {:>7} {:>6} {:>16}{mark}",
            story.title, flow.id, flow.trade_order_no, flow.status, charges, refunds, grants, took
        );
    }
    println!();
}
