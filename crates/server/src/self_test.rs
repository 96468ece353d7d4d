//! Self-test at the start: every guard must refuse an invalid request. Unknown and malformed keys
//! are rejected, an account that does not exist receives no hold, and a limit of zero admits no
//! request. Without this test, a guard that admits everything could stay unnoticed.

use std::sync::Arc;

use anyhow::{Result, bail};
use tollgate_accounts::KeyError;
use tollgate_storage::{Budget, HoldOutcome, KeyMode, NewHold, StorageErrorKind};
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, RequestId};

use crate::wiring::AppState;

/// Tests the guards of keys, rate limits and the ledger.
///
/// # Errors
///
/// Fails with the first guard that does not refuse its request.
pub async fn prove(app_state: &AppState) -> Result<()> {
    let now = app_state.clock.now();
    let unknown_account = AccountId::from_u128(app_state.ids.next(now));
    prove_keys(app_state).await?;
    prove_limits(app_state, unknown_account).await?;
    let request = RequestId::from_u128(app_state.ids.next(now));
    let hold = NewHold {
        id: HoldId::from_u128(request.as_u128()),
        account: unknown_account,
        principal: None,
        request,
        amount: Credits::from_nanos(1),
        price_version: PriceVersion::from_u64(0),
        model: "self-test".into(),
        endpoint: "self-test",
        not_covered_by: Arc::default(),
        created_at: now,
        expires_at: now,
    };
    match app_state.storage.ledger.hold(hold).await {
        Ok(HoldOutcome::Denied { .. }) => Ok(()),
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(()),
        Ok(HoldOutcome::Held { .. }) => {
            bail!("self-test: the ledger accepted a hold of an account that does not exist")
        }
        Err(error) => bail!("self-test: the ledger does not answer: {error}"),
    }
}

async fn prove_keys(app_state: &AppState) -> Result<()> {
    let unknown = app_state
        .keys
        .shape()
        .generate(KeyMode::Live)
        .map_err(|error| anyhow::anyhow!("cannot obtain random bytes: {error}"))?;
    match app_state.keys.authenticate(unknown.reveal()).await {
        Err(KeyError::Invalid) => {}
        Ok(_) => bail!("self-test: a key that was never stored was accepted"),
        Err(KeyError::Storage(error)) => bail!("self-test: keys cannot be looked up: {error}"),
    }
    match app_state.keys.authenticate("sk-not-a-key").await {
        Err(KeyError::Invalid) => Ok(()),
        _ => bail!("self-test: a malformed key was accepted"),
    }
}

async fn prove_limits(app_state: &AppState, unknown_account: AccountId) -> Result<()> {
    if app_state
        .limiter
        .admits_anything(unknown_account, Budget::Work)
        .await
    {
        bail!("self-test: a limit of zero requests admitted one");
    }
    Ok(())
}
