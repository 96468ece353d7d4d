//! Who makes what of a composition, and what that costs: every step bills its model at the price of the time of acceptance.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_billing::{Demand, quote};
use tollgate_catalog::{Model, ModelKind};
use tollgate_pipeline::Routed;
use tollgate_storage::UsagePart;
use tollgate_types::{Credits, Error, PriceVersion, Prices, Usage};

use super::recipe::Recipe;
use super::script;
use super::storyboard::{Scene, Storyboard};
use crate::audio::narration_demand;
use crate::images;
use crate::order::{agreed, listed};
use crate::read::invalid;
use crate::submission::Asked;
use crate::videos;

/// The voice that comes with the gateway. It costs nothing.
pub(super) const BUILT_IN: &str = "built-in";
/// Characters that are spoken in a second, of slow speakers.
const PACE: f64 = 12.0;
/// Seconds of a scene around what is said, and of one in which nothing is.
const AROUND: f64 = 0.7;
const SILENT: f64 = 4.0;
/// The longest composition, by what it is likely to be.
const LONGEST: f64 = 600.0;

/// The models of a composition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Cast {
    /// Writes the script.
    pub(super) script: Option<String>,
    /// Makes what scenes show that name no model.
    pub(super) visual: Option<String>,
    /// Speaks; the built-in voice when it is nothing.
    pub(super) voice: Option<String>,
    /// Everybody's prices.
    terms: BTreeMap<String, Terms>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Terms {
    version: String,
    prices: BTreeMap<String, i64>,
}

/// What one step costs at the most.
pub(super) struct Item {
    /// Such as `scene-1`.
    pub(super) name: String,
    pub(super) model: String,
    pub(super) cost: Credits,
}

/// What makes a scene's picture or film, and what that is.
pub(super) enum Shot {
    Picture(images::Wish),
    Film(videos::Wish),
}

impl Cast {
    /// Whoever is needed for this storyboard, or for a script on a topic where it has no scenes.
    pub(super) fn find(
        asked: &Asked<'_>,
        recipe: &Recipe,
        (script, visual): (Option<&str>, Option<&str>),
        board: &Storyboard,
    ) -> Result<(Self, Vec<Routed>), Error> {
        let is_topic = board.scenes.is_empty();
        let mut cast = Cast::default();
        let mut routes = Vec::new();
        let mut add = |routed: Routed| {
            let name = routed.public_model.to_string();
            cast.terms.insert(name.clone(), Terms::of(&routed.model));
            routes.push(routed);
            name
        };
        if is_topic {
            let routed = asked.route(script, None, ModelKind::Chat);
            cast.script = Some(add(routed.map_err(|error| at("script_model", error))?));
        }
        let has_prompts = |scene: &Scene| scene.visual.prompt.is_some() && scene.visual.model.is_none();
        if visual.is_some()
            || is_topic && recipe.visuals.kind().is_some()
            || board.scenes.iter().any(has_prompts)
        {
            let kind = match visual {
                Some(name) => visual_kind(asked, name, "visual_model")?,
                None => recipe.visuals.kind().unwrap_or(ModelKind::Image),
            };
            let routed = asked.route(visual, None, kind);
            cast.visual = Some(add(routed.map_err(|error| at("visual_model", error))?));
        }
        for (number, scene) in board.scenes.iter().enumerate() {
            if let Some(name) = &scene.visual.model {
                let path = format!("storyboard.scenes[{number}].visual.model");
                let kind = visual_kind(asked, name, &path)?;
                let routed = asked.route(Some(name), None, kind);
                add(routed.map_err(|error| at(&path, error))?);
            }
        }
        let speaks = is_topic || board.scenes.iter().any(|scene| scene.narration.is_some());
        if let Some(voice) = board.voice.as_ref().filter(|_| speaks) {
            cast.voice = match voice.model.as_deref() {
                Some(BUILT_IN) => None,
                None if asked.usual(None, ModelKind::Speech).is_none() => None,
                named => {
                    let routed = asked.route(named, None, ModelKind::Speech);
                    let mut routed = routed.map_err(|error| at("voice.model", error))?;
                    routed
                        .retain_speakers()
                        .map_err(|error| at("voice.model", error))?;
                    Some(add(routed))
                }
            };
        }
        Ok((cast, routes))
    }

    /// Everybody.
    pub(super) fn models(&self) -> impl Iterator<Item = &String> {
        self.terms.keys()
    }

    /// The prices that were agreed for a model.
    pub(super) fn prices(&self, model: &str) -> Option<(PriceVersion, Prices)> {
        let terms = self.terms.get(model)?;
        Some((PriceVersion::parse(&terms.version)?, agreed(&terms.prices)))
    }

    /// What a step has cost.
    pub(super) fn part(
        &self,
        number: u32,
        name: String,
        (model, provider): (&str, &str),
        usage: Usage,
    ) -> Option<UsagePart> {
        let (price_version, prices) = self.prices(model)?;
        Some(UsagePart {
            number,
            name: name.into(),
            model: model.into(),
            provider: provider.into(),
            price_version,
            usage,
            cost: prices.cost(&usage),
        })
    }
}

