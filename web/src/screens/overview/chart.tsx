import { useState } from "preact/hooks";

import { CHART_HEIGHT, ChartSwitch, Legend, SeriesTable, StackedBars, toValue, type ChartView } from "../../parts/chart.tsx";
import { Card } from "../../parts/data.tsx";
import { EmptyState, ErrorState, Skeleton } from "../../parts/states.tsx";
import { callsIn } from "../../shell/calls.tsx";
import { amount, compact, fromUnits } from "../../shell/format.ts";
import { slotsOf, type Period } from "../../shell/period.ts";
import type { Resource } from "../../shell/resource.ts";
import type { UsageSeries } from "../../shell/types.ts";
import { chartSeries, groupName, MEASURES, sorted } from "../usage/series.ts";

const NO_NAMES = { keys: [], members: [], key: (id: string) => id, member: (id: string) => id };

/** Cost of each day by model, as bars or as a table. */
export function CostByModel(props: { period: Period; series: Resource<UsageSeries> }) {
  const [view, setView] = useState<ChartView>("chart");
  const { period, series } = props;
  const slots = slotsOf(period);
  const [cost, requests] = MEASURES;
  const groups = cost ? sorted(series.data?.groups ?? [], cost) : [];
  const name = (group: string | null) => groupName(group, "model", NO_NAMES);
  const bars = cost ? chartSeries(groups, slots, period, cost, name) : [];
  const calls = requests ? chartSeries(groups, slots, period, requests, name) : [];
  const callsOf = (index: number) => calls.reduce((sum, one) => sum + (one.values[index] ?? 0n), 0n);
  const pathOf = (index: number) => {
    const from = slots[index]?.start ?? period.from;
    return callsOf(index) > 0n ? callsIn({ from, to: from + period.slotMs }) : null;
  };
  const format = (value: bigint) => amount(fromUnits(value), 6);
  const total = bars[0]?.values.map((_, index) => bars.reduce((sum, one) => sum + (one.values[index] ?? 0n), 0n)) ?? [];
  return (
    <Card title="Cost by model" note="credits a day, UTC" action={<ChartSwitch view={view} onChange={setView} />}>
      {series.error && !series.data ? (
        <ErrorState what="The cost by model" error={series.error} onRetry={series.reload} />
      ) : !series.data ? (
        <div class="in-pad">
          <Skeleton width="100%" height={CHART_HEIGHT} />
        </div>
      ) : groups.length === 0 ? (
        <EmptyState title="No cost yet">The chart begins with the first call.</EmptyState>
      ) : view === "chart" ? (
        <div class="in-pad stack g12">
          <Legend series={bars} />
          <StackedBars label="Cost by model" slots={slots} series={bars} measure="amount" format={format} pathOf={pathOf} />
        </div>
      ) : (
        <SeriesTable
          label="Cost by model"
          slotName="Day"
          slots={slots}
          pathOf={pathOf}
          columns={[
            { label: "Calls", values: slots.map((_, index) => callsOf(index)), format: (value) => compact(Number(value / toValue(1))) },
            ...bars.map((one) => ({ label: one.label, values: one.values, format })),
            ...(bars.length > 1 ? [{ label: "Total", values: total, format }] : []),
          ]}
        />
      )}
    </Card>
  );
}
