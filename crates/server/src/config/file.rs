//! The shape of `tollgate.toml`. tollgate.example.toml shows every key with what it does.

use std::collections::BTreeMap;
use std::net::IpAddr;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use tollgate_catalog::{ModelEntry, PricesEntry, TemplateEntry};
use tollgate_types::{Credits, Currency};

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileConfig {
    /// Listeners and what surrounds a request.
    pub server: ServerSection,
    /// Where everything is kept.
    pub storage: StorageSection,
    /// Name, key prefix, support.
    pub service: ServiceSection,
    /// Limits of accounts that have none of their own.
    pub limits: LimitsSection,
    /// Where several nodes share limits.
    pub redis: RedisSection,
    /// Companies and servers whose models are called, by name. The first that has a model wins its bare name.
    pub providers: IndexMap<String, ProviderSection>,
    /// Models, by public id.
    pub models: BTreeMap<String, ModelEntry>,
    /// Other names of models: alias → id.
    pub aliases: BTreeMap<String, String>,
    /// Templates for pictures and films, by slug.
    pub templates: BTreeMap<String, TemplateEntry>,
    /// Plans that accounts can have, by name.
    pub plans: PlansSection,
    /// How credits are sold.
    pub payments: PaymentsSection,
    /// What mail is sent through.
    pub mail: MailSection,
    /// Where media are kept.
    pub media: MediaSection,
    /// What callers' addresses may reach.
    pub egress: EgressSection,
    /// How long to wait for what.
    pub timeouts: TimeoutsSection,
    /// When to try again.
    pub retries: RetriesSection,
    /// What happens to the answer of a caller that left.
    pub drain: DrainSection,
    /// What goes on after its request was answered.
    pub jobs: JobsSection,
    /// What may be sent to models, and what of their answers may be shown.
    pub policy: PolicySection,
}

/// `[server]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSection {
    /// Where callers connect.
    pub listen: String,
    /// Where operators connect: metrics.
    pub admin: String,
    /// The address that callers use, for absolute addresses in answers.
    pub public_url: Option<String>,
    /// Addresses whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpAddr>,
    /// Whether to listen beyond loopback without TLS in front.
    pub allow_plain_http: bool,
    /// Threads that serve requests; 0 for one per processor.
    pub workers: usize,
    /// Which requests are logged: `errors` or `all`.
    pub access_log: AccessLogSetting,
    /// Most connections from one address that is neither loopback nor a trusted proxy.
    pub connections_per_address: usize,
    /// Whether model servers on this machine are looked for at their usual ports.
    pub discover: bool,
}

/// Which requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessLogSetting {
    /// Those that fail.
    Errors,
    /// All.
    All,
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".to_owned(),
            admin: "127.0.0.1:9464".to_owned(),
            public_url: None,
            trusted_proxies: Vec::new(),
            allow_plain_http: false,
            workers: 0,
            access_log: AccessLogSetting::Errors,
            connections_per_address: 4096,
            discover: true,
        }
    }
}

/// `[storage]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StorageSection {
    /// `sqlite:DIR/tollgate.db` or `postgres://…`; SQLite in the data directory when it is not said.
    pub url: Option<String>,
    /// Connections to PostgreSQL.
    pub max_connections: u32,
    /// Whether busy accounts are served out of leases of their balance.
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

/// `[service]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceSection {
    /// Keys begin `sk-<slug>-`.
    pub slug: String,
    /// Whom callers ask for help; shown in the documentation.
    pub support: Option<String>,
    /// The variable that holds the secret under which keys are digested (at least 32 characters).
    pub pepper_env: Option<String>,
    /// The file that holds it.
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

/// `[limits]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSection {
    /// Requests per minute of an account.
    pub rpm: u32,
    /// Tokens per minute of an account.
    pub tpm: u64,
    /// Keys of an account that are not revoked.
    pub keys: u32,
    /// Files of an account.
    pub files: u64,
    /// What they may have together, in GiB.
    pub files_gib: u64,
    /// Tokens that the unfinished batches of an account may consume.
    pub batch_tokens: u64,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            rpm: 50,
            tpm: 2_000_000,
            keys: 50,
            files: 10_000,
            files_gib: 100,
            batch_tokens: 200_000_000,
        }
    }
}