impl Terms {
    fn of(model: &Model) -> Self {
        Self {
            version: model.price_version.to_string(),
            prices: listed(&model.prices),
        }
    }
}

/// Whether a model makes pictures or films.
fn visual_kind(asked: &Asked<'_>, name: &str, path: &str) -> Result<ModelKind, Error> {
    let routed = asked.room.studio.pipeline.route(&asked.caller, name);
    match routed.map_err(|error| at(path, error))?.model.kind {
        kind @ (ModelKind::Image | ModelKind::Video) => Ok(kind),
        _ => Err(invalid(path, "is a model that makes neither pictures nor films")),
    }
}

/// The same error about another parameter.
pub(super) fn at(path: &str, mut error: Error) -> Error {
    let before = error.param.replace(path.to_owned()).unwrap_or_default();
    error.message = error
        .message
        .replacen(&format!("'{before}'"), &format!("'{path}'"), 1);
    error
}

/// What a scene asks its model for; the most that costs beside it.
pub(super) fn shot(
    model: &Model,
    board: &Storyboard,
    scene: &Scene,
    seed: Option<u64>,
) -> Result<(Shot, Demand), Error> {
    let size = board.size();
    let shape = (size.width, size.height);
    let prompt = scene.visual.prompt.clone().unwrap_or_default();
    match model.kind {
        ModelKind::Video => {
            let (wish, demand) =
                videos::scene(model, prompt, shape, (&board.resolution, likely(scene)), seed)?;
            Ok((Shot::Film(wish), demand))
        }
        _ => {
            let (wish, demand) = images::still(model, prompt, shape, seed)?;
            Ok((Shot::Picture(wish), demand))
        }
    }
}

/// How long a scene is likely to be, in seconds; rather longer than it is.
pub(super) fn likely(scene: &Scene) -> f64 {
    let said = scene
        .narration
        .as_ref()
        .map(|text| text.chars().count() as f64 / PACE + AROUND);
    let least = scene.duration.unwrap_or(0.0);
    match said {
        Some(said) => said.max(least),
        None if least > 0.0 => least,
        None => SILENT,
    }
}

/// What every step costs at the most. What no model can make is refused with its path.
pub(super) fn items(
    cast: &Cast,
    routes: &mut [Routed],
    board: &Storyboard,
    seed: Option<u64>,
) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    let mut total = 0.0;
    let speaker = cast.voice.as_ref().filter(|_| board.voice.is_some());
    for (number, scene) in board.scenes.iter().enumerate() {
        let path = |end: &str| format!("storyboard.scenes[{number}].{end}");
        total += likely(scene);
        if let (Some(name), Some(text)) = (speaker, &scene.narration) {
            let routed = routed(routes, name)?;
            let demand = narration_demand(&routed.model, text.chars().count() as u64, text.len());
            items.push(item(&routed.model, format!("{} voice", scene.id), name, &demand));
        }
        let Some(name) = scene.visual.model.as_ref().or(cast.visual.as_ref()) else {
            continue;
        };
        if scene.visual.prompt.is_none() {
            continue;
        }
        let routed = routed(routes, name)?;
        let (shot, demand) =
            shot(&routed.model, board, scene, seed).map_err(|error| at(&path("visual"), error))?;
        let can = match &shot {
            Shot::Picture(wish) => routed.retain_makers(&wish.call(1)),
            Shot::Film(wish) => routed.retain_makers(&wish.call()),
        };
        can.map_err(|error| at(&path("visual"), error))?;
        items.push(item(&routed.model, format!("{} visual", scene.id), name, &demand));
    }
    match total > LONGEST {
        true => Err(invalid(
            "storyboard",
            &format!("is likely to last {total:.0} seconds; {LONGEST:.0} is the most"),
        )),
        false => Ok(items),
    }
}

/// What the script costs at the most.
pub(super) fn script_item(
    cast: &Cast,
    routes: &mut [Routed],
    brief: &script::Brief,
) -> Result<Option<Item>, Error> {
    let Some(name) = &cast.script else {
        return Ok(None);
    };
    let routed = routed(routes, name)?;
    let demand = brief.demand(routed)?;
    Ok(Some(item(&routed.model, "script".to_owned(), name, &demand)))
}

fn routed<'r>(routes: &'r mut [Routed], name: &str) -> Result<&'r mut Routed, Error> {
    let found = routes.iter_mut().find(|routed| *routed.public_model == *name);
    found.ok_or_else(|| Error::internal(format!("{name} has no part in this")))
}

fn item(model: &Model, name: String, public: &str, demand: &Demand) -> Item {
    Item {
        name,
        model: public.to_owned(),
        cost: quote(model, demand).amount,
    }
}

/// Which allowances may not pay for it: those that one of its models is not covered by.
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
