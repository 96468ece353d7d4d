//! The schema of `tollgate.toml`. tollgate.example.toml documents every key.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use tollgate_catalog::{ModelEntry, PricesEntry, TemplateEntry};
use tollgate_types::{Credits, Currency};

use super::address;
use super::realtime::RealtimeSection;
use super::research::ResearchSection;
use super::variable::VariableName;

/// The contents of the settings file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileConfig {
    /// Listeners and HTTP settings.
    pub server: ServerSection,
    /// The storage engine.
    pub storage: StorageSection,
    /// Key prefix, support contact, and the secret that keys are hashed with.
    pub service: ServiceSection,
    /// Default limits of accounts.
    pub limits: LimitsSection,
    /// The Redis server through which nodes share limits.
    pub redis: RedisSection,
    /// Model providers, by name. If several providers offer a model, its bare name resolves to the
    /// first of them.
    pub providers: IndexMap<String, ProviderSection>,
    /// Models, by public id.
    pub models: BTreeMap<String, ModelEntry>,
    /// Model aliases: alias to model id.
    pub aliases: BTreeMap<String, String>,
    /// Templates for images and videos, by slug.
    pub templates: BTreeMap<String, TemplateEntry>,
    /// Subscription plans, by name.
    pub plans: PlansSection,
    /// The payment provider and the price of credits.
    pub payments: PaymentsSection,
    /// The mail server.
    pub mail: MailSection,
    /// The media store.
    pub media: MediaSection,
    /// Rules for fetching caller-supplied URLs.
    pub egress: EgressSection,
    /// Limits of research jobs.
    pub research: ResearchSection,
    /// Voice sessions and live transcription.
    pub realtime: RealtimeSection,
    /// Document collections of research, by name.
    pub corpora: BTreeMap<String, CorpusSection>,
    /// Web search services of research, by name.
    pub search: BTreeMap<String, SearchSection>,
    /// The console of members and operators.
    pub console: ConsoleSection,
    /// Timeouts, in milliseconds.
    pub timeouts: TimeoutsSection,
    /// Retries and circuit breakers.
    pub retries: RetriesSection,
    /// Limits for reading responses after callers disconnect.
    pub drain: DrainSection,
    /// Concurrency of asynchronous jobs.
    pub jobs: JobsSection,
    /// Content policy for requests and responses.
    pub policy: PolicySection,
}

/// `[corpora.NAME]`: a folder of documents that research models search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusSection {
    /// Folder with Markdown, text and JSON files.
    pub path: PathBuf,
    /// URL before the relative paths of documents. Default: `corpus://NAME/`.
    pub url_prefix: Option<String>,
    /// Whether queries to public search services must not depend on the documents.
    #[serde(default)]
    pub private: bool,
}

/// `[search.NAME]`: a web search service or server that research models search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchSection {
    /// Type of the service.
    pub kind: SearchKindSetting,
    /// Base URL; that of the service if omitted. Required for servers that operators host.
    pub base_url: Option<String>,
    /// Environment variable with the key. This or `api_key_file` is required for paid services.
    pub api_key_env: Option<VariableName>,
    /// File with the key.
    pub api_key_file: Option<String>,
    /// Price of a query, in credits.
    #[serde(default)]
    pub price: Credits,
    /// Maximum duration of a search, in milliseconds.
    #[serde(default = "SearchSection::default_timeout_ms")]
    pub timeout_ms: u64,
    /// Factor of the results when the results of several services are merged.
    #[serde(default = "SearchSection::default_weight")]
    pub weight: f32,
}

impl SearchSection {
    const fn default_timeout_ms() -> u64 {
        10_000
    }

    const fn default_weight() -> f32 {
        1.0
    }
}

