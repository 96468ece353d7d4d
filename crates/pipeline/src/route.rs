//! Stage 1: resolves a model name to its candidates, in the order in which they are tried.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_accounts::Caller;
use tollgate_catalog::{Candidate, Model, VisibleModels};
use tollgate_types::adaptation::Adaptation;
use tollgate_types::generate::{GenerateRequest, ResponseFormat};
use tollgate_types::{Error, ErrorCode, Format};
use tollgate_upstream::Provider;

use crate::Pipeline;
use crate::structured::Structured;

/// Registry of providers by the name of their configuration block. A reload replaces all providers.
#[derive(Default)]
pub struct Providers {
    current: ArcSwap<HashMap<Arc<str>, Arc<dyn Provider>>>,
    stop_on_disconnect: ArcSwap<HashSet<Arc<str>>>,
}

impl Providers {
    /// Creates a registry in which no provider stops on disconnect.
    pub fn new(providers: HashMap<Arc<str>, Arc<dyn Provider>>) -> Self {
        Self {
            current: ArcSwap::from_pointee(providers),
            stop_on_disconnect: ArcSwap::default(),
        }
    }

    /// Replaces all providers after a reload.
    pub fn replace(&self, providers: HashMap<Arc<str>, Arc<dyn Provider>>) {
        self.current.store(Arc::new(providers));
    }

    /// Sets the names of the providers whose streams are aborted when the caller disconnects.
    /// Streams of other providers are drained.
    pub fn set_stop_on_disconnect(&self, names: HashSet<Arc<str>>) {
        self.stop_on_disconnect.store(Arc::new(names));
    }

    /// Whether a stream of this provider is aborted when its caller disconnects.
    pub(crate) fn stops_on_disconnect(&self, name: &str) -> bool {
        self.stop_on_disconnect.load().contains(name)
    }

    /// Returns the provider with this name, if it is configured.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.current.load().get(name).cloned()
    }

    /// Returns all providers, in no particular order.
    pub fn all(&self) -> Vec<Arc<dyn Provider>> {
        self.current.load().values().cloned().collect()
    }
}

/// A candidate with its provider.
#[derive(Clone)]
pub struct Route {
    /// Client of the candidate's provider.
    pub provider: Arc<dyn Provider>,
    /// Provider name, the provider's name of the model, and settings.
    pub candidate: Candidate,
    /// Changes of the request that this candidate requires; usually empty.
    pub(crate) adaptations: Vec<Adaptation>,
    /// Names of the changed and ignored fields. [`Routed::rename_changed`] converts them to the
    /// caller's format.
    pub(crate) changed: Vec<String>,
}

impl Route {
    /// Returns the hints in the request that this candidate ignores, or an error about a part that
    /// the candidate does not support. The request is in the common form.
    fn check(&self, request: &GenerateRequest) -> Result<Vec<String>, Error> {
        let Some(text) = self.provider.text() else {
            return Ok(Vec::new());
        };
        text.check_compatible(&self.adapted(request), &self.candidate.abilities)
    }

    /// Returns the request with the changes for this candidate.
    pub(crate) fn adapted<'r>(&self, request: &'r GenerateRequest) -> Cow<'r, GenerateRequest> {
        let mut adapted = Cow::Borrowed(request);
        for adaptation in &self.adaptations {
            adaptation.apply(adapted.to_mut());
        }
        adapted
    }

    /// Returns the route with the changes that make the candidate accept the request; `None` if no
    /// changes suffice.
    fn adapt(&self, request: &GenerateRequest, refusal: &Error) -> Option<Self> {
        let mut route = self.clone();
        let mut next_refusal = None;
        loop {
            let refusal = next_refusal.as_ref().unwrap_or(refusal);
            let adaptation = Adaptation::for_refusal(refusal)?;
            if route.adaptations.contains(&adaptation) {
                return None;
            }
            route.adaptations.push(adaptation);
            route.changed.extend(refusal.param.as_deref().map(without_index));
            match route.check(request) {
                Ok(hints) => {
                    route.changed.extend(hints);
                    return Some(route);
                }
                Err(error) => next_refusal = Some(error),
            }
        }
    }
}

/// Removes the index from a path such as `messages[2].role`.
fn without_index(path: &str) -> String {
    match path.split_once('[').zip(path.split_once(']')) {
        Some(((list, _), (_, member))) => format!("{list}{member}"),
        None => path.to_owned(),
    }
}

/// A resolved model with its candidates.
pub struct Routed {
    /// Catalog entry of the model.
    pub model: Arc<Model>,
    /// Model name from the request, which responses repeat.
    pub public_model: Arc<str>,
    /// Required structure of responses, if the gateway enforces it because no candidate does.
    pub structured: Option<Arc<Structured>>,
    /// Whether the response is already stored, so that the checks before the call are not repeated.
    pub is_replay: bool,
    /// Candidates in the order of attempts; never empty.
    pub(crate) routes: Vec<Route>,
}

impl Routed {
    /// Returns the provider of the first candidate.
    pub fn first_provider(&self) -> Option<&dyn Provider> {
        self.routes.first().map(|route| &*route.provider)
    }

