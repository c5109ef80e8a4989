//! NEXMark q20: bids on the auctions of category 10, with the auction.

use crate::Type::{Integer, Text};
use crate::{Found, Tables, in_window};

pub fn answers<'s>(tables: &Tables<'s>) -> Found<'s> {
    let wanted = tables.text("<http://example.org/nexmark/category/10>");
    let offers = tables
        .rows("auction")
        .filter(move |[_, _, category, ..]| *category == wanted)
        .map(|[id, item, _, seller, t, _]| (id, (item, seller, t)))
        .arrange_by_key();
    let bids = tables.rows("bid").map(|[id, auction, _, price, _, t]| (auction, (id, price, t))).arrange_by_key();
    let rows = bids.join_core(offers, |auction, (id, price, t), (item, seller, at)| {
        in_window(&[*t, *at]).then_some([*t.max(at), *id, *price, *auction, *item, *seller])
    });
    Found {
        columns: &[("time", Integer), ("bid", Text), ("price", Integer), ("auction", Text), ("item", Text), ("seller", Text)],
        rows,
    }
}
