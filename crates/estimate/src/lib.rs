//! How probable the answers of typed decisions are: how probabilities are obtained from readings of labels or from answers that
//! were drawn, corrected, and judged. Pure functions; whoever calls them does the calling of models.
//!
//! Suggested reading order: [`reading`], [`estimator`], [`sampler`], [`prior`]; [`example`], [`calibration`], [`judge`],
//! [`diagram`].

pub mod calibration;
pub mod diagram;
pub mod estimator;
pub mod example;
mod fit;
pub mod judge;
mod luce;
mod orders;
pub mod prior;
pub mod random;
pub mod reading;
pub mod sampler;
mod simplex;

pub use calibration::{Profile, Temperature};
pub use estimator::{Estimate, EstimateOptions, Estimator, NoEstimate};
pub use example::{AnswerKind, BadExample, Example, Truth};
pub use judge::{JudgeOptions, Report};
pub use prior::{LabelPrior, Lesson};
pub use random::Random;
pub use reading::{Heat, HeatReading};
pub use sampler::{DrawHeat, HeatDraws, SampleOptions, Sampler};
