import { Pager } from "../../parts/pager.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { AuditTable } from "../../shell/audit.tsx";
import { Page } from "../../shell/page.tsx";
import { usePaged } from "../../shell/paging.ts";
import { mayAdminister } from "../../shell/roles.ts";
import type { AuditEntry } from "../../shell/types.ts";

const PAGE_SIZE = 25;

/** The audit log of the account. */
export function Screen() {
  return (
    <Page title="Audit log">
      {mayAdminister() ? (
        <Entries />
      ) : (
        <EmptyState title="Your role does not include the audit log">
          Admins and owners of the account can read it.
        </EmptyState>
      )}
    </Page>
  );
}

function Entries() {
  const { list, page, next, previous } = usePaged<AuditEntry>("/audit-log", {}, PAGE_SIZE);
  const rows = list.data?.data;
  return (
    <section class="card" aria-busy={list.isLoading}>
      {list.error && !rows ? (
        <ErrorState what="The audit log" error={list.error} onRetry={list.reload} />
      ) : !rows ? (
        <TableSkeleton columns={["120px", "80px", "160px", "64px", "64px"]} rows={10} />
      ) : rows.length === 0 ? (
        <EmptyState title="No changes yet">
          Changes of people, keys, credits and settings of the account appear here, with the person who made them.
        </EmptyState>
      ) : (
        <>
          <AuditTable entries={rows} />
          <Pager page={page} shown={rows.length} next={next} previous={previous} />
        </>
      )}
    </section>
  );
}
