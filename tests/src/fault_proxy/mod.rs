//! A TCP proxy on 127.0.0.1 that a suite puts between the product and what it depends on, to have the network go wrong
//! on command: while connections live, for new ones, or at one exact statement of a MySQL conversation.
//!
//! Knows TCP and just enough of the MySQL protocol (`mysql`) to find a COMMIT; knows nothing of payments. Never shipped.

mod cuts;
mod link;
mod mysql;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

pub use cuts::{Cut, CutId, Moment, Statement};

use cuts::Cuts;

/// What goes wrong on every connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Everything arrives, later.
    Latency {
        /// Delay of each piece, in each direction.
        each_way: Duration,
    },
    /// Live connections are reset, new ones as soon as they are there.
    Reset,
    /// Connections are taken and nothing is ever answered. When the fault ends they are reset, as a peer that has come
    /// back without its memory does.
    HalfOpen,
    /// Each answer breaks off with a reset after so many bytes.
    CutAnswer {
        /// Bytes of the answer that still arrive.
        after_bytes: usize,
    },
    /// Nothing gets through, and nobody is told. When the fault ends, what was under way arrives, late.
    BlackHole(Direction),
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// What the client sends.
    ToServer,
    /// What the server sends.
    ToClient,
    /// Either.
    Both,
}

/// What is spoken over the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Anything; bytes are only passed on.
    Bytes,
    /// MySQL without TLS: [`FaultProxy::cut`] works.
    MySql,
}

/// A running proxy. Dropped, it closes every connection.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// What the connections' tasks see.
#[derive(Debug)]
struct Shared {
    state: watch::Sender<State>,
    cuts: Cuts,
    protocol: Protocol,
}

/// What the controller wants at this moment. Links are numbered in the order in which they were taken.
#[derive(Debug, Clone, Copy)]
struct State {
    fault: Fault,
    upstream: SocketAddr,
    next_link: u64,
    /// Links below it are to be reset.
    reset_below: u64,
    /// Links below it are forgotten.
    forgotten_below: u64,
}

impl State {
    fn resets(&self, link: u64) -> bool {
        link < self.reset_below || self.fault == Fault::Reset
    }

    fn blocks(&self, link: u64, way: Direction) -> bool {
        let by_fault = match self.fault {
            Fault::HalfOpen | Fault::BlackHole(Direction::Both) => true,
            Fault::BlackHole(direction) => direction == way,
            Fault::None | Fault::Latency { .. } | Fault::Reset | Fault::CutAnswer { .. } => false,
        };
        by_fault || link < self.forgotten_below
    }

    fn latency(&self) -> Option<Duration> {
        match self.fault {
            Fault::Latency { each_way } => Some(each_way),
            Fault::None | Fault::Reset | Fault::HalfOpen | Fault::CutAnswer { .. } | Fault::BlackHole(_) => {
                None
            }
        }
    }

    fn answer_limit(&self) -> Option<usize> {
        match self.fault {
            Fault::CutAnswer { after_bytes } => Some(after_bytes),
            Fault::None | Fault::Latency { .. } | Fault::Reset | Fault::HalfOpen | Fault::BlackHole(_) => {
                None
            }
        }
    }
}

impl FaultProxy {
    /// Listens on a free port and passes connections on to `upstream`, which need not be there yet.
    ///
    /// # Errors
    /// No port to listen on.
    pub async fn start(upstream: SocketAddr, protocol: Protocol) -> io::Result<FaultProxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = State { fault: Fault::None, upstream, next_link: 0, reset_below: 0, forgotten_below: 0 };
        let shared = Shared { state: watch::Sender::new(state), cuts: Cuts::default(), protocol };
        let shared = Arc::new(shared);
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(FaultProxy { address, shared, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections it has taken so far.
    pub fn taken(&self) -> u64 {
        self.shared.state.borrow().next_link
    }

    /// From now on, this goes wrong; on live connections, too.
    pub fn set(&self, fault: Fault) {
        self.shared.state.send_modify(|state| {
            if state.fault == Fault::HalfOpen && fault != Fault::HalfOpen {
                state.reset_below = state.next_link;
            }
            state.fault = fault;
        });
    }

    /// Resets the connections that are there.
    pub fn reset_live(&self) {
        self.shared.state.send_modify(|state| state.reset_below = state.next_link);
    }

    /// Forgets the connections that are there, as a router does that lost its table: nothing gets through on them ever
    /// again, neither end is told, and the server keeps its end. New connections are not concerned.
    pub fn forget_live(&self) {
        self.shared.state.send_modify(|state| state.forgotten_below = state.next_link);
    }

    /// Sends new connections elsewhere, and resets those that are there, as a virtual address that moves does.
    pub fn point_at(&self, upstream: SocketAddr) {
        self.shared.state.send_modify(|state| {
            state.upstream = upstream;
            state.reset_below = state.next_link;
        });
    }

    /// Cuts connections at a statement ([`Protocol::MySql`] only).
    pub fn cut(&self, cut: Cut) -> CutId {
        self.shared.cuts.add(cut)
    }

    /// How often a cut has struck so far. One after the server's execution counts once its "OK" was held back.
    pub fn struck(&self, cut: CutId) -> u32 {
        self.shared.cuts.struck(cut)
    }

    /// No more cuts.
    pub fn heal(&self) {
        self.shared.cuts.end();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Takes connections for ever. The links are this task's: they end with it.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut links = JoinSet::new();
    loop {
        while links.try_join_next().is_some() {}
        let client = match listener.accept().await {
            Ok((client, _)) => client,
            // The client has gone again, or descriptors are short for a moment.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
        };
        let mut link = 0;
        shared.state.send_modify(|state| {
            link = state.next_link;
            state.next_link += 1;
        });
        links.spawn(link::serve(client, link, Arc::clone(&shared)));
    }
}
