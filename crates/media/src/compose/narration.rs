//! Script and narration steps: a chat model writes the script, and a speech model or the built-in
//! voice speaks each scene.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tollgate_billing::Demand;
use tollgate_edge::members::invalid;
use tollgate_jobs::Work;
use tollgate_media_tools::timing::spread;
use tollgate_media_tools::{Scratch, SpeechFormat, SpeechSpec, Tools, Word};
use tollgate_pipeline::provider_job::is_passing;
use tollgate_pipeline::{CallRequest, DeliveredSpeech as Spoken, Pipeline, ReferencesMedia, Routed};
use tollgate_storage::{Settlement, blob};
use tollgate_types::usage::Outcome as Ending;
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{AudioFormat, SpeechCall};

use super::job::{CompositionHandler, fault};
use super::parallel_steps::StopReason;
use super::payload::{CallUsage, Composition, VoiceClip, Written};
use super::script::{self, Brief};
use super::service::ENDPOINT;
use super::storyboard::{Storyboard, Voice};
use crate::audio::narration_demand;
use crate::storage::{Facts, INPUT_RETENTION};

/// Age of the job up to which temporary errors of a model are retried.
const MODEL_TIMEOUT: Duration = Duration::from_secs(600);
/// Delay before a failed model call is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum size of the audio of one scene, in bytes: 64 MiB.
const MAX_VOICE_BYTES: usize = 64 << 20;
/// Voice of a speech model if the storyboard names no voice.
const DEFAULT_VOICE: &str = "alloy";
/// Voice of the built-in synthesizer (espeak-ng) if the storyboard names no voice.
const DEFAULT_BUILT_IN_VOICE: &str = "en-us";

impl CompositionHandler {
    /// Generates the script with a chat model. Returns `None` if the request has no topic.
    pub(super) async fn script(
        &self,
        work: &Work,
        payload: &Composition,
    ) -> Result<Option<Written>, StopReason> {
        let (Some(topic), Some(model)) = (&payload.topic, &payload.model_plan.script) else {
            return Ok(None);
        };
        let recipe = self.media_jobs.recipes.find(&payload.recipe);
        let recipe = recipe.ok_or_else(|| fault(Error::internal("unknown recipe in a stored job")))?;
        let images: Vec<String> = topic.images.iter().map(|image| image.address.clone()).collect();
        let brief = Brief {
            recipe,
            topic: &topic.text,
            scenes: topic.scenes,
            images: &images,
        };
        let written: Written = self
            .run_model_step(work, super::job::SCRIPT_STEP, async || {
                let mut routed = self.routed(work, payload, model).await?;
                let call = brief.call(&mut routed)?;
                let demand = brief.base_demand(&call);
                let (pipeline, settled) = self.media_jobs.pipeline.executing_job(work.job());
                let request = self.request(work, payload, demand, call).await?;
                let admitted = pipeline.admit(routed, request, |_| Vec::new()).await?;
                let answer = pipeline.run(admitted.0).await?.answer;
                let draft = script::draft(answer)?;
                let is_withheld = draft.is_none();
                let mut board = match draft {
                    Some(draft) => brief.filled(&payload.board, draft)?,
                    None => payload.board.clone(),
                };
                for (scene, image) in board.scenes.iter_mut().zip(&topic.images) {
                    scene.visual.media = image.media;
                }
                let spent = spent(model, settled.get())?;
                Ok(Written {
                    board,
                    spent,
                    is_withheld,
                })
            })
            .await?;
        Ok(Some(written))
    }

    /// Applies the content policy for inputs to the script that the model wrote.
    pub(super) async fn check_script(&self, work: &Work, board: &Storyboard) -> Result<(), StopReason> {
        let policy = self.media_jobs.pipeline.policy();
        let Some(policy) = policy.filter(|policy| policy.inspects_input()) else {
            return Ok(());
        };
        let scenes = board.scenes.iter();
        let texts = scenes.flat_map(|scene| [&scene.narration, &scene.visual.prompt]);
        let texts: Vec<String> = texts.flatten().cloned().collect();
        match policy.check_input(work.job().request, &texts).await {
            Ok(()) => Ok(()),
            Err(error) if error.code == ErrorCode::ContentPolicyViolation => Err(StopReason::Blocked),
            Err(_) => Err(StopReason::Later(RETRY_INTERVAL)),
        }
    }

