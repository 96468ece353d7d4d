//! From the data files, the operator's configuration and what providers say they have, to a [`Snapshot`].

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tollgate_types::{Credits, PriceVersion, Prices, Tokenizer, Unit};

use crate::builtin::{self, BuiltinModel};
use crate::coverage::not_covered_by;
use crate::media::{self, Media, MediaEntry};
use crate::model::{Candidate, Framing, Modality, Model, ModelKind, StructuredOutput};
use crate::snapshot::Snapshot;
use crate::template::{self, TemplateEntry};

/// Prices as they are written down: class → credits per 1,000,000 units, as decimal strings.
pub type PricesEntry = BTreeMap<String, Credits>;

/// A `[models."maker/name"]` block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelEntry {
    /// Where it is reached: `"provider/model"`, or a table with a weight. Without targets the block changes a model
    /// of the default catalog.
    pub targets: Vec<TargetEntry>,
    /// What it does; `chat` unless it is known.
    #[serde(rename = "type")]
    pub kind: Option<ModelKind>,
    /// Credits per 1,000,000 tokens by class.
    pub prices: Option<PricesEntry>,
    /// Sizes.
    pub limits: LimitsEntry,
    /// What it can be asked for, if it makes pictures or films.
    pub media: Option<MediaEntry>,
    /// Name for people.
    pub display_name: Option<String>,
    /// ISO date.
    pub release_date: Option<String>,
    /// What it takes.
    pub input: Option<Vec<Modality>>,
    /// How far the shape of its answers can be forced.
    pub structured_output: Option<StructuredOutput>,
    /// Whether it calls tools.
    pub tools: Option<bool>,
    /// Whether it reasons.
    pub reasoning: Option<bool>,
    /// What makes its tokens of text. Without one, that of the model of the default catalog which its targets are
    /// versions of.
    pub tokenizer: Option<Tokenizer>,
    /// What stands around the turns of a conversation.
    pub framing: Option<Framing>,
    /// Whether the model is offered.
    pub enabled: Option<bool>,
}

/// Sizes of a model, in tokens where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsEntry {
    /// Input and output together.
    pub context_window: Option<u64>,
    /// Most tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// Length of the longest vectors of an embedding model.
    pub dimensions: Option<u64>,
}

/// One way to reach a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TargetEntry {
    /// `"provider/model"`.
    Short(String),
    /// With a weight.
    Long {
        /// Name of the provider's block.
        provider: String,
        /// The model's name there.
        model: String,
        /// Share of the traffic; without one the target stands behind the weighted ones.
        weight: Option<u32>,
    },
}

/// A provider that is switched on.
#[derive(Clone, Debug)]
pub struct EnabledProvider {
    /// Name of its configuration block.
    pub name: String,
    /// Its preset: what the data files call it.
    pub preset: String,
    /// Whether its answers are simulated.
    pub simulated: bool,
    /// The price of a model of its that has no other, or `None` when such models are not routable.
    pub default_price: Option<PricesEntry>,
    /// Models that it says it has: name there, and context window when it tells.
    pub discovered: Vec<(String, Option<u64>)>,
}

/// Everything that a snapshot is made from.
#[derive(Clone, Debug, Default)]
pub struct CatalogInput {
    /// In the order of the configuration: the first one wins a bare name.
    pub providers: Vec<EnabledProvider>,
    /// `[models.…]` blocks by id.
    pub models: BTreeMap<String, ModelEntry>,
    /// `[aliases]`: alias → id.
    pub aliases: BTreeMap<String, String>,
    /// Which models each plan covers: patterns of ids, in which `*` stands for anything.
    pub plans: BTreeMap<String, Vec<String>>,
    /// `[templates.…]` blocks by slug.
    pub templates: BTreeMap<String, TemplateEntry>,
}

/// A configuration that makes no catalog; the path names the block at fault.
#[derive(Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Where, such as `models."acme/large".targets[0]`.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl std::error::Error for LoadError {}

fn fault<T>(path: impl Into<String>, message: impl Into<String>) -> Result<T, LoadError> {
    Err(LoadError {
        path: path.into(),
        message: message.into(),
    })
}

/// Makes a snapshot. Precedence: a configured block, then the default catalog, then what a provider says it has.
pub fn load(input: &CatalogInput) -> Result<Snapshot, LoadError> {
    let rows = builtin::models().or_else(|error| fault("default catalog", error.to_string()))?;
    let mut models: BTreeMap<String, Model> = BTreeMap::new();
    let mut aliases: BTreeMap<String, String> = BTreeMap::new();
    for row in &rows {
        if let Some(model) = from_builtin(row, input)? {
            for alias in &row.aliases {
                aliases.insert(alias.clone(), row.id.clone());
            }
            models.insert(row.id.clone(), model);
        }
    }
    for provider in &input.providers {
        add_discovered(provider, &mut models)?;
    }
    for (id, entry) in &input.models {
        apply_entry(id, entry, input, &rows, &mut models)?;
    }
    for model in models.values_mut() {
        versions::follow(model, input, &rows);
    }
    aliases.extend(input.aliases.clone());
    index(models, aliases, input)
}

