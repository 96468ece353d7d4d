//! Rights of API keys in commands: checks against the catalog and the role of the actor.

use serde::{Deserialize, Serialize};
use tollgate_types::{Error, ErrorCode, KeyRights, ModelPatterns, Scope, Scopes, rights};

use crate::audited::Authority;
use crate::permission::MemberPermission;
use crate::{Actor, Operations};

/// Maximum number of model patterns of a key.
const MAX_PATTERNS: usize = 100;
/// Maximum length of a model pattern in characters.
const MAX_PATTERN_CHARS: usize = 200;

/// A new limit of a key to some models or scopes, or the removal of the limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// All models or scopes, including later ones.
    All,
    /// Only these: ids such as `acme/large`, patterns such as `acme/*`, or names of scopes.
    Only(Vec<String>),
}

impl From<Option<Vec<String>>> for Selection {
    fn from(only: Option<Vec<String>>) -> Self {
        only.map_or(Self::All, Self::Only)
    }
}

/// Reads the rights of a new key.
pub(crate) fn read(
    operations: &Operations,
    actor: &Actor,
    models: Selection,
    scopes: Selection,
) -> Result<KeyRights, Error> {
    Ok(KeyRights {
        models: read_models(operations, models)?,
        scopes: read_scopes(actor, scopes)?,
    })
}

/// Reads models. An alias becomes the id of its model, so that the key follows the model.
pub(crate) fn read_models(
    operations: &Operations,
    models: Selection,
) -> Result<Option<ModelPatterns>, Error> {
    let Selection::Only(patterns) = models else {
        return Ok(None);
    };
    if !(1..=MAX_PATTERNS).contains(&patterns.len()) {
        let message =
            format!("'models' must have 1 to {MAX_PATTERNS} entries. Use null to allow all models.");
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("models"));
    }
    let catalog = operations.catalog.current();
    let known = |(index, pattern): (usize, String)| {
        let is_prefix = pattern.ends_with("/*");
        let id = catalog.resolve(&pattern).map(|model| model.id.to_string());
        let matches_any = || {
            let mut models = catalog.models().iter();
            models.any(|model| rights::matches(&pattern, &model.id))
        };
        if let Some(id) = id {
            return Ok(id);
        }
        if is_prefix && pattern.chars().count() <= MAX_PATTERN_CHARS && matches_any() {
            return Ok(pattern);
        }
        let shown: String = pattern.chars().take(120).collect();
        let message = format!(
            "'{shown}' is neither a model of this service nor a pattern such as 'acme/*' that matches one. GET /v1/models lists the models."
        );
        Err(Error::new(ErrorCode::InvalidParameter, message).with_param(format!("models[{index}]")))
    };
    let mut patterns: Vec<String> = patterns
        .into_iter()
        .enumerate()
        .map(known)
        .collect::<Result<_, _>>()?;
    patterns.sort();
    patterns.dedup();
    Ok(Some(ModelPatterns::new(patterns)))
}

/// Reads scopes. Members without [`MemberPermission::Manage`] cannot read the signing secret of
/// webhooks, so their keys cannot either.
pub(crate) fn read_scopes(actor: &Actor, scopes: Selection) -> Result<Option<Scopes>, Error> {
    let is_limited = match actor.authority() {
        Authority::Member { role, .. } => MemberPermission::Manage.check(role).is_err(),
        Authority::Operator { .. } => false,
    };
    let names = match scopes {
        Selection::All if is_limited => {
            let allowed = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Webhooks);
            return Ok(Some(allowed.collect()));
        }
        Selection::All => return Ok(None),
        Selection::Only(names) => names,
    };
    if names.is_empty() {
        let message = "'scopes' must have at least one entry. Use null to allow all scopes.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("scopes"));
    }
    let read = |(index, name): (usize, String)| {
        let param = format!("scopes[{index}]");
        match Scope::parse(&name) {
            Some(Scope::Webhooks) if is_limited => {
                let message = "Only admins and owners may create keys with the scope 'webhooks'.";
                Err(Error::new(ErrorCode::PermissionDenied, message).with_param(param))
            }
            Some(scope) => Ok(scope),
            None => {
                let names = Scope::ALL.map(|scope| format!("'{}'", scope.as_str())).join(", ");
                let message = format!("'{param}' must be one of {names}.");
                Err(Error::new(ErrorCode::InvalidParameter, message).with_param(param))
            }
        }
    };
    let scopes: Scopes = names
        .into_iter()
        .enumerate()
        .map(read)
        .collect::<Result<_, _>>()?;
    Ok(Some(scopes))
}
