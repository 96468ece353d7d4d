//! Creates client secrets.

use tollgate_accounts::{Caller, ClientSecrets, NewClientSecret};
use tollgate_catalog::{Model, ModelKind};
use tollgate_edge::RequestContext;
use tollgate_formats::openai_realtime::{Dialect, Session, SessionKind, SessionLimits, SessionUpdate};
use tollgate_types::{Error, ErrorCode, RealtimeSessionId};

use super::read;
use crate::Realtime;
use crate::socket::{first_session, unsupported};

/// Creates a secret. Returns the JSON of `POST /v1/realtime/client_secrets`.
pub(crate) async fn create(
    realtime: &Realtime,
    ctx: &RequestContext,
    caller: Caller,
    body: &[u8],
) -> Result<String, Error> {
    let request = read::secret(body)?;
    let kind = SessionUpdate::kind_in(&request.session);
    let session = session_of(realtime, ctx, &caller, &request.session, kind, Some("session"))?;
    let new = NewClientSecret {
        session: request.session,
        model: session.named_model,
        lifetime_seconds: request.lifetime_seconds,
        max_cost: request.max_cost,
        max_seconds: request.max_seconds,
        allowed_origins: request.allowed_origins,
    };
    finish(
        &realtime.authenticator.client_secrets,
        &caller,
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
    caller: Caller,
    body: &[u8],
    kind: SessionKind,
) -> Result<String, Error> {
    let text = str::from_utf8(body)
        .map_err(|_| Error::new(ErrorCode::InvalidJson, "The body is not valid UTF-8."))?;
    let session = session_of(realtime, ctx, &caller, text, Some(kind), None)?;
    let new = NewClientSecret {
        session: text.to_owned(),
        model: session.named_model,
        ..NewClientSecret::default()
    };
    finish(
        &realtime.authenticator.client_secrets,
        &caller,
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
    let named = update.model.as_ref();
    let model = match named {
        Some(named) => {
            let routed = realtime.shared.pipeline.route(caller, &named.value);
            let routed = routed.map_err(|error| error.with_param(named.param.clone()))?;
            check_kind(&routed.model, kind).map_err(|error| error.with_param(named.param.clone()))?;
            Some(routed)
        }
        None => None,
    };
    let id = RealtimeSessionId::from_u128(ctx.id.as_u128()).to_string();
    let initial = first_session(id, kind, model.as_ref(), &realtime.shared.settings());
    let session = initial.apply(&update, &SessionLimits::default())?;
    Ok(SecretSession {
        session,
        named_model: named.map(|named| named.value.to_string()),
    })
}

fn check_kind(model: &Model, kind: SessionKind) -> Result<(), Error> {
    let is_fit = match kind {
        SessionKind::Voice => model.kind == ModelKind::Realtime && model.voice.is_some(),
        SessionKind::Transcription => model.kind == ModelKind::Transcription,
    };
    match is_fit {
        true => Ok(()),
        false => Err(unsupported(&model.id)),
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
