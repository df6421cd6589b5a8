//! The proxy against an echoing peer, and its onlooker against packets made by hand.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::cuts::Cuts;
use super::mysql::{Conversation, Verdict};
use super::*;

/// Long enough for anything that is to happen on loopback.
const SOON: Duration = Duration::from_secs(5);
/// Long enough to see that nothing happens.
const QUIET: Duration = Duration::from_millis(150);

/// A peer that sends back all it gets, for ever.
async fn echo() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reads, mut writes) = stream.split();
                let _ = tokio::io::copy(&mut reads, &mut writes).await;
            });
        }
    });
    (address, serving)
}

async fn through_proxy() -> (FaultProxy, TcpStream) {
    let (address, _) = echo().await;
    let proxy = FaultProxy::start(address, Protocol::Bytes).await.unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    client.set_nodelay(true).unwrap();
    assert_eq!(say(&mut client, "hello").await.unwrap(), "hello");
    (proxy, client)
}

/// Sends a word and waits for as many bytes.
async fn say(client: &mut TcpStream, word: &str) -> io::Result<String> {
    client.write_all(word.as_bytes()).await?;
    let mut answer = vec![0; word.len()];
    timeout(SOON, client.read_exact(&mut answer)).await??;
    Ok(String::from_utf8(answer).unwrap())
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

#[tokio::test]
async fn latency_delays_both_ways() {
    let (proxy, mut client) = through_proxy().await;
    proxy.set(Fault::Latency { each_way: Duration::from_millis(60) });
    let word = timeout(Duration::from_millis(110), say(&mut client, "slow")).await;
    assert!(word.is_err(), "it came in less than twice the latency");
}

#[tokio::test]
async fn a_reset_strikes_live_and_new_connections_and_ends() {
    let (proxy, mut client) = through_proxy().await;
    proxy.set(Fault::Reset);
    let error = timeout(SOON, client.read_u8()).await.unwrap().unwrap_err();
    assert!(is_reset(&error), "{error:?}");
    let mut fresh = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(say(&mut fresh, "anybody?").await.is_err());
    proxy.set(Fault::None);
    let mut fresh = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(say(&mut fresh, "again").await.unwrap(), "again");
}

#[tokio::test]
async fn half_open_connections_hear_nothing_and_are_reset_in_the_end() {
    let (proxy, mut live) = through_proxy().await;
    proxy.set(Fault::HalfOpen);
    let mut fresh = TcpStream::connect(proxy.address()).await.unwrap();
    for client in [&mut live, &mut fresh] {
        client.write_all(b"hello?").await.unwrap();
        assert!(timeout(QUIET, client.read_u8()).await.is_err(), "something was answered");
    }
    proxy.set(Fault::None);
    for client in [&mut live, &mut fresh] {
        let error = timeout(SOON, client.read_u8()).await.unwrap().unwrap_err();
        assert!(is_reset(&error), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_breaks_off_after_so_many_bytes() {
    let (proxy, mut client) = through_proxy().await;
    proxy.set(Fault::CutAnswer { after_bytes: 3 });
    client.write_all(b"abc").await.unwrap();
    let mut answer = [0; 3];
    timeout(SOON, client.read_exact(&mut answer)).await.unwrap().unwrap();
    // The next answer has a limit of its own.
    client.write_all(b"defgh").await.unwrap();
    let mut rest = Vec::new();
    let error = timeout(SOON, client.read_to_end(&mut rest)).await.unwrap().unwrap_err();
    assert!(is_reset(&error), "{error:?}");
    assert!(b"def".starts_with(&rest), "{rest:?}");
}

#[tokio::test]
async fn a_black_hole_keeps_what_it_swallows_and_delivers_it_late() {
    for way in [Direction::ToServer, Direction::ToClient, Direction::Both] {
        let (proxy, mut client) = through_proxy().await;
        proxy.set(Fault::BlackHole(way));
        client.write_all(b"late").await.unwrap();
        assert!(timeout(QUIET, client.read_u8()).await.is_err(), "{way:?}: something came through");
        proxy.set(Fault::None);
        let mut answer = [0; 4];
        timeout(SOON, client.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(&answer, b"late", "{way:?}");
    }
}

#[tokio::test]
async fn a_forgotten_connection_stays_silent_while_new_ones_work() {
    let (proxy, mut client) = through_proxy().await;
    proxy.forget_live();
    client.write_all(b"hello?").await.unwrap();
    assert!(timeout(QUIET, client.read_u8()).await.is_err());
    let mut fresh = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(say(&mut fresh, "fresh").await.unwrap(), "fresh");
    assert_eq!(proxy.taken(), 2);
}

#[tokio::test]
async fn pointed_elsewhere_it_resets_and_connects_there() {
    let (proxy, mut client) = through_proxy().await;
    let (elsewhere, _) = echo().await;
    proxy.point_at(elsewhere);
    assert!(timeout(SOON, client.read_u8()).await.unwrap().is_err());
    let mut fresh = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(say(&mut fresh, "there").await.unwrap(), "there");
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    proxy.point_at(nobody.local_addr().unwrap());
    drop(nobody);
    let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(say(&mut refused, "nobody").await.is_err(), "nobody listens there");
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![u8::try_from(payload.len()).unwrap(), 0, 0, sequence];
    packet.extend_from_slice(payload);
    packet
}

fn query(text: &str) -> Vec<u8> {
    packet(0, &[&[3], text.as_bytes()].concat())
}

fn execute(id: u8) -> Vec<u8> {
    packet(0, &[0x17, id, 0, 0, 0, 0, 1, 0, 0, 0])
}

/// An onlooker that has seen statement 7 prepared.
fn prepared(text: &str, cuts: &Cuts) -> Conversation {
    let mut conversation = Conversation::default();
    let mut out = Vec::new();
    conversation.client_sent(&mut packet(0, &[&[0x16], text.as_bytes()].concat()), &mut out, cuts);
    conversation.server_sent(&mut packet(1, &[0, 7, 0, 0, 0, 0, 0, 0, 0]), &mut out, cuts);
    conversation
}

const INSERT: &str = "INSERT INTO t";

fn cut(statement: Statement, moment: Moment) -> Cut {
    Cut { statement, moment, every: 1, times: 1 }
}

#[test]
fn a_commit_is_cut_before_it_leaves_and_only_once() {
    let cuts = Cuts::default();
    let id = cuts.add(cut(Statement::Commit, Moment::Before));
    let mut conversation = Conversation::default();
    let (mut buffer, mut out) = ([query("BEGIN"), query("COMMIT")].concat(), Vec::new());
    assert_eq!(conversation.client_sent(&mut buffer, &mut out, &cuts), Verdict::Cut);
    assert_eq!(out, query("BEGIN"), "what stands before it is passed on");
    assert_eq!(cuts.struck(id), 1);
    assert_eq!(conversation.client_sent(&mut query("COMMIT"), &mut out, &cuts), Verdict::PassOn);
}

#[test]
fn the_answer_to_a_commit_is_held_back_if_it_is_ok() {
    let cuts = Cuts::default();
    let id = cuts.add(cut(Statement::Commit, Moment::After));
    let mut conversation = Conversation::default();
    let mut out = Vec::new();
    assert_eq!(conversation.client_sent(&mut query("commit"), &mut out, &cuts), Verdict::PassOn);
    let mut error = packet(1, &[0xff, 1, 2]);
    assert_eq!(conversation.server_sent(&mut error, &mut out, &cuts), Verdict::PassOn);
    assert_eq!(cuts.struck(id), 0, "a refused commit is not what was asked for");
    out.clear();
    assert_eq!(conversation.client_sent(&mut query("COMMIT"), &mut out, &cuts), Verdict::PassOn);
    out.clear();
    assert_eq!(conversation.server_sent(&mut packet(1, &[0, 0, 0]), &mut out, &cuts), Verdict::Cut);
    assert!(out.is_empty(), "the client must not hear of it");
    assert_eq!(cuts.struck(id), 1);
}

#[test]
fn a_prepared_statement_is_known_again_outside_transactions_alone() {
    let cuts = Cuts::default();
    cuts.add(cut(Statement::Autocommit(INSERT), Moment::Late(SOON)));
    let mut conversation = prepared("INSERT INTO t VALUES (?)", &cuts);
    let mut out = Vec::new();
    let mut in_transaction = [query("BEGIN"), execute(7), query("COMMIT"), execute(8)].concat();
    assert_eq!(conversation.client_sent(&mut in_transaction, &mut out, &cuts), Verdict::PassOn);
    let verdict = conversation.client_sent(&mut execute(7), &mut out, &cuts);
    assert_eq!(verdict, Verdict::Late(execute(7), SOON));
}

#[test]
fn half_a_packet_waits_and_a_login_is_no_command() {
    let cuts = Cuts::default();
    let id = cuts.add(Cut { every: 2, ..cut(Statement::Commit, Moment::Before) });
    let mut conversation = Conversation::default();
    let mut out = Vec::new();
    let mut login = packet(1, b"\x03COMMIT");
    assert_eq!(conversation.client_sent(&mut login, &mut out, &cuts), Verdict::PassOn);
    let whole = query("COMMIT");
    let mut buffer = whole[..6].to_vec();
    out.clear();
    assert_eq!(conversation.client_sent(&mut buffer, &mut out, &cuts), Verdict::PassOn);
    assert!(out.is_empty());
    buffer.extend_from_slice(&whole[6..]);
    assert_eq!(conversation.client_sent(&mut buffer, &mut out, &cuts), Verdict::PassOn);
    assert_eq!(out, whole, "the first of every two is let through");
    assert_eq!(conversation.client_sent(&mut query("COMMIT"), &mut out, &cuts), Verdict::Cut);
    assert_eq!(cuts.struck(id), 1);
}
