import { useId, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Chip } from "../../parts/data.tsx";
import { Field, Options } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { plural } from "../../shell/format.ts";
import { useResource } from "../../shell/resource.ts";
import { account, role } from "../../shell/session.ts";
import type { ApiKey } from "../../shell/types.ts";

/** Models and scopes that a key may use; null for all. */
export interface Rights {
  models: string[] | null;
  scopes: string[] | null;
}

export const ALL_RIGHTS: Rights = { models: null, scopes: null };

const MAX_MODELS = 100;

const SCOPES: readonly { value: string; label: string; isForAdmins?: boolean }[] = [
  { value: "text", label: "Text" },
  { value: "embeddings", label: "Embeddings" },
  { value: "images", label: "Images" },
  { value: "video", label: "Video" },
  { value: "audio", label: "Audio" },
  { value: "decisions", label: "Decisions" },
  { value: "research", label: "Research" },
  { value: "realtime", label: "Realtime" },
  { value: "files", label: "Files" },
  { value: "batches", label: "Batches" },
  { value: "gpu", label: "GPU Cloud" },
  { value: "agents", label: "Agents" },
  { value: "account", label: "Usage and chats" },
  { value: "webhooks", label: "Webhook secret", isForAdmins: true },
];

function scopeLabel(scope: string): string {
  return SCOPES.find((one) => one.value === scope)?.label ?? scope;
}

export function rightsOf(key: ApiKey): Rights {
  return { models: key.models ?? null, scopes: key.scopes ?? null };
}

/** Returns the models of a key in a few words. */
export function describeModels(models: string[] | null): string {
  if (!models) return "All models";
  return models.length === 1 ? (models[0] ?? "") : plural(models.length, "model");
}

/** Returns the scopes of a key as a list of words. */
export function describeScopes(scopes: string[] | null): string {
  if (!scopes) return "All endpoints";
  return scopes.map((scope, index) => (index === 0 ? scopeLabel(scope) : scopeLabel(scope).toLowerCase())).join(", ");
}

/** Returns what is wrong with the rights; null for valid ones. */
export function faultOf(rights: Rights): { models?: string; scopes?: string } | null {
  const faults = {
    ...(rights.models?.length === 0 ? { models: "Add a model, or choose all models." } : {}),
    ...(rights.scopes?.length === 0 ? { scopes: "Choose an endpoint, or all endpoints." } : {}),
  };
  return Object.keys(faults).length > 0 ? faults : null;
}

/** Returns the members of a request that change rights. */
export function changesOf(old: Rights, next: Rights): Partial<Rights> {
  const isSame = (a: string[] | null, b: string[] | null) => JSON.stringify(a) === JSON.stringify(b);
  return {
    ...(isSame(old.models, next.models) ? {} : { models: next.models }),
    ...(isSame(old.scopes, next.scopes) ? {} : { scopes: next.scopes }),
  };
}

const MODEL_CHOICES = [
  { value: "all", label: "All models" },
  { value: "some", label: "Only these" },
] as const;

const SCOPE_CHOICES = [
  { value: "all", label: "All endpoints" },
  { value: "some", label: "Only these" },
] as const;

/** Chooses the models and endpoints that a key may use. */
export function RightsFields(props: {
  value: Rights;
  faults: { models?: string; scopes?: string } | null;
  onChange: (rights: Rights) => void;
}) {
  const { value, onChange } = props;
  const label = useId();
  return (
    <>
      <div class="stack">
        <Options
          label="Models"
          value={value.models ? "some" : "all"}
          options={MODEL_CHOICES}
          onChange={(choice) => onChange({ ...value, models: choice === "all" ? null : [] })}
        />
        {value.models && (
          <ModelList models={value.models} fault={props.faults?.models ?? null} onChange={(models) => onChange({ ...value, models })} />
        )}
      </div>
      <div class="stack">
        <Options
          label="Endpoints"
          value={value.scopes ? "some" : "all"}
          options={SCOPE_CHOICES}
          onChange={(choice) => onChange({ ...value, scopes: choice === "all" ? null : [] })}
        />
        {value.scopes && (
          <fieldset aria-labelledby={label}>
            <legend class="sr" id={label}>
              Allowed endpoints
            </legend>
            <div class="scopes">
              {SCOPES.filter((scope) => isOffered(scope, value.scopes ?? [])).map((scope) => (
                <label key={scope.value}>
                  <input
                    type="checkbox"
                    checked={value.scopes?.includes(scope.value) ?? false}
                    onChange={(event) => onChange({ ...value, scopes: toggled(value.scopes ?? [], scope.value, event.currentTarget.checked) })}
                  />
                  <span>{scope.label}</span>
                </label>
              ))}
            </div>
            {props.faults?.scopes && (
              <p class="hint bad" role="alert">
                <Icon name="warning" small />
                <span>{props.faults.scopes}</span>
              </p>
            )}
          </fieldset>
        )}
      </div>
    </>
  );
}

