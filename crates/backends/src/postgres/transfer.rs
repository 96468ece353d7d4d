//! A PostgreSQL database as the source or target of a move, in one transaction.

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Row as _};
use tokio::sync::mpsc;
use tollgate_storage::{Result, StorageError, StorageErrorKind};
use tollgate_types::Timestamp;

use super::error::{before_running, while_running};
use super::schema;
use crate::transfer::{Error, Kind, PostgresColumn, Row, RowBatcher, Side, Table, Value};

const COLUMNS: &str = "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns \
    WHERE table_schema = current_schema() AND is_generated = 'NEVER' ORDER BY table_name, ordinal_position";
/// Number of connections of nodes, identified by application name. A running node has at least one
/// connection, because it sweeps holds at least twice a minute.
const NODES: &str = "SELECT count(*) FROM pg_stat_activity \
    WHERE datname = current_database() AND application_name IN ('tollgate', 'tollgate-notifications') \
    AND pid <> pg_backend_pid()";
/// Number of open leases, and the time from which other nodes may close the last one.
const LEASES: &str = "SELECT count(*), max(reclaim_at) FROM lease";

/// Start of COPY's binary format: signature, no flags, no extension.
const COPY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// End of COPY's binary format.
const COPY_END: [u8; 2] = (-1_i16).to_be_bytes();

type TransferResult<T> = std::result::Result<T, Error>;

/// One of the two databases of a move, on a separate connection.
pub(crate) struct PostgresSide {
    /// `source` or `target`.
    role: &'static str,
    connection: PgConnection,
}

impl PostgresSide {
    /// Connects to a database. Refuses a database whose schema differs from this program's, that a
    /// node uses, or that has open leases.
    pub(crate) async fn connect(role: &'static str, url: &str) -> TransferResult<PostgresSide> {
        let options: PgConnectOptions = url.parse().map_err(before_running)?;
        // A move has no statement timeout, but does not wait long for locks.
        let settings = [
            ("statement_timeout", "0"),
            ("idle_in_transaction_session_timeout", "0"),
            ("lock_timeout", "5s"),
        ];
        let options = options.application_name("tollgate-move").options(settings);
        let mut connection = options
            .disable_statement_logging()
            .connect()
            .await
            .map_err(before_running)?;
        let verdict = schema::verdict(&mut connection).await.map_err(while_running)?;
        verdict.map_err(|why| Error::Refused(format!("the {role}: {why}")))?;
        let nodes: i64 = sqlx::query_scalar(NODES)
            .fetch_one(&mut connection)
            .await
            .map_err(while_running)?;
        if nodes > 0 {
            return Err(Error::Refused(format!(
                "the {role} is used by a gateway or a command (open connections: {nodes}): stop every node \
                 first. Later writes would be lost"
            )));
        }
        let (leases, until): (i64, Option<i64>) = sqlx::query_as(LEASES)
            .fetch_one(&mut connection)
            .await
            .map_err(while_running)?;
        if let Some(until) = until {
            return Err(Error::Refused(format!(
                "{leases} leases of the {role} belong to dead nodes: start those nodes again with their data \
                 directories, or any node after {}, and stop them; this releases the leases",
                Timestamp::from_micros(until).to_rfc3339()
            )));
        }
        Ok(PostgresSide { role, connection })
    }

    /// Returns all columns of the schema, ordered by table and column.
    pub(crate) async fn columns(&mut self) -> Result<Vec<PostgresColumn>> {
        sqlx::query_as(COLUMNS)
            .fetch_all(&mut self.connection)
            .await
            .map_err(while_running)
    }

    /// Starts a snapshot of all tables and locks them against writes until the connection ends.
    pub(crate) async fn begin_reading(&mut self, tables: &[Table]) -> TransferResult<()> {
        // The snapshot is taken by the first statement after the locks.
        self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY".to_owned())
            .await?;
        self.lock(tables, "SHARE").await
    }

    /// Starts a transaction that writes all tables. Refuses tables that have rows.
    pub(crate) async fn begin_writing(&mut self, tables: &[Table]) -> TransferResult<()> {
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED".to_owned())
            .await?;
        self.lock(tables, "SHARE ROW EXCLUSIVE").await?;
        for table in tables {
            let statement = format!("SELECT EXISTS (SELECT FROM {})", table.quoted());
            let has_rows: bool = sqlx::query_scalar(AssertSqlSafe(statement))
                .fetch_one(&mut self.connection)
                .await
                .map_err(while_running)?;
            if has_rows {
                let name = &table.name;
                return Err(Error::Refused(format!(
                    "the target is not empty ({name} has rows): use a new database on which only `tollgate migrate` \
                     was run"
                )));
            }
        }
        Ok(())
    }

    /// Commits all rows and updates the statistics of the query planner.
    pub(crate) async fn commit(mut self, tables: &[Table]) -> TransferResult<()> {
        self.run("COMMIT".to_owned())
            .await
            .map_err(|error| match error.kind {
                StorageErrorKind::Timeout => Error::Unknown(error),
                _ => Error::Failed(error),
            })?;
        // If this fails, autovacuum analyzes the tables later. The data is complete in any case.
        if let Err(error) = self.run(format!("ANALYZE {}", names(tables))).await {
            tracing::warn!(%error, "cannot analyze the moved tables; autovacuum analyzes them later");
        }
        Ok(())
    }

