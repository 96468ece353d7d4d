//! Models, aliases, prices, routes and templates: a snapshot that requests read without a lock and
//! a reload replaces as a whole.
//!
//! Suggested reading order: [`model`], [`media`], [`template`], [`snapshot`], [`mod@load`],
//! [`builtin`], [`lint`].

pub mod builtin;
mod coverage;
pub mod lint;
pub mod load;
pub mod media;
pub mod model;
mod research;
pub mod snapshot;
pub mod template;
mod visible;
mod voice;

pub use load::{
    COMPOSITION, CatalogInput, Discovered, EnabledProvider, LoadError, ModelEntry, PricesEntry, TargetEntry,
    composition_version, load, price_version,
};
pub use media::{Factor, Media, MediaEntry};
pub use model::{Candidate, Framing, Modality, Model, ModelKind, StructuredOutput, Unknown};
pub use research::{ENGINE, GATEWAY, ReportLimits, ResearchEntry, ResearchRoles};
pub use snapshot::{Catalog, NameCollision, Snapshot};
pub use template::{Template, TemplateEntry, TemplateParams};
pub use visible::VisibleModels;
pub use voice::VoiceStages;
