//! How a composition is carried out: script, voices, scenes, segments, film. Each piece is a step, so that whoever has the job
//! next goes on from the pieces that are there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollgate_jobs::{Handler, Ran, Work};
use tollgate_storage::{Job, JobEnd, JobError, UsagePart};
use tollgate_studio::{Caption, captions};
use tollgate_types::usage::Outcome as Ending;
use tollgate_types::{Error, JobStatus, MediaId, StepState};

use super::KIND;
use super::cast::{self, Shot};
use super::order::{Composed, Composition, Line, Spent, Voiced};
use super::stage::{Meter, Stage, Stop};
use super::storyboard::{Scene, Storyboard};
use crate::images::{self, Pictures};
use crate::making::{Making, Studio, Turn, blocked, corrupt};
use crate::order::{self, Head, Order, Outcome, Part};
use crate::videos::{self, Films};

/// Numbers of steps: one script, one list of what is asked for, the film; and from here one for each scene.
pub(super) const SCRIPT: u32 = 0;
const SHOTS: u32 = 1;
pub(super) const FILM: u32 = 2;
const VOICES: u32 = 100;
const VISUALS: u32 = 200;
pub(super) const SEGMENTS: u32 = 300;
/// How many scenes are asked for at once.
const AT_ONCE: usize = 4;
/// How many voices.
const VOICES_AT_ONCE: usize = 2;

/// How long a scene is before and after what is said in it.
pub(super) const LEAD: Duration = Duration::from_millis(300);
const TAIL: Duration = Duration::from_millis(500);
/// How long a scene lasts in which nothing is said, where nobody says it.
const SILENT: f64 = 4.0;
/// Longest scene.
const LONGEST: f64 = 60.0;

/// Carries compositions out.
pub(crate) struct Composing {
    pub(super) studio: Arc<Studio>,
    pictures: Making<Pictures>,
    films: Making<Films>,
}

/// What a scene shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Take {
    Picture {
        model: String,
        simulated: bool,
        wish: images::Wish,
    },
    Film {
        model: String,
        simulated: bool,
        wish: videos::Wish,
    },
    Own {
        media: MediaId,
        is_film: bool,
    },
}

/// A scene's picture or film.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) media: MediaId,
    pub(super) is_film: bool,
    /// Whether nobody should take it for real.
    pub(super) simulated: bool,
    /// Microseconds of a film.
    pub(super) duration: Option<u64>,
    spent: Option<Spent>,
}

/// A scene with everything that it is made of.
pub(super) struct Ready<'a> {
    pub(super) scene: &'a Scene,
    pub(super) voiced: Option<Voiced>,
    pub(super) shown: Shown,
    /// How long it lasts.
    pub(super) duration: Duration,
    /// What is written on it, by its own time.
    pub(super) captions: Vec<Caption>,
}

impl Composing {
    pub(crate) fn new(studio: Arc<Studio>) -> Self {
        Self {
            pictures: Making::new(studio.clone(), Pictures),
            films: Making::new(studio.clone(), Films),
            studio,
        }
    }

    async fn carry_out(
        &self,
        work: &Work,
        order: &Composition,
        bill: &mut Vec<UsagePart>,
    ) -> Result<Composed, Stop> {
        let start = Stage {
            phase: "script",
            from: 0,
            to: 2,
            at_once: 1,
        };
        let written = vec![self.script(work, order)];
        let mut written = start.run(work, &Meter::new(1), written).await?;
        let (board, spent) = written.pop().ok_or_else(|| fault(Error::internal("no script")))?;
        add(bill, order, SCRIPT, "script", spent);
        if order.is_plan {
            return self.planned(work, order, board).await;
        }
        let takes = self.takes(work, order, &board).await?;
        let voices = self.voices(work, order, &board).await?;
        for (number, (scene, voiced)) in (0..).zip(board.scenes.iter().zip(&voices)) {
            let spent = voiced.as_ref().and_then(|voiced| voiced.spent.clone());
            add(
                bill,
                order,
                VOICES + number,
                &format!("{} voice", scene.id),
                spent,
            );
        }
        let shown = self.visuals(work, order, &takes, bill, &board).await?;
        let size = board.size();
        let scenes = board.scenes.iter().zip(voices).zip(shown);
        let ready: Vec<Ready<'_>> = scenes
            .map(|((scene, voiced), shown)| Ready::new(&board, scene, voiced, shown))
            .collect();
        let segments = self.segments(work, &board, size, &ready).await?;
        self.film(work, order, &board, (&ready, &segments), bill).await
    }

