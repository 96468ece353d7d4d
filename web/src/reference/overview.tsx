import { useLayoutEffect } from "preact/hooks";

import { Code } from "../parts/code.tsx";
import { isOperator } from "../shell/api.ts";
import { href, navigate } from "../shell/router.ts";
import { isSignedIn } from "../shell/session.ts";
import { Examples } from "./examples.tsx";
import { FamilyGuides, GuideLink, type Guide } from "./guides.tsx";
import { shortPath, typeOf, type Api, type Family, type Operation } from "./openapi.ts";
import { DocsPage } from "./page.tsx";
import { Line, Prose } from "./prose.tsx";
import type { Samples } from "./samples.ts";
import { Heading } from "./schema.tsx";
import { hasConsole, Verb } from "./try.tsx";

/** Opens the operation that an address of an older version names in its fragment. */
function useOldAddress(api: Api): void {
  useLayoutEffect(() => {
    const name = decodeURIComponent(location.hash.slice(1));
    const operation = api.operations.get(name);
    const family = api.families.find((one) => name === `group-${one.slug}`);
    if (operation) navigate(`/operations/${operation.id}`, { replace: true });
    else if (family) navigate(`/families/${family.slug}`, { replace: true });
    else if (name === "error-codes") navigate("/errors", { replace: true });
  }, []);
}

/** The first page: access, limits, errors and all families of operations. */
export function OverviewPage(props: { api: Api; samples: Samples; guides: Guide[] }) {
  const { api, guides } = props;
  useOldAddress(api);
  const first = api.operations.get("create_chat_completion");
  return (
    <DocsPage title={isOperator ? "Admin API reference" : "API reference"}>
      <div class="ref-op">
        <div class="stack ref-lead">
          <Prose text={api.description} />
          <dl class="kv">
            <dt>Address</dt>
            <dd>
              <code>{location.origin}</code>
            </dd>
            <dt>Version</dt>
            <dd>{api.version}</dd>
            <dt>Document</dt>
            <dd>
              <a href={isOperator ? "/admin/openapi.json" : "/openapi.json"} target="_blank">
                openapi.json
              </a>
            </dd>
            {api.support && (
              <>
                <dt>Support</dt>
                <dd>
                  <Contact address={api.support} />
                </dd>
              </>
            )}
          </dl>
        </div>
        <aside class="ref-side" aria-label="Examples">
          {isOperator ? (
            <Code language="Create a token" text={"tollgate admins create NAME --role owner\nexport TOLLGATE_ADMIN_TOKEN='…'\n"} />
          ) : (
            <Code language="Set the key" text={"export TOLLGATE_API_KEY='sk-…'\n"} />
          )}
          {first && <Examples api={api} samples={props.samples} operation={first} shown={0} onShow={() => undefined} isSingle />}
        </aside>
        <div class="ref-prose">
          <section aria-labelledby="authentication">
            <Heading id="authentication">Authentication</Heading>
            {isOperator ? <OperatorAccess /> : <CallerAccess guides={guides} />}
          </section>
          {!isOperator && (
            <section aria-labelledby="limits">
              <Heading id="limits">Limits</Heading>
              <p>
                An account has a limit of requests and a limit of tokens per minute, which all its keys share. The{" "}
                <code>x-ratelimit-*</code> <a href={href("/headers")}>headers</a> report what remains. A request beyond a
                limit returns 429{" "}
                <a href={href("/errors/rate_limit_exceeded")}>
                  <code>rate_limit_exceeded</code>
                </a>
                , is not executed and costs nothing: wait for the time in <code>retry-after</code>, then retry.{" "}
                <GuideLink name="limits" guides={guides} />
              </p>
            </section>
          )}
          <section aria-labelledby="errors">
            <Heading id="errors">Errors</Heading>
            <p>
              Every failure has an HTTP status, the header <code>x-request-id</code> and a body with a stable{" "}
              <code>code</code>. Each <a href={href("/errors")}>error code</a> has a page with its causes and remedies.
              Retry only the errors that the page marks, with exponential backoff and jitter.
            </p>
          </section>
          <section aria-labelledby="operations">
            <Heading id="operations">Operations</Heading>
            <ul class="ref-cards">
              {api.families.map((family) => (
                <li key={family.slug}>
                  <a class="ref-card" href={href(`/families/${family.slug}`)}>
                    <b>{family.name}</b>
                    <span class="muted t12">{family.description || paths(family)}</span>
                  </a>
                </li>
              ))}
            </ul>
          </section>
        </div>
      </div>
    </DocsPage>
  );
}

function CallerAccess(props: { guides: Guide[] }) {
  return (
    <div class="stack">
      <p>
        A request needs an API key, as <code>Authorization: Bearer</code> or as <code>x-api-key</code>. If it has both,{" "}
        <code>Authorization</code> takes precedence. Store keys on servers only, never in a web page or an app.{" "}
        <GuideLink name="keys" guides={props.guides} />
      </p>
      {hasConsole() && (
        <p>
          {isSignedIn.value ? (
            <a href="/console/keys">Create a key in the console</a>
          ) : (
            <a href="/console/sign-in">Sign in to the console to create a key</a>
          )}
        </p>
      )}
    </div>
  );
}

function OperatorAccess() {
  return (
    <p>
      A request needs the token of an administrator, as <code>Authorization: Bearer</code>. The role of the administrator
      determines what it may do, and the audit log records every change.
    </p>
  );
}

/** The contact of the operator: a link for web and e-mail addresses. */
function Contact(props: { address: string }) {
  const { address } = props;
  if (/^https?:\/\//.test(address)) {
    return (
      <a href={address} rel="noopener noreferrer" target="_blank">
        {address}
      </a>
    );
  }
  return /^[^\s@:]+@[^\s@:]+$/.test(address) ? <a href={`mailto:${address}`}>{address}</a> : <>{address}</>;
}

function paths(family: Family): string {
  return [...new Set(family.operations.map((one) => shortPath(one.path)))].slice(0, 3).join(", ");
}

/** A family of operations. */
export function FamilyPage(props: { family: Family; guides: Guide[] }) {
  const { family } = props;
  return (
    <DocsPage title={family.name}>
      <div class="ref-wide">
        <div class="stack ref-lead">
          {family.description && <p>{family.description}.</p>}
          <FamilyGuides family={family.name} guides={props.guides} />
        </div>
        <ul class="ref-list">
          {family.operations.map((operation) => (
            <OperationRow key={operation.id} operation={operation} />
          ))}
        </ul>
      </div>
    </DocsPage>
  );
}

function OperationRow(props: { operation: Operation }) {
  const { operation } = props;
  return (
    <li>
      <Verb verb={operation.verb} />
      <span class="stack g2">
        <a class="rowlink" href={href(`/operations/${operation.id}`)}>
          <code class="breakable">{operation.path}</code>
        </a>
        <span class="muted">
          <Line text={operation.summary} />
        </span>
      </span>
    </li>
  );
}

/** The headers of responses. */
export function HeadersPage(props: { api: Api }) {
  const { api } = props;
  return (
    <DocsPage title="Response headers">
      <ul class="ref-fields ref-wide">
        {api.headers.map(([name, header]) => (
          <li key={name} id={name} class="ref-field">
            <p class="ref-name">
              <code class="name">{name}</code>
              <span class="muted t12">{typeOf(api, header.schema)}</span>
            </p>
            <Prose text={header.description ?? ""} />
          </li>
        ))}
      </ul>
    </DocsPage>
  );
}
