import { useState } from "preact/hooks";

import { CHART_HEIGHT, ChartSwitch, SeriesTable, StackedBars, toValue, type ChartView } from "../../parts/chart.tsx";
import { Card } from "../../parts/data.tsx";
import { EmptyState, Skeleton } from "../../parts/states.tsx";
import { callsIn } from "../../shell/calls.tsx";
import { amount, compact, fromUnits, toUnits } from "../../shell/format.ts";
import { iso, periodOf, slotsOf } from "../../shell/period.ts";
import type { AccountUsage } from "../../shell/types.ts";

/** Cost of each day, as bars or as a table. */
export function CostByDay(props: { data: AccountUsage | null }) {
  const [view, setView] = useState<ChartView>("chart");
  const period = periodOf("30d");
  const slots = slotsOf(period);
  const groups = new Map((props.data?.totals.groups ?? []).map((group) => [group.group, group]));
  const days = slots.map((slot) => groups.get(iso(slot.start).slice(0, 10)));
  const costs = days.map((day) => toUnits(day?.cost ?? "0"));
  const calls = days.map((day) => toValue(day?.requests ?? 0));
  const isEmpty = days.every((day) => !day || day.requests === 0);
  const pathOf = (index: number) => {
    const from = slots[index]?.start ?? period.from;
    return days[index]?.requests ? callsIn({ from, to: from + period.slotMs }) : null;
  };
  const cost = (value: bigint) => amount(fromUnits(value), 6);
  return (
    <Card title="Cost by day" note="credits, UTC" action={<ChartSwitch view={view} onChange={setView} />}>
      {!props.data ? (
        <div class="in-pad">
          <Skeleton width="100%" height={CHART_HEIGHT} />
        </div>
      ) : isEmpty ? (
        <EmptyState title="No cost yet">The chart begins with the first call.</EmptyState>
      ) : view === "chart" ? (
        <div class="in-pad">
          <StackedBars
            label="Cost by day"
            slots={slots}
            series={[{ id: "cost", label: "Cost", color: 1, values: costs }]}
            measure="amount"
            format={cost}
            pathOf={pathOf}
          />
        </div>
      ) : (
        <SeriesTable
          label="Cost by day"
          slotName="Day"
          slots={slots}
          pathOf={pathOf}
          columns={[
            { label: "Calls", values: calls, format: (value) => compact(Number(value / toValue(1))) },
            { label: "Cost", values: costs, format: cost },
          ]}
        />
      )}
    </Card>
  );
}
