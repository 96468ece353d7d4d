import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { ConfirmDialog } from "../../parts/confirm.tsx";
import { Chip, Meter, Table, Time, type Column } from "../../parts/data.tsx";
import { Detail, Split } from "../../parts/detail.tsx";
import { Filter } from "../../parts/filter.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Menu, type MenuItem } from "../../parts/menu.tsx";
import { Pager } from "../../parts/pager.tsx";
import { EmptyState, ErrorState, Skeleton, TableSkeleton } from "../../parts/states.tsx";
import { notify, notifyFailure } from "../../parts/toast.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { count, dateTime, fromSeconds, plural, size } from "../../shell/format.ts";
import { downloadFile, filePath } from "../../shell/files.ts";
import { Page } from "../../shell/page.tsx";
import { usePaged } from "../../shell/paging.ts";
import { useResource } from "../../shell/resource.ts";
import { mayMakeCalls, mayReadContents } from "../../shell/roles.ts";
import { href, navigate, place, setParams } from "../../shell/router.ts";
import { account } from "../../shell/session.ts";
import type { AccountLimit, List, StoredFile } from "../../shell/types.ts";
import { BATCH_OUTPUT, PURPOSES, purposeLabel } from "./purposes.ts";
import { UploadDialog } from "./upload.tsx";

const PAGE_SIZE = 25;

const FILTERS = [...PURPOSES, BATCH_OUTPUT];

/** Files of the account. */
export function Screen() {
  const { params } = place.value;
  const purpose = FILTERS.find((one) => one.value === params.get("purpose"))?.value ?? "";
  const { list, page, next, previous } = usePaged<StoredFile>(
    `${PUBLIC_API}/files`,
    purpose ? { purpose } : {},
    PAGE_SIZE,
  );
  const limits = useResource(account.value?.id ?? null, (signal) =>
    request<List<AccountLimit>>("GET", "/limits", { account: true, signal }),
  );
  const [deleting, setDeleting] = useState<StoredFile | null>(null);
  const rows = list.data?.data;
  const mayChange = mayMakeCalls();
  const isUploading = params.has("upload") && mayChange;
  const opened = params.get("file");
  const close = () => setParams({ file: null });
  const upload = mayChange && (
    <Button kind="primary" icon="upload" onClick={() => setParams({ upload: "1" })}>
      Upload
    </Button>
  );
  const reload = () => {
    list.reload();
    limits.reload();
  };
  return (
    <Page title="Files" isFlush action={upload}>
      <Split
        detail={
          opened && (
            <FileDetail
              key={opened}
              id={opened}
              known={rows?.find((file) => file.id === opened)}
              onClose={close}
              onDelete={setDeleting}
            />
          )
        }
      >
        <div class="filters wrap">
          <Filter label="Purpose" value={purpose} options={FILTERS} onChange={(value) => setParams({ purpose: value })} />
          <Usage limits={limits.data?.data ?? []} />
        </div>
        <div class="rows">
          {list.error && !rows ? (
            <ErrorState what="The files" error={list.error} onRetry={list.reload} />
          ) : !rows ? (
            <TableSkeleton columns={["200px", "80px", "64px", "72px", "72px"]} rows={10} />
          ) : rows.length === 0 && purpose ? (
            <EmptyState
              title={`No file has the purpose ${purposeLabel(purpose)}`}
              action={<Button onClick={() => setParams({ purpose: null })}>Show all files</Button>}
            />
          ) : rows.length === 0 ? (
            <EmptyState title="No files yet">
              Upload a file once, and name its id in any number of requests. A file of requests can run as a{" "}
              <a href={href("/batches")}>batch</a>.
            </EmptyState>
          ) : (
            <Table
              caption="Files"
              columns={columnsOf(setDeleting)}
              rows={rows}
              id={(file) => file.id}
              isSelected={(file) => file.id === opened}
            />
          )}
        </div>
        {rows && <Pager page={page} shown={rows.length} next={next} previous={previous} />}
      </Split>
      {isUploading && <UploadDialog onClose={() => setParams({ upload: null })} onUploaded={reload} />}
      {deleting && (
        <ConfirmDialog
          title={`Delete “${deleting.filename}”?`}
          action="Delete file"
          onClose={() => setDeleting(null)}
          onConfirm={async () => {
            await request("DELETE", filePath(deleting.id), { account: true });
            notify(`“${deleting.filename}” deleted`);
            setDeleting(null);
            if (opened === deleting.id) close();
            reload();
          }}
        >
          Requests can no longer name the file, and its bytes are deleted within a minute. This cannot be undone.
        </ConfirmDialog>
      )}
    </Page>
  );
}

/** Number and size of the stored files, beside their limits. */
function Usage(props: { limits: AccountLimit[] }) {
  const files = props.limits.find((one) => one.name === "files");
  const space = props.limits.find((one) => one.name === "files_gib");
  if (!files || files.used === null) return null;
  return (
    <span class="end row g12">
      <span class="short">
        <Meter
          used={files.limit > 0 ? files.used / files.limit : 1}
          label={`${count(files.used)} of ${plural(files.limit, "file")}`}
        />
      </span>
      <span class="muted t12 num">
        {count(files.used)} of {plural(files.limit, "file")}
        {space?.used != null && `, ${space.used < 10 ? space.used.toFixed(1) : count(Math.round(space.used))} of ${count(space.limit)} GiB`}
      </span>
    </span>
  );
}

