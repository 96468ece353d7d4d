//! Research without a model: every claim is a verbatim sentence of a source.

mod notes;
mod outline;
mod plan;
mod prose;
mod section;
mod similarity;
#[cfg(test)]
mod tests;

pub use notes::{NoteDraft, notes};
pub use outline::{OutlineNote, OutlineSection, outline};
pub use plan::{Plan, plan};
pub use section::{Sentence, contradictions, section};
