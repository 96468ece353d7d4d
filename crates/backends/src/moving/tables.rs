//! Which tables are moved, in which order, and what their columns hold: as the schemas say.

use tollgate_storage::{Result, StorageError, StorageErrorKind};

/// Tables that stay where they are, and why.
pub const OWN: [(&str, &str); 4] = [
    (
        "_sqlx_migrations",
        "each engine keeps the history of its own schema; both must be at this program's version",
    ),
    (
        "journal_mark",
        "names the journal of one directory and how far it was taken over; a database that is made anew has its own, and \
         the source's journal was taken over before it was read",
    ),
    (
        "installation",
        "names a PostgreSQL database for the journals of its nodes; a database that is made anew has its own",
    ),
    (
        "lease",
        "what nodes have of balances; a move begins when none has anything",
    ),
];

/// What a column holds: PostgreSQL's type, which may be narrower than SQLite's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Flag,
    Small,
    Integer,
    Text,
    Bytes,
}

/// A column of both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// A table of both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// The columns of its primary key, in order.
    pub(crate) key: Vec<String>,
    /// Tables that must be there before.
    references: Vec<String>,
}

/// A column as SQLite describes it.
#[derive(sqlx::FromRow)]
pub(crate) struct SqliteColumn {
    pub(crate) table_name: String,
    pub(crate) column_name: String,
    pub(crate) data_type: String,
    /// Its place in the primary key, from 1.
    pub(crate) key_place: i64,
    /// The table that it refers to.
    pub(crate) refers_to: Option<String>,
}

/// A column as PostgreSQL describes it.
#[derive(sqlx::FromRow)]
pub(crate) struct PostgresColumn {
    pub(crate) table_name: String,
    pub(crate) column_name: String,
    pub(crate) data_type: String,
}

impl Table {
    /// A table without a key.
    pub(super) fn new(name: impl Into<String>, columns: Vec<Column>) -> Table {
        Table {
            name: name.into(),
            columns,
            key: Vec::new(),
            references: Vec::new(),
        }
    }

    /// The name as it stands in a statement.
    pub(crate) fn quoted(&self) -> String {
        quoted(&self.name)
    }

    /// All columns as they stand in a statement.
    pub(crate) fn column_list(&self) -> String {
        list(self.columns.iter().map(|column| column.name.as_str()))
    }

    /// The columns of the key as they stand in a statement.
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

/// The tables of both sides, each behind those that it refers to. What else stands in PostgreSQL's schema is somebody
/// else's. `Corrupt` when the sides differ: then a migration was made for one of them only.
pub(crate) fn unite(sqlite: Vec<SqliteColumn>, postgres: &[PostgresColumn]) -> Result<Vec<Table>> {
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
            differ(format!(
                "{table}.{name} is {} here and {} there",
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
            return Err(differ(format!("{} has columns on one side only", table.name)));
        }
        key.sort();
        table.key = key.into_iter().map(|(_, name)| name).collect();
    }
    in_order(tables)
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

fn in_order(mut left: Vec<Table>) -> Result<Vec<Table>> {
    let mut ordered: Vec<Table> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let is_there = |name: &String| ordered.iter().any(|table| table.name == *name);
        let ready = left.iter().position(|table| {
            let mut others = table.references.iter().filter(|name| **name != table.name);
            others.all(is_there)
        });
        let ready = ready.ok_or_else(|| differ("tables refer to each other in a circle".to_owned()))?;
        ordered.push(left.remove(ready));
    }
    Ok(ordered)
}

fn differ(how: String) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, format!("the schemas differ: {how}"))
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
    fn tables_come_behind_what_they_refer_to() {
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
        let tables = unite(ours, &theirs).unwrap();
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
                "owner.id is BLOB here and text there",
            ),
            (&[], "owner.id is BLOB here and nothing there"),
            (
                &[("owner", "id", "bytea"), ("owner", "more", "text")],
                "owner has columns on one side only",
            ),
        ] {
            let ours = vec![sqlite("owner", "id", "BLOB", 1, None)];
            let error = unite(ours, &postgres(theirs)).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
        let circle = vec![
            sqlite("a", "b", "BLOB", 1, Some("b")),
            sqlite("b", "a", "BLOB", 1, Some("a")),
        ];
        let error = unite(circle, &postgres(&[("a", "b", "bytea"), ("b", "a", "bytea")])).unwrap_err();
        assert!(error.to_string().contains("circle"), "{error}");
    }
}
