// Reads the OpenAPI document.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export interface Schema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
  enum?: Json[];
  const?: Json;
  default?: Json;
  example?: Json;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
  contentMediaType?: string;
}

export interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  description?: string;
  required?: boolean;
  example?: Json;
  schema?: Schema;
}

export interface Content {
  schema?: Schema;
  example?: Json;
}

export interface Reply {
  description?: string;
  content?: Record<string, Content>;
  headers?: Record<string, unknown>;
}

interface Described {
  operationId?: string;
  tags?: string[];
  summary?: string;
  description?: string;
  deprecated?: boolean;
  security?: unknown[];
  parameters?: (Parameter & { $ref?: string })[];
  requestBody?: { required?: boolean; content?: Record<string, Content> };
  responses?: Record<string, Reply & { $ref?: string }>;
  "x-alias-of"?: string;
}

export interface ErrorCode {
  status: number;
  code: string;
  type: string;
  meaning: string;
  retry: string;
  billed: string;
}

interface Source {
  info: { title: string; description?: string; version: string };
  tags?: { name: string; description?: string }[];
  paths: Record<string, Record<string, Described>>;
  components?: {
    schemas?: Record<string, Schema>;
    responses?: Record<string, Reply>;
    headers?: Record<string, { description?: string; schema?: Schema }>;
    securitySchemes?: Record<string, unknown>;
  };
  "x-error-codes"?: ErrorCode[];
  "x-support"?: string;
}

export const METHODS = ["get", "post", "put", "patch", "delete"] as const;

export type Verb = (typeof METHODS)[number];

export interface Operation {
  id: string;
  verb: Verb;
  path: string;
  family: string;
  summary: string;
  description: string;
  isDeprecated: boolean;
  needsKey: boolean;
  parameters: Parameter[];
  /** Content of the request body by its type; null for requests without one. */
  body: Record<string, Content> | null;
  isBodyRequired: boolean;
  /** Successful responses, by status. */
  replies: [string, Reply][];
  /** Statuses of errors. */
  failures: number[];
  /** Other paths of the same operation. */
  aliases: string[];
}

export interface Family {
  slug: string;
  name: string;
  description: string;
  operations: Operation[];
}

/** The document in the form that the pages show. */
export interface Api {
  title: string;
  version: string;
  description: string;
  support: string | null;
  families: Family[];
  operations: Map<string, Operation>;
  errors: ErrorCode[];
  headers: [string, { description?: string; schema?: Schema }][];
  resolve: (schema: Schema | undefined) => Schema;
}

export function slug(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]+/g, "-");
}

