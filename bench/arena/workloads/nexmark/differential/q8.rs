//! NEXMark q8: new users who also offer an auction within the window.

use crate::Type::{Integer, Text};
use crate::{Found, Tables, in_window};

pub fn answers<'s>(tables: &Tables<'s>) -> Found<'s> {
    let offers = tables.rows("auction").map(|[id, _, _, seller, t, _]| (seller, (id, t))).arrange_by_key();
    let people = tables.rows("person").map(|[id, name, _, _, t, _]| (id, (name, t))).arrange_by_key();
    let rows = offers.join_core(people, |seller, (id, t), (name, at)| {
        in_window(&[*t, *at]).then_some([*t.max(at), *seller, *name, *id, 0, 0])
    });
    Found { columns: &[("time", Integer), ("seller", Text), ("name", Text), ("auction", Text)], rows }
}
