import { useEffect, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { ConfirmDialog } from "../../parts/confirm.tsx";
import { Chip, Meter, Table, Time, type Column } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Field, SearchField } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Menu, type MenuItem } from "../../parts/menu.tsx";
import { Pager } from "../../parts/pager.tsx";
import { Banner, EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { notify, notifyFailure } from "../../parts/toast.tsx";
import { useAction } from "../../shell/action.ts";
import { request } from "../../shell/api.ts";
import { download } from "../../shell/download.ts";
import { count, size } from "../../shell/format.ts";
import { Page } from "../../shell/page.tsx";
import { usePaged } from "../../shell/paging.ts";
import { useResource } from "../../shell/resource.ts";
import { mayMakeCalls, mayReadContents } from "../../shell/roles.ts";
import { href, navigate } from "../../shell/router.ts";
import { account, role } from "../../shell/session.ts";
import type { List, Member } from "../../shell/types.ts";
import type { ChatList, ChatRecord } from "../playground/chat-types.ts";
import { chat, chatChanges, chatsChanged } from "../playground/conversation.ts";

const PAGE_SIZE = 25;

/** Milliseconds without a key press after which the list is searched. */
const SEARCH_MS = 250;

type Opened = { kind: "rename" | "delete"; chat: ChatRecord } | { kind: "delete-all" } | null;

/** Saved chats of the account. */
export function Screen() {
  return mayReadContents() ? (
    <Chats />
  ) : (
    <Page title="Chats">
      <EmptyState title="Your role does not include chats">
        Members, admins and owners can read the saved chats of the account.
      </EmptyState>
    </Page>
  );
}

function Chats() {
  const id = account.value?.id ?? null;
  const [query, setQuery] = useState("");
  const search = useDelayed(query.trim(), SEARCH_MS);
  const { list, page, next, previous } = usePaged<ChatRecord>("/chats", search ? { search } : {}, PAGE_SIZE);
  const members = useResource(id, (signal) => request<List<Member>>("GET", "/members", { account: true, signal }));
  const [opened, setOpened] = useState<Opened>(null);
  const changes = chatChanges.value;
  useEffect(() => {
    if (changes > 0) list.reload();
  }, [changes]);
  const names = new Map((members.data?.data ?? []).map((member) => [member.id, member.name || member.email]));
  const found = list.data as ChatList | null;
  const rows = found?.data;
  const mayChange = mayMakeCalls();
  const isManager = role.value === "owner" || role.value === "admin";
  const close = () => setOpened(null);

  const columns: Column<ChatRecord>[] = [
    {
      label: "Title",
      cell: (row) => (
        <>
          <a class="rowlink trunc chattitle" href={href(`/playground?chat=${row.id}`)}>
            {row.title || "Untitled"}
          </a>
          <span class="narrow muted t12">{row.models.join(", ")}</span>
        </>
      ),
    },
    { label: "Models", isOptional: true, cell: (row) => <Models models={row.models} /> },
    { label: "Turns", isNumber: true, cell: (row) => count(row.turns) },
    { label: "Size", isNumber: true, isOptional: true, cell: (row) => <span class="muted">{size(row.bytes)}</span> },
    {
      label: "Saved by",
      isOptional: true,
      cell: (row) =>
        (row.created_by && names.get(row.created_by)) || (
          <span class="muted">{members.data ? "Removed member" : "–"}</span>
        ),
    },
    { label: "Changed", cell: (row) => <Time at={row.updated_at} /> },
    {
      label: "Actions",
      isHidden: true,
      isNumber: true,
      cell: (row) => {
        const items = actionsOf(row, mayChange, isManager, setOpened);
        return (
          items.length > 0 && (
            <Menu class="btn sm sq bare" isIcon label={`Actions for ${row.title}`} items={items}>
              <Icon name="more" />
            </Menu>
          )
        );
      },
    },
  ];

  return (
    <Page
      title="Chats"
      action={
        mayChange && (
          <Button kind="primary" icon="plus" onClick={() => navigate("/playground?new=1")}>
            New chat
          </Button>
        )
      }
    >
      <p class="muted t14 lead">
        Chats belong to the account: its members, admins and owners read all of them, and so do its keys. Viewers and billing
        do not. Only the person who saved a chat, admins and owners change it.
      </p>
      <div class="filters wrap">
        <SearchField label="Title" value={query} onInput={setQuery} />
        <span class="end row g12 counted">
          {found && <Used count={found.count} limit={found.limit} />}
          {found && found.count > 0 && (
            <Menu
              class="btn sm sq bare"
              isIcon
              label="All chats"
              items={[
                {
                  label: "Export all chats",
                  icon: "download",
                  onSelect: () => {
                    download("/chats/export", "chats.jsonl").catch((error: unknown) => notifyFailure("Not exported", error));
                  },
                },
                ...(mayChange
                  ? [
                      {
                        label: isManager ? "Delete all chats" : "Delete my chats",
                        icon: "remove" as const,
                        isDanger: true,
                        isFirstOfGroup: true,
                        onSelect: () => setOpened({ kind: "delete-all" }),
                      },
                    ]
                  : []),
              ]}
            >
              <Icon name="more" />
            </Menu>
          )}
        </span>
      </div>
      <section class="card after-filters">
        {list.error && !rows ? (
          <ErrorState what="The chats" error={list.error} onRetry={list.reload} />
        ) : !rows ? (
          <TableSkeleton columns={["220px", "120px", "32px", "56px", "96px", "72px"]} />
        ) : rows.length === 0 ? (
          <NoChats search={search} onReset={() => setQuery("")} mayChange={mayChange} />
        ) : (
          <>
            <Table caption="Saved chats" columns={columns} rows={rows} id={(row) => row.id} />
            <Pager page={page} shown={rows.length} next={next} previous={previous} />
          </>
        )}
      </section>
      {opened?.kind === "rename" && <RenameDialog chat={opened.chat} onClose={close} />}
      {opened?.kind === "delete" && (
        <ConfirmDialog
          title={`Delete “${opened.chat.title}”?`}
          action="Delete chat"
          onClose={close}
          onConfirm={async () => {
            await request("DELETE", `/chats/${opened.chat.id}`, { account: true });
            forget(opened.chat.id);
            notify("Chat deleted");
            close();
          }}
        >
          The chat is deleted immediately, for all people in the account. Its calls stay in Calls.
        </ConfirmDialog>
      )}
      {opened?.kind === "delete-all" && (
        <ConfirmDialog
          title={isManager ? "Delete all chats of the account?" : "Delete all your chats?"}
          action="Delete chats"
          onClose={close}
          onConfirm={async () => {
            const { deleted } = await request<{ deleted: number }>("DELETE", "/chats", { account: true });
            forget(null);
            notify(`${count(deleted)} chats deleted`);
            close();
          }}
        >
          {isManager
            ? "The chats of all people in the account are deleted immediately. Export them first to retain a copy."
            : "The chats that you have saved are deleted immediately. Export them first to retain a copy."}
        </ConfirmDialog>
      )}
    </Page>
  );
}

/** Ends the chat of the playground if it was deleted, so that it is not saved again. */
function forget(id: string | null): void {
  const shown = chat.peek();
  const isDeleted = id === null ? shown.isSaved : shown.id === id;
  if (isDeleted) {
    shown.discard();
    shown.record.value = null;
    shown.turns.value = [];
    chat.value = shown.branch();
    chat.value.title.value = "";
  }
  chatsChanged();
}

function useDelayed(value: string, ms: number): string {
  const [delayed, setDelayed] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), ms);
    return () => clearTimeout(timer);
  }, [value]);
  return delayed;
}

