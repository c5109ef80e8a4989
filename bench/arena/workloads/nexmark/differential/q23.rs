//! NEXMark q23: bids with their auction, the seller and the bidder.

use crate::Type::{Integer, Text};
use crate::{Found, Tables, in_window};

pub fn answers<'s>(tables: &Tables<'s>) -> Found<'s> {
    let people = tables.rows("person").map(|[id, name, _, _, t, _]| (id, (name, t))).arrange_by_key();
    let offers = tables.rows("auction").map(|[id, item, _, seller, t, _]| (id, (item, seller, t))).arrange_by_key();
    let bids = tables.rows("bid").map(|[id, auction, bidder, price, _, t]| (auction, (id, bidder, price, t))).arrange_by_key();
    let offered = bids.join_core(offers, |_, (id, bidder, price, t), (item, seller, at)| {
        in_window(&[*t, *at]).then_some((*seller, (*id, *bidder, *price, *item, *t.min(at), *t.max(at))))
    });
    let sold = offered.arrange_by_key().join_core(people.clone(), |_, (id, bidder, price, item, first, last), (name, t)| {
        in_window(&[*first, *last, *t]).then_some((*bidder, (*id, *price, *item, *name, *first.min(t), *last.max(t))))
    });
    let rows = sold.arrange_by_key().join_core(people, |_, (id, price, item, seller, first, last), (name, t)| {
        in_window(&[*first, *last, *t]).then_some([*last.max(t), *id, *item, *seller, *name, *price])
    });
    Found {
        columns: &[("time", Integer), ("bid", Text), ("item", Text), ("sellerName", Text), ("bidderName", Text), ("price", Integer)],
        rows,
    }
}
