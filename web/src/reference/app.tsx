import { render, type ComponentType } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

import { Button } from "../parts/button.tsx";
import { EmptyState, ErrorState, Skeleton } from "../parts/states.tsx";
import { Toasts } from "../parts/toast.tsx";
import { fetchDocument, isOperator, setHooks, toApiError, type ApiError } from "../shell/api.ts";
import { openPalette, Palette, type Command } from "../shell/palette.tsx";
import { useResource } from "../shell/resource.ts";
import { followLink, href, navigate, place } from "../shell/router.ts";
import { loadSession, setSession } from "../shell/session.ts";
import { StepUp } from "../shell/step-up.tsx";
import { setTheme, theme, THEMES } from "../shell/theme.ts";
import { GuidesPage, guideTitle, type Guide } from "./guides.tsx";
import { Side, TopBar } from "./navigation.tsx";
import { readApi, simplify, type Api, type Operation } from "./openapi.ts";
import { OperationPage } from "./operation.tsx";
import { FamilyPage, HeadersPage, OverviewPage } from "./overview.tsx";
import { DocsPage } from "./page.tsx";
import type { Samples } from "./samples.ts";

/** A page that shows a Markdown document. */
export interface DocumentPageProps {
  /** Path of the document below the base, without the extension. */
  path: string;
  title: string;
  parent: { title: string; path: string };
  /** Whether a guide of this name exists. */
  hasGuide: (name: string) => boolean;
  frame: typeof DocsPage;
}

export type DocumentLoader = () => Promise<{ DocumentPage: ComponentType<DocumentPageProps> }>;

interface Data {
  api: Api;
  samples: Samples;
  guides: Guide[];
}

const DOCUMENT = isOperator ? "/admin/openapi.json" : "/openapi.json";

async function load(): Promise<Data> {
  const fetchJson = async <T,>(path: string): Promise<T> => (await (await fetchDocument(path)).json()) as T;
  const [source, samples, guides] = await Promise.all([
    fetchJson<Parameters<typeof readApi>[0]>(DOCUMENT),
    fetchJson<Samples>(href("/samples.json")),
    fetchJson<Guide[]>(href("/guides.json")),
  ]);
  return { api: readApi(source), samples, guides };
}

/** Draws the reference. `documents` loads the page of guides and error codes. */
export function start(documents: DocumentLoader): void {
  const root = document.getElementById("app");
  if (!root) return;
  setHooks({ signedOut: () => setSession(null) });
  document.addEventListener("click", followLink);
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const isTyping = target.isContentEditable || /^(input|textarea|select)$/i.test(target.tagName);
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    event.preventDefault();
    openPalette();
  });
  void loadSession();
  render(
    <>
      <App documents={documents} />
      <StepUp />
      <Toasts />
    </>,
    root,
  );
}

function App(props: { documents: DocumentLoader }) {
  const data = useResource<Data>("documentation", load);
  if (data.error) {
    return (
      <main class="boot">
        <ErrorState what="The documentation" error={data.error} onRetry={data.reload} />
      </main>
    );
  }
  return (
    <div class={isOperator ? "app docs-app operator" : "app docs-app"}>
      <a class="btn skip" href="#main">
        Skip to the content
      </a>
      {data.data ? (
        <>
          <Side {...data.data} />
          <TopBar {...data.data} />
        </>
      ) : (
        <aside class="side docs-side" aria-label="Documentation" />
      )}
      <main class="sheet" id="main" tabIndex={-1}>
        {data.data ? <Content data={data.data} documents={props.documents} /> : <Loading />}
      </main>
      <Palette label="Search operations, fields, guides and errors" commands={() => (data.data ? commands(data.data) : [])} />
    </div>
  );
}

function Loading() {
  return (
    <div class="page stack g24" aria-busy="true">
      <Skeleton width="40%" height={28} />
      <Skeleton width="100%" height={64} />
      <Skeleton width="100%" height={240} />
    </div>
  );
}

function Content(props: { data: Data; documents: DocumentLoader }) {
  const { api, samples, guides } = props.data;
  const { path } = place.value;
  const [, kind = "", name = ""] = path.split("/");
  const isKnown = (guide: string) => guides.some((one) => one.name === guide);
  if (path === "/") return <OverviewPage api={api} samples={samples} guides={guides} />;
  if (path === "/headers") return <HeadersPage api={api} />;
  if (path === "/guides") return <GuidesPage guides={guides} />;
  const operation = kind === "operations" ? api.operations.get(name) : undefined;
  if (operation) return <OperationPage key={operation.id} api={api} samples={samples} guides={guides} operation={operation} />;
  const family = kind === "families" ? api.families.find((one) => one.slug === name) : undefined;
  if (family) return <FamilyPage key={name} family={family} guides={guides} />;
  const overview = { title: isOperator ? "Admin API reference" : "API reference", path: "/" };
  if (path === "/errors") {
    return <Lazy key={path} load={props.documents} page={{ path: "/errors/index", title: "Errors", parent: overview, hasGuide: isKnown, frame: DocsPage }} />;
  }
  if (kind === "errors" && api.errors.some((one) => one.code === name)) {
    const parent = { title: "Errors", path: "/errors" };
    return <Lazy key={path} load={props.documents} page={{ path, title: name, parent, hasGuide: isKnown, frame: DocsPage }} />;
  }
  if (kind === "guides" && isKnown(name)) {
    const parent = { title: "Guides", path: "/guides" };
    return (
      <Lazy key={path} load={props.documents} page={{ path, title: guideTitle(guides, name), parent, hasGuide: isKnown, frame: DocsPage }} />
    );
  }
  return (
    <DocsPage title="Not found">
      <EmptyState title="This page does not exist" action={<Button onClick={() => navigate("/")}>Open the introduction</Button>}>
        Check the address, or search with the key /.
      </EmptyState>
    </DocsPage>
  );
}

