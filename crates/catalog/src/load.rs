//! Builds a [`Snapshot`] from the data files, the operator's configuration and the model lists of
//! providers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tollgate_types::{Credits, Effort, PriceVersion, Prices, ReasoningControl, Tokenizer, Unit};

use crate::builtin::{self, BuiltinModel};
use crate::coverage::not_covered_by;
use crate::media::{self, Media, MediaEntry};
use crate::model::{Candidate, Framing, Modality, Model, ModelKind, StructuredOutput, Unknown};
use crate::research::{ENGINE, GATEWAY, ReportLimits, ResearchEntry};
use crate::snapshot::Snapshot;
use crate::template::{self, TemplateEntry};
use crate::voice::{self, VoiceStages};

/// Prices in the configuration: credits per 1,000,000 units by class, as decimal strings.
pub type PricesEntry = BTreeMap<String, Credits>;

/// A `[models."maker/name"]` block. Missing settings are inherited from the records of its targets;
/// with several targets, from the values that they share. Prices and media factors are not
/// inherited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelEntry {
    /// Targets of the model: `"provider/model"`, or a table with a weight. A block without targets
    /// changes settings of a model in the default catalog.
    pub targets: Vec<TargetEntry>,
    /// Kind of the model. Default: the kind in the targets' records, else `chat`.
    #[serde(rename = "type")]
    pub kind: Option<ModelKind>,
    /// Credits per 1,000,000 units by price class.
    pub prices: Option<PricesEntry>,
    /// Context window, maximum number of output tokens, and vector length.
    pub limits: LimitsEntry,
    /// Media parameters of an image or video model.
    pub media: Option<MediaEntry>,
    /// Models and sources of a research model that the gateway executes.
    pub research: Option<ResearchEntry>,
    /// Models of the stages of a voice model that the gateway executes.
    pub voice: Option<VoiceStages>,
    /// Whether the provider transcribes audio while it arrives. Default: whether the names of all
    /// targets contain the word `live` or `realtime`.
    pub live: Option<bool>,
    /// Name for display; not unique.
    pub display_name: Option<String>,
    /// Release date as an ISO 8601 date.
    pub release_date: Option<String>,
    /// Kinds of content that the model accepts.
    pub input: Option<Vec<Modality>>,
    /// Strictest structured output that the model supports.
    pub structured_output: Option<StructuredOutput>,
    /// Whether the model calls tools.
    pub tools: Option<bool>,
    /// Whether the model reasons before it answers.
    pub reasoning: Option<bool>,
    /// Control of reasoning in requests. This and the next three settings have the same default:
    /// the value in the row of the default catalog that the target is a version of.
    pub reasoning_control: Option<ReasoningControl>,
    /// Reasoning efforts that the model accepts.
    pub reasoning_efforts: Option<Vec<Effort>>,
    /// Whether the model accepts system messages within the conversation.
    pub system_turns: Option<bool>,
    /// Whether the model accepts `temperature`, `top_p` and `top_k`.
    pub sampling: Option<bool>,
    /// Tokenizer of the model. Default: that of the model in the default catalog that the targets
    /// are versions of.
    pub tokenizer: Option<Tokenizer>,
    /// Tokens that the provider adds around the messages.
    pub framing: Option<Framing>,
    /// Whether requests can use the model.
    pub enabled: Option<bool>,
}

/// Limits of a model, in tokens unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsEntry {
    /// Maximum number of input and output tokens together.
    pub context_window: Option<u64>,
    /// Maximum number of output tokens of a response.
    pub max_output_tokens: Option<u64>,
    /// Maximum length of the vectors of an embedding model.
    pub dimensions: Option<u64>,
    /// Input tokens that the hold of a report of a provider's own research model pays for.
    pub max_input: Option<u64>,
    /// Output tokens that the hold of such a report pays for, including reasoning.
    pub max_output: Option<u64>,
    /// Searches that the hold of such a report pays for.
    pub max_searches: Option<u64>,
}

/// A target of a model: a provider, the model's name there, and an optional weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TargetEntry {
    /// A text such as `"provider/model"`, without a weight.
    Short(String),
    /// A table, which may have a weight.
    Long {
        /// Name of the provider's block.
        provider: String,
        /// The model's name at the provider.
        model: String,
        /// Relative share of the traffic. Targets without a weight are fallbacks of those with one.
        weight: Option<u32>,
    },
}

