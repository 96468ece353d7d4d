import { useEffect, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { SearchField } from "../../parts/field.tsx";
import { Pager } from "../../parts/pager.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { AuditTable } from "../../shell/audit.tsx";
import { Page } from "../../shell/page.tsx";
import { usePaged } from "../../shell/paging.ts";
import { place, setParams } from "../../shell/router.ts";
import type { AuditEntry } from "../../shell/types.ts";

const PAGE_SIZE = 25;
const TYPING_MS = 350;

const FILTERS = [
  { name: "actor", label: "Actor" },
  { name: "action", label: "Action" },
  { name: "account", label: "Account id" },
] as const;

/** The audit log, filtered by actor, action and account. */
export function Screen() {
  const { params } = place.value;
  const query: Record<string, string> = {};
  for (const { name } of FILTERS) {
    const value = params.get(name);
    if (value) query[name] = value;
  }
  const { list, page, next, previous } = usePaged<AuditEntry>("/audit-log", query, PAGE_SIZE);
  const rows = list.data?.data;
  const isFiltered = Object.keys(query).length > 0;
  const reset = () => setParams({ actor: null, action: null, account: null });
  return (
    <Page title="Audit log">
      <div class="filters wrap">
        {FILTERS.map((filter) => (
          <Filter key={filter.name} name={filter.name} label={filter.label} value={query[filter.name] ?? ""} />
        ))}
        {isFiltered && (
          <Button kind="bare" size="small" icon="close" onClick={reset}>
            Reset
          </Button>
        )}
      </div>
      <section class="card after-filters" aria-busy={list.isLoading}>
        {list.error && !rows ? (
          <ErrorState what="The audit log" error={list.error} onRetry={list.reload} />
        ) : !rows ? (
          <TableSkeleton columns={["120px", "80px", "120px", "160px", "64px"]} rows={10} />
        ) : rows.length === 0 ? (
          <EmptyState
            title={isFiltered ? "No entry matches the filters" : "No changes yet"}
            action={isFiltered && <Button onClick={reset}>Show all</Button>}
          >
            {isFiltered
              ? "Filters compare whole values, such as the action credits.grant."
              : "Changes by administrators, the command line and the settings appear here."}
          </EmptyState>
        ) : (
          <>
            <AuditTable entries={rows} />
            <Pager page={page} shown={rows.length} next={next} previous={previous} />
          </>
        )}
      </section>
    </Page>
  );
}

function Filter(props: { name: string; label: string; value: string }) {
  const [typed, setTyped] = useState(props.value);
  useEffect(() => setTyped(props.value), [props.value]);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (typed.trim() !== props.value) setParams({ [props.name]: typed.trim() || null });
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return <SearchField label={props.label} value={typed} onInput={setTyped} />;
}
