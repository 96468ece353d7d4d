//! Implements [`PersonStore`] on SQLite. Only one connection writes, so nothing changes between the
//! decision about a redemption and its writes.

use async_trait::async_trait;
use sqlx::FromRow;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use tollgate_storage::{
    AccountState, Invitation, LinkTarget, Membership, Password, Person, PersonChange, PersonStore,
    Redemption, RedemptionOutcome, Result, SessionOwner, SignInFailures, SignInLink, StorageError,
};
use tollgate_types::{AccountId, AdminId, MemberId, PersonId, SessionId, Timestamp};

use super::query::{Query, execute, rows};
use super::{Sqlite, account, member, session};
use crate::people::{
    CHANGE, CLEAR_FAILURES, DELETE_LINK, DELETE_PASSWORD, Decision, FAILURES, FIND, FIND_LINK,
    FailureColumns, GET, INVITATION_RETENTION, INVITATIONS, InvitationColumns, LinkColumns, MEMBERSHIPS,
    MemberWrite, MembershipColumns, NAMESAKE, PASSWORD, PasswordColumns, PersonColumns, SET_ADDRESS, SignIn,
    address_taken, bind_link, bind_password, bind_person, decide, decisive_address, delete_links,
    is_redeemable, record_failure, with_address,
};
use crate::rows::{id_bytes, id_from, storage_error};
use crate::sessions::bind_session;

const ACCOUNT_OF: &str = "SELECT account_id FROM member WHERE id = $1";
const ADMIN: &str = "SELECT revoked_at FROM admin WHERE id = $1";
const EITHER: &str = "SELECT * FROM person WHERE id = $1 OR email = $2";
const SWEEP_LINKS: &str = "DELETE FROM sign_in_link WHERE id IN (SELECT id FROM sign_in_link \
    WHERE (purpose <> 'invitation' AND expires_at < $1) OR (purpose = 'invitation' AND expires_at < $2) LIMIT $3)";
const SWEEP_FAILURES: &str = "DELETE FROM sign_in_failure WHERE digest IN \
    (SELECT digest FROM sign_in_failure WHERE ends_at < $1 LIMIT $2)";

#[async_trait]
impl PersonStore for Sqlite {
    async fn get(&self, id: PersonId) -> Result<Option<Person>> {
        let statement = sqlx::query(GET).bind(id_bytes(id.as_u128()));
        self.first::<PersonColumns, _>(statement).await
    }

    async fn find(&self, email: String) -> Result<Option<Person>> {
        self.first::<PersonColumns, _>(sqlx::query(FIND).bind(email))
            .await
    }

    async fn memberships(&self, id: PersonId) -> Result<Vec<Membership>> {
        let statement = sqlx::query(MEMBERSHIPS).bind(id_bytes(id.as_u128()));
        let found = self.all(statement).await?;
        found.iter().map(whole::<MembershipColumns, _>).collect()
    }

    async fn change(&self, id: PersonId, change: PersonChange) -> Result<Person> {
        self.write(
            move |connection| Box::pin(self::change(connection, id, change)),
            |person| person,
        )
        .await
    }

    async fn password(&self, id: PersonId) -> Result<Option<Password>> {
        let statement = sqlx::query(PASSWORD).bind(id_bytes(id.as_u128()));
        self.first::<PasswordColumns, _>(statement).await
    }

    async fn set_password(&self, id: PersonId, password: Password, session: SessionId) -> Result<()> {
        self.write(
            move |connection| {
                Box::pin(async move {
                    let set = bind_password!(id, password, session);
                    if execute(connection, set).await? == 0 {
                        return Err(StorageError::not_found(session));
                    }
                    session::delete_others(connection, SessionOwner::Person(id), Some(session)).await
                })
            },
            drop,
        )
        .await
    }

    async fn create_link(&self, link: SignInLink) -> Result<()> {
        self.write(move |connection| Box::pin(create_link(connection, link)), |()| ())
            .await
    }

    async fn redeem(&self, redemption: Redemption) -> Result<RedemptionOutcome> {
        self.write(
            move |connection| Box::pin(redeem(connection, redemption)),
            |outcome| outcome,
        )
        .await
    }

    async fn invitations(&self, account: AccountId) -> Result<Vec<Invitation>> {
        let statement = sqlx::query(INVITATIONS).bind(id_bytes(account.as_u128()));
        let found = self.all(statement).await?;
        found.iter().map(whole::<InvitationColumns, _>).collect()
    }

    async fn failures(&self, digest: [u8; 32], since: Timestamp) -> Result<Option<SignInFailures>> {
        let statement = sqlx::query(FAILURES)
            .bind(digest.to_vec())
            .bind(since.as_micros());
        self.first::<FailureColumns, _>(statement).await
    }

    async fn record_failure(
        &self,
        digest: [u8; 32],
        at: Timestamp,
        since: Timestamp,
    ) -> Result<SignInFailures> {
        let statement = record_failure!(digest, at, since);
        let recorded = self.write(
            move |connection| {
                Box::pin(async move {
                    let row = statement.fetch_one(connection).await.map_err(storage_error)?;
                    whole::<FailureColumns, _>(&row)
                })
            },
            |failures| failures,
        );
        recorded.await
    }

    async fn clear_failures(&self, digest: [u8; 32]) -> Result<()> {
        let statement = sqlx::query(CLEAR_FAILURES).bind(digest.to_vec());
        self.write(move |connection| Box::pin(execute(connection, statement)), drop)
            .await
    }

    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64> {
        let links = sqlx::query(SWEEP_LINKS)
            .bind(before.as_micros())
            .bind(before.minus(INVITATION_RETENTION).as_micros())
            .bind(i64::from(limit));
        let failures = sqlx::query(SWEEP_FAILURES)
            .bind(before.as_micros())
            .bind(i64::from(limit));
        self.write(
            move |connection| {
                Box::pin(async move {
                    Ok(execute(connection, links).await? + execute(connection, failures).await?)
                })
            },
            |swept| swept,
        )
        .await
    }
}

