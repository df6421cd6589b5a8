//! One connection through the proxy: two pumps, and the end that the controller or a cut wants for it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;

use super::mysql::{Conversation, Verdict};
use super::{Direction, Protocol, Shared, State};

/// Longest wait for the server's answer to something that was delivered late.
const LATE_ANSWER: Duration = Duration::from_secs(30);

/// How a connection ended.
enum End {
    /// Both sides said goodbye.
    Closed,
    /// It is cut: both sides get a reset.
    Cut,
    /// The client gets a reset; the server gets these bytes so much later.
    Late(Vec<u8>, Duration),
}

/// Serves one connection to its end.
pub(super) async fn serve(mut client: TcpStream, link: u64, shared: Arc<Shared>) {
    let mut state = shared.state.subscribe();
    let admitted = tokio::select! {
        biased;
        () = until_reset(&mut state, link) => None,
        server = admit(&shared, link) => server.ok(),
    };
    let Some(mut server) = admitted else { return reset(client) };
    // Small packets are not to wait for each other; without it only times differ.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let end = tokio::select! {
        biased;
        () = until_reset(&mut state, link) => End::Cut,
        end = converse(&mut client, &mut server, link, &shared) => end.unwrap_or(End::Cut),
    };
    match end {
        End::Closed => {}
        End::Cut => {
            reset(client);
            reset(server);
        }
        End::Late(bytes, by) => {
            reset(client);
            tokio::time::sleep(by).await;
            // A server that has gone meanwhile never hears of it, which is as good a fault.
            if server.write_all(&bytes).await.is_ok() {
                let mut answer = [0; 1_024];
                let _ = tokio::time::timeout(LATE_ANSWER, server.read(&mut answer)).await;
            }
        }
    }
}

/// A reset instead of a farewell.
fn reset(stream: TcpStream) {
    // Where the system refuses, the connection still ends.
    let _ = stream.set_zero_linger();
}

async fn until_reset(state: &mut watch::Receiver<State>, link: u64) {
    if state.wait_for(|state| state.resets(link)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Connects to the server, as soon as anything gets through to it.
async fn admit(shared: &Shared, link: u64) -> io::Result<TcpStream> {
    let mut state = shared.state.subscribe();
    let upstream = pass(&mut state, link, Direction::ToServer).await.upstream;
    TcpStream::connect(upstream).await
}

/// Waits until this way is open for the link; what holds then.
async fn pass(state: &mut watch::Receiver<State>, link: u64, way: Direction) -> State {
    let open = state.wait_for(|state| !state.blocks(link, way)).await.map(|state| *state);
    match open {
        Ok(state) => state,
        Err(_) => std::future::pending().await,
    }
}

/// What both pumps of a link share.
struct Talk<'l> {
    shared: &'l Shared,
    link: u64,
    conversation: Mutex<Conversation>,
    /// Bytes of the present answer that the client got; from zero whenever it sends something.
    answered: Mutex<usize>,
}

async fn converse(
    client: &mut TcpStream,
    server: &mut TcpStream,
    link: u64,
    shared: &Shared,
) -> io::Result<End> {
    let talk = Talk { shared, link, conversation: Mutex::default(), answered: Mutex::new(0) };
    let ((client_reads, client_writes), (server_reads, server_writes)) = (client.split(), server.split());
    let up = talk.pump(client_reads, server_writes, Direction::ToServer);
    let down = talk.pump(server_reads, client_writes, Direction::ToClient);
    tokio::pin!(up, down);
    // A side that has said goodbye may still be listening.
    tokio::select! {
        end = &mut up => match end? { End::Closed => down.await, cut @ (End::Cut | End::Late(..)) => Ok(cut) },
        end = &mut down => match end? { End::Closed => up.await, cut @ (End::Cut | End::Late(..)) => Ok(cut) },
    }
}

impl Talk<'_> {
    async fn pump(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, way: Direction) -> io::Result<End> {
        let mut state = self.shared.state.subscribe();
        let (mut buffer, mut out) = (Vec::with_capacity(16 * 1024), Vec::new());
        loop {
            let count = from.read_buf(&mut buffer).await?;
            let now = pass(&mut state, self.link, way).await;
            if count == 0 {
                to.shutdown().await?;
                return Ok(End::Closed);
            }
            if let Some(latency) = now.latency() {
                tokio::time::sleep(latency).await;
            }
            out.clear();
            let mut end = self.look(&mut buffer, &mut out, way);
            if self.exceeds(&mut out, way, &now) {
                end = Some(End::Cut);
            }
            to.write_all(&out).await?;
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Moves what may be passed on to `out`; how the link ends, if it does.
    fn look(&self, buffer: &mut Vec<u8>, out: &mut Vec<u8>, way: Direction) -> Option<End> {
        let verdict = match self.shared.protocol {
            Protocol::Bytes => {
                out.append(buffer);
                return None;
            }
            Protocol::MySql => {
                let mut conversation = self.conversation.lock().unwrap_or_else(PoisonError::into_inner);
                match way {
                    Direction::ToClient => conversation.server_sent(buffer, out, &self.shared.cuts),
                    Direction::ToServer | Direction::Both => {
                        conversation.client_sent(buffer, out, &self.shared.cuts)
                    }
                }
            }
        };
        match verdict {
            Verdict::PassOn => None,
            Verdict::Cut => Some(End::Cut),
            Verdict::Late(bytes, by) => Some(End::Late(bytes, by)),
        }
    }

    /// Counts the answer's bytes; whether `out` had to be cut short.
    fn exceeds(&self, out: &mut Vec<u8>, way: Direction, now: &State) -> bool {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if way != Direction::ToClient {
            *answered = 0;
            return false;
        }
        let left = now.answer_limit().map(|limit| limit.saturating_sub(*answered));
        *answered += out.len();
        match left {
            Some(left) if out.len() > left => {
                out.truncate(left);
                true
            }
            Some(_) | None => false,
        }
    }
}
