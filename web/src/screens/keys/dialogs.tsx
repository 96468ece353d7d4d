import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Check, Choices, Field, Options } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Banner } from "../../parts/states.tsx";
import { notify } from "../../parts/toast.tsx";
import { useAction } from "../../shell/action.ts";
import { request } from "../../shell/api.ts";
import { count, dayTime, plural, relative } from "../../shell/format.ts";
import { LimitRequest } from "../../shell/limit-request.tsx";
import type { ApiKey, Compat, CreatedKey, KeyMode } from "../../shell/types.ts";
import { COMPAT_LEVELS, isCounted, masked, MAX_NAME_LENGTH, SYNC, wholeNumber } from "./keys.ts";
import type { NewKey } from "./new-key.tsx";
import { ALL_RIGHTS, changesOf, faultOf, RightsFields, rightsOf } from "./rights.tsx";

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;

const LIFETIMES = [
  { value: "never", label: "Never" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "1 year" },
  { value: "other", label: "Other" },
] as const;

const MAX_LIFETIME_DAYS = 36_500;

const OVERLAPS = [
  { value: "0", label: "None" },
  { value: "1", label: "1 hour" },
  { value: "24", label: "24 hours" },
  { value: "168", label: "7 days" },
  { value: "720", label: "30 days" },
  { value: "other", label: "Other" },
] as const;

const MAX_OVERLAP_HOURS = 720;

const MODES: readonly { value: KeyMode; label: string }[] = [
  { value: "live", label: "Live" },
  { value: "test", label: "Test" },
];

interface CreateProps {
  /** Number of keys that count towards the limit. */
  used: number;
  /** Maximum number of keys; null while it loads. */
  limit: number | null;
  keys: ApiKey[];
  onClose: () => void;
  onCreated: (created: NewKey) => void;
  onShowAll: () => void;
}

