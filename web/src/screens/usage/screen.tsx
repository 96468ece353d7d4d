import { useMemo, useRef, useState } from "preact/hooks";

import { Breakdown, type BreakdownRow } from "../../parts/breakdown.tsx";
import { Button } from "../../parts/button.tsx";
import { CHART_HEIGHT, ChartSwitch, MAX_SERIES, SeriesTable, StackedBars, type ChartView } from "../../parts/chart.tsx";
import { Segments, Stat, Stats } from "../../parts/data.tsx";
import { EmptyState, ErrorState, Skeleton } from "../../parts/states.tsx";
import { callsIn, inputTokens, ModelName } from "../../shell/calls.tsx";
import { amount, compact, count, fromUnits, plural, share, toUnits } from "../../shell/format.ts";
import { useNames, type Names } from "../../shell/names.ts";
import { Page } from "../../shell/page.tsx";
import { before, DEFAULT_RANGE, iso, periodOf, RANGES, slotsOf, toRange, type Period } from "../../shell/period.ts";
import type { Resource } from "../../shell/resource.ts";
import { mayCreateKeys } from "../../shell/roles.ts";
import { href, place, setParams } from "../../shell/router.ts";
import { saveCsv } from "../../shell/save.ts";
import type { SeriesGroup, SeriesTotals, UsageSeries } from "../../shell/types.ts";
import { Limits } from "./limits.tsx";
import { chartSeries, DIMENSIONS, groupName, MEASURES, sorted, totalsOf, useSeries, type Dimension } from "./series.ts";

const SLOT_NAMES: Record<string, string> = { "24h": "an hour", "7d": "in 6 hours", "30d": "a day", "90d": "a day" };

type Kind = (typeof MEASURES)[number];

const REQUESTS = MEASURES.find((one) => one.value === "requests") as Kind;

/** Cost, requests and tokens of the account that is shown, and its limits. */
export function Screen() {
  const { params } = place.value;
  const range = toRange(params.get("range"));
  const by = DIMENSIONS.find((one) => one.value === params.get("by"))?.value ?? "model";
  const kind = MEASURES.find((one) => one.value === params.get("measure")) ?? (MEASURES[0] as Kind);
  const [asked, setAsked] = useState(0);
  const period = useMemo(() => periodOf(range), [range, asked]);
  const names = useNames();
  const series: Record<Dimension, Resource<UsageSeries>> = {
    model: useSeries(period, "model"),
    key: useSeries(period, "key"),
    member: useSeries(period, "member"),
    endpoint: useSeries(period, "endpoint"),
  };
  const previous = useSeries(before(period), null);
  const main = series[by];
  const totals = totalsOf(main.data);
  const isEmpty = totals?.requests === 0;
  // The limits appear below the first result. Above it they would move when it arrives.
  const hasResult = useRef(false);
  hasResult.current ||= totals !== null || main.error !== null;
  const reload = () => {
    setAsked(asked + 1);
    for (const one of Object.values(series)) one.reload();
  };
  return (
    <Page
      title="Usage"
      action={
        <Button size="small" icon="download" disabled={!main.data || isEmpty} onClick={() => main.data && download(main.data, by, period, names)}>
          CSV
        </Button>
      }
      filters={
        <>
          <Segments
            label="Range"
            value={range}
            options={RANGES}
            onChange={(value) => setParams({ range: value === DEFAULT_RANGE ? null : value })}
          />
          <Segments
            label="Measure"
            value={kind.value}
            options={MEASURES}
            onChange={(value) => setParams({ measure: value === "cost" ? null : value })}
          />
          <span class="end row">
            <span class="muted t12 nowrap wideonly">Group by</span>
            <Segments
              label="Group by"
              value={by}
              options={DIMENSIONS}
              onChange={(value) => setParams({ by: value === "model" ? null : value })}
            />
          </span>
        </>
      }
    >
      {main.error && !main.data ? (
        <section class="card">
          <ErrorState what="The usage" error={main.error} onRetry={reload} />
        </section>
      ) : isEmpty ? (
        <section class="card">
          <NoUsage period={period} />
        </section>
      ) : (
        <>
          <Figures totals={totals} previous={totalsOf(previous.data)} period={period} />
          <Main series={main.data} by={by} kind={kind} period={period} names={names} />
          <section class="tri" aria-label="Other groups">
            {DIMENSIONS.filter((one) => one.value !== by).map((one) => (
              <Others key={one.value} by={one.value} series={series[one.value]} kind={kind} period={period} names={names} />
            ))}
          </section>
        </>
      )}
      {hasResult.current && <Limits />}
    </Page>
  );
}

