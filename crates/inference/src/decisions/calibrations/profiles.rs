//! Which profile corrects a call. Those of accounts are remembered for some seconds, and so is that there is none, so that a
//! decision costs no look into storage of its own; what changes on this node is seen at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tollgate_estimate::Profile;
use tollgate_pipeline::{NamedProfile, Pipeline};
use tollgate_storage::{Calibration, CalibrationStore};
use tollgate_types::decide::CalibrationChoice;
use tollgate_types::{AccountId, CalibrationId, Clock, Error, ErrorCode, Retry};

use super::fit::{self, Fitted};
use crate::responses::kept::unavailable;

/// How long what was read is believed, in microseconds: other nodes change it, too.
const BELIEVED: u64 = 5_000_000;
/// Answers that are remembered at once; beyond them all are forgotten.
const MOST_KNOWN: usize = 10_000;
/// Profiles that are fitted at once.
const FITS: usize = 1;
/// Requests that are fitted or wait for it; more are told to come again.
const WAITING: usize = 16;

/// Keeps calibrations.
pub struct Calibrations {
    pub(super) store: Arc<dyn CalibrationStore>,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
    waiting: Arc<Semaphore>,
    fits: Arc<Semaphore>,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    /// The default of this model.
    Default(Arc<str>),
    /// This one.
    Id(CalibrationId),
}

/// A profile, and of which model it is.
#[derive(Clone)]
struct OfModel {
    model: Arc<str>,
    profile: Arc<NamedProfile>,
}

#[derive(Default)]
struct Known {
    answers: HashMap<(AccountId, Wanted), (u64, Option<OfModel>)>,
    /// How many changes were made here: what was read before one is not remembered after it.
    changes: u64,
}

impl Calibrations {
    /// Calibrations in this store.
    pub fn new(store: Arc<dyn CalibrationStore>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            clock,
            known: Mutex::default(),
            waiting: Arc::new(Semaphore::new(WAITING)),
            fits: Arc::new(Semaphore::new(FITS)),
        }
    }

    /// The profile that corrects a call to a model, by its public id. 404 for one that the account does not have, 400 for one
    /// of another model.
    pub(in crate::decisions) async fn profile(
        &self,
        account: AccountId,
        model: &Arc<str>,
        choice: &CalibrationChoice,
    ) -> Result<Option<Arc<NamedProfile>>, Error> {
        const PARAM: &str = "options.calibration";
        let wanted = match choice {
            CalibrationChoice::None => return Ok(None),
            CalibrationChoice::Newest => Wanted::Default(model.clone()),
            CalibrationChoice::Profile(id) => Wanted::Id(id.parse().map_err(|_| not_found(PARAM))?),
        };
        let is_named = matches!(wanted, Wanted::Id(_));
        match self.find(account, wanted).await? {
            Some(found) if found.model == *model => Ok(Some(found.profile)),
            Some(found) => {
                let message = format!(
                    "The calibration is one of '{}'. Name one of the model that decides, or 'default'.",
                    found.model
                );
                Err(Error::new(ErrorCode::InvalidParameter, message).with_param(PARAM))
            }
            None if is_named => Err(not_found(PARAM)),
            None => Ok(None),
        }
    }

    async fn find(&self, account: AccountId, wanted: Wanted) -> Result<Option<OfModel>, Error> {
        let now = self.clock.monotonic_micros();
        let key = (account, wanted);
        let changes = {
            let known = self.known();
            match known.answers.get(&key) {
                Some((at, answer)) if now.saturating_sub(*at) < BELIEVED => return Ok(answer.clone()),
                _ => known.changes,
            }
        };
        let found = match &key.1 {
            Wanted::Default(model) => self.store.default_of(account, model).await,
            Wanted::Id(id) => self.store.get(account, *id).await,
        };
        let found = found.map_err(|error| unavailable(&error))?;
        let answer = found.map(|found| named(&found)).transpose()?;
        let mut known = self.known();
        if known.changes == changes {
            if known.answers.len() >= MOST_KNOWN {
                known.answers.clear();
            }
            known.answers.insert(key, (now, answer.clone()));
        }
        Ok(answer)
    }

    /// Something of an account has changed.
    pub(super) fn changed(&self, account: AccountId) {
        let mut known = self.known();
        known.changes += 1;
        known.answers.retain(|(owner, _), _| *owner != account);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fits a profile to the examples of a request, when it is its turn. A fit goes on when its caller leaves, and keeps its
    /// place until it has ended; it is awaited at shutdown.
    pub(super) async fn fit(&self, pipeline: &Pipeline, examples: Bytes) -> Result<Fitted, Error> {
        let waiting = self.waiting.clone().try_acquire_owned();
        let waiting = waiting.map_err(|_| {
            let message = "Many calibrations are fitted at the moment. Retry in some seconds.";
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

fn named(found: &Calibration) -> Result<OfModel, Error> {
    Ok(OfModel {
        model: Arc::from(found.kept.model.as_str()),
        profile: Arc::new(NamedProfile {
            id: found.kept.id.to_string(),
            profile: profile_of(found)?,
        }),
    })
}

/// The profile of a calibration.
pub(super) fn profile_of(found: &Calibration) -> Result<Profile, Error> {
    serde_json::from_str(&found.kept.profile)
        .map_err(|error| Error::internal(format!("{} cannot be read: {error}", found.kept.id)))
}

/// 404 for a calibration that is not there, or another account's.
pub(super) fn not_found(param: &str) -> Error {
    let message = "There is no such calibration. GET /v1/decisions/calibrations lists those of the account.";
    Error::new(ErrorCode::NotFound, message).with_param(param)
}

#[cfg(test)]
mod tests;
