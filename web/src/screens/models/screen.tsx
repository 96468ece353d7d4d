import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { Chip, Table, type Column } from "../../parts/data.tsx";
import { SearchField } from "../../parts/field.tsx";
import { FilterChip } from "../../parts/filter.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Menu } from "../../parts/menu.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { plural, price, tokens } from "../../shell/format.ts";
import { Page } from "../../shell/page.tsx";
import { useResource } from "../../shell/resource.ts";
import { mayMakeCalls } from "../../shell/roles.ts";
import { href, place, setParams } from "../../shell/router.ts";
import { account } from "../../shell/session.ts";
import type { AccountUsage, List, Model } from "../../shell/types.ts";
import { periodQuery } from "../../shell/usage.ts";
import {
  FEATURES,
  isText,
  mediaPrice,
  passes,
  providerLabel,
  releaseDate,
  shortName,
  sorted,
  SORTS,
  STRUCTURED_OUTPUT,
  typeLabel,
  valuesOf,
  type Filters,
  type Sort,
} from "./catalog.ts";
import { Compare, playgroundOf } from "./compare.tsx";
import { DetailsDialog } from "./details.tsx";
import { Facets } from "./facets.tsx";

const MAX_COMPARED = 4;

const GROUPS = { types: "type", features: "can", providers: "provider" } as const;

type Group = keyof typeof GROUPS;

function listOf(name: string): string[] {
  return place.value.params.get(name)?.split(",").filter(Boolean) ?? [];
}

function toggled(values: string[], value: string): string[] {
  return values.includes(value) ? values.filter((one) => one !== value) : [...values, value];
}

/** The catalogue of models, with filters and a comparison. */
export function Screen() {
  const id = account.value?.id ?? null;
  const list = useResource(id, (signal) =>
    request<List<Model>>("GET", `${PUBLIC_API}/models`, { account: true, signal }),
  );
  const usage = useResource(id, (signal) =>
    request<AccountUsage>("GET", periodQuery("model", 1), { account: true, signal }),
  );
  const { params } = place.value;
  const [query, setQuery] = useState(params.get("search") ?? "");
  const [isFiltering, setFiltering] = useState(false);
  const filters: Filters = {
    types: listOf("type"),
    features: listOf("can"),
    providers: listOf("provider"),
    maxOutput: /^\d+(\.\d+)?$/.test(params.get("output") ?? "") ? params.get("output") : null,
    query: query.trim(),
  };
  const sort: Sort = SORTS.find((one) => one.value === params.get("sort"))?.value ?? "used";
  const all = list.data?.data ?? [];
  const used = new Map((usage.data?.totals.groups ?? []).map((group) => [group.group, group]));
  const rows = sorted(all.filter((model) => passes(model, filters)), sort, used);
  const compared = listOf("compare")
    .map((one) => all.find((model) => model.id === one))
    .filter((model) => model !== undefined)
    .slice(0, MAX_COMPARED);
  const shown = all.find((model) => model.id === params.get("model"));

  const toggle = (group: Group, value: string) => setParams({ [GROUPS[group]]: toggled(filters[group], value).join(",") });
  const compare = (model: Model) =>
    setParams({ compare: toggled(compared.map((one) => one.id), model.id).join(",") });
  const reset = () => {
    setQuery("");
    setParams({ type: null, can: null, provider: null, output: null });
  };
  const chips = [
    ...filters.types.map((value) => ({ group: "types" as const, value, label: typeLabel(value) })),
    ...filters.features.map((value) => ({
      group: "features" as const,
      value,
      label: FEATURES.find((one) => one.value === value)?.label ?? value,
    })),
    ...filters.providers.map((value) => ({ group: "providers" as const, value, label: providerLabel(value) })),
  ];

  return (
    <Page title="Models" note={<span class="muted t12 trunc">prices in credits per 1 M tokens</span>} isFlush>
      <div class="md-split">
        <Facets
          models={list.data?.data ?? null}
          filters={filters}
          isOpen={isFiltering}
          onToggle={toggle}
          onMaxOutput={(output) => setParams({ output })}
        />
        <div class="lst">
          <div class="filters wrap">
            <SearchField label="Model, provider or ability" value={query} onInput={setQuery} />
            <button
              type="button"
              class="btn sm facbtn"
              aria-expanded={isFiltering}
              aria-controls="model-filters"
              onClick={() => setFiltering(!isFiltering)}
            >
              <Icon name="filter" />
              Filters
            </button>
            {chips.map((chip) => (
              <FilterChip key={chip.group + chip.value} label={chip.label} onRemove={() => toggle(chip.group, chip.value)} />
            ))}
            {filters.maxOutput !== null && (
              <FilterChip label={`Output up to ${price(filters.maxOutput)}`} onRemove={() => setParams({ output: null })} />
            )}
            <span class="end row">
              <span class="muted t12 num" role="status">
                {list.data && plural(rows.length, "model")}
              </span>
              <Menu
                class="btn sm"
                label="Sort"
                items={SORTS.map((one) => ({
                  label: one.label,
                  isChecked: one.value === sort,
                  onSelect: () => setParams({ sort: one.value === "used" ? null : one.value }),
                }))}
              >
                Sort: {SORTS.find((one) => one.value === sort)?.label.toLowerCase()}
                <Icon name="updown" small class="muted" />
              </Menu>
            </span>
          </div>
          <div class="rows mtab">
            {list.error && !list.data ? (
              <ErrorState what="The models" error={list.error} onRetry={list.reload} />
            ) : !list.data ? (
              <TableSkeleton columns={["16px", "240px", "48px", "48px", "56px", "96px", "72px"]} rows={12} />
            ) : all.length === 0 ? (
              <EmptyState title="No models">
                The gateway has no provider whose models this account can use. Ask the operator of the gateway.
              </EmptyState>
            ) : rows.length === 0 ? (
              <EmptyState title="No model matches the filters" action={<Button onClick={reset}>Show all models</Button>} />
            ) : (
              <Table
                caption="Models"
                columns={columnsOf(rows, compared, compare)}
                rows={rows}
                id={(model) => model.id}
                isSelected={(model) => compared.includes(model)}
              />
            )}
          </div>
          {compared.length > 0 && <Compare models={compared} onClear={() => setParams({ compare: null })} />}
        </div>
      </div>
      {shown && (
        <DetailsDialog
          model={shown}
          isCompared={compared.includes(shown)}
          mayCompare={compared.length < MAX_COMPARED}
          onCompare={() => compare(shown)}
          onClose={() => setParams({ model: null })}
        />
      )}
    </Page>
  );
}