let DocumentPage: ComponentType<DocumentPageProps> | null = null;

/** Shows a document; the module that reads Markdown loads with the first one. */
function Lazy(props: { load: DocumentLoader; page: DocumentPageProps }) {
  const [, setReady] = useState(DocumentPage !== null);
  const [error, setError] = useState<ApiError | null>(null);
  useLayoutEffect(() => {
    if (DocumentPage) return;
    props.load().then(
      (module) => {
        DocumentPage = module.DocumentPage;
        setReady(true);
      },
      (failure: unknown) => setError(toApiError(failure)),
    );
  }, []);
  useEffect(() => {
    document.title = `${props.page.title} · Tollgate API`;
  }, [props.page.title]);
  if (error) return <ErrorState what="The page" error={error} onRetry={() => location.reload()} />;
  return DocumentPage ? <DocumentPage {...props.page} /> : <Loading />;
}

/** Names of the fields of a request. The search finds the operation by them. */
function fieldNames(api: Api, operation: Operation): string {
  const parameters = operation.parameters.map((one) => one.name);
  const bodies = Object.values(operation.body ?? {}).map((content) => simplify(api, content.schema));
  const fields = bodies.flatMap((body) => [body, ...(body.oneOf ?? []).map((one) => simplify(api, one))]).flatMap((one) => Object.keys(one.properties ?? {}));
  return [...parameters, ...fields].join(" ");
}

let index: Command[] | null = null;

function commands(data: Data): Command[] {
  index ??= buildIndex(data);
  const themes = THEMES.filter((one) => one.value !== theme.value).map((one): Command => ({
    group: "Actions",
    label: `Use the ${one.label.toLowerCase()} theme`,
    icon: "theme",
    run: () => setTheme(one.value),
  }));
  return [...index, ...themes];
}

function buildIndex({ api, guides }: Data): Command[] {
  const go = (path: string) => () => navigate(path);
  const operations = api.families.flatMap((family) =>
    family.operations.map((one): Command => ({
      group: "Operations",
      label: `${one.verb.toUpperCase()} ${one.path}`,
      note: one.summary.replace(/[.:`].*/s, ""),
      keywords: `${one.id} ${one.id.replace(/_/g, " ")} ${family.name} ${one.aliases.join(" ")} ${one.summary} ${fieldNames(api, one)}`,
      icon: "braces",
      run: go(`/operations/${one.id}`),
    })),
  );
  const pages = [
    ["Introduction", "/"],
    ["Authentication", "/#authentication"],
    ["Errors", "/errors"],
    ["Response headers", "/headers"],
    ["All guides", "/guides"],
    ...api.families.map((family) => [family.name, `/families/${family.slug}`] as const),
  ].map(([label = "", path = ""]): Command => ({ group: "Pages", label, icon: "guide", run: go(path) }));
  const titles = guides.map((guide): Command => ({
    group: "Guides",
    label: guide.title,
    icon: "guide",
    keywords: guide.name,
    run: go(`/guides/${guide.name}`),
  }));
  const errors = api.errors.map((error): Command => ({
    group: "Errors",
    label: error.code,
    note: `${error.status} ${error.meaning}`.replace(/`/g, ""),
    icon: "warning",
    run: go(`/errors/${error.code}`),
  }));
  const headings = guides.flatMap((guide) => {
    const seen = new Map<string, number>();
    return guide.headings.map((heading): Command => {
      const id = headingId(heading);
      const count = seen.get(id) ?? 0;
      seen.set(id, count + 1);
      return {
        group: "Sections of guides",
        label: heading,
        note: guide.title,
        icon: "guide",
        run: go(`/guides/${guide.name}#${id}${count > 0 ? `-${count}` : ""}`),
      };
    });
  });
  return [...pages, ...operations, ...titles, ...errors, ...headings];
}

/** Returns the id of a heading, as GitHub writes it. */
function headingId(heading: string): string {
  return heading.toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, "").replace(/ /g, "-");
}
