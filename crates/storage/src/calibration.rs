//! Calibrations: profiles that correct the probabilities of typed decisions. The calibrations of an
//! account are versioned for each model.

use async_trait::async_trait;
use tollgate_types::{AccountId, CalibrationId, Timestamp};

use crate::Result;

/// A calibration to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCalibration {
    /// Unique id; later calibrations have greater ids.
    pub id: CalibrationId,
    /// Account that owns the calibration.
    pub account: AccountId,
    /// Public id of the model.
    pub model: String,
    /// Optional display name.
    pub name: Option<String>,
    /// Correction profile, as JSON.
    pub profile: String,
    /// Number of examples that the profile was fitted to.
    pub examples: u32,
    /// Metrics of the fit, as JSON.
    pub summary: String,
    /// Time of the fit.
    pub created_at: Timestamp,
}

/// A stored calibration with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// Profile, owner and model of the calibration.
    pub details: NewCalibration,
    /// Version for its model, from 1. Numbers of deleted versions are not reused.
    pub version: u32,
    /// Whether requests that name no calibration use this one: the chosen calibration of the model,
    /// else the newest.
    pub is_default: bool,
}

/// Filter for listing calibrations; `None` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalibrationFilter {
    /// Only calibrations for the model with this public id.
    pub model: Option<String>,
    /// Only calibrations older than this one, which may have been deleted.
    pub after: Option<CalibrationId>,
}

/// Stores calibrations and the chosen default of each model.
#[async_trait]
pub trait CalibrationStore: Send + Sync {
    /// Stores a calibration as the next version of its model; `None` if the account would then have
    /// more than `max` calibrations. `NotFound` if the account does not exist, `Conflict` if the id
    /// exists.
    async fn insert(&self, new: NewCalibration, max: u32) -> Result<Option<Calibration>>;

    /// Returns the account's calibration with this id; `None` if it does not exist.
    async fn get(&self, account: AccountId, id: CalibrationId) -> Result<Option<Calibration>>;

    /// Returns the calibration that requests of an account use for a model by default; `None` if
    /// the model has none.
    async fn default_of(&self, account: AccountId, model: &str) -> Result<Option<Calibration>>;

    /// Lists up to `limit` calibrations of an account, newest first.
    async fn list(
        &self,
        account: AccountId,
        filter: CalibrationFilter,
        limit: u32,
    ) -> Result<Vec<Calibration>>;

    /// Makes a calibration the default of its model, or undoes that choice, so that the newest
    /// calibration is the default again. Returns the updated calibration; `None` if the account has
    /// no calibration with this id.
    async fn choose(
        &self,
        account: AccountId,
        id: CalibrationId,
        is_chosen: bool,
    ) -> Result<Option<Calibration>>;

    /// Deletes a calibration; returns whether it existed.
    async fn delete(&self, account: AccountId, id: CalibrationId) -> Result<bool>;
}