const NONE = <span class="muted">–</span>;

function columnsOf(rows: Model[], compared: Model[], compare: (model: Model) => void): Column<Model>[] {
  const isFull = compared.length >= MAX_COMPARED;
  const select: Column<Model> = {
    label: "Compare",
    isHidden: true,
    cell: (model) => (
      <input
        type="checkbox"
        class="cb over"
        aria-label={`Compare ${model.id}`}
        checked={compared.includes(model)}
        disabled={isFull && !compared.includes(model)}
        onChange={() => compare(model)}
      />
    ),
  };
  const name: Column<Model> = { label: "Model", cell: (model) => <NameCell model={model} /> };
  const released: Column<Model> = {
    label: "Released",
    isWide: true,
    cell: (model) => <span class="muted num">{releaseDate(model)}</span>,
  };
  const actions: Column<Model> = {
    label: "Actions",
    isHidden: true,
    isNumber: true,
    cell: (model) => (
      <span class="row over actions">
        <span class="wideonly">
          <CopyButton text={model.id} label={`Copy the id of ${model.id}`} />
        </span>
        {mayMakeCalls() && (
          <a class="try" href={playgroundOf([model])} aria-label={`Try ${model.id}`}>
            Try
          </a>
        )}
      </span>
    ),
  };
  const middle: Column<Model>[] = rows.every((model) => !isText(model))
    ? [
        { label: "Price", isNumber: true, cell: (model) => <MediaPrice model={model} /> },
        { label: "Reads", isOptional: true, cell: (model) => model.modalities.input.join(", ") || NONE },
        { label: "Sizes", isOptional: true, cell: (model) => valuesOf(model, "resolutions").join(", ") || NONE },
        { label: "Modes", isOptional: true, cell: (model) => model.modes.join(", ") || NONE },
      ]
    : [
        {
          label: "Input",
          isNumber: true,
          cell: (model) =>
            isText(model) ? <Price value={model.pricing["input"]} /> : <MediaPrice model={model} isShort />,
        },
        { label: "Output", isNumber: true, cell: (model) => <Price value={model.pricing["output"]} /> },
        {
          label: "Context",
          isNumber: true,
          isOptional: true,
          cell: (model) => (model.context_window ? tokens(model.context_window) : NONE),
        },
        {
          label: "Max output",
          isNumber: true,
          isWide: true,
          cell: (model) => (model.max_output_tokens ? tokens(model.max_output_tokens) : NONE),
        },
        {
          label: "Structured output",
          isOptional: true,
          cell: (model) => (
            <span class={model.structured_output === "json_schema" ? undefined : "muted"}>
              {STRUCTURED_OUTPUT[model.structured_output]}
            </span>
          ),
        },
        {
          label: "Batch",
          isOptional: true,
          cell: (model) =>
            model.batch_supported ? (
              <span class="ok">
                <Icon name="check" />
                <span class="sr">Yes</span>
              </span>
            ) : (
              NONE
            ),
        },
      ];
  return [select, name, ...middle, released, actions];
}

function NameCell(props: { model: Model }) {
  const { model } = props;
  const provider = model.id.slice(0, model.id.indexOf("/") + 1);
  const query = new URLSearchParams(place.value.params);
  query.set("model", model.id);
  return (
    <span class="row modelname">
      <span class="mk" aria-hidden="true">
        {providerLabel(model.owned_by).slice(0, 2)}
      </span>
      <a class="rowlink trunc" href={href(`/models?${query.toString()}`)} title={model.id}>
        <span class="muted provider">{provider}</span>
        {shortName(model.id)}
      </a>
      {model.simulated && (
        <span class="wideonly">
          <Chip>Simulated</Chip>
        </span>
      )}
    </span>
  );
}

function Price(props: { value: string | undefined }) {
  return props.value === undefined ? NONE : <span title={`${props.value} credits`}>{price(props.value)}</span>;
}

/** A price with its unit, which `isShort` omits on phones. */
function MediaPrice(props: { model: Model; isShort?: boolean }) {
  const found = mediaPrice(props.model);
  if (!found) return NONE;
  return (
    <>
      {found.price} <span class={props.isShort ? "muted t12 wideonly" : "muted t12"}>{found.unit}</span>
    </>
  );
}
