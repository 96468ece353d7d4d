import { useEffect, useRef, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Status, TableFrame } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Field, FileField, Options, Select } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Banner, Skeleton } from "../../parts/states.tsx";
import { notify } from "../../parts/toast.tsx";
import { useAction } from "../../shell/action.ts";
import { open, PUBLIC_API, request, toApiError } from "../../shell/api.ts";
import { fileFault, filePath, uploadFile } from "../../shell/files.ts";
import { count, plural } from "../../shell/format.ts";
import { useResource } from "../../shell/resource.ts";
import { account } from "../../shell/session.ts";
import type { Batch, List, StoredFile } from "../../shell/types.ts";
import { CHECKED_BYTES, checkLines, ENDPOINTS, type Check, type Endpoint } from "./lines.ts";

const MAX_LISTED_FILES = 100;

const SOURCES = [
  { value: "upload", label: "Upload a file" },
  { value: "stored", label: "Uploaded file" },
] as const;

/** Creates a batch from a file of requests, whose first lines are checked before. */
export function CreateDialog(props: { fileId: string | null; onClose: () => void; onCreated: (batch: Batch) => void }) {
  const [source, setSource] = useState<(typeof SOURCES)[number]["value"]>(props.fileId ? "stored" : "upload");
  const [file, setFile] = useState<File | null>(null);
  const [chosen, setChosen] = useState(props.fileId ?? "");
  const [fault, setFault] = useState<string | null>(null);
  const [endpoint, setEndpoint] = useState<Endpoint | null>(null);
  const [maxCost, setMaxCost] = useState("");
  const [costFault, setCostFault] = useState<string | null>(null);
  const [local, setLocal] = useState<Check | null>(null);
  const [share, setShare] = useState<number | null>(null);
  const abort = useRef(new AbortController());
  const { isBusy, error, run } = useAction();
  useEffect(() => () => abort.current.abort(), []);

  const files = useResource(account.value?.id ?? null, (signal) =>
    request<List<StoredFile>>("GET", `${PUBLIC_API}/files?purpose=batch&limit=${MAX_LISTED_FILES}`, { account: true, signal }),
  );
  const stored = files.data?.data ?? [];
  const selected = chosen || (stored[0]?.id ?? "");
  const remote = useResource(source === "stored" && selected ? selected : null, (signal) => checkStored(selected, signal));
  const check = source === "upload" ? local : remote.data;
  const found = endpoint ?? check?.endpoint ?? ENDPOINTS[0].value;

  const take = (next: File) => {
    setFile(next);
    setFault(null);
    setLocal(null);
    setEndpoint(null);
    void next
      .slice(0, CHECKED_BYTES)
      .text()
      .then((text) => setLocal(checkLines(text, next.size <= CHECKED_BYTES)));
  };
  const submit = () => {
    const fileError = source === "upload" ? fileFault(file, "batch") : selected ? null : "Upload a file first.";
    const costError = maxCost.trim() && !/^\d+(\.\d{1,12})?$/.test(maxCost.trim()) ? "Enter credits, such as 2.50." : null;
    setFault(fileError);
    setCostFault(costError);
    if (fileError || costError) return;
    run(async () => {
      let input = selected;
      if (source === "upload" && file) {
        setShare(0);
        input = (await uploadFile(file, "batch", null, setShare, abort.current.signal)).id;
        // A second attempt uses the file that is already stored.
        setChosen(input);
        setSource("stored");
        files.reload();
      }
      setShare(null);
      const batch = await request<Batch>("POST", `${PUBLIC_API}/batches`, {
        account: true,
        body: { input_file_id: input, endpoint: found, completion_window: "24h" },
        headers: maxCost.trim() ? { "x-max-cost": maxCost.trim() } : {},
      });
      notify(batch.status === "failed" ? "The file has faults. The batch has not started." : "Batch created");
      props.onCreated(batch);
    });
  };

  return (
    <Dialog
      title="Create a batch"
      size="large"
      onClose={props.onClose}
      onSubmit={submit}
      footer={
        <>
          <span class="muted t12 grow wideonly">Each request costs 65 % of its price.</span>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            Create batch
          </Button>
        </>
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      <Options label="Requests" value={source} options={SOURCES} onChange={setSource} />
      {source === "upload" ? (
        <FileField
          label="File"
          accept=".jsonl,.ndjson,application/jsonl,application/x-ndjson"
          file={file}
          error={fault}
          disabled={isBusy}
          hint="JSON lines, one request a line; at most 50,000 lines and 200 MiB. All requests use one model."
          onChange={take}
        />
      ) : files.error ? (
        <Banner kind="failure">{files.error.message}</Banner>
      ) : !files.data ? (
        <Skeleton width="100%" height={32} />
      ) : stored.length === 0 && !props.fileId ? (
        <p class="muted">No file has the purpose Batch. Upload one.</p>
      ) : (
        <Select
          label="File"
          value={selected}
          options={[
            ...stored.map((one) => ({ value: one.id, label: labelOf(one) })),
            ...(selected && !stored.some((one) => one.id === selected) ? [{ value: selected, label: selected }] : []),
          ]}
          onChange={(id) => {
            setChosen(id);
            setEndpoint(null);
          }}
        />
      )}
      {source === "stored" && remote.isLoading && selected && <Skeleton width="100%" height={72} />}
      {source === "stored" && remote.error && (
        <Banner kind="warning">The file could not be checked. {toApiError(remote.error).message}</Banner>
      )}
      {check && <CheckResult check={check} />}
      <div class="two">
        <Options label="Endpoint" value={found} options={ENDPOINTS} onChange={setEndpoint} />
        <Field
          label="Cost limit (optional)"
          name="max-cost"
          unit="credits"
          value={maxCost}
          error={costFault}
          hint="A batch that may cost more is refused."
          onInput={(value) => {
            setMaxCost(value);
            setCostFault(null);
          }}
        />
      </div>
      {isBusy && share !== null && <Progress label={share < 1 ? "Uploading" : "Storing"} share={share < 1 ? share : null} />}
    </Dialog>
  );
}

function labelOf(file: StoredFile): string {
  return file.lines == null ? file.filename : `${file.filename}, ${plural(file.lines, "request")}`;
}

async function checkStored(id: string, signal: AbortSignal): Promise<Check> {
  const response = await open("GET", `${filePath(id)}/content`, {
    account: true,
    signal,
    headers: { range: `bytes=0-${CHECKED_BYTES - 1}` },
  });
  const text = await response.text();
  const total = Number(response.headers.get("content-range")?.split("/")[1] ?? "0");
  return checkLines(text, total <= CHECKED_BYTES);
}

function CheckResult(props: { check: Check }) {
  const { lines, faults } = props.check;
  if (lines.length === 0) return <Banner kind="warning">The file begins with no request.</Banner>;
  // Faults first; then the first valid lines.
  const shown = [...lines.filter((line) => line.fault), ...lines.filter((line) => !line.fault)].slice(0, 5);
  return (
    <section class="stack" aria-label="Check of the first lines">
      <div class="row between" role="status">
        <span class="lab">First {plural(lines.length, "request")}</span>
        {faults > 0 ? (
          <Status tone="bad">{plural(faults, "fault")}</Status>
        ) : (
          <Status tone="ok" isQuiet>
            No faults found
          </Status>
        )}
      </div>
      <div class="card">
        <TableFrame label="First requests">
          <table class="dense">
            <caption class="sr">First requests</caption>
            <thead>
              <tr>
                <th scope="col" class="n">
                  Line
                </th>
                <th scope="col">custom_id</th>
                <th scope="col" class="opt">
                  Model
                </th>
                <th scope="col">Check</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((line) => (
                <tr key={line.number}>
                  <td class="n">{count(line.number)}</td>
                  <td>
                    <code class="clip trunc">{line.customId ?? "–"}</code>
                  </td>
                  <td class="opt">
                    <span class="clip trunc">{line.model ?? "–"}</span>
                  </td>
                  <td class="w">
                    {line.fault ? (
                      <span class="bad">{line.fault}</span>
                    ) : (
                      <span class="ok">
                        <Icon name="check" />
                        <span class="sr">Valid</span>
                      </span>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableFrame>
      </div>
      {faults > 0 && <p class="hint">A file with faults becomes a failed batch, which costs nothing.</p>}
    </section>
  );
}