function saveFile(file: StoredFile): void {
  notify(`Downloading “${file.filename}”`);
  downloadFile(file.id, file.filename).catch((error: unknown) => notifyFailure("The file was not downloaded", error));
}

function createBatch(file: StoredFile): void {
  navigate(`/batches?create=1&file=${encodeURIComponent(file.id)}`);
}

function addressOf(file: StoredFile): string {
  const query = new URLSearchParams(place.value.params);
  query.set("file", file.id);
  return href(`/files?${query.toString()}`);
}

function columnsOf(onDelete: (file: StoredFile) => void): Column<StoredFile>[] {
  return [
    {
      label: "Name",
      cell: (file) => (
        <span class="filename">
          <a class="rowlink trunc" href={addressOf(file)} title={file.filename}>
            {file.filename}
          </a>
        </span>
      ),
    },
    { label: "Purpose", isOptional: true, cell: (file) => <Chip>{purposeLabel(file.purpose)}</Chip> },
    { label: "Size", isNumber: true, cell: (file) => size(file.bytes) },
    {
      label: "Requests",
      isNumber: true,
      isOptional: true,
      cell: (file) => (file.lines == null ? <span class="muted">–</span> : count(file.lines)),
    },
    { label: "Created", isOptional: true, cell: (file) => <Time at={fromSeconds(file.created_at)} /> },
    {
      label: "Expires",
      isOptional: true,
      cell: (file) => <Time at={file.expires_at ? fromSeconds(file.expires_at) : null} />,
    },
    {
      label: "Actions",
      isHidden: true,
      isNumber: true,
      cell: (file) => {
        const items = actionsOf(file, onDelete);
        return (
          items.length > 0 && (
            <Menu class="btn sm sq bare" isIcon label={`Actions for ${file.filename}`} items={items}>
              <Icon name="more" />
            </Menu>
          )
        );
      },
    },
  ];
}

function actionsOf(file: StoredFile, onDelete: (file: StoredFile) => void): MenuItem[] {
  return [
    ...(mayReadContents()
      ? [{ label: "Download", icon: "download" as const, onSelect: () => saveFile(file) }]
      : []),
    ...(mayMakeCalls()
      ? [
          ...(file.purpose === "batch"
            ? [{ label: "Create a batch", icon: "batches" as const, onSelect: () => createBatch(file) }]
            : []),
          {
            label: "Delete",
            icon: "remove" as const,
            isDanger: true,
            isFirstOfGroup: true,
            onSelect: () => onDelete(file),
          },
        ]
      : []),
  ];
}

function FileDetail(props: {
  id: string;
  known: StoredFile | undefined;
  onClose: () => void;
  onDelete: (file: StoredFile) => void;
}) {
  const loaded = useResource(props.known ? null : props.id, (signal) =>
    request<StoredFile>("GET", filePath(props.id), { account: true, signal }),
  );
  const file = props.known ?? loaded.data;
  if (!file) {
    return (
      <Detail title="File" onClose={props.onClose}>
        {loaded.error ? (
          <ErrorState what="The file" error={loaded.error} onRetry={loaded.reload} />
        ) : (
          <Skeleton width="100%" height={160} />
        )}
      </Detail>
    );
  }
  return (
    <Detail
      title={file.filename}
      note={
        <>
          <code class="breakable">{file.id}</code>
          <CopyButton text={file.id} label="Copy the file id" />
        </>
      }
      onClose={props.onClose}
      footer={
        mayReadContents() && (
          <>
            <Button icon="download" onClick={() => saveFile(file)}>
              Download
            </Button>
            {mayMakeCalls() && file.purpose === "batch" && (
              <Button icon="batches" onClick={() => createBatch(file)}>
                Create a batch
              </Button>
            )}
            {mayMakeCalls() && (
              <>
                <span class="end" />
                <Button kind="danger" onClick={() => props.onDelete(file)}>
                  Delete
                </Button>
              </>
            )}
          </>
        )
      }
    >
      <dl class="kv">
        <dt>Purpose</dt>
        <dd>{purposeLabel(file.purpose)}</dd>
        <dt>Size</dt>
        <dd class="num">
          {size(file.bytes)}
          {file.bytes >= 1024 && <span class="muted">, {plural(file.bytes, "byte")}</span>}
        </dd>
        {file.lines != null && (
          <>
            <dt>Requests</dt>
            <dd class="num">{count(file.lines)}</dd>
          </>
        )}
        <dt>Created</dt>
        <dd>{dateTime(fromSeconds(file.created_at))}</dd>
        <dt>Expires</dt>
        <dd>{file.expires_at ? dateTime(fromSeconds(file.expires_at)) : "Never"}</dd>
      </dl>
    </Detail>
  );
}