impl TargetEntry {
    /// Returns the provider, the model's name there and the weight; `None` for a text without a
    /// provider or a model.
    fn parts(&self) -> Option<(&str, &str, Option<u32>)> {
        match self {
            TargetEntry::Short(text) => {
                let (provider, model) = text.split_once('/')?;
                (!model.is_empty()).then_some((provider, model, None))
            }
            TargetEntry::Long {
                provider,
                model,
                weight,
            } => Some((provider, model, *weight)),
        }
    }
}

impl fmt::Display for TargetEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetEntry::Short(text) => f.write_str(text),
            TargetEntry::Long { provider, model, .. } => write!(f, "{provider}/{model}"),
        }
    }
}

/// A provider that requests can be routed to.
#[derive(Clone, Debug)]
pub struct EnabledProvider {
    /// Name of its configuration block.
    pub name: String,
    /// Name of its preset: the key of `upstream` in the data files.
    pub preset: String,
    /// Whether its responses are simulated.
    pub simulated: bool,
    /// Price of its models that have no other price. If `None`, listed models without a price are
    /// not added, and a block without a price is an error.
    pub default_price: Option<PricesEntry>,
    /// Models in the list that the provider returned.
    pub discovered: Vec<Discovered>,
}

/// A model in a provider's list, with the properties that the list reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The model's name at the provider.
    pub name: String,
    /// Maximum number of input and output tokens together.
    pub context_window: Option<u64>,
    /// Maximum number of output tokens of a response.
    pub max_output_tokens: Option<u64>,
    /// Kinds of content that the model accepts; `None` if the list does not report them.
    pub input: Option<Vec<Modality>>,
}

/// All inputs of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct CatalogInput {
    /// Enabled providers in the order of the configuration. Of several providers, the first one
    /// claims a bare name.
    pub providers: Vec<EnabledProvider>,
    /// Reason for each configured provider that is not enabled, by the name of its block.
    pub unavailable: BTreeMap<String, String>,
    /// `[models.…]` blocks by model id.
    pub models: BTreeMap<String, ModelEntry>,
    /// `[aliases]`: model id by alias.
    pub aliases: BTreeMap<String, String>,
    /// For each plan, the patterns of the model ids that it covers; `*` matches any text.
    pub plans: BTreeMap<String, Vec<String>>,
    /// `[templates.…]` blocks by slug.
    pub templates: BTreeMap<String, TemplateEntry>,
    /// Roles and sources of research models that do not set their own.
    pub research: ResearchEntry,
}

/// An invalid configuration; the path names the faulty block.
#[derive(Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Path of the setting, such as `models."acme/large".targets[0]`.
    pub path: String,
    /// Description of the fault, and how to fix it.
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

/// Builds a snapshot. A configured block takes precedence over the default catalog, and the default
/// catalog over the providers' lists.
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
    let rows_and_listed = rows
        .iter()
        .map(|row| row.id.clone())
        .chain(models.keys().cloned());
    let known: HashSet<String> = rows_and_listed.collect();
    // Blocks with the provider's own model name come first: other blocks inherit from them.
    let (own, others): (Vec<_>, Vec<_>) = input.models.iter().partition(|(id, entry)| {
        let candidates = entry.targets.iter().filter_map(TargetEntry::parts);
        let candidates: Vec<_> = candidates
            .map(|(provider, model, _)| Candidate::new(provider, model, None))
            .collect();
        is_original(id, &candidates, &known)
    });
    for (id, entry) in own.into_iter().chain(others) {
        apply_entry(id, entry, input, &rows, &mut models)?;
    }
    for model in models.values_mut() {
        let stated = input.models.get(&*model.id).and_then(|entry| entry.live);
        model.live = stated.unwrap_or_else(|| model.has_live_names());
        versions::follow(model, input, &rows);
        versions::set_abilities(model, input, &rows);
    }
    aliases.extend(input.aliases.clone());
    voice::complete(&mut models, &aliases).or_else(|error| {
        fault(
            format!("models.\"{}\".voice.{}", error.id, error.stage),
            error.message,
        )
    })?;
    index(models, aliases, &known, input)
}

