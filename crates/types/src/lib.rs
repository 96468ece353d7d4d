//! Domain types. No I/O, no async code, and no clock reads outside [`clock`].
//!
//! Suggested reading order: [`id`], [`money`], [`usage`], [`price`], [`error`], [`clock`],
//! [`date`], [`generate`], [`stream`], [`embed`], [`decide`], [`moderate`], [`job`], [`tokenizer`],
//! [`payment`].

pub mod abilities;
pub mod adaptation;
pub mod clock;
pub mod date;
pub mod decide;
pub mod embed;
pub mod error;
pub mod format;
pub mod generate;
pub mod id;
pub mod job;
pub mod moderate;
pub mod money;
pub mod payment;
pub mod price;
pub mod principal;
pub mod rights;
pub mod stream;
pub mod tokenizer;
pub mod usage;

pub use abilities::{Abilities, Effort, ReasoningControl, RequestedReasoning};
pub use clock::{Clock, Timestamp};
pub use date::Date;
pub use error::{Error, ErrorCode, Retry};
pub use format::Format;
pub use id::{
    AccountId, AdminId, AuditId, BatchId, CalibrationId, ChatId, ClientSecretId, ConversationId, DecisionId,
    EventId, FileId, HoldId, ItemId, JobId, KeyId, LinkId, MediaId, MemberId, MessageBatchId, NoticeId,
    PersonId, RealtimeSessionId, RequestId, ResponseId, SessionId, SubscriptionId, TopUpId, WorkerId,
};
pub use job::{JobStatus, StepState};
pub use money::Credits;
pub use payment::{CreditPrice, Currency, Money, RenewalState};
pub use price::{PriceVersion, Prices};
pub use principal::Principal;
pub use rights::{KeyRights, ModelPatterns, Scope, Scopes};
pub use tokenizer::Tokenizer;
pub use usage::{Unit, Usage};
