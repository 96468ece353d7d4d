//! Versions of models in the default catalog, such as dated or fine-tuned ones.

use std::sync::Arc;

use tollgate_types::Abilities;

use super::{CatalogInput, EnabledProvider};
use crate::builtin::BuiltinModel;
use crate::model::{Candidate, Model};

/// Sets tokenizer and framing of a dated or fine-tuned version of a model in the default catalog. A
/// configured tokenizer remains unchanged. If the candidates' tokenizers differ, none is set.
pub(super) fn follow(model: &mut Model, input: &CatalogInput, rows: &[BuiltinModel]) {
    if model.tokenizer.is_some() {
        return;
    }
    let tokens_of = |candidate: &Candidate| {
        let row = base_row(preset_of(candidate, input)?, &candidate.upstream_model, rows)?;
        Some((row.tokenizer?, row.framing))
    };
    let mut found = model.candidates.iter().map(tokens_of);
    let first = found.next().flatten();
    if let Some((tokenizer, framing)) = first.filter(|_| found.all(|other| other == first)) {
        model.tokenizer = Some(tokenizer);
        model.framing = model.framing.or(framing);
    }
}

/// Sets the abilities of each candidate: from the model's block, else from the row whose version
/// the candidate is.
pub(super) fn set_abilities(model: &mut Model, input: &CatalogInput, rows: &[BuiltinModel]) {
    let entry = input.models.get(&*model.id);
    for candidate in &mut model.candidates {
        let row =
            preset_of(candidate, input).and_then(|preset| row_at(preset, &candidate.upstream_model, rows));
        let mut abilities = row.map_or_else(Abilities::default, |row| Abilities {
            reasoning_control: row.reasoning_control,
            efforts: row.reasoning_efforts.clone(),
            system_turns: row.system_turns,
            sampling: row.sampling,
        });
        if let Some(entry) = entry {
            abilities.reasoning_control = entry.reasoning_control.or(abilities.reasoning_control);
            abilities.efforts = entry.reasoning_efforts.clone().unwrap_or(abilities.efforts);
            abilities.system_turns = entry.system_turns.or(abilities.system_turns);
            abilities.sampling = entry.sampling.or(abilities.sampling);
        }
        candidate.abilities = Arc::new(abilities);
    }
}

fn preset_of<'i>(candidate: &Candidate, input: &'i CatalogInput) -> Option<&'i str> {
    let named = |provider: &&EnabledProvider| *provider.name == *candidate.provider;
    Some(&*input.providers.iter().find(named)?.preset)
}

/// Returns the row of the model that a name at a provider refers to. Bedrock adds a prefix and a
/// version to the vendor's name: `us.anthropic.NAME-v1:0`. Vertex AI uses the names of the Gemini
/// API.
fn row_at<'r>(preset: &str, upstream_model: &str, rows: &'r [BuiltinModel]) -> Option<&'r BuiltinModel> {
    match preset {
        "bedrock" => {
            let (_, name) = upstream_model.split_once("anthropic.")?;
            let is_version = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
            let name = match name.rsplit_once("-v") {
                Some((name, version)) if is_version(version) => name,
                _ => name,
            };
            base_row("anthropic", name, rows)
        }
        "vertex" => base_row("gemini", upstream_model, rows),
        _ => base_row(preset, upstream_model, rows),
    }
}

/// Returns the row whose name at the provider is `upstream_model` or its base: `ft:NAME:…` is
/// fine-tuned, `NAME-2026-01-31` is dated.
fn base_row<'r>(preset: &str, upstream_model: &str, rows: &'r [BuiltinModel]) -> Option<&'r BuiltinModel> {
    let tuned = upstream_model.strip_prefix("ft:");
    let name = tuned.map_or(upstream_model, |tuned| {
        tuned.split(':').next().unwrap_or_default()
    });
    let is_version = |base: &&String| {
        let rest = name.strip_prefix(base.as_str());
        rest.is_some_and(|rest| {
            let date = rest.strip_prefix('-');
            rest.is_empty() || date.is_some_and(|date| date.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let bases = rows
        .iter()
        .filter_map(|row| Some((row, row.upstream.get(preset)?)));
    let versions = bases.filter(|(_, base)| is_version(base));
    // The longest match finds the row of `NAME-5-5` if there is one. Then the name is not a version
    // of `NAME-5`.
    versions.max_by_key(|(_, base)| base.len()).map(|(row, _)| row)
}
