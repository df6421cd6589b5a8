//! A client that hangs up at any millisecond of its request's life stops nothing half way and costs the API nothing.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Shop, Site, Socket, request_head};
use futures_util::stream::{self, StreamExt as _};
use xtask::stack::{ApiClient, Patience, Payment, Tuning};

/// Lives that are cut after each number of milliseconds, 0 to the last.
const LAST_MS: u64 = 60;
const LIVES: u64 = 6;
const AT_ONCE: usize = 8;
const END: Duration = Duration::from_secs(30);

e2e::on_both_servers! {
    at_every_millisecond_of_a_request within 120 s;
}

async fn at_every_millisecond_of_a_request(flavor: Flavor) -> anyhow::Result<()> {
    let mut site = Site::open(Database::shared(flavor, "hangup").await?, Tuning::default(), 0, 1).await?;
    // The smallest pool there is: one connection that comes back spoilt, or not at all, would be the end.
    site.stack.set_env(&[("PAY__DATABASE__READ_CONNECTIONS", "1")]);
    site.stack.start_api().await?;
    let api = site.client();
    let lives = (0..=LAST_MS).flat_map(|ms| (0..LIVES).map(move |life| (ms, life)));
    let cut: Vec<anyhow::Result<()>> = stream::iter(lives)
        .map(|(ms, life)| hang_up_after(&api, ms, life))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let count = cut.len();
    cut.into_iter().collect::<anyhow::Result<Vec<()>>>()?;
    still_quick(&api).await?;
    let audit = site.settle(END).await?;
    ensure!(audit.flows.iter().all(|flow| flow.status == "BIZ_SUCCESS"), "{:?}", audit.flows);
    let half = audit.flows.iter().filter(|flow| flow.target.contains("half:")).count();
    ensure!(half == 0, "{half} flows were made from half a request");
    eprintln!("hang-ups on {flavor}: {count}, {} flows, all delivered", audit.flows.len());
    site.close().await
}

/// Posts a payment and is gone after so long; every third client has sent only half of it by then.
async fn hang_up_after(api: &ApiClient, ms: u64, life: u64) -> anyhow::Result<()> {
    let half = life % 3 == 2;
    let name = format!("{}:{ms}:{life}", if half { "half" } else { "whole" });
    let body = Payment::new(1 + ms * LIVES + life, name.as_str()).body().to_string();
    let lines = format!(
        "Idempotency-Key: {name}\r\nPrefer: wait=5\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let request = request_head(api, "POST", "/payments", &lines) + &body;
    let sent = if half { request.len() - body.len() / 2 } else { request.len() };
    let mut socket = Socket::open(api).await?;
    socket.send(&request.as_bytes()[..sent]).await.context("the API hung up first")?;
    tokio::time::sleep(Duration::from_millis(ms)).await;
    // Every other one with a reset instead of a farewell.
    if life % 2 == 1 {
        socket.reset_on_drop()?;
    }
    drop(socket);
    Ok(())
}

async fn still_quick(api: &ApiClient) -> anyhow::Result<()> {
    const EACH: Duration = Duration::from_secs(3);
    let shop = Shop::new(vec![api.clone()]);
    let mut slowest = Duration::ZERO;
    for number in 0..30 {
        let patience = Patience::of(EACH);
        let body = Payment::new(9_000, format!("after:{number}")).body();
        let bought = shop.pay(0, &format!("after-{number}"), &body, 3, EACH).await?;
        ensure!(bought.flow_id().is_some() && !patience.is_over(), "{:?}: {bought:?}", patience.elapsed());
        slowest = slowest.max(patience.elapsed());
    }
    eprintln!("afterwards the slowest of 30 payments took {slowest:.1?}");
    Ok(())
}