/// Type of a web search service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchKindSetting {
    /// Brave Search API.
    Brave,
    /// Exa, which returns texts of pages.
    Exa,
    /// An MCP server with the tools `search` and `fetch`.
    Mcp,
    /// A wiki of MediaWiki, such as Wikipedia.
    Mediawiki,
    /// Perplexity Search API.
    Perplexity,
    /// A SearXNG server.
    Searxng,
    /// Serper, results of Google.
    Serper,
    /// Tavily, which returns texts of pages.
    Tavily,
}

impl SearchKindSetting {
    /// Returns the name in settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Brave => "brave",
            Self::Exa => "exa",
            Self::Mcp => "mcp",
            Self::Mediawiki => "mediawiki",
            Self::Perplexity => "perplexity",
            Self::Searxng => "searxng",
            Self::Serper => "serper",
            Self::Tavily => "tavily",
        }
    }
}

/// `[server]`: listeners and HTTP settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSection {
    /// Address of the public listener.
    #[serde(deserialize_with = "address::listener")]
    pub listen: String,
    /// Address of the admin listener: metrics and the admin API.
    #[serde(deserialize_with = "address::listener")]
    pub admin: String,
    /// Public base URL of the gateway, for absolute URLs in responses.
    pub public_url: Option<String>,
    /// Addresses of proxies whose `X-Forwarded-For` header is trusted.
    pub trusted_proxies: Vec<IpAddr>,
    /// Host names that the admin listener accepts in addition to IP addresses and `localhost`.
    pub admin_hosts: Vec<String>,
    /// Whether the public listener may use a non-loopback address without TLS.
    pub allow_plain_http: bool,
    /// Number of request threads; 0 means one for each processor.
    pub workers: usize,
    /// Requests that are logged: `errors`, `identified` or `all`.
    pub access_log: AccessLogSetting,
    /// Maximum number of connections from one address. Loopback and trusted proxies are exempt.
    pub connections_per_address: usize,
    /// Whether the gateway discovers model servers on their default ports on this machine.
    pub discover: bool,
}

/// Requests that the access log contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessLogSetting {
    /// Only requests that fail.
    Errors,
    /// Failed requests, and requests whose caller sends `x-request-id`.
    Identified,
    /// Every request, successful or not.
    All,
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".to_owned(),
            admin: "127.0.0.1:9464".to_owned(),
            public_url: None,
            trusted_proxies: Vec::new(),
            admin_hosts: Vec::new(),
            allow_plain_http: false,
            workers: 0,
            access_log: AccessLogSetting::Identified,
            connections_per_address: 4096,
            discover: true,
        }
    }
}

/// `[storage]`: the database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StorageSection {
    /// `sqlite:DIR/tollgate.db` or `postgres://…`; SQLite in the data directory if omitted.
    pub url: Option<String>,
    /// Maximum number of connections to PostgreSQL.
    pub max_connections: u32,
    /// Whether busy accounts use leases of their balance.
    pub leases: bool,
}

impl Default for StorageSection {
    fn default() -> Self {
        Self {
            url: None,
            max_connections: 16,
            leases: true,
        }
    }
}

/// `[service]`: key prefix, support contact and pepper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceSection {
    /// Slug in key prefixes: `sk-<slug>-`.
    pub slug: String,
    /// Support contact, shown in the documentation.
    pub support: Option<String>,
    /// Environment variable with the secret that keys are hashed with, at least 32 characters.
    pub pepper_env: Option<VariableName>,
    /// File with the secret that keys are hashed with, at least 32 characters.
    pub pepper_file: Option<String>,
}

impl Default for ServiceSection {
    fn default() -> Self {
        Self {
            slug: "service".to_owned(),
            support: None,
            pepper_env: None,
            pepper_file: None,
        }
    }
}

