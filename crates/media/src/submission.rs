//! What requests for pictures and films go through alike before their job is accepted.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::{Demand, Hold};
use tollgate_catalog::{Model, ModelKind, Template};
use tollgate_edge::RequestContext;
use tollgate_pipeline::{CallRequest, Routed};
use tollgate_types::{Error, ErrorCode};

use crate::MediaRoom;
use crate::input::Finder;
use crate::order::{Head, listed};
use crate::read::invalid;

/// A request, and who sends it.
pub(crate) struct Asked<'a> {
    pub(crate) room: &'a MediaRoom,
    pub(crate) ctx: &'a RequestContext,
    pub(crate) caller: Caller,
    /// Where the caller has reached the service.
    pub(crate) origin: String,
    pub(crate) body: Bytes,
}

impl Asked<'_> {
    /// The template that the caller names.
    pub(crate) fn template(
        &self,
        slug: Option<&str>,
        kind: ModelKind,
    ) -> Result<Option<Arc<Template>>, Error> {
        let Some(slug) = slug else {
            return Ok(None);
        };
        let snapshot = self.room.studio.pipeline.catalog.current();
        let template = snapshot.template(slug).ok_or_else(|| {
            let shown: String = slug.chars().take(60).collect();
            let what = format!("is '{shown}', which is no template. GET /v1/templates lists them");
            invalid("template", &what)
        })?;
        match template.kind == kind {
            true => Ok(Some(template.clone())),
            false => Err(invalid(
                "template",
                &format!("is '{slug}', which is a template of {}", made_by(template.kind)),
            )),
        }
    }

    /// The model that the caller names, or else that of the template, or else the usual one of its kind.
    pub(crate) fn route(
        &self,
        named: Option<&str>,
        template: Option<&Template>,
        kind: ModelKind,
    ) -> Result<Routed, Error> {
        let usual;
        let name = match named {
            Some(name) => name,
            None => {
                usual = self.usual(template, kind);
                usual.as_deref().ok_or_else(no_model)?
            }
        };
        let routed = self.room.studio.pipeline.route(&self.caller, name)?;
        if routed.model.kind != kind {
            return Err(wrong_kind(&routed.model, kind));
        }
        match template.filter(|template| !template.supports(&routed.model)) {
            None => Ok(routed),
            Some(template) => Err(not_supported(template)),
        }
    }

    /// The id of the model that serves who names none.
    pub(crate) fn usual(&self, template: Option<&Template>, kind: ModelKind) -> Option<Arc<str>> {
        let snapshot = self.room.studio.pipeline.catalog.current();
        let visible = match self.caller.is_test() {
            true => snapshot.for_tests(),
            false => &snapshot,
        };
        let found = match template {
            Some(template) => visible.recommended(template),
            None => visible.usual(kind),
        };
        found.map(|model| model.id.clone())
    }

    /// Refuses an address that could not be posted to.
    pub(crate) fn check_webhook(&self, url: Option<&str>) -> Result<(), Error> {
        url.map_or(Ok(()), |url| self.room.studio.webhooks.check(url))
    }

    /// Refuses what the content policy forbids.
    pub(crate) async fn check_texts(
        &self,
        texts: impl IntoIterator<Item = &Option<String>>,
    ) -> Result<(), Error> {
        let policy = self.room.studio.pipeline.policy();
        match policy.filter(|policy| policy.inspects_input()) {
            Some(policy) => {
                let texts: Vec<String> = texts.into_iter().flatten().cloned().collect();
                policy.check_input(self.ctx.id, &texts).await
            }
            None => Ok(()),
        }
    }

    /// Refuses what the account cannot pay, before anything is fetched for it.
    pub(crate) async fn check_balance(&self, model: &Model, demand: &Demand) -> Result<(), Error> {
        let (caller, ctx) = (&self.caller, self.ctx);
        let at = caller.account.time(ctx.accepted_at);
        let ledger = &*self.room.studio.pipeline.ledger;
        Hold::check(
            ledger,
            caller.account_id(),
            model,
            demand,
            ctx.max_cost.amount(),
            at,
        )
        .await
    }

    /// Finds what goes in.
    pub(crate) fn finder(&self) -> Finder<'_> {
        Finder {
            pipeline: &self.room.studio.pipeline,
            shelf: &self.room.shelf,
            account: self.caller.account_id(),
            origin: &self.origin,
        }
    }

    /// What is kept of every request.
    pub(crate) fn head(&self, model: &Model, metadata: Option<BTreeMap<String, String>>) -> Head {
        Head {
            origin: self.origin.clone(),
            mode: self.caller.mode.as_str().to_owned(),
            ahead: self.caller.account.test_clock.unwrap_or_default(),
            prices: listed(&model.prices),
            model: None,
            metadata,
        }
    }

    /// The call as the pipeline takes it.
    pub(crate) fn call<C>(&self, endpoint: &'static str, demand: Demand, call: C) -> CallRequest<C> {
        CallRequest {
            caller: self.caller.clone(),
            request: self.ctx.id,
            accepted_at: self.ctx.accepted_at,
            endpoint,
            demand,
            max_cost: self.ctx.max_cost.amount(),
            call,
        }
    }
}

fn no_model() -> Error {
    let message = "'model' is missing, and this service has no model that makes this.";
    Error::new(ErrorCode::MissingRequiredParameter, message).with_param("model")
}

fn not_supported(template: &Template) -> Error {
    let what = format!(
        "is none that the template '{}' may be used with; its record in GET /v1/templates lists those",
        template.slug
    );
    invalid("model", &what)
}

/// What models and templates of a kind make.
fn made_by(kind: ModelKind) -> &'static str {
    match kind {
        ModelKind::Image => "pictures",
        ModelKind::Video => "films",
        ModelKind::Speech => "speech",
        ModelKind::Transcription => "transcripts",
        ModelKind::Chat => "text",
        ModelKind::Embedding => "vectors",
        ModelKind::Moderation => "judgements",
        ModelKind::Decision => "decisions",
    }
}

fn wrong_kind(model: &Model, wanted: ModelKind) -> Error {
    let kind = model.kind.as_str();
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    let message = format!(
        "'{}' is {article} {kind} model; it makes no {}. Its record in GET /v1/models names the endpoints it serves.",
        model.id,
        made_by(wanted)
    );
    Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model")
}
