import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Chip, Meter, Segments, Status, Table, Time, type Column } from "../../parts/data.tsx";
import { SearchField } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Menu, type MenuItem } from "../../parts/menu.tsx";
import { EmptyState, ErrorState, Skeleton, TableSkeleton } from "../../parts/states.tsx";
import { request } from "../../shell/api.ts";
import { details, loadDetails } from "../../shell/details.ts";
import { count, date, dateTime, relative } from "../../shell/format.ts";
import { useLive } from "../../shell/live.ts";
import { Page } from "../../shell/page.tsx";
import { useResource } from "../../shell/resource.ts";
import { mayChangeKey, mayCreateKeys } from "../../shell/roles.ts";
import { place, setParams } from "../../shell/router.ts";
import { account } from "../../shell/session.ts";
import type { ApiKey, List, Member } from "../../shell/types.ts";
import { CreateDialog, RevokeDialog, RotateDialog } from "./dialogs.tsx";
import { isCounted, masked, mayRotate, statusOf } from "./keys.ts";
import { NewKeyDialog, type NewKey } from "./new-key.tsx";
import { DetailsDialog } from "./details.tsx";
import { describeModels, describeScopes } from "./rights.tsx";

type Opened =
  | { kind: "create" }
  | { kind: "details" | "rotate" | "revoke"; key: ApiKey }
  | { kind: "new"; created: NewKey }
  | null;

type Shown = "active" | "all";

const VIEWS = [
  { value: "active", label: "Active" },
  { value: "all", label: "All" },
] as const;

/** Days before the expiry of a key in which the list marks it. */
const SOON_DAYS = 7;

const DAY_MS = 24 * 60 * 60 * 1000;

/** Keys of the account that is shown. */
export function Screen() {
  const id = account.value?.id ?? null;
  const keys = useResource(id, (signal) => request<List<ApiKey>>("GET", "/keys", { account: true, signal }));
  const members = useResource(id, (signal) => request<List<Member>>("GET", "/members", { account: true, signal }));
  useLive("keys", keys.reload);
  const [query, setQuery] = useState("");
  const [view, setView] = useState<Shown>("active");
  const mayCreate = mayCreateKeys();
  const isCreateRequested = place.value.params.has("create") && mayCreate;
  const [opened, setOpened] = useState<Opened>(null);
  const shown: Opened = opened ?? (isCreateRequested ? { kind: "create" } : null);

  const open = (next: Opened) => {
    setOpened(next);
    if (isCreateRequested) setParams({ create: null });
  };
  const close = () => open(null);
  const create = () => {
    // Another person may have created or revoked keys, or an operator may have changed the limit.
    keys.reload();
    void loadDetails();
    open({ kind: "create" });
  };
  const showNewKey = (created: NewKey) => {
    open({ kind: "new", created });
    keys.reload();
  };

  const all = keys.data?.data ?? [];
  const used = all.filter(isCounted).length;
  const limit = details.value?.limits_in_force?.keys ?? null;
  const names = new Map((members.data?.data ?? []).map((member) => [member.id, member.name || member.email]));
  const creatorOf = (key: ApiKey) => (key.created_by ? names.get(key.created_by) : "operator");
  const text = query.trim().toLowerCase();
  const rows = all
    .filter((key) => view === "all" || key.state === "active")
    .filter((key) => `${key.name} ${key.last4} ${creatorOf(key) ?? ""} ${key.id}`.toLowerCase().includes(text))
    .sort((a, b) => b.created_at.localeCompare(a.created_at));

  const columns: Column<ApiKey>[] = [
    { label: "Name", cell: (key) => <NameCell row={key} onOpen={() => open({ kind: "details", key })} /> },
    { label: "Key", isOptional: true, cell: (key) => <code class="muted">{masked(key)}</code> },
    {
      label: "Created by",
      isOptional: true,
      cell: (key) => <Creator row={key} name={creatorOf(key)} isLoading={!members.data && !members.error} />,
    },
    {
      label: "Models",
      isOptional: true,
      cell: (key) => (
        <span class={key.models ? "trunc clipcell" : "muted"} title={key.models?.join(", ")}>
          {describeModels(key.models ?? null)}
        </span>
      ),
    },
    {
      label: "Endpoints",
      isOptional: true,
      cell: (key) => (
        <span class={key.scopes ? "trunc clipcell" : "muted"} title={key.scopes ? describeScopes(key.scopes) : undefined}>
          {describeScopes(key.scopes ?? null)}
        </span>
      ),
    },
    { label: "Expires", isOptional: true, cell: (key) => <Expiry row={key} /> },
    { label: "Last used", cell: (key) => <Time at={key.last_used_at} /> },
    { label: "State", isOptional: true, cell: (key) => <State row={key} /> },
    {
      label: "Actions",
      isHidden: true,
      isNumber: true,
      cell: (key) => {
        const items = actionsOf(key, open);
        return (
          items.length > 0 && (
            <Menu class="btn sm sq bare" isIcon label={`Actions for ${key.name}`} items={items}>
              <Icon name="more" />
            </Menu>
          )
        );
      },
    },
  ];

  return (
    <Page
      title="Keys"
      action={
        mayCreate && (
          <Button kind="primary" icon="plus" onClick={create}>
            Create key
          </Button>
        )
      }
    >
      <div class="filters wrap">
        <SearchField label="Name, creator or last four" value={query} onInput={setQuery} />
        <Segments label="Shown keys" value={view} options={VIEWS} onChange={setView} />
        <span class="end row g12 counted">{keys.data && limit !== null && <Used used={used} limit={limit} />}</span>
      </div>
      <section class="card after-filters">
        {keys.error && !keys.data ? (
          <ErrorState what="The list of keys" error={keys.error} onRetry={keys.reload} />
        ) : !keys.data ? (
          <TableSkeleton columns={["140px", "72px", "96px", "80px", "96px", "72px", "72px"]} />
        ) : rows.length === 0 ? (
          <NoKeys
            hasKeys={all.length > 0}
            query={query.trim()}
            onShowAll={() => {
              setQuery("");
              setView("all");
            }}
            onCreate={mayCreate ? create : null}
          />
        ) : (
          <Table caption="Keys" columns={columns} rows={rows} id={(key) => key.id} />
        )}
      </section>
      {shown?.kind === "create" && (
        <CreateDialog used={used} limit={limit} keys={all} onClose={close} onCreated={showNewKey} onShowAll={() => setView("all")} />
      )}
      {shown?.kind === "new" && <NewKeyDialog created={shown.created} onClose={close} />}
      {shown?.kind === "details" && (
        <DetailsDialog
          apiKey={shown.key}
          creator={creatorOf(shown.key)}
          keys={all}
          onClose={close}
          onChanged={keys.reload}
          onRotate={() => open({ kind: "rotate", key: shown.key })}
          onRevoke={() => open({ kind: "revoke", key: shown.key })}
        />
      )}
      {shown?.kind === "rotate" && (
        <RotateDialog apiKey={shown.key} keys={all} onClose={close} onRotated={showNewKey} />
      )}
      {shown?.kind === "revoke" && <RevokeDialog apiKey={shown.key} onClose={close} onRevoked={keys.reload} />}
    </Page>
  );
}