/// `[limits]`: default limits, for accounts without their own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSection {
    /// Maximum number of requests per minute of each account.
    pub rpm: u32,
    /// Maximum number of tokens per minute of each account.
    pub tpm: u64,
    /// Maximum number of unrevoked keys of each account.
    pub keys: u32,
    /// Maximum number of saved chats of each account.
    pub chats: u32,
    /// Maximum number of stored files of each account.
    pub files: u64,
    /// Maximum total size of the stored files of each account, in GiB.
    pub files_gib: u64,
    /// Maximum sum of the estimated tokens of all unfinished batches of each account.
    pub batch_tokens: u64,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            rpm: 50,
            tpm: 2_000_000,
            keys: 50,
            chats: 50,
            files: 10_000,
            files_gib: 100,
            batch_tokens: 200_000_000,
        }
    }
}

/// `[redis]`: shared counters of rate limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedisSection {
    /// `redis://user:password@host:6379/0`, or `rediss://` for TLS. If omitted, each node counts
    /// separately.
    pub url: Option<String>,
    /// Prefix of all Redis keys.
    pub prefix: String,
    /// Maximum time that a request waits for Redis, in milliseconds. After this time, the node
    /// decides alone.
    pub timeout_ms: u64,
}

impl Default for RedisSection {
    fn default() -> Self {
        Self {
            url: None,
            prefix: "tollgate".to_owned(),
            timeout_ms: 50,
        }
    }
}

/// `[providers.NAME]`: a model provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderSection {
    /// API preset: `openai`, `openrouter`, `vllm`, …; the name of the block if omitted.
    pub preset: Option<String>,
    /// Base URL, such as `http://10.0.0.5:8000/v1`; the preset's URL if omitted.
    pub base_url: Option<String>,
    /// Environment variable with the API key; the preset's default variable if omitted.
    pub api_key_env: Option<VariableName>,
    /// File with the API key.
    pub api_key_file: Option<String>,
    /// Region, such as `us-east-1`, for presets with regions; the preset's variables, such as
    /// `AWS_REGION`, if omitted.
    #[serde(alias = "location")]
    pub region: Option<String>,
    /// Billing project, for presets with projects.
    pub project: Option<String>,
    /// Source of access tokens if no service account key is set.
    pub credentials: Option<CredentialsSetting>,
    /// Environment variable with a service account key, as JSON text.
    pub credentials_env: Option<VariableName>,
    /// File with a service account key.
    pub credentials_file: Option<String>,
    /// Environment variable with the access key id, for presets that sign requests.
    pub access_key_id_env: Option<VariableName>,
    /// Environment variable with the secret access key.
    pub secret_access_key_env: Option<VariableName>,
    /// Environment variable with the session token of temporary credentials.
    pub session_token_env: Option<VariableName>,
    /// Directory of the workflows that serve as models, for presets with workflows.
    pub workflows: Option<String>,
    /// Component that runs the requests of batches, for presets with a batch API.
    pub batches: Option<BatchesSetting>,
    /// Whether the gateway stops a stream or reads it to its end when the caller disconnects.
    /// Default: `stop` for self-hosted servers, `drain` for others.
    pub on_disconnect: Option<DisconnectSetting>,
    /// Number of calls for a request for several answers: `together` in one call, or `separately`
    /// in one call for each answer. Defaults to the preset's value.
    pub answers: Option<AnswersSetting>,
    /// Handling of the provider's error texts: `hide` discards them, `log` logs them, `pass` logs
    /// them and sends them to callers. Default: `log` for servers on this machine and in private
    /// networks, `hide` for others.
    pub error_text: Option<ErrorTextSetting>,
    /// Price of models without their own price. If omitted, the gateway does not offer such models.
    pub default_price: Option<PricesEntry>,
    /// Whether the provider is enabled; default: true.
    pub enabled: Option<bool>,
}

/// Number of upstream calls for a request for several answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswersSetting {
    /// One call for all answers.
    Together,
    /// One call for each answer.
    Separately,
}

/// Handling of a provider's error texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorTextSetting {
    /// Error texts are discarded.
    Hide,
    /// Error texts are logged.
    Log,
    /// Error texts are logged and sent to callers.
    Pass,
}

/// All `[plans.NAME]` blocks. If there is at least one, the default plans are not offered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlansSection(pub BTreeMap<String, PlanSection>);