    /// Whether all candidates accept the unchanged body of a request in this format.
    pub fn all_accept_format(&self, format: Format) -> bool {
        let accepts = |route: &Route| route.adaptations.is_empty() && takes(route, format);
        self.routes.iter().all(accepts)
    }

    /// Whether all candidates enforce this response format.
    pub fn all_enforce_schema(&self, format: &ResponseFormat) -> bool {
        let enforces_schema = |route: &Route| {
            route
                .provider
                .text()
                .is_some_and(|text| text.enforces_schema(format))
        };
        self.routes.iter().all(enforces_schema)
    }

    /// Retains the candidates that support all parts of the request, and returns the hints that the
    /// first of them ignores. If there are none, returns the first error. `is_replaced` means that
    /// no candidate receives the original body of the request. With `adapts`, the candidates that
    /// require a changed request follow the others.
    pub fn retain_compatible(
        &mut self,
        format: Format,
        request: &GenerateRequest,
        is_replaced: bool,
        adapts: bool,
    ) -> Result<Vec<String>, Error> {
        let mut refusal = None;
        let mut ignored = None;
        let mut retained = Vec::with_capacity(self.routes.len());
        let mut adapted = Vec::new();
        for route in &self.routes {
            let is_relayed = !is_replaced && route.adaptations.is_empty() && takes(route, format);
            let compatibility = match is_relayed {
                true => Ok(Vec::new()),
                false => route.check(request),
            };
            match compatibility {
                Ok(hints) => {
                    ignored.get_or_insert(hints);
                    retained.push(route.clone());
                }
                Err(error) => {
                    adapted.extend(adapts.then(|| route.adapt(request, &error)).flatten());
                    refusal.get_or_insert(error);
                }
            }
        }
        match (refusal, ignored) {
            (Some(error), None) => Err(error),
            (_, ignored) => {
                retained.extend(adapted);
                self.routes = retained;
                Ok(ignored.unwrap_or_default())
            }
        }
    }

    /// Renames the changed fields of adapted candidates from the common form to the caller's
    /// format.
    pub fn rename_changed(&mut self, name: impl Fn(&str) -> String) {
        for changed in self.routes.iter_mut().flat_map(|route| &mut route.changed) {
            *changed = name(changed);
        }
    }

    /// Retains the candidates that accept system turns within a conversation, natively or by
    /// conversion. With `adapts`, the others follow and receive these turns as user turns. If no
    /// candidate accepts system turns, returns `false` and changes nothing.
    pub fn retain_system_turns(&mut self, format: Format, adapts: bool) -> bool {
        let fits = |route: &Route| {
            let text = route.provider.text();
            text.is_none_or(|text| !text.takes(format) || text.takes_system_turns(&route.candidate.abilities))
        };
        let (mut fit, unfit): (Vec<Route>, Vec<Route>) = self.routes.iter().cloned().partition(fits);
        if fit.is_empty() {
            return false;
        }
        let adapted = unfit.into_iter().filter(|_| adapts).map(|route| Route {
            adaptations: vec![Adaptation::Instructions],
            changed: vec!["messages.role".to_owned()],
            ..route
        });
        fit.extend(adapted);
        self.routes = fit;
        true
    }

    /// Retains the candidates whose provider is compatible with the request. If there are none,
    /// returns `false` and changes nothing.
    pub fn retain(&mut self, is_compatible: impl Fn(&dyn Provider) -> bool) -> bool {
        let fit: Vec<Route> = self
            .routes
            .iter()
            .filter(|route| is_compatible(&*route.provider))
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
    /// Resolves a model name or alias for this caller. Test keys can call only simulated models.
    pub fn route(&self, caller: &Caller, name: &str) -> Result<Routed, Error> {
        let snapshot = self.catalog.current();
        let visible = VisibleModels::new(&snapshot, caller.is_test(), &caller.rights);
        let Some(model) = visible.resolve(name) else {
            return Err(match snapshot.resolve(name) {
                Some(model) if !caller.rights.allow_model(&model.id) => not_allowed(name),
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
                adaptations: Vec::new(),
                changed: Vec::new(),
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
            self.order_routes(routes)
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
            is_replay: false,
            routes,
        })
    }

    /// Orders candidates: first those with a weight, in weighted random order, then fallbacks in
    /// configured order. Candidates with an open breaker are moved to the end, but not removed.
    fn order_routes(&self, routes: Vec<Route>) -> Vec<Route> {
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
        "'{shown}' is not a simulated model. Test keys call only simulated models, such as 'sim/chat'. Use a live key."
    );
    Error::new(ErrorCode::ModelNotFound, message).with_param("model")
}

fn not_allowed(name: &str) -> Error {
    let shown: String = name.chars().take(120).collect();
    let message =
        format!("The API key may not use the model '{shown}'. GET /v1/models lists the models of the key.");
    Error::new(ErrorCode::ModelNotFound, message).with_param("model")
}

/// Returns the error for an unknown model.
pub fn model_not_found(name: &str) -> Error {
    let shown: String = name.chars().take(120).collect();
    let message =
        format!("The model '{shown}' does not exist. GET /v1/models lists the models of this service.");
    Error::new(ErrorCode::ModelNotFound, message).with_param("model")
}
