//! Builds the content policy from `[policy]`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_pipeline::Policy;
use tollgate_pipeline::policy::{Classifier, OnError, Rule, RuleSpec};
use tollgate_providers::HttpClient;
use tollgate_providers::http::{BaseUrl, Credential};
use tollgate_providers::moderations::Moderations;

use crate::config::file::{ClassifierSection, OnErrorSetting, RuleSection};
use crate::config::{Config, ConfigError};

/// Builds the content policy; `None` if none is configured. Does not connect to the classifier.
///
/// # Errors
///
/// Returns the first invalid setting in `[policy]`.
pub fn build(config: &Config, http: &Arc<HttpClient>) -> Result<Option<Arc<Policy>>, ConfigError> {
    let section = &config.file.policy;
    let mut policy = Policy::default();
    for (name, rule) in &section.rules {
        let spec = spec_of(name, rule)?;
        let compiled =
            Rule::compile(&spec).map_err(|error| ConfigError::new(place_of(name), error.message))?;
        let compiled = Arc::new(compiled);
        if rule.apply.to_input() {
            policy.input.push(compiled.clone());
        }
        if rule.apply.to_output() {
            policy.output.push(compiled);
        }
    }
    if let Some(section) = &section.classifier {
        let classifier = Arc::new(classifier(config, section, http)?);
        policy.input_classifier = section.apply.to_input().then(|| classifier.clone());
        policy.output_classifier = section.apply.to_output().then_some(classifier);
    }
    let is_empty = !policy.inspects_input() && !policy.inspects_output();
    Ok((!is_empty).then(|| Arc::new(policy)))
}

fn place_of(rule: &str) -> String {
    format!("policy.rules.{rule}")
}

fn spec_of(name: &str, rule: &RuleSection) -> Result<RuleSpec, ConfigError> {
    let lines = |file: &Option<String>, key: &str| -> Result<Vec<String>, ConfigError> {
        let Some(file) = file else { return Ok(Vec::new()) };
        let text = std::fs::read_to_string(file).map_err(|error| {
            let place = format!("{}.{key}", place_of(name));
            ConfigError::new(place, format!("cannot read {file}: {error}"))
        })?;
        let entries = text.lines().map(str::trim);
        let entries = entries.filter(|line| !line.is_empty() && !line.starts_with("# "));
        Ok(entries.map(str::to_owned).collect())
    };
    Ok(RuleSpec {
        name: name.to_owned(),
        category: rule.category.clone().unwrap_or_else(|| name.to_owned()),
        words: [rule.words.clone(), lines(&rule.words_file, "words_file")?].concat(),
        patterns: [
            rule.patterns.clone(),
            lines(&rule.patterns_file, "patterns_file")?,
        ]
        .concat(),
    })
}

fn classifier(
    config: &Config,
    section: &ClassifierSection,
    http: &Arc<HttpClient>,
) -> Result<Classifier, ConfigError> {
    let place = |key: &str| format!("policy.classifier.{key}");
    if section.timeout_ms == 0 {
        return Err(ConfigError::new(place("timeout_ms"), "must be above 0"));
    }
    let bad_threshold = section
        .thresholds
        .iter()
        .find(|(_, score)| !(0.0..=1.0).contains(*score));
    if let Some((category, _)) = bad_threshold {
        let message = "must be a number from 0 to 1";
        return Err(ConfigError::new(
            place(&format!("thresholds.{category}")),
            message,
        ));
    }
    let url =
        BaseUrl::parse(&section.url).map_err(|error| ConfigError::new(place("url"), error.to_string()))?;
    let (variable, file) = (section.api_key_env.as_deref(), section.api_key_file.as_deref());
    let key = config.key(&place("api_key_file"), variable, file)?;
    if let (Some(variable), None) = (variable, &key) {
        return Err(ConfigError::new(
            place("api_key_env"),
            format!("the variable {variable} is not set"),
        ));
    }
    let credentials = key.iter().map(Credential::bearer).collect::<Result<Vec<_>, _>>();
    let moderations = credentials
        .and_then(|credentials| Moderations::new(&url, "", &credentials, http.clone()))
        .map_err(|error| ConfigError::new("policy.classifier", error.to_string()))?;
    Ok(Classifier {
        port: Arc::new(moderations),
        model: section.model.as_str().into(),
        thresholds: section.thresholds.clone().into_iter().collect(),
        timeout: Duration::from_millis(section.timeout_ms),
        on_error: match section.on_error {
            OnErrorSetting::Refuse => OnError::Refuse,
            OnErrorSetting::Allow => OnError::Allow,
        },
    })
}