impl Default for PlansSection {
    fn default() -> Self {
        let plan = |(name, price, allowance): (&str, i64, i64)| {
            let section = PlanSection {
                price: Credits::from_whole(price).unwrap_or_default(),
                allowance: Credits::from_whole(allowance).unwrap_or_default(),
                ..PlanSection::default()
            };
            (name.to_owned(), section)
        };
        // The price of a month is about 70 percent of the allowances of its weeks.
        Self(
            [("lite", 15, 5), ("pro", 75, 25), ("max", 300, 100)]
                .map(plan)
                .into(),
        )
    }
}

/// A `[plans.NAME]` block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanSection {
    /// Price of a period, in credits.
    pub price: Credits,
    /// Length of a period.
    pub cadence: CadenceSetting,
    pub payer: PayerSetting,
    /// Allowance of each week, in credits.
    pub allowance: Credits,
    /// Patterns of the model ids that the plan covers; `*` matches any text.
    pub models: Vec<String>,
}

impl Default for PlanSection {
    fn default() -> Self {
        Self {
            price: Credits::ZERO,
            cadence: CadenceSetting::Monthly,
            payer: PayerSetting::Credits,
            allowance: Credits::ZERO,
            models: vec!["*".to_owned()],
        }
    }
}

/// Length of a plan's period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CadenceSetting {
    Monthly,
    Yearly,
}

/// Source of the payment for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayerSetting {
    /// The credits of the account.
    Credits,
    /// The payment provider, which charges the payer.
    Provider,
}

/// `[payments]`: the sale of credits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PaymentsSection {
    /// Payment provider: `stripe`. If omitted, credits cannot be bought.
    pub provider: Option<PaymentProviderSetting>,
    /// Currency of payments, as an ISO 4217 code.
    pub currency: Currency,
    /// Price of a credit in the smallest unit of the currency, such as cents.
    pub credit_price: i64,
    /// Minimum number of credits of a top-up.
    pub min_amount: Credits,
    /// Maximum number of credits of a top-up.
    pub max_amount: Credits,
    /// URL to which the provider's pages return the payer; `server.public_url` if omitted.
    pub return_url: Option<String>,
    /// Environment variable with the provider's secret key.
    pub secret_key_env: VariableName,
    /// File with the provider's secret key.
    pub secret_key_file: Option<String>,
    /// Environment variable with the signing secret of the provider's webhooks.
    pub webhook_secret_env: VariableName,
    /// File with the signing secret of the provider's webhooks.
    pub webhook_secret_file: Option<String>,
    /// Base URL of the provider's API, if it differs from the default.
    pub base_url: Option<String>,
}

/// `[mail]`: the mail server for outgoing mail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MailSection {
    /// Address of the mail server, such as `smtp.example.com:587`. If omitted, no mail is sent.
    #[serde(deserialize_with = "address::mail_server")]
    pub server: Option<String>,
    /// TLS mode of the connection.
    pub tls: MailTlsSetting,
    /// Sender, such as `Acme <billing@example.com>`.
    pub from: Option<String>,
    /// User name for the mail server.
    pub user: Option<String>,
    /// Environment variable with the password of `user`.
    pub password_env: VariableName,
    /// File with the password of `user`.
    pub password_file: Option<String>,
}

/// `[media]`: storage of images, videos and recordings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MediaSection {
    /// Store of media: `files` in the data directory, or `s3`.
    pub store: MediaStoreSetting,
    /// Environment variable with the key that signs media URLs (at least 32 characters). If
    /// omitted, the key is derived from the pepper.
    pub signing_key_env: Option<VariableName>,
    /// File with the key that signs media URLs, at least 32 characters.
    pub signing_key_file: Option<String>,
    /// Environment variable with the previous signing key. URLs that it signed stay valid.
    pub previous_signing_key_env: Option<VariableName>,
    /// File with the previous signing key. URLs that it signed stay valid.
    pub previous_signing_key_file: Option<String>,
    /// The bucket for `store = "s3"`.
    pub s3: Option<S3Section>,
}

