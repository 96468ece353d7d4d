//! What is written and said: a script by a chat model, and each scene's words by a speech model or the built-in voice.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tollgate_billing::Demand;
use tollgate_jobs::Work;
use tollgate_pipeline::{CallRequest, NamesMedia, Pipeline, Routed, Voice as Spoken};
use tollgate_storage::{Settlement, blob};
use tollgate_studio::timing::spread;
use tollgate_studio::{Scratch, SpeechFormat, SpeechSpec, Tools, Word};
use tollgate_types::usage::Outcome as Ending;
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{SoundFormat, SpeechCall};

use super::composing::{Composing, fault};
use super::order::{Composition, Spent, Voiced, Written};
use super::script::{self, Brief};
use super::service::ENDPOINT;
use super::stage::Stop;
use super::storyboard::{Storyboard, Voice};
use crate::audio::narration_demand;
use crate::making::is_passing;
use crate::read::invalid;
use crate::shelf::{Facts, INPUT_KEPT};

/// For how long a model is asked that cannot answer at the moment.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long it waits in between.
const PAUSE: Duration = Duration::from_secs(5);
/// The largest recording of one scene.
const MOST_BYTES: usize = 64 << 20;
/// The voice of who names none.
const USUAL_VOICE: &str = "alloy";
/// The same of the built-in one.
const BUILT_IN_VOICE: &str = "en-us";

impl Composing {
    /// The storyboard with its scenes.
    pub(super) async fn script(
        &self,
        work: &Work,
        order: &Composition,
    ) -> Result<(Storyboard, Option<Spent>), Stop> {
        let (Some(topic), Some(model)) = (&order.topic, &order.cast.script) else {
            return Ok((order.board.clone(), None));
        };
        let recipe = self.studio.recipes.find(&order.recipe);
        let recipe = recipe.ok_or_else(|| fault(Error::internal("a recipe is gone")))?;
        let images: Vec<String> = topic.images.iter().map(|image| image.address.clone()).collect();
        let brief = Brief {
            recipe,
            topic: &topic.text,
            scenes: topic.scenes,
            images: &images,
        };
        let written: Written = self
            .asked(work, super::composing::SCRIPT, async || {
                let mut routed = self.routed(work, order, model).await?;
                let call = brief.call(&mut routed)?;
                let demand = brief.asked(&call);
                let (pipeline, settled) = self.studio.pipeline.carrying_out(work.job());
                let request = self.request(work, order, demand, call).await?;
                let admitted = pipeline.admit(routed, request, |_| Vec::new()).await?;
                let answer = pipeline.run(admitted.0).await?.answer;
                let mut board = brief.filled(&order.board, script::draft(answer)?)?;
                for (scene, image) in board.scenes.iter_mut().zip(&topic.images) {
                    scene.visual.media = image.media;
                }
                let spent = spent(model, settled.get())?;
                Ok(Written { board, spent })
            })
            .await?;
        self.check_script(work, &written.board).await?;
        Ok((written.board, Some(written.spent)))
    }

    /// What a model has written is looked at like what a caller says; who asked for it has paid for it.
    async fn check_script(&self, work: &Work, board: &Storyboard) -> Result<(), Stop> {
        let policy = self.studio.pipeline.policy();
        let Some(policy) = policy.filter(|policy| policy.inspects_input()) else {
            return Ok(());
        };
        let scenes = board.scenes.iter();
        let texts = scenes.flat_map(|scene| [&scene.narration, &scene.visual.prompt]);
        let texts: Vec<String> = texts.flatten().cloned().collect();
        match policy.check_input(work.job().request, &texts).await {
            Ok(()) => Ok(()),
            Err(error) if error.code == ErrorCode::ContentPolicyViolation => Err(Stop::Blocked),
            Err(_) => Err(Stop::Later(PAUSE)),
        }
    }

