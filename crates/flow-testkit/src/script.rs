//! What goes wrong, and when: a queue of steps per call, an optional source behind it, and hooks that run right before
//! a call takes effect or right before its answer is heard.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard};

type Source<C, F> = Box<dyn FnMut(C) -> Option<F> + Send>;
type Hook = Box<dyn FnOnce() + Send>;

/// Faults `F` for calls `C`.
pub struct Script<C, F> {
    state: Mutex<State<C, F>>,
}

struct State<C, F> {
    steps: HashMap<C, VecDeque<Option<F>>>,
    before: HashMap<C, VecDeque<Hook>>,
    after: HashMap<C, VecDeque<Hook>>,
    source: Option<Source<C, F>>,
    counts: HashMap<C, u64>,
}

impl<C, F> Default for Script<C, F> {
    fn default() -> Script<C, F> {
        let state = State {
            steps: HashMap::new(),
            before: HashMap::new(),
            after: HashMap::new(),
            source: None,
            counts: HashMap::new(),
        };
        Script { state: Mutex::new(state) }
    }
}

impl<C, F> fmt::Debug for Script<C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

impl<C: Eq + Hash + Copy, F> Script<C, F> {
    /// Appends steps for the next calls of this kind; `None` lets one pass.
    pub fn push(&self, call: C, steps: impl IntoIterator<Item = Option<F>>) {
        self.lock().steps.entry(call).or_default().extend(steps);
    }

    /// Asks this source whenever no step is left for a call.
    pub fn set_source(&self, source: impl FnMut(C) -> Option<F> + Send + 'static) {
        self.lock().source = Some(Box::new(source));
    }

    /// Drops every step, every hook and the source: from now on all goes well.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.steps.clear();
        state.before.clear();
        state.after.clear();
        state.source = None;
    }

    /// Runs this right before the next call of this kind takes effect; several are used up one per call.
    pub fn before_next(&self, call: C, hook: impl FnOnce() + Send + 'static) {
        self.lock().before.entry(call).or_default().push_back(Box::new(hook));
    }

    /// Runs this right after the next call of this kind took effect, before its answer is heard: the way to make an
    /// answer old. Several are used up one per call.
    pub fn after_next(&self, call: C, hook: impl FnOnce() + Send + 'static) {
        self.lock().after.entry(call).or_default().push_back(Box::new(hook));
    }

    /// How many calls of this kind there were, faulty ones included.
    pub fn count(&self, call: C) -> u64 {
        self.lock().counts.get(&call).copied().unwrap_or(0)
    }

    /// Counts a call, runs its hook and says what goes wrong with it.
    pub fn enter(&self, call: C) -> Option<F> {
        let hook = {
            let mut state = self.lock();
            *state.counts.entry(call).or_default() += 1;
            state.before.get_mut(&call).and_then(VecDeque::pop_front)
        };
        // Outside the lock: a hook may itself make calls.
        if let Some(hook) = hook {
            hook();
        }
        let mut state = self.lock();
        match state.steps.get_mut(&call).and_then(VecDeque::pop_front) {
            Some(step) => step,
            None => state.source.as_mut().and_then(|source| source(call)),
        }
    }

    /// Runs the call's hook for the time between its effect and its answer.
    pub fn leave(&self, call: C) {
        let hook = self.lock().after.get_mut(&call).and_then(VecDeque::pop_front);
        if let Some(hook) = hook {
            hook();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<C, F>> {
        self.state.lock().expect("no source panics")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn steps_come_first_then_the_source() {
        let script: Script<u8, &str> = Script::default();
        script.push(1, [Some("a"), None]);
        script.set_source(|call| (call == 1).then_some("later"));
        assert_eq!([script.enter(1), script.enter(1), script.enter(1)], [Some("a"), None, Some("later")]);
        assert_eq!(script.enter(2), None);
        assert_eq!((script.count(1), script.count(2)), (3, 1));
        script.clear();
        assert_eq!(script.enter(1), None);
    }

    #[test]
    fn a_hook_runs_once_and_may_call_again() {
        let script: Arc<Script<u8, &str>> = Arc::default();
        let inner = Arc::clone(&script);
        script.before_next(1, move || {
            inner.push(1, [Some("set by the hook")]);
        });
        assert_eq!(script.enter(1), Some("set by the hook"));
        assert_eq!(script.enter(1), None);
    }
}
