//! The models: how many can be called, which are not offered for want of a price, which targets lead nowhere.

use tollgate_catalog::Snapshot;

use super::Finding;
use super::providers::Asked;
use crate::config::Config;

/// How many names are shown of a list.
const SHOWN: usize = 4;

/// What the catalog offers, beside what the providers say they have.
pub fn look(config: &Config, snapshot: &Snapshot, asked: &[Asked]) -> Vec<Finding> {
    let mut findings = vec![counted(snapshot)];
    for asked in asked {
        let Ok(listed) = &asked.listed else { continue };
        let names: Vec<&str> = listed.iter().map(|model| model.name.as_str()).collect();
        findings.extend(unpriced(snapshot, &asked.name, &names));
        findings.extend(unlisted(config, snapshot, &asked.name, &names));
    }
    findings
}

/// How many models can be called.
pub fn counted(snapshot: &Snapshot) -> Finding {
    let real = snapshot.models().iter().filter(|model| !model.simulated).count();
    let simulated = snapshot.models().len() - real;
    let detail = format!("{real} real ones can be called, and {simulated} of the simulator");
    if real > 0 {
        return Finding::fine("models", detail);
    }
    Finding::note(
        "models",
        detail,
        "switch on a provider and give its models a price; `tollgate models list` shows them",
    )
}

/// Models that the provider has and that have no price: they are not offered.
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
            format!("{} of its models have no price and are not offered: {}", without.len(), shown(&without)),
            format!("give them prices in [models] blocks, or all of them one in providers.{provider}.default_price"),
        )
    })
}

/// Targets of the settings that the provider does not list: most often a name is misspelt.
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
                "it does not list these targets of [models] blocks: {}",
                shown(&missing)
            ),
            format!("check their names; it lists {}", shown(names)),
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