/** Creates a key. */
export function CreateDialog(props: CreateProps) {
  const [name, setName] = useState("");
  const [lifetime, setLifetime] = useState<(typeof LIFETIMES)[number]["value"]>("never");
  const [days, setDays] = useState("");
  const [faults, setFaults] = useState<{ name?: string; days?: string }>({});
  const [mode, setMode] = useState<KeyMode>("live");
  const [compat, setCompat] = useState<Compat>("standard");
  const [sync, setSync] = useState(false);
  const [rights, setRights] = useState(ALL_RIGHTS);
  const [rightsFaults, setRightsFaults] = useState<ReturnType<typeof faultOf>>(null);
  const { isBusy, error, run } = useAction();

  const isFull = props.limit !== null && props.used >= props.limit;
  if (isFull || error?.code === "key_limit_reached") {
    return <LimitDialog key="limit" limit={props.limit ?? props.used} keys={props.keys} onClose={props.onClose} onShowAll={props.onShowAll} />;
  }

  const submit = () => {
    const chosen = lifetime === "never" ? null : wholeNumber(lifetime === "other" ? days : lifetime, 1, MAX_LIFETIME_DAYS);
    const found = {
      ...(name.trim() ? {} : { name: "Enter a name, such as production." }),
      ...(lifetime === "other" && chosen === null
        ? { days: `Enter a whole number of days, 1 to ${count(MAX_LIFETIME_DAYS)}.` }
        : {}),
    };
    const wrong = faultOf(rights);
    setFaults(found);
    setRightsFaults(wrong);
    if (Object.keys(found).length > 0 || wrong) return;
    run(async () => {
      const limits = changesOf(ALL_RIGHTS, rights);
      const body = { name: name.trim(), mode, compat, sync, ...limits, ...(chosen === null ? {} : { expires_in_days: chosen }) };
      const { key } = await request<CreatedKey>("POST", "/keys", { body, account: true });
      const expiresAt = chosen === null ? null : new Date(Date.now() + chosen * DAY_MS).toISOString();
      props.onCreated({ name: body.name, secret: key, mode, expiresAt, rights });
    });
  };
  return (
    <Dialog
      key="create"
      title="Create a key"
      onClose={props.onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            Create key
          </Button>
        </>
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      <Field
        label="Name"
        name="key-name"
        maxLength={MAX_NAME_LENGTH}
        autoFocus
        value={name}
        error={faults.name ?? null}
        hint="The application and the environment that use the key."
        onInput={(value) => {
          setName(value);
          setFaults({ ...faults, name: "" });
        }}
      />
      <div class="stack">
        <Options label="Expires after" value={lifetime} options={LIFETIMES} onChange={setLifetime} />
        {lifetime === "other" && (
          <Field
            label="Days until the expiry"
            name="days"
            isNumber
            unit="days"
            value={days}
            error={faults.days ?? null}
            onInput={(value) => {
              setDays(value);
              setFaults({ ...faults, days: "" });
            }}
          />
        )}
      </div>
      <Options
        label="Mode"
        value={mode}
        options={MODES}
        hint={
          mode === "test"
            ? "Reaches only simulated models, under any name. Calls spend no credits."
            : "Reaches all models of the account. Calls spend credits."
        }
        onChange={setMode}
      />
      <RightsFields
        value={rights}
        faults={rightsFaults}
        onChange={(next) => {
          setRights(next);
          setRightsFaults(null);
        }}
      />
      <details class="more">
        <summary>
          <Icon name="right" small class="muted" />
          Advanced
        </summary>
        <div class="stack g16">
          <Choices label="Compatibility" value={compat} choices={COMPAT_LEVELS} onChange={setCompat} />
          <Check label={SYNC.label} note={SYNC.note} value={sync} onChange={setSync} />
        </div>
      </details>
    </Dialog>
  );
}

/** Explains how to create more keys than the account can have. */
function LimitDialog(props: { limit: number; keys: ApiKey[]; onClose: () => void; onShowAll: () => void }) {
  const { limit } = props;
  const expired = props.keys.filter((key) => isCounted(key) && key.state === "expired").length;
  return (
    <Dialog
      title="Key limit reached"
      icon={
        <span class="okring attention">
          <Icon name="warning" />
        </span>
      }
      onClose={props.onClose}
      footer={
        <>
          {expired > 0 && (
            <Button
              onClick={() => {
                props.onShowAll();
                props.onClose();
              }}
            >
              Show all keys
            </Button>
          )}
          <Button kind="primary" autoFocus onClick={props.onClose}>
            Close
          </Button>
        </>
      }
    >
      <p class="t14">
        This account can have {plural(limit, "key")}. Revoke a key that is no longer used, or request a higher limit.
        {expired > 0 && ` ${plural(expired, "expired key")} ${expired === 1 ? "counts" : "count"} until revoked.`}
      </p>
      <LimitRequest wanted={[`… keys (now ${count(limit)})`]} />
    </Dialog>
  );
}

/** Replaces a key by a new one. */
export function RotateDialog(props: {
  apiKey: ApiKey;
  keys: ApiKey[];
  onClose: () => void;
  onRotated: (created: NewKey) => void;
}) {
  const { apiKey: key } = props;
  const [overlap, setOverlap] = useState<(typeof OVERLAPS)[number]["value"]>("24");
  const [other, setOther] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const { isBusy, error, run } = useAction();
  const hours = wholeNumber(overlap === "other" ? other : overlap, 0, MAX_OVERLAP_HOURS);
  const worksUntil = hours ? earlier(key.expires_at, new Date(Date.now() + hours * HOUR_MS).toISOString()) : null;
  const ended = props.keys.find((one) => one.replaced_by === key.id && one.state === "active");
  const submit = () => {
    if (hours === null) return setFault(`Enter a whole number of hours, 0 to ${MAX_OVERLAP_HOURS}.`);
    run(async () => {
      const body = { overlap_hours: hours };
      const created = await request<CreatedKey>("POST", `/keys/${key.id}/rotate`, { body, account: true });
      const lifetime = key.expires_at && Date.parse(key.expires_at) - Date.parse(key.created_at);
      props.onRotated({
        name: key.name,
        secret: created.key,
        mode: key.mode,
        rights: rightsOf(key),
        expiresAt: lifetime ? new Date(Date.now() + lifetime).toISOString() : null,
        replaced: { key, worksUntil },
      });
    });
  };
  return (
    <Dialog
      title={`Rotate “${key.name}”`}
      onClose={props.onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            Rotate key
          </Button>
        </>
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      <p class="muted t14">
        Creates a new key with the same name, rights, settings and lifetime. The new key takes the place of{" "}
        <code>{masked(key)}</code> in the limit of the account.
      </p>
      <div class="stack">
        <Options label="The old key still works for" value={overlap} options={OVERLAPS} onChange={setOverlap} />
        {overlap === "other" && (
          <Field
            label="Hours for which the old key still works"
            name="hours"
            isNumber
            unit="hours"
            value={other}
            error={fault}
            onInput={(value) => {
              setOther(value);
              setFault(null);
            }}
          />
        )}
      </div>
      {hours === 0 ? (
        <Banner kind="warning">
          The old key stops working immediately. Calls with it fail until you have deployed the new key.
        </Banner>
      ) : (
        <Banner kind="info">
          {worksUntil
            ? `Both keys work until ${dayTime(worksUntil)}. Deploy the new key before that time.`
            : "Both keys work for that time. Deploy the new key before it ends."}
        </Banner>
      )}
      {ended && (
        <Banner kind="warning">
          <code>{masked(ended)}</code>, which this key has replaced, stops working immediately.
        </Banner>
      )}
    </Dialog>
  );
}

function earlier(first: string | null, second: string): string {
  return first && Date.parse(first) < Date.parse(second) ? first : second;
}

/** Revokes a key. */
export function RevokeDialog(props: { apiKey: ApiKey; onClose: () => void; onRevoked: () => void }) {
  const { apiKey: key } = props;
  const { isBusy, error, run } = useAction();
  const isUsed = key.last_used_at !== null && Date.now() - Date.parse(key.last_used_at) < DAY_MS;
  const submit = () =>
    run(async () => {
      await request("DELETE", `/keys/${key.id}`, { account: true });
      notify(`Key “${key.name}” revoked`);
      props.onRevoked();
      props.onClose();
    });
  return (
    <Dialog
      title={`Revoke “${key.name}”?`}
      size="small"
      icon={
        <span class="okring warnring">
          <Icon name="warning" />
        </span>
      }
      onClose={props.onClose}
      onSubmit={submit}
      footer={
        <>
          <Button autoFocus onClick={props.onClose}>
            Cancel
          </Button>
          <Button kind="danger-fill" type="submit" isBusy={isBusy}>
            Revoke key
          </Button>
        </>
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      <dl class="kv">
        <dt>Key</dt>
        <dd>
          <code>{masked(key)}</code>
        </dd>
        <dt>Last used</dt>
        <dd class={isUsed ? "warn strong5" : undefined}>{key.last_used_at ? relative(key.last_used_at) : "Never"}</dd>
      </dl>
      <p class="muted t14">
        The key stops working immediately and permanently. Calls that are running finish, and are charged.
      </p>
    </Dialog>
  );
}