    /// What each scene is asked for, written down once: it is the same whatever the catalog says later.
    async fn takes(&self, work: &Work, order: &Composition, board: &Storyboard) -> Result<Vec<Take>, Stop> {
        self.local(work, SHOTS, async || {
            let mut takes = Vec::with_capacity(board.scenes.len());
            for scene in &board.scenes {
                takes.push(self.take(work, order, board, scene).await?);
            }
            Ok(takes)
        })
        .await
    }

    async fn take(
        &self,
        work: &Work,
        order: &Composition,
        board: &Storyboard,
        scene: &Scene,
    ) -> Result<Take, Error> {
        let visual = &scene.visual;
        if let Some(media) = visual.media {
            let is_film = visual.video.is_some();
            return Ok(Take::Own { media, is_film });
        }
        let model = visual.model.as_ref().or(order.cast.visual.as_ref());
        let model = model
            .ok_or_else(|| Error::internal("a scene has no model"))?
            .clone();
        let routed = self.routed(work, order, &model).await?;
        Ok(match cast::shot(&routed.model, board, scene, order.seed)?.0 {
            Shot::Picture(wish) => Take::Picture {
                model,
                simulated: routed.model.simulated,
                wish,
            },
            Shot::Film(wish) => Take::Film {
                model,
                simulated: routed.model.simulated,
                wish,
            },
        })
    }

    async fn voices(
        &self,
        work: &Work,
        order: &Composition,
        board: &Storyboard,
    ) -> Result<Vec<Option<Voiced>>, Stop> {
        let stage = Stage {
            phase: "voice",
            from: 2,
            to: 10,
            at_once: VOICES_AT_ONCE,
        };
        let said = (0..)
            .zip(&board.scenes)
            .map(async |(number, scene): (u32, &Scene)| {
                let (Some(voice), Some(text)) = (&board.voice, &scene.narration) else {
                    return Ok(None);
                };
                let voiced = self.voice(work, order, VOICES + number, (voice, text));
                Box::pin(voiced).await.map(Some)
            });
        let said: Vec<_> = said.collect();
        stage.run(work, &Meter::new(said.len()), said).await
    }

    async fn visuals(
        &self,
        work: &Work,
        order: &Composition,
        takes: &[Take],
        bill: &mut Vec<UsagePart>,
        board: &Storyboard,
    ) -> Result<Vec<Shown>, Stop> {
        let stage = Stage {
            phase: "scenes",
            from: 10,
            to: 30,
            at_once: AT_ONCE,
        };
        let meter = Meter::new(takes.len());
        let asked = (0..).zip(takes).map(|(number, take): (u32, &Take)| {
            let part = work.part(meter.of(number as usize));
            async move { Box::pin(self.visual(&part, order, VISUALS + number, take)).await }
        });
        let asked: Vec<_> = asked.collect();
        let made = stage.run(work, &meter, asked).await;
        // What was made is paid for also when the rest of it is withheld or not wanted any more.
        for (number, take) in (0..).zip(takes) {
            let name = board
                .scenes
                .get(number as usize)
                .map_or("", |scene| scene.id.as_str());
            let spent = match &made {
                Ok(made) => made.get(number as usize).and_then(|shown| shown.spent.clone()),
                Err(_) => self.spent_on(work, VISUALS + number, take)?,
            };
            add(bill, order, VISUALS + number, &format!("{name} visual"), spent);
        }
        made
    }

    async fn visual(&self, work: &Work, order: &Composition, step: u32, take: &Take) -> Result<Shown, Stop> {
        let (turn, is_film) = match take {
            Take::Own { media, is_film } => {
                return Ok(Shown {
                    media: *media,
                    is_film: *is_film,
                    simulated: false,
                    duration: self.length(work, *media).await?,
                    spent: None,
                });
            }
            Take::Picture { model, wish, .. } => {
                let order = one(order, model, wish);
                (self.pictures.step(work, &order, step, 1).await?, false)
            }
            Take::Film { model, wish, .. } => {
                let order = one(order, model, wish);
                (self.films.step(work, &order, step, 1).await?, true)
            }
        };
        let part = match turn {
            Turn::Done(part) if part.is_blocked => return Err(Stop::Blocked),
            Turn::Done(part) => part,
            Turn::Failed(error, ending) => return Err(Stop::Failed(error, ending)),
            Turn::Cancelled => return Err(Stop::Cancelled),
            Turn::Later(pause) => return Err(Stop::Later(pause)),
        };
        let kept = part
            .pieces
            .first()
            .ok_or_else(|| fault(Error::internal("nothing was made")))?;
        Ok(Shown {
            media: kept.media,
            is_film,
            simulated: take.is_simulated(),
            duration: kept.duration,
            spent: take.spent(&part),
        })
    }

