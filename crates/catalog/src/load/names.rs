//! Bare names of models: ids without the part before the first slash, and the models' names at
//! providers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::EnabledProvider;
use crate::model::Model;
use crate::snapshot::NameCollision;

/// Adds the bare names that are neither ids nor aliases, and returns those that several models
/// claim.
///
/// A name resolves to its first claimant. The order is: original models by their ids, other models
/// by their ids, then original and other models by their names at providers. Within each group, the
/// order of the configured providers applies. `is_original` selects the models of the default
/// catalog and of providers. A new block therefore never changes the model that a bare id of
/// another model resolves to.
pub(super) fn add_bare(
    by_name: &mut HashMap<Arc<str>, Arc<Model>>,
    models: &[Arc<Model>],
    providers: &[EnabledProvider],
    is_original: impl Fn(&Model) -> bool,
) -> Vec<NameCollision> {
    let served = |original: bool| {
        let is_original = &is_original;
        providers.iter().flat_map(move |provider| {
            let at = move |model: &Arc<Model>| {
                let mut candidates = model.candidates.iter();
                candidates.any(|candidate| *candidate.provider == *provider.name)
            };
            let chosen = models.iter().filter(move |model| is_original(model) == original);
            chosen
                .filter(move |model| at(model))
                .map(move |model| (provider, model))
        })
    };
    let mut claims: BTreeMap<Arc<str>, Vec<&Arc<Model>>> = BTreeMap::new();
    let mut claim = |name: Arc<str>, model| {
        let claimants = claims.entry(name).or_default();
        if !claimants
            .iter()
            .any(|other: &&Arc<Model>| Arc::ptr_eq(other, model))
        {
            claimants.push(model);
        }
    };
    for (_, model) in served(true).chain(served(false)) {
        if let Some((_, bare)) = model.id.split_once('/') {
            claim(bare.into(), model);
        }
    }
    for (provider, model) in served(true).chain(served(false)) {
        for candidate in &model.candidates {
            if *candidate.provider == *provider.name {
                claim(candidate.upstream_model.clone(), model);
            }
        }
    }
    let mut collisions = Vec::new();
    for (name, claimants) in claims {
        let (false, Some(first)) = (by_name.contains_key(&name), claimants.first()) else {
            continue;
        };
        if claimants.len() > 1 {
            collisions.push(NameCollision {
                name: name.clone(),
                meant: first.id.clone(),
                others: claimants[1..].iter().map(|model| model.id.clone()).collect(),
            });
        }
        by_name.insert(name, Arc::clone(first));
    }
    collisions
}
