//! Selects the models of a composition and prices its steps. Each step is billed at the price of
//! its model at the time of acceptance.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_billing::{AgreedPrices, Demand, Step, StepItem, quote};
use tollgate_catalog::{Model, ModelKind};
use tollgate_edge::members::invalid;
use tollgate_pipeline::Routed;
use tollgate_storage::UsagePart;
use tollgate_types::{Credits, Error, PriceVersion, Prices, Usage};

use super::recipe::Recipe;
use super::script;
use super::storyboard::{Scene, Storyboard};
use crate::audio::narration_demand;
use crate::images;
use crate::submission::Submission;
use crate::videos;

/// Model name of the built-in voice, which is free of charge.
pub(super) const BUILT_IN: &str = "built-in";
/// Speech rate of a slow voice, in characters per second.
const SLOW_SPEECH_RATE: f64 = 12.0;
/// Pauses around the narration of a scene, in seconds.
const SCENE_PADDING_SECONDS: f64 = 0.7;
/// Estimated duration of a scene without narration, in seconds.
const SILENT_SCENE_SECONDS: f64 = 4.0;
/// Maximum estimated duration of a composition, in seconds.
const MAX_TOTAL_SECONDS: f64 = 600.0;

/// Models of a composition and their agreed prices.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ModelPlan {
    /// Chat model of the script.
    pub(super) script: Option<String>,
    /// Image or video model of the scenes that name no model.
    pub(super) visual: Option<String>,
    /// Speech model; `None` for the built-in voice and for compositions without narration.
    pub(super) voice: Option<String>,
    /// Prices of all models at the time of acceptance, by public model name.
    terms: BTreeMap<String, AgreedPrices>,
}

/// Maximum cost of one step.
pub(super) struct Item {
    /// Name of the step, such as `script` or `scene-1 voice`.
    pub(super) name: String,
    pub(super) model: String,
    pub(super) cost: Credits,
    /// Components of the cost.
    parts: Vec<tollgate_billing::Item>,
}

impl Item {
    /// Returns the components of the cost, with the name and the model of the step.
    pub(super) fn of_quote(&self) -> impl Iterator<Item = StepItem> {
        self.parts.iter().map(|item| StepItem {
            step: Some(Step {
                name: self.name.clone(),
                model: self.model.clone(),
            }),
            item: *item,
        })
    }
}

/// Generation params of a scene's image or video.
pub(super) enum VisualParams {
    Image(images::Params),
    Video(videos::Params),
}

impl ModelPlan {
    /// Selects and routes the models for a storyboard. A storyboard without scenes needs a script
    /// model.
    pub(super) fn find(
        submission: &Submission<'_>,
        recipe: &Recipe,
        (script, visual): (Option<&str>, Option<&str>),
        board: &Storyboard,
    ) -> Result<(Self, Vec<Routed>), Error> {
        let is_topic = board.scenes.is_empty();
        let mut model_plan = ModelPlan::default();
        let mut routes = Vec::new();
        let mut add = |routed: Routed| {
            let name = routed.public_model.to_string();
            let agreed = AgreedPrices::new(routed.model.price_version, &routed.model.prices);
            model_plan.terms.insert(name.clone(), agreed);
            routes.push(routed);
            name
        };
        if is_topic {
            let routed = submission.route(script, None, ModelKind::Chat);
            model_plan.script = Some(add(routed.map_err(|error| at("script_model", error))?));
        }
        let has_prompts = |scene: &Scene| scene.visual.prompt.is_some() && scene.visual.model.is_none();
        if visual.is_some()
            || is_topic && recipe.visuals.kind().is_some()
            || board.scenes.iter().any(has_prompts)
        {
            let kind = match visual {
                Some(name) => visual_kind(submission, name, "visual_model")?,
                None => recipe.visuals.kind().unwrap_or(ModelKind::Image),
            };
            let routed = submission.route(visual, None, kind);
            model_plan.visual = Some(add(routed.map_err(|error| at("visual_model", error))?));
        }
        for (number, scene) in board.scenes.iter().enumerate() {
            if let Some(name) = &scene.visual.model {
                let path = format!("storyboard.scenes[{number}].visual.model");
                let kind = visual_kind(submission, name, &path)?;
                let routed = submission.route(Some(name), None, kind);
                add(routed.map_err(|error| at(&path, error))?);
            }
        }
        let speaks = is_topic || board.scenes.iter().any(|scene| scene.narration.is_some());
        if let Some(voice) = board.voice.as_ref().filter(|_| speaks) {
            model_plan.voice = match voice.model.as_deref() {
                Some(BUILT_IN) => None,
                None if submission.default_model(None, ModelKind::Speech).is_none() => None,
                named => {
                    let routed = submission.route(named, None, ModelKind::Speech);
                    let mut routed = routed.map_err(|error| at("voice.model", error))?;
                    routed
                        .retain_speakers()
                        .map_err(|error| at("voice.model", error))?;
                    Some(add(routed))
                }
            };
        }
        Ok((model_plan, routes))
    }

    /// Returns the public names of all models of the plan.
    pub(super) fn models(&self) -> impl Iterator<Item = &String> {
        self.terms.keys()
    }

    /// Returns the agreed prices of a model and their version.
    pub(super) fn prices(&self, model: &str) -> Option<(PriceVersion, Prices)> {
        self.terms.get(model)?.get()
    }

    /// Returns the billing record of a finished step; `None` if the model has no agreed price.
    pub(super) fn part(
        &self,
        number: u32,
        name: String,
        (model, target): (&str, &str),
        usage: Usage,
    ) -> Option<UsagePart> {
        let agreed = self.terms.get(model)?;
        agreed.part(number, name, (model, target), usage)
    }
}

