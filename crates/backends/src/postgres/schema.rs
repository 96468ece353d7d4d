//! Schema migrations and the check of the schema at startup.

use std::sync::LazyLock;

use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection};
use tollgate_storage::{Result, StorageError, StorageErrorKind};

use super::error::{before_running, while_running};
use super::pool::Pool;
use crate::schema::{APPLIED, Applied, Migrated, compare, is_ahead, migrations, newest};

static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| migrations!("postgres"));

/// Migrates the database to the schema of this program; applied migrations stay unchanged.
/// Concurrent runs wait for one another.
///
/// Returns `Unavailable` if the database cannot be reached, and `Conflict` if its schema is newer
/// than this program or differs from its migrations.
pub async fn migrate(url: &str) -> Result<Migrated> {
    let mut connection = PgConnection::connect(url).await.map_err(before_running)?;
    let before = applied(&mut connection).await.map_err(while_running)?;
    let done = MIGRATIONS.run(&mut connection).await;
    let after = applied(&mut connection).await;
    connection.close().await.map_err(while_running)?;
    done.map_err(|error| match error {
        sqlx::migrate::MigrateError::Execute(error) => while_running(error),
        other => StorageError::new(StorageErrorKind::Conflict, other),
    })?;
    Ok(Migrated {
        from: newest(&before),
        to: newest(&after.map_err(while_running)?),
    })
}

/// Returns `Unavailable` if this program cannot use the schema, and a message that states what to
/// do.
pub(super) async fn check(pool: &Pool) -> Result<()> {
    let verdict = pool.call(|connection| Box::pin(usable(connection))).await?;
    verdict.map_err(|message| StorageError::new(StorageErrorKind::Unavailable, message))
}

/// Checks whether this program can use the schema; the error states what to do. A newer schema is
/// usable if its oldest compatible version (`installation.least_schema`) is not above this
/// program's.
async fn usable(connection: &mut PgConnection) -> sqlx::Result<std::result::Result<(), String>> {
    let same = verdict(&mut *connection).await?;
    if same.is_ok() || !is_ahead(&applied(&mut *connection).await?, &MIGRATIONS) {
        return Ok(same);
    }
    let min_schema: i64 = sqlx::query_scalar("SELECT least_schema FROM installation")
        .fetch_one(connection)
        .await?;
    let ours = MIGRATIONS.iter().map(|migration| migration.version).max();
    match ours >= Some(min_schema) {
        true => Ok(Ok(())),
        false => Ok(same),
    }
}

/// Checks whether the applied migrations equal those of this program; the error states what to do.
pub(super) async fn verdict(connection: &mut PgConnection) -> sqlx::Result<std::result::Result<(), String>> {
    Ok(compare(&applied(connection).await?, &MIGRATIONS))
}

async fn applied(connection: &mut PgConnection) -> sqlx::Result<Vec<Applied>> {
    let exists: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    match exists {
        true => sqlx::query_as(APPLIED).fetch_all(connection).await,
        false => Ok(Vec::new()),
    }
}
