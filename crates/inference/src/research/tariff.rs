//! Prices a report before its acceptance: routes the models of its stages, and computes the maximum
//! cost of each call.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_accounts::Caller;
use tollgate_billing::{AgreedPrices, Demand, Item, Step, StepItem, quote};
use tollgate_catalog::{Model, ModelKind};
use tollgate_pipeline::{DecisionInput, Pipeline, Routed};
use tollgate_types::decide::State;
use tollgate_types::{Credits, Error, ErrorCode, KeyRights, Unit, Usage};

use super::bounds::{
    Bounds, CallBound, JUDGE_INPUT, PLANNER_INPUT, PLANNER_OUTPUT, READER_INPUT, READER_OUTPUT, Stage,
    WRITER_INPUT, add, section_tokens,
};
use super::cast::{Cast, QUERY, StageModel};
use super::effort::Caps;
use super::engine::prompts;
use super::relay::RelayOrder;
use crate::decisions::input_demand;

/// Additional output of a model that reasons before it answers, in tokens.
const REASONING_TOKENS: u64 = 4_096;
/// Number of bytes of a prompt that fit in one token of a model's context window. Most prompts have
/// more bytes a token.
const BYTES_PER_WINDOW_TOKEN: u64 = 3;

/// Models, prices and maximum sizes of a report.
pub(super) struct Tariff {
    pub(super) cast: Cast,
    /// Plans whose allowances cannot pay for the report, because they exclude one of its models.
    pub(super) not_covered_by: Arc<[Arc<str>]>,
    own: Arc<Model>,
    /// Names of the backends.
    backends: Vec<String>,
    roles: BTreeMap<Stage, Role>,
    /// Maximum consumption of a report that a provider's own model writes; `None` for the engine.
    relayed: Option<Usage>,
}

/// The model of a stage.
struct Role {
    prompt_bytes: u64,
    /// Kinds of calls, with their demand at the maximum size of the prompt.
    calls: Vec<(Routed, Demand)>,
}

/// A call at its maximum size, with the items of its cost.
struct Priced {
    bound: CallBound,
    items: Vec<Item>,
}

impl Tariff {
    /// Routes the models of a report. `backends` are the search backends with their own prices, if
    /// they have any.
    pub(super) fn new(
        pipeline: &Pipeline,
        caller: &Caller,
        routed: &Routed,
        backends: &[(String, Option<StageModel>)],
    ) -> Result<Self, Error> {
        let own = routed.model.clone();
        let mut cast = Cast {
            own: stage_model(&routed.public_model, &own),
            stages: BTreeMap::new(),
            searches: BTreeMap::new(),
        };
        for (name, model) in backends {
            if let Some(model) = model {
                cast.searches.insert(name.clone(), model.clone());
            }
        }
        let mut plans: Vec<Arc<str>> = own.not_covered_by.to_vec();
        let mut roles = BTreeMap::new();
        if let Some(named) = &own.research {
            let judge = named.judge.as_ref().map(|judge| (Stage::Judge, judge));
            let models = [
                (Stage::Plan, &named.planner),
                (Stage::Read, &named.reader),
                (Stage::Write, &named.writer),
            ];
            for (stage, name) in models.into_iter().chain(judge) {
                let role =
                    role(pipeline, caller, stage, name).map_err(|error| broken(stage, name, &error))?;
                if let Some((routed, _)) = role.calls.first() {
                    cast.stages.insert(stage, stage_model(name, &routed.model));
                    plans.extend(routed.model.not_covered_by.iter().cloned());
                }
                roles.insert(stage, role);
            }
        }
        plans.sort();
        plans.dedup();
        Ok(Self {
            cast,
            not_covered_by: plans.into(),
            own,
            backends: backends.iter().map(|(name, _)| name.clone()).collect(),
            roles,
            relayed: None,
        })
    }

    /// Returns the tariff of a report that a provider's own model writes, with this consumption at
    /// most.
    pub(super) fn of_relay(routed: &Routed, order: &RelayOrder) -> Self {
        let own = routed.model.clone();
        Self {
            cast: Cast {
                own: stage_model(&routed.public_model, &own),
                stages: BTreeMap::new(),
                searches: BTreeMap::new(),
            },
            not_covered_by: own.not_covered_by.clone(),
            relayed: Some(order.max_usage(&own.prices)),
            own,
            backends: Vec::new(),
            roles: BTreeMap::new(),
        }
    }

