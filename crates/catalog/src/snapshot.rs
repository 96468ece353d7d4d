//! Immutable snapshots of the catalog, and the holder of the current snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_types::Prices;

use crate::load::price_version;
use crate::model::{Model, ModelKind};
use crate::template::Template;

/// An immutable state of the catalog.
#[derive(Debug, Default)]
pub struct Snapshot {
    models: Vec<Arc<Model>>,
    by_name: HashMap<Arc<str>, Arc<Model>>,
    default_model: HashMap<ModelKind, Arc<str>>,
    templates: Arc<[Arc<Template>]>,
    collisions: Vec<NameCollision>,
    for_tests: Option<Box<Snapshot>>,
}

/// A bare name that more than one model claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameCollision {
    /// The claimed bare name.
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

    /// Returns the snapshot for test keys: the simulated models under all their names, at price
    /// zero.
    pub fn for_tests(&self) -> &Snapshot {
        self.for_tests.as_deref().unwrap_or(self)
    }

    /// Returns the model with this id or alias, or with this bare name at an enabled provider.
    pub fn resolve(&self, name: &str) -> Option<&Arc<Model>> {
        self.by_name.get(name)
    }

    /// Returns the bare names that several models claim, sorted by name.
    pub fn name_collisions(&self) -> &[NameCollision] {
        &self.collisions
    }

    /// Returns the model of this kind for requests without a model: the first model of the first
    /// enabled provider that has one.
    pub fn default_model(&self, kind: ModelKind) -> Option<&Arc<Model>> {
        self.resolve(self.default_model.get(&kind)?)
    }

    /// Returns all models, sorted by id.
    pub fn models(&self) -> &[Arc<Model>] {
        &self.models
    }

    /// Returns all enabled templates, sorted by slug.
    pub fn templates(&self) -> &[Arc<Template>] {
        &self.templates
    }

    /// Returns the enabled template with this slug.
    pub fn template(&self, slug: &str) -> Option<&Arc<Template>> {
        self.templates.iter().find(|template| &*template.slug == slug)
    }

    /// Returns the model for requests that name this template and no model.
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

/// Holder of the current snapshot. A request uses the same snapshot from start to end.
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

    /// Returns the current snapshot.
    pub fn current(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// Replaces the snapshot atomically.
    pub fn replace(&self, snapshot: Snapshot) {
        self.current.store(Arc::new(snapshot));
    }
}
