//! Tickets, as people find them and as they are counted.

use flow_core::ids::OrderRef;
use flow_core::ports::TicketFilter;
use flow_core::recon::{FindingKind, TicketAction, TicketState, TrailKind};

use super::tickets::{acted, finding, loaded, next, opened};
use super::{AN_HOUR_MS, ReconFactory, channel};
use crate::samples;

/// Alone and together.
pub async fn tickets_are_found_by_every_filter_in_pages(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    for (order_no, kind) in [
        ("h2r_1_1", FindingKind::TimeGap),
        ("h2r_1_2", FindingKind::AmountDiffers),
        ("h2r_1_3", FindingKind::TimeGap),
    ] {
        opened(&bench, order_no, vec![finding(kind, 1)]).await;
    }
    let ann = samples::actor("ann");
    acted(&bench, "h2r_1_3", TicketAction::Assign { to: ann.clone() }, "bob").await;
    acted(&bench, "h2r_1_1", TicketAction::Ignore { reason: "known".to_owned() }, "bob").await;
    let find = async |filter: TicketFilter| {
        let page = bench.second.find_tickets(&filter, None, 10).await.unwrap();
        page.tickets.iter().map(|ticket| ticket.order_no.to_string()).collect::<Vec<_>>()
    };
    let all = TicketFilter::default();
    assert_eq!(find(all.clone()).await, ["h2r_1_3", "h2r_1_2", "h2r_1_1"]);
    assert_eq!(find(TicketFilter { open: Some(true), ..all.clone() }).await, ["h2r_1_3", "h2r_1_2"]);
    assert_eq!(find(TicketFilter { open: Some(false), ..all.clone() }).await, ["h2r_1_1"]);
    assert_eq!(find(TicketFilter { state: Some(TicketState::Assigned), ..all.clone() }).await, ["h2r_1_3"]);
    assert_eq!(
        find(TicketFilter { kind: Some(FindingKind::TimeGap), ..all.clone() }).await,
        ["h2r_1_3", "h2r_1_1"]
    );
    assert_eq!(find(TicketFilter { assigned_to: Some(ann), ..all.clone() }).await, ["h2r_1_3"]);
    assert_eq!(
        find(TicketFilter { channel: Some(channel("other")), ..all.clone() }).await,
        Vec::<String>::new()
    );
    let order_no = Some(OrderRef::new("h2r_1_2").unwrap());
    assert_eq!(find(TicketFilter { order_no, ..all.clone() }).await, ["h2r_1_2"]);
    let first = bench.store.find_tickets(&all, None, 2).await.unwrap();
    assert!(first.has_more && first.tickets.len() == 2);
    let rest = bench.store.find_tickets(&all, Some(first.tickets[1].id), 2).await.unwrap();
    assert!(!rest.has_more && rest.tickets.len() == 1);
    let id = Some(rest.tickets[0].id);
    assert_eq!(find(TicketFilter { id, ..all }).await, ["h2r_1_1"]);
}

/// Those without a difference left are not among them; those that people settled are.
pub async fn current_tickets_are_listed_by_number(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let found = || vec![finding(FindingKind::TimeGap, 1)];
    for order_no in ["h2r_1_2", "H2r_1_9", "h2r_1_1", "h2r_1_3"] {
        opened(&bench, order_no, found()).await;
    }
    let gone = next(&loaded(&bench, "h2r_1_1").await, TrailKind::Gone, TicketState::AutoFixed, vec![]);
    bench.store.write_ticket(&gone).await.unwrap();
    acted(&bench, "h2r_1_3", TicketAction::Ignore { reason: "known".to_owned() }, "bob").await;
    let list = async |after: Option<&OrderRef>, limit| {
        let numbers = bench.second.current_tickets(&channel("main"), after, limit).await.unwrap();
        numbers.into_iter().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 10).await, ["H2r_1_9", "h2r_1_2", "h2r_1_3"]);
    let after = OrderRef::new("H2r_1_9").unwrap();
    assert_eq!(list(Some(&after), 1).await, ["h2r_1_2"]);
}

/// By channel and currency.
pub async fn open_tickets_add_up(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    assert_eq!(bench.store.summarise_tickets().await.unwrap(), []);
    let found = |amount| vec![finding(FindingKind::TimeGap, amount)];
    opened(&bench, "h2r_1_1", found(5)).await;
    opened(&bench, "h2r_1_2", found(7)).await;
    opened(&bench, "h2r_1_3", found(100)).await;
    acted(&bench, "h2r_1_3", TicketAction::Ignore { reason: "known".to_owned() }, "bob").await;
    let sums = bench.second.summarise_tickets().await.unwrap();
    let [sum] = sums.as_slice() else { panic!("{sums:?}") };
    assert_eq!((sum.channel.as_str(), sum.currency.as_str()), ("main", "CNY"));
    assert_eq!((sum.tickets, sum.stake_minor), (2, 12));
    assert!(sum.oldest_age_ms < AN_HOUR_MS);
}
