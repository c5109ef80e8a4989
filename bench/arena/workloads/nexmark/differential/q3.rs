//! NEXMark q3: who sells in category 10 in three states.

use crate::Type::{Integer, Text};
use crate::{Found, Tables, in_window};

pub fn answers<'s>(tables: &Tables<'s>) -> Found<'s> {
    let wanted = tables.text("<http://example.org/nexmark/category/10>");
    let states = ["\"OR\"", "\"ID\"", "\"CA\""].map(|state| tables.text(state));
    let offers = tables
        .rows("auction")
        .filter(move |[_, _, category, ..]| *category == wanted)
        .map(|[id, _, _, seller, t, _]| (seller, (id, t)))
        .arrange_by_key();
    let people = tables
        .rows("person")
        .filter(move |[_, _, _, state, ..]| states.contains(state))
        .map(|[id, name, city, state, t, _]| (id, (name, city, state, t)))
        .arrange_by_key();
    let rows = offers.join_core(people, |_, (id, t), (name, city, state, at)| {
        in_window(&[*t, *at]).then_some([*t.max(at), *name, *city, *state, *id, 0])
    });
    Found { columns: &[("time", Integer), ("name", Text), ("city", Text), ("state", Text), ("auction", Text)], rows }
}
