//! Ports to external services. A provider reports its capabilities; each capability is one small
//! trait.

pub mod batch;
pub mod context;
pub mod count;
pub mod decide;
pub mod embed;
pub mod error;
pub mod fetch;
pub mod generation;
pub mod image;
pub mod live_transcription;
pub mod moderate;
pub mod notify;
pub mod page;
pub mod payment;
pub mod provider;
pub mod realtime;
pub mod report;
pub mod research;
pub mod search;
pub mod speech;
pub mod text;
pub mod video;

pub use batch::{
    BatchAnswer, BatchEnd, BatchKind, BatchLimits, BatchProvider, BatchResult, BatchResults, BatchState,
    EncodedRequest, Submission,
};
pub use context::{CallContext, Permit};
pub use count::CountProvider;
pub use decide::{
    DecideProvider, DecisionWay, Draw, LabelCall, LabelDraws, LabelReading, RelayAnswer, RelayCall, letters,
};
pub use embed::{EmbedAnswer, EmbedCall, EmbedPayload, EmbedProvider};
pub use error::{ErrorText, RejectedPart, UpstreamCause, UpstreamError, UpstreamErrorKind, UpstreamText};
pub use fetch::{FetchError, FetchRequest, Fetched, Fetcher, MediaInspector, MediaKind, MediaProperties};
pub use generation::{
    Content, ContentStream, GenerationOutput, GenerationState, JobCall, JobProvider, OutputItem, Size,
    Source, Submitted,
};
pub use image::{ImageCall, ImageFormat, ImageTask};
pub use live_transcription::{
    LiveTranscriptionCall, LiveTranscriptionLink, LiveTranscriptionProvider, TranscriptEvent,
    TranscriptionSettings,
};
pub use moderate::{ModerationCall, ModerationProvider};
pub use notify::{Mail, Mailer, NotifyError, Post, Poster};
pub use page::{
    ExtractError, ExtractedPage, FetchedPage, MAX_PAGE_BYTES, MAX_PDF_BYTES, PageExtractor, PageFetcher,
    PageHead, PageReader, PageSkipped, WebPage,
};
pub use payment::{
    BillingInterval, ChargeOutcome, Checkout, EventError, NewCheckout, NewPayer, NewPlanCheckout, Paid,
    PaymentError, PaymentEvent, PaymentProvider, PlanInvoice, PlanReference, PlanStatus, SavedCharge,
};
pub use provider::{ListedModel, Provider};
pub use realtime::{
    ItemKey, REALTIME_RATE, RealtimeCall, RealtimeEvent, RealtimeFinish, RealtimeInput, RealtimeItem,
    RealtimeLink, RealtimePlace, RealtimeProvider, RealtimeRequest, RealtimeRole, RealtimeSettings,
    RealtimeTool, RealtimeToolChoice,
};
pub use report::{ProviderReport, ReportCall, ReportMark, ReportMessage, ReportRole, ReportSource};
pub use research::{
    FailedSentence, NoteDraft, NoteText, PageExcerpt, Reflection, ResearchBrief, ResearchPlan,
    ResearchProvider, ResearchReply, SectionPlan, SectionSentence,
};
pub use search::{
    MAX_HIT_TEXT_CHARS, MAX_QUERY_CHARS, Recency, SearchBackend, SearchConnector, SearchDocument,
    SearchFilters, SearchHit, SearchQuery, SourceKind,
};
pub use speech::{
    AudioContent, AudioFormat, Segment, SpeechAnswer, SpeechCall, SpeechProvider, Timestamps,
    TranscribeProvider, Transcript, TranscriptFormat, TranscriptionCall, Word,
};
pub use text::{
    ChunkKind, Outline, Payload, TextAnswer, TextCall, TextChunk, TextProvider, TextReply, TextStream,
};
pub use video::{VideoCall, VideoTask};
