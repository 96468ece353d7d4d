//! Lists recipes and accepts compositions. To accept a composition, the service parses the request,
//! selects and prices the models, checks policy and balance, fetches the input media and creates
//! the job with its hold.

use std::time::Duration;

use tollgate_billing::{FixedTerms, Hold, HoldRequest, ItemizedQuote};
use tollgate_catalog::composition_version;
use tollgate_edge::JobReference;
use tollgate_edge::members::invalid;
use tollgate_jobs::sealed;
use tollgate_storage::{Media, NewJob};
use tollgate_types::{Credits, Error, ErrorCode, JobId, JobStatus};

use super::KIND;
use super::narration::check_voice;
use super::payload::{Composition, Image, Topic};
use super::read::{self, Choice, Content, Mode, Request};
use super::recipe::{DEFAULT_RECIPE, Recipe, Visuals};
use super::script::Brief;
use super::step_pricing::{self, Item, ModelPlan};
use super::storyboard::{Captions, MAX_SCENES, Music, SceneContent, Storyboard, split_script};
use super::wire::{RecipeList, RecipeRecord};
use crate::MediaState;
use crate::input::FoundInput;
use crate::job_payload::Head;
use crate::submission::Submission;

pub(super) const ENDPOINT: &str = "/v1/videos/compose";
/// Maximum total size of the input media of one composition, in bytes: 500 MiB.
const MAX_INPUT_BYTES: u64 = 500 << 20;

/// Returns all recipes, and whether this server can render them.
pub(super) fn recipes(state: &MediaState) -> RecipeList {
    let tools = &state.media_jobs.tools;
    let missing: Vec<String> = tools
        .missing()
        .iter()
        .map(|one| format!("{}: apt-get install {}", one.name, one.package))
        .collect();
    let record = |recipe: &Recipe| RecipeRecord::of(recipe, (tools.can_render(), &missing));
    RecipeList {
        object: "list",
        data: state.media_jobs.recipes.all().iter().map(record).collect(),
    }
}

/// Returns the hold that [`compose`] would take for the same request. Input media do not change the
/// price, so they are not fetched.
pub async fn quote(submission: Submission<'_>) -> Result<ItemizedQuote, Error> {
    let Prepared { items, terms, .. } = prepare(&submission).await?;
    let amount = sum(items.iter());
    let ledger = &*submission.state.media_jobs.pipeline.ledger;
    let hold = hold_request(&submission);
    let spendable = Hold::preview_amount(ledger, &hold, &terms, amount).await?;
    let quote = ItemizedQuote {
        public_model: hold.public_model,
        price_version: terms.price_version,
        amount,
        answers: 1,
        items: items.iter().flat_map(Item::of_quote).collect(),
        spendable,
        is_covered: amount <= spendable.total(),
    };
    Ok(quote.without_free_items())
}

/// A validated request whose input media are not fetched yet.
struct Prepared<'r> {
    request: Request,
    recipe: &'r Recipe,
    /// Topic of a script that a model writes.
    topic: Option<Topic>,
    board: Storyboard,
    model_plan: ModelPlan,
    /// Steps that the job executes; for a plan, the script alone.
    items: Vec<Item>,
    terms: FixedTerms,
}

async fn prepare<'r>(submission: &'r Submission<'_>) -> Result<Prepared<'r>, Error> {
    let request = read::request(&submission.body)?;
    let recipe = find(submission, request.recipe.as_deref())?;
    submission.check_webhook(request.webhook_url.as_deref())?;
    let board = build_storyboard(&request, recipe)?;
    let topic = topic(&request, recipe);
    check_policy(submission, &board, topic.as_ref()).await?;
    let models = (request.script_model.as_deref(), request.visual_model.as_deref());
    let (model_plan, mut routes) = ModelPlan::find(submission, recipe, models, &board)?;
    let speaks = topic.is_some() || board.scenes.iter().any(|scene| scene.narration.is_some());
    let own_voice = board
        .voice
        .as_ref()
        .filter(|_| speaks && model_plan.voice.is_none());
    if request.mode == Mode::Render {
        check_programs(submission, &board, speaks, own_voice.is_some())?;
    }
    let tools = &submission.state.media_jobs.tools;
    // A plan works without the synthesizer. In this case, the voice is checked when the plan is
    // rendered.
    if let Some(voice) = own_voice.filter(|voice| voice.voice.is_some() && tools.can_speak()) {
        check_voice(tools, voice).await?;
    }
    let addresses: Vec<String> = topic
        .iter()
        .flat_map(|topic| &topic.images)
        .map(|image| image.address.clone())
        .collect();
    let brief = topic.as_ref().map(|topic| Brief {
        recipe,
        topic: &topic.text,
        scenes: topic.scenes,
        images: &addresses,
    });
    let highest_price = brief
        .as_ref()
        .map_or_else(|| board.clone(), |brief| brief.highest_price(&board));
    let scenes = step_pricing::items(&model_plan, &mut routes, &highest_price, request.seed)?;
    let script = match &brief {
        Some(brief) => step_pricing::script_item(&model_plan, &mut routes, brief)?,
        None => None,
    };
    let is_plan = request.mode == Mode::Plan;
    Ok(Prepared {
        items: script
            .into_iter()
            .chain(scenes.into_iter().filter(|_| !is_plan))
            .collect(),
        terms: FixedTerms {
            price_version: composition_version(),
            not_covered_by: step_pricing::not_covered_by(&routes),
        },
        request,
        recipe,
        topic,
        board,
        model_plan,
    })
}

