//! Creates client secrets.

use std::sync::Arc;

use tollgate_accounts::{Caller, ClientSecrets, NewClientSecret};
use tollgate_catalog::ModelKind;
use tollgate_edge::RequestContext;
use tollgate_formats::openai_realtime::{Dialect, Session, SessionKind, SessionLimits, SessionUpdate};
use tollgate_pipeline::{Routed, unsupported_realtime};
use tollgate_types::{Error, ErrorCode, RealtimeSessionId, SessionId};

use super::read;
use crate::socket::{first_session, stages_of};
use crate::{Realtime, RealtimeSettings};

/// The creator of a secret.
pub(crate) struct Creator {
    pub(crate) caller: Caller,
    /// Session of the console, if the caller is a member.
    pub(crate) session: Option<SessionId>,
}

/// Creates a secret. Returns the JSON of `POST /v1/realtime/client_secrets`.
pub(crate) async fn create(
    realtime: &Realtime,
    ctx: &RequestContext,
    creator: Creator,
    body: &[u8],
) -> Result<String, Error> {
    let request = read::secret(body)?;
    let kind = SessionUpdate::kind_in(&request.session);
    let session = session_of(
        realtime,
        ctx,
        &creator.caller,
        &request.session,
        kind,
        Some("session"),
    )?;
    let new = NewClientSecret {
        session: request.session,
        model: session.named_model,
        lifetime_seconds: request.lifetime_seconds,
        max_cost: request.max_cost,
        max_seconds: request.max_seconds,
        allowed_origins: request.allowed_origins,
        console_session: creator.session,
    };
    finish(
        &realtime.authenticator.client_secrets,
        &creator.caller,
        new,
        &session.session,
        Dialect::Ga,
    )
    .await
}

/// Creates a secret for the beta dialect, whose body is the session itself. Returns the JSON of
/// `POST /v1/realtime/sessions` and `/v1/realtime/transcription_sessions`.
pub(crate) async fn create_session(
    realtime: &Realtime,
    ctx: &RequestContext,
    creator: Creator,
    body: &[u8],
    kind: SessionKind,
) -> Result<String, Error> {
    let text = str::from_utf8(body)
        .map_err(|_| Error::new(ErrorCode::InvalidJson, "The body is not valid UTF-8."))?;
    let session = session_of(realtime, ctx, &creator.caller, text, Some(kind), None)?;
    let new = NewClientSecret {
        session: text.to_owned(),
        model: session.named_model,
        console_session: creator.session,
        ..NewClientSecret::default()
    };
    finish(
        &realtime.authenticator.client_secrets,
        &creator.caller,
        new,
        &session.session,
        Dialect::Beta,
    )
    .await
}

/// Checked configuration of the sessions.
struct SecretSession {
    session: Session,
    /// Model that the request names.
    named_model: Option<String>,
}

/// Checks the configuration of a session. `parent` is its path in the body.
fn session_of(
    realtime: &Realtime,
    ctx: &RequestContext,
    caller: &Caller,
    text: &str,
    kind: Option<SessionKind>,
    parent: Option<&str>,
) -> Result<SecretSession, Error> {
    let kind = kind.unwrap_or(SessionKind::Voice);
    let update = SessionUpdate::parse(text, kind, parent)?;
    let settings = realtime.shared.settings();
    let named = named_model(&update, kind, parent);
    let model = match &named {
        Some((name, param)) => {
            let routed = realtime.shared.pipeline.route(caller, name);
            let routed = routed.map_err(|error| error.with_param(param.clone()))?;
            check_kind(&routed, kind, &settings).map_err(|error| error.with_param(param.clone()))?;
            Some(routed)
        }
        None => None,
    };
    let id = RealtimeSessionId::from_u128(ctx.id.as_u128()).to_string();
    let stages = model.as_ref().and_then(|model| stages_of(model, &settings));
    let initial = first_session(id, kind, model.as_ref(), stages.as_deref(), &settings);
    let session = initial.apply(&update, &SessionLimits::default())?;
    Ok(SecretSession {
        session,
        named_model: named.map(|(name, _)| name.to_string()),
    })
}

/// Returns the model that the configuration names, and its path. A transcription also names it as
/// the model of the audio.
fn named_model(
    update: &SessionUpdate,
    kind: SessionKind,
    parent: Option<&str>,
) -> Option<(Arc<str>, String)> {
    if let Some(named) = &update.model {
        return Some((named.value.clone(), named.param.clone()));
    }
    let settings = update.transcription.as_ref()?.as_ref()?;
    let model = settings
        .model
        .clone()
        .filter(|_| kind == SessionKind::Transcription)?;
    let param = match parent {
        Some(parent) => format!("{parent}.audio.input.transcription.model"),
        None => "input_audio_transcription.model".to_owned(),
    };
    Some((model, param))
}

fn check_kind(routed: &Routed, kind: SessionKind, settings: &RealtimeSettings) -> Result<(), Error> {
    let model = &routed.model;
    let is_fit = match kind {
        SessionKind::Voice => model.kind == ModelKind::Realtime || stages_of(routed, settings).is_some(),
        SessionKind::Transcription => model.kind == ModelKind::Transcription,
    };
    match is_fit {
        true => Ok(()),
        false => Err(unsupported_realtime(&model.id)),
    }
}

async fn finish(
    secrets: &ClientSecrets,
    caller: &Caller,
    new: NewClientSecret,
    session: &Session,
    dialect: Dialect,
) -> Result<String, Error> {
    let created = secrets.create(caller, new).await?;
    let expires_at = created.expires_at.as_seconds();
    Ok(session.secret_json(dialect, created.secret.reveal(), expires_at))
}