/// Store of the bytes of media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaStoreSetting {
    /// Files in the data directory.
    #[default]
    Files,
    /// Objects in an S3 bucket or a compatible store.
    S3,
}

/// `[media.s3]`: the bucket for media.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3Section {
    /// Name of the bucket.
    pub bucket: String,
    /// Region, such as `eu-central-1`; `AWS_REGION` if omitted.
    pub region: Option<String>,
    /// URL of the server, if it is not Amazon S3.
    pub endpoint: Option<String>,
    /// Prefix of object keys.
    pub prefix: String,
    /// Whether the bucket is part of the URL path. Default: true if `endpoint` is set.
    pub path_style: Option<bool>,
    /// Whether `endpoint` may use plain HTTP to another machine.
    pub allow_http: bool,
    /// Environment variable with the access key id.
    pub access_key_id_env: VariableName,
    /// Environment variable with the secret access key.
    pub secret_access_key_env: VariableName,
    /// File with the secret access key.
    pub secret_access_key_file: Option<String>,
    /// Environment variable with the session token of temporary credentials.
    pub session_token_env: VariableName,
}

impl Default for S3Section {
    fn default() -> Self {
        Self {
            bucket: String::new(),
            region: None,
            endpoint: None,
            prefix: String::new(),
            path_style: None,
            allow_http: false,
            access_key_id_env: VariableName::known("AWS_ACCESS_KEY_ID"),
            secret_access_key_env: VariableName::known("AWS_SECRET_ACCESS_KEY"),
            secret_access_key_file: None,
            session_token_env: VariableName::known("AWS_SESSION_TOKEN"),
        }
    }
}

/// TLS mode of a mail connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailTlsSetting {
    /// Plain text upgraded to TLS with STARTTLS.
    #[default]
    Starttls,
    /// TLS from the start of the connection.
    Always,
    /// No TLS; only for a server on this machine.
    Never,
}

impl Default for MailSection {
    fn default() -> Self {
        Self {
            server: None,
            tls: MailTlsSetting::Starttls,
            from: None,
            user: None,
            password_env: VariableName::known("SMTP_PASSWORD"),
            password_file: None,
        }
    }
}

/// A supported company that processes payments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentProviderSetting {
    Stripe,
}

impl Default for PaymentsSection {
    fn default() -> Self {
        Self {
            provider: None,
            currency: Currency::USD,
            credit_price: 100,
            min_amount: Credits::from_whole(5).unwrap_or_default(),
            max_amount: Credits::from_whole(10_000).unwrap_or_default(),
            return_url: None,
            secret_key_env: VariableName::known("STRIPE_SECRET_KEY"),
            secret_key_file: None,
            webhook_secret_env: VariableName::known("STRIPE_WEBHOOK_SECRET"),
            webhook_secret_file: None,
            base_url: None,
        }
    }
}

/// Handling of a stream after its caller disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum DisconnectSetting {
    /// The gateway closes the connection to the provider, which ends generation. The charge is
    /// estimated from the received part.
    Stop,
    /// The gateway reads the stream to its end, within the limits of `[drain]`. The charge follows
    /// the provider's usage report.
    Drain,
}

impl TryFrom<String> for DisconnectSetting {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match name.as_str() {
            "stop" => Ok(DisconnectSetting::Stop),
            "drain" => Ok(DisconnectSetting::Drain),
            other => Err(format!("must be \"stop\" or \"drain\", not \"{other}\"")),
        }
    }
}

/// Component that runs the requests of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum BatchesSetting {
    /// The gateway, which sends each request separately.
    Gateway,
    /// The provider, through its batch API.
    Native,
}

