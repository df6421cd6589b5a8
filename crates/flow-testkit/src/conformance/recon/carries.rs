//! Entries that wait for another day's batch.

use flow_core::ids::OrderRef;
use flow_core::ports::{Carry, CarryKey, CarrySide, EntryKind};

use super::{ReconFactory, channel, date};

fn carry(on: u32, order_no: &str, side: CarrySide, waits_for: u32) -> Carry {
    let order_no = OrderRef::new(order_no).unwrap();
    let key = CarryKey { order_no: order_no.clone(), side, kind: EntryKind::Payment, entry_no: order_no };
    Carry {
        channel: channel("main"),
        day: date(on),
        key,
        waits_for: date(waits_for),
        record: "{\"amount\":1}".to_owned(),
    }
}

/// It is seen from both days.
pub async fn an_entry_waits_until_it_is_taken_out(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let waiting = carry(1, "h2r_1_1", CarrySide::Local, 2);
    bench.store.put_carry(&waiting).await.unwrap();
    let changed = Carry { record: "{}".to_owned(), ..waiting.clone() };
    bench.store.put_carry(&changed).await.unwrap();
    let main = channel("main");
    let both = async || {
        let seen_from = bench.second.carries_of(&main, date(1), None, 10).await.unwrap();
        assert_eq!(bench.second.carries_for(&main, date(2), None, 10).await.unwrap(), seen_from);
        seen_from
    };
    assert_eq!(both().await, [changed]);
    assert_eq!(bench.store.carries_for(&main, date(3), None, 10).await.unwrap(), []);
    bench.store.take_carry(&main, date(1), &waiting.key).await.unwrap();
    bench.store.take_carry(&main, date(1), &waiting.key).await.unwrap();
    assert_eq!(both().await, []);
}

/// In the order of day and key.
pub async fn waiting_entries_come_in_pages(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let mut all = Vec::new();
    for on in [1, 3] {
        for order_no in ["H2r_9", "h2r_1", "h2r_2"] {
            for side in [CarrySide::Bill, CarrySide::Local] {
                all.push(carry(on, order_no, side, 2));
            }
        }
    }
    for carry in all.iter().rev() {
        bench.store.put_carry(carry).await.unwrap();
    }
    let main = channel("main");
    let (mut found, mut of_one) = (Vec::<Carry>::new(), Vec::<Carry>::new());
    loop {
        let after = found.last().map(|carry| (carry.day, &carry.key));
        let page = bench.second.carries_for(&main, date(2), after, 4).await.unwrap();
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    loop {
        let after = of_one.last().map(|carry| &carry.key);
        let page = bench.second.carries_of(&main, date(1), after, 4).await.unwrap();
        if page.is_empty() {
            break;
        }
        of_one.extend(page);
    }
    let by_text = |list: &[Carry]| {
        list.iter()
            .map(|carry| (carry.day, carry.key.order_no.clone(), carry.key.side.as_str()))
            .collect::<Vec<_>>()
    };
    let mut expected = by_text(&all);
    expected.sort();
    assert_eq!(by_text(&found), expected);
    assert_eq!(of_one.len(), 6);
}
