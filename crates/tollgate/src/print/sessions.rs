//! Tables of open realtime sessions.

use tollgate_operations::sessions::RealtimeSessionView;

use super::tables::{age, format_account, table};

/// Formats realtime sessions, one line each.
pub fn sessions(sessions: &[RealtimeSessionView]) -> String {
    let row = |session: &RealtimeSessionView| {
        [
            session.id.to_string(),
            format_account(session.account, session.account_name.as_deref()),
            opened_by(session),
            session.kind.clone(),
            session.way.clone(),
            age(session.age_seconds),
            session.last_activity_at.clone(),
            session.charges.to_string(),
            session.charged.to_string(),
            session.node.clone(),
            session.model.clone(),
        ]
    };
    table(
        [
            "ID",
            "ACCOUNT",
            "OPENED BY",
            "KIND",
            "WAY",
            "AGE",
            "LAST ACTIVITY",
            "CHARGES",
            "CHARGED",
            "NODE",
            "MODEL",
        ],
        sessions.iter().map(row),
    )
}

/// Returns the id of the client secret, the key or the member that opened a session.
fn opened_by(session: &RealtimeSessionView) -> String {
    let secret = session.client_secret_id.map(|id| id.to_string());
    let key = || session.key_id.map(|id| id.to_string());
    let member = || session.member_id.map(|id| id.to_string());
    secret
        .or_else(key)
        .or_else(member)
        .unwrap_or_else(|| "-".to_owned())
}