impl TryFrom<String> for BatchesSetting {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match name.as_str() {
            "gateway" => Ok(BatchesSetting::Gateway),
            "native" => Ok(BatchesSetting::Native),
            _ => Err(format!("`batches` must be `gateway` or `native`, not `{name}`")),
        }
    }
}

/// Source of access tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialsSetting {
    /// The metadata server of the machine.
    Metadata,
}

/// `[egress]`: rules for fetching caller-supplied URLs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EgressSection {
    /// Non-public networks that may be reached, such as `10.1.2.0/24` or `10.1.2.3:9000`.
    pub allow: Vec<String>,
    /// Maximum number of concurrent fetches.
    pub max_concurrent: usize,
}

impl Default for EgressSection {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            max_concurrent: 16,
        }
    }
}

/// `[console]`: the console for people and operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConsoleSection {
    /// Whether the console is served.
    pub enabled: bool,
    /// Time without a request after which a session ends, in hours.
    pub session_idle_hours: u32,
    /// Time after the sign-in after which a session ends, in days.
    pub session_max_days: u32,
}

impl Default for ConsoleSection {
    fn default() -> Self {
        Self {
            enabled: true,
            session_idle_hours: 12,
            session_max_days: 7,
        }
    }
}

/// `[timeouts]`: timeouts, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimeoutsSection {
    /// Maximum time until the connection to an upstream is established.
    pub connect_ms: u64,
    /// Maximum time until the upstream's response headers arrive.
    pub headers_ms: u64,
    /// Maximum time until the first content of a stream.
    pub first_content_ms: u64,
    /// Maximum time until the first content of a reasoning model's stream.
    pub first_content_reasoning_ms: u64,
    /// Maximum time that the gateway delays its response headers to wait for the first content.
    pub commit_ms: u64,
    /// Maximum time between two events of a stream.
    pub idle_ms: u64,
    /// Maximum duration of a call.
    pub total_ms: u64,
    /// Time without reading after which a caller counts as disconnected.
    pub write_stall_ms: u64,
    /// Interval of keep-alive pings on an idle stream.
    pub ping_ms: u64,
    /// Maximum time until a caller's request line and headers have arrived. Also the timeout of
    /// idle connections.
    pub request_headers_ms: u64,
    /// Time after which a request body must arrive at 1 KiB/s or faster.
    pub request_body_ms: u64,
    /// Time that the server still accepts connections after SIGTERM, so that load balancers can
    /// detect the shutdown.
    pub drain_delay_ms: u64,
    /// Maximum time that running calls have to end after the stop signal and the drain delay.
    pub shutdown_ms: u64,
}

impl Default for TimeoutsSection {
    fn default() -> Self {
        Self {
            connect_ms: 2_000,
            headers_ms: 60_000,
            first_content_ms: 60_000,
            first_content_reasoning_ms: 300_000,
            commit_ms: 15_000,
            idle_ms: 60_000,
            total_ms: 900_000,
            write_stall_ms: 60_000,
            ping_ms: 15_000,
            request_headers_ms: 60_000,
            request_body_ms: 10_000,
            drain_delay_ms: 5_000,
            shutdown_ms: 600_000,
        }
    }
}

/// `[retries]`: retries and circuit breakers of upstream calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetriesSection {
    /// Maximum number of attempts after the first.
    pub extra_attempts: u32,
    /// Maximum share of retries among the requests of the last ten seconds, in percent.
    pub budget_percent: u32,
    /// Number of retries per second that are always allowed, regardless of the share.
    pub budget_per_second: u32,
    /// Number of consecutive failures that open a candidate's circuit breaker.
    pub breaker_consecutive: u32,
    /// Time that the circuit breaker stays open at first, in milliseconds.
    pub breaker_open_ms: u64,
}

impl Default for RetriesSection {
    fn default() -> Self {
        Self {
            extra_attempts: 2,
            budget_percent: 20,
            budget_per_second: 3,
            breaker_consecutive: 5,
            breaker_open_ms: 30_000,
        }
    }
}