fn from_builtin(row: &BuiltinModel, input: &CatalogInput) -> Result<Option<Model>, LoadError> {
    let candidates: Vec<Candidate> = input
        .providers
        .iter()
        .filter_map(|provider| {
            let upstream_model = row.upstream.get(&provider.preset)?;
            Some(Candidate::new(&provider.name, upstream_model, None))
        })
        .collect();
    let Some(prices) = &row.prices else {
        return Ok(None);
    };
    if candidates.is_empty() {
        return Ok(None);
    }
    let research = match is_engine(&candidates) {
        true => match ResearchEntry::default().roles(&input.research) {
            Some(roles) => Some(Arc::new(roles)),
            None => return Ok(None),
        },
        false => None,
    };
    let simulated = is_simulated(&candidates, input);
    let prices = parse_prices(&format!("default catalog: {}", row.id), prices)?;
    let media = read_media(&format!("default catalog: {}", row.id), row.media.as_ref())?;
    Ok(Some(Model {
        media,
        research,
        ..builtin_model(row, prices, candidates, simulated)
    }))
}

/// Whether the gateway executes the model with models of the catalog.
fn is_engine(candidates: &[Candidate]) -> bool {
    let mut candidates = candidates.iter();
    candidates.any(|candidate| (&*candidate.provider, &*candidate.upstream_model) == (GATEWAY, ENGINE))
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
        unknown: Unknown::default(),
        tools: row.tools,
        reasoning: row.reasoning,
        tokenizer: row.tokenizer,
        framing: row.framing,
        simulated,
        prices,
        price_version: price_version(&row.id, &prices),
        not_covered_by: Arc::default(),
        media: media::unknown(),
        research: None,
        report: row.report,
        voice: row.voice.clone().map(Arc::new),
        live: false,
        candidates,
    }
}

fn add_discovered(provider: &EnabledProvider, models: &mut BTreeMap<String, Model>) -> Result<(), LoadError> {
    let Some(prices) = &provider.default_price else {
        return Ok(());
    };
    let prices = parse_prices(&format!("providers.{}.default_price", provider.name), prices)?;
    for found in &provider.discovered {
        let name = &found.name;
        let id = format!("{}/{name}", provider.name);
        let candidates = vec![Candidate::new(&provider.name, name, None)];
        let mut model = unknown_model(&id, name, prices, candidates, provider.simulated);
        set_kind(&mut model, ModelKind::of_name(name));
        apply_listings(&mut model, &[found], true);
        models.entry(id).or_insert(model);
    }
    Ok(())
}

/// Returns a model whose targets alone are known. Its record claims no input besides text and
/// no structured output; requests for them reach the provider, which may reject them.
fn unknown_model(id: &str, name: &str, prices: Prices, candidates: Vec<Candidate>, simulated: bool) -> Model {
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
        unknown: Unknown {
            input: true,
            structured_output: true,
        },
        tools: true,
        reasoning: false,
        tokenizer: None,
        framing: None,
        simulated,
        prices,
        price_version: price_version(id, &prices),
        not_covered_by: Arc::default(),
        media: media::unknown(),
        research: None,
        report: None,
        voice: None,
        live: false,
        candidates,
    }
}

/// Applies the limits and inputs in the providers' lists. Of each limit that the model lacks, the
/// smallest applies, since any candidate may serve a request. If `is_unknown`, a chat model accepts
/// the union of the listed inputs, provided that the lists of all candidates report them.
fn apply_listings(model: &mut Model, listed: &[&Discovered], is_unknown: bool) {
    let smallest =
        |limit: fn(&Discovered) -> Option<u64>| listed.iter().filter_map(|found| limit(found)).min();
    model.context_window = model
        .context_window
        .or_else(|| smallest(|found| found.context_window));
    model.max_output_tokens = model
        .max_output_tokens
        .or_else(|| smallest(|found| found.max_output_tokens));
    let reported: Option<Vec<&Vec<Modality>>> = listed.iter().map(|found| found.input.as_ref()).collect();
    let is_complete = !listed.is_empty() && listed.len() == model.candidates.len();
    if let (Some(reported), true, ModelKind::Chat) = (reported, is_unknown && is_complete, model.kind) {
        let takes = |modality: &Modality| reported.iter().any(|list| list.contains(modality));
        model.input.retain(takes);
        model.unknown.input = false;
    }
}

/// Returns the entries of the model's candidates in their providers' lists.
fn listings<'i>(candidates: &[Candidate], input: &'i CatalogInput) -> Vec<&'i Discovered> {
    let of = |candidate: &Candidate| {
        let mut providers = input.providers.iter();
        let provider = providers.find(|provider| *provider.name == *candidate.provider)?;
        let mut found = provider.discovered.iter();
        found.find(|found| *found.name == *candidate.upstream_model)
    };
    candidates.iter().filter_map(of).collect()
}

