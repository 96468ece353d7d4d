//! Use cases of calibrations: create, list, get, choose and delete.

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
use crate::responses::store::unavailable;

/// Maximum number of calibrations of an account.
const MAX_CALIBRATIONS: u32 = 100;
/// Allowed and default number of calibrations per page.
const PAGE_LIMITS: (std::ops::RangeInclusive<u32>, u32) = (1..=100, 20);
/// Name of the path parameter.
const PARAM: &str = "calibration_id";

/// Fits and stores a calibration. It belongs to the model itself, even if the request uses an
/// alias.
pub(super) async fn create(
    calibrations: &Calibrations,
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    body: Bytes,
) -> Result<Calibration, Error> {
    let params = read::create(&body)?;
    let mut routed = pipeline.route(&caller, &params.model)?;
    let nothing = State::default();
    check_kind(&routed.model)?;
    routed.retain_deciders(&nothing)?;
    let fitted = calibrations.fit(pipeline, params.examples).await?;
    let account = caller.account_id();
    let new = NewCalibration {
        id: CalibrationId::from_u128(ctx.id.as_u128()),
        account,
        model: routed.model.id.to_string(),
        name: params.name,
        profile: to_json(&fitted.profile)?,
        examples: fitted.examples,
        summary: to_json(&fitted.summary)?,
        created_at: ctx.accepted_at,
    };
    let stored = calibrations.store.insert(new, MAX_CALIBRATIONS).await;
    calibrations.changed(account);
    let stored = stored.map_err(|error| unavailable(&error))?;
    Calibration::of(stored.ok_or_else(limit_reached)?)
}

fn to_json(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::internal(error.to_string()))
}

fn limit_reached() -> Error {
    let message = format!(
        "The account already has the maximum of {MAX_CALIBRATIONS} calibrations. Delete some with DELETE /v1/decisions/calibrations/{{id}}."
    );
    Error::new(ErrorCode::InvalidParameter, message)
}

/// Returns a page of calibrations. Calibrations of a removed model are found by its former id.
pub(super) async fn list(
    calibrations: &Calibrations,
    pipeline: &Pipeline,
    account: AccountId,
    query: CalibrationsQuery,
) -> Result<CalibrationList, Error> {
    let (bounds, default_limit) = PAGE_LIMITS;
    let limit = query.limit.unwrap_or(default_limit);
    if !bounds.contains(&limit) {
        let what = format!("must be an integer from {} to {}", bounds.start(), bounds.end());
        return Err(invalid("limit", &what));
    }
    let after = query.after.map(|after| after.parse()).transpose();
    let after = after.map_err(|_| invalid("after", "is not the id of a calibration"))?;
    let snapshot = pipeline.catalog.current();
    let model = query.model.map(|name| match snapshot.resolve(&name) {
        Some(model) => model.id.to_string(),
        None => name,
    });
    let filter = CalibrationFilter { model, after };
    let found = calibrations.store.list(account, filter, limit + 1).await;
    let mut found = found.map_err(|error| unavailable(&error))?;
    let max = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = found.len() > max;
    found.truncate(max);
    let shown: Result<Vec<Calibration>, Error> = found.into_iter().map(Calibration::of).collect();
    Ok(CalibrationList::of(shown?, has_more))
}

/// Returns a calibration of the account; fails with 404 if it does not exist.
pub(super) async fn get(
    calibrations: &Calibrations,
    account: AccountId,
    id: &str,
) -> Result<Calibration, Error> {
    let id = parse_id(id)?;
    let found = calibrations.store.get(account, id).await;
    let found = found.map_err(|error| unavailable(&error))?;
    Calibration::of(found.ok_or_else(|| not_found(PARAM))?)
}

/// Selects or deselects a calibration as the default of its model.
pub(super) async fn choose(
    calibrations: &Calibrations,
    account: AccountId,
    id: &str,
    body: &Bytes,
) -> Result<Calibration, Error> {
    let id = parse_id(id)?;
    let is_chosen = read::choose(body)?;
    let found = calibrations.store.choose(account, id, is_chosen).await;
    calibrations.changed(account);
    let found = found.map_err(|error| unavailable(&error))?;
    Calibration::of(found.ok_or_else(|| not_found(PARAM))?)
}

/// Deletes a calibration of the account; fails with 404 if it does not exist.
pub(super) async fn delete(
    calibrations: &Calibrations,
    account: AccountId,
    id: &str,
) -> Result<DeletedCalibration, Error> {
    let id = parse_id(id)?;
    let deleted = calibrations.store.delete(account, id).await;
    calibrations.changed(account);
    match deleted.map_err(|error| unavailable(&error))? {
        true => Ok(DeletedCalibration::of(id)),
        false => Err(not_found(PARAM)),
    }
}

fn parse_id(id: &str) -> Result<CalibrationId, Error> {
    id.parse().map_err(|_| not_found(PARAM))
}
