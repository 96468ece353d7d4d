//! Selects the calibration profile of a call. Profiles of an account, and their absence, are cached
//! for a few seconds, so that a decision usually needs no query. Changes on this node take effect
//! immediately.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tollgate_pipeline::{NamedProfile, Pipeline};
use tollgate_probability::Profile;
use tollgate_storage::{Calibration, CalibrationStore};
use tollgate_types::decide::CalibrationChoice;
use tollgate_types::{AccountId, CalibrationId, Clock, Error, ErrorCode, Retry};

use super::fit::{self, Fitted};
use crate::responses::store::unavailable;

/// Lifetime of a cache entry in microseconds. Other nodes may change calibrations, too.
const CACHE_TTL_MICROS: u64 = 5_000_000;
/// Maximum number of cache entries. The cache is cleared when it is full.
const MAX_CACHED: usize = 10_000;
/// Maximum number of profiles that are fitted concurrently.
const MAX_CONCURRENT_FITS: usize = 1;
/// Maximum number of running and queued fits. Further requests fail with `overloaded`.
const MAX_QUEUED_FITS: usize = 16;

/// Stores, caches and fits calibrations.
pub struct Calibrations {
    pub(super) store: Arc<dyn CalibrationStore>,
    clock: Arc<dyn Clock>,
    cache: Mutex<ProfileCache>,
    waiting: Arc<Semaphore>,
    fits: Arc<Semaphore>,
}

/// Key of a cached profile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ProfileKey {
    /// The default calibration of this model.
    Default(Arc<str>),
    /// The calibration with this id.
    Id(CalibrationId),
}

/// A profile and the id of its model.
#[derive(Clone)]
struct ModelProfile {
    model: Arc<str>,
    profile: Arc<NamedProfile>,
}

#[derive(Default)]
struct ProfileCache {
    answers: HashMap<(AccountId, ProfileKey), (u64, Option<ModelProfile>)>,
    /// Number of changes on this node. A result that was read before a change is not cached.
    changes: u64,
}

impl Calibrations {
    /// Creates a service with an empty cache.
    pub fn new(store: Arc<dyn CalibrationStore>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            clock,
            cache: Mutex::default(),
            waiting: Arc::new(Semaphore::new(MAX_QUEUED_FITS)),
            fits: Arc::new(Semaphore::new(MAX_CONCURRENT_FITS)),
        }
    }

    /// Returns the profile that corrects a call to a model (public id). Fails with 404 if the
    /// account has no such calibration, and with 400 if it belongs to another model.
    pub(in crate::decisions) async fn profile(
        &self,
        account: AccountId,
        model: &Arc<str>,
        choice: &CalibrationChoice,
    ) -> Result<Option<Arc<NamedProfile>>, Error> {
        const PARAM: &str = "options.calibration";
        let key = match choice {
            CalibrationChoice::None => return Ok(None),
            CalibrationChoice::Newest => ProfileKey::Default(model.clone()),
            CalibrationChoice::Profile(id) => ProfileKey::Id(id.parse().map_err(|_| not_found(PARAM))?),
        };
        let is_named = matches!(key, ProfileKey::Id(_));
        match self.find(account, key).await? {
            Some(found) if found.model == *model => Ok(Some(found.profile)),
            Some(found) => {
                let message = format!(
                    "The calibration belongs to the model '{}'. Use a calibration of the requested \
                     model, or 'default'.",
                    found.model
                );
                Err(Error::new(ErrorCode::InvalidParameter, message).with_param(PARAM))
            }
            None if is_named => Err(not_found(PARAM)),
            None => Ok(None),
        }
    }

    async fn find(&self, account: AccountId, key: ProfileKey) -> Result<Option<ModelProfile>, Error> {
        let now = self.clock.monotonic_micros();
        let key = (account, key);
        let changes = {
            let cache = self.cache();
            match cache.answers.get(&key) {
                Some((at, answer)) if now.saturating_sub(*at) < CACHE_TTL_MICROS => return Ok(answer.clone()),
                _ => cache.changes,
            }
        };
        let found = match &key.1 {
            ProfileKey::Default(model) => self.store.default_of(account, model).await,
            ProfileKey::Id(id) => self.store.get(account, *id).await,
        };
        let found = found.map_err(|error| unavailable(&error))?;
        let answer = found.map(|found| named(&found)).transpose()?;
        let mut cache = self.cache();
        if cache.changes == changes {
            if cache.answers.len() >= MAX_CACHED {
                cache.answers.clear();
            }
            cache.answers.insert(key, (now, answer.clone()));
        }
        Ok(answer)
    }

    /// Invalidates the cache of an account after a change.
    pub(super) fn changed(&self, account: AccountId) {
        let mut cache = self.cache();
        cache.changes += 1;
        cache.answers.retain(|(owner, _), _| *owner != account);
    }

    fn cache(&self) -> MutexGuard<'_, ProfileCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot, then fits a profile to the examples of a request. The fit continues if its
    /// caller disconnects, occupies its slot until it ends, and is awaited at shutdown.
    pub(super) async fn fit(&self, pipeline: &Pipeline, examples: Bytes) -> Result<Fitted, Error> {
        let waiting = self.waiting.clone().try_acquire_owned();
        let waiting = waiting.map_err(|_| {
            let message = "Too many calibrations are being fitted. Retry in a few seconds.";
            Error::new(ErrorCode::Overloaded, message).with_retry(Retry::After(Duration::from_secs(5)))
        })?;
        let unable = |what: &str| Error::internal(format!("cannot fit a calibration: {what}"));
        let turn = self.fits.clone().acquire_owned().await;
        let turn = turn.map_err(|error| unable(&error.to_string()))?;
        let fitting = pipeline.calls.spawn_blocking(move || {
            let fitted = fit::fit(&examples);
            drop((turn, waiting));
            fitted
        });
        fitting.await.map_err(|error| unable(&error.to_string()))?
    }
}

fn named(found: &Calibration) -> Result<ModelProfile, Error> {
    Ok(ModelProfile {
        model: Arc::from(found.details.model.as_str()),
        profile: Arc::new(NamedProfile {
            id: found.details.id.to_string(),
            profile: profile_of(found)?,
        }),
    })
}

/// Parses the profile of a stored calibration.
pub(super) fn profile_of(found: &Calibration) -> Result<Profile, Error> {
    serde_json::from_str(&found.details.profile)
        .map_err(|error| Error::internal(format!("the content of {} is invalid: {error}", found.details.id)))
}

/// Returns the 404 error for a calibration that does not exist or belongs to another account.
pub(super) fn not_found(param: &str) -> Error {
    let message =
        "No such calibration. List the calibrations of the account with GET /v1/decisions/calibrations.";
    Error::new(ErrorCode::NotFound, message).with_param(param)
}

#[cfg(test)]
mod tests;
