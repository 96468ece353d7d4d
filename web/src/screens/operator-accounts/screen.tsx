import { useEffect, useState } from "preact/hooks";

import { Chip, Status, Table, Time, type Column, type Tone } from "../../parts/data.tsx";
import { Button } from "../../parts/button.tsx";
import { SearchField } from "../../parts/field.tsx";
import { Pager } from "../../parts/pager.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { count } from "../../shell/format.ts";
import { Page } from "../../shell/page.tsx";
import { usePaged } from "../../shell/paging.ts";
import { href, place, setParams } from "../../shell/router.ts";
import type { OperatorAccount } from "../../shell/types.ts";
import { AccountPage } from "./account.tsx";

const PAGE_SIZE = 25;
const TYPING_MS = 250;

const TONES: Record<string, Tone> = { active: "ok", suspended: "warn", closed: "bad" };

export function StateChip(props: { state: string }) {
  const tone = TONES[props.state];
  return (
    <Chip {...(tone ? { tone } : {})} dot>
      {capitalized(props.state)}
    </Chip>
  );
}

function capitalized(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

/** All accounts, or one of them. */
export function Screen() {
  const id = place.value.path.split("/")[2];
  return id ? <AccountPage key={id} id={decodeURIComponent(id)} /> : <AccountList />;
}

const COLUMNS: Column<OperatorAccount>[] = [
  {
    label: "Name",
    cell: (account) => (
      <a class="rowlink" href={href(`/accounts/${account.id}`)}>
        {account.name}
      </a>
    ),
  },
  {
    label: "State",
    cell: ({ state }) => {
      const tone = TONES[state];
      return (
        <Status {...(tone ? { tone } : {})} isQuiet={tone === "ok"}>
          {capitalized(state)}
        </Status>
      );
    },
  },
  { label: "Id", isOptional: true, cell: (account) => <code class="muted">{account.id}</code> },
  {
    label: "Requests per minute",
    isNumber: true,
    isOptional: true,
    cell: (account) => (account.rpm == null ? <span class="muted">Default</span> : count(account.rpm)),
  },
  { label: "Created", isNumber: true, cell: (account) => <Time at={account.created_at} /> },
];

function AccountList() {
  const name = place.value.params.get("name") ?? "";
  const [typed, setTyped] = useState(name);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (typed !== name) setParams({ name: typed || null });
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const { list, page, next, previous } = usePaged<OperatorAccount>("/accounts", name ? { name } : {}, PAGE_SIZE);
  const rows = list.data?.data;
  return (
    <Page title="Accounts">
      <div class="filters">
        <SearchField label="Search by name" value={typed} onInput={setTyped} />
      </div>
      <section class="card after-filters" aria-busy={list.isLoading}>
        {list.error && !rows ? (
          <ErrorState what="The list of accounts" error={list.error} onRetry={list.reload} />
        ) : !rows ? (
          <TableSkeleton columns={["140px", "72px", "220px", "64px"]} rows={10} />
        ) : rows.length === 0 && name ? (
          <EmptyState
            title={`No account name contains “${name}”`}
            action={<Button onClick={() => setTyped("")}>Show all</Button>}
          />
        ) : rows.length === 0 ? (
          <EmptyState title="No accounts yet">
            Create one on the server with <code>tollgate accounts create</code>.
          </EmptyState>
        ) : (
          <>
            <Table caption="Accounts" columns={COLUMNS} rows={rows} id={(account) => account.id} />
            <Pager page={page} shown={rows.length} next={next} previous={previous} />
          </>
        )}
      </section>
    </Page>
  );
}
