import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Chip } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Markdown, Marks } from "../../parts/markdown.tsx";
import { ErrorState, Skeleton } from "../../parts/states.tsx";
import { open, PUBLIC_API } from "../../shell/api.ts";
import { externalLink } from "../../shell/download.ts";
import { count, plural } from "../../shell/format.ts";
import { useResource } from "../../shell/resource.ts";
import type { Job } from "../../shell/types.ts";

/** Characters before and after a quote that the source shows. */
const CONTEXT = 400;

interface Citation {
  id: number;
  source_id: string;
  url: string;
  title: string;
  date: string | null;
  /** Passage of the source; null if the gateway found none that supports the statement. */
  quote: string | null;
  start: number | null;
  end: number | null;
  match: string | null;
  verified: boolean;
}

interface Source {
  id: string;
  url: string;
  title: string;
  author: string | null;
  date: string | null;
  characters: number;
  cited: boolean;
  flags: string[];
}

interface Report {
  report: string;
  citations: Citation[];
  sources: Source[];
  stats: { searches: number; pages: number; claims: number; verified: number; removed: number };
  stopped_by: string;
  degraded: boolean;
}

function isReport(value: unknown): value is Report {
  return value !== null && typeof value === "object" && typeof (value as Report).report === "string" && Array.isArray((value as Report).citations);
}

/** A research report whose citations open the quotes in the stored texts of their sources. */
export function ReportView(props: { job: Job }) {
  const [opened, setOpened] = useState<Citation | null>(null);
  const { result } = props.job;
  if (!isReport(result)) return null;
  const { stats } = result;
  const unverified = stats.claims - stats.verified - stats.removed;
  return (
    <article class="report" aria-label="Report">
      <ReportText report={result} onOpen={setOpened} />
      <p class="muted t12">
        {plural(stats.verified, "verified statement")}
        {unverified > 0 && `, ${count(unverified)} not verified`}
        {stats.removed > 0 && `, ${count(stats.removed)} removed`} from {plural(result.sources.length, "source")};{" "}
        {plural(stats.searches, "search", "searches")}
        {result.degraded && ". A search or a call failed, so the report may be incomplete"}.
      </p>
      <SourceList sources={result.sources} />
      {opened && <QuoteDialog job={props.job.id} citation={opened} onClose={() => setOpened(null)} />}
    </article>
  );
}

/** The text of a report, with a button for each citation mark. */
function ReportText(props: { report: Report; onOpen: (citation: Citation) => void }) {
  const { citations, report } = props.report;
  const drawMark = (id: number) => {
    const citation = citations.find((one) => one.id === id);
    return citation ? <Mark key={id} citation={citation} onOpen={props.onOpen} /> : null;
  };
  return (
    <Marks.Provider value={drawMark}>
      <Markdown text={report} />
    </Marks.Provider>
  );
}

function Mark(props: { citation: Citation; onOpen: (citation: Citation) => void }) {
  const { citation } = props;
  const name = citation.title || citation.url;
  return (
    <button
      type="button"
      class={citation.verified ? "cite" : "cite open"}
      aria-label={`Citation ${citation.id}${citation.verified ? "" : ", not verified"}: ${name}`}
      title={name}
      onClick={() => props.onOpen(citation)}
    >
      {citation.id}
    </button>
  );
}

function SourceList(props: { sources: Source[] }) {
  if (props.sources.length === 0) return null;
  return (
    <details class="rsources">
      <summary>{plural(props.sources.length, "source")}</summary>
      <ul>
        {props.sources.map((source) => {
          const link = externalLink(source.url);
          return (
            <li key={source.id}>
              {link ? (
                <a href={link} target="_blank" rel="noopener noreferrer">
                  {source.title || source.url}
                </a>
              ) : (
                <span>{source.title || source.url}</span>
              )}
              <span class="muted t12 breakable">
                {[source.author, source.date, source.url].filter(Boolean).join(" · ")}
              </span>
              {!source.cited && <Chip>Not cited</Chip>}
              {source.flags.includes("unread") && source.cited && <Chip>Not read</Chip>}
              {source.flags.includes("injection_suspected") && <Chip tone="warn">Addresses the reader</Chip>}
            </li>
          );
        })}
      </ul>
    </details>
  );
}

/** A citation: its quote within the stored text of its source, or the reason why there is none. */
function QuoteDialog(props: { job: string; citation: Citation; onClose: () => void }) {
  const { citation, job } = props;
  const link = externalLink(citation.url);
  const match = citation.match === "exact" ? "verbatim" : citation.match;
  return (
    <Dialog title={citation.title || citation.url} onClose={props.onClose} footer={<Button onClick={props.onClose}>Close</Button>}>
      <p class="muted t12 breakable">
        {[citation.date, match].filter(Boolean).map((fact) => `${fact} · `)}
        {link ? (
          <a href={link} target="_blank" rel="noopener noreferrer">
            {citation.url} <Icon name="open" small />
          </a>
        ) : (
          citation.url
        )}
      </p>
      {citation.start === null || citation.end === null ? (
        <p>
          This citation is not verified: no passage of the page supports the statement, or the page could not be read.
        </p>
      ) : (
        <Quote job={job} citation={citation} start={citation.start} end={citation.end} />
      )}
    </Dialog>
  );
}

function Quote(props: { job: string; citation: Citation; start: number; end: number }) {
  const { citation, job } = props;
  const path = `${PUBLIC_API}/research/${encodeURIComponent(job)}/sources/${encodeURIComponent(citation.source_id)}`;
  const text = useResource(`${job}.${citation.id}`, async (signal) => {
    const response = await open("GET", path, { account: true, signal });
    return [...(await response.text())];
  });
  if (text.error) return <ErrorState what="The source" error={text.error} onRetry={text.reload} />;
  if (!text.data) return <Skeleton width="100%" height={120} />;
  return <Passage text={text.data} start={props.start} end={props.end} />;
}

function Passage(props: { text: string[]; start: number; end: number }) {
  const { text, start, end } = props;
  const from = Math.max(0, start - CONTEXT);
  const to = Math.min(text.length, end + CONTEXT);
  const part = (first: number, last: number) => text.slice(first, last).join("");
  return (
    <blockquote class="passage">
      {from > 0 && "… "}
      {part(from, start)}
      <mark>{part(start, end)}</mark>
      {part(end, to)}
      {to < text.length && " …"}
    </blockquote>
  );
}
