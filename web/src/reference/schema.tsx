import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";

import { Icon } from "../parts/icon.tsx";
import { alternatives, fieldsOf, limitsOf, nameOf, simplify, typeOf, type Api, type Json, type Parameter, type Schema } from "./openapi.ts";
import { Line, Prose } from "./prose.tsx";

/** Depth at which nested fields no longer unfold: a schema may contain itself. */
const MAX_DEPTH = 12;

/** A heading with a link to it. */
export function Heading(props: { id: string; children: string }) {
  return (
    <h2 id={props.id} class="ref-h">
      {props.children}
      <a class="anchor" href={`#${props.id}`} aria-label={`Link to ${props.children}`}>
        <Icon name="link" small />
      </a>
    </h2>
  );
}

/** The parameters of an operation. */
export function Parameters(props: { api: Api; parameters: Parameter[] }) {
  return (
    <ul class="ref-fields">
      {props.parameters.map((one) => (
        <Field
          key={one.in + one.name}
          api={props.api}
          id={one.name}
          name={one.name}
          schema={one.schema ?? {}}
          description={one.description ?? ""}
          isRequired={one.required ?? false}
          depth={0}
        />
      ))}
    </ul>
  );
}

/** The fields of a body. `anchor` begins the ids of the fields, so that addresses can name them. */
export function Fields(props: { api: Api; schema: Schema | undefined; anchor: string; depth?: number }) {
  const { api, anchor } = props;
  const depth = props.depth ?? 0;
  const schema = simplify(api, props.schema);
  const choices = alternatives(schema);
  if (choices.length > 0) {
    return (
      <ul class="ref-choices">
        {choices.map((choice, index) => (
          <Choice key={index} api={api} schema={choice} anchor={`${anchor}-${index + 1}`} depth={depth} isOpen={index === 0 && depth === 0} />
        ))}
      </ul>
    );
  }
  const fields = fieldsOf(api, schema);
  if (!fields?.properties) return <p class="muted">{capitalized(typeOf(api, schema))}</p>;
  const required = fields.required ?? [];
  return (
    <ul class="ref-fields">
      {Object.entries(fields.properties).map(([name, field]) => (
        <Field
          key={name}
          api={api}
          id={`${anchor}-${name}`}
          name={name}
          schema={field}
          description={simplify(api, field).description ?? ""}
          isRequired={required.includes(name)}
          depth={depth}
        />
      ))}
    </ul>
  );
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** One of several shapes of a value. */
function Choice(props: { api: Api; schema: Schema; anchor: string; depth: number; isOpen: boolean }) {
  const { api, schema } = props;
  const description = simplify(api, schema).description ?? "";
  const hasFields = fieldsOf(api, schema) !== null;
  const name = nameOf(schema) ?? capitalized(typeOf(api, schema));
  return (
    <li>
      {hasFields ? (
        <Disclosure label={name} isOpen={props.isOpen} note={description}>
          {() => <Fields api={api} schema={schema} anchor={props.anchor} depth={props.depth + 1} />}
        </Disclosure>
      ) : (
        <p>
          <b class="strong5">{capitalized(typeOf(api, schema))}</b>
          {description && ". "}
          <Line text={description} />
        </p>
      )}
    </li>
  );
}

function Field(props: {
  api: Api;
  id: string;
  name: string;
  schema: Schema;
  description: string;
  isRequired: boolean;
  depth: number;
}) {
  const { api, id } = props;
  const schema = simplify(api, props.schema);
  const limits = limitsOf(api, schema);
  const hasDefault = schema.default !== undefined && schema.default !== null;
  const values = schema.enum ?? schema.items?.enum;
  const isNested = props.depth < MAX_DEPTH && hasNestedFields(api, schema);
  const linked = decodeURIComponent(location.hash.slice(1));
  return (
    <li id={id} class="ref-field">
      <p class="ref-name">
        <code class="name">{props.name}</code>
        <span class="muted t12">{typeWords(api, schema, id)}</span>
        {props.isRequired && <span class="warn t12">required</span>}
        <a class="anchor" href={`#${id}`} aria-label={`Link to ${props.name}`}>
          <Icon name="link" small />
        </a>
      </p>
      <Prose text={props.description} />
      {values && (
        <p class="t12 muted">
          One of{" "}
          {values.map((value, index) => (
            <>
              {index > 0 && ", "}
              <code key={index}>{plain(value)}</code>
            </>
          ))}
          .
        </p>
      )}
      {(limits.length > 0 || hasDefault) && (
        <p class="t12 muted">
          {capitalized(limits.join(", "))}
          {limits.length > 0 && hasDefault && " · "}
          {hasDefault && (
            <>
              Default <code>{plain(schema.default ?? null)}</code>
            </>
          )}
        </p>
      )}
      {isNested && (
        <Disclosure label={`Fields of ${props.name}`} isOpen={linked.startsWith(`${id}-`)}>
          {() => <Fields api={api} schema={nestedOf(api, schema)} anchor={id} depth={props.depth + 1} />}
        </Disclosure>
      )}
    </li>
  );
}

/** Returns the type of a field. In requests, null only means that an optional field is absent. */
function typeWords(api: Api, schema: Schema, id: string): string {
  const words = typeOf(api, schema);
  return id.startsWith("body-") ? words.replace(/ or null$/, "") : words;
}

function plain(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function nestedOf(api: Api, schema: Schema): Schema {
  const own = simplify(api, schema);
  if (alternatives(own).length > 0 || own.properties) return own;
  if (own.items) return nestedOf(api, own.items);
  if (typeof own.additionalProperties === "object") return nestedOf(api, own.additionalProperties);
  return own;
}

function hasNestedFields(api: Api, schema: Schema): boolean {
  const nested = nestedOf(api, schema);
  const choices = alternatives(nested);
  if (choices.length > 0) return choices.some((one) => hasNestedFields(api, one));
  return Object.keys(nested.properties ?? {}).length > 0;
}

/** A button that shows more. The content is only built when it is open. */
export function Disclosure(props: { label: string; note?: string; isOpen?: boolean; children: () => ComponentChildren }) {
  const [isOpen, setOpen] = useState(props.isOpen ?? false);
  const id = useId();
  return (
    <div class="ref-more">
      <button type="button" class="disclose" aria-expanded={isOpen} aria-controls={isOpen ? id : undefined} onClick={() => setOpen(!isOpen)}>
        <Icon name="right" small />
        <span class="strong5">{props.label}</span>
      </button>
      {props.note && (
        <p class="muted t12">
          <Line text={props.note} />
        </p>
      )}
      {isOpen && (
        <div id={id} class="nested">
          {props.children()}
        </div>
      )}
    </div>
  );
}
