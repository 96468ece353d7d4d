//! Handshakes: a model is selected and its session opened.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::WebSocketUpgrade;
use axum::http::HeaderMap;
use axum::http::header::SEC_WEBSOCKET_PROTOCOL;
use axum::response::Response;
use tollgate_accounts::{Caller, SecretCaller};
use tollgate_catalog::{ModelKind, VisibleModels};
use tollgate_edge::RequestContext;
use tollgate_edge::websocket::{Handshake, Session as Connection};
use tollgate_formats::openai_realtime::{
    DEFAULT_SERVER_VAD, Dialect, Session, SessionKind, SessionLimits, SessionUpdate, Transcription,
};
use tollgate_pipeline::Routed;
use tollgate_types::{Error, ErrorCode, RealtimeSessionId};

use crate::meters::OpenSession;
use crate::session::events::Events;
use crate::session::{Opening, VoiceSession};
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

/// Opens a session. Fails before the upgrade if the model is unknown or of another kind.
pub(crate) fn open(
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
    let opening = opening(realtime, &caller, ctx, &routed, secret.as_deref())?;
    let dialect = requested.dialect;
    let handshake = Handshake {
        path: PATH,
        headers,
        upgrade,
        secret,
    };
    realtime.sessions.open(&caller, ctx, handshake, move |session| {
        run(session, opening, dialect)
    })
}

/// Opening of a session of either kind.
enum AnyOpening {
    Voice(Box<Opening>),
    Transcription(Box<transcription::Opening>),
}

async fn run(session: Connection, opening: AnyOpening, dialect: Dialect) {
    let (inbox, outbox, turns) = session.split();
    let events = Events {
        outbox,
        turns: Arc::new(turns),
        dialect,
    };
    match opening {
        AnyOpening::Voice(opening) => {
            let _open = OpenSession::new("voice");
            Box::pin(VoiceSession::new(*opening, events).run(inbox)).await;
        }
        AnyOpening::Transcription(opening) => {
            let _open = OpenSession::new("transcription");
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
            let message = format!("The client secret opens sessions of the model '{named}' only.");
            return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("model"));
        }
        (Some(model), _) | (None, Some(model)) => return Ok(model.to_owned()),
        (None, None) => {}
    }
    if !requested.is_transcription {
        let message = "The query has no 'model'. GET /v1/models lists the models of the type 'realtime'.";
        return Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("model"));
    }
    if let Some(model) = &realtime.shared.settings().transcribe {
        return Ok(model.to_string());
    }
    let snapshot = realtime.shared.pipeline.catalog.current();
    let visible = VisibleModels::new(&snapshot, caller.is_test(), &caller.rights);
    let default_model = visible.default_model(ModelKind::Transcription);
    let none = || {
        let message = "The service has no transcription model.";
        Error::new(ErrorCode::ModelNotFound, message).with_param("model")
    };
    default_model.map(|model| model.id.to_string()).ok_or_else(none)
}

fn opening(
    realtime: &Realtime,
    caller: &Caller,
    ctx: &RequestContext,
    routed: &Routed,
    secret: Option<&SecretCaller>,
) -> Result<AnyOpening, Error> {
    let model = &routed.model;
    let mut settings = RealtimeSettings::clone(&realtime.shared.settings());
    if let Some(seconds) = secret.and_then(|secret| secret.max_seconds) {
        let max_duration = Duration::from_secs(seconds.into());
        settings.max_duration = settings.max_duration.min(max_duration);
    }
    let kind = match model.kind {
        ModelKind::Transcription => SessionKind::Transcription,
        _ => SessionKind::Voice,
    };
    let id = RealtimeSessionId::from_u128(ctx.id.as_u128()).to_string();
    let mut session = first_session(id, kind, Some(routed), &settings);
    let max_seconds = settings.max_duration.as_secs();
    let max_seconds = i64::try_from(max_seconds).unwrap_or(i64::MAX);
    session.expires_at = Some(ctx.accepted_at.as_seconds().saturating_add(max_seconds));
    if let Some(secret) = secret {
        let update = SessionUpdate::parse(&secret.session, kind, Some("session"))?;
        session = session.apply(&update, &SessionLimits::default())?;
    }
    if model.kind == ModelKind::Transcription {
        return Ok(AnyOpening::Transcription(Box::new(transcription::Opening {
            shared: realtime.shared.clone(),
            settings,
            caller: caller.clone(),
            model: routed.public_model.clone(),
            request: ctx.id,
            session,
        })));
    }
    let Some(stages) = model.voice.clone().filter(|_| model.kind == ModelKind::Realtime) else {
        return Err(unsupported(&routed.public_model));
    };
    Ok(AnyOpening::Voice(Box::new(Opening {
        shared: realtime.shared.clone(),
        settings,
        caller: caller.clone(),
        model: routed.public_model.clone(),
        stages,
        max_output_tokens: model.output_ceiling().and_then(|max| u32::try_from(max).ok()),
        request: ctx.id,
        session,
    })))
}

/// Returns the session before the first update. `model` is unknown in secrets without one.
pub(crate) fn first_session(
    id: String,
    kind: SessionKind,
    model: Option<&Routed>,
    settings: &RealtimeSettings,
) -> Session {
    let name = model.map(|model| model.public_model.clone());
    let mut session = Session::new(id, kind, name.clone().unwrap_or_else(|| "".into()));
    if settings.detects_turns {
        session.turn_detection = Some(DEFAULT_SERVER_VAD);
    }
    let stages = model.and_then(|model| model.model.voice.as_deref());
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

/// Returns the error for a model without realtime sessions.
pub(crate) fn unsupported(model: &str) -> Error {
    let message = format!(
        "The model '{model}' does not support realtime sessions. GET /v1/models lists the endpoints of each model."
    );
    Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model")
}
