//! Checksums of tables: row counts, column sums, and a digest that does not depend on row order.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

use super::{Row, Table, Value};

/// Checksum of a table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableChecksum {
    /// The table's name.
    pub table: String,
    /// Number of rows.
    pub rows: u64,
    /// Sum modulo 2^128 of the first 128 bits of the SHA-256 of each row, in hexadecimal.
    pub digest: String,
    /// Sum of each numeric column, by name.
    pub sums: BTreeMap<String, i128>,
    /// Sum of the balances of each kind of ledger account; empty for tables without balances.
    pub balances: BTreeMap<String, i128>,
}

/// Digest of each account's rows over all tables. No other state of a move grows with the number of
/// accounts.
#[derive(Default)]
pub(super) struct AccountDigests(HashMap<Vec<u8>, u64>);

impl AccountDigests {
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns the id of an account whose rows differ, in hexadecimal; `None` if there is none.
    pub(super) fn first_difference(&self, other: &AccountDigests) -> Option<String> {
        let missing = other.0.iter().find(|(account, _)| !self.0.contains_key(*account));
        let differs = |(account, digest): &(&Vec<u8>, &u64)| other.0.get(*account) != Some(*digest);
        let found = self.0.iter().find(differs).or(missing);
        found.map(|(account, _)| account.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Checksum of a table, computed row by row.
pub(super) struct ChecksumBuilder<'t> {
    table: &'t Table,
    accounts: &'t mut AccountDigests,
    rows: u64,
    digest: u128,
    sums: Vec<Option<i128>>,
    balances: BTreeMap<String, i128>,
    /// Encoded row; the buffer is reused for each row.
    encoded: Vec<u8>,
}

impl<'t> ChecksumBuilder<'t> {
    pub(super) fn new(table: &'t Table, accounts: &'t mut AccountDigests) -> ChecksumBuilder<'t> {
        ChecksumBuilder {
            table,
            accounts,
            rows: 0,
            digest: 0,
            sums: vec![None; table.columns.len()],
            balances: BTreeMap::new(),
            encoded: Vec::new(),
        }
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn add(&mut self, rows: &[Row]) {
        let index = |name: &str| self.table.columns.iter().position(|column| column.name == name);
        let account = index("account_id");
        let balance = index("kind").zip(index("balance"));
        for row in rows {
            let digest = self.digest_of(row);
            self.rows += 1;
            self.digest = self.digest.wrapping_add(digest);
            for (sum, value) in self.sums.iter_mut().zip(row) {
                if let Value::Integer(number) = value {
                    *sum = Some(sum.unwrap_or(0) + i128::from(*number));
                }
            }
            if let Some(Value::Bytes(account)) = account.map(|index| &row[index]) {
                let of_account = self.accounts.0.entry(account.clone()).or_default();
                *of_account = of_account.wrapping_add((digest >> 64) as u64);
            }
            if let Some((Value::Text(kind), Value::Integer(balance))) =
                balance.map(|(kind, balance)| (&row[kind], &row[balance]))
            {
                *self.balances.entry(kind.clone()).or_default() += i128::from(*balance);
            }
        }
    }

    pub(super) fn finish(self) -> TableChecksum {
        let columns = self.table.columns.iter().map(|column| column.name.clone());
        let sums = columns.zip(self.sums);
        TableChecksum {
            table: self.table.name.clone(),
            rows: self.rows,
            digest: format!("{:032x}", self.digest),
            sums: sums.filter_map(|(name, sum)| Some((name, sum?))).collect(),
            balances: self.balances,
        }
    }

    /// Returns the first 128 bits of the SHA-256 of a row. Each value is encoded with its type and
    /// length, so that different rows have different bytes.
    fn digest_of(&mut self, row: &Row) -> u128 {
        let encoded = &mut self.encoded;
        encoded.clear();
        let mut add = |tag: u8, bytes: &[u8]| {
            encoded.push(tag);
            encoded.extend((bytes.len() as u64).to_be_bytes());
            encoded.extend(bytes);
        };
        for value in row {
            match value {
                Value::Null => add(0, &[]),
                Value::Integer(number) => add(1, &number.to_be_bytes()),
                Value::Text(text) => add(2, text.as_bytes()),
                Value::Bytes(bytes) => add(3, bytes),
            }
        }
        let digest = Sha256::digest(&self.encoded);
        digest[..16]
            .iter()
            .fold(0, |bits, byte| (bits << 8) | u128::from(*byte))
    }
}
