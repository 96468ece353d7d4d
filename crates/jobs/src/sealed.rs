//! Encrypted data of jobs: payloads, outcomes of steps, and results.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tollgate_accounts::Vault;
use tollgate_storage::Job;
use tollgate_types::{AccountId, Error, JobId};

/// Serializes and encrypts data of a job.
pub fn seal(vault: &Vault, account: AccountId, job: JobId, what: &impl Serialize) -> Result<Vec<u8>, Error> {
    let text = serde_json::to_vec(what).map_err(|error| Error::internal(error.to_string()))?;
    let sealed = vault.seal(account, job.as_u128(), &text);
    sealed.map_err(|error| Error::internal(error.to_string()))
}

/// Decrypts and deserializes data of a job.
pub fn open<T: DeserializeOwned>(vault: &Vault, job: &Job, sealed: &[u8]) -> Result<T, Error> {
    let id = job.terms.id;
    let text = vault.open(job.account, id.as_u128(), sealed);
    let text = text.ok_or_else(|| Error::internal(format!("data of {id} cannot be decrypted")))?;
    serde_json::from_slice(&text).map_err(|error| Error::internal(format!("invalid data of {id}: {error}")))
}