/// Changes the kind of a model, and resets its input, output and abilities to that kind's defaults.
fn set_kind(model: &mut Model, kind: ModelKind) {
    if model.kind == kind {
        return;
    }
    let is_chat = kind == ModelKind::Chat;
    model.kind = kind;
    model.unknown = Unknown {
        input: is_chat,
        structured_output: is_chat,
    };
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
    let mut targets = parse_targets(&path, entry, input)?;
    if entry.research.is_some() {
        check_research(&path, entry)?;
        targets = vec![engine_target(&path, input)?];
    }
    if entry.voice.is_some() {
        check_voice(&path, entry)?;
    }
    let listed = entry
        .prices
        .as_ref()
        .map(|prices| parse_prices(&format!("{path}.prices"), prices))
        .transpose()?;
    let row = rows.iter().find(|row| row.id == id);
    let mut is_unknown = false;
    let mut model = match (models.remove(id), row) {
        (Some(model), _) => model,
        (None, _) if targets.is_empty() && entry.voice.is_none() => {
            return fault(
                path,
                "no enabled provider serves this model: add targets = [\"provider/model\"]",
            );
        }
        (None, row) => {
            let prices = match (listed, row.and_then(|row| row.prices.as_ref())) {
                (Some(prices), _) => prices,
                (None, Some(prices)) => parse_prices(&path, prices)?,
                (None, None) if entry.research.is_some() => Prices::free(),
                (None, None) => default_prices(&path, &targets, input)?,
            };
            let simulated = is_simulated(&targets, input);
            match row {
                Some(row) => Model {
                    media: read_media(&path, row.media.as_ref())?,
                    // The model behind the block's targets may have another tokenizer.
                    tokenizer: None,
                    framing: None,
                    ..builtin_model(row, prices, targets.clone(), simulated)
                },
                None => {
                    is_unknown = true;
                    let mut model = unknown_model(id, id, prices, targets.clone(), simulated);
                    inherit::from_targets(&mut model, &inherit::records(&targets, input, rows, models)?);
                    model
                }
            }
        }
    };
    if !targets.is_empty() && model.candidates != targets {
        model.simulated = is_simulated(&targets, input);
        model.candidates = targets;
        // The model behind the new targets may have another tokenizer.
        (model.tokenizer, model.framing) = (None, None);
    }
    if let Some(prices) = listed {
        model.prices = prices;
        model.price_version = price_version(id, &prices);
    }
    if let Some(research) = &entry.research {
        let Some(roles) = research.roles(&input.research) else {
            return fault(
                format!("{path}.research"),
                "name the chat model that writes: add writer = \"openai/gpt-5\" here or in [research]",
            );
        };
        model.research = Some(Arc::new(roles));
    }
    if let Some(voice) = &entry.voice {
        set_kind(&mut model, ModelKind::Realtime);
        model.voice = Some(Arc::new(voice.clone()));
        model.candidates.clear();
    }
    if let Some(media) = &entry.media {
        model.media = read_media(&path, Some(&media.or(&model.media.entry)))?;
    }
    check_limits(&path, entry)?;
    override_facts(&mut model, entry);
    check_live(&path, entry, &model)?;
    model.report = report_limits(&path, &entry.limits, &model)?;
    let facts = listings(&model.candidates, input);
    let takes_unknown = is_unknown && model.unknown.input && entry.input.is_none();
    apply_listings(&mut model, &facts, takes_unknown);
    models.insert(id.to_owned(), model);
    Ok(())
}

/// Rejects live transcription of a model of another type.
fn check_live(path: &str, entry: &ModelEntry, model: &Model) -> Result<(), LoadError> {
    match entry.live == Some(true) && model.kind != ModelKind::Transcription {
        true => fault(
            format!("{path}.live"),
            "only a model of the type \"transcription\" can have 'live'",
        ),
        false => Ok(()),
    }
}

/// Rejects settings that a research model of the gateway does not have.
fn check_research(path: &str, entry: &ModelEntry) -> Result<(), LoadError> {
    let wrong = |name: &str, message: &str| fault(format!("{path}.{name}"), message);
    if entry.kind.is_some_and(|kind| kind != ModelKind::Research) {
        return wrong("type", "a model with 'research' has the type \"research\"");
    }
    if !entry.targets.is_empty() {
        return wrong(
            "targets",
            "a model with 'research' has no targets: the gateway executes it",
        );
    }
    if entry.prices.is_some() {
        return wrong(
            "prices",
            "a model with 'research' has no prices: its cost is that of the models in its roles",
        );
    }
    Ok(())
}