export function readApi(source: Source): Api {
  const lookUp = <T>(reference: string): T | undefined =>
    reference
      .replace(/^#\//, "")
      .split("/")
      .reduce<unknown>((place, step) => (place as Record<string, unknown> | undefined)?.[step], source) as T | undefined;
  const families = new Map<string, Family>();
  const family = (name: string): Family => {
    const known = families.get(name);
    if (known) return known;
    const created = { slug: slug(name), name, description: "", operations: [] };
    families.set(name, created);
    return created;
  };
  for (const tag of source.tags ?? []) family(tag.name).description = tag.description ?? "";
  const operations = new Map<string, Operation>();
  const aliases: [Operation, string][] = [];
  for (const [path, item] of Object.entries(source.paths)) {
    for (const verb of METHODS) {
      const described = item[verb];
      if (!described) continue;
      const operation = readOperation(path, verb, described, lookUp);
      operations.set(operation.id, operation);
      const alias = described["x-alias-of"];
      if (alias) aliases.push([operation, alias]);
      else family(operation.family).operations.push(operation);
    }
  }
  for (const [operation, id] of aliases) {
    const target = operations.get(id);
    target?.aliases.push(operation.path);
    // A link to the alias shows the operation.
    if (target) operations.set(operation.id, target);
  }
  return {
    title: source.info.title,
    version: source.info.version,
    description: source.info.description ?? "",
    support: source["x-support"] ?? null,
    families: [...families.values()].filter((one) => one.operations.length > 0),
    operations,
    errors: source["x-error-codes"] ?? [],
    headers: Object.entries(source.components?.headers ?? {}),
    resolve(schema) {
      let found = schema;
      for (let depth = 0; found?.$ref && depth < 8; depth += 1) {
        const { $ref, ...own } = found;
        const target = lookUp<Schema>($ref);
        found = target ? { ...target, ...own } : own;
      }
      return found ?? {};
    },
  };
}

function readOperation(path: string, verb: Verb, described: Described, lookUp: <T>(reference: string) => T | undefined): Operation {
  const responses = Object.entries(described.responses ?? {}).map(([status, reply]): [string, Reply] => [
    status,
    reply.$ref ? (lookUp<Reply>(reply.$ref) ?? reply) : reply,
  ]);
  const isSuccess = ([status]: [string, Reply]) => /^[123]/.test(status);
  return {
    id: described.operationId ?? `${verb}${path.replace(/[^a-z0-9]+/gi, "_")}`,
    verb,
    path,
    family: described.tags?.[0] ?? "Other",
    summary: described.summary ?? "",
    description: described.description ?? "",
    isDeprecated: described.deprecated ?? false,
    needsKey: described.security?.length !== 0,
    parameters: (described.parameters ?? []).map((one) => (one.$ref ? (lookUp<Parameter>(one.$ref) ?? one) : one)),
    body: described.requestBody?.content ?? null,
    isBodyRequired: described.requestBody?.required ?? false,
    replies: responses.filter(isSuccess),
    failures: responses.filter((one) => !isSuccess(one) && /^\d+$/.test(one[0])).map(([status]) => Number(status)),
    aliases: [],
  };
}

/** Returns the alternatives of a schema, without `null`. */
export function alternatives(schema: Schema): Schema[] {
  return (schema.oneOf ?? schema.anyOf ?? []).filter((one) => one.type !== "null");
}

/** Returns a schema as its single alternative, if it has only one besides `null`. */
export function simplify(api: Api, schema: Schema | undefined): Schema {
  const resolved = api.resolve(schema);
  const [only, ...others] = alternatives(resolved);
  if (only && others.length === 0) {
    const inner = simplify(api, only);
    return resolved.description ? { ...inner, description: resolved.description } : inner;
  }
  if (resolved.allOf) {
    const parts = resolved.allOf.map((one) => simplify(api, one));
    const properties = Object.assign({}, ...parts.map((part) => part.properties ?? {})) as Record<string, Schema>;
    const required = parts.flatMap((part) => part.required ?? []);
    return { ...resolved, type: "object", properties, required };
  }
  return resolved;
}

/** Returns the words for a type, such as `array of strings`. */
export function typeOf(api: Api, schema: Schema | undefined, isPlural = false): string {
  const own = simplify(api, schema);
  const several = alternatives(own);
  if (several.length > 0) {
    return [...new Set(several.map((one) => typeOf(api, one, isPlural)))].join(" or ");
  }
  if (own.enum && !own.type) return isPlural ? "strings" : "string";
  const types = [own.type ?? (own.properties ? "object" : "any")].flat();
  const isNullable = types.includes("null");
  const words = types
    .filter((type) => type !== "null")
    .map((type) => {
      if (type === "array") return `${isPlural ? "arrays" : "array"} of ${typeOf(api, own.items, true)}`;
      if (type === "any") return isPlural ? "values" : "any value";
      if (type === "string" && own.format === "binary") return isPlural ? "files" : "file";
      if (type === "object" && typeof own.additionalProperties === "object") return `map of ${typeOf(api, own.additionalProperties, true)}`;
      return isPlural ? `${type}s` : type;
    });
  return words.join(" or ") + (isNullable && words.length > 0 && !isPlural ? " or null" : "");
}

/** Returns the schema with the fields of a value: of an object, or of the elements of an array or map. */
export function fieldsOf(api: Api, schema: Schema | undefined): Schema | null {
  const own = simplify(api, schema);
  if (own.properties && Object.keys(own.properties).length > 0) return own;
  if (own.items) return fieldsOf(api, own.items);
  if (typeof own.additionalProperties === "object") return fieldsOf(api, own.additionalProperties);
  return null;
}

/** Returns the name of a schema, such as `ChatMessage`. */
export function nameOf(schema: Schema): string | null {
  return schema.$ref?.split("/").pop() ?? null;
}

/** Returns the limits of a value as short texts. */
export function limitsOf(api: Api, schema: Schema | undefined): string[] {
  const own = simplify(api, schema);
  return [
    range(own.minimum ?? own.exclusiveMinimum, own.maximum, ""),
    range(own.minLength, own.maxLength, "character"),
    range(own.minItems, own.maxItems, "element"),
  ].filter((one) => one !== "");
}

function range(least: number | undefined, most: number | undefined, unit: string): string {
  const last = most ?? least;
  if (last === undefined) return "";
  const words = unit === "" ? "" : last === 1 ? ` ${unit}` : ` ${unit}s`;
  if (most === undefined) return `at least ${number(last)}${words}`;
  return least === undefined ? `at most ${number(last)}${words}` : `${number(least)} to ${number(last)}${words}`;
}

function number(value: number): string {
  return value.toLocaleString("en");
}

/** Returns a value that has the type of a schema, with its required fields only. */
export function exampleOf(api: Api, schema: Schema | undefined, depth = 0): Json {
  const own = simplify(api, schema);
  if (own.example !== undefined) return own.example;
  if (own.default !== undefined && own.default !== null) return own.default;
  if (own.const !== undefined) return own.const;
  if (own.enum?.[0] !== undefined) return own.enum[0];
  const [first] = alternatives(own);
  if (first) return exampleOf(api, first, depth);
  const type = [own.type ?? (own.properties ? "object" : "string")].flat()[0];
  if (type === "array") return depth > 4 ? [] : [exampleOf(api, own.items, depth + 1)];
  if (type === "object") {
    const names = depth > 4 ? [] : (own.required ?? []);
    return Object.fromEntries(names.map((name) => [name, exampleOf(api, own.properties?.[name], depth + 1)]));
  }
  if (type === "integer" || type === "number") return own.minimum ?? 1;
  if (type === "boolean") return true;
  return "…";
}

/** Whether a request can ask for a stream of events. */
export function isStreamable(api: Api, operation: Operation): boolean {
  const schema = operation.body?.["application/json"]?.schema;
  return !!simplify(api, schema).properties?.stream;
}

/** Length from which a short path omits the names of its parameters. */
const MAX_SHORT_PATH = 28;

/** Returns a path without the prefix that all operations share. */
export function shortPath(path: string): string {
  const short = path.replace(/^(\/admin)?\/v1\//, "/");
  return short.length > MAX_SHORT_PATH ? short.replace(/\{\w+\}/g, "…") : short;
}
