//! Handshakes: a model is selected and its session opened.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::WebSocketUpgrade;
use axum::http::HeaderMap;
use axum::http::header::SEC_WEBSOCKET_PROTOCOL;
use axum::response::Response;
use tollgate_accounts::{Caller, SecretCaller};
use tollgate_catalog::{ModelKind, VisibleModels, VoiceStages};
use tollgate_edge::RequestContext;
use tollgate_edge::websocket::{Handshake, Session as Connection, SessionLabel};
use tollgate_formats::openai_realtime::{
    DEFAULT_SERVER_VAD, Dialect, Session, SessionKind, SessionLimits, SessionUpdate, Transcription,
};
use tollgate_pipeline::{Routed, unsupported_realtime};
use tollgate_types::{Error, ErrorCode, RealtimeSessionId};

use crate::meters::OpenSession;
use crate::relay::Relay;
use crate::session::events::Events;
use crate::session::{Opening, VoiceSession, Way};
use crate::state::Shared;
use crate::transcription::{self, TranscriptionSession};
use crate::{Realtime, RealtimeSettings};

/// Path of sessions.
const PATH: &str = "/v1/realtime";
/// Subprotocol of clients of the beta dialect.
const BETA_SUBPROTOCOL: &str = "openai-beta.realtime-v1";

/// Parameters of a handshake.
pub(crate) struct Requested<'a> {
    pub(crate) model: Option<&'a str>,
    pub(crate) is_transcription: bool,
    pub(crate) dialect: Dialect,
    /// Client secret that opens the session.
    pub(crate) secret: Option<Box<SecretCaller>>,
}

/// Returns the dialect of a client: beta if a header or a subprotocol says so.
pub(crate) fn dialect(headers: &HeaderMap) -> Dialect {
    let lists = |name: &str, wanted: &str| {
        let values = headers.get_all(name).iter();
        let mut values = values.filter_map(|value| value.to_str().ok());
        values.any(|value| value.split(',').any(|one| one.trim() == wanted))
    };
    let is_beta =
        lists("openai-beta", "realtime=v1") || lists(SEC_WEBSOCKET_PROTOCOL.as_str(), BETA_SUBPROTOCOL);
    match is_beta {
        true => Dialect::Beta,
        false => Dialect::Ga,
    }
}

/// Opens a session. Fails before the upgrade if the model is unknown or of another kind, or if no
/// provider of the model can be reached.
pub(crate) async fn open(
    realtime: &Realtime,
    caller: Caller,
    ctx: &RequestContext,
    mut requested: Requested<'_>,
    headers: &HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Error> {
    let name = model_name(realtime, &caller, &requested)?;
    let routed = realtime.shared.pipeline.route(&caller, &name)?;
    let secret = requested.secret.take();
    let session = session_of(realtime, ctx, &routed, secret.as_deref())?;
    let dialect = requested.dialect;
    let label = SessionLabel {
        model: routed.model.id.clone(),
        kind: kind_of(&routed).1,
        way: way_of(&routed, session.stages.is_some()),
    };
    let handshake = Handshake {
        path: PATH,
        headers,
        upgrade,
        secret,
        label: Some(label.clone()),
    };
    let accepted = realtime.sessions.accept(&caller, ctx, handshake)?;
    let opening = opening(realtime, &caller, ctx, &routed, session).await?;
    Ok(accepted.upgrade(move |session| run(session, opening, dialect, label)))
}

/// Opening of a session of either kind.
enum AnyOpening {
    Voice(Box<Opening>),
    Transcription(Box<transcription::Opening>),
}

async fn run(session: Connection, opening: AnyOpening, dialect: Dialect, label: SessionLabel) {
    let _open = OpenSession::new(label.kind, label.way);
    let (inbox, outbox, turns) = session.split();
    let events = Events {
        outbox,
        turns: Arc::new(turns),
        dialect,
    };
    match opening {
        AnyOpening::Voice(opening) => {
            Box::pin(VoiceSession::new(*opening, events).run(inbox)).await;
        }
        AnyOpening::Transcription(opening) => {
            Box::pin(TranscriptionSession::new(*opening, events).run(inbox)).await;
        }
    }
}

/// Returns the name of the model of a session.
fn model_name(realtime: &Realtime, caller: &Caller, requested: &Requested<'_>) -> Result<String, Error> {
    let named = requested
        .secret
        .as_ref()
        .and_then(|secret| secret.model.as_deref());
    match (requested.model, named) {
        (Some(model), Some(named)) if model != named => {
            return Err(secret_model(named).with_param("model"));
        }
        (Some(model), _) | (None, Some(model)) => return Ok(model.to_owned()),
        (None, None) => {}
    }
    if !requested.is_transcription {
        let message = "The query has no 'model'. GET /v1/models lists the models of the type 'realtime'.";
        return Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("model"));
    }
    Ok(default_transcription(&realtime.shared, caller)?.to_string())
}

/// Returns the transcription model of sessions that name none.
pub(crate) fn default_transcription(shared: &Shared, caller: &Caller) -> Result<Arc<str>, Error> {
    if let Some(model) = &shared.settings().transcribe {
        return Ok(model.clone());
    }
    let snapshot = shared.pipeline.catalog.current();
    let visible = VisibleModels::new(&snapshot, caller.is_test(), &caller.rights);
    let default_model = visible.default_model(ModelKind::Transcription);
    let none = || {
        let message = "The service has no transcription model.";
        Error::new(ErrorCode::ModelNotFound, message).with_param("model")
    };
    default_model.map(|model| model.id.clone()).ok_or_else(none)
}

