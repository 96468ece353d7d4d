import { useEffect, useRef, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { FileField, Options, Select } from "../../parts/field.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Banner } from "../../parts/states.tsx";
import { notify } from "../../parts/toast.tsx";
import { useAction } from "../../shell/action.ts";
import { fileFault, uploadFile } from "../../shell/files.ts";
import type { StoredFile } from "../../shell/types.ts";
import { PURPOSES, type Purpose } from "./purposes.ts";

const DAY_SECONDS = 24 * 60 * 60;

const LIFETIMES = [
  { value: "default", label: "Never" },
  { value: "1", label: "1 day" },
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
] as const;

/** Uploads a file. */
export function UploadDialog(props: { onClose: () => void; onUploaded: (file: StoredFile) => void }) {
  const [file, setFile] = useState<File | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const [purpose, setPurpose] = useState<Purpose>("user_data");
  const [lifetime, setLifetime] = useState<(typeof LIFETIMES)[number]["value"]>("default");
  const [share, setShare] = useState(0);
  const abort = useRef(new AbortController());
  const { isBusy, error, run } = useAction();
  useEffect(() => () => abort.current.abort(), []);
  const isBatch = purpose === "batch";
  const submit = () => {
    const found = fileFault(file, purpose);
    setFault(found);
    if (found || !file) return;
    const seconds = lifetime === "default" ? null : Number(lifetime) * DAY_SECONDS;
    setShare(0);
    run(async () => {
      const stored = await uploadFile(file, purpose, seconds, setShare, abort.current.signal);
      notify(`“${stored.filename}” uploaded`);
      props.onUploaded(stored);
      props.onClose();
    });
  };
  return (
    <Dialog
      title="Upload a file"
      onClose={props.onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={props.onClose}>{isBusy ? "Cancel the upload" : "Cancel"}</Button>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            Upload
          </Button>
        </>
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      <FileField
        label="File"
        file={file}
        error={fault}
        disabled={isBusy}
        hint={isBatch ? "JSON lines, one request a line; at most 50,000 lines and 200 MiB." : "At most 512 MiB."}
        onChange={(chosen) => {
          setFile(chosen);
          setFault(null);
          if (chosen.name.endsWith(".jsonl")) setPurpose("batch");
        }}
      />
      <Select
        label="Purpose"
        value={purpose}
        options={PURPOSES}
        disabled={isBusy}
        hint={
          isBatch
            ? "The gateway counts the requests of the file. A batch can name it."
            : "A label for lists. Requests can name the file with any purpose but Batch."
        }
        onChange={setPurpose}
      />
      <Options
        label="Delete after"
        value={lifetime}
        options={isBatch ? LIFETIMES.map((one) => (one.value === "default" ? { ...one, label: "Default" } : one)) : LIFETIMES}
        {...(isBatch && lifetime === "default" ? { hint: "A file for batches is stored for 30 days." } : {})}
        onChange={setLifetime}
      />
      {isBusy && <Progress label={share < 1 ? "Uploading" : "Storing"} share={share < 1 ? share : null} />}
    </Dialog>
  );
}