    async fn lock(&mut self, tables: &[Table], mode: &str) -> TransferResult<()> {
        let statement = format!("LOCK TABLE {} IN {mode} MODE", names(tables));
        let locked = sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut self.connection)
            .await;
        match locked {
            Ok(_) => Ok(()),
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("55P03") => {
                let role = self.role;
                Err(Error::Refused(format!(
                    "another process is writing to the {role}, such as another move: wait until it ends"
                )))
            }
            Err(error) => Err(while_running(error).into()),
        }
    }

    async fn run(&mut self, statement: String) -> Result<()> {
        let done = sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut self.connection)
            .await;
        done.map(drop).map_err(while_running)
    }
}

fn names(tables: &[Table]) -> String {
    tables.iter().map(Table::quoted).collect::<Vec<_>>().join(", ")
}

#[async_trait]
impl Side for PostgresSide {
    /// Reads rows in key order. SQLite stores rows in that order, so that its writes only append.
    async fn read(&mut self, table: &Table, mut rows: RowBatcher) -> Result<()> {
        let (columns, name, key) = (table.column_list(), table.quoted(), table.key_list());
        let statement = format!("SELECT {columns} FROM {name} ORDER BY {key}");
        let mut found = sqlx::query(AssertSqlSafe(statement)).fetch(&mut self.connection);
        while let Some(row) = found.try_next().await.map_err(while_running)? {
            let values = table.columns.iter().enumerate();
            let values = values.map(|(place, column)| value(&row, place, column.kind));
            rows.push(values.collect::<sqlx::Result<Row>>().map_err(while_running)?)
                .await?;
        }
        rows.finish().await
    }

    async fn write(&mut self, table: &Table, mut rows: mpsc::Receiver<Vec<Row>>) -> Result<()> {
        let (columns, name) = (table.column_list(), table.quoted());
        let statement = format!("COPY {name} ({columns}) FROM STDIN (FORMAT binary)");
        let mut copy = self
            .connection
            .copy_in_raw(&statement)
            .await
            .map_err(while_running)?;
        let mut bytes = COPY_HEADER.to_vec();
        while let Some(batch) = rows.recv().await {
            for row in &batch {
                encode(table, row, &mut bytes)?;
            }
            copy.send(bytes.as_slice()).await.map_err(while_running)?;
            bytes.clear();
        }
        bytes.extend(COPY_END);
        copy.send(bytes.as_slice()).await.map_err(while_running)?;
        copy.finish().await.map(drop).map_err(while_running)
    }
}

fn value(row: &PgRow, place: usize, kind: Kind) -> sqlx::Result<Value> {
    let value = match kind {
        Kind::Flag => row
            .try_get::<Option<bool>, _>(place)?
            .map(|flag| Value::Integer(flag.into())),
        Kind::Small => row
            .try_get::<Option<i16>, _>(place)?
            .map(|small| Value::Integer(small.into())),
        Kind::Integer => row.try_get::<Option<i64>, _>(place)?.map(Value::Integer),
        Kind::Text => row.try_get::<Option<String>, _>(place)?.map(Value::Text),
        Kind::Bytes => row.try_get::<Option<Vec<u8>>, _>(place)?.map(Value::Bytes),
    };
    Ok(value.unwrap_or(Value::Null))
}

/// Encodes a row in COPY's binary format: the number of fields, then the length and the bytes of
/// each field. NULL has the length -1 and no bytes.
fn encode(table: &Table, row: &Row, bytes: &mut Vec<u8>) -> Result<()> {
    let fields = i16::try_from(row.len()).map_err(|_| unfit("the row has too many columns"))?;
    bytes.extend(fields.to_be_bytes());
    for (value, column) in row.iter().zip(&table.columns) {
        match (value, column.kind) {
            (Value::Null, _) => bytes.extend((-1_i32).to_be_bytes()),
            (Value::Integer(flag), Kind::Flag) => field(bytes, &[u8::from(*flag != 0)])?,
            (Value::Integer(number), Kind::Small) => {
                let small =
                    i16::try_from(*number).map_err(|_| unfit("a number is too large for its column"))?;
                field(bytes, &small.to_be_bytes())?;
            }
            (Value::Integer(number), _) => field(bytes, &number.to_be_bytes())?,
            (Value::Text(text), _) => field(bytes, text.as_bytes())?,
            (Value::Bytes(content), _) => field(bytes, content)?,
        }
    }
    Ok(())
}

fn field(bytes: &mut Vec<u8>, content: &[u8]) -> Result<()> {
    let length = i32::try_from(content.len()).map_err(|_| unfit("a value is too long"))?;
    bytes.extend(length.to_be_bytes());
    bytes.extend(content);
    Ok(())
}

fn unfit(what: &'static str) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, what)
}