/// Session before the first update of the client, with the settings of the gateway.
struct NewSession {
    session: Session,
    settings: RealtimeSettings,
    /// Models with which the gateway executes the responses.
    stages: Option<Arc<VoiceStages>>,
}

fn session_of(
    realtime: &Realtime,
    ctx: &RequestContext,
    routed: &Routed,
    secret: Option<&SecretCaller>,
) -> Result<NewSession, Error> {
    let mut settings = RealtimeSettings::clone(&realtime.shared.settings());
    if let Some(seconds) = secret.and_then(|secret| secret.max_seconds) {
        let max_duration = Duration::from_secs(seconds.into());
        settings.max_duration = settings.max_duration.min(max_duration);
    }
    let (kind, _) = kind_of(routed);
    let id = RealtimeSessionId::from_u128(ctx.id.as_u128()).to_string();
    let stages = stages_of(routed, &settings);
    let mut session = first_session(id, kind, Some(routed), stages.as_deref(), &settings);
    let max_seconds = settings.max_duration.as_secs();
    let max_seconds = i64::try_from(max_seconds).unwrap_or(i64::MAX);
    session.expires_at = Some(ctx.accepted_at.as_seconds().saturating_add(max_seconds));
    if let Some(secret) = secret {
        let update = SessionUpdate::parse(&secret.session, kind, Some("session"))?;
        session = session.apply(&update, &SessionLimits::default())?;
    }
    Ok(NewSession {
        session,
        settings,
        stages,
    })
}

/// Returns the opening of a session. Connects to a provider if it serves the responses.
async fn opening(
    realtime: &Realtime,
    caller: &Caller,
    ctx: &RequestContext,
    routed: &Routed,
    session: NewSession,
) -> Result<AnyOpening, Error> {
    let NewSession {
        session,
        settings,
        stages,
    } = session;
    let model = &routed.model;
    if model.kind == ModelKind::Transcription {
        let live = match model.live {
            true => {
                let settings = transcription::live_settings(session.transcription.as_ref());
                let pipeline = &realtime.shared.pipeline;
                let opened = pipeline.open_live_transcription(routed, &settings, ctx.id);
                Some(opened.await?)
            }
            false => None,
        };
        return Ok(AnyOpening::Transcription(Box::new(transcription::Opening {
            shared: realtime.shared.clone(),
            settings,
            caller: caller.clone(),
            model: routed.public_model.clone(),
            request: ctx.id,
            session,
            live,
        })));
    }
    let pipeline = &realtime.shared.pipeline;
    let way = match stages {
        Some(stages) => Way::Cascade(stages),
        None if model.kind == ModelKind::Realtime => {
            let opened = pipeline.open_realtime(routed, ctx.id).await?;
            Way::Relay(Relay::start(pipeline.clone(), opened))
        }
        None => return Err(unsupported_realtime(&routed.public_model)),
    };
    Ok(AnyOpening::Voice(Box::new(Opening {
        shared: realtime.shared.clone(),
        settings,
        caller: caller.clone(),
        model: routed.public_model.clone(),
        way,
        max_output_tokens: model.output_ceiling().and_then(|max| u32::try_from(max).ok()),
        request: ctx.id,
        session,
    })))
}

/// Returns the kind of a session with this model, and its name in metrics and for operators.
fn kind_of(routed: &Routed) -> (SessionKind, &'static str) {
    match routed.model.kind {
        ModelKind::Transcription => (SessionKind::Transcription, "transcription"),
        _ => (SessionKind::Voice, "voice"),
    }
}

/// Returns how the work of a session is executed, in metrics and for operators: by calls of
/// models of the catalog, or over a connection to a provider.
fn way_of(routed: &Routed, has_stages: bool) -> &'static str {
    match routed.model.kind {
        ModelKind::Realtime if !has_stages => "relay",
        ModelKind::Transcription if routed.model.live => "relay",
        _ => "cascade",
    }
}

/// Returns the models with which the gateway executes the responses; `None` if a provider does, or
/// if the model has no voice.
pub(crate) fn stages_of(routed: &Routed, settings: &RealtimeSettings) -> Option<Arc<VoiceStages>> {
    match (routed.model.kind, &settings.chat_voice) {
        (ModelKind::Realtime, _) => routed.model.voice.clone(),
        (ModelKind::Chat, Some(voice)) => Some(Arc::new(voice.stages(&routed.public_model))),
        _ => None,
    }
}

/// Returns the session before the first update. `model` is unknown in secrets without one.
pub(crate) fn first_session(
    id: String,
    kind: SessionKind,
    model: Option<&Routed>,
    stages: Option<&VoiceStages>,
    settings: &RealtimeSettings,
) -> Session {
    let name = model.map(|model| model.public_model.clone());
    let mut session = Session::new(id, kind, name.clone().unwrap_or_else(|| "".into()));
    if settings.detects_turns {
        session.turn_detection = Some(DEFAULT_SERVER_VAD);
    }
    session.voice = stages.map(|stages| stages.voice.as_str().into());
    let heard_by = match kind {
        SessionKind::Transcription => name,
        SessionKind::Voice => stages.map(|stages| stages.hear.as_str().into()),
    };
    session.transcription = heard_by.map(|model| Transcription {
        model: Some(model),
        ..Transcription::default()
    });
    session
}

/// Returns the error for another model than the one that the client secret names.
pub(crate) fn secret_model(named: &str) -> Error {
    let message = format!("The client secret opens sessions of the model '{named}' only.");
    Error::new(ErrorCode::InvalidParameter, message)
}