/// `[drain]`: limits for reading responses after their callers disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DrainSection {
    /// Maximum number of responses that are read concurrently after their callers disconnected.
    pub max_concurrent: usize,
    /// Maximum time of reading one response, in milliseconds.
    pub time_ms: u64,
    /// Maximum output that is read of one response, in bytes.
    pub bytes: u64,
}

impl Default for DrainSection {
    fn default() -> Self {
        Self {
            max_concurrent: 64,
            time_ms: 120_000,
            bytes: 4 * 1024 * 1024,
        }
    }
}

/// `[jobs]`: execution of asynchronous jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobsSection {
    /// Whether `serve` runs jobs. If false, it only accepts them, and `tollgate worker` processes
    /// run them.
    pub run_here: bool,
    /// Maximum number of concurrent jobs of a process. If 0, `serve` only accepts jobs, and
    /// `tollgate worker` refuses to start.
    pub concurrency: usize,
    /// Maximum number of concurrent jobs of an account, across all processes.
    pub per_account: u32,
}

impl Default for JobsSection {
    fn default() -> Self {
        Self {
            run_here: true,
            concurrency: 256,
            per_account: 16,
        }
    }
}

/// `[policy]`: the content policy. If the section is empty, no content is checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySection {
    /// Word and pattern rules, by name.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub rules: IndexMap<String, RuleSection>,
    /// External classifier of content; `None` if texts are checked by rules only.
    pub classifier: Option<ClassifierSection>,
}

/// `[policy.rules.NAME]`: forbidden words and patterns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSection {
    /// Whether the rule checks input, output or both.
    pub apply: Applies,
    /// Category reported by `POST /v1/moderations`; the rule's name if omitted.
    pub category: Option<String>,
    /// Forbidden words and phrases.
    pub words: Vec<String>,
    /// File with more words and phrases, one per line.
    pub words_file: Option<String>,
    /// Regular expressions of forbidden text.
    pub patterns: Vec<String>,
    /// File with more regular expressions, one per line.
    pub patterns_file: Option<String>,
}

/// Content that a rule or a classifier checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Applies {
    /// Requests of callers.
    Input,
    /// Responses of models.
    Output,
    /// Requests and responses.
    #[default]
    Both,
}

impl Applies {
    /// Returns whether requests are checked.
    pub fn to_input(self) -> bool {
        self != Applies::Output
    }

    /// Returns whether responses are checked.
    pub fn to_output(self) -> bool {
        self != Applies::Input
    }
}

/// `[policy.classifier]`: an external moderation endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassifierSection {
    /// Full URL of the endpoint, such as `https://api.openai.com/v1/moderations`.
    pub url: String,
    /// Environment variable with the classifier's API key.
    pub api_key_env: Option<VariableName>,
    /// File with the classifier's API key.
    pub api_key_file: Option<String>,
    /// Name of the model in requests to the classifier.
    pub model: String,
    /// Minimum score, 0 to 1, at which a text is forbidden, by category. If empty, the classifier's
    /// `flagged` value decides.
    pub thresholds: BTreeMap<String, f64>,
    /// Timeout of a request to the classifier, in milliseconds.
    pub timeout_ms: u64,
    /// Handling of content if a request to the classifier fails.
    pub on_error: OnErrorSetting,
    /// Whether the classifier checks input, output or both.
    pub apply: Applies,
}

impl Default for ClassifierSection {
    fn default() -> Self {
        Self {
            url: "https://api.openai.com/v1/moderations".to_owned(),
            api_key_env: None,
            api_key_file: None,
            model: "omni-moderation-latest".to_owned(),
            thresholds: BTreeMap::new(),
            timeout_ms: 3_000,
            on_error: OnErrorSetting::Refuse,
            apply: Applies::Both,
        }
    }
}

/// Handling of a request or response that the classifier could not check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnErrorSetting {
    /// The content is refused.
    Refuse,
    /// The content is allowed.
    Allow,
}
