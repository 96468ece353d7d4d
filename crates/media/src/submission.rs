//! Operations that all media requests share before a job is accepted.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::{Demand, Hold, ItemizedQuote};
use tollgate_catalog::{Model, ModelKind, Template, VisibleModels};
use tollgate_edge::RequestContext;
use tollgate_edge::members::invalid;
use tollgate_pipeline::{CallRequest, ReferencesMedia, Routed};
use tollgate_types::{Error, ErrorCode};

use crate::MediaState;
use crate::input::Finder;
use crate::job_payload::Head;

/// A media request and its caller.
pub struct Submission<'a> {
    /// State of the handlers.
    pub state: &'a MediaState,
    /// Context of the request.
    pub ctx: &'a RequestContext,
    /// Caller who pays for the request.
    pub caller: Caller,
    /// Base URL of the gateway, as the caller addressed it.
    pub origin: String,
    /// Body of a JSON request; empty for forms.
    pub body: Bytes,
}

impl<'a> Submission<'a> {
    /// Returns a submission without a body, because the handler parses the form.
    pub(crate) fn of_form(
        state: &'a MediaState,
        ctx: &'a RequestContext,
        caller: Caller,
        origin: String,
    ) -> Self {
        Self {
            state,
            ctx,
            caller,
            origin,
            body: Bytes::new(),
        }
    }

    /// Returns the template with this slug; `None` without a slug. Returns an error if the template
    /// does not exist or is for another kind of model.
    pub(crate) fn template(
        &self,
        slug: Option<&str>,
        kind: ModelKind,
    ) -> Result<Option<Arc<Template>>, Error> {
        let Some(slug) = slug else {
            return Ok(None);
        };
        let snapshot = self.state.media_jobs.pipeline.catalog.current();
        let template = snapshot.template(slug).ok_or_else(|| {
            let shown: String = slug.chars().take(60).collect();
            let what = format!("names the unknown template '{shown}'. GET /v1/templates lists all templates");
            invalid("template", &what)
        })?;
        match template.kind == kind {
            true => Ok(Some(template.clone())),
            false => Err(invalid(
                "template",
                &format!(
                    "is '{slug}', which is a template for {}",
                    output_name(template.kind)
                ),
            )),
        }
    }

    /// Routes to the requested model. If the request names no model, routes to the template's
    /// recommended model or, without a template, to the default model of the kind. Returns an error
    /// if the model is of another kind or does not support the template.
    pub(crate) fn route(
        &self,
        named: Option<&str>,
        template: Option<&Template>,
        kind: ModelKind,
    ) -> Result<Routed, Error> {
        let default_model;
        let name = match named {
            Some(name) => name,
            None => {
                default_model = self.default_model(template, kind);
                default_model.as_deref().ok_or_else(no_model)?
            }
        };
        let routed = self.state.media_jobs.pipeline.route(&self.caller, name)?;
        if routed.model.kind != kind {
            return Err(wrong_kind(&routed.model, kind));
        }
        match template.filter(|template| !template.supports(&routed.model)) {
            None => Ok(routed),
            Some(template) => Err(not_supported(template)),
        }
    }

    /// Returns the id of the model for requests that name no model: the template's recommended
    /// model or, without a template, the default model of the kind. `None` if there is no such
    /// model.
    pub(crate) fn default_model(&self, template: Option<&Template>, kind: ModelKind) -> Option<Arc<str>> {
        let snapshot = self.state.media_jobs.pipeline.catalog.current();
        let visible = VisibleModels::new(&snapshot, self.caller.is_test(), &self.caller.rights);
        let found = match template {
            Some(template) => visible.recommended(template),
            None => visible.default_model(kind).cloned(),
        };
        found.map(|model| model.id.clone())
    }

    /// Checks that a webhook URL is allowed.
    pub(crate) fn check_webhook(&self, url: Option<&str>) -> Result<(), Error> {
        url.map_or(Ok(()), |url| self.state.media_jobs.webhooks.check(url))
    }

    /// Applies the content policy for inputs to the texts of the request.
    pub(crate) async fn check_texts(
        &self,
        texts: impl IntoIterator<Item = &Option<String>>,
    ) -> Result<(), Error> {
        let policy = self.state.media_jobs.pipeline.policy();
        match policy.filter(|policy| policy.inspects_input()) {
            Some(policy) => {
                let texts: Vec<String> = texts.into_iter().flatten().cloned().collect();
                policy.check_input(self.ctx.id, &texts).await
            }
            None => Ok(()),
        }
    }

    /// Returns an error if the request's cost limit or the account's balance cannot cover the
    /// demand. Takes no hold, so that it can run before inputs are fetched.
    pub(crate) async fn check_balance(&self, model: &Model, demand: &Demand) -> Result<(), Error> {
        let (caller, ctx) = (&self.caller, self.ctx);
        let at = caller.account.time(ctx.accepted_at);
        let ledger = &*self.state.media_jobs.pipeline.ledger;
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

    /// Returns the hold that this call would take now, without a hold.
    pub(crate) async fn quote<C: ReferencesMedia>(
        &self,
        mut routed: Routed,
        mut request: CallRequest<C>,
    ) -> Result<ItemizedQuote, Error> {
        let pipeline = &self.state.media_jobs.pipeline;
        let preview = pipeline.preview(&mut routed, &mut request, |_| Vec::new());
        let preview = preview.await?;
        Ok(ItemizedQuote::of(&routed.public_model, &routed.model, &preview).without_free_items())
    }

    /// Returns a finder for the request's input media.
    pub(crate) fn finder(&self) -> Finder<'_> {
        Finder {
            pipeline: &self.state.media_jobs.pipeline,
            storage: &self.state.storage,
            account: self.caller.account_id(),
            origin: &self.origin,
        }
    }

    /// Returns the payload data that is common to all job kinds.
    pub(crate) fn head(&self, model: &Model, metadata: Option<BTreeMap<String, String>>) -> Head {
        Head {
            origin: self.origin.clone(),
            mode: self.caller.mode.as_str().to_owned(),
            ahead: self.caller.account.test_clock.unwrap_or_default(),
            prices: tollgate_billing::agreed::listed(&model.prices),
            model: None,
            metadata,
        }
    }

    /// Wraps a provider call for the pipeline.
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
    let message =
        "'model' is required, because this request has no default model. GET /v1/models lists the models.";
    Error::new(ErrorCode::MissingRequiredParameter, message).with_param("model")
}

fn not_supported(template: &Template) -> Error {
    let what = format!(
        "does not support the template '{}'. GET /v1/templates lists the models of each template",
        template.slug
    );
    invalid("model", &what)
}

/// Returns a plural noun for the outputs of a model kind, for error messages.
fn output_name(kind: ModelKind) -> &'static str {
    match kind {
        ModelKind::Image => "images",
        ModelKind::Video => "videos",
        ModelKind::Speech => "speech",
        ModelKind::Transcription => "transcripts",
        ModelKind::Chat => "text",
        ModelKind::Embedding => "embeddings",
        ModelKind::Moderation => "moderation results",
        ModelKind::Decision => "decisions",
        ModelKind::Research => "reports",
        ModelKind::Realtime => "voice sessions",
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
        "'{}' is {article} {kind} model and cannot generate {}. GET /v1/models lists the endpoints of each model.",
        model.id,
        output_name(wanted)
    );
    Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model")
}
