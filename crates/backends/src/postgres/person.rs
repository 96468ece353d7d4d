//! Implements [`PersonStore`] on PostgreSQL.
//!
//! Transactions lock rows in this order: the account or administrator, the link, people, members.
//! The lock of the account or administrator serializes redemptions, new links and removals of
//! members.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection};
use tollgate_storage::{
    AccountState, Invitation, LinkTarget, Membership, Password, Person, PersonChange, PersonStore,
    Redemption, RedemptionOutcome, Result, SessionOwner, SignInFailures, SignInLink, StorageError,
};
use tollgate_types::{AccountId, AdminId, MemberId, PersonId, SessionId, Timestamp};

use super::error::while_running;
use super::lot::transact;
use super::pool::{Pool, Statement};
use super::subscription::execute;
use super::{member, rows, session};
use crate::people::{
    CHANGE, CLEAR_FAILURES, DELETE_LINK, DELETE_PASSWORD, Decision, FAILURES, FIND, FIND_LINK,
    FailureColumns, GET, INVITATION_RETENTION, INVITATIONS, InvitationColumns, LinkColumns, MEMBERSHIPS,
    MemberWrite, MembershipColumns, NAMESAKE, PASSWORD, PasswordColumns, PersonColumns, SET_ADDRESS, SignIn,
    address_taken, bind_link, bind_password, bind_person, decide, decisive_address, delete_links,
    is_redeemable, record_failure, with_address,
};
use crate::rows::id_bytes;
use crate::sessions::bind_session;

pub(super) struct People(pub(super) Arc<Pool>);

const SWEEP_LINKS: &str = "DELETE FROM sign_in_link WHERE id IN (
        SELECT id FROM sign_in_link
        WHERE (purpose <> 'invitation' AND expires_at < $1) OR (purpose = 'invitation' AND expires_at < $2)
        LIMIT $3 FOR UPDATE SKIP LOCKED
    )";
const SWEEP_FAILURES: &str = "DELETE FROM sign_in_failure WHERE digest IN (
        SELECT digest FROM sign_in_failure WHERE ends_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED
    )";

#[async_trait]
impl PersonStore for People {
    async fn get(&self, id: PersonId) -> Result<Option<Person>> {
        let statement = sqlx::query(GET).bind(id_bytes(id.as_u128()));
        self.0.optional(statement).await?.as_ref().map(person).transpose()
    }

    async fn find(&self, email: String) -> Result<Option<Person>> {
        let statement = sqlx::query(FIND).bind(email);
        self.0.optional(statement).await?.as_ref().map(person).transpose()
    }

    async fn memberships(&self, id: PersonId) -> Result<Vec<Membership>> {
        let statement = sqlx::query(MEMBERSHIPS).bind(id_bytes(id.as_u128()));
        let found = self.0.all(statement).await?;
        found.iter().map(rows::whole::<MembershipColumns, _>).collect()
    }

    async fn change(&self, id: PersonId, change: PersonChange) -> Result<Person> {
        transact(&self.0, move |connection| {
            Box::pin(self::change(connection, id, change))
        })
        .await
    }

    async fn password(&self, id: PersonId) -> Result<Option<Password>> {
        let statement = sqlx::query(PASSWORD).bind(id_bytes(id.as_u128()));
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::whole::<PasswordColumns, _>(&row)).transpose()
    }

    async fn set_password(&self, id: PersonId, password: Password, session: SessionId) -> Result<()> {
        transact(&self.0, move |connection| {
            Box::pin(async move {
                locked(connection, id).await?;
                if changed(connection, bind_password!(id, password, session)).await? == 0 {
                    return Err(StorageError::not_found(session));
                }
                let delete = session::delete_others(SessionOwner::Person(id), Some(session));
                execute(connection, delete).await
            })
        })
        .await
    }

    async fn create_link(&self, link: SignInLink) -> Result<()> {
        transact(&self.0, move |connection| {
            Box::pin(async move {
                if lock(connection, link.target).await?.is_none() {
                    return Err(StorageError::not_found("the target of the link"));
                }
                execute(connection, delete_links!(&link)).await?;
                execute(connection, bind_link!(&link)).await
            })
        })
        .await
    }

    async fn redeem(&self, redemption: Redemption) -> Result<RedemptionOutcome> {
        transact(&self.0, move |connection| {
            Box::pin(redeem(connection, redemption))
        })
        .await
    }

    async fn invitations(&self, account: AccountId) -> Result<Vec<Invitation>> {
        let statement = sqlx::query(INVITATIONS).bind(id_bytes(account.as_u128()));
        let found = self.0.all(statement).await?;
        found.iter().map(rows::whole::<InvitationColumns, _>).collect()
    }

    async fn failures(&self, digest: [u8; 32], since: Timestamp) -> Result<Option<SignInFailures>> {
        let statement = sqlx::query(FAILURES)
            .bind(digest.to_vec())
            .bind(since.as_micros());
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::whole::<FailureColumns, _>(&row)).transpose()
    }

    async fn record_failure(
        &self,
        digest: [u8; 32],
        at: Timestamp,
        since: Timestamp,
    ) -> Result<SignInFailures> {
        let row = self.0.one(record_failure!(digest, at, since)).await?;
        rows::whole::<FailureColumns, _>(&row)
    }

    async fn clear_failures(&self, digest: [u8; 32]) -> Result<()> {
        let statement = sqlx::query(CLEAR_FAILURES).bind(digest.to_vec());
        self.0.execute(statement).await.map(drop)
    }

    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64> {
        let links = sqlx::query(SWEEP_LINKS)
            .bind(before.as_micros())
            .bind(before.minus(INVITATION_RETENTION).as_micros())
            .bind(i64::from(limit));
        let failures = sqlx::query(SWEEP_FAILURES)
            .bind(before.as_micros())
            .bind(i64::from(limit));
        transact(&self.0, move |connection| {
            Box::pin(
                async move { Ok(changed(connection, links).await? + changed(connection, failures).await?) },
            )
        })
        .await
    }
}