    /// Returns the bounds of the largest report within `caps` whose maximum cost is at most
    /// `max_cost`; the smallest possible cost if there is none.
    pub(super) fn fit(
        &self,
        mut caps: Caps,
        max_output_tokens: u64,
        max_cost: Option<Credits>,
    ) -> Result<Bounds, Credits> {
        loop {
            let bounds = self.bounds(caps, max_output_tokens);
            if max_cost.is_none_or(|max| bounds.total() <= max) {
                return Ok(bounds);
            }
            let reduced = caps.reduced().filter(|_| self.relayed.is_none());
            caps = reduced.ok_or_else(|| bounds.total())?;
        }
    }

    fn bounds(&self, caps: Caps, max_output_tokens: u64) -> Bounds {
        let calls = self.stages().filter_map(|stage| {
            let priced = self.priced(stage, section_tokens(caps, max_output_tokens));
            Some((stage, priced?.bound))
        });
        Bounds {
            caps,
            max_output_tokens,
            calls: calls.collect(),
        }
    }

    /// Returns the items of a quote.
    pub(super) fn items(&self, bounds: &Bounds) -> Vec<StepItem> {
        let mut items = Vec::new();
        for stage in self.stages() {
            let Some(priced) = self.priced(stage, bounds.section_tokens()) else {
                continue;
            };
            let step = |model: &str| Step {
                name: stage.as_str().to_owned(),
                model: model.to_owned(),
            };
            let model = &self.cast.stage(stage).model;
            for item in priced.items {
                let quantity = item.quantity.saturating_mul(bounds.count(stage));
                let item = Item { quantity, ..item };
                items.push(StepItem {
                    step: Some(step(model)),
                    item,
                });
            }
        }
        items
    }

    fn stages(&self) -> impl Iterator<Item = Stage> {
        let has_judge = self.roles.contains_key(&Stage::Judge);
        let is_relay = self.relayed.is_some();
        Stage::ALL.into_iter().filter(move |stage| match stage {
            Stage::Report => is_relay,
            Stage::Judge => has_judge,
            _ => !is_relay,
        })
    }

    /// Returns the maximum of one call of a stage; `None` for a stage without calls.
    fn priced(&self, stage: Stage, section_tokens: u64) -> Option<Priced> {
        if stage == Stage::Search {
            return Some(self.priced_search());
        }
        match self.roles.get(&stage) {
            Some(role) => role.priced(output(stage, section_tokens)),
            None => {
                let usage = Usage::tokens(input(stage), output(stage, section_tokens));
                Some(self.priced_by_own(stage, self.relayed.unwrap_or(usage)))
            }
        }
    }

    fn priced_search(&self) -> Priced {
        let costs = self.backends.iter().map(|name| self.cast.query_cost(name));
        let items = self.backends.iter().map(|name| Item {
            unit: Unit::Search,
            quantity: QUERY,
            price: self.cast.query_cost(name),
        });
        Priced {
            bound: CallBound {
                usage: Usage::ZERO.with(Unit::Search, QUERY * self.backends.len() as u64),
                prompt_bytes: 0,
                cost: costs.fold(Credits::ZERO, add),
            },
            items: items.collect(),
        }
    }

    fn priced_by_own(&self, stage: Stage, usage: Usage) -> Priced {
        let prices = &self.own.prices;
        let items = usage.iter().map(|(unit, quantity)| Item {
            unit,
            quantity,
            price: prices.per_million(unit),
        });
        Priced {
            items: items.collect(),
            bound: CallBound {
                cost: prices.cost(&usage),
                prompt_bytes: input(stage),
                usage,
            },
        }
    }
}

impl Role {
    /// Returns the most expensive kind of call with this maximum output.
    fn priced(&self, output: u64) -> Option<Priced> {
        let priced = self.calls.iter().map(|(routed, demand)| {
            let model = &routed.model;
            let max_tokens = max_tokens(model, output);
            let is_input_only = demand.is_input_only();
            let demand = routed.demand(Demand {
                max_tokens: if is_input_only { Some(0) } else { Some(max_tokens) },
                ..*demand
            });
            let quote = quote(model, &demand);
            let items = quote.items(model, &demand);
            let usage = items.iter().fold(Usage::ZERO, |usage, item| {
                usage.with(item.unit, usage.get(item.unit).saturating_add(item.quantity))
            });
            Priced {
                bound: CallBound {
                    usage,
                    prompt_bytes: self.prompt_bytes,
                    cost: quote.amount,
                },
                items,
            }
        });
        priced.max_by_key(|priced| priced.bound.cost)
    }
}

