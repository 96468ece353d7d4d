import { useState } from "preact/hooks";

import { Button } from "../parts/button.tsx";
import { Chip } from "../parts/data.tsx";
import { isOperator } from "../shell/api.ts";
import { href } from "../shell/router.ts";
import { Examples } from "./examples.tsx";
import type { Api, ErrorCode, Operation, Parameter, Reply } from "./openapi.ts";
import { DocsPage } from "./page.tsx";
import { Line, Prose } from "./prose.tsx";
import { samplesOf, type Samples } from "./samples.ts";
import { Disclosure, Fields, Heading, Parameters } from "./schema.tsx";
import { canTry, TryDialog, Verb } from "./try.tsx";
import { FamilyGuides, type Guide } from "./guides.tsx";

const TITLES = { path: "Path parameters", query: "Query parameters", header: "Request headers" };

/** An operation: its description, and beside it examples and responses. */
export function OperationPage(props: { api: Api; samples: Samples; guides: Guide[]; operation: Operation }) {
  const { api, operation } = props;
  const [shown, setShown] = useState(0);
  const [isTrying, setTrying] = useState(false);
  const family = api.families.find((one) => one.name === operation.family);
  const sample = samplesOf(api, props.samples, operation)[shown] ?? { title: "Example" };
  const description = operation.description === operation.summary ? "" : operation.description;
  const body = operation.body ? Object.entries(operation.body) : [];
  return (
    <DocsPage
      title={`${operation.verb.toUpperCase()} ${operation.path}`}
      heading={
        <span class="ref-route">
          <Verb verb={operation.verb} />
          <code>{breakable(operation.path)}</code>
        </span>
      }
      {...(family ? { parent: { title: family.name, path: `/families/${family.slug}` } } : {})}
      action={
        canTry(operation) && (
          <Button kind="primary" onClick={() => setTrying(true)}>
            Try it
          </Button>
        )
      }
    >
      <div class="ref-op">
        <div class="stack ref-lead">
          <Prose text={operation.summary} />
          <Prose text={description} />
          {operation.isDeprecated && (
            <p>
              <Chip tone="warn">Deprecated</Chip>
            </p>
          )}
          {operation.aliases.length > 0 && (
            <p class="muted">
              Also at{" "}
              {operation.aliases.map((path, index) => (
                <>
                  {index > 0 && " and "}
                  <code key={path}>{path}</code>
                </>
              ))}
              .
            </p>
          )}
          {!operation.needsKey && <p class="muted">Needs no API key.</p>}
          <FamilyGuides family={operation.family} guides={props.guides} />
        </div>
        <aside class="ref-side" aria-label="Examples">
          <Examples api={api} samples={props.samples} operation={operation} shown={shown} onShow={setShown} />
        </aside>
        <div class="ref-prose">
          <ParameterSection api={api} operation={operation} place="path" />
          <ParameterSection api={api} operation={operation} place="query" />
          {body.map(([type, content]) => (
            <section key={type} aria-labelledby="request-body">
              <Heading id="request-body">Request body</Heading>
              <p class="muted t12">
                <code>{type}</code>
                {operation.isBodyRequired ? "" : ", optional"}
              </p>
              <Fields api={api} schema={content.schema} anchor="body" />
            </section>
          ))}
          <ParameterSection api={api} operation={operation} place="header" />
          <section aria-labelledby="responses">
            <Heading id="responses">Responses</Heading>
            {operation.replies.map(([status, reply]) => (
              <ReplyView key={status} api={api} status={status} reply={reply} />
            ))}
          </section>
          <Errors api={api} failures={operation.failures} />
        </div>
      </div>
      {isTrying && <TryDialog key={shown} api={api} operation={operation} sample={sample} onClose={() => setTrying(false)} />}
    </DocsPage>
  );
}

function ParameterSection(props: { api: Api; operation: Operation; place: Parameter["in"] }) {
  const { place } = props;
  const parameters = props.operation.parameters.filter((one) => one.in === place);
  if (parameters.length === 0) return null;
  return (
    <section aria-labelledby={`${place}-parameters`}>
      <Heading id={`${place}-parameters`}>{TITLES[place]}</Heading>
      <Parameters api={props.api} parameters={parameters} />
    </section>
  );
}

/** Lets the browser break a path after its slashes. */
function breakable(path: string) {
  return path.split(/(?<=\/)/).map((part, index) => (
    <>
      {index > 0 && <wbr key={index} />}
      {part}
    </>
  ));
}

function ReplyView(props: { api: Api; status: string; reply: Reply }) {
  const { api, status, reply } = props;
  const contents = Object.entries(reply.content ?? {});
  const headers = Object.keys(reply.headers ?? {});
  return (
    <div class="stack ref-reply">
      <p>
        <b class="ok num">{status}</b> <Line text={reply.description ?? ""} />
      </p>
      {contents.map(([type, content]) => (
        <Disclosure key={type} label={type} isOpen={contents[0]?.[0] === type && !!content.schema}>
          {() => <Fields api={api} schema={content.schema} anchor={`response-${status}`} depth={1} />}
        </Disclosure>
      ))}
      {headers.length > 0 && (
        <Disclosure label="Response headers">
          {() => (
            <p class="ref-names">
              {headers.map((name) => (
                <a key={name} href={href(`/headers#${name}`)}>
                  <code>{name}</code>
                </a>
              ))}
            </p>
          )}
        </Disclosure>
      )}
    </div>
  );
}

/** Error codes that only sessions receive, which no caller with a key sees. */
const SESSION_ONLY = ["invalid_session", "key_limit_reached", "gpu_limit_exceeded", "agent_limit_reached"];

function Errors(props: { api: Api; failures: number[] }) {
  const codes = props.api.errors.filter(
    (one) => props.failures.includes(one.status) && (isOperator || !SESSION_ONLY.includes(one.code)),
  );
  if (codes.length === 0) return null;
  return (
    <section aria-labelledby="errors">
      <Heading id="errors">Errors</Heading>
      <ul class="ref-errors">
        {codes.map((one) => (
          <ErrorRow key={one.code} error={one} />
        ))}
      </ul>
    </section>
  );
}

function ErrorRow(props: { error: ErrorCode }) {
  const { error } = props;
  return (
    <li>
      <span class="num muted">{error.status}</span>
      <span>
        <a href={href(`/errors/${error.code}`)}>
          <code>{error.code}</code>
        </a>
        <span class="muted t12">
          {" "}
          <Line text={error.meaning} />
        </span>
      </span>
    </li>
  );
}
