//! Settings that a `[models]` block inherits from the records of its targets.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_types::Prices;

use super::{CatalogInput, LoadError, builtin_model, read_media, set_kind};
use crate::builtin::BuiltinModel;
use crate::media::Media;
use crate::model::{Candidate, Model, StructuredOutput, Unknown};
use crate::research::ReportLimits;

/// Returns the record of each target; `None` for a target without one. The record is the block with
/// the target's name (`provider/model`), else the model with this name at the provider's preset in
/// the default catalog (which needs no price), else the entry in the provider's list.
pub(super) fn records(
    targets: &[Candidate],
    input: &CatalogInput,
    rows: &[BuiltinModel],
    models: &BTreeMap<String, Model>,
) -> Result<Vec<Option<Model>>, LoadError> {
    let record = |target: &Candidate| {
        let id = format!("{}/{}", target.provider, target.upstream_model);
        let own = models.get(&id).filter(|model| has(model, target));
        if let Some(model) = own.filter(|_| input.models.contains_key(&id)) {
            return Ok(Some(model.clone()));
        }
        let preset = input
            .providers
            .iter()
            .find(|provider| *provider.name == *target.provider)
            .map(|provider| provider.preset.as_str());
        let is_meant = |row: &&BuiltinModel| {
            let name = preset.and_then(|preset| row.upstream.get(preset));
            name.is_some_and(|name| **name == *target.upstream_model)
        };
        let Some(row) = rows.iter().find(is_meant) else {
            return Ok(own.cloned());
        };
        // A block may have changed the record of the default catalog's model.
        if let Some(model) = models.get(&row.id).filter(|model| has(model, target)) {
            return Ok(Some(model.clone()));
        }
        let media = read_media(&format!("default catalog: {}", row.id), row.media.as_ref())?;
        Ok(Some(Model {
            media,
            ..builtin_model(row, Prices::default(), Vec::new(), false)
        }))
    };
    targets.iter().map(record).collect()
}

/// Whether the target is one of the model's candidates.
fn has(model: &Model, target: &Candidate) -> bool {
    let place = (&target.provider, &target.upstream_model);
    let mut candidates = model.candidates.iter();
    candidates.any(|candidate| (&candidate.provider, &candidate.upstream_model) == place)
}

/// Sets an unknown model to the shared properties of its targets: their kind, the smallest limits,
/// and the abilities that all targets have. A target without a record does not reduce the limits,
/// but it has no abilities.
pub(super) fn from_targets(model: &mut Model, records: &[Option<Model>]) {
    let known: Vec<&Model> = records.iter().flatten().collect();
    let Some(first) = known.first() else { return };
    if known.iter().any(|record| record.kind != first.kind) {
        return;
    }
    let has_all = known.len() == records.len();
    let smallest = |bound: fn(&Model) -> Option<u64>| known.iter().filter_map(|record| bound(record)).min();
    model.context_window = smallest(|record| record.context_window);
    model.max_output_tokens = smallest(|record| record.max_output_tokens);
    model.dimensions = smallest(|record| record.dimensions);
    model.report = largest(&known);
    let voice = &first.voice;
    if has_all && known.iter().all(|record| record.voice == *voice) {
        model.voice.clone_from(voice);
    }
    let all = |ability: fn(&Model) -> bool| has_all && known.iter().all(|record| ability(record));
    set_kind(model, first.kind);
    model.reasoning = all(|record| record.reasoning);
    if has_all {
        let tokens = (first.tokenizer, first.framing);
        if known
            .iter()
            .all(|record| (record.tokenizer, record.framing) == tokens)
        {
            (model.tokenizer, model.framing) = tokens;
        }
        model.tools = all(|record| record.tools);
        model.unknown = Unknown {
            input: known.iter().any(|record| record.unknown.input),
            structured_output: known.iter().any(|record| record.unknown.structured_output),
        };
        model.input.clone_from(&first.input);
        model
            .input
            .retain(|kind| known.iter().all(|record| record.takes(*kind)));
        model.output.clone_from(&first.output);
        model
            .output
            .retain(|kind| known.iter().all(|record| record.output.contains(kind)));
        model.structured_output = weakest(known.iter().map(|record| record.structured_output));
    }
    let entries = records.iter().map(|record| match record {
        Some(record) => record.media.entry.clone(),
        None => Default::default(),
    });
    let shared = entries
        .reduce(|one, other| one.shared(&other))
        .unwrap_or_default();
    model.media = Arc::new(Media::without_factors(shared));
}

/// Returns the largest limits of reports, so that a hold pays for a report of any target.
fn largest(known: &[&Model]) -> Option<ReportLimits> {
    let limits = known.iter().filter_map(|record| record.report);
    limits.reduce(|one, other| ReportLimits {
        max_input: one.max_input.max(other.max_input),
        max_output: one.max_output.max(other.max_output),
        max_searches: one.max_searches.max(other.max_searches),
    })
}

fn weakest(levels: impl Iterator<Item = StructuredOutput>) -> StructuredOutput {
    let rank = |level: &StructuredOutput| match level {
        StructuredOutput::None => 0,
        StructuredOutput::JsonMode => 1,
        StructuredOutput::JsonSchema => 2,
    };
    levels.min_by_key(rank).unwrap_or_default()
}