    /// What is said in a scene.
    pub(super) async fn voice(
        &self,
        work: &Work,
        order: &Composition,
        step: u32,
        (voice, text): (&Voice, &str),
    ) -> Result<Voiced, Stop> {
        let Some(model) = &order.cast.voice else {
            return self
                .local(work, step, async || self.built_in(work, voice, text).await)
                .await;
        };
        self.asked(work, step, async || {
            let mut routed = self.routed(work, order, model).await?;
            routed.retain_speakers()?;
            let demand = narration_demand(&routed.model, text.chars().count() as u64, text.len());
            let call = SpeechCall {
                upstream_model: routed.public_model.clone(),
                input: text.into(),
                voice: voice.voice.as_deref().unwrap_or(USUAL_VOICE).into(),
                has_own_voice: false,
                instructions: None,
                format: SoundFormat::Wav,
                speed: voice.speed,
            };
            let (pipeline, settled) = self.studio.pipeline.carrying_out(work.job());
            let request = self.request(work, order, demand, call).await?;
            let admitted = pipeline.admit(routed, request, |_| Vec::new()).await?;
            let sound = whole(&pipeline, admitted.0).await?;
            let spent = spent(model, Some(settled.wait().await))?;
            self.heard(work, text, sound, spent).await
        })
        .await
    }

    async fn built_in(&self, work: &Work, voice: &Voice, text: &str) -> Result<Voiced, Error> {
        let spec = spoken_by(voice);
        let (speech, words) = self
            .studio
            .tools
            .speak_timed(text, &spec)
            .await
            .map_err(unspoken)?;
        self.keep_voice(work, speech.bytes, speech.duration, &words, None)
            .await
    }

    /// When each word of what a provider said is heard follows from its letters, between the silence around it.
    async fn heard(&self, work: &Work, text: &str, sound: Bytes, spent: Spent) -> Result<Voiced, Error> {
        let scratch = Scratch::make().map_err(unspoken)?;
        let place = scratch.file("voice");
        tokio::fs::write(&place, &sound).await.map_err(internal)?;
        let (from, to) = self.bounds(&place).await?;
        let duration = self.studio.tools.probe(&place).await.map_err(unspoken)?.duration;
        let words: Vec<Word> = spread(text, to.saturating_sub(from))
            .into_iter()
            .map(|word| Word {
                from: word.from + from,
                to: word.to + from,
                ..word
            })
            .collect();
        self.keep_voice(work, sound, duration, &words, Some(spent)).await
    }

    async fn bounds(&self, place: &Path) -> Result<(Duration, Duration), Error> {
        self.studio.tools.silence_bounds(place).await.map_err(unspoken)
    }

    async fn keep_voice(
        &self,
        work: &Work,
        sound: Bytes,
        duration: Duration,
        words: &[Word],
        spent: Option<Spent>,
    ) -> Result<Voiced, Error> {
        let facts = Facts {
            mime_type: "audio/wav".to_owned(),
            duration: Some(duration),
            ..Facts::default()
        };
        let job = work.job();
        let kept = self.studio.shelf.keep(
            job.account,
            blob::whole(sound),
            facts,
            job.terms.id.as_u128(),
            INPUT_KEPT,
        );
        let kept = kept.await.map_err(|error| crate::jobs::unavailable(&error))?;
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Ok(Voiced::new(kept.id, micros, words, spent))
    }

