// The guides of each family of operations, and their groups.

/** Guides by the tag of the OpenAPI document. */
export const FAMILY_GUIDES: Record<string, readonly string[]> = {
  Text: ["formats", "responses", "embeddings", "quote", "policy", "matrix"],
  Decisions: ["typed-decisions", "calibrations", "decisions-quality"],
  Research: ["research", "jobs"],
  Images: ["images", "templates", "jobs"],
  Videos: ["videos", "compose", "jobs"],
  Templates: ["templates", "gallery"],
  Audio: ["audio"],
  Files: ["files", "batches"],
  Jobs: ["jobs", "webhooks"],
  Models: ["matrix", "providers"],
  Account: ["money", "limits", "webhooks"],
  Accounts: ["admin", "keys", "limits"],
  Credits: ["credits", "money", "operations-ledger"],
  Plans: ["plans", "payments"],
  Prices: ["money"],
  Batches: ["batches"],
  Providers: ["providers"],
  People: ["admin", "console"],
};

interface GuideGroup {
  name: string;
  guides: readonly string[];
}

/** Guides for callers of the API. */
const CALLER_GROUPS: readonly GuideGroup[] = [
  { name: "Start", guides: ["getting-started", "keys", "limits", "idempotency", "money", "quote"] },
  {
    name: "Models and formats",
    guides: ["formats", "responses", "embeddings", "typed-decisions", "calibrations", "decisions-quality", "matrix"],
  },
  { name: "Media", guides: ["images", "videos", "compose", "templates", "gallery", "audio"] },
  { name: "Work in the background", guides: ["jobs", "research", "files", "batches", "webhooks"] },
  { name: "Policy and console", guides: ["policy", "console"] },
];

/** Guides for people who run the gateway. */
const OPERATOR_GROUPS: readonly GuideGroup[] = [
  { name: "Set up", guides: ["getting-started", "configuration", "providers", "research", "policy"] },
  { name: "Accounts and money", guides: ["admin", "console", "keys", "limits", "money", "credits", "plans", "payments", "alerts", "a-month"] },
  {
    name: "Run",
    guides: [
      "operations-running",
      "operations-postgres",
      "operations-media",
      "operations-backups",
      "operations-moving",
      "operations-ledger",
      "operations-fault-injection",
      "scaling",
    ],
  },
];

export function guideGroups(isOperator: boolean): readonly GuideGroup[] {
  return isOperator ? OPERATOR_GROUPS : CALLER_GROUPS;
}
