import { useState } from "preact/hooks";

import { CopyButton } from "../../parts/code.tsx";
import { Avatar, Chip, Stat, Stats, Status, Table, Tabs, Time, type Column } from "../../parts/data.tsx";
import { EmptyState, ErrorState, Skeleton, TableSkeleton } from "../../parts/states.tsx";
import { request } from "../../shell/api.ts";
import { amount, count, dateTime } from "../../shell/format.ts";
import { Page } from "../../shell/page.tsx";
import { useResource, type Resource } from "../../shell/resource.ts";
import { roleLabel } from "../../shell/roles.ts";
import { href } from "../../shell/router.ts";
import type { LimitName, List, OperatorAccount, OperatorKey, OperatorMember } from "../../shell/types.ts";
import { StateChip } from "./screen.tsx";

const TABS = [
  { value: "limits", label: "Limits" },
  { value: "keys", label: "Keys" },
  { value: "members", label: "Members" },
] as const;

const LIMITS: readonly { name: LimitName; label: string; unit: string }[] = [
  { name: "rpm", label: "Requests", unit: "per minute" },
  { name: "tpm", label: "Tokens", unit: "per minute" },
  { name: "keys", label: "Keys", unit: "not revoked" },
  { name: "files", label: "Files", unit: "stored" },
  { name: "files_gib", label: "Size of files", unit: "GiB" },
  { name: "batch_tokens", label: "Tokens in batches", unit: "unfinished" },
];

/** One account: balance, limits, keys and members. */
export function AccountPage(props: { id: string }) {
  const path = `/accounts/${encodeURIComponent(props.id)}`;
  const account = useResource(path, (signal) => request<OperatorAccount>("GET", path, { signal }));
  const [tab, setTab] = useState<"limits" | "keys" | "members">("limits");
  const { data } = account;
  const balance = data?.balance;
  return (
    <Page
      title={data?.name ?? "Account"}
      parent={{ title: "Accounts", href: href("/accounts") }}
      note={data && <StateChip state={data.state} />}
    >
      {account.error && !data ? (
        <section class="card">
          <ErrorState what="The account" error={account.error} onRetry={account.reload} />
        </section>
      ) : (
        <>
          <div class="hrow muted">
            <span class="row g4">
              <code class="breakable">{props.id}</code>
              <CopyButton text={props.id} label="Copy the account id" />
            </span>
            {data && (
              <span class="t12" title={dateTime(data.created_at)}>
                Created <Time at={data.created_at} />
              </span>
            )}
            <a class="end" href={href(`/audit-log?account=${encodeURIComponent(props.id)}`)}>
              Changes of this account
            </a>
          </div>
          <Stats>
            <Stat label="Balance" note="Credits">
              {balance ? <b title={balance.credits}>{amount(balance.credits, 2)}</b> : <Skeleton width="96px" height={24} />}
            </Stat>
            <Stat label="On hold" note="Running calls">
              {balance ? <b title={balance.held}>{amount(balance.held, 2)}</b> : <Skeleton width="96px" height={24} />}
            </Stat>
            <Stat label="Weekly allowance" note={balance?.allowance ? "Left this week" : "No active plan"}>
              {balance ? (
                <b class={balance.allowance ? undefined : "muted"} title={balance.allowance}>
                  {balance.allowance ? amount(balance.allowance, 2) : "–"}
                </b>
              ) : (
                <Skeleton width="96px" height={24} />
              )}
            </Stat>
          </Stats>
          <section class="card">
            <div class="tabs-pad">
              <Tabs label="Parts of the account" value={tab} tabs={TABS} onChange={setTab} />
            </div>
            <div role="tabpanel" aria-label={TABS.find((one) => one.value === tab)?.label}>
              {tab === "limits" && <Limits account={account} />}
              {tab === "keys" && <Keys path={path} />}
              {tab === "members" && <Members path={path} />}
            </div>
          </section>
        </>
      )}
    </Page>
  );
}

