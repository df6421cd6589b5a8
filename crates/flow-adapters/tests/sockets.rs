//! Real sockets, and what goes wrong on them: each is classified by how surely the call was not made.

#![allow(clippy::unwrap_used, reason = "test code")]

mod far_server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::DateTime;
use far_server::{config, gated, impatient_wallet, read_request, start, wallet, write_answer};
use flow_adapters::{HttpWallet, TransportError};
use flow_config::TransportConfig;
use flow_core::answer::{Answered, ChargeAnswer, FactAnswer, NoAnswer, UnavailableCause, UnknownCause};
use flow_core::flow::RefundReason;
use flow_core::ids::{BizKey, FlowId, RefundOrderNo, Scene, Target, TradeOrderNo, UserId};
use flow_core::money::{Currency, Money};
use flow_core::ports::{Business as _, ChargeOrder, Execution, RefundOrder, Wallet as _};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const OK_BODY: &str =
    r#"{"trade_order_no":"h2r_1_a","status":"SUCCESS","user_id":"1","money":{"amount":5,"currency":"CNY"}}"#;

fn trade() -> TradeOrderNo {
    TradeOrderNo::derive(UserId::new(1).unwrap(), FlowId::new(10).unwrap())
}

fn order() -> ChargeOrder {
    ChargeOrder {
        trade_order_no: trade(),
        user_id: UserId::new(1).unwrap(),
        money: Money::new(5, Currency::new("CNY").unwrap()).unwrap(),
        not_after: DateTime::from_timestamp_millis(1_769_860_800_007).unwrap(),
    }
}

fn unknown(cause: UnknownCause) -> ChargeAnswer {
    ChargeAnswer::None(NoAnswer::Unknown(cause))
}

/// Keeps a connection open without ever saying anything more.
async fn hang(stream: TcpStream) {
    std::future::pending::<()>().await;
    drop(stream);
}

/// Ends a connection by a reset instead of an end.
fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

#[tokio::test]
async fn a_silent_server_is_a_timeout() {
    let addr = start(hang).await;
    let Answered { answer, request_id } = impatient_wallet(addr, 150).debit(&order()).await;
    assert_eq!(answer, unknown(UnknownCause::TimedOut));
    assert!(request_id.is_some(), "the request may have left: its name is evidence");
}

#[tokio::test]
async fn an_answer_that_drips_is_a_timeout() {
    let addr = start(async |mut stream: TcpStream| {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        loop {
            tick.tick().await;
            if stream.write_all(b" ").await.is_err() {
                return;
            }
        }
    })
    .await;
    assert_eq!(impatient_wallet(addr, 300).debit(&order()).await.answer, unknown(UnknownCause::TimedOut));
}