pub(super) async fn compose(submission: Submission<'_>) -> Result<JobReference, Error> {
    let Prepared {
        request,
        recipe,
        mut topic,
        mut board,
        model_plan,
        items,
        terms,
    } = prepare(&submission).await?;
    let amount = sum(items.iter());
    let hold = hold_request(&submission);
    let ledger = &*submission.state.media_jobs.pipeline.ledger;
    Hold::check_amount(ledger, &hold, &terms, amount).await?;
    let stored = fetch(&submission, &mut board, topic.as_mut(), &request).await?;
    let composition = Composition {
        head: head(&submission, request.metadata),
        is_plan: request.mode == Mode::Plan,
        recipe: recipe.slug.clone(),
        topic,
        board: board.without_inline(),
        model_plan,
        seed: request.seed,
        accepted_at: submission.ctx.accepted_at,
    };
    let accepted = accept(
        &submission,
        &composition,
        request.webhook_url,
        (&hold, terms, amount),
    )
    .await;
    if accepted.is_err() {
        submission.state.storage.discard(&stored).await;
    }
    let id = accepted?;
    let created_at = submission.ctx.accepted_at;
    Ok(JobReference::new(
        &submission.origin,
        id,
        KIND,
        JobStatus::Queued,
        created_at,
    ))
}

async fn accept(
    submission: &Submission<'_>,
    composition: &Composition,
    webhook_url: Option<String>,
    (hold, terms, amount): (&HoldRequest, FixedTerms, Credits),
) -> Result<JobId, Error> {
    let media_jobs = &submission.state.media_jobs;
    let (id, account) = (
        JobId::from_u128(submission.ctx.id.as_u128()),
        submission.caller.account_id(),
    );
    let webhook = webhook_url.map(|url| media_jobs.webhooks.address(account, id, &url));
    let job = NewJob {
        id,
        kind: KIND.into(),
        body: sealed::seal(&media_jobs.vault, account, id, composition)?,
        webhook: webhook.transpose()?,
        start_by: None,
    };
    media_jobs
        .pipeline
        .accept_job(media_jobs.jobs.clone(), job, hold, terms, amount)
        .await?;
    Ok(id)
}

fn hold_request(submission: &Submission<'_>) -> HoldRequest {
    let caller = &submission.caller;
    HoldRequest {
        account: caller.account_id(),
        principal: caller.principal,
        request: submission.ctx.id,
        hold: None,
        public_model: tollgate_catalog::COMPOSITION.into(),
        endpoint: ENDPOINT,
        max_cost: submission.ctx.max_cost.amount(),
        accepted_at: submission.ctx.accepted_at,
        ahead: caller.account.test_clock.unwrap_or_default(),
        // The hold of a job has no lifetime: it ends with the job.
        lifetime: Duration::ZERO,
    }
}

fn head(submission: &Submission<'_>, metadata: Option<std::collections::BTreeMap<String, String>>) -> Head {
    Head {
        origin: submission.origin.clone(),
        mode: submission.caller.mode.as_str().to_owned(),
        ahead: submission.caller.account.test_clock.unwrap_or_default(),
        prices: std::collections::BTreeMap::new(),
        model: None,
        metadata,
    }
}

pub(super) fn sum<'i>(items: impl Iterator<Item = &'i Item>) -> Credits {
    items.fold(Credits::ZERO, |sum, item| {
        sum.checked_add(item.cost).unwrap_or(Credits::MAX)
    })
}

fn find<'r>(submission: &'r Submission<'_>, slug: Option<&str>) -> Result<&'r Recipe, Error> {
    let slug = slug.unwrap_or(DEFAULT_RECIPE);
    submission.state.media_jobs.recipes.find(slug).ok_or_else(|| {
        let shown: String = slug.chars().take(60).collect();
        let what =
            format!("names the unknown recipe '{shown}'. GET /v1/videos/compose/recipes lists all recipes");
        invalid("recipe", &what)
    })
}

