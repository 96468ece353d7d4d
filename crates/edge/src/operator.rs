//! Authentication of administrators. The extractor reads the same headers as [`crate::auth`], but
//! accepts only admin tokens: API keys do not open the admin API, and admin tokens do not open the
//! public API.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, FromRequestParts};
use http::request::Parts;
use tollgate_accounts::{Admins, KeyError};
use tollgate_storage::Admin;
use tollgate_types::{Clock, Error, ErrorCode, RequestId, Retry};

use crate::auth::{Presented, extract_key};
use crate::context::{RequestContext, context_of};
use crate::error::ApiError;
use crate::failed_keys::FailedKeys;
use crate::session::SessionOperator;

/// Shared state of the extractor [`Operator`].
pub struct OperatorAuthenticator {
    admins: Arc<Admins>,
    failed: FailedKeys,
}

impl OperatorAuthenticator {
    /// Creates an authenticator for these administrators.
    pub fn new(admins: Arc<Admins>, clock: Arc<dyn Clock>) -> Self {
        Self {
            admins,
            failed: FailedKeys::new(clock),
        }
    }

    async fn refuse(&self, ctx: &RequestContext) -> Error {
        self.failed.slow_down(ctx.peer).await;
        let message = format!(
            "The admin token is malformed, revoked or unknown. Tokens of this service start with '{}'; API keys of accounts are not accepted.",
            self.admins.shape().prefix()
        );
        Error::new(ErrorCode::InvalidApiKey, message)
    }
}

/// The authenticated administrator, with the request id.
#[derive(Clone, Debug)]
pub struct Operator {
    pub admin: Admin,
    /// Id of the request, as in the `x-request-id` header.
    pub request: RequestId,
}

impl<S: Send + Sync> FromRequestParts<S> for Operator
where
    Arc<OperatorAuthenticator>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let (authenticator, ctx) = (Arc::<OperatorAuthenticator>::from_ref(state), context_of(parts)?);
        if let Some(SessionOperator(admin)) = parts.extensions.get() {
            return Ok(Self {
                admin: admin.clone(),
                request: ctx.id,
            });
        }
        let token = match extract_key(&parts.headers, None) {
            Presented::Key(token) => token,
            Presented::Missing => return Err(missing_token().into()),
            Presented::Unreadable => return Err(authenticator.refuse(&ctx).await.into()),
        };
        match authenticator.admins.authenticate(token).await {
            Ok(admin) => Ok(Self {
                admin,
                request: ctx.id,
            }),
            Err(KeyError::Invalid) => Err(authenticator.refuse(&ctx).await.into()),
            Err(KeyError::Storage(error)) => {
                let message = "The gateway cannot look up admin tokens at the moment. Retry with backoff.";
                let error = Error::new(ErrorCode::Overloaded, message)
                    .with_retry(Retry::After(Duration::from_secs(2)))
                    .with_source(error.to_string());
                Err(error.into())
            }
        }
    }
}

fn missing_token() -> Error {
    let message = "No admin token was supplied. Send it as 'Authorization: Bearer <token>'; `tollgate admins create` creates one.";
    Error::new(ErrorCode::MissingApiKey, message)
}