/** Whether the person may give a scope, or the key has it. */
function isOffered(scope: (typeof SCOPES)[number], given: string[]): boolean {
  return !scope.isForAdmins || role.value === "owner" || role.value === "admin" || given.includes(scope.value);
}

/** Returns the scopes in the order of the list. */
function toggled(scopes: string[], scope: string, isChecked: boolean): string[] {
  const next = isChecked ? [...scopes, scope] : scopes.filter((one) => one !== scope);
  const order = (value: string) => SCOPES.findIndex((one) => one.value === value);
  return next.sort((a, b) => order(a) - order(b));
}

function ModelList(props: { models: string[]; fault: string | null; onChange: (models: string[]) => void }) {
  const { models, onChange } = props;
  const [text, setText] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const id = useId();
  const catalog = useResource(account.value?.id ?? null, (signal) =>
    request<{ data: { id: string }[] }>("GET", `${PUBLIC_API}/models`, { account: true, signal }),
  );
  const ids = (catalog.data?.data ?? []).map((model) => model.id);
  const prefixes = [...new Set(ids.filter((one) => one.includes("/")).map((one) => `${one.split("/")[0]}/*`))];
  const add = () => {
    const entry = text.trim();
    if (!entry) return;
    if (!/^[^\s/*]+\/(\*|[^\s*]+)$/.test(entry) && !ids.includes(entry)) {
      return setFault("Enter a model id such as acme/large, or a pattern such as acme/*.");
    }
    if (models.length >= MAX_MODELS) return setFault(`A key can name at most ${MAX_MODELS} models.`);
    if (!models.includes(entry)) onChange([...models, entry]);
    setText("");
  };
  return (
    <>
      {models.length > 0 && (
        <ul class="picked" aria-label="Allowed models">
          {models.map((model) => (
            <li key={model}>
              <span class="filter">
                <code class="trunc">{model}</code>
                <button type="button" class="clear" aria-label={`Remove ${model}`} onClick={() => onChange(models.filter((one) => one !== model))}>
                  <Icon name="close" small />
                </button>
              </span>
            </li>
          ))}
        </ul>
      )}
      <div
        class="row addmodel"
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !text.trim() || !(event.target instanceof HTMLInputElement)) return;
          event.preventDefault();
          add();
        }}
      >
        <Field
          label="Model or pattern"
          name="model"
          value={text}
          list={id}
          error={fault ?? (text ? null : props.fault)}
          hint="An id of the catalog, or acme/* for all models of acme."
          onInput={(value) => {
            setText(value);
            setFault(null);
          }}
        />
        <Button onClick={add}>Add</Button>
      </div>
      <datalist id={id}>
        {[...prefixes, ...ids].filter((one) => !models.includes(one)).map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </>
  );
}

/** The rights of a key in its details. */
export function RightsFacts(props: { rights: Rights }) {
  const { models, scopes } = props.rights;
  return (
    <>
      <dt>Models</dt>
      <dd class="row wrap g4">{models ? models.map((model) => <Chip key={model}>{model}</Chip>) : "All models"}</dd>
      <dt>Endpoints</dt>
      <dd class="row wrap g4">{scopes ? scopes.map((scope) => <Chip key={scope}>{scopeLabel(scope)}</Chip>) : "All endpoints"}</dd>
    </>
  );
}
