//! Whether a database has the schema of this program.

use sqlx::migrate::Migrator;

/// A migration that was applied: its version and its checksum.
pub(crate) type Applied = (i64, Vec<u8>);

/// Which migrations a database has; those that failed halfway are left out.
pub(crate) const APPLIED: &str =
    "SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY version";

/// Whether everything that this program has was applied, and more besides, by a later one.
pub(crate) fn is_ahead(applied: &[Applied], known: &Migrator) -> bool {
    let mut known = known
        .iter()
        .map(|migration| (migration.version, migration.checksum.to_vec()));
    let mut applied = applied.iter();
    known.all(|known| applied.next() == Some(&known)) && applied.next().is_some()
}

/// Compares what was applied, oldest first, with what this program has; the error says what to do.
pub(crate) fn compare(applied: &[Applied], known: &Migrator) -> Result<(), String> {
    let known: Vec<Applied> = known
        .iter()
        .map(|migration| (migration.version, migration.checksum.to_vec()))
        .collect();
    if applied == known {
        return Ok(());
    }
    let newest = |versions: &[Applied]| versions.last().map_or(0, |(version, _)| *version);
    let (theirs, ours) = (newest(applied), newest(&known));
    let advice = if theirs < ours {
        "run `tollgate migrate` first"
    } else if theirs > ours {
        "a newer program ran `tollgate migrate` on it; use that version or a later one"
    } else {
        "it was not made by the `tollgate migrate` of this version; restore it or use the version that made it"
    };
    Err(format!(
        "the database has schema {theirs}, this program needs {ours}: {advice}"
    ))
}
