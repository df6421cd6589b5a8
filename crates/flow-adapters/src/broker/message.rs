//! What a wake-up looks like on its way: a flow's id, a version, and nothing to decide on. Pure.

use flow_core::ids::{FlowId, Version};
use flow_core::ports::WakeUp;
use serde::{Deserialize, Serialize};

/// Longest message that is read, in bytes: twice what the longest of ours has.
pub(super) const MAX_BYTES: usize = 256;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    flow_id: FlowId,
    version: u64,
    at_once: bool,
}

/// A message that is no wake-up: somebody else's, or a newer version's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message is no wake-up")]
pub(super) struct Unreadable;

/// The body of a message.
pub(super) fn encode(wake_up: WakeUp) -> Vec<u8> {
    let WakeUp { flow_id, version, at_once } = wake_up;
    // Text, number and flag always have a JSON form.
    serde_json::to_vec(&Wire { flow_id, version: version.0, at_once }).unwrap_or_default()
}

/// Reads the body of a message.
pub(super) fn decode(body: &[u8]) -> Result<WakeUp, Unreadable> {
    if body.len() > MAX_BYTES {
        return Err(Unreadable);
    }
    let Wire { flow_id, version, at_once } = serde_json::from_slice(body).map_err(|_| Unreadable)?;
    Ok(WakeUp { flow_id, version: Version(version), at_once })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wake_up(number: i64, version: u64, at_once: bool) -> WakeUp {
        WakeUp { flow_id: FlowId::new(number).unwrap(), version: Version(version), at_once }
    }

    #[test]
    fn a_message_names_a_flow_and_a_version_and_nothing_else() {
        let body = encode(wake_up(17, 4, false));
        assert_eq!(String::from_utf8(body).unwrap(), r#"{"flow_id":"17","version":4,"at_once":false}"#);
    }

    #[test]
    fn the_longest_message_is_read() {
        let longest = wake_up(i64::MAX, u64::MAX, false);
        let body = encode(longest);
        assert!(body.len() <= MAX_BYTES / 2, "{} bytes", body.len());
        assert_eq!(decode(&body), Ok(longest));
    }

    #[test]
    fn what_is_no_wake_up_is_refused() {
        let long = format!(r#"{{"flow_id":"17","version":4,"at_once":false{}}}"#, " ".repeat(MAX_BYTES));
        for body in [
            "",
            "garbage",
            "\u{0}",
            "null",
            "[]",
            "17",
            r#"{"flow_id":"17","version":4}"#,
            r#"{"flow_id":17,"version":4,"at_once":false}"#,
            r#"{"flow_id":"017","version":4,"at_once":false}"#,
            r#"{"flow_id":"-1","version":4,"at_once":false}"#,
            r#"{"flow_id":"17","version":-4,"at_once":false}"#,
            r#"{"flow_id":"17","version":4,"at_once":"no"}"#,
            r#"{"flow_id":"17","version":4,"at_once":false,"state":"BIZ_SUCCESS"}"#,
            r#"{"flow_id":"17","version":4,"at_once":false} {}"#,
            long.as_str(),
        ] {
            assert_eq!(decode(body.as_bytes()), Err(Unreadable), "{body}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_sent_comes_back(number in 1..=i64::MAX, version: u64, at_once: bool) {
            let sent = wake_up(number, version, at_once);
            prop_assert_eq!(decode(&encode(sent)), Ok(sent));
        }

        #[test]
        fn no_bytes_make_it_panic(body in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode(&body);
        }
    }
}