function NoUsage(props: { period: Period }) {
  const { range, days } = props.period;
  return (
    <EmptyState
      title={`No calls in the last ${days === 1 ? "24 hours" : `${days} days`}`}
      action={
        range === "90d" ? (
          mayCreateKeys() && (
            <a class="btn" href={href("/keys?create=1")}>
              Create a key
            </a>
          )
        ) : (
          <Button onClick={() => setParams({ range: "90d" })}>Show 90 days</Button>
        )
      }
    >
      Each call adds its tokens and its charge here, seconds after it ends.
    </EmptyState>
  );
}

/** 0.01 credits in units of 10⁻¹². */
const CENT = 10n ** 10n;

function Figures(props: { totals: SeriesTotals | null; previous: SeriesTotals | null; period: Period }) {
  const { totals, previous, period } = props;
  if (!totals) {
    return (
      <Stats>
        {["Cost", "Calls", "Tokens", "Cost per call"].map((label) => (
          <Stat key={label} label={label} note={<Skeleton width="96px" />}>
            <Skeleton width="88px" height={20} />
          </Stat>
        ))}
      </Stats>
    );
  }
  const input = inputTokens(totals.usage);
  const cached = input > 0 ? Math.round(((totals.usage.cache_read_tokens ?? 0) / input) * 100) : 0;
  const tokens = totals.usage.total_tokens ?? 0;
  const average = toUnits(totals.cost) / BigInt(Math.max(1, totals.requests));
  return (
    <Stats>
      <Stat label="Cost" note={<Change now={toUnits(totals.cost)} then={previous && toUnits(previous.cost)} period={period} isCost />}>
        <b title={totals.cost}>{amount(totals.cost, toUnits(totals.cost) < CENT ? 6 : 2)}</b>
      </Stat>
      <Stat label="Calls" note={<Change now={BigInt(totals.requests)} then={previous && BigInt(previous.requests)} period={period} />}>
        <b>{count(totals.requests)}</b>
      </Stat>
      <Stat label="Tokens" note={`${cached} % of the input from caches`}>
        <b title={count(tokens)}>{compact(tokens)}</b>
      </Stat>
      <Stat label="Cost per call" note="On average">
        <b title={fromUnits(average)}>{amount(fromUnits(average), 6)}</b>
      </Stat>
    </Stats>
  );
}

/** Minimum rise of the cost that is marked, in tenths of a percent. */
const MARKED_RISE = 100n;

function Change(props: { now: bigint; then: bigint | null; period: Period; isCost?: boolean }) {
  const { now, then, period } = props;
  if (then === null) return <>&nbsp;</>;
  const name = period.days === 1 ? "24 hours" : `${period.days} days`;
  if (then === 0n) return <>None in the {name} before</>;
  const tenths = ((now - then) * 1000n) / then;
  const size = tenths < 0n ? -tenths : tenths;
  const text = `${tenths < 0n ? "−" : "+"}${size / 10n}.${size % 10n} %`;
  return (
    <>
      <span class={props.isCost && tenths >= MARKED_RISE ? "warn" : undefined}>{text}</span> on the {name} before
    </>
  );
}

/** Returns the address of the calls of a group; null for calls without one. */
function callsOf(group: string | null, by: Dimension, period: Period): string | null {
  if (!group) return null;
  const range = period.range === DEFAULT_RANGE ? {} : { range: period.range };
  return href(`/calls?${new URLSearchParams({ ...range, [by]: group }).toString()}`);
}

function rowsOf(groups: SeriesGroup[], by: Dimension, kind: Kind, period: Period, names: Names, hasColors: boolean): BreakdownRow[] {
  const largest = groups[0] ? kind.of(groups[0]) : 0n;
  const isShort = groups.length <= MAX_SERIES + 1;
  return groups.map((group, index) => {
    const value = kind.of(group);
    return {
      id: group.group ?? "",
      label: groupName(group.group, by, names),
      ...(by === "model" && group.group ? { name: <ModelName id={group.group} /> } : {}),
      ...(hasColors ? { color: isShort || index < MAX_SERIES ? index + 1 : MAX_SERIES + 1 } : {}),
      share: share(fromUnits(value), fromUnits(largest)),
      value: kind.short(value, largest),
      title: kind.value === "cost" ? group.cost : kind.full(value),
      note: kind.value === "requests" ? amount(group.cost, 2) : count(group.requests),
      href: callsOf(group.group, by, period),
    };
  });
}

function headsOf(kind: Kind): readonly [string, string] {
  return kind.value === "requests" ? ["Calls", "Credits"] : [kind.value === "cost" ? "Credits" : "Tokens", "Calls"];
}

