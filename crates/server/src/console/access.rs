//! Permissions of members on the paths of the public API under `/console/v1`. A session can use
//! only the paths in this table.

use http::Method;
use tollgate_operations::MemberPermission::{self, Manage, Read, Use};

/// The requirements of a request with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// Permission that the member must have.
    pub(super) permission: MemberPermission,
    /// Whether the person must have signed in recently.
    pub(super) needs_proof: bool,
}

/// Method, path and permission. Reads of contents require [`Use`], because viewers read none.
const TABLE: &[(Method, &str, MemberPermission)] = &[
    (Method::GET, "/v1/account/usage", Read),
    (Method::GET, "/v1/account/webhook_secret", Manage),
    (Method::POST, "/v1/account/webhook_secret/rotate", Manage),
    (Method::POST, "/v1/audio/speech", Use),
    (Method::POST, "/v1/audio/transcriptions", Use),
    (Method::POST, "/v1/audio/translations", Use),
    (Method::GET, "/v1/batches", Read),
    (Method::POST, "/v1/batches", Use),
    (Method::GET, "/v1/batches/{batch_id}", Read),
    (Method::POST, "/v1/batches/{batch_id}/cancel", Use),
    (Method::POST, "/v1/chat/completions", Use),
    (Method::POST, "/v1/completions", Use),
    (Method::POST, "/v1/decisions", Use),
    (Method::GET, "/v1/decisions/calibrations", Read),
    (Method::POST, "/v1/decisions/calibrations", Use),
    (Method::GET, "/v1/decisions/calibrations/{calibration_id}", Read),
    (Method::POST, "/v1/decisions/calibrations/{calibration_id}", Use),
    (Method::DELETE, "/v1/decisions/calibrations/{calibration_id}", Use),
    (Method::POST, "/v1/embeddings", Use),
    (Method::GET, "/v1/files", Read),
    (Method::POST, "/v1/files", Use),
    (Method::GET, "/v1/files/{file_id}", Read),
    (Method::DELETE, "/v1/files/{file_id}", Use),
    (Method::GET, "/v1/files/{file_id}/content", Use),
    (Method::POST, "/v1/images/edits", Use),
    (Method::POST, "/v1/images/generations", Use),
    (Method::GET, "/v1/images/templates", Read),
    (Method::POST, "/v1/images/variations", Use),
    (Method::GET, "/v1/jobs", Use),
    (Method::GET, "/v1/jobs/{job_id}", Use),
    (Method::POST, "/v1/jobs/{job_id}/cancel", Use),
    (Method::GET, "/v1/jobs/{job_id}/events", Use),
    (Method::GET, "/v1/media/{media_id}", Use),
    (Method::POST, "/v1/messages", Use),
    (Method::GET, "/v1/messages/batches", Read),
    (Method::POST, "/v1/messages/batches", Use),
    (Method::GET, "/v1/messages/batches/{message_batch_id}", Read),
    (Method::DELETE, "/v1/messages/batches/{message_batch_id}", Use),
    (
        Method::POST,
        "/v1/messages/batches/{message_batch_id}/cancel",
        Use,
    ),
    (
        Method::GET,
        "/v1/messages/batches/{message_batch_id}/results",
        Use,
    ),
    (Method::POST, "/v1/messages/count_tokens", Use),
    (Method::GET, "/v1/models", Read),
    (Method::GET, "/v1/models/{*model}", Read),
    (Method::POST, "/v1/moderations", Use),
    (Method::GET, "/v1/async/chat/completions", Use),
    (Method::POST, "/v1/async/chat/completions", Use),
    (Method::GET, "/v1/async/chat/completions/{id}", Use),
    (Method::GET, "/v1/playground/conversations", Use),
    (Method::GET, "/v1/playground/conversations/{id}", Use),
    (Method::POST, "/v1/realtime/client_secrets", Use),
    (Method::POST, "/v1/realtime/sessions", Use),
    (Method::POST, "/v1/realtime/transcription_sessions", Use),
    (Method::POST, "/v1/research", Use),
    (Method::GET, "/v1/research/{job_id}/sources/{source_id}", Use),
    (Method::POST, "/v1/quote", Use),
    (Method::POST, "/v1/responses", Use),
    (Method::POST, "/v1/responses/compact", Use),
    (Method::POST, "/v1/responses/input_tokens", Use),
    (Method::GET, "/v1/responses/{id}", Use),
    (Method::DELETE, "/v1/responses/{id}", Use),
    (Method::POST, "/v1/responses/{id}/cancel", Use),
    (Method::GET, "/v1/responses/{id}/input_items", Use),
    (Method::POST, "/v1/systemone", Use),
    (Method::GET, "/v1/templates", Read),
    (Method::GET, "/v1/templates/{slug}/preview", Read),
    (Method::GET, "/v1/videos", Use),
    (Method::POST, "/v1/videos", Use),
    (Method::POST, "/v1/videos/compose", Use),
    (Method::GET, "/v1/videos/compose/recipes", Read),
    (Method::POST, "/v1/videos/generations", Use),
    (Method::GET, "/v1/videos/templates", Read),
    (Method::GET, "/v1/videos/{video_id}", Use),
    (Method::DELETE, "/v1/videos/{video_id}", Use),
    (Method::GET, "/v1/videos/{video_id}/content", Use),
    (Method::POST, "/v1/videos/{video_id}/remix", Use),
];

