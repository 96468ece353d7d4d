//! The use cases: which recipes there are, and accepting a composition: read, cast, price, look at the policy and the balance,
//! fetch what goes in, take the hold with the job.

use std::time::Duration;

use tollgate_billing::HoldRequest;
use tollgate_billing::hold::FixedTerms;
use tollgate_catalog::composition_version;
use tollgate_storage::{Media, NewJob};
use tollgate_types::{Credits, Error, ErrorCode, JobId, JobStatus};

use super::KIND;
use super::cast::{self, Cast, Item};
use super::order::{Composition, Image, Topic};
use super::read::{self, Choice, Content, Mode, Request};
use super::recipe::{Recipe, USUAL, Visuals};
use super::script::Brief;
use super::speaking::check_voice;
use super::storyboard::{Captions, MOST_SCENES, Music, Seen, Storyboard, cut};
use super::wire::{RecipeList, RecipeRecord};
use crate::MediaRoom;
use crate::input::Found;
use crate::jobs::JobReference;
use crate::order::{self, Head};
use crate::read::invalid;
use crate::submission::Asked;

pub(super) const ENDPOINT: &str = "/v1/videos/compose";
/// The most bytes of everything of the caller's that goes in.
const MOST_BYTES: u64 = 500 << 20;

/// Every recipe, and whether it can be made here.
pub(super) fn recipes(room: &MediaRoom) -> RecipeList {
    let tools = &room.studio.tools;
    let missing: Vec<String> = tools
        .missing()
        .iter()
        .map(|one| format!("{}: apt-get install {}", one.name, one.package))
        .collect();
    let record = |recipe: &Recipe| RecipeRecord::of(recipe, (tools.can_film(), &missing));
    RecipeList {
        object: "list",
        data: room.studio.recipes.all().iter().map(record).collect(),
    }
}

pub(super) async fn compose(asked: Asked<'_>) -> Result<JobReference, Error> {
    let request = read::request(&asked.body)?;
    let recipe = find(&asked, request.recipe.as_deref())?;
    asked.check_webhook(request.webhook_url.as_deref())?;
    let mut board = laid_out(&request, recipe)?;
    let mut topic = topic(&request, recipe);
    check_policy(&asked, &board, topic.as_ref()).await?;
    let models = (request.script_model.as_deref(), request.visual_model.as_deref());
    let (cast, mut routes) = Cast::find(&asked, recipe, models, &board)?;
    let speaks = topic.is_some() || board.scenes.iter().any(|scene| scene.narration.is_some());
    let own_voice = board.voice.as_ref().filter(|_| speaks && cast.voice.is_none());
    if request.mode == Mode::Render {
        check_programs(&asked, &board, speaks, own_voice.is_some())?;
    }
    let tools = &asked.room.studio.tools;
    // A plan is made without the programs; then its voices are looked at when it is rendered.
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
    let dearest = brief
        .as_ref()
        .map_or_else(|| board.clone(), |brief| brief.longest(&board));
    let scenes = cast::items(&cast, &mut routes, &dearest, request.seed)?;
    let script = match &brief {
        Some(brief) => cast::script_item(&cast, &mut routes, brief)?,
        None => None,
    };
    let is_plan = request.mode == Mode::Plan;
    let due = script.iter().chain(scenes.iter().filter(|_| !is_plan));
    let amount = sum(due);
    let hold = hold_request(&asked);
    let terms = FixedTerms {
        price_version: composition_version(),
        not_covered_by: cast::not_covered_by(&routes),
    };
    let ledger = &*asked.room.studio.pipeline.ledger;
    tollgate_billing::Hold::check_amount(ledger, &hold, &terms, amount).await?;
    let kept = fetch(&asked, &mut board, topic.as_mut(), &request).await?;
    let composition = Composition {
        head: head(&asked, request.metadata),
        is_plan,
        recipe: recipe.slug.clone(),
        topic,
        board: board.without_inline(),
        cast,
        seed: request.seed,
        accepted_at: asked.ctx.accepted_at,
    };
    let accepted = accept(&asked, &composition, request.webhook_url, (&hold, terms, amount)).await;
    if accepted.is_err() {
        asked.room.shelf.discard(&kept).await;
    }
    let id = accepted?;
    let created_at = asked.ctx.accepted_at;
    Ok(JobReference::new(
        &asked.origin,
        id,
        KIND,
        JobStatus::Queued,
        created_at,
    ))
}

