//! `cargo xtask demo --broker`: how soon a payment ends whose answer was lost, when the scanner, the API's timer or a
//! broker comes to it first. Each has the others slowed down, so that it is measured alone.

use sqlx::Connection as _;
use xtask::db::{NatsServer, Server};
use xtask::progress::Phase;
use xtask::stack::{Lateness, Profile, Schema, Stack, StackOptions, Tuning, lose_answers};

/// Payments of each kind.
const PAYMENTS: u64 = 30;
/// The first retry delay.
const RETRY_MS: u64 = 3_000;
/// Pause between two rounds of the scanner where it is measured, and where it is not.
const ROUND_MS: u64 = 1_000;
const SELDOM_MS: u64 = 60_000;

/// Who is measured.
struct Way {
    name: &'static str,
    schema: &'static str,
    round_interval_ms: u64,
    timer_bound_ms: u64,
    by_broker: bool,
}

const WAYS: [Way; 3] = [
    Way {
        name: "scanner, a round each second",
        schema: "by_scanner",
        round_interval_ms: ROUND_MS,
        timer_bound_ms: 0,
        by_broker: false,
    },
    Way {
        name: "timer of the API process",
        schema: "by_timer",
        round_interval_ms: SELDOM_MS,
        timer_bound_ms: 600_000,
        by_broker: false,
    },
    Way {
        name: "broker, to a scanner",
        schema: "by_broker",
        round_interval_ms: SELDOM_MS,
        timer_bound_ms: 0,
        by_broker: true,
    },
];

/// Measures the three, one after the other, and prints them side by side.
pub(super) async fn compare(server: &Server) -> anyhow::Result<()> {
    let mut broker = NatsServer::start(NatsServer::ROOMY_BYTES).await?;
    let mut measured = Vec::new();
    for way in &WAYS {
        let phase = Phase::start(format!("{PAYMENTS} lost answers: {}", way.name));
        measured.push(measure(server, &broker, way).await?);
        phase.done();
    }
    broker.stop().await?;
    print(&measured);
    Ok(())
}

async fn measure(server: &Server, broker: &NatsServer, way: &Way) -> anyhow::Result<Lateness> {
    let Schema { app_url, migrate_url } =
        Schema::prepare(&server.root_url(), way.schema, Profile::Debug).await?;
    let extra =
        if way.by_broker { format!("\n[broker]\nurl = \"{}\"\n", broker.url()) } else { String::new() };
    let mut stack = Stack::start(StackOptions {
        app_url,
        migrate_url,
        dir: super::demo_dir()?.join(way.schema),
        profile: Profile::Debug,
        sim_in_memory: false,
        tuning: Tuning {
            retry_ms: vec![RETRY_MS],
            round_interval_ms: way.round_interval_ms,
            timer_bound_ms: way.timer_bound_ms,
            extra,
            ..Tuning::default()
        },
    })
    .await?;
    stack.start_api().await?;
    stack.start_scanner().await?;
    let mut database = sqlx::MySqlConnection::connect(&server.url(way.schema)).await?;
    let lateness = lose_answers(&stack, &mut database, 1, PAYMENTS).await?;
    database.close().await?;
    stack.stop().await?;
    Ok(lateness)
}

fn print(measured: &[Lateness]) {
    println!(
        "\nThe wallet charges and its answer is lost; the row is due again after {RETRY_MS} ms and up to a quarter more."
    );
    println!(
        "{:<30} {:>16} {:>16} {:>22}   moved by",
        "who comes first", "after due, mid", "after due, worst", "time to terminal, mid"
    );
    for (way, lateness) in WAYS.iter().zip(measured) {
        let by: Vec<String> = lateness.by.iter().map(|(by, count)| format!("{by} {count}")).collect();
        println!(
            "{:<30} {:>13} ms {:>13} ms {:>19} ms   {}",
            way.name,
            Lateness::median(&lateness.after_due_ms),
            lateness.after_due_ms.last().copied().unwrap_or(0),
            Lateness::median(&lateness.in_all_ms),
            by.join(", ")
        );
    }
    println!(
        "A timer lives in one process and dies with it; the broker wakes whichever scanner is there; the scanner needs nobody."
    );
}
