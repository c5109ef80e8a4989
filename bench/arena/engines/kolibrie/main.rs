//! Kolibrie in one thread, by the messages of cqels_opt/bench/contenders/typed_rows.py. It is built as a program of Kolibrie's own crate.
//!
//! Its windows are answered when they close, so the number of an element is its time: a window of one holds one element.

use kolibrie::rsp_engine::{OperationMode, QueryExecutionMode, RSPBuilder, RSPEngine, ResultConsumer, SimpleR2R};
use shared::triple::Triple;
use std::fs::File;
use std::io::{stdin, BufRead, BufWriter, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

type Row = Vec<(String, String)>;
type Out = Arc<Mutex<BufWriter<File>>>;

extern "C" {
    fn dup(file: i32) -> i32;
    fn dup2(from: i32, to: i32) -> i32;
}

/// Standard output for messages alone: what Kolibrie prints goes to standard error.
fn messages() -> File {
    unsafe {
        let out = dup(1);
        dup2(2, 1);
        File::from_raw_fd(out)
    }
}

/// A running query; `number` is that of the newest element, `answered` the time of the one before it.
struct Running {
    engine: RSPEngine<Triple, Row>,
    stream: String,
    number: usize,
    answered: Arc<AtomicI64>,
    element: Option<(String, i64)>,
}

impl Running {
    /// Starts a query; returns it with the names of its variables.
    fn start(text: &str, files: &[String], out: &Out) -> (Running, Vec<String>) {
        let projection = between(text, "SELECT", "\n");
        let names: Vec<String> = projection.split_whitespace().map(|name| name.trim_start_matches('?').to_string()).collect();
        let answered = Arc::new(AtomicI64::new(0));
        let (time, wanted, answers) = (Arc::clone(&answered), names.clone(), Arc::clone(out));
        let consumer = ResultConsumer {
            function: Arc::new(move |row: Row| {
                let mut line = time.load(Ordering::Relaxed).to_string();
                for name in &wanted {
                    let found = row.iter().find(|(key, _)| key.trim_start_matches('?') == name);
                    line.push('\t');
                    line.push_str(found.map_or("\\N", |(_, value)| value));
                }
                writeln!(answers.lock().unwrap(), "{line}").unwrap();
            }),
        };
        let mut engine: RSPEngine<Triple, Row> = RSPBuilder::new()
            .add_rsp_ql_query(text)
            .add_consumer(consumer)
            .add_r2r(Box::new(SimpleR2R::with_execution_mode(QueryExecutionMode::Volcano)))
            .set_operation_mode(OperationMode::SingleThread)
            .build()
            .expect("the query was refused");
        for file in files {
            engine.add_static_ntriples(&std::fs::read_to_string(file).unwrap());
        }
        let stream = between(text, " ON <", ">").to_string();
        (Running { engine, stream, number: 0, answered, element: None }, names)
    }

    /// A triple of the element `name`; the first one closes the window of the element before it.
    fn take(&mut self, name: &str, time: i64, triple: &str) {
        if self.element.as_ref().is_none_or(|(old, _)| old != name || name == "\\N") {
            self.next();
            self.element = Some((name.to_string(), time));
        }
        self.add(triple);
    }

    fn next(&mut self) {
        self.number += 1;
        if let Some((_, time)) = &self.element {
            self.answered.store(*time, Ordering::Relaxed);
        }
    }

    fn add(&mut self, triple: &str) {
        for parsed in self.engine.parse_data(triple) {
            self.engine.add_to_stream(&self.stream, parsed, self.number);
        }
        self.engine.process_single_thread_window_results();
    }

    /// An element that matches nothing closes the window of the last one.
    fn end(&mut self) {
        if self.element.is_some() {
            self.next();
            self.add("<urn:nobody> <urn:nothing> <urn:nowhere> .");
            self.element = None;
        }
    }
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).expect(from) + from.len();
    let end = text[start..].find(to).expect(to);
    &text[start..start + end]
}

fn main() {
    let out: Out = Arc::new(Mutex::new(BufWriter::new(messages())));
    let say = |text: String| {
        let mut writer = out.lock().unwrap();
        writeln!(writer, "{text}").unwrap();
        writer.flush().unwrap();
    };
    let (mut files, mut running) = (Vec::new(), None);
    for line in stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split('\t').collect();
        match words[0] {
            "#table" => {}
            "files" => files.push(words[2].to_string()),
            "#start" => {
                let text = std::fs::read_to_string(words[1]).unwrap();
                let (started, names) = Running::start(&text, &files, &out);
                running = Some(started);
                say(format!("#ready\ttime\t{}", names.join("\t")));
            }
            "#stop" => {
                running = None;
                say("#stopped".to_string());
            }
            "#end" => {
                running.as_mut().unwrap().end();
                say(format!("#done\t{}", words[1]));
            }
            _ => {
                let query: &mut Running = running.as_mut().unwrap();
                if words[1] == query.stream {
                    query.take(words[2], words[6].parse().unwrap(), &format!("{} {} {} .", words[3], words[4], words[5]));
                }
            }
        }
    }
}