/// Rejects settings that a voice model of the gateway does not have, and missing prices.
fn check_voice(path: &str, entry: &ModelEntry) -> Result<(), LoadError> {
    let wrong = |name: &str, message: &str| fault(format!("{path}.{name}"), message);
    if entry.kind.is_some_and(|kind| kind != ModelKind::Realtime) {
        return wrong("type", "a model with 'voice' has the type \"realtime\"");
    }
    if entry.research.is_some() {
        return wrong("research", "a model has either 'research' or 'voice'");
    }
    if !entry.targets.is_empty() {
        return wrong(
            "targets",
            "a model with 'voice' has no targets: the gateway executes it",
        );
    }
    if entry.prices.is_none() {
        return wrong(
            "prices",
            "a model with 'voice' has its own prices: add prices = { input = \"1\", output = \"4\", \
             input_audio = \"10\", output_audio = \"20\" }",
        );
    }
    Ok(())
}

fn engine_target(path: &str, input: &CatalogInput) -> Result<Candidate, LoadError> {
    match input.providers.iter().any(|enabled| enabled.name == GATEWAY) {
        true => Ok(Candidate::new(GATEWAY, ENGINE, None)),
        false => fault(
            format!("{path}.research"),
            "the model has no sources: add a section [search.NAME] or [corpora.NAME]",
        ),
    }
}

/// Returns the limits of a report if a provider's own model writes it: those of the block, else
/// those of the record.
fn report_limits(path: &str, limits: &LimitsEntry, model: &Model) -> Result<Option<ReportLimits>, LoadError> {
    let path = format!("{path}.limits");
    let set = [
        ("max_input", limits.max_input),
        ("max_output", limits.max_output),
        ("max_searches", limits.max_searches),
    ];
    let mut candidates = model.candidates.iter();
    let is_own = candidates.any(|candidate| &*candidate.provider == GATEWAY);
    if model.kind != ModelKind::Research || model.simulated || is_own {
        return match set.into_iter().find(|(_, limit)| limit.is_some()) {
            Some((name, _)) => fault(
                format!("{path}.{name}"),
                "only research models of providers have this limit; remove it",
            ),
            None => Ok(None),
        };
    }
    let own = |limit: Option<u64>, known: fn(&ReportLimits) -> u64| {
        limit
            .or_else(|| model.report.as_ref().map(known))
            .filter(|limit| *limit > 0)
    };
    let limits = (
        own(limits.max_input, |known| known.max_input),
        own(limits.max_output, |known| known.max_output),
        own(limits.max_searches, |known| known.max_searches),
    );
    match limits {
        (Some(max_input), Some(max_output), Some(max_searches)) => Ok(Some(ReportLimits {
            max_input,
            max_output,
            max_searches,
        })),
        _ => fault(
            path,
            "a research model of a provider needs the maximum consumption of a report: \
             add limits = { max_input = 500000, max_output = 100000, max_searches = 100 }",
        ),
    }
}

/// Rejects a `max_output_tokens` that exceeds the configured context window.
fn check_limits(path: &str, entry: &ModelEntry) -> Result<(), LoadError> {
    match (entry.limits.max_output_tokens, entry.limits.context_window) {
        (Some(output), Some(window)) if output > window => fault(
            format!("{path}.limits"),
            format!(
                "max_output_tokens ({output}) is larger than context_window ({window}), which holds input and output"
            ),
        ),
        _ => Ok(()),
    }
}

fn override_facts(model: &mut Model, entry: &ModelEntry) {
    set_kind(model, entry.kind.unwrap_or(model.kind));
    model.dimensions = entry.limits.dimensions.or(model.dimensions);
    model.context_window = entry.limits.context_window.or(model.context_window);
    model.max_output_tokens = entry.limits.max_output_tokens.or(model.max_output_tokens);
    if let Some(structured_output) = entry.structured_output {
        model.structured_output = structured_output;
        model.unknown.structured_output = false;
    }
    model.tools = entry.tools.unwrap_or(model.tools);
    model.reasoning = entry.reasoning.unwrap_or(model.reasoning);
    if entry.tokenizer.is_some() {
        // The known framing belongs to another tokenizer.
        (model.tokenizer, model.framing) = (entry.tokenizer, None);
    }
    model.framing = entry.framing.or(model.framing);
    if let Some(name) = &entry.display_name {
        model.display_name.clone_from(name);
    }
    if let Some(date) = &entry.release_date {
        model.release_date = Some(date.clone()).filter(|date| date != "-");
    }
    if let Some(input) = &entry.input {
        model.input.clone_from(input);
        model.unknown.input = false;
    }
}

