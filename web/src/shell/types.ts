// Bodies of the console API and of the parts of the public and admin API that the screens read.
// Times are RFC 3339 strings; amounts are decimal strings, which are never converted to floats.

export type Role = "owner" | "admin" | "billing" | "member" | "viewer";

export interface Service {
  name: string;
  support: string | null;
  version: string;
  /** Whether the service can send a sign-in link by e-mail. */
  sends_mail: boolean;
}

export interface Membership {
  id: string;
  name: string;
  role: Role;
  member_id: string;
}

export interface Person {
  id: string;
  email: string | null;
  name: string;
  has_password: boolean;
}

export interface AccountSession {
  id: string;
  person: Person;
  accounts: Membership[];
  created_at: string;
  expires_at: string;
  proved_at: string;
  setup_required: boolean;
  step_up_required: boolean;
}

export interface OperatorSession {
  id: string;
  admin: { id: string; name: string; role: "viewer" | "support" | "billing" | "owner" };
  created_at: string;
  expires_at: string;
}

export interface SessionReply<S> {
  session: S | null;
  service?: Service;
}

export interface List<T> {
  data: T[];
  has_more: boolean;
}

export interface SignedIn {
  id: string;
  client: string;
  address: string;
  created_at: string;
  last_seen_at: string;
  expires_at: string;
  current: boolean;
}

export type LimitName = "rpm" | "tpm" | "keys" | "files" | "files_gib" | "batch_tokens";

export interface Account {
  id: string;
  name: string;
  state: string;
  created_at: string;
  /** Effective limits. Lists of accounts omit them. */
  limits_in_force?: Record<LimitName, number>;
}

export interface Member {
  id: string;
  email: string;
  name: string;
  role: Role;
  status: "active" | "invited" | "expired";
  created_at: string;
  invitation_expires_at: string | null;
}

export interface Invitation {
  member: Member;
  url: string;
  expires_at: string;
  mailed: boolean;
}

export type Compat = "strict" | "standard" | "lenient";

export type KeyMode = "live" | "test";

/** An API key, without its secret. */
export interface ApiKey {
  id: string;
  name: string;
  last4: string;
  compat: Compat;
  mode: KeyMode;
  /** Whether image requests wait for the images by default. */
  sync: boolean;
  state: "active" | "expired" | "revoked";
  /** Models that the key may use, such as `acme/large` or `acme/*`; null for all. */
  models?: string[] | null;
  /** Endpoint groups that the key may use, such as `text`; null for all. */
  scopes?: string[] | null;
  /** Id of the member who created the key; null for keys of operators. */
  created_by: string | null;
  /** Id of the key that replaces this one. A replaced key works until it expires. */
  replaced_by: string | null;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
}

/** A new key with its secret, which no other response contains. */
export interface CreatedKey {
  id: string;
  key: string;
}

export interface Totals {
  requests: number;
  cost: string;
}

/** Usage by class. The classes do not overlap. */
export interface UsageClasses {
  input_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  cache_write_1h_tokens: number;
  input_audio_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  output_audio_tokens: number;
  total_tokens: number;
  images: number;
  video_seconds: number;
  audio_seconds: number;
  characters: number;
  searches: number;
  input_image_tokens: number;
  cache_read_audio_tokens: number;
}

/** A call: a row of the usage of an account. */
export interface UsageRow {
  id: string;
  request_id: string;
  created_at: string;
  model: string | null;
  requested_model: string | null;
  upstream_model: string | null;
  /** Null for calls with a session. */
  key_id: string | null;
  /** Null for calls with a key. */
  member_id: string | null;
  endpoint: string;
  usage: UsageClasses;
  cost: string;
  /** Part of the cost that the allowance of a plan paid. */
  included: string;
  refunded: string;
  outcome: string;
  estimated: boolean;
  coverage: string;
  plan_name: string | null;
  price_version: string;
  first_content_ms: number | null;
  duration_ms: number;
}

export interface CallPage extends List<UsageRow> {
  /** Cursor of the next page. A page may be empty although there are more. */
  next: string | null;
}

export interface ReceiptLine {
  /** Class of usage, such as `cache_read`. */
  class: string;
  /** Tokens, characters, or millionths of an image, of a second or of a query. */
  tokens: number;
  /** Credits per 1,000,000 units. */
  price: string;
  product: string;
}

