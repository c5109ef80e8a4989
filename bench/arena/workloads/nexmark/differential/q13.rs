//! NEXMark q13: bids with static data about the channel.

use crate::Type::{Integer, Text};
use crate::{Found, Tables};

pub fn answers<'s>(tables: &Tables<'s>) -> Found<'s> {
    let channels = tables.rows("channel").map(|[id, company, country, ..]| (id, (company, country))).arrange_by_key();
    let bids = tables.rows("bid").map(|[id, _, _, price, channel, t]| (channel, (id, price, t))).arrange_by_key();
    let rows = bids.join_core(channels, |_, (id, price, t), (company, country)| Some([*t, *id, *price, *company, *country, 0]));
    Found { columns: &[("time", Integer), ("bid", Text), ("price", Integer), ("company", Text), ("country", Text)], rows }
}
