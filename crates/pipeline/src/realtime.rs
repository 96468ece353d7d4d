//! Connections to realtime models. A connection is free; each response has a separate hold.

use std::sync::Arc;

use tollgate_catalog::Candidate;
use tollgate_types::{Error, ErrorCode, RequestId};
use tollgate_upstream::{
    CallContext, LiveTranscriptionCall, LiveTranscriptionLink, RealtimeCall, RealtimeLink,
    TranscriptionSettings, UpstreamError, UpstreamErrorKind,
};

use crate::Pipeline;
use crate::admit::free_context;
use crate::dispatch::public_error;
use crate::health::Shape;
use crate::policy::OutputInspection;
use crate::route::{Route, Routed};
use crate::session::PaidTurn;

/// Parameter that errors about the input of a response name.
const INPUT: &str = "item";

/// An open connection to a realtime model.
pub struct OpenedRealtime {
    /// Connection on which no response is running.
    pub link: Box<dyn RealtimeLink>,
    /// Whether responses outside the conversation are possible.
    pub has_outside_responses: bool,
    /// Whether items can be inserted before others, and removed.
    pub has_editable_items: bool,
    candidate: Candidate,
}

impl OpenedRealtime {
    /// Returns the candidate that serves the connection, for usage rows.
    pub fn target(&self) -> Arc<str> {
        self.candidate.target.clone()
    }
}

/// Returns the error of a connection or of a response, for the caller.
pub fn realtime_error(error: &UpstreamError) -> Error {
    public_error(error, INPUT)
}

/// An open connection to a transcription model.
pub struct OpenedTranscription {
    /// Connection without audio.
    pub link: Box<dyn LiveTranscriptionLink>,
    candidate: Candidate,
}

impl OpenedTranscription {
    /// Returns the candidate that serves the connection, for usage rows.
    pub fn target(&self) -> Arc<str> {
        self.candidate.target.clone()
    }
}

impl Pipeline {
    /// Opens a connection to a candidate of the model. Tries the candidates in order, each one
    /// once. Returns the public error of the last one if all fail, and `unsupported_endpoint` if
    /// none has a port for realtime conversations.
    pub async fn open_realtime(&self, routed: &Routed, request: RequestId) -> Result<OpenedRealtime, Error> {
        let mut failure = None;
        for route in &routed.routes {
            let Some(realtime) = route.provider.realtime() else {
                continue;
            };
            let call = RealtimeCall {
                upstream_model: route.candidate.upstream_model.clone(),
            };
            match realtime.open(&self.connection_context(request), &call).await {
                Ok(link) => {
                    return Ok(OpenedRealtime {
                        link,
                        has_outside_responses: realtime.has_outside_responses(),
                        has_editable_items: realtime.has_editable_items(),
                        candidate: route.candidate.clone(),
                    });
                }
                Err(error) if self.refused(route, request, &error, &mut failure) => break,
                Err(_) => {}
            }
        }
        Err(failure.unwrap_or_else(|| unsupported_realtime(&routed.public_model)))
    }

    /// Opens a connection for live transcription, as [`Pipeline::open_realtime`] does.
    pub async fn open_live_transcription(
        &self,
        routed: &Routed,
        settings: &TranscriptionSettings,
        request: RequestId,
    ) -> Result<OpenedTranscription, Error> {
        let mut failure = None;
        for route in &routed.routes {
            let Some(transcriptions) = route.provider.live_transcriptions() else {
                continue;
            };
            let call = LiveTranscriptionCall {
                upstream_model: route.candidate.upstream_model.clone(),
                settings: settings.clone(),
            };
            match transcriptions
                .open(&self.connection_context(request), &call)
                .await
            {
                Ok(link) => {
                    return Ok(OpenedTranscription {
                        link,
                        candidate: route.candidate.clone(),
                    });
                }
                Err(error) if self.refused(route, request, &error, &mut failure) => break,
                Err(_) => {}
            }
        }
        Err(failure.unwrap_or_else(|| unsupported_realtime(&routed.public_model)))
    }

    fn connection_context(&self, request: RequestId) -> CallContext {
        let timeout = self.settings.timeouts.headers;
        free_context(request, "an idle realtime connection is free", timeout)
    }

    /// Records a refused connection. Returns whether the other candidates would refuse it, too.
    fn refused(
        &self,
        route: &Route,
        request: RequestId,
        error: &UpstreamError,
        failure: &mut Option<Error>,
    ) -> bool {
        let provider = &route.candidate.provider;
        tracing::warn!(request.id = %request, provider = %provider, %error, "upstream refused a realtime connection");
        self.health.failed(&route.candidate, error, Shape::default());
        *failure = Some(realtime_error(error));
        is_final(error)
    }

    /// Returns the context of the upstream work of a paid turn.
    pub fn turn_context(&self, turn: &PaidTurn) -> CallContext {
        self.context(&turn.admission)
    }

    /// Records the end of a response of a connection, which affects the health of its candidate.
    pub fn note_realtime(
        &self,
        request: RequestId,
        opened: &OpenedRealtime,
        result: Result<(), &UpstreamError>,
    ) {
        self.note_connection(request, &opened.candidate, result);
    }

    /// Records the end of a turn of a live transcription, which affects the health of its
    /// candidate.
    pub fn note_transcription(
        &self,
        request: RequestId,
        opened: &OpenedTranscription,
        result: Result<(), &UpstreamError>,
    ) {
        self.note_connection(request, &opened.candidate, result);
    }

    fn note_connection(&self, request: RequestId, candidate: &Candidate, result: Result<(), &UpstreamError>) {
        match result {
            Ok(()) => self.health.succeeded(candidate, Shape::default()),
            Err(error) => {
                tracing::warn!(request.id = %request, provider = %candidate.provider, %error, "upstream failed");
                self.health.failed(candidate, error, Shape::default());
            }
        }
    }

    /// Returns the inspection of a response's output; `None` if the content policy does not read
    /// it.
    pub fn output_inspection(&self, request: RequestId) -> Option<OutputInspection> {
        let policy = self.policy().filter(|policy| policy.inspects_output())?;
        Some(OutputInspection::new(policy, request))
    }
}

/// Whether another candidate would refuse the connection, too.
const fn is_final(error: &UpstreamError) -> bool {
    matches!(
        error.kind,
        UpstreamErrorKind::Rejected | UpstreamErrorKind::Simulated(_)
    )
}

/// Returns the error for a model without realtime sessions.
pub fn unsupported_realtime(model: &str) -> Error {
    let message = format!(
        "The model '{model}' does not support realtime sessions. GET /v1/models lists the endpoints of each model."
    );
    Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model")
}
