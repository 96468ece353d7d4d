import { Card, Chip, Stat, Stats, Status, Table, Time, type Column, type Tone } from "../../parts/data.tsx";
import { Banner, EmptyState, ErrorState, Skeleton, TableSkeleton } from "../../parts/states.tsx";
import { request } from "../../shell/api.ts";
import { AuditTable } from "../../shell/audit.tsx";
import { count, plural } from "../../shell/format.ts";
import { Page } from "../../shell/page.tsx";
import { useResource } from "../../shell/resource.ts";
import { href } from "../../shell/router.ts";
import { service } from "../../shell/session.ts";
import type { AuditEntry, List, OperatorAccount, Provider, Target } from "../../shell/types.ts";
import { RealtimeSessions } from "./sessions.tsx";

const MAX_ACCOUNTS = 100;
const RECENT_CHANGES = 8;

const BREAKERS: Record<Target["breaker"], [Tone, string]> = {
  closed: ["ok", "Closed"],
  half_open: ["warn", "Half open"],
  cooling_down: ["warn", "Cooling down"],
  open: ["bad", "Open"],
};

interface Row {
  provider: Provider;
  target: Target | null;
  isFirst: boolean;
}

/** Health of the providers, number of accounts, open realtime sessions, and the latest changes. */
export function Screen() {
  const providers = useResource("providers", (signal) => request<List<Provider>>("GET", "/providers", { signal }));
  const accounts = useResource("accounts", (signal) =>
    request<List<OperatorAccount>>("GET", `/accounts?limit=${MAX_ACCOUNTS}`, { signal }),
  );
  const changes = useResource("changes", (signal) =>
    request<List<AuditEntry>>("GET", `/audit-log?limit=${RECENT_CHANGES}`, { signal }),
  );
  const list = providers.data?.data;
  const targets = list?.flatMap((provider) => provider.targets.map((target) => ({ provider, target })));
  const unhealthy = targets?.filter(({ target }) => target.breaker !== "closed") ?? [];
  const worst = unhealthy.find(({ target }) => target.breaker === "open") ?? unhealthy[0];
  const suspended = accounts.data?.data.filter((account) => account.state === "suspended").length ?? 0;
  return (
    <Page
      title="Overview"
      note={
        unhealthy.length > 0 && (
          <Chip tone="warn" dot>
            {plural(unhealthy.length, "target")} to check
          </Chip>
        )
      }
    >
      {worst && (
        <Banner kind="warning">
          <b>{worst.provider.name}</b> fails for <code>{worst.target.upstream_model}</code>
          {worst.target.failures_in_a_row > 0 && `: ${plural(worst.target.failures_in_a_row, "failure")} in a row`}
          {worst.target.last_error && (
            <>
              , last <code class="breakable">{worst.target.last_error}</code>
            </>
          )}
          . Calls use other targets first.
        </Banner>
      )}
      <Stats>
        <Stat
          label="Providers"
          note={list ? plural(list.filter((provider) => provider.simulated).length, "simulator") : <Skeleton width="80px" />}
        >
          {list ? <b>{count(list.length)}</b> : <Skeleton width="64px" height={24} />}
        </Stat>
        <Stat label="Healthy targets" note="This node, by circuit breaker">
          {targets ? (
            <b>
              {count(targets.length - unhealthy.length)} <small>of {count(targets.length)}</small>
            </b>
          ) : (
            <Skeleton width="96px" height={24} />
          )}
        </Stat>
        <Stat
          label="Accounts"
          note={accounts.data ? `${count(suspended)} suspended` : accounts.error ? "Could not be loaded" : <Skeleton width="80px" />}
        >
          {accounts.data ? (
            <b>
              {count(accounts.data.data.length)}
              {accounts.data.has_more && <small> or more</small>}
            </b>
          ) : accounts.error ? (
            <b class="muted">–</b>
          ) : (
            <Skeleton width="64px" height={24} />
          )}
        </Stat>
        <Stat label="Version" note="This node">
          <b>{service.value.version || "–"}</b>
        </Stat>
      </Stats>
      <Card title="Providers" note={targets && `${targets.length - unhealthy.length} of ${targets.length} targets closed`}>
        {providers.error && !list ? (
          <ErrorState what="The list of providers" error={providers.error} onRetry={providers.reload} />
        ) : !list ? (
          <TableSkeleton columns={["120px", "160px", "80px", "200px"]} />
        ) : list.length === 0 ? (
          <EmptyState title="No providers">Add a provider to the settings file and reload it.</EmptyState>
        ) : (
          <Table caption="Providers" columns={COLUMNS} rows={rowsOf(list)} id={rowId} size="dense" />
        )}
      </Card>
      <RealtimeSessions />
      <Card
        title="Latest changes"
        action={
          <a class="btn sm bare" href={href("/audit-log")}>
            Audit log
          </a>
        }
      >
        {changes.error && !changes.data ? (
          <ErrorState what="The audit log" error={changes.error} onRetry={changes.reload} />
        ) : !changes.data ? (
          <TableSkeleton columns={["120px", "80px", "120px", "64px"]} />
        ) : changes.data.data.length === 0 ? (
          <EmptyState title="No changes yet">Changes by administrators, the command line and the settings appear here.</EmptyState>
        ) : (
          <AuditTable entries={changes.data.data} isShort />
        )}
      </Card>
    </Page>
  );
}

function rowsOf(list: Provider[]): Row[] {
  return list.flatMap((provider): Row[] =>
    provider.targets.length === 0
      ? [{ provider, target: null, isFirst: true }]
      : provider.targets.map((target, index) => ({ provider, target, isFirst: index === 0 })),
  );
}

function rowId(row: Row): string {
  return `${row.provider.name} ${row.target?.upstream_model ?? ""}`;
}

const COLUMNS: Column<Row>[] = [
  {
    label: "Provider",
    cell: ({ provider, isFirst }) =>
      isFirst ? (
        <span class="row">
          <span class="strong5">{provider.name}</span>
          {provider.simulated && <Chip>Simulator</Chip>}
        </span>
      ) : (
        <span class="sr">{provider.name}</span>
      ),
  },
  {
    label: "Model at the provider",
    isOptional: true,
    cell: ({ provider, target }) =>
      target ? (
        <code>{target.upstream_model}</code>
      ) : (
        <span class="muted">{provider.listing_error ?? "Serves no model of the catalog"}</span>
      ),
  },
  {
    label: "Serves",
    isOptional: true,
    cell: ({ target }) =>
      target && (
        <span class="muted" title={target.models.join(", ")}>
          {target.models.length > 1 ? plural(target.models.length, "model") : target.models[0]}
        </span>
      ),
  },
  {
    label: "Breaker",
    cell: ({ target }) => {
      if (!target) return null;
      const [tone, label] = BREAKERS[target.breaker];
      return (
        <Status tone={tone} isQuiet={tone === "ok"}>
          {label}
        </Status>
      );
    },
  },
  { label: "Failures", isNumber: true, isOptional: true, cell: ({ target }) => target && count(target.failures_in_a_row) },
  {
    label: "Last error",
    isOptional: true,
    cell: ({ target }) =>
      target?.last_error ? (
        <span class="clip trunc" title={target.last_error}>
          {target.last_error}
        </span>
      ) : (
        <span class="muted">None</span>
      ),
  },
  { label: "Error at", isNumber: true, cell: ({ target }) => <Time at={target?.last_error_at ?? null} none="–" /> },
];
