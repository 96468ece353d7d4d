//! Before a request is taken, every guard shows that it can say no: a wrong key is refused, an account without credits
//! gets no hold, a limit of nothing admits nothing. A guard that lets everything through is worse than none, because
//! nobody looks at it.

use std::sync::Arc;

use anyhow::{Result, bail};
use tollgate_accounts::KeyError;
use tollgate_storage::{Budget, HoldOutcome, KeyMode, NewHold, StorageErrorKind};
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, RequestId};

use crate::wiring::Domains;

/// Asks every guard for something that it must refuse.
pub async fn prove(domains: &Domains) -> Result<()> {
    let now = domains.clock.now();
    let nobody = AccountId::from_u128(domains.ids.next(now));
    prove_keys(domains).await?;
    prove_limits(domains, nobody).await?;
    let request = RequestId::from_u128(domains.ids.next(now));
    let hold = NewHold {
        id: HoldId::from_u128(request.as_u128()),
        account: nobody,
        key: None,
        request,
        amount: Credits::from_nanos(1),
        price_version: PriceVersion::from_u64(0),
        model: "self-test".into(),
        endpoint: "self-test",
        not_covered_by: Arc::default(),
        created_at: now,
        expires_at: now,
    };
    match domains.storage.ledger.hold(hold).await {
        Ok(HoldOutcome::Denied { .. }) => Ok(()),
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(()),
        Ok(HoldOutcome::Held { .. }) => {
            bail!("self-test: the ledger gave a hold to an account that does not exist")
        }
        Err(error) => bail!("self-test: the ledger does not answer: {error}"),
    }
}

async fn prove_keys(domains: &Domains) -> Result<()> {
    let unknown = domains
        .keys
        .shape()
        .generate(KeyMode::Live)
        .map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
    match domains.keys.authenticate(unknown.reveal()).await {
        Err(KeyError::Invalid) => {}
        Ok(_) => bail!("self-test: a key that was never stored was accepted"),
        Err(KeyError::Storage(error)) => bail!("self-test: keys cannot be looked up: {error}"),
    }
    match domains.keys.authenticate("sk-not-a-key").await {
        Err(KeyError::Invalid) => Ok(()),
        _ => bail!("self-test: a malformed key was accepted"),
    }
}

async fn prove_limits(domains: &Domains, nobody: AccountId) -> Result<()> {
    if domains.limiter.admits_anything(nobody, Budget::Work).await {
        bail!("self-test: a limit of no requests admitted one");
    }
    Ok(())
}
