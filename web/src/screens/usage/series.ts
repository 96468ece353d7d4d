import { MAX_SERIES, toValue, type Measure, type Series } from "../../parts/chart.tsx";
import { request } from "../../shell/api.ts";
import { shortEndpoint } from "../../shell/calls.tsx";
import { amount, compact, count, fromUnits, toUnits } from "../../shell/format.ts";
import type { Names } from "../../shell/names.ts";
import { iso, type Period, type Slot } from "../../shell/period.ts";
import { useResource, type Resource } from "../../shell/resource.ts";
import { account } from "../../shell/session.ts";
import type { SeriesGroup, SeriesTotals, UsageSeries } from "../../shell/types.ts";

export type Dimension = "model" | "key" | "member" | "endpoint";

export const DIMENSIONS: readonly { value: Dimension; label: string }[] = [
  { value: "model", label: "Model" },
  { value: "key", label: "Key" },
  { value: "member", label: "Member" },
  { value: "endpoint", label: "Endpoint" },
];

/** Filters of the list of calls, by dimension. */
export const FILTERS: Record<Dimension, string> = { model: "model", key: "key", member: "member", endpoint: "endpoint" };

/** Groups of calls without a model, key or member. */
const WITHOUT: Record<Dimension, string> = {
  model: "No model",
  key: "Console sessions",
  member: "Calls with a key",
  endpoint: "No endpoint",
};

export type MeasureName = "cost" | "requests" | "tokens";

interface MeasureKind {
  value: MeasureName;
  label: string;
  /** Title of the chart, before `by model`. */
  title: string;
  unit: string;
  measure: Measure;
  of: (totals: SeriesTotals) => bigint;
  /** Formats a value in lists, by the largest one of the list. */
  short: (value: bigint, largest: bigint) => string;
  /** Formats a value in tooltips and tables. */
  full: (value: bigint) => string;
}

const ONE = toValue(1);

function number(value: bigint): number {
  return Number(value / ONE);
}

export const MEASURES: readonly MeasureKind[] = [
  {
    value: "cost",
    label: "Cost",
    title: "Cost",
    unit: "credits",
    measure: "amount",
    of: (totals) => toUnits(totals.cost),
    short: (value, largest) => {
      if (largest < ONE) return amount(fromUnits(value), 6);
      return value > 0n && value < ONE / 100n ? "< 0.01" : amount(fromUnits(value), 2);
    },
    full: (value) => amount(fromUnits(value), value >= 100n * ONE ? 2 : 6),
  },
  {
    value: "requests",
    label: "Requests",
    title: "Requests",
    unit: "requests",
    measure: "count",
    of: (totals) => toValue(totals.requests),
    short: (value) => count(number(value)),
    full: (value) => count(number(value)),
  },
  {
    value: "tokens",
    label: "Tokens",
    title: "Tokens",
    unit: "tokens",
    measure: "count",
    of: (totals) => toValue(totals.usage.total_tokens ?? 0),
    short: (value) => compact(number(value)),
    full: (value) => count(number(value)),
  },
];

/** Loads the series of a period; without a dimension, of all calls together. */
export function useSeries(period: Period, by: Dimension | null): Resource<UsageSeries> {
  const params = new URLSearchParams({
    from: iso(period.from),
    to: iso(period.to),
    step: period.step,
    ...(by ? { by } : {}),
  });
  const path = `/usage/series?${params.toString()}`;
  const id = account.value?.id;
  return useResource(id ? `${id} ${path}` : null, (signal) => request<UsageSeries>("GET", path, { account: true, signal }));
}

/** Returns the name of a group. */
export function groupName(group: string | null, by: Dimension, names: Names): string {
  if (!group) return WITHOUT[by];
  if (by === "key") return names.key(group);
  if (by === "member") return names.member(group);
  return by === "endpoint" ? shortEndpoint(group) : group;
}

/** Returns the sum of all groups. */
export function totalsOf(series: UsageSeries | null): SeriesTotals | null {
  if (!series) return null;
  const usage: Record<string, number> = {};
  let requests = 0;
  let cost = 0n;
  for (const group of series.groups) {
    requests += group.requests;
    cost += toUnits(group.cost);
    for (const [name, value] of Object.entries(group.usage)) usage[name] = (usage[name] ?? 0) + value;
  }
  return { requests, cost: fromUnits(cost), usage };
}

/** Returns the groups by a measure, the largest first. */
export function sorted(groups: readonly SeriesGroup[], kind: MeasureKind): SeriesGroup[] {
  return [...groups].sort((a, b) => (kind.of(a) < kind.of(b) ? 1 : kind.of(a) > kind.of(b) ? -1 : 0));
}

/** Returns the largest groups as series of a chart, and the others together as one more. */
export function chartSeries(groups: SeriesGroup[], slots: Slot[], period: Period, kind: MeasureKind, name: (group: string | null) => string): Series[] {
  const shown = groups.length > MAX_SERIES + 1 ? groups.slice(0, MAX_SERIES) : groups;
  const rest = groups.slice(shown.length);
  const add = (values: bigint[], group: SeriesGroup) => {
    for (const point of group.points) {
      const index = Math.floor((Date.parse(point.start) - period.from) / period.slotMs);
      if (index >= 0 && index < values.length) values[index] = (values[index] ?? 0n) + kind.of(point);
    }
    return values;
  };
  const empty = () => slots.map(() => 0n);
  const series = shown.map((group, index) => ({
    id: group.group ?? "",
    label: name(group.group),
    color: index + 1,
    values: add(empty(), group),
  }));
  if (rest.length > 0) {
    series.push({ id: "others", label: `${rest.length} others`, color: MAX_SERIES + 1, values: rest.reduce(add, empty()) });
  }
  return series;
}
