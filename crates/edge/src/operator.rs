//! Who administers. The same headers are read as for keys, but what they have is a token of another kind: no key of an
//! account opens the admin API, and no token opens the public one.

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

/// What the extractor needs.
pub struct OperatorGate {
    admins: Arc<Admins>,
    failed: FailedKeys,
}

impl OperatorGate {
    /// A gate for these administrators.
    pub fn new(admins: Arc<Admins>, clock: Arc<dyn Clock>) -> Self {
        Self {
            admins,
            failed: FailedKeys::new(clock),
        }
    }

    async fn refuse(&self, ctx: &RequestContext) -> Error {
        self.failed.slow_down(ctx.peer).await;
        let message = format!(
            "The admin token is malformed, revoked or unknown. Tokens of this service begin with '{}'; keys of accounts are none.",
            self.admins.shape().prefix()
        );
        Error::new(ErrorCode::InvalidApiKey, message)
    }
}

/// An administrator and the request that has the token.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Who it is.
    pub admin: Admin,
    /// The request's id.
    pub request: RequestId,
}

impl<S: Send + Sync> FromRequestParts<S> for Operator
where
    Arc<OperatorGate>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let (gate, ctx) = (Arc::<OperatorGate>::from_ref(state), context_of(parts)?);
        let token = match extract_key(&parts.headers, None) {
            Presented::Key(token) => token,
            Presented::Nothing => return Err(missing_token().into()),
            Presented::Unreadable => return Err(gate.refuse(&ctx).await.into()),
        };
        match gate.admins.authenticate(token).await {
            Ok(admin) => Ok(Self {
                admin,
                request: ctx.id,
            }),
            Err(KeyError::Invalid) => Err(gate.refuse(&ctx).await.into()),
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
    let message = "No admin token was supplied. Send it as 'Authorization: Bearer <token>'; `tollgate admins create` makes one.";
    Error::new(ErrorCode::MissingApiKey, message)
}
