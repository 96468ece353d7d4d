import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Table, type Column } from "../../parts/data.tsx";
import { SearchField } from "../../parts/field.tsx";
import { FilterChip } from "../../parts/filter.tsx";
import { SearchFilter, type FilterOption } from "../../parts/search-filter.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Menu } from "../../parts/menu.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { notifyFailure } from "../../parts/toast.tsx";
import { request, requestFile } from "../../shell/api.ts";
import { inputOf, ModelName, Outcome, OUTCOME_OPTIONS, outputOf, shortEndpoint } from "../../shell/calls.tsx";
import { amount, clock, date, dateTime, dayTime } from "../../shell/format.ts";
import { useNames, type Names } from "../../shell/names.ts";
import { Page } from "../../shell/page.tsx";
import { iso, periodOf, RANGES, spanLabel, spanOf, toRange, type Span } from "../../shell/period.ts";
import { useResource } from "../../shell/resource.ts";
import { mayCreateKeys } from "../../shell/roles.ts";
import { href, navigate, place, setParams } from "../../shell/router.ts";
import { saveFile } from "../../shell/save.ts";
import { account } from "../../shell/session.ts";
import type { UsageRow, UsageSeries } from "../../shell/types.ts";
import { CallPane } from "./call.tsx";
import { useCalls } from "./list.ts";

/** Parameters of the address, and of the request. */
const FILTERS = { model: "model", key: "key_id", member: "member_id", endpoint: "endpoint", outcome: "outcome", request: "request_id" } as const;

type FilterName = keyof typeof FILTERS;

