//! Multi-row statements. Each statement is prepared for a few fixed numbers of rows, so that SQLite
//! parses each form once.

use std::sync::Arc;

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Encode, Sqlite, Type};
use tollgate_storage::Result;

use crate::rows::{corrupt, id_bytes, storage_error};
use crate::transfer::Value;

/// Numbers of rows for which a statement is prepared, largest first.
const SIZES: [usize; 5] = [256, 64, 16, 4, 1];

/// A statement with a list of rows: `head VALUES (?, …), … tail`.
///
/// Parameters are not numbered, because SQLite would search the list of all parameters for each
/// numbered parameter.
pub(super) struct Bulk {
    statements: [(usize, Arc<str>); SIZES.len()],
    common: usize,
    columns: usize,
}

impl Bulk {
    /// Creates a statement whose rows have `columns` columns. A `?` in the head is a value that all
    /// rows have in common.
    pub(super) fn new(head: &str, columns: usize, tail: &str) -> Bulk {
        let row = format!("({})", vec!["?"; columns].join(", "));
        let statement = |rows: usize| {
            let values = vec![row.as_str(); rows].join(", ");
            (rows, Arc::from(format!("{head} VALUES {values} {tail}")))
        };
        Bulk {
            statements: SIZES.map(statement),
            common: head.matches('?').count(),
            columns,
        }
    }

    /// Executes the statement for all rows and returns the number of changed rows. `common` binds
    /// the values of the head; `each` binds the values of a row.
    pub(super) async fn run<T>(
        &self,
        connection: &mut SqliteConnection,
        common: impl Fn(&mut Values),
        mut rows: &[T],
        each: impl Fn(&T, &mut Values),
    ) -> Result<u64> {
        let mut changed = 0;
        for (size, statement) in &self.statements {
            while let Some((now, later)) = rows.split_at_checked(*size) {
                let expected = self.common + size * self.columns;
                let mut values = Values::with_capacity(expected);
                common(&mut values);
                now.iter().for_each(|row| each(row, &mut values));
                let query = sqlx::query_with(AssertSqlSafe(statement.clone()), values.finish(expected)?);
                let done = query.execute(&mut *connection).await.map_err(storage_error)?;
                changed += done.rows_affected();
                rows = later;
            }
        }
        Ok(changed)
    }

    /// Executes the statement for all rows and returns the selected rows. `each` binds the values
    /// of a row.
    pub(super) async fn fetch<T>(
        &self,
        connection: &mut SqliteConnection,
        mut rows: &[T],
        each: impl Fn(&T, &mut Values),
    ) -> Result<Vec<SqliteRow>> {
        let mut found = Vec::with_capacity(rows.len());
        for (size, statement) in &self.statements {
            while let Some((now, later)) = rows.split_at_checked(*size) {
                let expected = size * self.columns;
                let mut values = Values::with_capacity(expected);
                now.iter().for_each(|row| each(row, &mut values));
                let query = sqlx::query_with(AssertSqlSafe(statement.clone()), values.finish(expected)?);
                found.append(&mut query.fetch_all(&mut *connection).await.map_err(storage_error)?);
                rows = later;
            }
        }
        Ok(found)
    }

    /// Returns all prepared forms of the statement, for the test that prepares them.
    #[cfg(test)]
    pub(super) fn forms(&self) -> impl Iterator<Item = Arc<str>> + '_ {
        self.statements.iter().map(|(_, statement)| statement.clone())
    }
}

/// Bound values of a statement, in order.
pub(super) struct Values {
    arguments: SqliteArguments,
    failed: bool,
}

impl Values {
    fn with_capacity(values: usize) -> Values {
        let mut arguments = SqliteArguments::default();
        arguments.reserve(values, 0);
        Values {
            arguments,
            failed: false,
        }
    }

    /// Adds an id.
    pub(super) fn id(&mut self, id: u128) -> &mut Values {
        self.add(id_bytes(id))
    }

    /// Adds an id or NULL.
    pub(super) fn optional_id(&mut self, id: Option<u128>) -> &mut Values {
        self.add(id.map(id_bytes))
    }

    /// Adds a blob.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Values {
        self.add(bytes)
    }

    /// Adds a blob or NULL.
    pub(super) fn optional_bytes(&mut self, bytes: Option<&[u8]>) -> &mut Values {
        self.add(bytes)
    }

    /// Adds an integer.
    pub(super) fn number(&mut self, number: i64) -> &mut Values {
        self.add(number)
    }

    /// Adds an integer or NULL.
    pub(super) fn optional_number(&mut self, number: Option<i64>) -> &mut Values {
        self.add(number)
    }

    /// Adds a text.
    pub(super) fn text(&mut self, text: &str) -> &mut Values {
        self.add(text)
    }

    /// Adds a text or NULL.
    pub(super) fn optional_text(&mut self, text: Option<&str>) -> &mut Values {
        self.add(text)
    }

    /// Adds a value of any type.
    pub(super) fn any(&mut self, value: &Value) -> &mut Values {
        match value {
            Value::Null => self.add(None::<i64>),
            Value::Integer(number) => self.add(*number),
            Value::Text(text) => self.add(text.as_str()),
            Value::Bytes(bytes) => self.add(bytes.as_slice()),
        }
    }

    fn add<'t>(&mut self, value: impl Encode<'t, Sqlite> + Type<Sqlite>) -> &mut Values {
        self.failed |= self.arguments.add(value).is_err();
        self
    }

    fn finish(self, expected: usize) -> Result<SqliteArguments> {
        if self.failed || self.arguments.len() != expected {
            return Err(corrupt("the values of a statement cannot be encoded"));
        }
        Ok(self.arguments)
    }
}
