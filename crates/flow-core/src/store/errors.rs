//! What a failed statement means, decided once for every error the driver and the two servers can give.
//!
//! Nothing outside this module looks at error numbers or messages.

use sqlx::mysql::MySqlDatabaseError;

use crate::ports::StoreError;

/// The unique key that a write ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenKey {
    /// The caller's request key.
    RequestKey,
    /// The target's open attempt, or its attempt number.
    Target,
    /// The flow's id or a number derived from it: an id was handed out twice.
    FlowId,
    /// The event is in the inbox already.
    InboxEvent,
    /// The order has a reconciliation ticket already.
    Ticket,
}

/// What a failed statement means. Says nothing yet of what a caller is told: that depends on what was under way.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection is of no more use, and what was under way on it may have happened.
    ConnectionLost(sqlx::Error),
    /// No connection was to be had; nothing was sent.
    NotConnected(sqlx::Error),
    /// A deadlock or a lock that was held for too long; rolled back, the same statement may be tried again.
    Contended,
    /// The server does not take writes (any more); the statement did nothing, and a COMMIT was rolled back.
    ReadOnly,
    /// The server has no room or no time for it; the statement did nothing.
    Overloaded(&'static str),
    /// A unique key is taken; the statement did nothing.
    Taken(TakenKey),
    /// A guard trigger or a check refused; the statement did nothing.
    Refused(String),
    /// Anything else. The statement did nothing.
    Unexpected(sqlx::Error),
}

impl Failure {
    /// Decides what an error means.
    pub(super) fn of(error: sqlx::Error) -> Failure {
        match &error {
            sqlx::Error::Database(database) => match database.try_downcast_ref::<MySqlDatabaseError>() {
                Some(answer) => match of_number(answer.number(), answer.code(), answer.message()) {
                    Some(failure) => failure,
                    None if is_loss(answer.number()) => Failure::ConnectionLost(error),
                    None => Failure::Unexpected(error),
                },
                None => Failure::Unexpected(error),
            },
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => Failure::ConnectionLost(error),
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => Failure::NotConnected(error),
            sqlx::Error::Configuration(_)
            | sqlx::Error::InvalidArgument(_)
            | sqlx::Error::RowNotFound
            | sqlx::Error::TypeNotFound { .. }
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Encode(_)
            | sqlx::Error::Decode(_)
            | sqlx::Error::AnyDriverError(_)
            | sqlx::Error::Migrate(_)
            | sqlx::Error::InvalidSavePointStatement
            | sqlx::Error::ConfigFile(_) => Failure::Unexpected(error),
            // The driver's enum is open: what it adds later is treated as not understood.
            _ => Failure::Unexpected(error),
        }
    }

    /// What the caller of a read is told.
    pub(super) fn of_read(self) -> StoreError {
        match self {
            Failure::ConnectionLost(error) => unavailable("connection lost", &error),
            Failure::NotConnected(error) => unavailable("no connection", &error),
            Failure::Contended => StoreError::Unavailable { reason: "rows stayed locked" },
            Failure::ReadOnly => StoreError::Unavailable { reason: "the server is read-only" },
            Failure::Overloaded(reason) => StoreError::Unavailable { reason },
            Failure::Taken(_) => StoreError::Guarded { message: "a unique key is taken".to_owned() },
            Failure::Refused(message) => StoreError::Guarded { message },
            Failure::Unexpected(error) => unexpected(error),
        }
    }

    /// What the caller of a write is told, if a taken key is no answer to it.
    pub(super) fn of_write(self) -> StoreError {
        match self {
            Failure::ConnectionLost(error) => {
                tracing::warn!(%error, "connection lost while a write was under way");
                StoreError::OutcomeUnknown
            }
            Failure::Refused(message) => {
                tracing::error!(message, "a guard of the database refused a write");
                StoreError::Guarded { message }
            }
            Failure::NotConnected(_)
            | Failure::Contended
            | Failure::ReadOnly
            | Failure::Overloaded(_)
            | Failure::Taken(_)
            | Failure::Unexpected(_) => self.of_read(),
        }
    }