const RANGE_LABELS: Record<string, string> = { "24h": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days" };

const ALL_TIME = "all";

const TYPING_MS = 300;

/** Calls of the account that is shown, and one of them in detail. */
export function Screen() {
  const { path, params } = place.value;
  const opened = path.split("/")[2] ?? null;
  const range = params.get("range") === ALL_TIME ? ALL_TIME : toRange(params.get("range"));
  const [isLive, setLive] = useState(true);
  const span = spanOf(params);
  const period = useMemo(() => span ?? (range === ALL_TIME ? null : periodOf(range)), [range, span?.from, span?.to]);
  const query = queryOf(params, period, span !== null);
  // No call is added to a range that has ended.
  const mayGrow = !span || span.to > Date.now();
  const calls = useCalls(query, isLive && mayGrow);
  const names = useNames(calls.rows.map((row) => row.key_id));
  const isFiltered = span !== null || Object.keys(FILTERS).some((name) => params.has(name));
  const suffix = location.search;
  const index = calls.rows.findIndex((row) => row.id === opened);
  const addressOf = (id: string) => `/calls/${id}${suffix}`;
  const list = useRef<HTMLDivElement>(null);
  const close = () => {
    navigate(`/calls${suffix}`, { replace: true });
    // The row is visible again on phones only after the list was drawn.
    requestAnimationFrame(() => list.current?.querySelector<HTMLElement>(`a[href^="${href(`/calls/${opened}`)}"]`)?.focus());
  };
  const step = (by: number) => {
    const next = calls.rows[index + by];
    return index >= 0 && next ? () => navigate(addressOf(next.id), { replace: true }) : null;
  };
  return (
    <Page
      title="Calls"
      isFlush
      note={
        mayGrow && (
          <button
            type="button"
            class={isLive ? "chip ok live" : "chip live"}
            aria-pressed={isLive}
            title={isLive ? "New calls appear immediately. Select to pause." : "Select to show new calls as they end."}
            onClick={() => {
              if (!isLive) calls.reload();
              setLive(!isLive);
            }}
          >
            <span class={isLive ? "dot pulse" : "dot"} aria-hidden="true" />
            Live
          </button>
        )
      }
      action={<CsvButton query={query} isEmpty={calls.rows.length === 0} />}
      filters={<Filters range={range} span={span} period={period} names={names} />}
    >
      <div class={opened ? "calls open" : "calls"}>
        <div ref={list} class="callrows" onKeyDown={(event) => moveRow(event, list.current)}>
          {calls.error && calls.rows.length === 0 ? (
            <ErrorState what="The list of calls" error={calls.error} onRetry={calls.reload} />
          ) : calls.rows.length === 0 && calls.isLoading ? (
            <TableSkeleton columns={["64px", "150px", "96px", "56px", "72px"]} rows={12} />
          ) : calls.rows.length === 0 && !calls.hasMore ? (
            <NoCalls isFiltered={isFiltered} range={range} />
          ) : (
            <>
              {calls.rows.length > 0 && (
                <Table
                  caption="Calls"
                  columns={columnsOf(names, addressOf)}
                  rows={calls.rows}
                  id={(row) => row.id}
                  isSelected={(row) => row.id === opened}
                  size="dense"
                />
              )}
              <End calls={calls} />
            </>
          )}
        </div>
        {opened && (
          <CallPane id={opened} names={names} previous={step(-1)} next={step(1)} onClose={close} />
        )}
      </div>
    </Page>
  );
}

function queryOf(params: URLSearchParams, period: Span | null, hasEnd: boolean): string {
  const query = new URLSearchParams();
  if (period) query.set("from", iso(period.from));
  if (period && hasEnd) query.set("to", iso(period.to));
  for (const [name, field] of Object.entries(FILTERS)) {
    const value = params.get(name);
    if (value) query.set(field, value);
  }
  return query.toString();
}

/** Moves between the rows by the arrow keys. */
function moveRow(event: KeyboardEvent, list: HTMLElement | null): void {
  const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const links = [...(list?.querySelectorAll<HTMLElement>(".rowlink") ?? [])];
  const current = links.indexOf(document.activeElement as HTMLElement);
  const next = current < 0 ? undefined : links[current + by];
  if (by === 0 || !next) return;
  event.preventDefault();
  next.focus();
}

function columnsOf(names: Names, addressOf: (id: string) => string): Column<UsageRow>[] {
  return [
    {
      label: "Time",
      cell: (row) => (
        <time class="muted" dateTime={row.created_at} title={dateTime(row.created_at)}>
          {isToday(row.created_at) ? clock(row.created_at) : dayTime(row.created_at)}
        </time>
      ),
    },
    {
      label: "Model",
      cell: (row) => (
        <>
          <a class="rowlink callmodel" href={href(addressOf(row.id))}>
            <ModelName id={row.model ?? row.requested_model ?? "No model"} />
          </a>
          {row.outcome !== "ok" && (
            <span class="narrow t12">
              <Outcome outcome={row.outcome} />
            </span>
          )}
        </>
      ),
    },
    { label: "Key", isOptional: true, class: "w3", cell: (row) => <Payer row={row} names={names} /> },
    {
      label: "Endpoint",
      isOptional: true,
      class: "w4",
      cell: (row) => <span class="muted">{shortEndpoint(row.endpoint)}</span>,
    },
    { label: "In", isNumber: true, isOptional: true, class: "w2", cell: inputOf },
    { label: "Out", isNumber: true, isOptional: true, class: "w2", cell: outputOf },
    { label: "Charge", isNumber: true, cell: (row) => <span title={row.cost}>{amount(row.cost, 6)}</span> },
    { label: "Status", isOptional: true, class: "w1", cell: (row) => <Outcome outcome={row.outcome} /> },
  ];
}

function isToday(time: string): boolean {
  return new Date(time).toDateString() === new Date().toDateString();
}

function Payer(props: { row: UsageRow; names: Names }) {
  const { row, names } = props;
  if (row.key_id) return <span class="trunc keycell">{names.key(row.key_id)}</span>;
  return (
    <span class="row g4 muted">
      <Icon name="people" small />
      <span class="trunc keycell">{row.member_id ? names.member(row.member_id) : "No key"}</span>
    </span>
  );
}

function End(props: { calls: ReturnType<typeof useCalls> }) {
  const { calls } = props;
  if (calls.error) {
    return (
      <footer class="lend">
        <span class="bad grow" role="alert">
          {calls.error.message} {calls.error.requestId && <code class="breakable">{calls.error.requestId}</code>}
        </span>
        <Button size="small" icon="retry" onClick={calls.more}>
          Try again
        </Button>
      </footer>
    );
  }
  return (
    <footer class="lend">
      <span class="muted grow" role="status">
        {calls.searchedTo
          ? `Searched back to ${date(calls.searchedTo)}, ${dayTime(calls.searchedTo).split(", ")[1]}.`
          : calls.hasMore
            ? "Newest first. No total is counted."
            : "Newest first. These are all matching calls."}
      </span>
      {calls.hasMore && (
        <Button size="small" isBusy={calls.isLoading} onClick={calls.more}>
          {calls.searchedTo ? "Continue the search" : "Load more"}
        </Button>
      )}
    </footer>
  );
}

function NoCalls(props: { isFiltered: boolean; range: string }) {
  if (props.isFiltered) {
    return (
      <EmptyState
        title="No call matches the filters"
        action={<Button onClick={removeFilters}>Remove the filters</Button>}
      />
    );
  }
  if (props.range !== ALL_TIME) {
    return (
      <EmptyState
        title={`No calls in the last ${RANGE_LABELS[props.range]}`}
        action={<Button onClick={() => setParams({ range: ALL_TIME })}>Show all calls</Button>}
      >
        A call appears here as soon as it ends.
      </EmptyState>
    );
  }
  return (
    <EmptyState
      title="No calls yet"
      action={
        mayCreateKeys() && (
          <a class="btn" href={href("/keys?create=1")}>
            Create a key
          </a>
        )
      }
    >
      Each call appears here with its timing, tokens and exact charge.
    </EmptyState>
  );
}

const NO_SPAN = { from: null, to: null };

function removeFilters(): void {
  setParams({ ...NO_SPAN, ...Object.fromEntries(Object.keys(FILTERS).map((name) => [name, null])) });
}

function Filters(props: { range: string; span: Span | null; period: Span | null; names: Names }) {
  const { range, span, period, names } = props;
  const { params } = place.value;
  const [wanted, setWanted] = useState<ReadonlySet<FilterName>>(new Set());
  const models = useGroups("model", period, wanted.has("model"));
  const endpoints = useGroups("endpoint", period, wanted.has("endpoint"));
  const want = (name: FilterName) => setWanted(new Set([...wanted, name]));
  const chip = (name: FilterName, label: string, options: FilterOption[] | null, shown?: string) => (
    <SearchFilter
      label={label}
      value={params.get(name)}
      {...(shown ? { shown } : {})}
      options={options}
      onOpen={() => want(name)}
      onChange={(value) => setParams({ [name]: value })}
    />
  );
  const key = params.get("key");
  const member = params.get("member");
  return (
    <>
      {span ? (
        <FilterChip label={spanLabel(span)} onRemove={() => setParams(NO_SPAN)} />
      ) : (
        <Menu
          class="search-filter on"
          label="Range"
          items={[
            ...RANGES.map((one) => ({
              label: `Last ${RANGE_LABELS[one.value]}`,
              isChecked: one.value === range,
              onSelect: () => setParams({ range: one.value }),
            })),
            { label: "All time", isChecked: range === ALL_TIME, onSelect: () => setParams({ range: ALL_TIME }) },
          ]}
        >
          <Icon name="calendar" />
          {range === ALL_TIME ? "All time" : RANGE_LABELS[range]}
        </Menu>
      )}
      {chip("model", "Model", models)}
      {chip(
        "key",
        "Key",
        names.keys.map((one) => ({ value: one.id, label: one.name, note: `…${one.last4}` })),
        key ? names.key(key) : undefined,
      )}
      {chip(
        "member",
        "Member",
        names.members.map((one) => ({ value: one.id, label: one.name || one.email })),
        member ? names.member(member) : undefined,
      )}
      {chip(
        "endpoint",
        "Endpoint",
        endpoints && endpoints.map((one) => ({ ...one, label: shortEndpoint(one.value) })),
        shortEndpoint(params.get("endpoint") ?? ""),
      )}
      {chip("outcome", "Status", [...OUTCOME_OPTIONS])}
      <span class="end">
        <RequestSearch />
      </span>
    </>
  );
}

/** Returns the models or endpoints of the calls in a period; null until they are loaded. */
function useGroups(by: "model" | "endpoint", period: Span | null, isWanted: boolean): FilterOption[] | null {
  const shown = period ?? periodOf("90d");
  const params = new URLSearchParams({ from: iso(shown.from), to: iso(shown.to), step: "day", by });
  const path = `/usage/series?${params.toString()}`;
  const series = useResource(isWanted && account.value ? path : null, (signal) =>
    request<UsageSeries>("GET", path, { account: true, signal }),
  );
  if (!series.data) return series.error ? [] : null;
  return series.data.groups.flatMap(({ group }) => (group ? [{ value: group, label: group }] : []));
}

function RequestSearch() {
  const value = place.value.params.get("request") ?? "";
  const [text, setText] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useLayoutEffect(() => {
    setText(value);
    return () => clearTimeout(timer.current);
  }, [value]);
  return (
    <SearchField
      label="Request id"
      value={text}
      onInput={(next) => {
        setText(next);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => setParams({ request: next.trim() || null }), TYPING_MS);
      }}
    />
  );
}

function CsvButton(props: { query: string; isEmpty: boolean }) {
  const [isBusy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    try {
      const path = props.query ? `/calls.csv?${props.query}` : "/calls.csv";
      const content = await requestFile(path, { account: true });
      saveFile(`calls-${new Date().toISOString().slice(0, 10)}.csv`, content);
    } catch (error) {
      notifyFailure("The calls were not saved", error);
    }
    setBusy(false);
  };
  return (
    <Button size="small" icon="download" isBusy={isBusy} disabled={props.isEmpty} onClick={() => void save()}>
      CSV
    </Button>
  );
}