fn from_builtin(row: &BuiltinModel, input: &CatalogInput) -> Result<Option<Model>, LoadError> {
    let candidates: Vec<Candidate> = input
        .providers
        .iter()
        .filter_map(|provider| {
            let upstream_model = row.upstream.get(&provider.preset)?;
            Some(candidate(&provider.name, upstream_model, None))
        })
        .collect();
    let Some(prices) = &row.prices else {
        return Ok(None);
    };
    if candidates.is_empty() {
        return Ok(None);
    }
    let simulated = is_simulated(&candidates, input);
    let prices = parse_prices(&format!("default catalog: {}", row.id), prices)?;
    let media = read_media(&format!("default catalog: {}", row.id), row.media.as_ref())?;
    Ok(Some(Model {
        media,
        ..builtin_model(row, prices, candidates, simulated)
    }))
}

fn read_media(path: &str, entry: Option<&MediaEntry>) -> Result<Arc<Media>, LoadError> {
    let Some(entry) = entry else {
        return Ok(media::unknown());
    };
    match Media::read(entry) {
        Ok(media) => Ok(Arc::new(media)),
        Err(error) => fault(format!("{path}.media.{}", error.path), error.message),
    }
}

fn builtin_model(row: &BuiltinModel, prices: Prices, candidates: Vec<Candidate>, simulated: bool) -> Model {
    Model {
        id: row.id.as_str().into(),
        display_name: row.display_name.clone(),
        kind: row.kind,
        release_date: Some(row.release_date.clone()).filter(|date| date != "-"),
        context_window: row.context_window,
        max_output_tokens: row.max_output_tokens,
        dimensions: row.dimensions,
        input: row.input.clone(),
        output: row.output.clone(),
        structured_output: row.structured_output,
        tools: row.tools,
        reasoning: row.reasoning,
        tokenizer: row.tokenizer,
        framing: row.framing,
        simulated,
        prices,
        price_version: price_version(&row.id, &prices),
        not_covered_by: Arc::default(),
        media: media::unknown(),
        candidates,
    }
}

fn add_discovered(provider: &EnabledProvider, models: &mut BTreeMap<String, Model>) -> Result<(), LoadError> {
    let Some(prices) = &provider.default_price else {
        return Ok(());
    };
    let prices = parse_prices(&format!("providers.{}.default_price", provider.name), prices)?;
    for (name, context_window) in &provider.discovered {
        let id = format!("{}/{name}", provider.name);
        let candidates = vec![candidate(&provider.name, name, None)];
        let mut model = plain_model(&id, name, prices, candidates, provider.simulated);
        model.context_window = *context_window;
        set_kind(&mut model, ModelKind::of_name(name));
        models.entry(id).or_insert(model);
    }
    Ok(())
}

/// A model of which only the way to reach it is known: nothing is claimed and nothing is refused.
fn plain_model(id: &str, name: &str, prices: Prices, candidates: Vec<Candidate>, simulated: bool) -> Model {
    Model {
        id: id.into(),
        display_name: name.to_owned(),
        kind: ModelKind::Chat,
        release_date: None,
        context_window: None,
        max_output_tokens: None,
        dimensions: None,
        input: ModelKind::Chat.takes(),
        output: ModelKind::Chat.gives(),
        structured_output: StructuredOutput::JsonSchema,
        tools: true,
        reasoning: false,
        tokenizer: None,
        framing: None,
        simulated,
        prices,
        price_version: price_version(id, &prices),
        not_covered_by: Arc::default(),
        media: media::unknown(),
        candidates,
    }
}

/// Makes a model one of this kind: what it takes, gives and can follows from that, as far as nothing else is said.
fn set_kind(model: &mut Model, kind: ModelKind) {
    if model.kind == kind {
        return;
    }
    let is_chat = kind == ModelKind::Chat;
    model.kind = kind;
    (model.input, model.output) = (kind.takes(), kind.gives());
    model.structured_output = match is_chat {
        true => StructuredOutput::JsonSchema,
        false => StructuredOutput::None,
    };
    model.tools = is_chat;
    model.reasoning = false;
}

