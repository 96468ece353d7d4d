//! Migrations of this program, and their comparison with the schema of a database.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// An applied migration: its version and its checksum.
pub(crate) type Applied = (i64, Vec<u8>);

/// Returns the migrations of a database, from the files of its folder. Replaces the macro of sqlx,
/// for the reason stated at [`columns!`](crate::columns::columns).
macro_rules! migrations {
    ($folder:literal) => {
        $crate::schema::migrations!($folder:
            "0001_books",
            "0002_responses",
            "0003_compat",
            "0004_hour_cache",
            "0005_idempotency",
            "0006_plans",
            "0007_lots",
            "0008_admin",
            "0009_chain",
            "0010_top_ups",
            "0011_notices",
            "0012_next_plan",
            "0013_leases",
            "0014_news",
            "0015_test_clocks",
            "0016_provider_subscriptions",
            "0017_media",
            "0018_jobs",
            "0019_made",
            "0020_webhooks",
            "0021_parts",
            "0022_jobs",
            "0023_files",
            "0024_batches",
            "0025_calibrations",
            "0026_file_limits",
            "0027_label_priors",
            "0028_holds",
            "0033_job_activity",
            "0036_response_account",
            "0037_key_use",
            "0038_member_calls",
            "0039_people",
            "0040_key_rotation",
            "0041_key_rights",
            "0042_chats",
            "0043_usage_hours",
            "0044_lists_of_jobs",
            "0045_searches",
            "0046_client_secrets",
            "0047_input_image_and_cached_audio",
            "0048_secrets_of_sessions",
        )
    };
    ($folder:literal: $($name:literal,)*) => {
        $crate::schema::migrator(&[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $folder, "/", $name, ".sql")),
        )),*])
    };
}
pub(crate) use migrations;

/// Returns the migrations of these files. A file is a pair of its name, such as `0001_books`, and
/// its SQL.
pub(crate) fn migrator(files: &[(&'static str, &'static str)]) -> Migrator {
    let migrations = files.iter().filter_map(|(name, sql)| {
        let (version, description) = name.split_once('_')?;
        Some(Migration::new(
            version.parse().ok()?,
            description.replace('_', " ").into(),
            MigrationType::Simple,
            sql.into_sql_str(),
            false,
        ))
    });
    Migrator::with_migrations(migrations.collect())
}

/// Schema versions before and after `migrate`; 0 means no schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Version before the migration.
    pub from: i64,
    /// Version after the migration.
    pub to: i64,
}

/// Returns the newest version among applied migrations, oldest first; 0 if there are none.
pub(crate) fn newest(applied: &[Applied]) -> i64 {
    applied.last().map_or(0, |(version, _)| *version)
}

/// Selects the applied migrations, oldest first, without failed ones.
pub(crate) const APPLIED: &str =
    "SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY version";

/// Whether the database has all migrations of this program and newer ones.
pub(crate) fn is_ahead(applied: &[Applied], known: &Migrator) -> bool {
    let mut known = known
        .iter()
        .map(|migration| (migration.version, migration.checksum.to_vec()));
    let mut applied = applied.iter();
    known.all(|known| applied.next() == Some(&known)) && applied.next().is_some()
}

/// Compares the applied migrations, oldest first, with those of this program. If they differ, the
/// error text includes advice.
pub(crate) fn compare(applied: &[Applied], known: &Migrator) -> Result<(), String> {
    let known: Vec<Applied> = known
        .iter()
        .map(|migration| (migration.version, migration.checksum.to_vec()))
        .collect();
    if applied == known {
        return Ok(());
    }
    let (theirs, ours) = (newest(applied), newest(&known));
    let advice = if theirs < ours {
        "run `tollgate migrate` first"
    } else if theirs > ours {
        "a newer version of Tollgate migrated it; use that version or a later one"
    } else {
        "another build of Tollgate migrated it; restore a backup or use that build"
    };
    Err(format!(
        "the database has schema version {theirs}, which differs from version {ours} of this program: \
         {advice}"
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn every_migration_file_is_listed() {
        for (folder, listed) in [
            ("sqlite", migrations!("sqlite")),
            ("postgres", migrations!("postgres")),
        ] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("migrations")
                .join(folder);
            let files = Migrator::new(&*folder).await.unwrap();
            let fields = |migrator: &Migrator| -> Vec<(i64, String, Vec<u8>, bool)> {
                let fields = |one: &Migration| {
                    (
                        one.version,
                        one.description.to_string(),
                        one.checksum.to_vec(),
                        one.no_tx,
                    )
                };
                migrator.iter().map(fields).collect()
            };
            assert_eq!(fields(&listed), fields(&files));
        }
    }
}