    /// A step in which a model is asked that answers at once. What nobody has received the answer of is asked for again: it is
    /// charged once.
    async fn asked<T: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        work: &Work,
        number: u32,
        ask: impl AsyncFnOnce() -> Result<T, Error>,
    ) -> Result<T, Stop> {
        use tollgate_types::StepState::{Done, Failed, Intended, Submitted, Unknown};
        if let Some(step) = work.step(number) {
            match step.state {
                Done => return self.opened(work, &step.outcome),
                Intended | Submitted | Unknown => work.became(number, Failed, Vec::new()).await?,
                Failed => {}
            }
        }
        if work.cancelled().is_cancelled() {
            return Err(Stop::Cancelled);
        }
        work.intend(number, Vec::new()).await?;
        let cancelled = work.cancelled().clone();
        let answer = tokio::select! {
            answer = ask() => answer,
            () = cancelled.cancelled() => {
                work.became(number, Failed, Vec::new()).await?;
                return Err(Stop::Cancelled);
            }
        };
        match answer {
            Ok(made) => {
                work.became(number, Done, self.sealed(work, &made)?).await?;
                Ok(made)
            }
            Err(error) => {
                work.became(number, Failed, Vec::new()).await?;
                let age = self.studio.clock.now().since(work.job().created_at);
                let is_passing = is_passing(&error) || error.code == ErrorCode::RateLimitExceeded;
                match error.code {
                    ErrorCode::OutputBlocked => Err(Stop::Blocked),
                    _ if is_passing && age < PATIENCE => Err(Stop::Later(PAUSE)),
                    _ => Err(Stop::Failed(error, Ending::UpstreamError)),
                }
            }
        }
    }

    /// The model, at the price that was agreed.
    pub(super) async fn routed(
        &self,
        work: &Work,
        order: &Composition,
        model: &str,
    ) -> Result<Routed, Error> {
        let caller = self.studio.caller(work.job(), order.head.key_mode()).await?;
        let mut routed = self.studio.pipeline.route(&caller, model)?;
        if let Some((version, prices)) = order.cast.prices(model) {
            routed.agree(version, prices);
        }
        Ok(routed)
    }

    async fn request<C: NamesMedia>(
        &self,
        work: &Work,
        order: &Composition,
        demand: Demand,
        call: C,
    ) -> Result<CallRequest<C>, Error> {
        Ok(CallRequest {
            caller: self.studio.caller(work.job(), order.head.key_mode()).await?,
            request: work.job().request,
            accepted_at: order.accepted_at,
            endpoint: ENDPOINT,
            demand,
            max_cost: None,
            call,
        })
    }
}

/// How the built-in voice speaks.
fn spoken_by(voice: &Voice) -> SpeechSpec {
    let mut spec = SpeechSpec::new(SpeechFormat::Wav);
    spec.voice = voice.voice.clone().unwrap_or_else(|| BUILT_IN_VOICE.to_owned());
    spec.speed = voice.speed.unwrap_or(1.0);
    spec
}

/// Whether the built-in voice can speak so: a word is spoken.
pub(super) async fn check_voice(tools: &Tools, voice: &Voice) -> Result<(), Error> {
    match tools.speak("a", &spoken_by(voice)).await {
        Ok(_) => Ok(()),
        Err(tollgate_studio::Error::Input(_)) => {
            let known =
                "is no voice of the gateway, which has those of espeak-ng, such as 'en-us', 'de' or 'fr+f3'";
            Err(invalid("voice.voice", known))
        }
        Err(error) => Err(unspoken(error)),
    }
}

/// All of what is said.
async fn whole(
    pipeline: &Arc<Pipeline>,
    admission: tollgate_pipeline::Admission<SpeechCall>,
) -> Result<Bytes, Error> {
    let mut pieces = match pipeline.speak(admission).await?.answer {
        Spoken::Whole(bytes, _) => return Ok(bytes),
        Spoken::Stream(pieces) => pieces,
    };
    let mut sound = BytesMut::new();
    while let Some(piece) = pieces.recv().await {
        sound.extend_from_slice(&piece?);
        if sound.len() > MOST_BYTES {
            let message = "The speech model answered with more than a scene can have.";
            return Err(Error::new(ErrorCode::UpstreamError, message));
        }
    }
    Ok(sound.freeze())
}

fn spent(model: &str, settlement: Option<Settlement>) -> Result<Spent, Error> {
    let settlement = settlement.ok_or_else(|| Error::internal("a call was not settled"))?;
    Ok(Spent {
        model: model.to_owned(),
        provider: settlement.provider.to_string(),
        usage: settlement.usage,
    })
}

fn unspoken(error: tollgate_studio::Error) -> Error {
    let message = "What is to be said cannot be spoken. Name another voice.";
    Error::new(ErrorCode::ModelUnavailable, message)
        .with_param("voice")
        .with_source(error.to_string())
}

fn internal(error: std::io::Error) -> Error {
    Error::internal(error.to_string())
}
