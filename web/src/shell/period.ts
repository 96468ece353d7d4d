// Ranges of time of the usage and of the calls, in UTC.

import { MONTHS } from "./format.ts";

export type Range = "24h" | "7d" | "30d" | "90d";

export const RANGES: readonly { value: Range; label: string; days: number }[] = [
  { value: "24h", label: "24 h", days: 1 },
  { value: "7d", label: "7 d", days: 7 },
  { value: "30d", label: "30 d", days: 30 },
  { value: "90d", label: "90 d", days: 90 },
];

export const DEFAULT_RANGE: Range = "30d";

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;

/** Length of a bar of the chart of each range. */
const SLOT_MS: Record<Range, number> = { "24h": HOUR_MS, "7d": 6 * HOUR_MS, "30d": DAY_MS, "90d": DAY_MS };

export interface Period {
  range: Range;
  days: number;
  /** Start, inclusive, in milliseconds. */
  from: number;
  /** End, exclusive: the end of the current slot. */
  to: number;
  slotMs: number;
  /** Step of the series that the server returns. */
  step: "hour" | "day";
}

export function toRange(value: string | null): Range {
  return RANGES.find((range) => range.value === value)?.value ?? DEFAULT_RANGE;
}

/** Returns the period of a range that ends with the current slot. */
export function periodOf(range: Range, now = Date.now()): Period {
  const slotMs = SLOT_MS[range];
  const days = RANGES.find((one) => one.value === range)?.days ?? 30;
  const to = (Math.floor(now / slotMs) + 1) * slotMs;
  return { range, days, from: to - days * DAY_MS, to, slotMs, step: slotMs < DAY_MS ? "hour" : "day" };
}

/** Returns the period of the same length before. */
export function before(period: Period): Period {
  return { ...period, from: period.from - period.days * DAY_MS, to: period.from };
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

export function dayLabel(ms: number): string {
  const at = new Date(ms);
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
}

function hourLabel(ms: number): string {
  return iso(ms).slice(11, 16);
}

/** A range of time: the start, inclusive, and the end, exclusive, in milliseconds. */
export interface Span {
  from: number;
  to: number;
}

/** Returns the range that the parameters `from` and `to` name; null without a valid one. */
export function spanOf(params: URLSearchParams): Span | null {
  const from = Date.parse(params.get("from") ?? "");
  const to = Date.parse(params.get("to") ?? "");
  return from < to ? { from, to } : null;
}

/** Returns a range such as `28 Nov, UTC`, `1 Nov to 7 Nov, UTC` or `28 Nov, 06:00 to 12:00, UTC`. */
export function spanLabel({ from, to }: Span): string {
  const first = dayLabel(from);
  const last = dayLabel(to - 1);
  const end = first === last ? "" : ` to ${last}`;
  if (from % DAY_MS === 0 && to % DAY_MS === 0) return `${first}${end}, UTC`;
  return `${first}, ${hourLabel(from)} to ${first === last ? "" : `${dayLabel(to)}, `}${hourLabel(to)}, UTC`;
}

/** A bar of a chart, or a row of its table. */
export interface Slot {
  start: number;
  /** Label below the bar; null for bars without one. */
  label: string | null;
  title: string;
}

export function slotsOf(period: Period): Slot[] {
  const { from, to, slotMs } = period;
  return Array.from({ length: Math.round((to - from) / slotMs) }, (_, index) => {
    const start = from + index * slotMs;
    if (slotMs === DAY_MS) return { start, label: dayLabel(start), title: dayLabel(start) };
    const hours = `${hourLabel(start)} to ${hourLabel(start + slotMs)}`;
    const label = slotMs === HOUR_MS ? hourLabel(start) : start % DAY_MS === 0 ? dayLabel(start) : null;
    return { start, label, title: `${dayLabel(start)}, ${hours}` };
  });
}
