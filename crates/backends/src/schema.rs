//! Compares the schema of a database with this program's migrations.

use sqlx::migrate::Migrator;

/// An applied migration: its version and its checksum.
pub(crate) type Applied = (i64, Vec<u8>);

/// Schema versions before and after `migrate`; 0 means no schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Version before the migration.
    pub from: i64,
    /// Version after the migration.
    pub to: i64,
}

/// The newest version among applied migrations, oldest first; 0 if there are none.
pub(crate) fn newest(applied: &[Applied]) -> i64 {
    applied.last().map_or(0, |(version, _)| *version)
}

/// Selects the applied migrations, without those that failed halfway.
pub(crate) const APPLIED: &str =
    "SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY version";

/// Whether all migrations of this program and further ones were applied.
pub(crate) fn is_ahead(applied: &[Applied], known: &Migrator) -> bool {
    let mut known = known
        .iter()
        .map(|migration| (migration.version, migration.checksum.to_vec()));
    let mut applied = applied.iter();
    known.all(|known| applied.next() == Some(&known)) && applied.next().is_some()
}

/// Compares the applied migrations, oldest first, with those of this program; the error says what
/// to do.
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
        "the database has schema {theirs}, this program needs {ours}: {advice}"
    ))
}