function actionsOf(row: ChatRecord, mayChange: boolean, isManager: boolean, open: (opened: Opened) => void): MenuItem[] {
  if (!mayChange || (!isManager && row.created_by !== account.value?.member_id)) return [];
  return [
    { label: "Rename", icon: "edit", onSelect: () => open({ kind: "rename", chat: row }) },
    {
      label: "Delete",
      icon: "remove",
      isDanger: true,
      isFirstOfGroup: true,
      onSelect: () => open({ kind: "delete", chat: row }),
    },
  ];
}

function Models(props: { models: string[] }) {
  const [first, ...others] = props.models;
  if (!first) return <span class="muted">–</span>;
  return (
    <span class="row" title={props.models.join(", ")}>
      <span class="trunc">{first}</span>
      {others.length > 0 && <Chip>+ {others.length}</Chip>}
    </span>
  );
}

function Used(props: { count: number; limit: number }) {
  const text = `${count(props.count)} of ${count(props.limit)} chats`;
  return (
    <>
      <span class="short">
        <Meter used={props.limit > 0 ? props.count / props.limit : 1} label={`${text} saved`} />
      </span>
      <span class="muted t12 num" role="status">
        {text}
      </span>
    </>
  );
}

function NoChats(props: { search: string; onReset: () => void; mayChange: boolean }) {
  if (props.search) {
    return (
      <EmptyState title={`No title contains “${props.search}”`} action={<Button onClick={props.onReset}>Show all chats</Button>} />
    );
  }
  return (
    <EmptyState
      title="No saved chats yet"
      action={
        props.mayChange && (
          <Button icon="plus" onClick={() => navigate("/playground?new=1")}>
            Start a chat
          </Button>
        )
      }
    >
      Chats of the playground save themselves after each turn, unless they are temporary.
    </EmptyState>
  );
}

function RenameDialog(props: { chat: ChatRecord; onClose: () => void }) {
  const [title, setTitle] = useState(props.chat.title);
  const [fault, setFault] = useState<string | null>(null);
  const { isBusy, error, run } = useAction();
  return (
    <Dialog
      title="Rename the chat"
      size="small"
      onClose={props.onClose}
      onSubmit={() => {
        const name = title.trim();
        setFault(name ? null : "Enter a title.");
        if (!name) return;
        run(async () => {
          await request("PATCH", `/chats/${props.chat.id}`, { body: { title: name }, account: true });
          if (chat.peek().id === props.chat.id) chat.peek().title.value = name;
          notify("Chat renamed");
          chatsChanged();
          props.onClose();
        });
      }}
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            Rename
          </Button>
        </>
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      <Field label="Title" value={title} maxLength={200} error={fault} autoFocus onInput={setTitle} />
    </Dialog>
  );
}