async fn accept(
    asked: &Asked<'_>,
    composition: &Composition,
    webhook_url: Option<String>,
    (hold, terms, amount): (&HoldRequest, FixedTerms, Credits),
) -> Result<JobId, Error> {
    let studio = &asked.room.studio;
    let (id, account) = (
        JobId::from_u128(asked.ctx.id.as_u128()),
        asked.caller.account_id(),
    );
    let webhook = webhook_url.map(|url| studio.webhooks.address(account, id, &url));
    let job = NewJob {
        id,
        kind: KIND.into(),
        body: order::seal(&studio.vault, account, id, composition)?,
        webhook: webhook.transpose()?,
        start_by: None,
    };
    studio
        .pipeline
        .accept_job(studio.jobs.clone(), job, hold, terms, amount)
        .await?;
    Ok(id)
}

fn hold_request(asked: &Asked<'_>) -> HoldRequest {
    let caller = &asked.caller;
    HoldRequest {
        account: caller.account_id(),
        key: caller.key,
        request: asked.ctx.id,
        public_model: tollgate_catalog::COMPOSITION.into(),
        endpoint: ENDPOINT,
        max_cost: asked.ctx.max_cost.amount(),
        accepted_at: asked.ctx.accepted_at,
        ahead: caller.account.test_clock.unwrap_or_default(),
        // The hold of a job lasts as long as that.
        lifetime: Duration::ZERO,
    }
}