/// `[redis]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedisSection {
    /// `redis://user:password@host:6379/0`, or `rediss://` with TLS. Without it each node counts for itself.
    pub url: Option<String>,
    /// What every key begins with.
    pub prefix: String,
    /// How long a request waits for a decision, in milliseconds, before its node decides by itself.
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

/// `[providers.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderSection {
    /// What it speaks and its quirks: `openai`, `openrouter`, `vllm`, …; the block's own name when it is not said.
    pub preset: Option<String>,
    /// Where it is, such as `http://10.0.0.5:8000/v1`; the preset's own address when it is not said.
    pub base_url: Option<String>,
    /// The variable that holds the key; the preset's usual one when it is not said.
    pub api_key_env: Option<String>,
    /// The file that holds the key.
    pub api_key_file: Option<String>,
    /// Where in the world it is, such as `us-east-1`, for presets that have regions; `AWS_REGION` and the like when it is
    /// not said.
    #[serde(alias = "location")]
    pub region: Option<String>,
    /// The project that is billed, for presets that have projects.
    pub project: Option<String>,
    /// Where tokens come from, when no key of an account is named.
    pub credentials: Option<CredentialsSetting>,
    /// The variable that holds the key of a service account, the whole JSON text.
    pub credentials_env: Option<String>,
    /// The file that holds it.
    pub credentials_file: Option<String>,
    /// The variable that holds the id of an account's key, for presets that sign requests.
    pub access_key_id_env: Option<String>,
    /// The variable that holds its secret.
    pub secret_access_key_env: Option<String>,
    /// The variable that holds the token of a temporary one.
    pub session_token_env: Option<String>,
    /// The folder with the workflows that are its models, for presets that have workflows.
    pub workflows: Option<String>,
    /// Who carries batches out: the gateway, request by request, or the provider, for presets that have batches.
    pub batches: Option<BatchesSetting>,
    /// The price of its models that have no other. Without it such models are not offered.
    pub default_price: Option<PricesEntry>,
    /// Whether it is used.
    pub enabled: Option<bool>,
}

/// Every `[plans.NAME]`. As soon as there is one, the default ones are not offered.
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
        // A month of a plan costs about 70 percent of what its weeks include.
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
    /// Credits that a period costs.
    pub price: Credits,
    /// How long a period is.
    pub cadence: CadenceSetting,
    /// Who pays.
    pub payer: PayerSetting,
    /// Credits that a week includes.
    pub allowance: Credits,
    /// The models that it covers, by id; `*` stands for anything.
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

/// How long a period of a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CadenceSetting {
    /// A month.
    Monthly,
    /// A year.
    Yearly,
}

/// Who pays for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayerSetting {
    /// The account's credits.
    Credits,
    /// A payment provider.
    Provider,
}

/// `[payments]`: selling credits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PaymentsSection {
    /// Who takes the money: `stripe`. Without it credits are only granted.
    pub provider: Option<PaymentProviderSetting>,
    /// What it takes, by its ISO 4217 code.
    pub currency: Currency,
    /// What a credit costs, in the smallest unit of the currency, such as cents.
    pub credit_price: i64,
    /// The fewest credits of one top-up.
    pub least: Credits,
    /// The most.
    pub most: Credits,
    /// Where the provider's pages lead back to; `server.public_url` when it is not said.
    pub return_url: Option<String>,
    /// The variable that holds the provider's secret key.
    pub secret_key_env: String,
    /// The file that holds it.
    pub secret_key_file: Option<String>,
    /// The variable that holds the secret that its events are signed with.
    pub webhook_secret_env: String,
    /// The file that holds it.
    pub webhook_secret_file: Option<String>,
    /// Where the provider is, when not at its own address.
    pub base_url: Option<String>,
}

/// `[mail]`: sending mail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MailSection {
    /// The mail server, such as `smtp.example.com:587`. Without it no mail is sent.
    pub server: Option<String>,
    /// How it is spoken to.
    pub tls: MailTlsSetting,
    /// Who mails are from, such as `Acme <billing@example.com>`.
    pub from: Option<String>,
    /// As whom the server is spoken to.
    pub user: Option<String>,
    /// The variable that holds the password.
    pub password_env: String,
    /// The file that holds it.
    pub password_file: Option<String>,
}