export interface Receipt {
  lines: ReceiptLine[];
  /** Input tokens above which the prices for long prompts applied; null if they did not. */
  long_prompt_above: number | null;
  /** Parts of a call that several models served. */
  parts: { name: string; model: string; lines: ReceiptLine[]; cost: string }[];
  requests: { count: number; cost: string } | null;
  cost: string;
  held_credits: string;
  held_allowance: string;
  included: string;
  paid: string;
  charge: string;
  refunded: string;
}

/** A transfer of the ledger. */
export interface Transfer {
  leg: string;
  amount: string;
  from: string;
  to: string;
  at: string;
}

export interface CallDetail {
  call: UsageRow;
  timeline: { accepted_at: string; first_content_at: string | null; ended_at: string };
  receipt: Receipt;
  transfers: Transfer[];
}

export interface SeriesTotals {
  requests: number;
  cost: string;
  usage: Partial<UsageClasses>;
}

export interface SeriesGroup extends SeriesTotals {
  /** Model, id of the key or member, or endpoint. Empty for calls without one. */
  group: string | null;
  points: (SeriesTotals & { start: string })[];
}

export interface UsageSeries {
  groups: SeriesGroup[];
}

export interface Limit {
  name: string;
  limit: number;
  /** Present use; null if it is not counted. */
  used: number | null;
}

export interface Balance {
  credits: string;
  held: string;
  /** Unused allowance of the current week; absent without an active plan. */
  allowance?: string;
  /** Sum of the credits and the allowance; absent without an active plan. */
  spendable?: string;
}

/** Credits that arrived together, and what is left of them. */
export interface Lot {
  id: string;
  kind: string;
  amount: string;
  /** Unspent credits, with those on hold. */
  remaining: string;
  expired: string;
  withdrawn: string;
  created_at: string;
  expires_at: string | null;
}

export interface Statement {
  month: string;
  opening: string;
  opening_held: string;
  purchases: string;
  promotions: string;
  refunds: string;
  charged: string;
  plan_fees: string;
  plan_periods: number;
  expired: string;
  withdrawn: string;
  closing: string;
  closing_held: string;
  allowance_used: string;
  allowance_refunded: string;
  charges: { model: string; endpoint: string; calls: number; paid: string; included: string }[];
}

export interface Plans {
  /** Plans that the service offers. */
  data: { name: string; price: string; cadence: string; allowance: string }[];
  /** Subscriptions of the account, the newest first. */
  subscriptions: { product: string; subject: string; state: string; price: string; cadence: string }[];
}

export interface AccountUsage {
  balance: { credits: string; held: string };
  plan: {
    tier: string;
    status: string;
    cadence: string;
    paid_through: string;
    cancel_at_period_end: boolean;
    weekly_window?: { start: string; end: string; limit: string; used: string } | null;
  } | null;
  data: UsageRow[];
  totals: Totals & { groups?: (Totals & { group: string })[] };
  has_more: boolean;
}

export interface Target {
  upstream_model: string;
  models: string[];
  breaker: "closed" | "open" | "half_open" | "cooling_down";
  failures_in_a_row: number;
  retry_in_ms: number;
  last_error?: string | null;
  last_error_at?: string | null;
}

export interface Provider {
  name: string;
  preset: string;
  base_url?: string | null;
  simulated: boolean;
  listing_error?: string | null;
  targets: Target[];
}

export interface RealtimeSession {
  id: string;
  account: string;
  account_name?: string;
  model: string;
  kind: "voice" | "transcription";
  node: string;
  opened_at: string;
  last_activity_at: string;
  charges: number;
  charged: string;
}

export interface OperatorAccount extends Account, Partial<Record<LimitName, number | null>> {
  balance?: { credits: string; held: string; allowance?: string; spendable?: string } | null;
}

export interface OperatorKey {
  id: string;
  name: string;
  last4: string;
  mode?: string;
  state: "active" | "expired" | "revoked";
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
}

export interface OperatorMember {
  id: string;
  email: string;
  role: string;
  created_at: string;
}