fn apply_entry(
    id: &str,
    entry: &ModelEntry,
    input: &CatalogInput,
    rows: &[BuiltinModel],
    models: &mut BTreeMap<String, Model>,
) -> Result<(), LoadError> {
    let path = format!("models.\"{id}\"");
    check_id(&path, id)?;
    if entry.enabled == Some(false) {
        models.remove(id);
        return Ok(());
    }
    let targets = parse_targets(&path, entry, input)?;
    let listed = entry
        .prices
        .as_ref()
        .map(|prices| parse_prices(&format!("{path}.prices"), prices))
        .transpose()?;
    let row = rows.iter().find(|row| row.id == id);
    let mut model = match (models.remove(id), row) {
        (Some(model), _) => model,
        (None, _) if targets.is_empty() => {
            return fault(
                path,
                "no enabled provider serves this model: add targets = [\"provider/model\"]",
            );
        }
        (None, row) => {
            let prices = match (listed, row.and_then(|row| row.prices.as_ref())) {
                (Some(prices), _) => prices,
                (None, Some(prices)) => parse_prices(&path, prices)?,
                (None, None) => default_prices(&path, &targets, input)?,
            };
            let simulated = is_simulated(&targets, input);
            match row {
                Some(row) => Model {
                    media: read_media(&path, row.media.as_ref())?,
                    ..builtin_model(row, prices, targets.clone(), simulated)
                },
                None => plain_model(id, id, prices, targets.clone(), simulated),
            }
        }
    };
    if !targets.is_empty() {
        model.simulated = is_simulated(&targets, input);
        model.candidates = targets;
        // Who answers from there may have other tokens.
        (model.tokenizer, model.framing) = (None, None);
    }
    if let Some(prices) = listed {
        model.prices = prices;
        model.price_version = price_version(id, &prices);
    }
    if entry.media.is_some() {
        model.media = read_media(&path, entry.media.as_ref())?;
    }
    override_facts(&mut model, entry);
    models.insert(id.to_owned(), model);
    Ok(())
}

fn override_facts(model: &mut Model, entry: &ModelEntry) {
    set_kind(model, entry.kind.unwrap_or(model.kind));
    model.dimensions = entry.limits.dimensions.or(model.dimensions);
    model.context_window = entry.limits.context_window.or(model.context_window);
    model.max_output_tokens = entry.limits.max_output_tokens.or(model.max_output_tokens);
    model.structured_output = entry.structured_output.unwrap_or(model.structured_output);
    model.tools = entry.tools.unwrap_or(model.tools);
    model.reasoning = entry.reasoning.unwrap_or(model.reasoning);
    model.tokenizer = entry.tokenizer.or(model.tokenizer);
    model.framing = entry.framing.or(model.framing);
    if let Some(name) = &entry.display_name {
        model.display_name.clone_from(name);
    }
    if let Some(date) = &entry.release_date {
        model.release_date = Some(date.clone()).filter(|date| date != "-");
    }
    if let Some(input) = &entry.input {
        model.input.clone_from(input);
    }
}

fn check_id(path: &str, id: &str) -> Result<(), LoadError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._/:@+".contains(c);
    if id.is_empty() || id.len() > 128 || !id.chars().all(allowed) {
        return fault(
            path,
            "an id is 1 to 128 letters, digits and - . _ / : @ +, such as \"acme/large\"",
        );
    }
    Ok(())
}

fn parse_targets(path: &str, entry: &ModelEntry, input: &CatalogInput) -> Result<Vec<Candidate>, LoadError> {
    let mut candidates = Vec::new();
    for (position, target) in entry.targets.iter().enumerate() {
        let path = format!("{path}.targets[{position}]");
        let (provider, model, weight) = match target {
            TargetEntry::Short(text) => match text.split_once('/') {
                Some((provider, model)) if !model.is_empty() => (provider, model, None),
                _ => {
                    return fault(
                        path,
                        format!("'{text}' is not a target: write \"provider/model\""),
                    );
                }
            },
            TargetEntry::Long {
                provider,
                model,
                weight,
            } => (provider.as_str(), model.as_str(), *weight),
        };
        if weight == Some(0) {
            return fault(path, "a weight is at least 1; leave the target out instead");
        }
        if !input.providers.iter().any(|enabled| enabled.name == provider) {
            let known: Vec<&str> = input
                .providers
                .iter()
                .map(|enabled| enabled.name.as_str())
                .collect();
            let message = format!(
                "there is no enabled provider '{provider}'; enabled are: {}",
                known.join(", ")
            );
            return fault(path, message);
        }
        candidates.push(candidate(provider, model, weight));
    }
    Ok(candidates)
}

