//! The schema and its version.

use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection, Row};
use tollgate_storage::{Result, StorageError, StorageErrorKind};

use super::error::{before_running, while_running};
use super::pool::Pool;

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations/postgres");

/// Brings the schema of this database to the version of this program; what is done already stays as it is. Several
/// may run at once: one works, the others wait.
///
/// `Unavailable` when the database cannot be reached, `Conflict` when its schema is ahead of this program or differs
/// from what this program made.
pub async fn migrate(url: &str) -> Result<()> {
    let mut connection = PgConnection::connect(url).await.map_err(before_running)?;
    let done = MIGRATIONS.run(&mut connection).await;
    connection.close().await.map_err(while_running)?;
    done.map_err(|error| match error {
        sqlx::migrate::MigrateError::Execute(error) => while_running(error),
        other => StorageError::new(StorageErrorKind::Conflict, other),
    })
}

/// Refuses a schema that is not the one of this program.
pub(super) async fn check(pool: &Pool) -> Result<()> {
    let applied = applied_versions(pool).await?;
    let known: Vec<(i64, Vec<u8>)> = MIGRATIONS
        .iter()
        .map(|migration| (migration.version, migration.checksum.to_vec()))
        .collect();
    if applied == known {
        return Ok(());
    }
    let newest = |versions: &[(i64, Vec<u8>)]| versions.last().map_or(0, |(version, _)| *version);
    let (theirs, ours) = (newest(&applied), newest(&known));
    let advice = if theirs < ours {
        "run `tollgate migrate` first"
    } else if theirs > ours {
        "a newer program ran `tollgate migrate` on it; use that version or a later one"
    } else {
        "it was not made by the `tollgate migrate` of this version; restore it or use the version that made it"
    };
    let message = format!("the database has schema {theirs}, this program needs {ours}: {advice}");
    Err(StorageError::new(StorageErrorKind::Unavailable, message))
}

/// Applied migrations with their checksums, oldest first; those that failed halfway are left out.
async fn applied_versions(pool: &Pool) -> Result<Vec<(i64, Vec<u8>)>> {
    let exists = sqlx::query("SELECT to_regclass('_sqlx_migrations') IS NOT NULL");
    let exists: bool = pool.one(exists).await?.try_get(0).map_err(while_running)?;
    if !exists {
        return Ok(Vec::new());
    }
    let rows = pool
        .all(sqlx::query(
            "SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY version",
        ))
        .await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect::<sqlx::Result<_>>()
        .map_err(while_running)
}
