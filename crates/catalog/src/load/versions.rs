//! Models that are versions of one of the default catalog.

use super::{CatalogInput, EnabledProvider};
use crate::builtin::BuiltinModel;
use crate::model::{Candidate, Model};

/// A model that is a version of one of the default catalog, dated or tuned, has its tokens, unless something else is
/// said or its candidates are of several kinds.
pub(super) fn follow(model: &mut Model, input: &CatalogInput, rows: &[BuiltinModel]) {
    if model.tokenizer.is_some() {
        return;
    }
    let preset_of = |candidate: &Candidate| {
        let named = |provider: &&EnabledProvider| *provider.name == *candidate.provider;
        Some(&*input.providers.iter().find(named)?.preset)
    };
    let tokens_of = |candidate: &Candidate| {
        let row = base_row(preset_of(candidate)?, &candidate.upstream_model, rows)?;
        Some((row.tokenizer?, row.framing))
    };
    let mut found = model.candidates.iter().map(tokens_of);
    let first = found.next().flatten();
    if let Some((tokenizer, framing)) = first.filter(|_| found.all(|other| other == first)) {
        model.tokenizer = Some(tokenizer);
        model.framing = model.framing.or(framing);
    }
}

/// The row whose name at a provider a version's name begins with: `ft:NAME:…` is tuned, `NAME-2026-01-31` is dated.
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
    rows.iter()
        .find(|row| row.upstream.get(preset).as_ref().is_some_and(is_version))
}
