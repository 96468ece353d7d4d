//! Ports: everything that is called. A provider says what it can do; each capability is one small trait.

pub mod batch;
pub mod context;
pub mod count;
pub mod decide;
pub mod embed;
pub mod error;
pub mod fetch;
pub mod image;
pub mod make;
pub mod moderate;
pub mod notify;
pub mod payment;
pub mod provider;
pub mod speech;
pub mod text;
pub mod video;

pub use batch::{
    BatchAnswer, BatchEnd, BatchKind, BatchLimits, BatchProvider, BatchResult, BatchResults, BatchState,
    Submission, Written,
};
pub use context::{CallContext, Permit};
pub use count::CountProvider;
pub use decide::{
    DecideProvider, DecisionWay, LabelCall, LabelDraws, LabelReading, RelayAnswer, RelayCall, letters,
};
pub use embed::{EmbedAnswer, EmbedCall, EmbedPayload, EmbedProvider};
pub use error::{UpstreamCause, UpstreamError, UpstreamErrorKind};
pub use fetch::{FetchError, FetchRequest, Fetched, Fetcher, Gauge, Measure, MediaKind};
pub use image::{ImageCall, ImageFormat, ImageTask};
pub use make::{Content, ContentStream, Made, Maker, Piece, Size, Source, State, Submitted};
pub use moderate::{ModerationCall, ModerationProvider};
pub use notify::{Mail, Mailer, NotifyError, Post, Poster};
pub use payment::{
    BillingInterval, ChargeOutcome, Checkout, EventFault, NewCheckout, NewPayer, NewPlanCheckout, Paid,
    PaymentError, PaymentEvent, PaymentProvider, PlanInvoice, PlanReference, PlanStanding, SavedCharge,
};
pub use provider::{ListedModel, Provider};
pub use speech::{
    Segment, Sound, SoundFormat, SpeechCall, SpeechProvider, Spoken, Timestamps, TranscribeProvider,
    Transcript, TranscriptFormat, TranscriptionCall, Word,
};
pub use text::{
    ChunkKind, Outline, Payload, TextAnswer, TextCall, TextChunk, TextProvider, TextReply, TextStream,
};
pub use video::{VideoCall, VideoTask};
