//! Tests that the comparison detects a target with lost or changed rows.

use super::tables::Column;
use super::*;

/// Rows of one table in memory.
struct Memory {
    rows: Vec<Row>,
    /// Change of the rows after all of them are written.
    fault: fn(&mut Vec<Row>),
}

#[async_trait]
impl Side for Memory {
    async fn read(&mut self, _: &Table, mut rows: RowBatcher) -> Result<()> {
        for row in &self.rows {
            rows.push(row.clone()).await?;
        }
        rows.finish().await
    }

    async fn write(&mut self, _: &Table, mut rows: mpsc::Receiver<Vec<Row>>) -> Result<()> {
        while let Some(batch) = rows.recv().await {
            self.rows.extend(batch);
        }
        (self.fault)(&mut self.rows);
        Ok(())
    }
}

fn table() -> Table {
    let columns = [
        ("account_id", Kind::Bytes),
        ("kind", Kind::Text),
        ("balance", Kind::Integer),
    ];
    let column = |(name, kind): (&str, Kind)| Column {
        name: name.to_owned(),
        kind,
    };
    Table::new("ledger_account", columns.map(column).into())
}

fn row(account: u8, kind: &str, balance: i64) -> Row {
    vec![
        Value::Bytes(vec![account]),
        Value::Text(kind.to_owned()),
        Value::Integer(balance),
    ]
}

fn moved(fault: fn(&mut Vec<Row>)) -> Result<TransferSummary> {
    let mut rows: Vec<Row> = (0..2_000).map(|n| row(3, "", n)).collect();
    rows.extend([
        row(1, "credits", 5),
        row(1, "cash", -5),
        row(2, "credits", i64::MAX),
    ]);
    let mut source = Memory { rows, fault: |_| {} };
    let mut target = Memory {
        rows: Vec::new(),
        fault,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(copy(&mut source, &mut target, &[table()], &mut |_| {}))
}

#[test]
fn transferred_rows_are_summed() {
    // The target may return rows in any order.
    let moved = moved(|rows| rows.reverse()).unwrap();
    let checksum = &moved.tables[0];
    assert_eq!((checksum.rows, moved.accounts), (2_003, 3));
    assert_eq!(checksum.balances["credits"], 5 + i128::from(i64::MAX));
    assert_eq!(checksum.balances["cash"], -5);
    let sums: Vec<_> = checksum.sums.keys().map(String::as_str).collect();
    assert_eq!(sums, ["balance"]);
}

#[test]
fn differing_rows_fail_the_transfer() {
    let faults: [fn(&mut Vec<Row>); 7] = [
        |rows| drop(rows.pop()),
        |rows| rows.push(row(3, "", 0)),
        |rows| rows[0] = rows[1].clone(),
        |rows| rows[7][2] = Value::Null,
        |rows| rows[7][2] = Value::Text("7".to_owned()),
        // Other rows with the same sums.
        |rows| {
            rows[7] = row(3, "", 8);
            rows[8] = row(3, "", 7);
            rows[9] = row(1, "", 9);
        },
        |rows| rows.clear(),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let error = moved(fault).unwrap_err();
        assert_eq!(error.kind, StorageErrorKind::Corrupt, "{number}: {error}");
        assert!(error.to_string().contains("ledger_account"), "{number}: {error}");
    }
}

#[test]
fn accounts_are_compared_one_by_one() {
    let (mut one, mut other) = (AccountDigests::default(), AccountDigests::default());
    let table = table();
    ChecksumBuilder::new(&table, &mut one).add(&[row(1, "credits", 5), row(2, "credits", 6)]);
    ChecksumBuilder::new(&table, &mut other).add(&[row(1, "credits", 5)]);
    assert_eq!(one.first_difference(&other), Some("02".to_owned()));
    assert_eq!(other.first_difference(&one), Some("02".to_owned()));
    ChecksumBuilder::new(&table, &mut other).add(&[row(2, "credits", 7)]);
    assert_eq!(one.first_difference(&other), Some("02".to_owned()));
    assert_eq!(one.first_difference(&one), None);
}
