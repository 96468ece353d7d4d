//! The catalog at one instant, and the cell that holds the current one.

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
    usual: HashMap<ModelKind, Arc<str>>,
    templates: Arc<[Arc<Template>]>,
    for_tests: Option<Box<Snapshot>>,
}

impl Snapshot {
    pub(crate) fn new(
        models: Vec<Arc<Model>>,
        by_name: HashMap<Arc<str>, Arc<Model>>,
        usual: HashMap<ModelKind, Arc<str>>,
        templates: Arc<[Arc<Template>]>,
    ) -> Self {
        let free = free_simulations(&models, &by_name, templates.clone());
        Self {
            models,
            by_name,
            usual,
            templates,
            for_tests: Some(Box::new(free)),
        }
    }

    /// What test keys see: the simulated models under all their names, at no price.
    pub fn for_tests(&self) -> &Snapshot {
        self.for_tests.as_deref().unwrap_or(self)
    }

    /// The model that a caller means by `name`: an id, an alias, or a bare name that some provider knows.
    pub fn resolve(&self, name: &str) -> Option<&Arc<Model>> {
        self.by_name.get(name)
    }

    /// The model of this kind that serves who names none: the first of the first enabled provider that has one.
    pub fn usual(&self, kind: ModelKind) -> Option<&Arc<Model>> {
        self.resolve(self.usual.get(&kind)?)
    }

    /// Every model, by id.
    pub fn models(&self) -> &[Arc<Model>] {
        &self.models
    }

    /// Every template, by slug.
    pub fn templates(&self) -> &[Arc<Template>] {
        &self.templates
    }

    /// The template with this slug.
    pub fn template(&self, slug: &str) -> Option<&Arc<Template>> {
        self.templates.iter().find(|template| &*template.slug == slug)
    }

    /// The model that serves who names a template and no model.
    pub fn recommended(&self, template: &Template) -> Option<&Arc<Model>> {
        template.recommended(&self.models, self.usual(template.kind))
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
        usual: first_of_kinds(&models),
        models,
        templates,
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

/// Holds the current snapshot. A request keeps the one that it started with.
#[derive(Debug, Default)]
pub struct Catalog {
    current: ArcSwap<Snapshot>,
}

impl Catalog {
    /// A catalog that shows `snapshot`.
    pub fn new(snapshot: Snapshot) -> Self {
        Self {
            current: ArcSwap::from_pointee(snapshot),
        }
    }

    /// The current snapshot.
    pub fn current(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// Replaces the snapshot as a whole.
    pub fn replace(&self, snapshot: Snapshot) {
        self.current.store(Arc::new(snapshot));
    }
}
