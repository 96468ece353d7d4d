import { useEffect, useRef, useState } from "preact/hooks";

import { Card, Segments } from "../../parts/data.tsx";
import { EmptyState, Skeleton } from "../../parts/states.tsx";
import { amount, count, share, toUnits } from "../../shell/format.ts";
import type { AccountUsage } from "../../shell/types.ts";
import { PERIOD_DAYS } from "../../shell/usage.ts";

const VIEWS = [
  { value: "chart", label: "Chart" },
  { value: "table", label: "Table" },
] as const;

const HEIGHT = 210;
const MIN_LEFT = 40;
const DIGIT_WIDTH = 6.5;
const LABEL_GAP = 12;
const TOP = 8;
const BASE = 188;
const MAX_LINES = 4;
const LABEL_WIDTH = 72;
const DAY_MS = 24 * 60 * 60 * 1000;

interface Day {
  day: string;
  cost: string;
  requests: number;
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

function dayLabel(day: string): string {
  return DAY.format(new Date(`${day}T00:00:00Z`));
}

/** Returns every day of the period; days without calls have no cost. */
function days(data: AccountUsage): Day[] {
  const groups = new Map((data.totals.groups ?? []).map((group) => [group.group, group]));
  return Array.from({ length: PERIOD_DAYS }, (_, index) => {
    const time = Date.now() - (PERIOD_DAYS - 1 - index) * DAY_MS;
    const day = new Date(time).toISOString().slice(0, 10);
    const group = groups.get(day);
    return { day, cost: group?.cost ?? "0", requests: group?.requests ?? 0 };
  });
}

/** Returns round steps of an axis from 0 up to a maximum. */
export function axisSteps(maximum: number): number[] {
  if (!(maximum > 0)) return [0, 1];
  const rough = maximum / MAX_LINES;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const lines = Math.ceil(maximum / step - 1e-9);
  return Array.from({ length: lines + 1 }, (_, index) => index * step);
}

/** Cost of each day, as bars or as a table. */
export function CostByDay(props: { data: AccountUsage | null }) {
  const [view, setView] = useState<"chart" | "table">("chart");
  const list = props.data && days(props.data);
  const isEmpty = list?.every((day) => toUnits(day.cost) === 0n && day.requests === 0);
  return (
    <Card
      title="Cost by day"
      note="credits, UTC"
      action={<Segments label="View" value={view} options={VIEWS} onChange={setView} />}
    >
      {!list ? (
        <div class="in-pad">
          <Skeleton width="100%" height={HEIGHT} />
        </div>
      ) : isEmpty ? (
        <EmptyState title="No cost yet">The chart begins with the first call.</EmptyState>
      ) : view === "chart" ? (
        <div class="in-pad">
          <Bars days={list} />
        </div>
      ) : (
        <DayTable days={list} />
      )}
    </Card>
  );
}

function Bars(props: { days: Day[] }) {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const largest = props.days.reduce((most, day) => (toUnits(day.cost) > toUnits(most) ? day.cost : most), "0");
  const steps = axisSteps(Number(largest));
  const top = steps[steps.length - 1] ?? 1;
  const decimals = Math.max(0, -Math.floor(Math.log10((steps[1] ?? 1) + 1e-12)));
  const scale = (BASE - TOP) / top;
  const labels = steps.map((step) => step.toFixed(Math.min(decimals, 6)));
  const longest = Math.max(...labels.map((label) => label.length));
  const left = Math.max(MIN_LEFT, longest * DIGIT_WIDTH + LABEL_GAP);
  const slot = (width - left) / props.days.length;
  const bar = Math.max(2, slot * 0.76);
  const every = Math.max(1, Math.ceil(LABEL_WIDTH / slot));
  const heightOf = (day: Day) => share(day.cost, largest) * Number(largest) * scale;
  return (
    <div ref={frame} class="chart">
      {width > 0 && (
        <svg class="chart" viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={summary(props.days)}>
          {steps.map((step, index) => {
            const y = BASE - step * scale;
            return (
              <g key={step}>
                <line class={step === 0 ? "base" : "grid"} x1={left - 6} x2={width} y1={y} y2={y} />
                <text x={left - LABEL_GAP} y={y + 4} text-anchor="end">
                  {labels[index]}
                </text>
              </g>
            );
          })}
          <g class="bars">
            {props.days.map((day, index) => {
              const x = left + index * slot;
              const isCharged = toUnits(day.cost) > 0n;
              const height = isCharged ? Math.max(1, heightOf(day)) : 0;
              return (
                <g key={day.day}>
                  <title>{`${dayLabel(day.day)}: ${amount(day.cost, 4)} for ${count(day.requests)} calls`}</title>
                  <rect class="hit" x={x} y={TOP} width={slot} height={BASE - TOP} />
                  <rect x={x + (slot - bar) / 2} y={BASE - height} width={bar} height={height} rx="1" />
                </g>
              );
            })}
          </g>
          {props.days.map((day, index) =>
            (props.days.length - 1 - index) % every === 0 ? (
              <text key={day.day} x={left + (index + 0.5) * slot} y={HEIGHT - 5} text-anchor={index === props.days.length - 1 ? "end" : "middle"} dx={index === props.days.length - 1 ? slot / 2 : 0}>
                {dayLabel(day.day)}
              </text>
            ) : null,
          )}
        </svg>
      )}
    </div>
  );
}

function summary(list: Day[]): string {
  const first = list[0];
  const last = list[list.length - 1];
  const peak = list.reduce((most, day) => (toUnits(day.cost) > toUnits(most.cost) ? day : most));
  return first && last
    ? `Cost by day from ${dayLabel(first.day)} to ${dayLabel(last.day)}; the largest is ${amount(peak.cost, 2)} on ${dayLabel(peak.day)}.`
    : "Cost by day";
}

function DayTable(props: { days: Day[] }) {
  const rows = props.days.filter((day) => day.requests > 0 || toUnits(day.cost) > 0n).reverse();
  return (
    <div class="tw scroll" tabIndex={0} role="region" aria-label="Cost by day">
      <table class="dense">
        <caption class="sr">Cost by day</caption>
        <thead>
          <tr>
            <th scope="col">Day</th>
            <th scope="col" class="n">
              Calls
            </th>
            <th scope="col" class="n">
              Cost
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((day) => (
            <tr key={day.day}>
              <td>{dayLabel(day.day)}</td>
              <td class="n">{count(day.requests)}</td>
              <td class="n" title={day.cost}>
                {amount(day.cost, 6)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
