//! Calibrations: profiles by which probabilities of typed decisions are corrected, one version after another for each model
//! of an account.

use async_trait::async_trait;
use tollgate_types::{AccountId, CalibrationId, Timestamp};

use crate::Result;

/// A calibration to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCalibration {
    /// Id. Later calibrations have greater ones.
    pub id: CalibrationId,
    /// Owner.
    pub account: AccountId,
    /// Of which model, by its public id.
    pub model: String,
    /// For people.
    pub name: Option<String>,
    /// What it does, as JSON.
    pub profile: String,
    /// To how many examples it was fitted.
    pub examples: u32,
    /// What it brought, as JSON.
    pub summary: String,
    /// When it was fitted.
    pub created_at: Timestamp,
}

/// A calibration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// What was kept.
    pub kept: NewCalibration,
    /// Which of its model, from 1. The number of one that was deleted is not used again.
    pub version: u32,
    /// Whether it is used where none is named: the one that was chosen, else the newest of its model.
    pub is_default: bool,
}

/// Which calibrations are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalibrationFilter {
    /// Of this model.
    pub model: Option<String>,
    /// Older than this one, which need not be there any more.
    pub after: Option<CalibrationId>,
}

/// Stores calibrations.
#[async_trait]
pub trait CalibrationStore: Send + Sync {
    /// Keeps a calibration as the next version of its model, if with it the account has no more than `most`; `None` when it
    /// would. `NotFound` when the account does not exist, `Conflict` when the id is taken.
    async fn insert(&self, new: NewCalibration, most: u32) -> Result<Option<Calibration>>;

    /// The calibration with this id, if it is this account's.
    async fn get(&self, account: AccountId, id: CalibrationId) -> Result<Option<Calibration>>;

    /// The calibration that an account uses for a model where none is named.
    async fn default_of(&self, account: AccountId, model: &str) -> Result<Option<Calibration>>;

    /// Calibrations of an account, the newest first and at most `limit`.
    async fn list(
        &self,
        account: AccountId,
        filter: CalibrationFilter,
        limit: u32,
    ) -> Result<Vec<Calibration>>;

    /// Chooses a calibration as the default of its model, or takes such a choice back, so that the newest one is it again;
    /// answers the calibration as it is then. `None` when the account has none with this id.
    async fn choose(
        &self,
        account: AccountId,
        id: CalibrationId,
        is_chosen: bool,
    ) -> Result<Option<Calibration>>;

    /// Deletes a calibration; whether there was one.
    async fn delete(&self, account: AccountId, id: CalibrationId) -> Result<bool>;
}
