import { headingsOf, Markdown } from "./markdown.tsx";
import { ErrorState, Skeleton } from "../parts/states.tsx";
import type { DocumentPageProps } from "../reference/app.tsx";
import { fetchDocument } from "../shell/api.ts";
import { useResource } from "../shell/resource.ts";
import { href } from "../shell/router.ts";

/** Number of headings from which a page lists them. */
const MIN_HEADINGS = 3;

/** Number of headings above which a page lists only the top ones. */
const MAX_HEADINGS = 9;

/** A guide, or the page of an error code. */
export function DocumentPage(props: DocumentPageProps) {
  const address = `${href(props.path)}.md`;
  const text = useResource(address, async (signal) => (await fetchDocument(address, signal)).text());
  const Frame = props.frame;
  // The first heading is the title of the page.
  const body = text.data?.replace(/^# .*\n/, "") ?? "";
  const all = headingsOf(body);
  const tops = all.filter((one) => one.level === 2);
  // Few headings leave place for those below.
  const headings = tops.length > MAX_HEADINGS ? tops : all.filter((one) => one.level <= 3);
  return (
    <Frame key={text.data === null ? "loading" : "ready"} title={props.title} parent={props.parent}>
      {text.error ? (
        <ErrorState what="The page" error={text.error} onRetry={text.reload} />
      ) : text.data === null ? (
        <div class="stack g16" aria-busy="true">
          <Skeleton width="90%" height={20} />
          <Skeleton width="80%" height={20} />
          <Skeleton width="100%" height={160} />
        </div>
      ) : (
        <div class="ref-guide">
          <Markdown text={body} resolve={(target) => addressOf(props, target)} />
          {headings.length >= MIN_HEADINGS && (
            <nav class="ref-toc" aria-label="On this page">
              <p class="t12 muted">On this page</p>
              <ul>
                {headings.map((heading) => (
                  <li key={heading.id} class={heading.level > 2 ? "sub" : undefined}>
                    <a href={`#${heading.id}`}>{heading.text}</a>
                  </li>
                ))}
              </ul>
            </nav>
          )}
        </div>
      )}
    </Frame>
  );
}

/** Returns the address of a link in a document; null for files that are not part of the pages. */
function addressOf(page: DocumentPageProps, target: string): string | null {
  if (/^https?:\/\//.test(target) || target.startsWith("#")) return target;
  // The folder of the document in the repository.
  const folder = page.path.startsWith("/errors/") ? "/docs/errors/" : page.path.startsWith("/guides/operations-") ? "/docs/operations/" : "/docs/";
  const url = new URL(target, `${location.origin}${folder}`);
  const [, place = "", name = ""] = /^\/docs\/(?:(errors|operations)\/)?([\w-]+)\.md$/.exec(url.pathname) ?? [];
  if (!name) return null;
  if (place === "errors") return href(name === "README" ? "/errors" : `/errors/${name}`);
  const guide = place === "operations" ? `operations-${name}` : name;
  return page.hasGuide(guide) ? href(`/guides/${guide}`) + url.hash : null;
}