    /// Whether the connection must not be used again.
    pub(super) const fn spoils_connection(&self) -> bool {
        match self {
            // A server that became read-only after a fail-over has a successor: connect anew.
            Failure::ConnectionLost(_) | Failure::NotConnected(_) | Failure::ReadOnly => true,
            Failure::Contended
            | Failure::Overloaded(_)
            | Failure::Taken(_)
            | Failure::Refused(_)
            | Failure::Unexpected(_) => false,
        }
    }
}

/// Why no connection came about; nothing was sent.
pub(super) fn not_connected(error: &sqlx::Error) -> StoreError {
    unavailable("no connection", error)
}

fn unavailable(reason: &'static str, error: &sqlx::Error) -> StoreError {
    tracing::warn!(%error, reason, "the database is not available");
    StoreError::Unavailable { reason }
}

fn unexpected(error: sqlx::Error) -> StoreError {
    tracing::error!(%error, "the database failed unexpectedly");
    StoreError::Unexpected(Box::new(error))
}

/// The meaning of an error number; `None` where the error itself must be kept.
fn of_number(number: u16, sqlstate: Option<&str>, message: &str) -> Option<Failure> {
    match number {
        // Deadlock; lock wait timeout; rolled back during commit (group replication); row changed under a snapshot
        // (MariaDB); table definition changed; prepared statement must be prepared again.
        1213 | 1205 | 3101 | 1020 | 1412 | 1615 => Some(Failure::Contended),
        // read_only, super_read_only; read-only engine mode; read-only transaction.
        1290 | 1836 | 1792 => Some(Failure::ReadOnly),
        // A member of a replication group that can't go on: statements held back while a new primary catches up and then
        // let go of (3781 to 3783), transactions not let in (3796 to 3799).
        3781..=3783 | 3796..=3799 => Some(Failure::ReadOnly),
        // The group's hooks before a commit and before a statement: rolled back. Hooks after a commit say nothing of it.
        3100 if ["before_commit", "before_dml"].iter().any(|hook| message.contains(hook)) => {
            Some(Failure::ReadOnly)
        }
        1062 | 1586 => Some(match taken_key(message) {
            Some(key) => Failure::Taken(key),
            None => Failure::Refused(format!("a unique key is taken: {}", key_name(message))),
        }),
        // SIGNAL of a guard; CHECK of MySQL; CHECK of MariaDB (MySQL uses the number for something else).
        1644 | 3819 => Some(Failure::Refused(message.to_owned())),
        4025 if sqlstate == Some("23000") => Some(Failure::Refused(message.to_owned())),
        // Time limit of a read, on MySQL and on MariaDB.
        3024 | 1969 => Some(Failure::Overloaded("the statement took too long")),
        1021 | 1114 => Some(Failure::Overloaded("the server's storage is full")),
        1037 | 1038 | 1041 => Some(Failure::Overloaded("the server is out of memory")),
        1461 => Some(Failure::Overloaded("the server has too many prepared statements")),
        1040 | 1203 | 1226 => Some(Failure::Overloaded("the server has too many connections")),
        _ => None,
    }
}

/// Numbers that end the connection, or leave open whether the statement took effect: shutting down; aborted; killed;
/// interrupted; network errors; error during commit; a hook of the replication group after it; closed for inactivity.
const fn is_loss(number: u16) -> bool {
    matches!(number, 1053 | 1152 | 1158..=1161 | 1180 | 1184 | 1189 | 1190 | 1317 | 1927 | 3100 | 4031)
}

/// `Duplicate entry '…' for key 'table.key'` (MySQL 8.0.19+), `… for key 'key'` (MariaDB, older MySQL), or the guard's
/// own wording without quotes. The entry may hold anything a client sent, so only what follows the last `for key` counts.
fn key_name(message: &str) -> &str {
    message
        .rsplit_once("for key ")
        .map_or("", |(_, name)| name.trim_matches(|c| matches!(c, '\'' | '`' | '"')))
}