/// Builds the storyboard of the request. The storyboard has no scenes if a model writes the script.
fn build_storyboard(request: &Request, recipe: &Recipe) -> Result<Storyboard, Error> {
    let mut board = Storyboard::of(recipe);
    if let Content::Board(own) = &request.content {
        let (ratio, step) = (board.aspect_ratio, board.resolution);
        board = Storyboard::clone(own);
        for (custom, default_value) in [(&mut board.aspect_ratio, ratio), (&mut board.resolution, step)] {
            if custom.is_empty() {
                *custom = default_value;
            }
        }
    }
    board.voice = request.voice.or(board.voice);
    board.captions = match &request.captions {
        Choice::Custom(custom) => {
            let default_value = board.captions.unwrap_or_else(|| Captions::of(recipe));
            Some(custom.clone().with(default_value))
        }
        Choice::FromRecipe => board.captions,
        Choice::Disabled => None,
    };
    board.music = match &request.music {
        Choice::Custom(custom) => Some(
            custom
                .clone()
                .with(board.music.unwrap_or_else(|| Music::of(recipe))),
        ),
        Choice::FromRecipe => board.music,
        Choice::Disabled => None,
    };
    if let Some(ratio) = &request.aspect_ratio {
        board.aspect_ratio.clone_from(ratio);
    }
    if let Some(step) = &request.resolution {
        board.resolution.clone_from(step);
    }
    match &request.content {
        Content::Topic(_) => check_images(request, recipe, scene_count(request, recipe) as usize)?,
        Content::Script(script) => add_scenes(&mut board, request, recipe, script)?,
        Content::Board(_) => {}
    }
    Ok(board)
}

fn add_scenes(board: &mut Storyboard, request: &Request, recipe: &Recipe, script: &str) -> Result<(), Error> {
    let scenes = split_script(script);
    if scenes.is_empty() || scenes.len() > MAX_SCENES {
        let what = format!(
            "results in {} scenes. A composition may have 1 to {MAX_SCENES}",
            scenes.len()
        );
        return Err(invalid("script", &what));
    }
    check_images(request, recipe, scenes.len())?;
    for (number, narration) in scenes.into_iter().enumerate() {
        let scene_content = match request.images.get(number) {
            Some(address) => SceneContent::Image(address.clone()),
            None => SceneContent::Prompt(narration.clone()),
        };
        board.add(recipe, narration, scene_content);
    }
    Ok(())
}

/// Checks the number of images. A recipe that shows only the caller's images needs one image for
/// each scene.
fn check_images(request: &Request, recipe: &Recipe, scenes: usize) -> Result<(), Error> {
    let sent = request.images.len();
    if sent > scenes {
        return Err(invalid(
            "images",
            &format!("must have at most one image for each scene: {scenes}, not {sent}"),
        ));
    }
    match recipe.visuals == Visuals::Own && request.visual_model.is_none() && sent < scenes {
        true => {
            let what = format!(
                "must have one image for each scene: {scenes}, not {sent}. This recipe shows only your images. \
                 Send the missing images, or set 'visual_model'"
            );
            Err(invalid("images", &what))
        }
        false => Ok(()),
    }
}

fn topic(request: &Request, recipe: &Recipe) -> Option<Topic> {
    let Content::Topic(text) = &request.content else {
        return None;
    };
    let images = request.images.iter().map(|address| Image {
        address: address.clone(),
        media: None,
    });
    Some(Topic {
        text: text.clone(),
        scenes: scene_count(request, recipe),
        images: images.collect(),
    })
}

/// Returns the number of scenes of a script on a topic. A recipe that shows only the caller's
/// images has one scene for each image by default.
fn scene_count(request: &Request, recipe: &Recipe) -> u32 {
    let image_count = u32::try_from(request.images.len()).unwrap_or(u32::MAX);
    let default_value = match recipe.visuals {
        Visuals::Own if image_count > 0 && request.visual_model.is_none() => image_count,
        _ => recipe.scenes,
    };
    request.scenes.unwrap_or(default_value)
}

/// Returns an error if a program is not installed that the composition needs.
fn check_programs(
    submission: &Submission<'_>,
    board: &Storyboard,
    speaks: bool,
    is_built_in: bool,
) -> Result<(), Error> {
    let tools = &submission.state.media_jobs.tools;
    let lacks_voice = is_built_in && !tools.can_speak();
    if lacks_voice || !tools.can_render() || board.captions.is_some() && speaks && !tools.can_caption() {
        let message = "This server cannot render this composition because a program or font is missing. \
                       GET /v1/videos/compose/recipes lists it under 'missing'.";
        return Err(Error::new(ErrorCode::ModelUnavailable, message));
    }
    Ok(())
}

