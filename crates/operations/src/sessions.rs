//! Open realtime sessions for operators, without anything that was said, heard or written.

use serde::{Deserialize, Serialize};
use tollgate_types::{
    AccountId, ClientSecretId, Credits, Error, ErrorCode, KeyId, MemberId, RealtimeSessionId, RequestId,
};
use utoipa::ToSchema;

use crate::accounts::find;
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::Permission;
use crate::{Actor, Operations};

/// An open realtime session, as the node that serves it sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RealtimeSessionView {
    /// Id of the session: `rtsess_…`.
    #[schema(value_type = String)]
    pub id: RealtimeSessionId,
    /// Request id of the handshake: `req_…`.
    #[schema(value_type = String)]
    pub request_id: RequestId,
    /// Account that pays.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Display name of the account.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false, required = false)]
    pub account_name: Option<String>,
    /// API key of the handshake, or of the creator of its client secret; null for a member.
    #[schema(value_type = Option<String>)]
    pub key_id: Option<KeyId>,
    /// Member of the account that created the client secret in the console; null for an API key.
    #[schema(value_type = Option<String>)]
    pub member_id: Option<MemberId>,
    /// Client secret that opened the session; null if it was opened with an API key.
    #[schema(value_type = Option<String>)]
    pub client_secret_id: Option<ClientSecretId>,
    /// Canonical id of the model of the handshake.
    pub model: String,
    /// `voice` or `transcription`.
    pub kind: String,
    /// Way of serving the session. `cascade`: the gateway calls ordinary models. `relay`: a
    /// realtime model of a provider serves it.
    pub way: String,
    /// Node that serves the session: its host name and the port of its public listener.
    pub node: String,
    /// Time of the handshake, RFC 3339.
    pub opened_at: String,
    /// Time of the last event in either direction, RFC 3339.
    pub last_activity_at: String,
    /// Age of the session, in seconds.
    pub age_seconds: u64,
    /// Charges so far: of ended responses, or of blocks of audio.
    pub charges: u64,
    /// Sum of the charges so far, in credits. Open holds are not included.
    #[schema(value_type = String)]
    pub charged: Credits,
}

/// The open realtime sessions of the server in this process.
pub trait SessionSource: Send + Sync {
    /// Returns the sessions without the names of their accounts, newest first; none if this process
    /// has no server.
    fn sessions(&self) -> Vec<RealtimeSessionView>;

    /// Ends a session. Returns its last state; `None` if it is not open.
    fn end(&self, id: RealtimeSessionId) -> Option<RealtimeSessionView>;
}

/// Lists the open realtime sessions of the running server, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListRealtimeSessions {
    /// Account of the sessions; `None` for all accounts.
    pub account: Option<AccountId>,
    /// Last session of the previous page.
    pub before: Option<RealtimeSessionId>,
    /// Maximum number of sessions to return.
    pub limit: u32,
}

impl Operation for ListRealtimeSessions {
    const NAME: &'static str = "list_realtime_sessions";
    const NEEDS_SERVER: bool = true;

    type Reply = Vec<RealtimeSessionView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        if let Some(account) = self.account {
            find(operations, account).await?;
        }
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let mut found = operations.sessions.sessions();
        found.retain(|session| {
            self.account.is_none_or(|account| account == session.account)
                && self.before.is_none_or(|before| session.id < before)
        });
        found.truncate(limit);
        Ok(found.into())
    }
}

/// Ends an open realtime session of the running server. Its running responses are cancelled and
/// settled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndRealtimeSession {
    /// Session to end.
    pub id: RealtimeSessionId,
}

impl Operation for EndRealtimeSession {
    const NAME: &'static str = "end_realtime_session";
    const NEEDS_SERVER: bool = true;

    type Reply = RealtimeSessionView;

    fn declaration(&self) -> Declaration {
        Declaration::change("realtime_session.end", Permission::Sessions).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let ended = operations.sessions.end(self.id).ok_or_else(|| {
            let message = "No session with this id is open on this node.";
            Error::new(ErrorCode::NotFound, message)
        })?;
        Ok(ended.into())
    }
}
