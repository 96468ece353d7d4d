//! Stage 1: from a model's name to the candidates that may serve it, in the order in which they are tried.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_accounts::Caller;
use tollgate_catalog::{Candidate, Model};
use tollgate_types::generate::{GenerateRequest, ResponseFormat};
use tollgate_types::{Error, ErrorCode, Format};
use tollgate_upstream::Provider;

use crate::Pipeline;
use crate::structured::Structured;

/// Providers by the name of their configuration block. A reload replaces them as a whole.
#[derive(Default)]
pub struct Providers {
    current: ArcSwap<HashMap<Arc<str>, Arc<dyn Provider>>>,
}

impl Providers {
    /// These providers.
    pub fn new(providers: HashMap<Arc<str>, Arc<dyn Provider>>) -> Self {
        Self {
            current: ArcSwap::from_pointee(providers),
        }
    }

    /// Replaces them.
    pub fn replace(&self, providers: HashMap<Arc<str>, Arc<dyn Provider>>) {
        self.current.store(Arc::new(providers));
    }

    /// The provider with this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.current.load().get(name).cloned()
    }

    /// Every provider.
    pub fn all(&self) -> Vec<Arc<dyn Provider>> {
        self.current.load().values().cloned().collect()
    }
}

/// A candidate with the provider behind it.
#[derive(Clone)]
pub struct Route {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The candidate.
    pub candidate: Candidate,
}

/// A model that was found, and how it can be reached.
pub struct Routed {
    /// The model.
    pub model: Arc<Model>,
    /// The model as the caller named it; answers carry it.
    pub public_model: Arc<str>,
    /// The shape that answers must have, when no candidate can be made to keep it.
    pub structured: Option<Arc<Structured>>,
    /// Whether its answer is there already. What decides if a call may be made was asked before.
    pub is_answered: bool,
    /// In the order in which they are tried; never empty.
    pub(crate) routes: Vec<Route>,
}

impl Routed {
    /// The provider that is tried first.
    pub fn first_provider(&self) -> Option<&dyn Provider> {
        self.routes.first().map(|route| &*route.provider)
    }

    /// Whether every candidate takes bodies of this format as they are.
    pub fn all_take(&self, format: Format) -> bool {
        self.routes.iter().all(|route| takes(route, format))
    }

    /// Whether every candidate keeps this shape of answers by itself.
    pub fn all_force(&self, format: &ResponseFormat) -> bool {
        let forces = |route: &Route| route.provider.text().is_some_and(|text| text.forces(format));
        self.routes.iter().all(forces)
    }

    /// Keeps the candidates that nothing of the request is lost on the way to, and answers which hints the first of
    /// them leaves out. When there is none, the first refusal is told. `is_replaced` says that none gets the caller's own
    /// bytes.
    pub fn retain_carriers(
        &mut self,
        format: Format,
        request: &GenerateRequest,
        is_replaced: bool,
    ) -> Result<Vec<String>, Error> {
        let mut refusal = None;
        let mut ignored = None;
        let mut kept = Vec::with_capacity(self.routes.len());
        for route in &self.routes {
            let carried = match route.provider.text() {
                Some(text) if is_replaced || !text.takes(format) => text.carry(request),
                _ => Ok(Vec::new()),
            };
            match carried {
                Ok(hints) => {
                    ignored.get_or_insert(hints);
                    kept.push(route.clone());
                }
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        match (refusal, ignored) {
            (Some(error), None) => Err(error),
            (_, ignored) => {
                self.routes = kept;
                Ok(ignored.unwrap_or_default())
            }
        }
    }

    /// Keeps the candidates that can carry what the caller sent. When none can, they all stay and `false` is answered.
    pub fn retain(&mut self, can_carry: impl Fn(&dyn Provider) -> bool) -> bool {
        let fit: Vec<Route> = self
            .routes
            .iter()
            .filter(|route| can_carry(&*route.provider))
            .cloned()
            .collect();
        if fit.is_empty() {
            return false;
        }
        self.routes = fit;
        true
    }
}

fn takes(route: &Route, format: Format) -> bool {
    route.provider.text().is_none_or(|text| text.takes(format))
}

impl Pipeline {
    /// Finds the model that the caller named.
    pub fn route(&self, caller: &Caller, name: &str) -> Result<Routed, Error> {
        let snapshot = self.catalog.current();
        let found = match caller.is_test() {
            true => snapshot.for_tests().resolve(name),
            false => snapshot.resolve(name),
        };
        let Some(model) = found else {
            return Err(match snapshot.resolve(name) {
                Some(_) => not_for_tests(name),
                None => model_not_found(name),
            });
        };
        let providers = self.providers.current.load();
        let found = |candidate: &Candidate| {
            let provider = providers.get(&candidate.provider)?.clone();
            Some(Route {
                provider,
                candidate: candidate.clone(),
            })
        };
        let routes: Vec<Route> = model.candidates.iter().filter_map(found).collect();
        if routes.is_empty() {
            return Err(Error::new(
                ErrorCode::ModelUnavailable,
                "The model is not reachable at the moment. Retry shortly.",
            ));
        }
        let routes = if routes.len() == 1 {
            routes
        } else {
            self.in_order(routes)
        };
        let public_model = if *model.id == *name {
            model.id.clone()
        } else {
            name.into()
        };
        Ok(Routed {
            model: model.clone(),
            public_model,
            structured: None,
            is_answered: false,
            routes,
        })
    }

    /// Weighted candidates share the traffic and stand first; the others follow in order; those whose breaker is open
    /// come last, so that the last one left is never given up.
    fn in_order(&self, routes: Vec<Route>) -> Vec<Route> {
        let (mut weighted, fallbacks): (Vec<Route>, Vec<Route>) = routes
            .into_iter()
            .partition(|route| route.candidate.weight.is_some());
        let mut ordered = Vec::with_capacity(weighted.len() + fallbacks.len());
        while !weighted.is_empty() {
            let total: u64 = weighted
                .iter()
                .map(|route| u64::from(route.candidate.weight.unwrap_or(1)))
                .sum();
            let mut draw = self.health.draw(total);
            let chosen = weighted.iter().position(|route| {
                let weight = u64::from(route.candidate.weight.unwrap_or(1));
                let hit = draw < weight;
                draw = draw.saturating_sub(weight);
                hit
            });
            ordered.push(weighted.remove(chosen.unwrap_or(0)));
        }
        ordered.extend(fallbacks);
        let (usable, ejected): (Vec<Route>, Vec<Route>) = ordered
            .into_iter()
            .partition(|route| self.health.is_usable(&route.candidate));
        usable.into_iter().chain(ejected).collect()
    }
}

fn not_for_tests(name: &str) -> Error {
    let shown: String = name.chars().take(120).collect();
    let message = format!(
        "Test keys reach simulated models only, such as 'sim/chat', and '{shown}' is none. Use a live key to call it."
    );
    Error::new(ErrorCode::ModelNotFound, message).with_param("model")
}

/// The error for a model that nobody knows.
pub fn model_not_found(name: &str) -> Error {
    let shown: String = name.chars().take(120).collect();
    let message =
        format!("The model '{shown}' does not exist. GET /v1/models lists the models of this service.");
    Error::new(ErrorCode::ModelNotFound, message).with_param("model")
}