    /// Generates the narration audio of a scene, with the speech model or the built-in voice.
    pub(super) async fn voice(
        &self,
        work: &Work,
        payload: &Composition,
        step: u32,
        (voice, text): (&Voice, &str),
    ) -> Result<VoiceClip, StopReason> {
        let Some(model) = &payload.model_plan.voice else {
            return self
                .run_local_step(work, step, async || self.built_in(work, voice, text).await)
                .await;
        };
        self.run_model_step(work, step, async || {
            let mut routed = self.routed(work, payload, model).await?;
            routed.retain_speakers()?;
            let demand = narration_demand(&routed.model, text.chars().count() as u64, text.len());
            let call = SpeechCall {
                upstream_model: routed.public_model.clone(),
                input: text.into(),
                voice: voice.voice.as_deref().unwrap_or(DEFAULT_VOICE).into(),
                has_own_voice: false,
                instructions: None,
                format: AudioFormat::Wav,
                speed: voice.speed,
            };
            let (pipeline, settled) = self.media_jobs.pipeline.executing_job(work.job());
            let request = self.request(work, payload, demand, call).await?;
            let admitted = pipeline.admit(routed, request, |_| Vec::new()).await?;
            let audio = whole(&pipeline, admitted.0).await?;
            let spent = spent(model, Some(settled.wait().await))?;
            self.timed_voice(work, text, audio, spent).await
        })
        .await
    }

    async fn built_in(&self, work: &Work, voice: &Voice, text: &str) -> Result<VoiceClip, Error> {
        let spec = speech_spec(voice);
        let (speech, words) = self
            .media_jobs
            .tools
            .speak_timed(text, &spec)
            .await
            .map_err(speech_error)?;
        self.store_voice(work, speech.bytes, speech.duration, &words, None)
            .await
    }

    /// Stores a provider's speech with estimated word timestamps. The words are spread over the
    /// audio between leading and trailing silence, in proportion to their length.
    async fn timed_voice(
        &self,
        work: &Work,
        text: &str,
        audio: Bytes,
        spent: CallUsage,
    ) -> Result<VoiceClip, Error> {
        let scratch = Scratch::make().map_err(speech_error)?;
        let place = scratch.file("voice");
        tokio::fs::write(&place, &audio).await.map_err(internal)?;
        let (from, to) = self.bounds(&place).await?;
        let duration = self
            .media_jobs
            .tools
            .probe(&place)
            .await
            .map_err(speech_error)?
            .duration;
        let words: Vec<Word> = spread(text, to.saturating_sub(from))
            .into_iter()
            .map(|word| Word {
                from: word.from + from,
                to: word.to + from,
                ..word
            })
            .collect();
        self.store_voice(work, audio, duration, &words, Some(spent)).await
    }

    async fn bounds(&self, place: &Path) -> Result<(Duration, Duration), Error> {
        self.media_jobs
            .tools
            .silence_bounds(place)
            .await
            .map_err(speech_error)
    }

    async fn store_voice(
        &self,
        work: &Work,
        audio: Bytes,
        duration: Duration,
        words: &[Word],
        spent: Option<CallUsage>,
    ) -> Result<VoiceClip, Error> {
        let facts = Facts {
            mime_type: "audio/wav".to_owned(),
            duration: Some(duration),
            ..Facts::default()
        };
        let job = work.job();
        let stored = self.media_jobs.storage.store(
            job.account,
            blob::whole(audio),
            facts,
            job.terms.id.as_u128(),
            INPUT_RETENTION,
        );
        let stored = stored.await.map_err(|error| crate::jobs::unavailable(&error))?;
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Ok(VoiceClip::new(stored.id, micros, words, spent))
    }

