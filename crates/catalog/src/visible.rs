//! The models of a snapshot that a caller may use.

use std::sync::Arc;

use tollgate_types::KeyRights;

use crate::model::{Model, ModelKind};
use crate::snapshot::Snapshot;
use crate::template::Template;

/// The models that a caller may use, with the defaults among them.
#[derive(Clone, Copy, Debug)]
pub struct VisibleModels<'a> {
    snapshot: &'a Snapshot,
    rights: &'a KeyRights,
}

impl<'a> VisibleModels<'a> {
    /// Selects the models that the rights of a key allow. Test keys see only simulated models.
    pub fn new(snapshot: &'a Snapshot, is_test: bool, rights: &'a KeyRights) -> Self {
        let snapshot = match is_test {
            true => snapshot.for_tests(),
            false => snapshot,
        };
        Self { snapshot, rights }
    }

    /// Returns the model with this id, alias or bare name.
    pub fn resolve(self, name: &str) -> Option<&'a Arc<Model>> {
        self.snapshot.resolve(name).filter(|model| self.allows(model))
    }

    /// Returns the models, sorted by id.
    pub fn models(self) -> impl Iterator<Item = &'a Arc<Model>> {
        self.snapshot
            .models()
            .iter()
            .filter(move |model| self.allows(model))
    }

    /// Returns the model of this kind for requests without a model: the catalog's default, or if
    /// the caller may not use it, the first other one.
    pub fn default_model(self, kind: ModelKind) -> Option<&'a Arc<Model>> {
        let default_model = self.snapshot.default_model(kind);
        default_model
            .filter(|model| self.allows(model))
            .or_else(|| self.models().find(|model| model.kind == kind))
    }

    /// Returns the model for requests that name this template and no model.
    pub fn recommended(self, template: &Template) -> Option<Arc<Model>> {
        if self.rights.models.is_none() {
            return self.snapshot.recommended(template).cloned();
        }
        let models: Vec<Arc<Model>> = self.models().cloned().collect();
        let default_model = self.default_model(template.kind);
        template.recommended(&models, default_model).cloned()
    }

    /// Returns the enabled templates, sorted by slug.
    pub fn templates(self) -> &'a [Arc<Template>] {
        self.snapshot.templates()
    }

    fn allows(self, model: &Model) -> bool {
        self.rights.allow_model(&model.id)
    }
}
