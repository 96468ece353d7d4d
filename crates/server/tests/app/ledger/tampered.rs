//! The hash chain reveals transfers that were changed directly in the database.

use super::engines::{ACCOUNT, ENGINES, TestLedger, hold, settlement};

/// Number of calls after the grant, which has position 1 in the chain. Each call holds 100 and is
/// charged 30, in three transfers: hold, settlement and release.
const CALLS: u128 = 3;

/// Returns the I14 faults of a valid ledger after these statements, for each engine.
async fn broken_by(statements: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for engine in ENGINES {
        let mut ledger = TestLedger::open(engine).await;
        ledger.fund(ACCOUNT, 1_000).await;
        for number in 1..=CALLS {
            let hold = hold(number, ACCOUNT, 100);
            ledger.call(hold.clone(), settlement(&hold, 30)).await;
        }
        assert_eq!(ledger.faults().await, Vec::<String>::new(), "{engine:?}");
        ledger.falsify(statements).await;
        let faults = ledger.faults().await;
        let broken = faults.into_iter().filter(|fault| fault.starts_with("I14: "));
        found.push(broken.collect());
        ledger.close().await;
    }
    found
}

/// Asserts that both engines report exactly these I14 faults, in any order, for the account.
async fn expect(statements: &str, expected: &[&str]) {
    for faults in broken_by(statements).await {
        assert_eq!(faults.len(), expected.len(), "{statements}: {faults:#?}");
        for part in expected {
            let named = faults
                .iter()
                .any(|fault| fault.contains(&format!("I14: {ACCOUNT}: ")) && fault.contains(part));
            assert!(named, "{part}: {faults:#?}");
        }
    }
}

#[tokio::test]
async fn a_changed_amount_is_found() {
    let statements = "UPDATE transfer SET amount = amount + 1 WHERE sequence = 3";
    let named = "transfer hold_00000000000000000000000000000001 settle at place 3 was changed";
    expect(statements, &[named]).await;
}

#[tokio::test]
async fn other_changed_fields_are_found() {
    for change in [
        "created_at = created_at + 1",
        "price_version = 8",
        "price_version = NULL",
        "leg = 11",
    ] {
        let statements = format!("UPDATE transfer SET {change} WHERE sequence = 6");
        expect(&statements, &["at place 6 was changed"]).await;
    }
}

#[tokio::test]
async fn a_deleted_row_is_found() {
    let named =
        "hold_00000000000000000000000000000002 hold at place 5 has no predecessor: no transfer has place 4";
    expect("DELETE FROM transfer WHERE sequence = 4", &[named]).await;
    let named = "the newest transfer is at place 9 ";
    expect("DELETE FROM transfer WHERE sequence = 10", &[named]).await;
    expect("DELETE FROM transfer", &["the newest transfer is at no place"]).await;
}

#[tokio::test]
async fn swapped_rows_are_found() {
    let swap = "UPDATE transfer SET sequence = 13 - sequence WHERE sequence IN (6, 7)";
    let changed = ["settle at place 7 was changed", "release at place 6 was changed"];
    let broken = ["at place 6 records", "at place 7 records", "at place 8 records"];
    expect(swap, &[&changed[..], &broken].concat()).await;
}

#[tokio::test]
async fn a_changed_hash_is_found() {
    let own = "UPDATE transfer SET hash = prev_hash WHERE sequence = 5";
    expect(own, &["at place 5 was changed", "at place 6 records"]).await;
    let before = "UPDATE transfer SET prev_hash = hash WHERE sequence = 5";
    expect(before, &["at place 5 was changed", "at place 5 records"]).await;
}

#[tokio::test]
async fn a_changed_end_is_found() {
    let back = "UPDATE ledger_account SET chain_sequence = 9 WHERE kind = 'credits'";
    expect(back, &["the newest transfer is at place 10 "]).await;
    let other = "UPDATE ledger_account SET chain_hash = chain_previous WHERE kind = 'credits'";
    expect(other, &["the newest transfer is at place 10 "]).await;
}

#[tokio::test]
async fn a_row_outside_of_the_chain_is_found() {
    let added = "INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at)
        SELECT account_id, entry_id, 4, subject, 'expense:overrun', 'revenue:usage', 5, created_at
        FROM transfer WHERE sequence = 3";
    expect(
        added,
        &["1 transfers are in no chain; 0 are older than the chain"],
    )
    .await;
    let taken_out = "UPDATE transfer SET sequence = NULL, prev_hash = NULL, hash = NULL WHERE sequence = 2";
    let gap = "at place 3 has no predecessor: no transfer has place 2";
    expect(taken_out, &["1 transfers are in no chain", gap]).await;
}