/// Returns the maximum input of a stage, in bytes.
fn input(stage: Stage) -> u64 {
    match stage {
        Stage::Plan => PLANNER_INPUT,
        Stage::Read => READER_INPUT,
        Stage::Write => WRITER_INPUT,
        Stage::Judge => JUDGE_INPUT,
        Stage::Search | Stage::Report => 0,
    }
}

/// Returns the maximum output of a stage, in tokens.
fn output(stage: Stage, section_tokens: u64) -> u64 {
    match stage {
        Stage::Plan => PLANNER_OUTPUT,
        Stage::Read => READER_OUTPUT,
        Stage::Write => section_tokens,
        Stage::Judge | Stage::Search | Stage::Report => 0,
    }
}

/// Returns the output limit of a call, in tokens. Reasoning counts as output.
pub(super) fn max_tokens(model: &Model, output: u64) -> u64 {
    let reasoning = if model.reasoning { REASONING_TOKENS } else { 0 };
    let ceiling = model.output_ceiling().unwrap_or(u64::MAX);
    let half_window = model.context_window.map_or(u64::MAX, |window| window / 2);
    output.saturating_add(reasoning).min(ceiling).min(half_window)
}

fn stage_model(name: &str, model: &Model) -> StageModel {
    StageModel {
        model: name.to_owned(),
        prices: AgreedPrices::new(model.price_version, &model.prices),
    }
}

/// Routes the model of a stage. The rights of the caller's key do not apply: the operator has
/// chosen the model.
fn role(pipeline: &Pipeline, caller: &Caller, stage: Stage, name: &str) -> Result<Role, Error> {
    let operator = Caller {
        rights: KeyRights::default(),
        ..caller.clone()
    };
    if stage == Stage::Judge {
        return judge(pipeline, &operator, name);
    }
    let mut prompt_bytes = input(stage);
    let mut calls = Vec::new();
    for prompt in prompts::of(stage) {
        let mut routed = pipeline.route(&operator, name)?;
        if routed.model.kind != ModelKind::Chat {
            return Err(Error::internal("the model is not a chat model"));
        }
        if let Some(window) = routed.model.context_window {
            let output = max_tokens(&routed.model, prompt.max_tokens);
            let free = window
                .saturating_sub(output)
                .saturating_mul(BYTES_PER_WINDOW_TOKEN);
            prompt_bytes = prompt_bytes.min(free);
        }
        let call = prompt.call(&mut routed)?;
        let demand = prompt.demand(&call);
        calls.push((routed, demand));
    }
    for (_, demand) in &mut calls {
        demand.text_bytes = demand.text_bytes.saturating_add(prompt_bytes);
    }
    Ok(Role { prompt_bytes, calls })
}

fn judge(pipeline: &Pipeline, operator: &Caller, name: &str) -> Result<Role, Error> {
    let mut routed = pipeline.route(operator, name)?;
    if !matches!(routed.model.kind, ModelKind::Decision | ModelKind::Chat) {
        return Err(Error::internal("the model does not support decisions"));
    }
    routed.retain_deciders(&State {
        text: String::new(),
        media: Vec::new(),
    })?;
    let demand = input_demand(&DecisionInput {
        state: JUDGE_INPUT,
        ..DecisionInput::default()
    });
    Ok(Role {
        prompt_bytes: JUDGE_INPUT,
        calls: vec![(routed, demand)],
    })
}

/// Returns the error for a research model with an unusable model in one of its roles.
fn broken(stage: Stage, name: &str, error: &Error) -> Error {
    let stage = stage.as_str();
    tracing::error!(stage, model = name, error = %error.operator_message(), "a research model cannot use the model of this stage");
    let message = "One of the models that this research model uses is not available. Retry later; if it persists, contact support.";
    Error::new(ErrorCode::ModelUnavailable, message)
}