fn head(asked: &Asked<'_>, metadata: Option<std::collections::BTreeMap<String, String>>) -> Head {
    Head {
        origin: asked.origin.clone(),
        mode: asked.caller.mode.as_str().to_owned(),
        ahead: asked.caller.account.test_clock.unwrap_or_default(),
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

fn find<'r>(asked: &'r Asked<'_>, slug: Option<&str>) -> Result<&'r Recipe, Error> {
    let slug = slug.unwrap_or(USUAL);
    asked.room.studio.recipes.find(slug).ok_or_else(|| {
        let shown: String = slug.chars().take(60).collect();
        let what = format!("is '{shown}', which is no recipe. GET /v1/videos/compose/recipes lists them");
        invalid("recipe", &what)
    })
}

/// The storyboard as the request has it; without scenes where a script is to be written.
fn laid_out(request: &Request, recipe: &Recipe) -> Result<Storyboard, Error> {
    let mut board = Storyboard::of(recipe);
    if let Content::Board(own) = &request.content {
        let (ratio, step) = (board.aspect_ratio, board.resolution);
        board = Storyboard::clone(own);
        for (said, usual) in [(&mut board.aspect_ratio, ratio), (&mut board.resolution, step)] {
            if said.is_empty() {
                *said = usual;
            }
        }
    }
    board.voice = request.voice.or(board.voice);
    board.captions = match &request.captions {
        Choice::Said(said) => {
            let usual = board.captions.unwrap_or_else(|| Captions::of(recipe));
            Some(said.clone().with(usual))
        }
        Choice::Usual => board.captions,
        Choice::Nothing => None,
    };
    board.music = match &request.music {
        Choice::Said(said) => Some(
            said.clone()
                .with(board.music.unwrap_or_else(|| Music::of(recipe))),
        ),
        Choice::Usual => board.music,
        Choice::Nothing => None,
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
    let scenes = cut(script);
    if scenes.is_empty() || scenes.len() > MOST_SCENES {
        let what = format!(
            "comes to {} scenes; a composition has 1 to {MOST_SCENES}",
            scenes.len()
        );
        return Err(invalid("script", &what));
    }
    check_images(request, recipe, scenes.len())?;
    for (number, narration) in scenes.into_iter().enumerate() {
        let seen = match request.images.get(number) {
            Some(address) => Seen::Image(address.clone()),
            None => Seen::Prompt(narration.clone()),
        };
        board.add(recipe, narration, seen);
    }
    Ok(())
}

/// Who shows only what is sent needs something for every scene.
fn check_images(request: &Request, recipe: &Recipe, scenes: usize) -> Result<(), Error> {
    let sent = request.images.len();
    if sent > scenes {
        return Err(invalid(
            "images",
            &format!("has {sent} pictures for {scenes} scenes"),
        ));
    }
    match recipe.visuals == Visuals::Own && request.visual_model.is_none() && sent < scenes {
        true => {
            let what = format!(
                "has {sent} pictures for {scenes} scenes, and this recipe shows only what you send: send one for each, or \
                 name a 'visual_model' for the others"
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

/// How many scenes a script on a topic has: as many as there are pictures where only those are shown.
fn scene_count(request: &Request, recipe: &Recipe) -> u32 {
    let shown = u32::try_from(request.images.len()).unwrap_or(u32::MAX);
    let usual = match recipe.visuals {
        Visuals::Own if shown > 0 && request.visual_model.is_none() => shown,
        _ => recipe.scenes,
    };
    request.scenes.unwrap_or(usual)
}

/// What cannot be made here is refused before anything is paid.
fn check_programs(
    asked: &Asked<'_>,
    board: &Storyboard,
    speaks: bool,
    is_built_in: bool,
) -> Result<(), Error> {
    let tools = &asked.room.studio.tools;
    let is_mute = is_built_in && !tools.can_speak();
    if is_mute || !tools.can_film() || board.captions.is_some() && speaks && !tools.can_caption() {
        let message = "This service cannot put films together at the moment: a program for it is missing. \
                       GET /v1/videos/compose/recipes says which.";
        return Err(Error::new(ErrorCode::ModelUnavailable, message));
    }
    Ok(())
}

async fn check_policy(asked: &Asked<'_>, board: &Storyboard, topic: Option<&Topic>) -> Result<(), Error> {
    let about = topic.map(|topic| topic.text.clone());
    let scenes = board.scenes.iter();
    let texts = scenes.flat_map(|scene| [&scene.narration, &scene.visual.prompt]);
    asked.check_texts(texts.chain([&about, &board.title])).await
}

/// Fetches what is the caller's own and keeps it. A plan needs only what came with it.
async fn fetch(
    asked: &Asked<'_>,
    board: &mut Storyboard,
    topic: Option<&mut Topic>,
    request: &Request,
) -> Result<Vec<Media>, Error> {
    let mut fetching = Fetching {
        asked,
        content: &request.content,
        is_plan: request.mode == Mode::Plan,
        left: MOST_BYTES,
        kept: Vec::new(),
    };
    match fetching.all(board, topic).await {
        Ok(()) => Ok(fetching.kept),
        Err(error) => {
            asked.room.shelf.discard(&fetching.kept).await;
            Err(error)
        }
    }
}

struct Fetching<'a> {
    asked: &'a Asked<'a>,
    content: &'a Content,
    is_plan: bool,
    left: u64,
    kept: Vec<Media>,
}

impl Fetching<'_> {
    async fn all(&mut self, board: &mut Storyboard, topic: Option<&mut Topic>) -> Result<(), Error> {
        for (number, image) in topic.into_iter().flat_map(|topic| &mut topic.images).enumerate() {
            let path = format!("images[{number}]");
            image.media = self.picture(&path, &image.address).await?;
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
                visual.media = self.picture(&path("image", number), address).await?;
            } else if let Some(address) = &visual.video {
                visual.media = self.film(&path("video", number), address).await?;
            }
        }
        if let Some(music) = &mut board.music
            && let Some(address) = &music.url
        {
            music.media = self.music("music.url", address).await?;
        }
        Ok(())
    }

    fn is_wanted(&self, address: &str) -> bool {
        !self.is_plan || address.starts_with("data:")
    }

    async fn picture(&mut self, path: &str, address: &str) -> Result<Option<tollgate_types::MediaId>, Error> {
        if !self.is_wanted(address) {
            return Ok(None);
        }
        let named = [(path.to_owned(), address.to_owned())];
        let mut found = self.asked.finder().pictures(&named).await?;
        self.keep(found.pop()).await
    }

    async fn film(&mut self, path: &str, address: &str) -> Result<Option<tollgate_types::MediaId>, Error> {
        if !self.is_wanted(address) {
            return Ok(None);
        }
        let tools = &self.asked.room.studio.tools;
        let found = self.asked.finder().film(tools, path, address, self.left).await?;
        self.keep(Some(found)).await
    }

    async fn music(&mut self, path: &str, address: &str) -> Result<Option<tollgate_types::MediaId>, Error> {
        if !self.is_wanted(address) {
            return Ok(None);
        }
        let tools = &self.asked.room.studio.tools;
        let found = self.asked.finder().sound(tools, path, address, self.left).await?;
        self.keep(Some(found)).await
    }

    async fn keep(&mut self, found: Option<Found>) -> Result<Option<tollgate_types::MediaId>, Error> {
        let Some(found) = found else {
            return Ok(None);
        };
        let bytes = found.source.bytes.len() as u64;
        if bytes > self.left {
            let message = format!(
                "makes everything that goes in larger than {} MiB",
                MOST_BYTES >> 20
            );
            return Err(invalid(&found.path, &message));
        }
        self.left -= bytes;
        let kept = self.asked.finder().keep(self.asked.ctx.id, vec![found]).await?;
        let id = kept.first().map(|media| media.id);
        self.kept.extend(kept);
        Ok(id)
    }
}
