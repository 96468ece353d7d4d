//! SQL of sessions that SQLite and PostgreSQL share.

use tollgate_storage::{Result, Session, SessionOwner, StorageError};
use tollgate_types::{AdminId, PersonId, SessionId, Timestamp};

use crate::columns::columns;
use crate::rows::{corrupt, digest_from, id_bytes, id_from};

pub(crate) const INSERT: &str = "INSERT INTO session (id, digest, digest_prefix, person_id, admin_id, created_at, \
    last_seen_at, expires_at, proved_at, client, address) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
pub(crate) const REPLACE: &str = "DELETE FROM session WHERE id = $1";
pub(crate) const FIND: &str = "SELECT * FROM session WHERE digest_prefix = $1";
pub(crate) const TOUCH: &str = "UPDATE session SET last_seen_at = $2 WHERE id = $1 AND last_seen_at < $2";
pub(crate) const LIST: &str = "SELECT * FROM session WHERE person_id = $1 OR admin_id = $2 ORDER BY id";
pub(crate) const DELETE: &str = "DELETE FROM session WHERE (person_id = $1 OR admin_id = $2) AND id = $3";
pub(crate) const DELETE_OTHERS: &str =
    "DELETE FROM session WHERE (person_id = $1 OR admin_id = $2) AND id IS DISTINCT FROM $3";

/// Binds a session to [`INSERT`], for any engine.
macro_rules! bind_session {
    ($session:expr) => {{
        let session: &tollgate_storage::Session = $session;
        let [person, admin] = $crate::sessions::owner_columns(session.owner);
        sqlx::query($crate::sessions::INSERT)
            .bind($crate::rows::id_bytes(session.id.as_u128()))
            .bind(session.digest.to_vec())
            .bind(session.digest[..16].to_vec())
            .bind(person)
            .bind(admin)
            .bind(session.created_at.as_micros())
            .bind(session.last_seen_at.as_micros())
            .bind(session.expires_at.as_micros())
            .bind(session.proved_at.as_micros())
            .bind(session.client.clone())
            .bind(session.address.clone())
    }};
}

/// Binds an owner to a statement whose first two parameters are `person_id` and `admin_id`, for any
/// engine.
macro_rules! of_owner {
    ($statement:expr, $owner:expr) => {{
        let [person, admin] = $crate::sessions::owner_columns($owner);
        sqlx::query($statement).bind(person).bind(admin)
    }};
}

pub(crate) use {bind_session, of_owner};

/// Returns the columns `person_id` and `admin_id` of an owner. One column is null.
pub(crate) fn owner_columns(owner: SessionOwner) -> [Option<Vec<u8>>; 2] {
    match owner {
        SessionOwner::Person(id) => [Some(id_bytes(id.as_u128())), None],
        SessionOwner::Admin(id) => [None, Some(id_bytes(id.as_u128()))],
    }
}

columns! {
    /// A row of `session`.
    pub(crate) struct SessionColumns {
        id: Vec<u8>,
        digest: Vec<u8>,
        person_id: Option<Vec<u8>>,
        admin_id: Option<Vec<u8>>,
        created_at: i64,
        last_seen_at: i64,
        expires_at: i64,
        proved_at: i64,
        client: String,
        address: String,
    }
}

impl TryFrom<SessionColumns> for Session {
    type Error = StorageError;

    fn try_from(columns: SessionColumns) -> Result<Session> {
        let owner = match (columns.person_id, columns.admin_id) {
            (Some(id), None) => SessionOwner::Person(PersonId::from_u128(id_from(&id)?)),
            (None, Some(id)) => SessionOwner::Admin(AdminId::from_u128(id_from(&id)?)),
            _ => return Err(corrupt("a session must have one owner")),
        };
        Ok(Session {
            id: SessionId::from_u128(id_from(&columns.id)?),
            digest: digest_from(columns.digest)?,
            owner,
            created_at: Timestamp::from_micros(columns.created_at),
            last_seen_at: Timestamp::from_micros(columns.last_seen_at),
            expires_at: Timestamp::from_micros(columns.expires_at),
            proved_at: Timestamp::from_micros(columns.proved_at),
            client: columns.client,
            address: columns.address,
        })
    }
}

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT, REPLACE, FIND, TOUCH, LIST, DELETE, DELETE_OTHERS];