fn taken_key(message: &str) -> Option<TakenKey> {
    match key_name(message) {
        "pay_request_key.PRIMARY" => Some(TakenKey::RequestKey),
        "internal_pay_flow.uk_open_target"
        | "uk_open_target"
        | "internal_pay_flow.uk_biz_attempt"
        | "uk_biz_attempt" => Some(TakenKey::Target),
        "pay_inbox.uk_inbox_event" | "uk_inbox_event" => Some(TakenKey::InboxEvent),
        "recon_ticket.uk_recon_ticket" | "uk_recon_ticket" => Some(TakenKey::Ticket),
        "internal_pay_flow.PRIMARY"
        | "internal_pay_flow.uk_trade_order_no"
        | "uk_trade_order_no"
        | "internal_pay_flow.uk_refund_order_no"
        | "uk_refund_order_no" => Some(TakenKey::FlowId),
        // MariaDB names no table. An INSERT into internal_pay_flow that hits its own primary key holds one number; the
        // request key is met through the guard's own wording, or by an INSERT that touches no other table.
        "PRIMARY" if entry(message).is_some_and(is_number) => Some(TakenKey::FlowId),
        "PRIMARY" => Some(TakenKey::RequestKey),
        _ => None,
    }
}

fn entry(message: &str) -> Option<&str> {
    let (before, _) = message.rsplit_once(" for key ")?;
    before.strip_prefix("Duplicate entry ").map(|entry| entry.trim_matches('\''))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_names_of_both_servers_are_understood() {
        let cases = [
            ("Duplicate entry '7-s-b-1' for key 'internal_pay_flow.uk_open_target'", Some(TakenKey::Target)),
            ("Duplicate entry '7-s-b-1' for key 'uk_open_target'", Some(TakenKey::Target)),
            ("Duplicate entry '7-s-b-1' for key 'internal_pay_flow.uk_biz_attempt'", Some(TakenKey::Target)),
            ("Duplicate entry '7-s-b-1' for key 'uk_biz_attempt'", Some(TakenKey::Target)),
            ("Duplicate entry for key pay_request_key.PRIMARY", Some(TakenKey::RequestKey)),
            ("Duplicate entry 'app-k1' for key 'pay_request_key.PRIMARY'", Some(TakenKey::RequestKey)),
            ("Duplicate entry 'app-k1' for key 'PRIMARY'", Some(TakenKey::RequestKey)),
            ("Duplicate entry '901' for key 'PRIMARY'", Some(TakenKey::FlowId)),
            ("Duplicate entry '901' for key 'internal_pay_flow.PRIMARY'", Some(TakenKey::FlowId)),
            ("Duplicate entry 'h2r_1_1' for key 'uk_trade_order_no'", Some(TakenKey::FlowId)),
            ("Duplicate entry 'h-P-c-1' for key 'pay_inbox.uk_inbox_event'", Some(TakenKey::InboxEvent)),
            ("Duplicate entry 'h-P-c-1' for key 'uk_inbox_event'", Some(TakenKey::InboxEvent)),
            ("Duplicate entry 'main-h' for key 'recon_ticket.uk_recon_ticket'", Some(TakenKey::Ticket)),
            ("Duplicate entry 'main-h' for key 'uk_recon_ticket'", Some(TakenKey::Ticket)),
            ("Duplicate entry '1-1' for key 'pay_flow_event.PRIMARY'", None),
        ];
        for (message, key) in cases {
            assert_eq!(taken_key(message), key, "{message}");
        }
    }

    #[test]
    fn a_replication_group_that_can_not_go_on_has_written_nothing() {
        let held = "Timeout exceeded for held statement while new Group Replication primary member is applying backlog.";
        let hook = "Error on observer while running replication hook";
        for (number, message) in
            [(3781, held), (3798, "consistency"), (3100, &format!("{hook} 'before_commit'."))]
        {
            assert!(matches!(of_number(number, Some("HY000"), message), Some(Failure::ReadOnly)), "{number}");
        }
        assert!(of_number(3100, Some("HY000"), &format!("{hook} 'after_commit'.")).is_none());
        assert!(is_loss(3100), "after the commit nothing is known");
        assert!(
            matches!(of_number(3101, Some("40000"), ""), Some(Failure::Contended)),
            "rolled back, worth a retry"
        );
    }

    #[test]
    fn a_client_cannot_choose_the_key_by_what_it_sends() {
        let message = "Duplicate entry 'app-x' for key 'uk_open_target' for key 'pay_request_key.PRIMARY'";
        assert_eq!(taken_key(message), Some(TakenKey::RequestKey));
    }
}
