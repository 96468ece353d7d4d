//! Pricing of calls: quote → hold → settle. All amounts are whole numbers.
//!
//! Suggested reading order: [`mod@quote`], [`hold`], [`mod@verdict`] (the charge table), [`check`].

#![deny(clippy::float_arithmetic)]

pub mod agreed;
pub mod audit;
pub mod chain;
pub mod check;
pub mod hold;
pub mod itemized;
pub mod lots;
pub mod notices;
pub mod plans;
pub mod quote;
pub mod refusal;
pub mod statement;
pub mod sweep;
pub mod test_clock;
pub mod top_ups;
pub mod usage_hours;
pub mod verdict;

pub use agreed::AgreedPrices;
pub use audit::{AuditReport, Difference, Scope, audit_ledger};
pub use check::{CheckReport, Fault, check_ledger, check_usage_hours};
pub use hold::{Charge, FixedTerms, Hold, HoldRequest, Preview, Terms, charge};
pub use itemized::{ItemizedQuote, Step, StepItem};
pub use notices::Notices;
pub use plans::{Plan, Plans};
pub use quote::{CountedText, Demand, FALLBACK_OUTPUT_CAP, Item, MIN_CLAMP, Quote, quote};
pub use top_ups::{TopUpSettings, TopUps};
pub use verdict::{Ending, Evidence, Verdict, verdict};
