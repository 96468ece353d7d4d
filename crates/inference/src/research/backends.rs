//! Search backends of a report: those that the request names, else those of its model.

use std::sync::Arc;

use tollgate_billing::AgreedPrices;
use tollgate_catalog::Model;
use tollgate_types::{AccountId, Error, ErrorCode};
use tollgate_upstream::SearchBackend;

use super::Research;
use super::account_files::AccountFiles;
use super::cast::StageModel;
use super::read::SourceSpec;

/// Collection of the simulated models.
const DEMO: &str = "demo";
/// Name of the web search backends in the settings of a model.
const WEB: &str = "web";
/// Prefix of the names of corpora in the settings of a model.
const CORPUS: &str = "corpus/";

/// Prefix of the names of MCP servers that requests name.
const MCP: &str = "mcp-";

/// Returns the value of an `Authorization` header. A token without a scheme is a bearer token.
fn with_scheme(authorization: &str) -> String {
    match authorization.trim().contains(' ') {
        true => authorization.trim().to_owned(),
        false => format!("Bearer {}", authorization.trim()),
    }
}

/// A search backend of a report.
pub(super) struct SourceBackend {
    pub(super) backend: Arc<dyn SearchBackend>,
    /// Factor of its results when the results of several backends are merged.
    pub(super) weight: f32,
    /// Model and price of its queries in usage parts; `None` if the price of the report's model
    /// applies.
    pub(super) terms: Option<StageModel>,
}

impl From<Arc<dyn SearchBackend>> for SourceBackend {
    fn from(backend: Arc<dyn SearchBackend>) -> Self {
        Self {
            backend,
            weight: 1.0,
            terms: None,
        }
    }
}

impl Research {
    /// Returns the backends that a report of an account searches.
    pub(super) async fn backends(
        &self,
        account: AccountId,
        model: &Model,
        sources: &[SourceSpec],
    ) -> Result<Vec<SourceBackend>, Error> {
        let mut backends = match (sources.is_empty(), model.simulated) {
            (true, true) => vec![self.corpora.demo.clone().into()],
            (true, false) => self.default_backends(model),
            (false, _) => {
                let named = sources.iter().enumerate();
                let named = named.map(|(at, source)| self.named(account, model, at, source));
                named
                    .collect::<Result<Vec<_>, Error>>()?
                    .into_iter()
                    .flatten()
                    .collect()
            }
        };
        backends.extend(self.account_files(account, sources).await?);
        match backends.is_empty() {
            true => {
                let message = "The model has no sources at the moment. Name 'sources', or use another model.";
                Err(Error::new(ErrorCode::ModelUnavailable, message))
            }
            false => Ok(backends),
        }
    }

    /// Returns the search over the files that a request names; `None` if it names none.
    async fn account_files(
        &self,
        account: AccountId,
        sources: &[SourceSpec],
    ) -> Result<Option<SourceBackend>, Error> {
        let mut ids: Vec<String> = Vec::new();
        for (at, source) in sources.iter().enumerate() {
            if let SourceSpec::File { file_id } = source {
                let param = format!("sources[{at}].file_id");
                AccountFiles::check(&self.files, account, file_id, &param).await?;
                ids.push(file_id.clone());
            }
        }
        let (files, extractor) = (self.files.clone(), self.extractor.clone());
        let backend =
            (!ids.is_empty()).then(|| AccountFiles::new(files, extractor, self.clock.clone(), account, ids));
        Ok(backend.map(|backend| SourceBackend::from(Arc::new(backend) as Arc<dyn SearchBackend>)))
    }

    fn default_backends(&self, model: &Model) -> Vec<SourceBackend> {
        let named = model.research.as_ref().and_then(|roles| roles.sources.as_ref());
        let searches = |name: &str| named.is_none_or(|named| named.iter().any(|one| one == name));
        let corpora = self.corpora.configured.iter();
        let corpora = corpora.filter(|(name, _)| searches(&format!("{CORPUS}{name}")));
        let web = if searches(WEB) {
            self.web_backends()
        } else {
            Vec::new()
        };
        web.into_iter()
            .chain(corpora.map(|(_, corpus)| corpus.clone().into()))
            .collect()
    }

    fn web_backends(&self) -> Vec<SourceBackend> {
        let backends = self.web.iter().map(|web| SourceBackend {
            backend: web.backend.clone(),
            weight: web.weight,
            terms: Some(StageModel {
                model: format!("search/{}", web.backend.name()),
                prices: AgreedPrices::new(web.price_version, &web.prices),
            }),
        });
        backends.collect()
    }

    fn named(
        &self,
        account: AccountId,
        model: &Model,
        at: usize,
        source: &SourceSpec,
    ) -> Result<Vec<SourceBackend>, Error> {
        let refused = |code, name: &str, message: String| {
            let param = format!("sources[{at}].{name}");
            Err(Error::new(code, format!("'{param}' {message}")).with_param(param))
        };
        match source {
            SourceSpec::Web if model.simulated || self.web.is_empty() => refused(
                ErrorCode::ParameterOutOfRange,
                "type",
                "is 'web', which this model does not search. Use 'corpus'.".to_owned(),
            ),
            SourceSpec::Web => Ok(self.web_backends()),
            SourceSpec::File { .. } if model.simulated => refused(
                ErrorCode::ParameterOutOfRange,
                "type",
                "is 'file', which simulated models do not search. Use 'corpus'.".to_owned(),
            ),
            SourceSpec::File { .. } => Ok(Vec::new()),
            SourceSpec::Mcp { .. } if model.simulated => refused(
                ErrorCode::ParameterOutOfRange,
                "type",
                "is 'mcp', which simulated models do not search. Use 'corpus'.".to_owned(),
            ),
            SourceSpec::Mcp {
                server_url,
                authorization,
            } => {
                let authorization = authorization.as_deref().map(with_scheme);
                let name = format!("{MCP}{at}");
                let server = self
                    .servers
                    .mcp(account, &name, server_url, authorization.as_deref());
                match server {
                    Ok(server) => Ok(vec![server.into()]),
                    Err(fault) => {
                        let message = format!("is not usable: {fault}.");
                        refused(ErrorCode::InvalidParameter, "server_url", message)
                    }
                }
            }
            SourceSpec::Corpus { name } if model.simulated => match name == DEMO {
                true => Ok(vec![self.corpora.demo.clone().into()]),
                false => refused(
                    ErrorCode::ParameterOutOfRange,
                    "name",
                    format!("must be '{DEMO}': simulated models search only this corpus."),
                ),
            },
            SourceSpec::Corpus { name } => match self.corpora.configured.get(name) {
                Some(corpus) => Ok(vec![corpus.clone().into()]),
                None => {
                    let shown: String = name.chars().take(60).collect();
                    let message = format!("is '{shown}', which does not exist.");
                    refused(ErrorCode::NotFound, "name", message)
                }
            },
        }
    }
}
