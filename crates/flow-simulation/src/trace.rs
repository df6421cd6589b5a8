//! What happened in a run: a digest over every event, and on demand the events themselves, as readable lines.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use flow_core::state::State;

use crate::dice::{Point, Topic};

/// Who did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// The run itself.
    World,
    /// The database.
    Database,
    /// The wallet's books.
    Wallet,
    /// The business system's books.
    Business,
    /// What the network still held.
    Network,
    /// A process that takes requests, from 0.
    Api(u8),
    /// A process that sweeps, from 0.
    Scanner(u8),
    /// A client, from 1.
    Client(u8),
    /// Somebody on call.
    Person,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::World => f.pad("world"),
            Who::Database => f.pad("database"),
            Who::Wallet => f.pad("wallet"),
            Who::Business => f.pad("business"),
            Who::Network => f.pad("network"),
            Who::Api(number) => f.pad(&format!("api-{}", number + 1)),
            Who::Scanner(number) => f.pad(&format!("scanner-{}", number + 1)),
            Who::Client(number) => f.pad(&format!("client-{number}")),
            Who::Person => f.pad("on-call"),
        }
    }
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum What {
    /// A call or statement was sent.
    Asked(Topic, i64),
    /// Its answer was heard.
    Heard(Topic, i64, &'static str),
    /// Something went wrong on purpose.
    Fault(Point, &'static str, u64),
    /// Money or a benefit moved: what, under which number's flow.
    Effect(&'static str, i64),
    /// A row was created.
    Created(i64, i64, u32),
    /// A row was written: flow, state before and after, version, kind of write, and the answer that led to it.
    Wrote(i64, State, State, u64, String, String),
    /// A process stopped, started or stood still until a time.
    Process(&'static str, u64),
    /// A client or a person asked for something, about a target or a flow.
    Wanted(&'static str, i64),
    /// What they were told.
    Told(&'static str, i64),
    /// A phase began.
    Phase(&'static str),
    /// A promise was broken.
    Broken(String),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Asked(topic, subject) => write!(f, "→ {} {subject}", topic.name()),
            What::Heard(topic, subject, answer) => write!(f, "← {} {subject}: {answer}", topic.name()),
            What::Fault(point, what, 0) => write!(f, "FAULT {what} [{point}]"),
            What::Fault(point, what, ms) => write!(f, "FAULT {what}, {ms} ms [{point}]"),
            What::Effect(what, flow) => write!(f, "{what}, flow {flow}"),
            What::Created(flow, target, attempt) => {
                write!(f, "flow {flow} created: target {target}, attempt {attempt}")
            }
            What::Wrote(flow, from, to, version, kind, why) if from == to => {
                write!(f, "flow {flow} stays {to} v{version} ({kind}, {why})")
            }
            What::Wrote(flow, from, to, version, _, why) => {
                write!(f, "flow {flow} {from} -> {to} v{version} ({why})")
            }
            What::Process(what, 0) => f.write_str(what),
            What::Process(what, ms) => write!(f, "{what} {ms} ms"),
            What::Wanted(what, about) => write!(f, "wants: {what} {about}"),
            What::Told(what, 0) => write!(f, "is told: {what}"),
            What::Told(what, flow) => write!(f, "is told: {what}, flow {flow}"),
            What::Phase(what) => write!(f, "--- {what} ---"),
            What::Broken(what) => write!(f, "BROKEN: {what}"),
        }
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Virtual time since the start, in milliseconds.
    pub at_ms: u64,
    /// Who.
    pub who: Who,
    /// What.
    pub what: What,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ms) = (self.at_ms / 1_000, self.at_ms % 1_000);
        write!(f, "{seconds:>6}.{ms:03}  {:<10} {}", self.who, self.what)
    }
}

/// Every event of a run.
#[derive(Debug)]
pub struct Trace {
    digest: DefaultHasher,
    events: u64,
    kept: Option<Vec<Line>>,
    faults: BTreeMap<&'static str, u64>,
    incidents: Vec<Point>,
    broken: Option<String>,
}

impl Trace {
    /// An empty trace that keeps its lines, or only their digest.
    pub fn new(keep: bool) -> Trace {
        Trace {
            digest: DefaultHasher::new(),
            events: 0,
            kept: keep.then(Vec::new),
            faults: BTreeMap::new(),
            incidents: Vec::new(),
            broken: None,
        }
    }

    pub(crate) fn add(&mut self, at_ms: u64, who: Who, what: What) {
        (at_ms, who).hash(&mut self.digest);
        what.hash(&mut self.digest);
        self.events += 1;
        if let What::Fault(point, name, _) = &what {
            *self.faults.entry(name).or_default() += 1;
            self.incidents.push(*point);
        }
        if let What::Broken(what) = &what
            && self.broken.is_none()
        {
            self.broken = Some(what.clone());
        }
        if let Some(kept) = &mut self.kept {
            kept.push(Line { at_ms, who, what });
        }
    }

    /// An incident that could be left out without being a fault, such as a client.
    pub(crate) fn incident(&mut self, point: Point) {
        self.incidents.push(point);
    }

    /// Two runs with the same digest did the same things at the same times in the same order.
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// The first broken promise.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The events, if they were kept.
    pub fn lines(&self) -> &[Line] {
        self.kept.as_deref().unwrap_or_default()
    }

    /// Faults by kind.
    pub fn faults(&self) -> &BTreeMap<&'static str, u64> {
        &self.faults
    }

    /// Everything that could be left out of a repetition.
    pub fn incidents(&self) -> &[Point] {
        &self.incidents
    }
}
