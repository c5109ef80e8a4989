//! Differential Dataflow with one worker, by the messages of cqels_opt/bench/contenders/typed_rows.py.
//!
//! A micro-batch is one logical time; it has ended when no operator can emit for it any more. Texts are dictionary-encoded, so that
//! rows are arrays of numbers. Rows stay in the arrangements: to retract those that no window contains costs as much as the joins.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{BufRead, BufWriter, Stdout, Write, stdin, stdout};
use std::path::Path;
use std::rc::Rc;

use differential_dataflow::VecCollection;
use differential_dataflow::input::{Input, InputSession};
use timely::dataflow::operators::probe::Handle;
use timely::worker::Worker;

#[path = "../../workloads/nexmark/differential/q13.rs"]
mod q13;
#[path = "../../workloads/nexmark/differential/q20.rs"]
mod q20;
#[path = "../../workloads/nexmark/differential/q23.rs"]
mod q23;
#[path = "../../workloads/nexmark/differential/q3.rs"]
mod q3;
#[path = "../../workloads/nexmark/differential/q8.rs"]
mod q8;
#[path = "../../workloads/nexmark/differential/q9.rs"]
mod q9;

/// The columns of a row in order; unused ones are 0.
pub type Row = [i64; 6];
pub type Rows<'s> = VecCollection<'s, u64, Row, isize>;

/// The answers of a query, and the names and types of their columns.
pub struct Found<'s> {
    pub columns: &'static [(&'static str, Type)],
    pub rows: Rows<'s>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Type {
    Text,
    Integer,
}

/// The tables that a query reads.
pub struct Tables<'s> {
    rows: HashMap<String, Rows<'s>>,
    dictionary: Rc<RefCell<Dictionary>>,
}

impl<'s> Tables<'s> {
    pub fn rows(&self, name: &str) -> Rows<'s> {
        self.rows[name].clone()
    }

    /// The number of a text.
    pub fn text(&self, text: &str) -> i64 {
        self.dictionary.borrow_mut().number(text)
    }
}

/// Whether windows of ten seconds contain all rows with these times at the same time.
pub fn in_window(times: &[i64]) -> bool {
    let (least, greatest) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    greatest - least < 10_000
}

#[derive(Default)]
struct Dictionary {
    numbers: HashMap<String, i64>,
    texts: Vec<String>,
}

impl Dictionary {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as i64;
        self.texts.push(text.to_string());
        self.numbers.insert(text.to_string(), number);
        number
    }
}

struct Table {
    types: Vec<Type>,
    is_static: bool,
    static_rows: Vec<Row>,
}

impl Table {
    fn row<'a>(&self, dictionary: &mut Dictionary, values: impl Iterator<Item = &'a str>) -> Row {
        let mut row = Row::default();
        for ((place, kind), value) in row.iter_mut().zip(&self.types).zip(values) {
            *place = match kind {
                Type::Text => dictionary.number(value),
                Type::Integer => value.parse().expect("an integer"),
            };
        }
        row
    }
}

/// A query that runs.
struct Running {
    dataflow: usize,
    inputs: HashMap<String, InputSession<u64, Row, isize>>,
    probe: Handle<u64>,
    time: u64,
}

impl Running {
    /// Ends a logical time: returns when all answers to the rows so far are out.
    fn advance(&mut self, worker: &mut Worker) {
        self.time += 1;
        for input in self.inputs.values_mut() {
            input.advance_to(self.time);
            input.flush();
        }
        worker.step_while(|| self.probe.less_than(&self.time));
    }
}

fn start(
    path: &str,
    worker: &mut Worker,
    tables: &HashMap<String, Table>,
    dictionary: &Rc<RefCell<Dictionary>>,
    out: &Rc<RefCell<BufWriter<Stdout>>>,
) -> (Running, Vec<&'static str>) {
    let query = match Path::new(path).file_stem().and_then(|name| name.to_str()) {
        Some("q3") => q3::answers,
        Some("q8") => q8::answers,
        Some("q9") => q9::answers,
        Some("q13") => q13::answers,
        Some("q20") => q20::answers,
        Some("q23") => q23::answers,
        _ => panic!("{path} is not compiled in"),
    };
    let dataflow = worker.next_dataflow_index();
    let (inputs, probe, names) = worker.dataflow(|scope| {
        let mut inputs = HashMap::new();
        let mut rows = HashMap::new();
        for name in tables.keys() {
            let (input, collection) = scope.new_collection();
            inputs.insert(name.clone(), input);
            rows.insert(name.clone(), collection);
        }
        let found = query(&Tables { rows, dictionary: dictionary.clone() });
        let (columns, dictionary, out) = (found.columns, dictionary.clone(), out.clone());
        let (probe, _) = found
            .rows
            .inspect(move |(row, _, count)| {
                let (dictionary, mut out) = (dictionary.borrow(), out.borrow_mut());
                for _ in 0..*count {
                    for (place, ((_, kind), value)) in columns.iter().zip(row).enumerate() {
                        let tab = if place > 0 { "\t" } else { "" };
                        match kind {
                            Type::Text => write!(out, "{tab}{}", dictionary.texts[*value as usize]),
                            Type::Integer => write!(out, "{tab}{value}"),
                        }
                        .expect("standard output");
                    }
                    writeln!(out).expect("standard output");
                }
            })
            .probe();
        (inputs, probe, columns.iter().map(|(name, _)| *name).collect())
    });
    let mut running = Running { dataflow, inputs, probe, time: 0 };
    for (name, table) in tables {
        for row in &table.static_rows {
            running.inputs.get_mut(name).unwrap().insert(*row);
        }
    }
    running.advance(worker);
    (running, names)
}

fn main() {
    timely::execute_directly(|worker| {
        let out = Rc::new(RefCell::new(BufWriter::new(stdout())));
        let dictionary = Rc::new(RefCell::new(Dictionary::default()));
        let mut tables = HashMap::<String, Table>::new();
        let mut running: Option<Running> = None;
        let say = |message: String| {
            writeln!(out.borrow_mut(), "{message}").expect("standard output");
            out.borrow_mut().flush().expect("standard output");
        };
        for line in stdin().lock().lines() {
            let line = line.expect("UTF-8");
            let mut words = line.split('\t');
            match words.next().unwrap() {
                "#table" => {
                    let (name, kind) = (words.next().unwrap().to_string(), words.next().unwrap());
                    let types = words.map(|column| if column.ends_with(" text") { Type::Text } else { Type::Integer }).collect();
                    tables.insert(name, Table { types, is_static: kind == "static", static_rows: Vec::new() });
                }
                "#start" => {
                    let (started, names) = start(words.next().unwrap(), worker, &tables, &dictionary, &out);
                    running = Some(started);
                    say(format!("#ready\t{}", names.join("\t")));
                }
                "#end" => {
                    running.as_mut().unwrap().advance(worker);
                    say(format!("#done\t{}", words.next().unwrap()));
                }
                "#stop" => {
                    let stopped = running.take().unwrap();
                    drop(stopped.inputs);
                    worker.drop_dataflow(stopped.dataflow);
                    say("#stopped".to_string());
                }
                name => {
                    let table = tables.get_mut(name).unwrap();
                    let row = table.row(&mut dictionary.borrow_mut(), words);
                    match running.as_mut() {
                        Some(query) if !table.is_static => query.inputs.get_mut(name).unwrap().insert(row),
                        _ => table.static_rows.push(row),
                    }
                }
            }
        }
        std::process::exit(0);
    });
}
