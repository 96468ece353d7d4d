//! Models of the stages of a voice model that the gateway executes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{Model, ModelKind};

/// Settings `voice` of a model: a model of the catalog for each stage of a spoken conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VoiceStages {
    /// Transcription model that converts the caller's speech to text.
    pub hear: String,
    /// Chat model that answers.
    pub think: String,
    /// Speech model that speaks the answers.
    pub speak: String,
    /// Voice of the speech model, unless a session selects another one.
    pub voice: String,
}

/// The stage whose model is missing or of another kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StageError {
    /// Id of the voice model.
    pub(crate) id: String,
    /// Name of the stage's setting.
    pub(crate) stage: &'static str,
    /// Description of the fault, and how to fix it.
    pub(crate) message: String,
}

/// Completes the voice models whose stages the gateway executes. Such a model has the targets,
/// tools and limits of its chat model, and is simulated if all of its stages are.
pub(crate) fn complete(
    models: &mut BTreeMap<String, Model>,
    aliases: &BTreeMap<String, String>,
) -> Result<(), StageError> {
    let voices: Vec<(String, Arc<VoiceStages>)> = models
        .iter()
        .filter_map(|(id, model)| Some((id.clone(), model.voice.clone()?)))
        .collect();
    for (id, stages) in voices {
        let (think, simulated) = resolve(&id, &stages, models, aliases)?;
        if let Some(model) = models.get_mut(&id) {
            model.simulated = simulated;
            model.tools = think.tools;
            model.context_window = model.context_window.or(think.context_window);
            model.max_output_tokens = model.max_output_tokens.or(think.max_output_tokens);
            if model.candidates.is_empty() {
                model.candidates = think.candidates;
            }
        }
    }
    Ok(())
}

/// Returns the chat model of a voice model, and whether all stages are simulated.
fn resolve(
    id: &str,
    stages: &VoiceStages,
    models: &BTreeMap<String, Model>,
    aliases: &BTreeMap<String, String>,
) -> Result<(Model, bool), StageError> {
    let find = |stage: &'static str, name: &str, kind: ModelKind| {
        let found = models
            .get(name)
            .or_else(|| models.get(aliases.get(name)?))
            .filter(|model| model.kind == kind);
        found.ok_or_else(|| StageError {
            id: id.to_owned(),
            stage,
            message: format!(
                "'{name}' is not an enabled model of the type \"{}\"",
                kind.as_str()
            ),
        })
    };
    let hear = find("hear", &stages.hear, ModelKind::Transcription)?;
    let think = find("think", &stages.think, ModelKind::Chat)?;
    let speak = find("speak", &stages.speak, ModelKind::Speech)?;
    let simulated = hear.simulated && think.simulated && speak.simulated;
    Ok((think.clone(), simulated))
}