    async fn length(&self, work: &Work, media: MediaId) -> Result<Option<u64>, Stop> {
        let found = self.studio.shelf.there(work.job().account, media).await?;
        let length = found.and_then(|media| media.duration);
        Ok(length.and_then(|length| u64::try_from(length.as_micros()).ok()))
    }

    /// What a step that is done has consumed.
    fn spent_on(&self, work: &Work, step: u32, take: &Take) -> Result<Option<Spent>, Stop> {
        let done = work.step(step).filter(|step| step.state == StepState::Done);
        let part = done.map(|step| self.opened::<Part>(work, &step.outcome));
        Ok(part.transpose()?.and_then(|part| take.spent(&part)))
    }

    /// The storyboard and what each of its steps would cost. The script is paid by then.
    async fn planned(&self, work: &Work, order: &Composition, board: Storyboard) -> Result<Composed, Stop> {
        let mut routes = Vec::new();
        for model in order.cast.models() {
            routes.push(self.routed(work, order, model).await.map_err(fault)?);
        }
        let items = cast::items(&order.cast, &mut routes, &board, order.seed);
        let items = items.map_err(fault)?;
        let to_come = items.iter().map(|item| Line {
            name: item.name.clone(),
            model: item.model.clone(),
            cost: item.cost.to_string(),
        });
        Ok(Composed {
            outcome: self.outcome(Vec::new()),
            is_plan: true,
            recipe: order.recipe.clone(),
            price: to_come.collect(),
            board,
            subtitles: None,
            measured: None,
        })
    }

    pub(super) fn outcome(&self, pieces: Vec<crate::order::Kept>) -> Outcome {
        Outcome {
            created_at: self.studio.clock.now(),
            pieces,
            inline: false,
        }
    }

    /// A step that is done here and asks nobody: it is done again when it was not finished.
    pub(super) async fn local<T: Serialize + DeserializeOwned>(
        &self,
        work: &Work,
        number: u32,
        make: impl AsyncFnOnce() -> Result<T, Error>,
    ) -> Result<T, Stop> {
        match work.step(number) {
            Some(step) if step.state == StepState::Done => return self.opened(work, &step.outcome),
            Some(step) if step.state == StepState::Intended => {}
            _ => drop(work.intend(number, Vec::new()).await?),
        }
        let cancelled = work.cancelled().clone();
        let made = tokio::select! {
            made = make() => made.map_err(fault)?,
            () = cancelled.cancelled() => return Err(Stop::Cancelled),
        };
        work.became(number, StepState::Done, self.sealed(work, &made)?)
            .await?;
        Ok(made)
    }

    pub(super) fn sealed(&self, work: &Work, what: &impl Serialize) -> tollgate_storage::Result<Vec<u8>> {
        let job = work.job();
        let sealed = order::seal(&self.studio.vault, job.account, job.terms.id, what);
        sealed.map_err(|error| corrupt(&error))
    }

    pub(super) fn opened<T: DeserializeOwned>(&self, work: &Work, sealed: &[u8]) -> Result<T, Stop> {
        let opened = order::open(&self.studio.vault, work.job(), sealed);
        opened.map_err(|error| Stop::Storage(corrupt(&error)))
    }

    /// The end of a job: what it has made, or why it has made nothing, and which steps are paid.
    fn ended(
        &self,
        job: &Job,
        ahead: Duration,
        (status, ending): (JobStatus, Ending),
        made: Result<Option<Vec<u8>>, Error>,
        parts: Vec<UsagePart>,
    ) -> Ran {
        let pipeline = &self.studio.pipeline;
        let settlement = pipeline.conclude_parts(job, &parts, ending, None, ahead);
        let error = made.as_ref().err().map(JobError::from);
        Ran::Ended(Box::new(JobEnd {
            status,
            result: made.ok().flatten(),
            error,
            settlement,
            events: Vec::new(),
            parts,
        }))
    }
}

