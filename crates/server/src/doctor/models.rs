//! Checks of the models: their number, missing prices and limits, ambiguous names, and unknown
//! targets.

use tollgate_billing::FALLBACK_OUTPUT_CAP;
use tollgate_catalog::{ModelKind, NameCollision, Snapshot};

use super::Finding;
use super::providers::ProviderListing;
use crate::config::Config;

/// Maximum number of names that a finding lists.
const SHOWN: usize = 4;

/// Checks the catalog, and compares it with the model lists of the providers.
pub fn check(config: &Config, snapshot: &Snapshot, listing: &[ProviderListing]) -> Vec<Finding> {
    let mut findings = vec![counted(snapshot)];
    findings.extend(unlimited(snapshot));
    findings.extend(voices(snapshot));
    findings.extend(collisions(snapshot));
    for listing in listing {
        let Ok(listed) = &listing.listed else { continue };
        let names: Vec<&str> = listed.iter().map(|model| model.name.as_str()).collect();
        findings.extend(lists_nothing(config, &listing.name, &names));
        findings.extend(unpriced(snapshot, &listing.name, &names));
        findings.extend(unlisted(config, snapshot, &listing.name, &names));
    }
    findings
}

/// Counts the models that can be called, and reports if there are only simulated ones.
pub fn counted(snapshot: &Snapshot) -> Finding {
    let real = snapshot.models().iter().filter(|model| !model.simulated).count();
    let simulated = snapshot.models().len() - real;
    let detail = format!("callable models: {real} of providers and {simulated} of the simulator");
    if real > 0 {
        return Finding::fine("models", detail);
    }
    Finding::note(
        "models",
        detail,
        "enable a provider and set prices for its models; `tollgate models list` shows the models",
    )
}

/// Lists the voice models that the gateway executes, those of providers, and live transcription.
fn voices(snapshot: &Snapshot) -> Vec<Finding> {
    let realtime = || {
        snapshot
            .models()
            .iter()
            .filter(|model| model.kind == ModelKind::Realtime)
    };
    let ids = |is_executed: bool| -> Vec<&str> {
        let models = realtime().filter(|model| model.voice.is_some() == is_executed);
        models.map(|model| &*model.id).collect()
    };
    let live = snapshot.models().iter().filter(|model| model.live);
    let lists = [
        ("voice models of the gateway", ids(true)),
        ("realtime models of providers", ids(false)),
        (
            "live transcription models",
            live.map(|model| &*model.id).collect(),
        ),
    ];
    let lists = lists.into_iter().filter(|(_, ids)| !ids.is_empty());
    lists
        .map(|(name, ids)| Finding::fine("voice", format!("{name}: {}", shown(&ids))))
        .collect()
}

/// Reports a `default_price` that has no effect: it applies to listed models, and the provider
/// lists none.
fn lists_nothing(config: &Config, provider: &str, names: &[&str]) -> Option<Finding> {
    let section = config.file.providers.get(provider)?;
    let is_useless_price = names.is_empty() && section.default_price.is_some();
    is_useless_price.then(|| {
        Finding::note(
            format!("provider {provider}"),
            "the provider lists no models, so its default_price has no effect",
            format!("add [models] blocks: [models.\"{provider}/NAME\"] with targets = [\"{provider}/NAME\"]"),
        )
    })
}

/// Reports priced chat models without known limits. Their calls without an output cap have the
/// gateway's default output cap.
fn unlimited(snapshot: &Snapshot) -> Option<Finding> {
    let models = snapshot.models().iter().filter(|model| {
        let is_paid_chat = model.kind == ModelKind::Chat && !model.prices.is_free();
        is_paid_chat && !model.simulated && model.output_ceiling().is_none()
    });
    let names: Vec<&str> = models.map(|model| &*model.id).collect();
    (!names.is_empty()).then(|| {
        Finding::note(
            "models",
            format!(
                "priced models without known limits: {} ({}); a call without an output cap returns at most {FALLBACK_OUTPUT_CAP} tokens",
                names.len(),
                shown(&names)
            ),
            "set limits = { context_window = …, max_output_tokens = … } in [models] blocks",
        )
    })
}

/// Reports bare names that several models share, with the model that each name resolves to.
pub fn collisions(snapshot: &Snapshot) -> Vec<Finding> {
    let describe = |collision: &NameCollision| {
        let others: Vec<&str> = collision.others.iter().map(|id| &**id).collect();
        let (name, meant) = (&collision.name, &collision.meant);
        Finding::note(
            format!("model name {name}"),
            format!("the name resolves to {meant}, not to {}", others.join(", ")),
            format!(
                "call the others by their ids, or set an alias: [aliases] \"{name}\" = \"{}\"",
                others.first().copied().unwrap_or_default()
            ),
        )
    };
    snapshot.name_collisions().iter().map(describe).collect()
}

/// Reports models of the provider that are not offered because they have no price.
fn unpriced(snapshot: &Snapshot, provider: &str, names: &[&str]) -> Option<Finding> {
    let offered = |name: &str| {
        let candidates = snapshot.models().iter().flat_map(|model| &model.candidates);
        candidates
            .into_iter()
            .any(|candidate| *candidate.provider == *provider && *candidate.upstream_model == *name)
    };
    let without: Vec<&str> = names.iter().copied().filter(|name| !offered(name)).collect();
    (!without.is_empty()).then(|| {
        Finding::note(
            format!("provider {provider}"),
            format!("models without a price are not offered: {}", shown(&without)),
            format!(
                "set prices in [models] blocks, or one price for all in providers.{provider}.default_price"
            ),
        )
    })
}

/// Reports configured targets that the provider does not list. The usual cause is a misspelt name.
fn unlisted(config: &Config, snapshot: &Snapshot, provider: &str, names: &[&str]) -> Option<Finding> {
    let configured = snapshot
        .models()
        .iter()
        .filter(|model| config.file.models.contains_key(&*model.id));
    let targets = configured
        .flat_map(|model| &model.candidates)
        .filter(|candidate| *candidate.provider == *provider);
    let missing: Vec<&str> = targets
        .map(|candidate| &*candidate.upstream_model)
        .filter(|name| !names.contains(name))
        .collect();
    (!names.is_empty() && !missing.is_empty()).then(|| {
        Finding::note(
            format!("provider {provider}"),
            format!(
                "the provider does not list these targets of [models] blocks: {}",
                shown(&missing)
            ),
            format!("check their names; the provider lists {}", shown(names)),
        )
    })
}

fn shown(names: &[&str]) -> String {
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!(
        "{}{more}",
        names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ")
    )
}