fn default_prices(path: &str, targets: &[Candidate], input: &CatalogInput) -> Result<Prices, LoadError> {
    let provider = targets
        .first()
        .and_then(|first| input.providers.iter().find(|p| *p.name == *first.provider));
    match provider.and_then(|provider| provider.default_price.as_ref()) {
        Some(prices) => parse_prices(path, prices),
        None => fault(
            path,
            "the model has no price: add prices = { input = \"0.15\", output = \"0.60\" } (credits per 1,000,000 tokens)",
        ),
    }
}

fn parse_prices(path: &str, entry: &PricesEntry) -> Result<Prices, LoadError> {
    let mut prices = Prices::default();
    for (name, price) in entry {
        // A price per token written where a price per million belongs, or the reverse, is off by 1,000,000.
        if *price < Credits::ZERO || price.nanos() > 1_000_000 * tollgate_types::money::NANOS_PER_CREDIT {
            return fault(
                format!("{path}.{name}"),
                "a price is 0 to 1,000,000 credits per 1,000,000 units",
            );
        }
        prices = prices
            .with_named(name, *price)
            .or_else(|error| fault(format!("{path}.{name}"), error.to_string()))?;
    }
    let has_one = |unit: Unit| prices.listed(unit).is_some();
    if !has_one(Unit::Input) && !Unit::MADE.into_iter().any(has_one) {
        let message = "a price for input is required (\"0\" when it is free), or one for image, video, audio or character";
        return fault(path, message);
    }
    Ok(prices)
}

fn candidate(provider: &str, upstream_model: &str, weight: Option<u32>) -> Candidate {
    Candidate {
        provider: provider.into(),
        upstream_model: upstream_model.into(),
        weight,
    }
}

fn is_simulated(candidates: &[Candidate], input: &CatalogInput) -> bool {
    let simulates = |name: &str| {
        input
            .providers
            .iter()
            .any(|provider| provider.name == name && provider.simulated)
    };
    candidates.iter().all(|candidate| simulates(&candidate.provider))
}

/// The version that names these prices of this model.
pub fn price_version(model: &str, prices: &Prices) -> PriceVersion {
    let mut hash = Sha256::new();
    hash.update(model.as_bytes());
    for (name, price) in prices.entries() {
        hash.update([0]);
        hash.update(name.as_bytes());
        hash.update(price.nanos().to_be_bytes());
    }
    let digest = hash.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    PriceVersion::from_u64(u64::from_be_bytes(first))
}

/// What stands for a model where several worked on one call: a composition. It is in no catalog and costs nothing by itself;
/// what it costs is the sum of its parts, each by its own model's prices.
pub const COMPOSITION: &str = "compose";

/// The version that names the prices of a composition, under which nothing costs anything.
pub fn composition_version() -> PriceVersion {
    price_version(COMPOSITION, &Prices::free())
}

fn index(
    models: BTreeMap<String, Model>,
    aliases: BTreeMap<String, String>,
    input: &CatalogInput,
) -> Result<Snapshot, LoadError> {
    let with_plans = |model: Model| {
        let not_covered_by = not_covered_by(&model.id, &input.plans);
        Arc::new(Model {
            not_covered_by,
            ..model
        })
    };
    let models: Vec<Arc<Model>> = models.into_values().map(with_plans).collect();
    let mut by_name: HashMap<Arc<str>, Arc<Model>> = HashMap::new();
    for model in &models {
        by_name.insert(model.id.clone(), model.clone());
    }
    for (alias, id) in &aliases {
        if let Some(model) = by_name.get(id.as_str()).cloned() {
            by_name.entry(alias.as_str().into()).or_insert(model);
        } else if input.aliases.contains_key(alias) {
            return fault(
                format!("aliases.\"{alias}\""),
                format!("there is no model '{id}' to stand for"),
            );
        }
    }
    // A bare name means the first enabled provider, in the order of the configuration, that has such a model.
    for provider in &input.providers {
        for model in &models {
            for candidate in model
                .candidates
                .iter()
                .filter(|candidate| *candidate.provider == *provider.name)
            {
                by_name
                    .entry(candidate.upstream_model.clone())
                    .or_insert_with(|| model.clone());
                if let Some((_, bare)) = model.id.split_once('/') {
                    by_name.entry(bare.into()).or_insert_with(|| model.clone());
                }
            }
        }
    }
    let mut usual = HashMap::new();
    for provider in &input.providers {
        let serves = |model: &&Arc<Model>| model.candidates.iter().any(|one| *one.provider == *provider.name);
        for model in models.iter().filter(serves) {
            usual.entry(model.kind).or_insert_with(|| model.id.clone());
        }
    }
    Ok(Snapshot::new(
        models,
        by_name,
        usual,
        template::load(&input.templates)?.into(),
    ))
}

mod versions;

#[cfg(test)]
mod tests;