impl Sqlite {
    /// Returns the first row of a statement, if any.
    async fn first<C, T>(&self, statement: Query) -> Result<Option<T>>
    where
        C: for<'r> FromRow<'r, SqliteRow> + TryInto<T, Error = StorageError>,
    {
        self.all(statement).await?.first().map(whole::<C, T>).transpose()
    }
}

/// Reads all columns of a row into a type of the storage port.
fn whole<C, T>(row: &SqliteRow) -> Result<T>
where
    C: for<'r> FromRow<'r, SqliteRow> + TryInto<T, Error = StorageError>,
{
    C::from_row(row).map_err(storage_error)?.try_into()
}

/// Returns a person; `NotFound` if there is none.
async fn person(connection: &mut SqliteConnection, id: PersonId) -> Result<Person> {
    let statement = sqlx::query(GET).bind(id_bytes(id.as_u128()));
    let found = rows(connection, statement).await?;
    let row = found.first().ok_or_else(|| StorageError::not_found(id))?;
    whole::<PersonColumns, _>(row)
}

async fn change(connection: &mut SqliteConnection, id: PersonId, change: PersonChange) -> Result<Person> {
    let mut changed = person(connection, id).await?;
    if let Some(email) = change.email {
        changed = with_address(changed, email.clone())?;
        let own = |statement| {
            sqlx::query(statement)
                .bind(id_bytes(id.as_u128()))
                .bind(email.clone())
        };
        if !rows(connection, own(NAMESAKE)).await?.is_empty() {
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

async fn create_link(connection: &mut SqliteConnection, link: SignInLink) -> Result<()> {
    let is_missing = match link.target {
        LinkTarget::Member(id) => account_of(connection, id).await?.is_none(),
        LinkTarget::Owner(id) => account::get(connection, id).await?.is_none(),
        LinkTarget::Admin(id) => admin(connection, id).await?.is_empty(),
    };
    if is_missing {
        return Err(StorageError::not_found("the target of the link"));
    }
    execute(connection, delete_links!(&link)).await?;
    execute(connection, bind_link!(&link)).await.map(drop)
}

/// Returns the account of a member; `None` if the member does not exist.
async fn account_of(connection: &mut SqliteConnection, id: MemberId) -> Result<Option<AccountId>> {
    let account: Option<Vec<u8>> = sqlx::query_scalar(ACCOUNT_OF)
        .bind(id_bytes(id.as_u128()))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    let account = account.as_deref().map(id_from).transpose()?;
    Ok(account.map(AccountId::from_u128))
}

/// Returns the time of the administrator's revocation, in a vector that is empty if the
/// administrator does not exist.
async fn admin(connection: &mut SqliteConnection, id: AdminId) -> Result<Vec<Option<i64>>> {
    let statement = sqlx::query_scalar(ADMIN).bind(id_bytes(id.as_u128()));
    statement.fetch_all(connection).await.map_err(storage_error)
}

async fn redeem(connection: &mut SqliteConnection, redemption: Redemption) -> Result<RedemptionOutcome> {
    let statement = sqlx::query(FIND_LINK).bind(redemption.digest[..16].to_vec());
    let found = rows(connection, statement).await?;
    let link = found.first().map(whole::<LinkColumns, _>).transpose()?;
    let Some(link) = link.filter(|link| is_redeemable(link, &redemption)) else {
        return Ok(RedemptionOutcome::Gone);
    };
    let account = match link.target {
        LinkTarget::Admin(id) => {
            if admin(connection, id).await? != [None] {
                return Ok(RedemptionOutcome::Gone);
            }
            let sign_in = SignIn::existing(SessionOwner::Admin(id), &redemption);
            return self::sign_in(connection, &link, sign_in).await;
        }
        LinkTarget::Owner(id) => Some(id),
        LinkTarget::Member(id) => account_of(connection, id).await?,
    };
    let account = match account {
        Some(id) => account::get(connection, id).await?,
        None => None,
    };
    let account = account.filter(|account| account.state != AccountState::Closed);
    let Some(account) = account else {
        return Ok(RedemptionOutcome::Gone);
    };
    let members = member::list(connection, account.id).await?;
    let statement = sqlx::query(EITHER)
        .bind(redemption.signed_in.map(|id| id_bytes(id.as_u128())))
        .bind(decisive_address(link.target, &members));
    let people = rows(connection, statement).await?;
    let people: Vec<Person> = people
        .iter()
        .map(whole::<PersonColumns, _>)
        .collect::<Result<_>>()?;
    match decide(&link, &members, &people, &redemption) {
        Decision::Refused(outcome) => Ok(outcome),
        Decision::SignIn(sign_in) => self::sign_in(connection, &link, *sign_in).await,
    }
}

/// Writes a redemption.
async fn sign_in(
    connection: &mut SqliteConnection,
    link: &SignInLink,
    sign_in: SignIn,
) -> Result<RedemptionOutcome> {
    if let Some(person) = &sign_in.new_person {
        execute(connection, bind_person!(person)).await?;
    }
    if let Some(person) = sign_in.reset_person(link) {
        let delete = sqlx::query(DELETE_PASSWORD).bind(id_bytes(person.as_u128()));
        execute(connection, delete).await?;
        session::delete_others(connection, SessionOwner::Person(person), None).await?;
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

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[ACCOUNT_OF, ADMIN, EITHER, SWEEP_LINKS, SWEEP_FAILURES];