/// Returns the kind of an image or video model. Returns an error for models of other kinds.
fn visual_kind(submission: &Submission<'_>, name: &str, path: &str) -> Result<ModelKind, Error> {
    let routed = submission
        .state
        .media_jobs
        .pipeline
        .route(&submission.caller, name);
    match routed.map_err(|error| at(path, error))?.model.kind {
        kind @ (ModelKind::Image | ModelKind::Video) => Ok(kind),
        _ => Err(invalid(path, "must be an image model or a video model")),
    }
}

/// Replaces the parameter of an error, also in its message, by `path`.
pub(super) fn at(path: &str, mut error: Error) -> Error {
    let before = error.param.replace(path.to_owned()).unwrap_or_default();
    error.message = error
        .message
        .replacen(&format!("'{before}'"), &format!("'{path}'"), 1);
    error
}

/// Returns the generation params of a scene and their maximum demand.
pub(super) fn visual_params(
    model: &Model,
    board: &Storyboard,
    scene: &Scene,
    seed: Option<u64>,
) -> Result<(VisualParams, Demand), Error> {
    let size = board.size();
    let shape = (size.width, size.height);
    let prompt = scene.visual.prompt.clone().unwrap_or_default();
    match model.kind {
        ModelKind::Video => {
            let (params, demand) = videos::scene(
                model,
                prompt,
                shape,
                (&board.resolution, likely_seconds(scene)),
                seed,
            )?;
            Ok((VisualParams::Video(params), demand))
        }
        _ => {
            let (params, demand) = images::still(model, prompt, shape, seed)?;
            Ok((VisualParams::Image(params), demand))
        }
    }
}

/// Returns the estimated duration of a scene, in seconds. The estimate assumes slow speech.
pub(super) fn likely_seconds(scene: &Scene) -> f64 {
    let speech_seconds = scene
        .narration
        .as_ref()
        .map(|text| text.chars().count() as f64 / SLOW_SPEECH_RATE + SCENE_PADDING_SECONDS);
    let min_seconds = scene.duration.unwrap_or(0.0);
    match speech_seconds {
        Some(speech_seconds) => speech_seconds.max(min_seconds),
        None if min_seconds > 0.0 => min_seconds,
        None => SILENT_SCENE_SECONDS,
    }
}

/// Returns the maximum cost of each voice and visual step. Returns an error with the path of the
/// scene if no provider supports it, and an error if the estimated total duration exceeds 600
/// seconds.
pub(super) fn items(
    model_plan: &ModelPlan,
    routes: &mut [Routed],
    board: &Storyboard,
    seed: Option<u64>,
) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    let mut total = 0.0;
    let speaker = model_plan.voice.as_ref().filter(|_| board.voice.is_some());
    for (number, scene) in board.scenes.iter().enumerate() {
        let path = |end: &str| format!("storyboard.scenes[{number}].{end}");
        total += likely_seconds(scene);
        if let (Some(name), Some(text)) = (speaker, &scene.narration) {
            let routed = routed(routes, name)?;
            let demand = narration_demand(&routed.model, text.chars().count() as u64, text.len());
            items.push(item(&routed.model, format!("{} voice", scene.id), name, &demand));
        }
        let Some(name) = scene.visual.model.as_ref().or(model_plan.visual.as_ref()) else {
            continue;
        };
        if scene.visual.prompt.is_none() {
            continue;
        }
        let routed = routed(routes, name)?;
        let (visual_params, demand) =
            visual_params(&routed.model, board, scene, seed).map_err(|error| at(&path("visual"), error))?;
        let can = match &visual_params {
            VisualParams::Image(params) => routed.retain_job_providers(&params.call(1)),
            VisualParams::Video(params) => routed.retain_job_providers(&params.call()),
        };
        can.map_err(|error| at(&path("visual"), error))?;
        items.push(item(&routed.model, format!("{} visual", scene.id), name, &demand));
    }
    match total > MAX_TOTAL_SECONDS {
        true => Err(invalid(
            "storyboard",
            &format!("has an estimated duration of {total:.0} s; the limit is {MAX_TOTAL_SECONDS:.0} s"),
        )),
        false => Ok(items),
    }
}

/// Returns the maximum cost of the script step; `None` if the plan has no script model.
pub(super) fn script_item(
    model_plan: &ModelPlan,
    routes: &mut [Routed],
    brief: &script::Brief,
) -> Result<Option<Item>, Error> {
    let Some(name) = &model_plan.script else {
        return Ok(None);
    };
    let routed = routed(routes, name)?;
    let demand = brief.demand(routed)?;
    Ok(Some(item(&routed.model, "script".to_owned(), name, &demand)))
}

fn routed<'r>(routes: &'r mut [Routed], name: &str) -> Result<&'r mut Routed, Error> {
    let found = routes.iter_mut().find(|routed| *routed.public_model == *name);
    found.ok_or_else(|| Error::internal(format!("{name} is not routed")))
}

fn item(model: &Model, name: String, public: &str, demand: &Demand) -> Item {
    let quote = quote(model, demand);
    Item {
        name,
        model: public.to_owned(),
        cost: quote.amount,
        parts: quote.items(model, demand),
    }
}

/// Returns the plans whose allowances cannot pay for the composition, because they exclude one of
/// its models.
pub(super) fn not_covered_by(routes: &[Routed]) -> Arc<[Arc<str>]> {
    let mut plans: Vec<Arc<str>> = Vec::new();
    for plan in routes
        .iter()
        .flat_map(|routed| routed.model.not_covered_by.iter())
    {
        if !plans.contains(plan) {
            plans.push(plan.clone());
        }
    }
    plans.into()
}
