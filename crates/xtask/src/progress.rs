//! One line per long step: a spinner on a terminal, plain lines elsewhere. Everything goes to standard error, so that
//! standard output stays what a command was asked for.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a step without a terminal may repeat where it stands.
const PLAIN_NOTE_INTERVAL: Duration = Duration::from_secs(10);

/// A started clock for showing how long something took. Never used to decide anything.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[allow(clippy::disallowed_methods, reason = "developer tool: measures its own steps")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// A step that is under way. Call [`Phase::done`] when it succeeded; dropped without it, it reports itself as not finished.
#[derive(Debug)]
pub struct Phase {
    text: String,
    watch: Stopwatch,
    spinner: Option<ProgressBar>,
    last_note: std::cell::Cell<Duration>,
    finished: bool,
}

impl Phase {
    /// Says that `text` ("fetching MySQL") has begun.
    pub fn start(text: impl Into<String>) -> Self {
        Self::begin(text.into(), std::io::stderr().is_terminal())
    }

    /// The same for a step that writes to the terminal itself, such as a build: a line, no spinner.
    pub fn start_plain(text: impl Into<String>) -> Self {
        Self::begin(text.into(), false)
    }

    fn begin(text: String, spin: bool) -> Self {
        let spinner = spin.then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
                .expect("the template is a constant and names known keys");
            let bar = ProgressBar::new_spinner().with_style(style);
            bar.set_message(text.clone());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if spinner.is_none() {
            eprintln!("… {text}");
        }
        Self {
            text,
            watch: Stopwatch::start(),
            spinner,
            last_note: std::cell::Cell::new(Duration::ZERO),
            finished: false,
        }
    }

    /// Shows how far it got, for instance "41 MB". Cheap: call it as often as you like.
    pub fn note(&self, detail: &str) {
        match &self.spinner {
            Some(bar) => bar.set_message(format!("{}: {detail}", self.text)),
            None => {
                let elapsed = self.watch.elapsed();
                if elapsed.saturating_sub(self.last_note.get()) >= PLAIN_NOTE_INTERVAL {
                    self.last_note.set(elapsed);
                    eprintln!("… {}: {detail}", self.text);
                }
            }
        }
    }

    /// Says that the step succeeded and how long it took.
    pub fn done(mut self) {
        self.finish("✓");
    }

    fn finish(&mut self, mark: &str) {
        self.finished = true;
        if let Some(bar) = self.spinner.take() {
            bar.finish_and_clear();
        }
        eprintln!("{mark} {} ({:.1?})", self.text, self.watch.elapsed());
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        if !self.finished {
            self.finish("✗ not finished:");
        }
    }
}

/// A warning nobody should miss, framed, on standard error.
pub fn warn_loudly(text: &str) {
    let rule = "!".repeat(100);
    eprintln!("\n{rule}");
    for line in text.lines() {
        eprintln!("!! {line}");
    }
    eprintln!("{rule}\n");
}
