//! Probabilities of typed decisions: estimation from label readings or sampled answers,
//! calibration, and evaluation. The functions are pure; the caller calls the models.
//!
//! Suggested reading order: [`reading`], [`estimator`], [`sampler`], [`prior`]; [`example`],
//! [`calibration`], [`judge`], [`diagram`].

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
pub use estimator::{Estimate, EstimateError, EstimateOptions, Estimator};
pub use example::{AnswerKind, Example, InvalidExample, Truth};
pub use judge::{JudgeOptions, Report};
pub use prior::{LabelPrior, PriorObservation};
pub use random::Random;
pub use reading::{Round, RoundReading};
pub use sampler::{DrawRound, RoundDraws, SampleOptions, Sampler};