/// `[media]`: where images, videos and recordings are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MediaSection {
    /// `files` in the data directory, or `s3`.
    pub store: MediaStoreSetting,
    /// The variable that holds the key that addresses are signed with (at least 32 characters); it follows from the
    /// pepper when none is named.
    pub signing_key_env: Option<String>,
    /// The file that holds it.
    pub signing_key_file: Option<String>,
    /// The variable that holds the key before it, whose addresses stay good.
    pub previous_signing_key_env: Option<String>,
    /// The file that holds it.
    pub previous_signing_key_file: Option<String>,
    /// The bucket, where it is `s3`.
    pub s3: Option<S3Section>,
}

/// Where media are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaStoreSetting {
    /// In the data directory.
    #[default]
    Files,
    /// In a bucket of S3, or of what speaks like it.
    S3,
}

/// `[media.s3]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3Section {
    /// The bucket.
    pub bucket: String,
    /// Where in the world it is, such as `eu-central-1`; `AWS_REGION` when it is not said.
    pub region: Option<String>,
    /// Where the server is, when it is not Amazon's.
    pub endpoint: Option<String>,
    /// What keys begin with.
    pub prefix: String,
    /// Whether the bucket stands in the path of addresses; as servers that are not Amazon's want it, when it is not said.
    pub path_style: Option<bool>,
    /// Whether the endpoint may be another machine that has no TLS.
    pub allow_http: bool,
    /// The variable that holds the id of the key.
    pub access_key_id_env: String,
    /// The variable that holds its secret.
    pub secret_access_key_env: String,
    /// The file that holds it.
    pub secret_access_key_file: Option<String>,
    /// The variable that holds the token of a temporary one.
    pub session_token_env: String,
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
            access_key_id_env: "AWS_ACCESS_KEY_ID".to_owned(),
            secret_access_key_env: "AWS_SECRET_ACCESS_KEY".to_owned(),
            secret_access_key_file: None,
            session_token_env: "AWS_SESSION_TOKEN".to_owned(),
        }
    }
}

/// How a mail server is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailTlsSetting {
    /// Over TLS after the greeting.
    #[default]
    Starttls,
    /// Over TLS from the beginning.
    Always,
    /// In the open, on this machine.
    Never,
}

impl Default for MailSection {
    fn default() -> Self {
        Self {
            server: None,
            tls: MailTlsSetting::Starttls,
            from: None,
            user: None,
            password_env: "SMTP_PASSWORD".to_owned(),
            password_file: None,
        }
    }
}

/// Who takes the money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentProviderSetting {
    /// Stripe.
    Stripe,
}

impl Default for PaymentsSection {
    fn default() -> Self {
        Self {
            provider: None,
            currency: Currency::USD,
            credit_price: 100,
            least: Credits::from_whole(5).unwrap_or_default(),
            most: Credits::from_whole(10_000).unwrap_or_default(),
            return_url: None,
            secret_key_env: "STRIPE_SECRET_KEY".to_owned(),
            secret_key_file: None,
            webhook_secret_env: "STRIPE_WEBHOOK_SECRET".to_owned(),
            webhook_secret_file: None,
            base_url: None,
        }
    }
}

/// Who carries batches out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum BatchesSetting {
    /// The gateway, which makes each request of them.
    Gateway,
    /// The provider, which is given them.
    Native,
}

impl TryFrom<String> for BatchesSetting {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match name.as_str() {
            "gateway" => Ok(BatchesSetting::Gateway),
            "native" => Ok(BatchesSetting::Native),
            _ => Err(format!("`batches` is `gateway` or `native`, and not `{name}`")),
        }
    }
}

/// Where tokens come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialsSetting {
    /// From the metadata server of the machine.
    Metadata,
}

/// `[egress]`: fetching what callers name by its address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EgressSection {
    /// Networks that may be reached although they are not public, such as `10.1.2.0/24` or `10.1.2.3:9000`.
    pub allow: Vec<String>,
    /// Most fetches at once.
    pub most_at_once: usize,
}

impl Default for EgressSection {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            most_at_once: 16,
        }
    }
}