function actionsOf(key: ApiKey, open: (opened: Opened) => void): MenuItem[] {
  if (!mayChangeKey(key) || key.state === "revoked") return [];
  return [
    { label: "Settings", icon: "edit", onSelect: () => open({ kind: "details", key }) },
    ...(mayRotate(key)
      ? [{ label: "Rotate", icon: "retry" as const, onSelect: () => open({ kind: "rotate", key }) }]
      : []),
    {
      label: "Revoke",
      icon: "remove",
      isDanger: true,
      isFirstOfGroup: true,
      onSelect: () => open({ kind: "revoke", key }),
    },
  ];
}

function Used(props: { used: number; limit: number }) {
  const text = `${count(props.used)} of ${count(props.limit)} keys`;
  return (
    <>
      <span class="short">
        <Meter used={props.limit > 0 ? props.used / props.limit : 1} label={`${text} used`} />
      </span>
      <span class="muted t12 num" role="status">
        {text}
      </span>
    </>
  );
}

function NameCell(props: { row: ApiKey; onOpen: () => void }) {
  const { row } = props;
  const status = statusOf(row);
  return (
    <>
      <span class="row keyname">
        <button type="button" class="rowlink trunc" onClick={props.onOpen}>
          {row.name}
        </button>
        {row.mode === "test" && <Chip>Test</Chip>}
      </span>
      <span class="narrow muted t12">
        <code>{masked(row)}</code>
      </span>
      {status.label !== "Active" && <span class={`narrow t12 ${status.tone ?? "muted"}`}>{status.short ?? status.label}</span>}
    </>
  );
}

function Creator(props: { row: ApiKey; name: string | undefined; isLoading: boolean }) {
  if (!props.row.created_by) return <Chip>Operator</Chip>;
  if (props.name) return <span class="trunc">{props.name}</span>;
  return props.isLoading ? <Skeleton width="88px" /> : <span class="muted">Removed member</span>;
}

function Expiry(props: { row: ApiKey }) {
  const { expires_at: end, state, replaced_by: replacement } = props.row;
  if (!end) return <span class="muted">Never</span>;
  const isSoon = state === "active" && !replacement && Date.parse(end) - Date.now() < SOON_DAYS * DAY_MS;
  return (
    <time class={isSoon ? "warn" : "muted"} dateTime={end} title={dateTime(end)}>
      {isSoon ? relative(end) : date(end)}
    </time>
  );
}

function State(props: { row: ApiKey }) {
  const { tone, label } = statusOf(props.row);
  return (
    <Status {...(tone ? { tone } : {})} isQuiet={tone !== "warn"}>
      {label}
    </Status>
  );
}

function NoKeys(props: { hasKeys: boolean; query: string; onShowAll: () => void; onCreate: (() => void) | null }) {
  if (props.query) {
    return (
      <EmptyState
        title={`No key matches “${props.query}”`}
        action={<Button onClick={props.onShowAll}>Show all keys</Button>}
      />
    );
  }
  const create = props.onCreate && (
    <Button icon="plus" onClick={props.onCreate}>
      Create key
    </Button>
  );
  if (props.hasKeys) {
    return (
      <EmptyState
        title="No active keys"
        action={
          <span class="row">
            <Button onClick={props.onShowAll}>Show all keys</Button>
            {create}
          </span>
        }
      >
        All keys of the account are expired or revoked.
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No keys yet" action={create}>
      Applications call the models with a key. Create one for each application and environment: then you can revoke one
      without stopping the others.
    </EmptyState>
  );
}