fn person(row: &PgRow) -> Result<Person> {
    rows::whole::<PersonColumns, _>(row)
}

/// Executes a statement; returns the number of changed rows.
async fn changed(connection: &mut PgConnection, statement: Statement) -> Result<u64> {
    let done = statement.execute(connection).await.map_err(while_running)?;
    Ok(done.rows_affected())
}

/// Returns a person and locks it against other changes. `NotFound` if there is none.
async fn locked(connection: &mut PgConnection, id: PersonId) -> Result<Person> {
    let lock: Statement = sqlx::query(AssertSqlSafe(format!("{GET} FOR UPDATE")));
    let row = lock
        .bind(id_bytes(id.as_u128()))
        .fetch_optional(connection)
        .await
        .map_err(while_running)?;
    person(&row.ok_or_else(|| StorageError::not_found(id))?)
}

async fn change(connection: &mut PgConnection, id: PersonId, change: PersonChange) -> Result<Person> {
    let mut changed = locked(connection, id).await?;
    if let Some(email) = change.email {
        changed = with_address(changed, email.clone())?;
        let own = |statement: &'static str| -> Statement {
            sqlx::query(statement)
                .bind(id_bytes(id.as_u128()))
                .bind(email.clone())
        };
        let namesake = own(NAMESAKE).fetch_optional(&mut *connection).await;
        if namesake.map_err(while_running)?.is_some() {
            return Err(address_taken());
        }
        execute(connection, own(SET_ADDRESS)).await?;
    }
    changed.name = change.name.unwrap_or(changed.name);
    let update = sqlx::query(CHANGE)
        .bind(id_bytes(id.as_u128()))
        .bind(changed.email.clone())
        .bind(changed.name.clone());
    execute(connection, update).await?;
    Ok(changed)
}

/// A locked target of a link, which exists.
enum LockedTarget {
    /// An account, or the account of a member.
    Account(AccountId, AccountState),
    /// An administrator, who may be revoked.
    Admin { id: AdminId, is_revoked: bool },
}

/// Locks the account or administrator of a link. Returns `None` if the target does not exist.
async fn lock(connection: &mut PgConnection, target: LinkTarget) -> Result<Option<LockedTarget>> {
    let account = match target {
        LinkTarget::Owner(id) => id,
        LinkTarget::Member(id) => match account_of(connection, id).await? {
            Some(account) => account,
            None => return Ok(None),
        },
        LinkTarget::Admin(id) => {
            let lock = sqlx::query("SELECT revoked_at FROM admin WHERE id = $1 FOR NO KEY UPDATE")
                .bind(id_bytes(id.as_u128()));
            let row = lock.fetch_optional(connection).await.map_err(while_running)?;
            let Some(row) = row else { return Ok(None) };
            let is_revoked = rows::get::<Option<i64>>(&row, "revoked_at")?.is_some();
            return Ok(Some(LockedTarget::Admin { id, is_revoked }));
        }
    };
    let Some(state) = member::lock_account(connection, account).await? else {
        return Ok(None);
    };
    // The member may have been removed before the account was locked.
    if let LinkTarget::Member(id) = target
        && account_of(connection, id).await?.is_none()
    {
        return Ok(None);
    }
    Ok(Some(LockedTarget::Account(account, state)))
}

