//! Wallet and business system as fakes: the simulator's pure state machine behind the ports, with scripted faults.
//!
//! One [`FakeWorld`] is both systems; the fakes are its two faces. What really happened is read from its ledger, never
//! from counters of calls.

mod business;
mod fault;
mod wallet;

use std::sync::{Arc, Mutex, MutexGuard};

use flow_core::ids::{TradeOrderNo, UserId};
use flow_core::money::Money;
use pay_sim::ledger::{OrderLedger, World};

use crate::clock::ManualClock;
use crate::script::Script;
pub use business::FakeBusiness;
pub use fault::{Call, Fault, Lie};
pub use pay_sim::ledger::Switches;
pub use wallet::FakeWallet;

/// Both systems behind one lock. Clones share it.
#[derive(Debug, Clone)]
pub struct FakeWorld {
    world: Arc<Mutex<World>>,
    late: Arc<Mutex<Vec<LateMessage>>>,
    script: Arc<Script<Call, Fault>>,
    clock: ManualClock,
}

/// A request that the network still holds.
#[derive(Debug, Clone)]
enum LateMessage {
    Debit(pay_sim::ledger::Debit),
    Close(String),
    Refund(pay_sim::ledger::Refund),
    Execute(pay_sim::ledger::Execution),
}

impl FakeWorld {
    /// Two systems with unlimited balances, whose machines read this clock (give it a skew of its own by
    /// [`ManualClock::process`]).
    pub fn new(clock: ManualClock) -> FakeWorld {
        FakeWorld {
            world: Arc::new(Mutex::new(World::new())),
            late: Arc::default(),
            script: Arc::default(),
            clock,
        }
    }

    /// The wallet's face.
    pub fn wallet(&self) -> FakeWallet {
        FakeWallet { world: self.clone() }
    }

    /// The business system's face.
    pub fn business(&self) -> FakeBusiness {
        FakeBusiness { world: self.clone() }
    }

    /// The far side's clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// What goes wrong, and hooks that run before a call: see [`Script`].
    pub fn script(&self) -> &Script<Call, Fault> {
        &self.script
    }

    /// Makes the next call of this kind go wrong.
    pub fn fail_next(&self, call: Call, fault: Fault) {
        self.script.push(call, [Some(fault)]);
    }

    /// How many calls of this kind were made, lost ones included.
    pub fn calls(&self, call: Call) -> u64 {
        self.script.count(call)
    }

    /// Sets what a user holds in a currency; until then the balance is unlimited.
    pub fn set_balance(&self, user_id: UserId, balance: &Money) {
        self.lock().set_balance(sim_user(user_id), balance.currency().as_str(), balance.amount());
    }

    /// Leaves a user without a cent in a currency.
    pub fn empty_balance(&self, user_id: UserId, currency: &str) {
        self.lock().set_balance(sim_user(user_id), currency, 0);
    }

    /// What a user holds in a currency; `None` is unlimited.
    pub fn balance(&self, user_id: UserId, currency: &str) -> Option<i64> {
        self.lock().balance(sim_user(user_id), currency)
    }

    /// Turns mutants and missing abilities on and off.
    pub fn set_switches(&self, switches: Switches) {
        self.lock().set_switches(switches);
    }

    /// What really happened under a number.
    pub fn ledger(&self, trade_order_no: &TradeOrderNo) -> OrderLedger {
        self.lock().ledger(trade_order_no.as_str())
    }

    /// Anything else of the world.
    pub fn with<T>(&self, look: impl FnOnce(&mut World, i64) -> T) -> T {
        look(&mut self.lock(), self.clock.now_ms())
    }

    /// Requests that the network still holds.
    pub fn late_messages(&self) -> usize {
        self.late_lock().len()
    }

    /// Delivers, in order, every request that the network held back; nobody hears the answers. Returns how many.
    pub fn deliver_late(&self) -> usize {
        let messages = std::mem::take(&mut *self.late_lock());
        let now_ms = self.clock.now_ms();
        let mut world = self.lock();
        for message in &messages {
            match message {
                LateMessage::Debit(debit) => drop(world.debit(debit, now_ms)),
                LateMessage::Close(trade_order_no) => drop(world.close(trade_order_no, now_ms)),
                LateMessage::Refund(refund) => drop(world.refund(refund, now_ms)),
                LateMessage::Execute(execution) => drop(world.execute(execution, now_ms)),
            }
        }
        messages.len()
    }

    fn hold_back(&self, message: LateMessage) {
        self.late_lock().push(message);
    }

    fn late_lock(&self) -> MutexGuard<'_, Vec<LateMessage>> {
        self.late.lock().expect("no holder of this lock panics")
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no holder of this lock panics")
    }
}

fn sim_user(user_id: UserId) -> u64 {
    u64::try_from(user_id.get()).expect("a user id is positive")
}

fn sim_money(money: &Money) -> pay_sim::ledger::Money {
    pay_sim::ledger::Money { amount: money.amount(), currency: money.currency().as_str().to_owned() }
}
