//! The moved tables, their order and their columns, as defined by the schemas.

use tollgate_storage::{Result, StorageError, StorageErrorKind};

use crate::columns::columns;

/// Tables that are not moved, each with the reason.
pub const EXCLUDED_TABLES: [(&str, &str); 4] = [
    (
        "_sqlx_migrations",
        "each engine has its own migration history; both must match this program's version",
    ),
    (
        "journal_mark",
        "identifies the journal of one directory and its stored position; a new database has its own \
         journal, and a move stores the source's journal first",
    ),
    (
        "installation",
        "identifies a PostgreSQL database to the journals of its nodes; a new database has its own id",
    ),
    (
        "lease",
        "lists the balances leased to nodes; a move requires that no lease exists",
    ),
];

/// Type of a column in PostgreSQL, which may be narrower than the type in SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Flag,
    Small,
    Integer,
    Text,
    Bytes,
}

/// A column that exists in both databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// A table that exists in both databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// The columns of its primary key, in order.
    pub(crate) key: Vec<String>,
    /// Tables that the foreign keys refer to, which must be written first.
    references: Vec<String>,
}

columns! {
    /// A column as described by SQLite.
    pub(crate) struct SqliteColumn {
        pub(crate) table_name: String,
        pub(crate) column_name: String,
        pub(crate) data_type: String,
        /// Position in the primary key, from 1; zero outside the key.
        pub(crate) key_place: i64,
        /// Table that a foreign key refers to.
        pub(crate) refers_to: Option<String>,
    }
}

columns! {
    /// A column as described by PostgreSQL.
    pub(crate) struct PostgresColumn {
        pub(crate) table_name: String,
        pub(crate) column_name: String,
        pub(crate) data_type: String,
    }
}

impl Table {
    /// Creates a table without a key.
    pub(super) fn new(name: impl Into<String>, columns: Vec<Column>) -> Table {
        Table {
            name: name.into(),
            columns,
            key: Vec::new(),
            references: Vec::new(),
        }
    }

    /// Returns the quoted name for use in SQL.
    pub(crate) fn quoted(&self) -> String {
        quoted(&self.name)
    }

    /// Returns all columns as a list for use in SQL.
    pub(crate) fn column_list(&self) -> String {
        list(self.columns.iter().map(|column| column.name.as_str()))
    }

    /// Returns the key columns as a list for use in SQL.
    pub(crate) fn key_list(&self) -> String {
        list(self.key.iter().map(String::as_str))
    }
}

fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(quoted).collect::<Vec<_>>().join(", ")
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// Returns the tables that exist in both databases, each after the tables that it references.
/// Ignores other tables in the PostgreSQL schema.
///
/// Returns `Corrupt` if the databases differ, because a migration exists for only one of them.
pub(crate) fn merge_schemas(sqlite: Vec<SqliteColumn>, postgres: &[PostgresColumn]) -> Result<Vec<Table>> {
    let mut tables: Vec<Table> = Vec::new();
    let mut keys = Vec::new();
    for column in sqlite {
        let like = |other: &&PostgresColumn| {
            (&other.table_name, &other.column_name) == (&column.table_name, &column.column_name)
        };
        let data_type = postgres.iter().find(like).map(|other| other.data_type.as_str());
        let kind = kind(&column.data_type, data_type.unwrap_or("nothing")).ok_or_else(|| {
            let (table, name) = (&column.table_name, &column.column_name);
            let types = (&column.data_type, data_type.unwrap_or("nothing"));
            schema_mismatch(format!(
                "{table}.{name} has type {} in the code and {} in the database",
                types.0, types.1
            ))
        })?;
        if tables.last().is_none_or(|table| table.name != column.table_name) {
            keys.push(Vec::new());
            tables.push(Table::new(column.table_name, Vec::new()));
        }
        if let (Some(table), Some(key)) = (tables.last_mut(), keys.last_mut()) {
            if column.key_place > 0 {
                key.push((column.key_place, column.column_name.clone()));
            }
            table.references.extend(column.refers_to);
            table.columns.push(Column {
                name: column.column_name,
                kind,
            });
        }
    }
    for (table, mut key) in tables.iter_mut().zip(keys) {
        let theirs = postgres
            .iter()
            .filter(|other| other.table_name == table.name)
            .count();
        if theirs != table.columns.len() {
            return Err(schema_mismatch(format!(
                "{} has columns that exist on one side only",
                table.name
            )));
        }
        key.sort();
        table.key = key.into_iter().map(|(_, name)| name).collect();
    }
    sort_by_reference(tables)
}