#[async_trait]
impl Handler for Composing {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn run(&self, work: &mut Work) -> tollgate_storage::Result<Ran> {
        let job = work.job().clone();
        let order: Composition = match order::open(&self.studio.vault, &job, &job.terms.body) {
            Ok(order) => order,
            Err(error) => {
                let end = (JobStatus::Failed, Ending::Crashed);
                return Ok(self.ended(&job, Duration::ZERO, end, Err(error), Vec::new()));
            }
        };
        let ahead = order.head.ahead;
        let mut bill = Vec::new();
        let composed = Box::pin(self.carry_out(work, &order, &mut bill)).await;
        Ok(match composed {
            Ok(composed) => {
                let end = (JobStatus::Completed, Ending::Ok);
                let sealed = self.sealed(work, &composed)?;
                self.ended(&job, ahead, end, Ok(Some(sealed)), bill)
            }
            Err(Stop::Storage(error)) => return Err(error),
            Err(Stop::Later(pause)) => Ran::Later(pause),
            Err(Stop::Cancelled) => {
                let end = (JobStatus::Cancelled, Ending::Cancelled);
                self.ended(&job, ahead, end, Ok(None), bill)
            }
            Err(Stop::Blocked) => {
                let end = (JobStatus::Failed, Ending::BlockedOutput);
                self.ended(&job, ahead, end, Err(blocked()), bill)
            }
            Err(Stop::Failed(error, ending)) => {
                let end = (JobStatus::Failed, ending);
                self.ended(&job, ahead, end, Err(error), Vec::new())
            }
        })
    }
}

impl Take {
    fn is_simulated(&self) -> bool {
        matches!(
            self,
            Take::Picture { simulated: true, .. } | Take::Film { simulated: true, .. }
        )
    }

    fn spent(&self, part: &Part) -> Option<Spent> {
        let (model, usage) = match self {
            Take::Own { .. } => return None,
            Take::Picture { model, wish, .. } => (model, part.consumed(&Pictures, wish, 1)),
            Take::Film { model, wish, .. } => (model, part.consumed(&Films, wish, 1)),
        };
        Some(Spent {
            model: model.clone(),
            provider: part.provider.clone(),
            usage,
        })
    }
}

impl<'a> Ready<'a> {
    /// A scene lasts as long as what is said in it and as its caller wants at the least. A film of the caller's in which nothing
    /// is said is seen whole.
    fn new(board: &Storyboard, scene: &'a Scene, voiced: Option<Voiced>, shown: Shown) -> Self {
        let said = voiced.as_ref().map(|voiced| {
            let spoken = Duration::from_micros(voiced.duration);
            (LEAD + spoken + TAIL).as_secs_f64()
        });
        let own = shown
            .duration
            .filter(|_| shown.is_film)
            .map(|micros| micros as f64 / 1e6);
        let least = scene.duration.unwrap_or(0.0);
        let seconds = match (said, own) {
            (Some(said), _) => said.max(least),
            (None, _) if least > 0.0 => least,
            (None, Some(own)) => own,
            (None, None) => SILENT,
        };
        let frames = (seconds.min(LONGEST) * f64::from(RATE)).ceil();
        let duration = Duration::from_secs_f64(frames / f64::from(RATE));
        let captions = match (&board.captions, &voiced) {
            (Some(wish), Some(voiced)) => captions::group(&voiced.words(LEAD), wish.words_per_line),
            _ => Vec::new(),
        };
        Self {
            scene,
            voiced,
            shown,
            duration,
            captions,
        }
    }
}

/// Frames in a second.
pub(super) const RATE: u32 = 30;

/// An order of one piece of another model.
fn one<W: Clone>(order: &Composition, model: &str, wish: &W) -> Order<W> {
    Order {
        head: Head {
            model: Some(model.to_owned()),
            ..order.head.clone()
        },
        parts: vec![1],
        wish: wish.clone(),
    }
}

fn add(bill: &mut Vec<UsagePart>, order: &Composition, number: u32, name: &str, spent: Option<Spent>) {
    let Some(spent) = spent else { return };
    let from = (spent.model.as_str(), spent.provider.as_str());
    match order.cast.part(number, name.to_owned(), from, spent.usage) {
        Some(part) => bill.push(part),
        None => tracing::error!(model = spent.model, "a step has no price"),
    }
}

/// What cannot be made for a reason of its own.
pub(super) fn fault(error: Error) -> Stop {
    match crate::making::is_passing(&error) {
        true => Stop::Later(Duration::from_secs(5)),
        false => Stop::Failed(error, Ending::UpstreamError),
    }
}