/// Returns the account of a member; `None` if the member does not exist.
async fn account_of(connection: &mut PgConnection, id: MemberId) -> Result<Option<AccountId>> {
    let statement = sqlx::query("SELECT account_id FROM member WHERE id = $1").bind(id_bytes(id.as_u128()));
    let row = statement
        .fetch_optional(connection)
        .await
        .map_err(while_running)?;
    let account = row.map(|row| rows::id(&row, "account_id")).transpose()?;
    Ok(account.map(AccountId::from_u128))
}

async fn redeem(connection: &mut PgConnection, redemption: Redemption) -> Result<RedemptionOutcome> {
    let link = find_link(connection, &redemption, "").await?;
    let Some(link) = link.filter(|link| is_redeemable(link, &redemption)) else {
        return Ok(RedemptionOutcome::Gone);
    };
    let target = lock(connection, link.target).await?;
    // The link may have been redeemed or replaced before its target was locked.
    if find_link(connection, &redemption, " FOR UPDATE").await?.as_ref() != Some(&link) {
        return Ok(RedemptionOutcome::Gone);
    }
    let account = match target {
        None
        | Some(
            LockedTarget::Account(_, AccountState::Closed) | LockedTarget::Admin { is_revoked: true, .. },
        ) => return Ok(RedemptionOutcome::Gone),
        Some(LockedTarget::Admin { id, .. }) => {
            let sign_in = SignIn::existing(SessionOwner::Admin(id), &redemption);
            return self::sign_in(connection, &link, sign_in).await;
        }
        Some(LockedTarget::Account(account, _)) => account,
    };
    let members = member::list(connection, account).await?;
    let sign_in = loop {
        let people = people(connection, &redemption, decisive_address(link.target, &members)).await?;
        let sign_in = match decide(&link, &members, &people, &redemption) {
            Decision::Refused(outcome) => return Ok(outcome),
            Decision::SignIn(sign_in) => sign_in,
        };
        let is_added = match &sign_in.new_person {
            Some(person) => changed(connection, bind_person!(person)).await? > 0,
            None => true,
        };
        // If another transaction has just added a person with this address, it decides anew.
        if is_added {
            break sign_in;
        }
    };
    self::sign_in(connection, &link, *sign_in).await
}

/// Returns the link with the digest prefix of the redemption. `lock` is a locking clause or empty.
async fn find_link(
    connection: &mut PgConnection,
    redemption: &Redemption,
    lock: &'static str,
) -> Result<Option<SignInLink>> {
    let statement: Statement = sqlx::query(AssertSqlSafe(format!("{FIND_LINK}{lock}")));
    let row = statement
        .bind(redemption.digest[..16].to_vec())
        .fetch_optional(connection)
        .await
        .map_err(while_running)?;
    row.map(|row| rows::whole::<LinkColumns, _>(&row)).transpose()
}

/// Returns the signed-in person and the person with this address, as far as they exist, and locks
/// their keys and addresses.
async fn people(
    connection: &mut PgConnection,
    redemption: &Redemption,
    email: Option<String>,
) -> Result<Vec<Person>> {
    let statement = sqlx::query("SELECT * FROM person WHERE id = $1 OR email = $2 ORDER BY id FOR KEY SHARE")
        .bind(redemption.signed_in.map(|id| id_bytes(id.as_u128())))
        .bind(email);
    let found = statement.fetch_all(connection).await.map_err(while_running)?;
    found.iter().map(person).collect()
}

/// Writes a redemption, apart from the new person.
async fn sign_in(
    connection: &mut PgConnection,
    link: &SignInLink,
    sign_in: SignIn,
) -> Result<RedemptionOutcome> {
    if let Some(person) = sign_in.reset_person(link) {
        locked(connection, person).await?;
        let delete = sqlx::query(DELETE_PASSWORD).bind(id_bytes(person.as_u128()));
        execute(connection, delete).await?;
        execute(
            connection,
            session::delete_others(SessionOwner::Person(person), None),
        )
        .await?;
    }
    match sign_in.member {
        Some(MemberWrite::Add(member)) => member::insert(connection, member).await?,
        Some(MemberWrite::Update(member)) => member::update(connection, &member).await?,
        None => (),
    }
    let delete = sqlx::query(DELETE_LINK).bind(id_bytes(link.id.as_u128()));
    execute(connection, delete).await?;
    execute(connection, bind_session!(&sign_in.session)).await?;
    Ok(RedemptionOutcome::SignedIn(sign_in.session))
}
