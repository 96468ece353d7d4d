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

export interface UsageRow {
  id: string;
  request_id: string;
  created_at: string;
  model: string | null;
  requested_model: string | null;
  endpoint: string;
  usage: { total_tokens: number };
  cost: string;
  outcome: string;
  first_content_ms: number | null;
  duration_ms: number;
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