/// `[timeouts]`, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimeoutsSection {
    /// Until a connection to an upstream stands.
    pub connect_ms: u64,
    /// Until the upstream's response headers.
    pub headers_ms: u64,
    /// Until the first content of a stream.
    pub first_content_ms: u64,
    /// The same for models that reason first.
    pub first_content_reasoning_ms: u64,
    /// How long response headers are kept back for the first content.
    pub commit_ms: u64,
    /// Between two events of a stream.
    pub idle_ms: u64,
    /// For the whole call.
    pub total_ms: u64,
    /// How long a caller may not read before it counts as gone.
    pub write_stall_ms: u64,
    /// Between two signs of life on a quiet stream.
    pub ping_ms: u64,
    /// Until a caller's request line and headers are there; idle connections are closed after it too.
    pub request_headers_ms: u64,
    /// How long a caller's body may take before it must come at 1 KiB a second.
    pub request_body_ms: u64,
    /// After the signal to stop: how long new connections are still taken, for load balancers to notice.
    pub drain_delay_ms: u64,
    /// After the signal to stop: how long calls that run may take.
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

/// `[retries]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetriesSection {
    /// Attempts beyond the first.
    pub extra_attempts: u32,
    /// Share of the last ten seconds' requests that may be retries, in percent.
    pub budget_percent: u32,
    /// Retries a second that are allowed whatever the share.
    pub budget_per_second: u32,
    /// Failures in a row after which a candidate is set aside.
    pub breaker_consecutive: u32,
    /// How long it is set aside at first, in milliseconds.
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

/// `[drain]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DrainSection {
    /// Answers read to their end at once after their callers left.
    pub most: usize,
    /// How long one is read, in milliseconds.
    pub time_ms: u64,
    /// How many bytes of generated output of one are read.
    pub bytes: u64,
}

impl Default for DrainSection {
    fn default() -> Self {
        Self {
            most: 64,
            time_ms: 120_000,
            bytes: 4 * 1024 * 1024,
        }
    }
}

/// `[jobs]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobsSection {
    /// Whether `serve` carries jobs out; else it accepts them and leaves them to workers.
    pub run_here: bool,
    /// Jobs that a process carries out at once; with zero it accepts jobs and leaves them to others.
    pub concurrency: usize,
    /// Jobs of one account at once, in all processes together.
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

/// `[policy]`. Empty, nothing is looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySection {
    /// Rules, by name.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub rules: IndexMap<String, RuleSection>,
    /// A classifier that is asked.
    pub classifier: Option<ClassifierSection>,
}

/// `[policy.rules.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSection {
    /// What it looks at.
    pub apply: Applies,
    /// What it finds, as `POST /v1/moderations` calls it; the rule's name when it is not said.
    pub category: Option<String>,
    /// Words and phrases.
    pub words: Vec<String>,
    /// A file with more of them, one in a line.
    pub words_file: Option<String>,
    /// Regular expressions.
    pub patterns: Vec<String>,
    /// A file with more of them, one in a line.
    pub patterns_file: Option<String>,
}

/// What a part of the policy looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Applies {
    /// What callers send.
    Input,
    /// What models answer.
    Output,
    /// Both.
    #[default]
    Both,
}

impl Applies {
    /// Whether it looks at what callers send.
    pub fn to_input(self) -> bool {
        self != Applies::Output
    }

    /// Whether it looks at what models answer.
    pub fn to_output(self) -> bool {
        self != Applies::Input
    }
}

/// `[policy.classifier]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassifierSection {
    /// Where it is: the whole address, `…/moderations`.
    pub url: String,
    /// The variable that holds the key.
    pub api_key_env: Option<String>,
    /// The file that holds the key.
    pub api_key_file: Option<String>,
    /// Its model.
    pub model: String,
    /// From which score on a category forbids a text; without any, what the classifier flags is forbidden.
    pub thresholds: BTreeMap<String, f64>,
    /// How long it may take.
    pub timeout_ms: u64,
    /// What happens when it does not answer.
    pub on_error: OnErrorSetting,
    /// What it looks at.
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

/// What happens when the classifier does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnErrorSetting {
    /// What it was asked about is not let through.
    Refuse,
    /// It is let through.
    Allow,
}
