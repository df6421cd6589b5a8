//! What moved in the wallet, order by order: what a bill is made of.

use std::ops::Bound;

use super::world::{Effect, Entry, World};

/// One charge or refund.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The order that was charged, or whose charge was given back.
    pub trade_order_no: String,
    /// Whose balance.
    pub user_id: Option<u64>,
    /// What moved, and when.
    pub entry: Entry,
}

/// Charges and refunds of some orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedPage {
    /// What moved, by order.
    pub moved: Vec<Moved>,
    /// The last of the orders that were looked at; none after the end.
    pub last: Option<String>,
}

impl World {
    /// What moved in up to `limit` orders after this number, in byte order of their numbers.
    #[must_use]
    pub fn moved_after(&self, trade_order_no: Option<&str>, limit: usize) -> MovedPage {
        let start = trade_order_no.map_or(Bound::Unbounded, Bound::Excluded);
        let mut page = MovedPage::default();
        for (no, order) in self.orders.range::<str, _>((start, Bound::Unbounded)).take(limit) {
            page.last = Some(no.clone());
            let terms = order.debit.as_ref().and_then(|debit| debit.terms.as_ref());
            let of_money = order.entries.iter().filter(|entry| match entry.effect {
                Effect::Charge { .. } | Effect::Refund { .. } => true,
                Effect::Grant { .. } => false,
            });
            page.moved.extend(of_money.map(|entry| Moved {
                trade_order_no: no.clone(),
                user_id: terms.map(|terms| terms.user_id),
                entry: entry.clone(),
            }));
        }
        page
    }
}
