//! A MySQL conversation as an onlooker sees it: which statement is sent, and what its answer is. Packets are read, never
//! written; no TLS, no compression.

use std::collections::HashMap;

use super::cuts::{CutId, Cuts, Moment, Sent};

const HEADER_BYTES: usize = 4;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const OK: u8 = 0x00;

/// What to do with what was read so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Pass on, go on.
    PassOn,
    /// Pass on, then cut.
    Cut,
    /// Pass on, then cut the client off, and send these bytes to the server at the given moment.
    Late(Vec<u8>, std::time::Duration),
}

/// What an onlooker remembers of one connection.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// Texts of the prepared statements, by their id.
    prepared: HashMap<u32, String>,
    /// Text whose id is still to be told.
    preparing: Option<String>,
    in_transaction: bool,
    /// The cut that waits for an answer.
    awaited: Option<CutId>,
}

impl Conversation {
    /// Takes the whole packets out of what the client has sent; those that may be passed on go to `out`.
    pub(super) fn client_sent(&mut self, buffer: &mut Vec<u8>, out: &mut Vec<u8>, cuts: &Cuts) -> Verdict {
        while let Some(length) = packet_length(buffer) {
            let packet: Vec<u8> = buffer.drain(..length).collect();
            match self.client_packet(&packet, cuts) {
                Some((id, Moment::Before)) => {
                    cuts.strike(id);
                    return Verdict::Cut;
                }
                Some((id, Moment::Late(by))) => {
                    cuts.strike(id);
                    return Verdict::Late(packet, by);
                }
                Some((id, Moment::After)) => {
                    self.awaited = Some(id);
                    out.extend_from_slice(&packet);
                }
                None => out.extend_from_slice(&packet),
            }
        }
        Verdict::PassOn
    }

    /// The same for what the server has sent.
    pub(super) fn server_sent(&mut self, buffer: &mut Vec<u8>, out: &mut Vec<u8>, cuts: &Cuts) -> Verdict {
        while let Some(length) = packet_length(buffer) {
            let packet: Vec<u8> = buffer.drain(..length).collect();
            if self.server_packet(&packet, cuts) {
                return Verdict::Cut;
            }
            out.extend_from_slice(&packet);
        }
        Verdict::PassOn
    }

    fn client_packet(&mut self, packet: &[u8], cuts: &Cuts) -> Option<(CutId, Moment)> {
        // A command begins a sequence; what a client sends while logging in does not.
        let payload = &packet[HEADER_BYTES..];
        if packet[3] != 0 {
            return None;
        }
        let text = match *payload.first()? {
            COM_QUERY => String::from_utf8_lossy(&payload[1..]).into_owned(),
            COM_STMT_PREPARE => {
                self.preparing = Some(String::from_utf8_lossy(&payload[1..]).into_owned());
                return None;
            }
            COM_STMT_EXECUTE => self.prepared.get(&number(payload.get(1..5)?)?)?.clone(),
            _ => return None,
        };
        let due = cuts.due(&Sent { text: &text, in_transaction: self.in_transaction });
        let word = text.trim().trim_end_matches(';').to_ascii_uppercase();
        match word.as_str() {
            "BEGIN" | "START TRANSACTION" => self.in_transaction = true,
            "COMMIT" | "ROLLBACK" => self.in_transaction = false,
            _ => {}
        }
        due
    }

    /// Whether the connection is to be cut instead of passing the packet on.
    fn server_packet(&mut self, packet: &[u8], cuts: &Cuts) -> bool {
        // The first packet of an answer.
        let payload = &packet[HEADER_BYTES..];
        if packet[3] != 1 {
            return false;
        }
        let is_ok = payload.first() == Some(&OK);
        if let Some(text) = self.preparing.take()
            && is_ok
            && let Some(id) = payload.get(1..5).and_then(number)
        {
            self.prepared.insert(id, text);
        }
        match self.awaited.take() {
            Some(id) if is_ok => {
                cuts.strike(id);
                true
            }
            Some(id) => {
                cuts.missed(id);
                false
            }
            None => false,
        }
    }
}

/// Length of the first packet with its header, once it is there as a whole.
fn packet_length(buffer: &[u8]) -> Option<usize> {
    let header = buffer.get(..HEADER_BYTES)?;
    let length = HEADER_BYTES
        + usize::from(header[0])
        + (usize::from(header[1]) << 8)
        + (usize::from(header[2]) << 16);
    (buffer.len() >= length).then_some(length)
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}