async fn check_policy(
    submission: &Submission<'_>,
    board: &Storyboard,
    topic: Option<&Topic>,
) -> Result<(), Error> {
    let about = topic.map(|topic| topic.text.clone());
    let scenes = board.scenes.iter();
    let texts = scenes.flat_map(|scene| [&scene.narration, &scene.visual.prompt]);
    submission.check_texts(texts.chain([&about, &board.title])).await
}

/// Fetches and stores the caller's media. A plan also fetches and checks the media, but stores only
/// media from data URLs. Without ffmpeg, a plan does not check videos and music from other URLs.
async fn fetch(
    submission: &Submission<'_>,
    board: &mut Storyboard,
    topic: Option<&mut Topic>,
    request: &Request,
) -> Result<Vec<Media>, Error> {
    let mut fetcher = InputFetcher {
        submission,
        content: &request.content,
        is_plan: request.mode == Mode::Plan,
        left: MAX_INPUT_BYTES,
        stored: Vec::new(),
    };
    match fetcher.all(board, topic).await {
        Ok(()) => Ok(fetcher.stored),
        Err(error) => {
            submission.state.storage.discard(&fetcher.stored).await;
            Err(error)
        }
    }
}

struct InputFetcher<'a> {
    submission: &'a Submission<'a>,
    content: &'a Content,
    is_plan: bool,
    left: u64,
    stored: Vec<Media>,
}

impl InputFetcher<'_> {
    async fn all(&mut self, board: &mut Storyboard, topic: Option<&mut Topic>) -> Result<(), Error> {
        for (number, image) in topic.into_iter().flat_map(|topic| &mut topic.images).enumerate() {
            let path = format!("images[{number}]");
            image.media = self.image(&path, &image.address).await?;
            if image.address.starts_with("data:") {
                super::storyboard::INLINE.clone_into(&mut image.address);
            }
        }
        let is_board = matches!(self.content, Content::Board(_));
        let path = |end: &str, number: usize| match is_board {
            true => format!("storyboard.scenes[{number}].visual.{end}"),
            false => format!("images[{number}]"),
        };
        for (number, scene) in board.scenes.iter_mut().enumerate() {
            let visual = &mut scene.visual;
            if let Some(address) = &visual.image {
                visual.media = self.image(&path("image", number), address).await?;
            } else if let Some(address) = &visual.video {
                visual.media = self.video(&path("video", number), address).await?;
            }
        }
        if let Some(music) = &mut board.music
            && let Some(address) = &music.url
        {
            music.media = self.music("music.url", address).await?;
        }
        Ok(())
    }

    fn is_stored(&self, address: &str) -> bool {
        !self.is_plan || address.starts_with("data:")
    }

    async fn image(&mut self, path: &str, address: &str) -> Result<Option<tollgate_types::MediaId>, Error> {
        let named = [(path.to_owned(), address.to_owned())];
        let mut found = self.submission.finder().images(&named).await?;
        self.store(address, found.pop()).await
    }

    async fn video(&mut self, path: &str, address: &str) -> Result<Option<tollgate_types::MediaId>, Error> {
        let tools = &self.submission.state.media_jobs.tools;
        // A plan works without ffmpeg. The video is then checked when the plan is rendered.
        if self.is_plan && !tools.can_render() && !self.is_stored(address) {
            return Ok(None);
        }
        let found = self
            .submission
            .finder()
            .video(tools, path, address, self.left)
            .await?;
        self.store(address, Some(found)).await
    }

    async fn music(&mut self, path: &str, address: &str) -> Result<Option<tollgate_types::MediaId>, Error> {
        let tools = &self.submission.state.media_jobs.tools;
        // A plan works without ffmpeg. The music is then checked when the plan is rendered.
        if self.is_plan && !tools.can_render() && !self.is_stored(address) {
            return Ok(None);
        }
        let found = self
            .submission
            .finder()
            .audio(tools, path, address, self.left)
            .await?;
        self.store(address, Some(found)).await
    }

    async fn store(
        &mut self,
        address: &str,
        found: Option<FoundInput>,
    ) -> Result<Option<tollgate_types::MediaId>, Error> {
        let Some(found) = found else {
            return Ok(None);
        };
        let bytes = found.source.bytes.len() as u64;
        if bytes > self.left {
            let message = format!(
                "increases the total size of the input media beyond the limit of {} MiB",
                MAX_INPUT_BYTES >> 20
            );
            return Err(invalid(&found.path, &message));
        }
        self.left -= bytes;
        if !self.is_stored(address) {
            return Ok(None);
        }
        let stored = self
            .submission
            .finder()
            .store(self.submission.ctx.id, vec![found])
            .await?;
        let id = stored.first().map(|media| media.id);
        self.stored.extend(stored);
        Ok(id)
    }
}
