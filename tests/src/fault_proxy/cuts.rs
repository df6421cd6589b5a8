//! Which statements a connection is to be cut at, and how often that has happened.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A statement to be recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement {
    /// The end of a transaction.
    Commit,
    /// A prepared statement that begins so, outside any transaction: it commits by itself.
    Autocommit(&'static str),
}

/// At which moment the connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the server has heard of the statement: it is never executed.
    Before,
    /// After the server has executed it and answered "OK", before the client hears of that.
    After,
    /// The client loses its connection, and the statement reaches the server so much later.
    Late(Duration),
}

/// One kind of cut.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Where.
    pub statement: Statement,
    /// When.
    pub moment: Moment,
    /// Every so many such statements, 1 for each.
    pub every: u32,
    /// At most so often.
    pub times: u32,
}

/// A cut that was ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutId(usize);

/// What is sent to the server, as far as a cut looks at it.
pub(super) struct Sent<'t> {
    pub(super) text: &'t str,
    pub(super) in_transaction: bool,
}

#[derive(Debug)]
struct Ordered {
    cut: Cut,
    seen: u32,
    left: u32,
    struck: u32,
}

/// All cuts of one proxy.
#[derive(Debug, Default)]
pub(super) struct Cuts(Mutex<Vec<Ordered>>);

impl Cuts {
    pub(super) fn add(&self, cut: Cut) -> CutId {
        let mut cuts = self.lock();
        cuts.push(Ordered { cut, seen: 0, left: cut.times, struck: 0 });
        CutId(cuts.len() - 1)
    }

    pub(super) fn struck(&self, id: CutId) -> u32 {
        self.lock()[id.0].struck
    }

    pub(super) fn end(&self) {
        for ordered in self.lock().iter_mut() {
            ordered.left = 0;
        }
    }

    /// The cut that is due at this statement, if any. It is spent; [`Cuts::missed`] gives it back.
    pub(super) fn due(&self, sent: &Sent<'_>) -> Option<(CutId, Moment)> {
        for (index, ordered) in self.lock().iter_mut().enumerate() {
            if ordered.left == 0 || !ordered.cut.statement.is(sent) {
                continue;
            }
            ordered.seen += 1;
            if ordered.seen.is_multiple_of(ordered.cut.every.max(1)) {
                ordered.left -= 1;
                return Some((CutId(index), ordered.cut.moment));
            }
        }
        None
    }

    /// The cut has happened.
    pub(super) fn strike(&self, id: CutId) {
        self.lock()[id.0].struck += 1;
    }

    /// The cut has not happened: the server refused the statement.
    pub(super) fn missed(&self, id: CutId) {
        self.lock()[id.0].left += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ordered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Statement {
    fn is(self, sent: &Sent<'_>) -> bool {
        match self {
            Statement::Commit => sent.text.trim().eq_ignore_ascii_case("COMMIT"),
            Statement::Autocommit(start) => !sent.in_transaction && sent.text.trim_start().starts_with(start),
        }
    }
}