fn kind(sqlite: &str, postgres: &str) -> Option<Kind> {
    match (sqlite, postgres) {
        ("INTEGER", "bigint") => Some(Kind::Integer),
        ("INTEGER", "smallint") => Some(Kind::Small),
        ("INTEGER", "boolean") => Some(Kind::Flag),
        ("TEXT", "text") => Some(Kind::Text),
        ("BLOB", "bytea") => Some(Kind::Bytes),
        _ => None,
    }
}

fn sort_by_reference(mut left: Vec<Table>) -> Result<Vec<Table>> {
    let mut ordered: Vec<Table> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let exists = |name: &String| ordered.iter().any(|table| table.name == *name);
        let ready = left.iter().position(|table| {
            let mut others = table.references.iter().filter(|name| **name != table.name);
            others.all(exists)
        });
        let ready =
            ready.ok_or_else(|| schema_mismatch("tables refer to each other in a circle".to_owned()))?;
        ordered.push(left.remove(ready));
    }
    Ok(ordered)
}

fn schema_mismatch(detail: String) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, format!("the schemas differ: {detail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqlite(
        table: &str,
        column: &str,
        data_type: &str,
        key_place: i64,
        refers_to: Option<&str>,
    ) -> SqliteColumn {
        SqliteColumn {
            table_name: table.to_owned(),
            column_name: column.to_owned(),
            data_type: data_type.to_owned(),
            key_place,
            refers_to: refers_to.map(str::to_owned),
        }
    }

    fn postgres(columns: &[(&str, &str, &str)]) -> Vec<PostgresColumn> {
        let column = |(table, name, data_type): &(&str, &str, &str)| PostgresColumn {
            table_name: (*table).to_owned(),
            column_name: (*name).to_owned(),
            data_type: (*data_type).to_owned(),
        };
        columns.iter().map(column).collect()
    }

    #[test]
    fn tables_follow_the_tables_they_reference() {
        let ours = vec![
            sqlite("item", "leg", "INTEGER", 2, None),
            sqlite("item", "owner", "BLOB", 1, Some("owner")),
            sqlite("owner", "id", "BLOB", 1, None),
            sqlite("owner", "parent", "BLOB", 0, Some("owner")),
        ];
        let theirs = postgres(&[
            ("owner", "id", "bytea"),
            ("owner", "parent", "bytea"),
            ("item", "owner", "bytea"),
            ("item", "leg", "smallint"),
            ("somebody_elses", "id", "uuid"),
        ]);
        let tables = merge_schemas(ours, &theirs).unwrap();
        let names: Vec<_> = tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["owner", "item"]);
        assert_eq!(tables[1].key_list(), "\"owner\", \"leg\"");
        assert_eq!(tables[1].columns[0].kind, Kind::Small);
    }

    #[test]
    fn sides_that_differ_are_named() {
        for (theirs, text) in [
            (
                &[("owner", "id", "text")][..],
                "owner.id has type BLOB in the code and text in the database",
            ),
            (
                &[],
                "owner.id has type BLOB in the code and nothing in the database",
            ),
            (
                &[("owner", "id", "bytea"), ("owner", "more", "text")],
                "owner has columns that exist on one side only",
            ),
        ] {
            let ours = vec![sqlite("owner", "id", "BLOB", 1, None)];
            let error = merge_schemas(ours, &postgres(theirs)).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
        let circle = vec![
            sqlite("a", "b", "BLOB", 1, Some("b")),
            sqlite("b", "a", "BLOB", 1, Some("a")),
        ];
        let error =
            merge_schemas(circle, &postgres(&[("a", "b", "bytea"), ("b", "a", "bytea")])).unwrap_err();
        assert!(error.to_string().contains("circle"), "{error}");
    }
}