fn check_id(path: &str, id: &str) -> Result<(), LoadError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._/:@+".contains(c);
    if id.is_empty() || id.len() > 128 || !id.chars().all(allowed) {
        return fault(
            path,
            "an id must have 1 to 128 letters, digits and - . _ / : @ +, such as \"acme/large\"",
        );
    }
    Ok(())
}

fn parse_targets(path: &str, entry: &ModelEntry, input: &CatalogInput) -> Result<Vec<Candidate>, LoadError> {
    let mut candidates = Vec::new();
    for (position, target) in entry.targets.iter().enumerate() {
        let path = format!("{path}.targets[{position}]");
        let Some((provider, model, weight)) = target.parts() else {
            return fault(
                path,
                format!("'{target}' is not a target: use \"provider/model\""),
            );
        };
        if weight == Some(0) {
            return fault(
                path,
                "the weight must be at least 1; to disable the target, remove it",
            );
        }
        if !input.providers.iter().any(|enabled| enabled.name == provider) {
            let known: Vec<&str> = input
                .providers
                .iter()
                .map(|enabled| enabled.name.as_str())
                .collect();
            let message = match input.unavailable.get(provider) {
                Some(why) => format!("the provider '{provider}' is not enabled: {why}"),
                None => format!(
                    "no enabled provider is named '{provider}'; enabled providers: {}",
                    known.join(", ")
                ),
            };
            return fault(path, message);
        }
        candidates.push(Candidate::new(provider, model, weight));
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
        // If a price per token is written instead of a price per million, or the reverse, it is
        // wrong by a factor of 1,000,000.
        if *price < Credits::ZERO || price.nanos() > 1_000_000 * tollgate_types::money::NANOS_PER_CREDIT {
            return fault(
                format!("{path}.{name}"),
                "a price must be 0 to 1,000,000 credits (per 1,000,000 tokens or characters, per image, per second, or per query)",
            );
        }
        prices = prices
            .with_named(name, *price)
            .or_else(|error| fault(format!("{path}.{name}"), error.to_string()))?;
    }
    let has_one = |unit: Unit| prices.listed(unit).is_some();
    if !has_one(Unit::Input) && !Unit::NON_TOKENS.into_iter().any(has_one) {
        let message = "set a price for input (\"0\" if it is free), or a price for image, video, audio, character or search";
        return fault(path, message);
    }
    Ok(prices)
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

/// Returns the version of a model's prices: a hash of its id and the prices.
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

/// Model id of a composition: one call that several models served. No catalog contains it, and it
/// has no price. Its cost is the sum of the costs of its parts, each at the prices of its model.
pub const COMPOSITION: &str = "compose";

/// Returns the price version of a composition; all its prices are zero.
pub fn composition_version() -> PriceVersion {
    price_version(COMPOSITION, &Prices::free())
}

fn index(
    models: BTreeMap<String, Model>,
    aliases: BTreeMap<String, String>,
    known: &HashSet<String>,
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
                format!("the model '{id}' does not exist"),
            );
        }
    }
    let is_original = |model: &Model| is_original(&model.id, &model.candidates, known);
    let collisions = names::add_bare(&mut by_name, &models, &input.providers, is_original);
    let mut default_model = HashMap::new();
    for provider in &input.providers {
        let serves = |model: &&Arc<Model>| model.candidates.iter().any(|one| *one.provider == *provider.name);
        for model in models.iter().filter(serves) {
            default_model
                .entry(model.kind)
                .or_insert_with(|| model.id.clone());
        }
    }
    Ok(Snapshot::new(
        models,
        by_name,
        default_model,
        template::load(&input.templates)?.into(),
        collisions,
    ))
}

/// Whether the model exists without its `[models]` block, or the block has the provider's own name
/// of the model (`provider/model`).
fn is_original(id: &str, candidates: &[Candidate], known: &HashSet<String>) -> bool {
    let is_named_there = |candidate: &Candidate| {
        let bare = id
            .strip_prefix(&*candidate.provider)
            .and_then(|rest| rest.strip_prefix('/'));
        bare == Some(&*candidate.upstream_model)
    };
    known.contains(id) || candidates.iter().any(is_named_there)
}

mod inherit;
mod names;
mod versions;

#[cfg(test)]
mod tests;