function Main(props: { series: UsageSeries | null; by: Dimension; kind: Kind; period: Period; names: Names }) {
  const { series, by, kind, period, names } = props;
  const [view, setView] = useState<ChartView>("chart");
  const title = `${kind.title} by ${by}`;
  const slots = slotsOf(period);
  const groups = sorted(series?.groups ?? [], kind);
  const shown = chartSeries(groups, slots, period, kind, (group) => groupName(group, by, names));
  const all = rowsOf(groups, by, kind, period, names, true);
  const others = shown.find((one) => one.id === "others");
  const rows = others ? [...all.slice(0, MAX_SERIES), othersRow(others.label, groups.slice(MAX_SERIES), kind, groups[0])] : all;
  const total = slots.map((_, index) => shown.reduce((sum, one) => sum + (one.values[index] ?? 0n), 0n));
  const requests = chartSeries(groups, slots, period, REQUESTS, (group) => groupName(group, by, names));
  const pathOf = (index: number) => {
    const from = slots[index]?.start ?? period.from;
    const hasCalls = requests.some((one) => (one.values[index] ?? 0n) > 0n);
    return hasCalls ? callsIn({ from, to: from + period.slotMs }) : null;
  };
  return (
    <section>
      <div class="row between chart-head">
        <div class="row g12">
          <h2>{title}</h2>
          <span class="muted t12 nowrap">
            {kind.unit} {SLOT_NAMES[period.range]}, UTC
          </span>
        </div>
        <ChartSwitch view={view} onChange={setView} />
      </div>
      {!series ? (
        <Skeleton width="100%" height={CHART_HEIGHT} />
      ) : (
        <div class="ucols">
          {view === "chart" ? (
            <StackedBars label={title} slots={slots} series={shown} measure={kind.measure} format={kind.full} pathOf={pathOf} />
          ) : (
            <SeriesTable
              label={title}
              slotName={period.step === "hour" ? "Hours" : "Day"}
              slots={slots}
              pathOf={pathOf}
              columns={[
                { label: "Total", values: total, format: kind.full },
                ...shown.map((one) => ({ label: one.label, values: one.values, format: kind.full })),
              ]}
            />
          )}
          <Breakdown label={title} heads={headsOf(kind)} rows={rows} all={all} />
        </div>
      )}
    </section>
  );
}

function othersRow(label: string, rest: SeriesGroup[], kind: Kind, first: SeriesGroup | undefined): BreakdownRow {
  const value = rest.reduce((sum, group) => sum + kind.of(group), 0n);
  const cost = rest.reduce((sum, group) => sum + toUnits(group.cost), 0n);
  const requests = rest.reduce((sum, group) => sum + group.requests, 0);
  return {
    id: "others",
    label,
    color: MAX_SERIES + 1,
    share: share(fromUnits(value), fromUnits(first ? kind.of(first) : 0n)),
    value: kind.short(value, first ? kind.of(first) : 0n),
    note: kind.value === "requests" ? amount(fromUnits(cost), 2) : count(requests),
  };
}

const SHOWN_OTHERS = 5;

function Others(props: { by: Dimension; series: Resource<UsageSeries>; kind: Kind; period: Period; names: Names }) {
  const { by, series, kind } = props;
  const title = `${kind.title} by ${by}`;
  const all = rowsOf(sorted(series.data?.groups ?? [], kind), by, kind, props.period, props.names, false);
  return (
    <div class="stack">
      <h2>{title}</h2>
      {series.error && !series.data ? (
        <ErrorState what={title} error={series.error} onRetry={series.reload} />
      ) : !series.data ? (
        <div class="stack g12">
          {["100%", "70%", "45%", "20%"].map((width) => (
            <Skeleton key={width} width={width} height={24} />
          ))}
        </div>
      ) : (
        <Breakdown label={title} heads={headsOf(kind)} rows={all.slice(0, SHOWN_OTHERS)} all={all} />
      )}
    </div>
  );
}

/** Saves the series with all groups. */
function download(series: UsageSeries, by: Dimension, period: Period, names: Names): void {
  const rows = series.groups.flatMap((group) =>
    group.points.map((point) => [
      point.start,
      group.group ?? "",
      groupName(group.group, by, names),
      point.requests,
      point.cost,
      point.usage.total_tokens ?? 0,
    ]),
  );
  const day = iso(period.from).slice(0, 10);
  saveCsv(`usage-by-${by}-${day}-${plural(period.days, "day").replace(" ", "-")}.csv`, [
    ["start", by, "name", "requests", "cost", "tokens"],
    ...rows,
  ]);
}
