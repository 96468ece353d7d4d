//! What rows come to: how many, their sums, and a digest that does not depend on their order.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

use super::{Row, Table, Value};

/// What a table's rows come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableTally {
    /// The table's name.
    pub table: String,
    /// How many rows it has.
    pub rows: u64,
    /// The sum modulo 2^128 of the first 128 bits of the SHA-256 of each row, in hexadecimal.
    pub digest: String,
    /// The sum of each column that has numbers.
    pub sums: BTreeMap<String, i128>,
    /// Where the table has balances: the sum of each kind of account.
    pub balances: BTreeMap<String, i128>,
}

/// The digest of each account's rows over all tables. It is all that a move keeps in memory for an account.
#[derive(Default)]
pub(super) struct Accounts(HashMap<Vec<u8>, u64>);

impl Accounts {
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// An account, in hexadecimal, whose rows are not the same there.
    pub(super) fn first_difference(&self, other: &Accounts) -> Option<String> {
        let missing = other.0.iter().find(|(account, _)| !self.0.contains_key(*account));
        let differs = |(account, digest): &(&Vec<u8>, &u64)| other.0.get(*account) != Some(*digest);
        let found = self.0.iter().find(differs).or(missing);
        found.map(|(account, _)| account.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Adds rows up.
pub(super) struct Tally<'t> {
    table: &'t Table,
    accounts: &'t mut Accounts,
    rows: u64,
    digest: u128,
    sums: Vec<Option<i128>>,
    balances: BTreeMap<String, i128>,
    /// Reused for each row.
    encoded: Vec<u8>,
}

impl<'t> Tally<'t> {
    pub(super) fn new(table: &'t Table, accounts: &'t mut Accounts) -> Tally<'t> {
        Tally {
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
        let place = |name: &str| self.table.columns.iter().position(|column| column.name == name);
        let account = place("account_id");
        let balance = place("kind").zip(place("balance"));
        for row in rows {
            let digest = self.digest_of(row);
            self.rows += 1;
            self.digest = self.digest.wrapping_add(digest);
            for (sum, value) in self.sums.iter_mut().zip(row) {
                if let Value::Integer(number) = value {
                    *sum = Some(sum.unwrap_or(0) + i128::from(*number));
                }
            }
            if let Some(Value::Bytes(account)) = account.map(|place| &row[place]) {
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

    pub(super) fn finish(self) -> TableTally {
        let columns = self.table.columns.iter().map(|column| column.name.clone());
        let sums = columns.zip(self.sums);
        TableTally {
            table: self.table.name.clone(),
            rows: self.rows,
            digest: format!("{:032x}", self.digest),
            sums: sums.filter_map(|(name, sum)| Some((name, sum?))).collect(),
            balances: self.balances,
        }
    }

    /// Each value says what it is and how long, so that no two rows have the same bytes.
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