function Limits(props: { account: Resource<OperatorAccount> }) {
  const { data } = props.account;
  if (!data) return <TableSkeleton columns={["120px", "64px", "80px"]} rows={LIMITS.length} />;
  const columns: Column<(typeof LIMITS)[number]>[] = [
    {
      label: "Limit",
      cell: (limit) => (
        <>
          {limit.label} <span class="muted t12">{limit.unit}</span>
        </>
      ),
    },
    {
      label: "In force",
      isNumber: true,
      cell: (limit) => {
        const value = data.limits_in_force?.[limit.name];
        return value === undefined ? "–" : <span class="strong5">{count(value)}</span>;
      },
    },
    {
      label: "Source",
      cell: (limit) => (data[limit.name] == null ? <span class="muted">Default</span> : <Chip tone="acc">Account</Chip>),
    },
  ];
  return <Table caption="Limits" columns={columns} rows={[...LIMITS]} id={(limit) => limit.name} size="dense" />;
}

const KEY_COLUMNS: Column<OperatorKey>[] = [
  {
    label: "Name",
    cell: (key) => (
      <span class="row">
        <span class="strong5">{key.name}</span>
        {key.mode === "test" && <Chip>Test</Chip>}
      </span>
    ),
  },
  { label: "Key", isOptional: true, cell: (key) => <code class="muted">…{key.last4}</code> },
  {
    label: "State",
    cell: (key) => (
      <Status tone={key.state === "active" ? "ok" : key.state === "expired" ? "warn" : "bad"} isQuiet={key.state === "active"}>
        {key.state.charAt(0).toUpperCase() + key.state.slice(1)}
      </Status>
    ),
  },
  { label: "Created", isOptional: true, cell: (key) => <Time at={key.created_at} /> },
  { label: "Expires", isOptional: true, cell: (key) => <Time at={key.expires_at} /> },
  { label: "Last used", isNumber: true, cell: (key) => <Time at={key.last_used_at} /> },
];

function Keys(props: { path: string }) {
  const path = `${props.path}/keys`;
  const keys = useResource(path, (signal) => request<List<OperatorKey>>("GET", path, { signal }));
  if (keys.error && !keys.data) return <ErrorState what="The keys" error={keys.error} onRetry={keys.reload} />;
  if (!keys.data) return <TableSkeleton columns={["120px", "64px", "80px", "80px"]} />;
  if (keys.data.data.length === 0) {
    return <EmptyState title="No keys">The account has no API key yet.</EmptyState>;
  }
  return <Table caption="Keys" columns={KEY_COLUMNS} rows={keys.data.data} id={(key) => key.id} size="dense" />;
}

const MEMBER_COLUMNS: Column<OperatorMember>[] = [
  {
    label: "E-mail",
    cell: (member) => (
      <span class="row">
        <Avatar name={member.email} />
        <span class="strong5 trunc">{member.email}</span>
      </span>
    ),
  },
  { label: "Role", cell: (member) => <Chip>{roleLabel(member.role)}</Chip> },
  { label: "Added", isNumber: true, isOptional: true, cell: (member) => <Time at={member.created_at} /> },
];

function Members(props: { path: string }) {
  const path = `${props.path}/members`;
  const members = useResource(path, (signal) => request<List<OperatorMember>>("GET", path, { signal }));
  if (members.error && !members.data) {
    return <ErrorState what="The members" error={members.error} onRetry={members.reload} />;
  }
  if (!members.data) return <TableSkeleton columns={["180px", "72px", "80px"]} />;
  if (members.data.data.length === 0) {
    return (
      <EmptyState title="No members">
        Add one on the server with <code>tollgate members add</code>.
      </EmptyState>
    );
  }
  return <Table caption="Members" columns={MEMBER_COLUMNS} rows={members.data.data} id={(member) => member.id} />;
}
