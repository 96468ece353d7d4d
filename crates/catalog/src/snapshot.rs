//! The catalog at one instant, and the holder of the current one.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_types::Prices;

use crate::load::price_version;
use crate::model::{Model, ModelKind};
use crate::template::Template;

/// The catalog at one instant.
#[derive(Debug, Default)]
pub struct Snapshot {
    models: Vec<Arc<Model>>,
    by_name: HashMap<Arc<str>, Arc<Model>>,
    default_model: HashMap<ModelKind, Arc<str>>,
    templates: Arc<[Arc<Template>]>,
    collisions: Vec<NameCollision>,
    for_tests: Option<Box<Snapshot>>,
}

/// A bare name that several models claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameCollision {
    /// The bare name that they claim.
    pub name: Arc<str>,
    /// Id of the model that the name resolves to.
    pub meant: Arc<str>,
    /// Ids of the other models.
    pub others: Vec<Arc<str>>,
}

impl Snapshot {
    pub(crate) fn new(
        models: Vec<Arc<Model>>,
        by_name: HashMap<Arc<str>, Arc<Model>>,
        default_model: HashMap<ModelKind, Arc<str>>,
        templates: Arc<[Arc<Template>]>,
        collisions: Vec<NameCollision>,
    ) -> Self {
        let free = free_simulations(&models, &by_name, templates.clone());
        Self {
            models,
            by_name,
            default_model,
            templates,
            collisions,
            for_tests: Some(Box::new(free)),
        }
    }

    /// The snapshot for test keys: the simulated models under all their names, at price zero.
    pub fn for_tests(&self) -> &Snapshot {
        self.for_tests.as_deref().unwrap_or(self)
    }

    /// Resolves an id, an alias, or a bare name of an enabled provider.
    pub fn resolve(&self, name: &str) -> Option<&Arc<Model>> {
        self.by_name.get(name)
    }

    /// The bare names that several models claim, sorted.
    pub fn name_collisions(&self) -> &[NameCollision] {
        &self.collisions
    }

    /// The model of this kind for requests without a model: the first model of the first enabled
    /// provider that has one.
    pub fn default_model(&self, kind: ModelKind) -> Option<&Arc<Model>> {
        self.resolve(self.default_model.get(&kind)?)
    }

    /// Every model, sorted by id.
    pub fn models(&self) -> &[Arc<Model>] {
        &self.models
    }

    /// Every template, sorted by slug.
    pub fn templates(&self) -> &[Arc<Template>] {
        &self.templates
    }

    /// The template with this slug.
    pub fn template(&self, slug: &str) -> Option<&Arc<Template>> {
        self.templates.iter().find(|template| &*template.slug == slug)
    }

    /// The model for requests that name a template and no model.
    pub fn recommended(&self, template: &Template) -> Option<&Arc<Model>> {
        template.recommended(&self.models, self.default_model(template.kind))
    }
}

fn free_simulations(
    models: &[Arc<Model>],
    by_name: &HashMap<Arc<str>, Arc<Model>>,
    templates: Arc<[Arc<Template>]>,
) -> Snapshot {
    let free = |model: &Arc<Model>| {
        let prices = Prices::free();
        Arc::new(Model {
            prices,
            price_version: price_version(&model.id, &prices),
            ..Model::clone(model)
        })
    };
    let simulated = models.iter().filter(|model| model.simulated).map(free);
    let models: Vec<Arc<Model>> = simulated.collect();
    let twin = |(name, model): (&Arc<str>, &Arc<Model>)| {
        let twin = models.iter().find(|twin| twin.id == model.id)?;
        Some((name.clone(), twin.clone()))
    };
    Snapshot {
        by_name: by_name.iter().filter_map(twin).collect(),
        default_model: first_of_kinds(&models),
        models,
        templates,
        collisions: Vec::new(),
        for_tests: None,
    }
}

fn first_of_kinds(models: &[Arc<Model>]) -> HashMap<ModelKind, Arc<str>> {
    let mut first = HashMap::new();
    for model in models {
        first.entry(model.kind).or_insert_with(|| model.id.clone());
    }
    first
}

/// Holds the current snapshot. A request uses the snapshot with which it started.
#[derive(Debug, Default)]
pub struct Catalog {
    current: ArcSwap<Snapshot>,
}

impl Catalog {
    /// Creates a catalog with `snapshot` as the current one.
    pub fn new(snapshot: Snapshot) -> Self {
        Self {
            current: ArcSwap::from_pointee(snapshot),
        }
    }

    /// The current snapshot.
    pub fn current(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// Replaces the snapshot atomically.
    pub fn replace(&self, snapshot: Snapshot) {
        self.current.store(Arc::new(snapshot));
    }
}