/// Operations of the API that sessions cannot use: WebSockets, whose handshakes have no headers of
/// the page, and the paths of another vendor's clients.
#[cfg(test)]
const EXCLUDED: &[(Method, &str)] = &[
    (Method::GET, "/v1/realtime"),
    (Method::GET, "/v1/responses"),
    (Method::POST, "/v1/models/"),
    (Method::GET, "/v1beta/"),
    (Method::POST, "/v1beta/"),
];

/// Returns the requirements of a request to a path of the public API; `None` if sessions cannot use
/// the path.
pub(super) fn access(method: &Method, path: &str) -> Option<Access> {
    // GET handlers also answer HEAD.
    let method = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    let rows = || TABLE.iter().filter(|row| row.0 == *method);
    let row = rows()
        .find(|row| row.1 == path)
        .or_else(|| rows().find(|row| matches(row.1, path)))?;
    Some(Access {
        permission: row.2,
        needs_proof: path.starts_with("/v1/account/webhook_secret"),
    })
}

/// Whether a path matches a pattern of the router: `{name}` stands for one segment, `{*name}` for
/// the rest.
fn matches(pattern: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    for expected in pattern.split('/') {
        let Some(segment) = segments.next() else {
            return false;
        };
        if expected.starts_with("{*") {
            return !segment.is_empty();
        }
        let is_parameter = expected.starts_with('{') && !segment.is_empty();
        if !is_parameter && segment != expected {
            return false;
        }
    }
    segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use tollgate_edge::scopes::{Requirement, requirement};
    use utoipa::openapi::path::PathItem;

    use super::*;

    fn methods(item: &PathItem) -> Vec<Method> {
        [
            (item.get.is_some(), Method::GET),
            (item.post.is_some(), Method::POST),
            (item.put.is_some(), Method::PUT),
            (item.patch.is_some(), Method::PATCH),
            (item.delete.is_some(), Method::DELETE),
        ]
        .into_iter()
        .filter_map(|(exists, method)| exists.then_some(method))
        .collect()
    }

    #[test]
    fn every_operation_of_the_public_api_is_listed_or_excluded() {
        let mut listed = 0;
        for (path, item) in &crate::router::document().paths.paths {
            for method in methods(item) {
                let is_excluded = EXCLUDED.iter().any(|(excluded, start)| {
                    let matches = if start.ends_with('/') {
                        path.starts_with(start)
                    } else {
                        path == start
                    };
                    *excluded == method && matches
                });
                let pattern = path.replace("/v1/models/{model}", "/v1/models/{*model}");
                let found = access(&method, &pattern);
                assert_ne!(found.is_some(), is_excluded, "{method} {path}");
                listed += usize::from(found.is_some());
            }
        }
        assert_eq!(listed, TABLE.len(), "the table has a path that does not exist");
    }

    #[test]
    fn every_operation_of_the_public_api_has_a_scope_or_requires_none() {
        for (path, item) in &crate::router::document().paths.paths {
            for method in methods(item) {
                let required = requirement(&method, path);
                assert_ne!(required, Requirement::All, "{method} {path}");
            }
        }
    }

    #[test]
    fn paths_match_as_in_the_router() {
        for (method, path, expected) in [
            (Method::GET, "/v1/videos/templates", Some(Read)),
            (Method::GET, "/v1/videos/job_1", Some(Use)),
            (Method::GET, "/v1/videos/job_1/content", Some(Use)),
            (Method::GET, "/v1/videos/job_1/other", None),
            (Method::GET, "/v1/videos/", None),
            (Method::GET, "/v1/models/sim/chat", Some(Read)),
            (Method::GET, "/v1/models/", None),
            (Method::POST, "/v1/responses/compact", Some(Use)),
            (Method::PUT, "/v1/files", None),
            (Method::GET, "/v1/sim/chat", None),
            (Method::GET, "", None),
        ] {
            let found = access(&method, path).map(|access| access.permission);
            assert_eq!(found, expected, "{method} {path}");
        }
    }

    #[test]
    fn reads_of_secrets_require_a_recent_sign_in() {
        let secret = access(&Method::GET, "/v1/account/webhook_secret").unwrap();
        assert_eq!((secret.permission, secret.needs_proof), (Manage, true));
        let usage = access(&Method::HEAD, "/v1/account/usage").unwrap();
        assert_eq!((usage.permission, usage.needs_proof), (Read, false));
        assert_eq!(access(&Method::GET, "/v1/responses"), None);
        assert_eq!(access(&Method::POST, "/v1/models/{*model}"), None);
    }
}
