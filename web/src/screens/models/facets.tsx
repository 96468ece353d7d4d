import { useId } from "preact/hooks";

import { Skeleton } from "../../parts/states.tsx";
import { price, toUnits } from "../../shell/format.ts";
import type { Model } from "../../shell/types.ts";
import { FEATURES, orderTypes, passes, providerLabel, typeLabel, type Filters } from "./catalog.ts";

interface FacetsProps {
  /** Null while the models load. */
  models: Model[] | null;
  filters: Filters;
  /** Whether phones show the filters. */
  isOpen: boolean;
  onToggle: (group: "types" | "features" | "providers", value: string) => void;
  onMaxOutput: (price: string | null) => void;
}

/** The filters of the catalogue, each with its number of models. */
export function Facets(props: FacetsProps) {
  const { filters } = props;
  const models = props.models ?? [];
  const countOf = (group: "types" | "providers" | "features", matches: (model: Model) => boolean) =>
    models.filter((model) => matches(model) && passes(model, filters, group)).length;
  const types = orderTypes([...new Set(models.map((model) => model.type))]);
  const providers = [...new Set(models.map((model) => model.owned_by))];
  providers.sort((a, b) => providerLabel(a).localeCompare(providerLabel(b)));
  return (
    <aside class={props.isOpen ? "facs open" : "facs"} aria-label="Filters" id="model-filters">
      {!props.models && [1, 2, 3].map((row) => <Skeleton key={row} width="100%" height={120} />)}
      <Facet
        title="Type"
        rows={types.map((type) => ({
          value: type,
          label: typeLabel(type),
          count: countOf("types", (model) => model.type === type),
        }))}
        chosen={filters.types}
        onToggle={(value) => props.onToggle("types", value)}
      />
      <Facet
        title="Features"
        rows={(props.models ? FEATURES : []).map((feature) => ({
          value: feature.value,
          label: feature.label,
          count: countOf("features", feature.matches),
        }))}
        chosen={filters.features}
        onToggle={(value) => props.onToggle("features", value)}
      />
      <Facet
        title="Provider"
        rows={providers.map((provider) => ({
          value: provider,
          label: providerLabel(provider),
          count: countOf("providers", (model) => model.owned_by === provider),
        }))}
        chosen={filters.providers}
        onToggle={(value) => props.onToggle("providers", value)}
      />
      <PriceLimit models={models} value={filters.maxOutput} onChange={props.onMaxOutput} />
    </aside>
  );
}

interface FacetRow {
  value: string;
  label: string;
  count: number;
}

function Facet(props: { title: string; rows: FacetRow[]; chosen: string[]; onToggle: (value: string) => void }) {
  if (props.rows.length === 0) return null;
  return (
    <fieldset class="fac">
      <legend>{props.title}</legend>
      {props.rows.map((row) => (
        <label key={row.value} class={row.count === 0 ? "muted" : undefined}>
          <input
            type="checkbox"
            class="cb"
            checked={props.chosen.includes(row.value)}
            onChange={() => props.onToggle(row.value)}
          />
          <span class="grow trunc">{row.label}</span>
          <span class="muted num t12">{row.count}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** Limits the price of output to one of the prices in the catalogue. */
function PriceLimit(props: { models: Model[]; value: string | null; onChange: (price: string | null) => void }) {
  const id = useId();
  const prices = [...new Set(props.models.map((model) => model.pricing["output"]).filter((one) => one !== undefined))];
  prices.sort((a, b) => (toUnits(a) < toUnits(b) ? -1 : 1));
  if (prices.length < 2) return null;
  const last = prices.length - 1;
  const found = props.value === null ? last : prices.findIndex((one) => toUnits(one) >= toUnits(props.value ?? "0"));
  const index = found < 0 ? last : found;
  return (
    <div class="stack">
      <label class="lab" for={id}>
        Output price up to <span class="num muted">{price(prices[index] ?? "0")}</span>
      </label>
      <input
        id={id}
        type="range"
        class="slider"
        min={0}
        max={last}
        step={1}
        value={index}
        aria-valuetext={price(prices[index] ?? "0")}
        onInput={(event) => {
          const next = Number(event.currentTarget.value);
          props.onChange(next >= last ? null : (prices[next] ?? null));
        }}
      />
    </div>
  );
}