#[tokio::test]
async fn a_reset_before_during_and_after_the_head_is_a_lost_connection() {
    let sent: [&'static [u8]; 4] = [
        b"",
        b"HTTP/1.1 200 O",
        b"HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\n{\"trade_order_no\":\"h2r_1_a\",\"status\":\"FAILED\"}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"tra\r\n",
    ];
    for part in sent {
        for ends_politely in [false, true] {
            let addr = start(move |mut stream: TcpStream| async move {
                read_request(&mut stream).await;
                let _ = stream.write_all(part).await;
                if ends_politely { drop(stream) } else { reset(stream) }
            })
            .await;
            let answer = wallet(addr).debit(&order()).await.answer;
            assert_eq!(
                answer,
                unknown(UnknownCause::ConnectionLost),
                "after {part:?}, politely: {ends_politely}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_no_http_is_a_lost_connection() {
    let addr = start(async |mut stream: TcpStream| {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").await;
    })
    .await;
    assert_eq!(wallet(addr).debit(&order()).await.answer, unknown(UnknownCause::ConnectionLost));
}

#[tokio::test]
async fn a_refused_connection_is_surely_not_made() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let Answered { answer, request_id } = wallet(addr).debit(&order()).await;
    let not_connected = NoAnswer::Unavailable { cause: UnavailableCause::NotConnected, retry_after_ms: None };
    assert_eq!(answer, ChargeAnswer::None(not_connected));
    assert_eq!(request_id, None);
}

/// The other side is no TLS server: the request has surely not left.
#[tokio::test]
async fn a_failed_handshake_is_surely_not_made() {
    let requests = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&requests);
    let addr = start(move |mut stream: TcpStream| {
        let counter = Arc::clone(&counter);
        async move {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
            if read_request(&mut stream).await.is_some() {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        }
    })
    .await;
    let base_url = format!("https://{addr}").parse().unwrap();
    let wallet = match HttpWallet::new(&TransportConfig { base_url, ..config(addr) }) {
        Ok(wallet) => wallet,
        Err(TransportError::Client(error)) => {
            eprintln!("not tested: this machine has no CA certificates ({error})");
            return;
        }
        Err(error @ TransportError::BearerToken) => panic!("{error}"),
    };
    let not_connected = NoAnswer::Unavailable { cause: UnavailableCause::NotConnected, retry_after_ms: None };
    assert_eq!(wallet.debit(&order()).await.answer, ChargeAnswer::None(not_connected));
    assert_eq!(requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let followed = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&followed);
    let elsewhere = start(move |_stream| {
        counter.fetch_add(1, Ordering::SeqCst);
        std::future::ready(())
    })
    .await;
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let addr = start(move |mut stream: TcpStream| async move {
            read_request(&mut stream).await;
            let head = format!("{status}\r\nlocation: http://{elsewhere}/wallet/v1/debits");
            write_answer(&mut stream, &head, OK_BODY).await;
        })
        .await;
        assert_eq!(wallet(addr).debit(&order()).await.answer, unknown(UnknownCause::Unexpected), "{status}");
    }
    assert_eq!(followed.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_endless_body_is_cut_off() {
    for framing in ["content-length: 1000000000", "transfer-encoding: chunked"] {
        let (closed, mut was_closed) = mpsc::channel(1);
        let addr = start(move |mut stream: TcpStream| {
            let closed = closed.clone();
            async move {
                read_request(&mut stream).await;
                let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n").as_bytes()).await;
                let chunk = [b"400\r\n".as_slice(), &[b' '; 0x400], b"\r\n"].concat();
                let mut sent = 0usize;
                while stream.write_all(&chunk).await.is_ok() {
                    sent += chunk.len();
                }
                let _ = closed.send(sent).await;
            }
        })
        .await;
        assert_eq!(wallet(addr).debit(&order()).await.answer, unknown(UnknownCause::Unparsable), "{framing}");
        // The connection is given up at once: what was sent fits into the sockets' buffers.
        assert!(was_closed.recv().await.unwrap() < 64 * 1024 * 1024);
    }
}

#[tokio::test]
async fn a_body_of_the_longest_allowed_length_is_read() {
    let addr = start(async |mut stream: TcpStream| {
        read_request(&mut stream).await;
        let body = format!("{OK_BODY}{}", " ".repeat(64 * 1024 - OK_BODY.len()));
        write_answer(&mut stream, "200 OK", &body).await;
    })
    .await;
    assert!(matches!(wallet(addr).debit(&order()).await.answer, ChargeAnswer::Success(_)));
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_meanwhile_costs_nothing_and_doubles_nothing() {
    let requests = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&requests);
    let (closed, mut was_closed) = mpsc::channel(10);
    let addr = start(move |mut stream: TcpStream| {
        let (counter, closed) = (Arc::clone(&counter), closed.clone());
        async move {
            read_request(&mut stream).await;
            counter.fetch_add(1, Ordering::SeqCst);
            write_answer(&mut stream, "200 OK", OK_BODY).await;
            drop(stream);
            let _ = closed.send(()).await;
        }
    })
    .await;
    let wallet = wallet(addr);
    for round in 1..=20 {
        let answer = wallet.debit(&order()).await.answer;
        assert!(matches!(answer, ChargeAnswer::Success(_)), "round {round}: {answer:?}");
        was_closed.recv().await.unwrap();
        assert_eq!(requests.load(Ordering::SeqCst), round);
    }
}

#[tokio::test]
async fn connections_are_kept_and_used_again() {
    let connections = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&connections);
    let addr = start(move |mut stream: TcpStream| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move {
            while read_request(&mut stream).await.is_some() {
                write_answer(&mut stream, "200 OK", OK_BODY).await;
            }
        }
    })
    .await;
    let wallet = wallet(addr);
    for _ in 0..10 {
        assert!(matches!(wallet.query(&trade()).await.answer, ChargeAnswer::Success(_)));
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn retry_after_and_the_downstreams_request_id_arrive() {
    let addr = start(async |mut stream: TcpStream| {
        read_request(&mut stream).await;
        write_answer(&mut stream, "429 Too Many\r\nretry-after: 7\r\nx-request-id: theirs-1", "").await;
    })
    .await;
    let Answered { answer, request_id } = wallet(addr).debit(&order()).await;
    let throttled = NoAnswer::Unavailable { cause: UnavailableCause::Throttled, retry_after_ms: Some(7000) };
    assert_eq!(answer, ChargeAnswer::None(throttled));
    assert_eq!(request_id.unwrap().as_str(), "theirs-1");
}

/// First line, the members of the head that matter, and the body of every call, as the contracts have them.
#[tokio::test]
async fn the_requests_are_those_of_the_contracts() {
    let (seen, mut requests) = mpsc::channel::<String>(10);
    let addr = start(move |mut stream: TcpStream| {
        let seen = seen.clone();
        async move {
            while let Some(request) = read_request(&mut stream).await {
                seen.send(request).await.unwrap();
                write_answer(&mut stream, "500 No", "").await;
            }
        }
    })
    .await;
    let (wallet, business) = gated(addr);
    let order = order();
    let refund = RefundOrder {
        refund_order_no: RefundOrderNo::derive(&trade()),
        trade_order_no: trade(),
        user_id: order.user_id,
        money: order.money.clone(),
        reason: RefundReason::DeadlinePassed,
    };
    let target = Target {
        user_id: UserId::new(i64::MAX).unwrap(),
        scene: Scene::new("renew").unwrap(),
        biz_key: BizKey::new("R:1&a=b#%/?+\"").unwrap(),
    };
    let execution = Execution {
        trade_order_no: trade(),
        target: target.clone(),
        not_after: order.not_after,
        context: Some("ctx \"x\"".to_owned()),
    };
    wallet.debit(&order).await;
    wallet.query(&trade()).await;
    wallet.close(&trade()).await;
    wallet.refund(&refund).await;
    wallet.query_refund(&refund.refund_order_no).await;
    business.execute(&execution).await;
    let fact = business.fact(&target).await.answer;
    assert_eq!(fact, FactAnswer::None(NoAnswer::Unknown(UnknownCause::ServerError)));
    let mut shown = String::new();
    while let Ok(request) = requests.try_recv() {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let head = head.to_ascii_lowercase().replace("\r\n", "\n") + "\n";
        assert!(head.contains("\nauthorization: bearer t0ken\n"), "{head}");
        let id = head.split("x-request-id: ").nth(1).unwrap().lines().next().unwrap();
        assert_eq!(id.len(), 36, "{head}");
        shown += &format!("{}\n{body}\n", request.lines().next().unwrap());
    }
    expect_test::expect![[r#"
        POST /gate/way/wallet/v1/debits HTTP/1.1
        {"trade_order_no":"h2r_1_a","user_id":"1","money":{"amount":5,"currency":"CNY"},"not_after":"2026-01-31T12:00:00.007Z"}
        GET /gate/way/wallet/v1/debits/h2r_1_a HTTP/1.1

        POST /gate/way/wallet/v1/debits/h2r_1_a/close HTTP/1.1

        POST /gate/way/wallet/v1/refunds HTTP/1.1
        {"refund_order_no":"r_h2r_1_a","trade_order_no":"h2r_1_a","user_id":"1","money":{"amount":5,"currency":"CNY"},"reason":"DEADLINE_PASSED"}
        GET /gate/way/wallet/v1/refunds/r_h2r_1_a HTTP/1.1

        POST /gate/way/business/v1/executions HTTP/1.1
        {"trade_order_no":"h2r_1_a","user_id":"9223372036854775807","scene":"renew","biz_key":"R:1&a=b#%/?+\"","not_after":"2026-01-31T12:00:00.007Z","context":"ctx \"x\""}
        GET /gate/way/business/v1/facts?user_id=9223372036854775807&scene=renew&biz_key=R%3A1%26a%3Db%23%25%2F%3F%2B%22 HTTP/1.1

    "#]].assert_eq(&shown);
}

#[tokio::test]
async fn a_secret_is_not_shown() {
    let (wallet, _) = gated("127.0.0.1:1".parse().unwrap());
    assert!(!format!("{wallet:?}").contains("t0ken"), "{wallet:?}");
    assert!(!format!("{:?}", config("127.0.0.1:1".parse().unwrap())).contains("t0ken"));
}
