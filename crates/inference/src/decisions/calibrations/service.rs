//! The use cases: fit, list, find, choose, delete.

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_pipeline::Pipeline;
use tollgate_storage::{CalibrationFilter, NewCalibration};
use tollgate_types::decide::State;
use tollgate_types::{AccountId, CalibrationId, Error, ErrorCode};

use super::profiles::{Calibrations, not_found};
use super::read::{self, invalid};
use super::wire::{Calibration, CalibrationList, CalibrationsQuery, DeletedCalibration};
use crate::decisions::service::check_kind;
use crate::responses::kept::unavailable;

/// Calibrations of an account.
const MOST: u32 = 100;
/// Calibrations on a page, and how many when it is not said.
const PAGE: (std::ops::RangeInclusive<u32>, u32) = (1..=100, 20);
/// Where a path names one.
const PARAM: &str = "calibration_id";

/// Fits a calibration and keeps it. It is of the model itself, by whichever alias it was named.
pub(super) async fn create(
    calibrations: &Calibrations,
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    body: Bytes,
) -> Result<Calibration, Error> {
    let asked = read::create(&body)?;
    let mut routed = pipeline.route(&caller, &asked.model)?;
    let nothing = State::default();
    check_kind(&routed.model)?;
    routed.retain_deciders(&nothing)?;
    let fitted = calibrations.fit(pipeline, asked.examples).await?;
    let account = caller.account_id();
    let new = NewCalibration {
        id: CalibrationId::from_u128(ctx.id.as_u128()),
        account,
        model: routed.model.id.to_string(),
        name: asked.name,
        profile: written(&fitted.profile)?,
        examples: fitted.examples,
        summary: written(&fitted.summary)?,
        created_at: ctx.accepted_at,
    };
    let kept = calibrations.store.insert(new, MOST).await;
    calibrations.changed(account);
    let kept = kept.map_err(|error| unavailable(&error))?;
    Calibration::of(kept.ok_or_else(no_room)?)
}

fn written(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::internal(error.to_string()))
}

fn no_room() -> Error {
    let message = format!(
        "The account has {MOST} calibrations, which is the most. Delete some with DELETE /v1/decisions/calibrations/{{id}}."
    );
    Error::new(ErrorCode::InvalidParameter, message)
}

/// A page of calibrations. A model that is not there any more is found by the id that it had.
pub(super) async fn list(
    calibrations: &Calibrations,
    pipeline: &Pipeline,
    account: AccountId,
    query: CalibrationsQuery,
) -> Result<CalibrationList, Error> {
    let (bounds, usual) = PAGE;
    let limit = query.limit.unwrap_or(usual);
    if !bounds.contains(&limit) {
        let what = format!("is {} to {}", bounds.start(), bounds.end());
        return Err(invalid("limit", &what));
    }
    let after = query.after.map(|after| after.parse()).transpose();
    let after = after.map_err(|_| invalid("after", "is the id of no calibration"))?;
    let snapshot = pipeline.catalog.current();
    let model = query.model.map(|name| match snapshot.resolve(&name) {
        Some(model) => model.id.to_string(),
        None => name,
    });
    let filter = CalibrationFilter { model, after };
    let found = calibrations.store.list(account, filter, limit + 1).await;
    let mut found = found.map_err(|error| unavailable(&error))?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = found.len() > most;
    found.truncate(most);
    let shown: Result<Vec<Calibration>, Error> = found.into_iter().map(Calibration::of).collect();
    Ok(CalibrationList::of(shown?, has_more))
}

/// A calibration of the account.
pub(super) async fn get(
    calibrations: &Calibrations,
    account: AccountId,
    id: &str,
) -> Result<Calibration, Error> {
    let id = parsed(id)?;
    let found = calibrations.store.get(account, id).await;
    let found = found.map_err(|error| unavailable(&error))?;
    Calibration::of(found.ok_or_else(|| not_found(PARAM))?)
}

/// Makes a calibration the default of its model, or takes that back.
pub(super) async fn choose(
    calibrations: &Calibrations,
    account: AccountId,
    id: &str,
    body: &Bytes,
) -> Result<Calibration, Error> {
    let id = parsed(id)?;
    let is_chosen = read::choose(body)?;
    let found = calibrations.store.choose(account, id, is_chosen).await;
    calibrations.changed(account);
    let found = found.map_err(|error| unavailable(&error))?;
    Calibration::of(found.ok_or_else(|| not_found(PARAM))?)
}

/// Deletes a calibration.
pub(super) async fn delete(
    calibrations: &Calibrations,
    account: AccountId,
    id: &str,
) -> Result<DeletedCalibration, Error> {
    let id = parsed(id)?;
    let deleted = calibrations.store.delete(account, id).await;
    calibrations.changed(account);
    match deleted.map_err(|error| unavailable(&error))? {
        true => Ok(DeletedCalibration::of(id)),
        false => Err(not_found(PARAM)),
    }
}

fn parsed(id: &str) -> Result<CalibrationId, Error> {
    id.parse().map_err(|_| not_found(PARAM))
}
