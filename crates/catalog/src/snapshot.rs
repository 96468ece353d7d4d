//! The catalog at one instant, and the cell that holds the current one.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::model::Model;

/// The catalog at one instant.
#[derive(Debug, Default)]
pub struct Snapshot {
    models: Vec<Arc<Model>>,
    by_name: HashMap<Arc<str>, Arc<Model>>,
}

impl Snapshot {
    pub(crate) fn new(models: Vec<Arc<Model>>, by_name: HashMap<Arc<str>, Arc<Model>>) -> Self {
        Self { models, by_name }
    }

    /// The model that a caller means by `name`: an id, an alias, or a bare name that some provider knows.
    pub fn resolve(&self, name: &str) -> Option<&Arc<Model>> {
        self.by_name.get(name)
    }

    /// Every model, by id.
    pub fn models(&self) -> &[Arc<Model>] {
        &self.models
    }
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