export interface AuditEntry {
  id: string;
  at: string;
  actor: string;
  role: string;
  action: string;
  account?: string | null;
  account_name?: string;
  object: string;
  before?: Record<string, unknown> | null;
  after?: Record<string, unknown> | null;
  request_id?: string | null;
  outcome: string;
}

/** A model of the catalog. Prices are by class, such as `input` and `output>200000`. */
export interface Model {
  id: string;
  owned_by: string;
  type: string;
  display_name: string;
  /** ISO date; `-` if it is not verified. */
  release_date: string;
  context_window: number | null;
  max_output_tokens: number | null;
  modalities: { input: string[]; output: string[] };
  endpoints: string[];
  structured_output: "json_schema" | "json_mode" | "none";
  batch_supported: boolean;
  pricing: Record<string, string>;
  modes: string[];
  limits: Record<string, unknown>;
  simulated: boolean;
}

export type JobStatus = "queued" | "in_progress" | "completed" | "failed" | "cancelled" | "expired";

export interface Job {
  id: string;
  type: string;
  status: JobStatus;
  model: string;
  progress: number | null;
  phase: string | null;
  queue_position: number | null;
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
  expires_at: string | null;
  result: Record<string, unknown> | null;
  error: { message: string; code?: string | null; param?: string | null } | null;
  usage: Record<string, unknown> | null;
  cost: string | null;
  metadata: Record<string, string> | null;
  request_id: string;
}

/** An uploaded file. Times are seconds since 1970. */
export interface StoredFile {
  id: string;
  bytes: number;
  created_at: number;
  expires_at?: number | null;
  filename: string;
  purpose: string;
  /** Number of requests of a file with purpose `batch`. */
  lines?: number | null;
}

export type BatchStatus =
  | "validating"
  | "in_progress"
  | "finalizing"
  | "completed"
  | "failed"
  | "expired"
  | "cancelling"
  | "cancelled";

/** A batch. Times are seconds since 1970. */
export interface Batch {
  id: string;
  endpoint: string;
  model: string;
  errors?: { data: { code: string; message: string; line?: number | null; param?: string | null }[] } | null;
  input_file_id: string;
  status: BatchStatus;
  output_file_id?: string | null;
  error_file_id?: string | null;
  created_at: number;
  in_progress_at?: number | null;
  expires_at: number;
  finalizing_at?: number | null;
  completed_at?: number | null;
  failed_at?: number | null;
  expired_at?: number | null;
  cancelling_at?: number | null;
  cancelled_at?: number | null;
  request_counts: { total: number; completed: number; failed: number };
  usage?: {
    input_tokens: number;
    input_tokens_details: { cached_tokens: number };
    output_tokens: number;
    output_tokens_details: { reasoning_tokens: number };
    total_tokens: number;
  } | null;
  cost?: string | null;
  metadata?: Record<string, string> | null;
}

export interface Template {
  slug: string;
  type: string;
  title: string;
  description: string;
  category: string;
  version: number;
  canonical_prompt: string;
  default_subject: string | null;
  recommended_model: string | null;
  supported_models: string[];
  default_params: Record<string, unknown>;
}

/** Default settings of a composition. */
export interface Recipe {
  slug: string;
  title: string;
  description: string;
  version: number;
  visuals: string;
  scenes: number;
  tone: string;
  look: string;
  transition: string;
  captions: Record<string, unknown>;
  music: Record<string, unknown>;
  aspect_ratio: string;
  resolution: string;
  aspect_ratios: string[];
  resolutions: string[];
  available: boolean;
  missing: string[];
}

/** The webhook delivery of a job that has ended. */
export interface Delivery {
  /** Id of the job. */
  id: string;
  event_id: string;
  job_type: string;
  job_status: JobStatus;
  /** Without its query. */
  url: string;
  state: string;
  attempts: number;
  failure: string | null;
  ended_at: string;
  due_at: string | null;
  delivered_at: string | null;
}

/** A low-balance alert, and the state of its delivery. */
export interface AlertDelivery {
  id: string;
  channel: "webhook" | "email";
  address: string;
  state: string;
  attempts: number;
  failure: string | null;
  created_at: string;
  due_at: string;
}

/** A limit of the account. `used` of limits per minute is that of the current minute. */
export interface AccountLimit {
  name: string;
  limit: number;
  used: number | null;
}
