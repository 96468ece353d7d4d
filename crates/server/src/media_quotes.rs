//! Quotes media requests for the inference API, which does not know the media API.

use async_trait::async_trait;
use tollgate_billing::ItemizedQuote;
use tollgate_inference::quote::{self, MediaEndpoint, MediaRequest};
use tollgate_media::{MediaState, Submission, audio, compose, images, videos};
use tollgate_types::Error;

/// Quotes with the code of the media API.
pub struct MediaQuotes(pub MediaState);

#[async_trait]
impl quote::MediaQuotes for MediaQuotes {
    async fn quote(&self, request: MediaRequest<'_>) -> Result<ItemizedQuote, Error> {
        let MediaRequest {
            endpoint,
            ctx,
            caller,
            origin,
            body,
        } = request;
        let submission = Submission {
            state: &self.0,
            ctx,
            caller,
            origin,
            body,
        };
        match endpoint {
            MediaEndpoint::ImageGenerations => images::quote(submission).await,
            MediaEndpoint::VideoGenerations => videos::quote(submission).await,
            MediaEndpoint::Videos => videos::quote_video(submission).await,
            MediaEndpoint::Compositions => compose::quote(submission).await,
            MediaEndpoint::Speech => audio::quote_speech(submission).await,
        }
    }
}
