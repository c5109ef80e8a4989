//! NEXMark q9, continuously: with each new bid, the highest bid so far on its auction.

use crate::Type::{Integer, Text};
use crate::{Found, Tables};

pub fn answers<'s>(tables: &Tables<'s>) -> Found<'s> {
    let before = |at: &i64, t: &i64| at <= t && t - at < 10_000;
    let offers = tables.rows("auction").map(|[id, _, _, _, t, _]| (id, t)).arrange_by_key();
    let bids = tables.rows("bid").map(|[id, auction, _, price, _, t]| (auction, (id, price, t))).arrange_by_key();
    let offered = bids.clone().join_core(offers, move |auction, (id, _, t), at| before(at, t).then_some((*auction, (*id, *t))));
    let pairs = offered
        .arrange_by_key()
        .join_core(bids, move |auction, (id, t), (_, price, at)| before(at, t).then_some(((*t, *id, *auction), *price)));
    let rows = pairs
        .reduce(|_, prices, highest| highest.push((*prices.last().unwrap().0, 1)))
        .map(|((t, id, auction), highest)| [t, id, auction, highest, 0, 0]);
    Found { columns: &[("time", Integer), ("bid", Text), ("auction", Text), ("highest", Integer)], rows }
}