    /// Runs a step that makes one synchronous model call. If the response to a call was lost, the
    /// call is repeated, and only one call is charged.
    async fn run_model_step<T: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        work: &Work,
        number: u32,
        ask: impl AsyncFnOnce() -> Result<T, Error>,
    ) -> Result<T, StopReason> {
        use tollgate_types::StepState::{Done, Failed, Intended, Submitted, Unknown};
        if let Some(step) = work.step(number) {
            match step.state {
                Done => return self.opened(work, &step.outcome),
                Intended | Submitted | Unknown => work.record_outcome(number, Failed, Vec::new()).await?,
                Failed => {}
            }
        }
        if work.cancelled().is_cancelled() {
            return Err(StopReason::Cancelled);
        }
        work.intend(number, Vec::new()).await?;
        let cancelled = work.cancelled().clone();
        let answer = tokio::select! {
            answer = ask() => answer,
            () = cancelled.cancelled() => {
                work.record_outcome(number, Failed, Vec::new()).await?;
                return Err(StopReason::Cancelled);
            }
        };
        match answer {
            Ok(generated) => {
                work.record_outcome(number, Done, self.sealed(work, &generated)?)
                    .await?;
                Ok(generated)
            }
            Err(error) => {
                work.record_outcome(number, Failed, Vec::new()).await?;
                let age = self.media_jobs.clock.now().since(work.job().created_at);
                let is_passing = is_passing(&error) || error.code == ErrorCode::RateLimitExceeded;
                match error.code {
                    ErrorCode::OutputBlocked => Err(StopReason::Blocked),
                    _ if is_passing && age < MODEL_TIMEOUT => Err(StopReason::Later(RETRY_INTERVAL)),
                    _ => Err(StopReason::Failed(error, Ending::UpstreamError)),
                }
            }
        }
    }

    /// Routes the model. The prices are those of the time of acceptance.
    pub(super) async fn routed(
        &self,
        work: &Work,
        payload: &Composition,
        model: &str,
    ) -> Result<Routed, Error> {
        let caller = self
            .media_jobs
            .caller(work.job(), payload.head.key_mode())
            .await?;
        let mut routed = self.media_jobs.pipeline.route(&caller, model)?;
        if let Some((version, prices)) = payload.model_plan.prices(model) {
            routed.use_agreed_prices(version, prices);
        }
        Ok(routed)
    }

    async fn request<C: ReferencesMedia>(
        &self,
        work: &Work,
        payload: &Composition,
        demand: Demand,
        call: C,
    ) -> Result<CallRequest<C>, Error> {
        Ok(CallRequest {
            caller: self
                .media_jobs
                .caller(work.job(), payload.head.key_mode())
                .await?,
            request: work.job().request,
            accepted_at: payload.accepted_at,
            endpoint: ENDPOINT,
            demand,
            max_cost: None,
            call,
        })
    }
}

/// Returns the settings of the built-in voice.
fn speech_spec(voice: &Voice) -> SpeechSpec {
    let mut spec = SpeechSpec::new(SpeechFormat::Wav);
    spec.voice = voice
        .voice
        .clone()
        .unwrap_or_else(|| DEFAULT_BUILT_IN_VOICE.to_owned());
    spec.speed = voice.speed.unwrap_or(1.0);
    spec
}

/// Checks the settings of the built-in voice: speaks one letter, and returns an error if the voice
/// does not exist.
pub(super) async fn check_voice(tools: &Tools, voice: &Voice) -> Result<(), Error> {
    match tools.speak("a", &speech_spec(voice)).await {
        Ok(_) => Ok(()),
        Err(tollgate_media_tools::Error::Input(_)) => {
            let known = "is not a built-in voice. Use a voice of espeak-ng, such as 'en-us', 'de' or 'fr+f3'";
            Err(invalid("voice.voice", known))
        }
        Err(error) => Err(speech_error(error)),
    }
}

/// Returns the complete audio of a speech call. Collects the chunks if the response is streamed.
async fn whole(
    pipeline: &Arc<Pipeline>,
    admission: tollgate_pipeline::Admission<SpeechCall>,
) -> Result<Bytes, Error> {
    let mut chunks = match pipeline.speak(admission).await?.answer {
        Spoken::Whole(bytes, _) => return Ok(bytes),
        Spoken::Stream(chunks) => chunks,
    };
    let mut audio = BytesMut::new();
    while let Some(chunk) = chunks.recv().await {
        audio.extend_from_slice(&chunk?);
        if audio.len() > MAX_VOICE_BYTES {
            let message =
                "The speech model returned more than 64 MiB of audio for a scene. Choose another model.";
            return Err(Error::new(ErrorCode::UpstreamError, message));
        }
    }
    Ok(audio.freeze())
}

fn spent(model: &str, settlement: Option<Settlement>) -> Result<CallUsage, Error> {
    let settlement = settlement.ok_or_else(|| Error::internal("a call was not settled"))?;
    Ok(CallUsage {
        model: model.to_owned(),
        target: settlement.target.to_string(),
        usage: settlement.usage,
    })
}

fn speech_error(error: tollgate_media_tools::Error) -> Error {
    let message = "The narration could not be synthesized. Choose another voice, or send the request again.";
    Error::new(ErrorCode::ModelUnavailable, message)
        .with_param("voice")
        .with_source(error.to_string())
}

fn internal(error: std::io::Error) -> Error {
    Error::internal(error.to_string())
}
