// Checks a value against a JSON Schema: the keywords that models enforce.

export interface Fault {
  /** Path of the value, such as `items[0].name`; empty for the whole value. */
  path: string;
  message: string;
}

type Schema = Record<string, unknown>;

const MAX_FAULTS = 20;
const MAX_DEPTH = 64;

const TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"];

function isObject(value: unknown): value is Schema {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value;
}

function hasType(value: unknown, type: string): boolean {
  if (type === "integer") return typeof value === "number" && Number.isInteger(value);
  return typeOf(value) === type;
}

function equal(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

/** Returns the faults of a value. An empty list means that it matches. */
export function validate(value: unknown, schema: unknown): Fault[] {
  const faults: Fault[] = [];
  check(value, schema, schema, "", faults, 0);
  return faults.slice(0, MAX_FAULTS);
}

function resolve(schema: Schema, root: unknown): unknown {
  const reference = schema["$ref"];
  if (typeof reference !== "string" || !reference.startsWith("#")) return schema;
  const steps = reference.slice(1).split("/").slice(1);
  return steps.reduce<unknown>((found, step) => {
    const name = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    return found !== null && typeof found === "object" ? (found as Schema)[name] : undefined;
  }, root);
}

function check(value: unknown, given: unknown, root: unknown, path: string, faults: Fault[], depth: number): void {
  if (given === true || given === undefined || depth > MAX_DEPTH || faults.length >= MAX_FAULTS) return;
  const fault = (message: string) => void faults.push({ path, message });
  if (given === false) return fault("is not allowed");
  const schema = isObject(given) ? resolve(given, root) : null;
  if (!isObject(schema)) return;
  const inner = (part: unknown, one: unknown, place: string) => check(part, one, root, place, faults, depth + 1);
  const matches = (one: unknown) => {
    const found: Fault[] = [];
    check(value, one, root, path, found, depth + 1);
    return found.length === 0;
  };

  const types = [schema["type"]].flat().filter((type): type is string => typeof type === "string");
  if (types.length > 0 && !types.some((type) => hasType(value, type))) return fault(`must be ${types.join(" or ")}, not ${typeOf(value)}`);
  if ("const" in schema && !equal(value, schema["const"])) fault(`must be ${JSON.stringify(schema["const"])}`);
  const { enum: options, anyOf, oneOf, allOf, not } = schema as Record<string, unknown>;
  if (Array.isArray(options) && !options.some((option) => equal(option, value))) {
    fault(`must be one of ${options.map((option) => JSON.stringify(option)).join(", ")}`);
  }
  if (Array.isArray(allOf)) for (const one of allOf) inner(value, one, path);
  if (Array.isArray(anyOf) && !anyOf.some(matches)) fault("matches none of the alternatives");
  if (Array.isArray(oneOf) && oneOf.filter(matches).length !== 1) fault("must match exactly one alternative");
  if (not !== undefined && matches(not)) fault("matches what is excluded");

  const limit = (name: string) => (typeof schema[name] === "number" ? (schema[name] as number) : null);
  const atLeast = (size: number, name: string, unit: string) => {
    const bound = limit(name);
    if (bound !== null && size < bound) fault(`must have at least ${bound} ${unit}`);
  };
  const atMost = (size: number, name: string, unit: string) => {
    const bound = limit(name);
    if (bound !== null && size > bound) fault(`must have at most ${bound} ${unit}`);
  };
  if (typeof value === "number") {
    const [low, high, above, below, step] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"].map(limit);
    if (low != null && value < low) fault(`must be at least ${low}`);
    if (high != null && value > high) fault(`must be at most ${high}`);
    if (above != null && value <= above) fault(`must be greater than ${above}`);
    if (below != null && value >= below) fault(`must be less than ${below}`);
    if (step != null && step > 0 && Math.abs(value / step - Math.round(value / step)) > 1e-9) fault(`must be a multiple of ${step}`);
  }
  if (typeof value === "string") {
    atLeast([...value].length, "minLength", "characters");
    atMost([...value].length, "maxLength", "characters");
    const pattern = compile(schema["pattern"]);
    if (pattern && !pattern.test(value)) fault(`must match ${pattern.source}`);
  }
  if (Array.isArray(value)) {
    atLeast(value.length, "minItems", "items");
    atMost(value.length, "maxItems", "items");
    const prefix = Array.isArray(schema["prefixItems"]) ? schema["prefixItems"] : [];
    value.forEach((item, index) => inner(item, index < prefix.length ? prefix[index] : schema["items"], `${path}[${index}]`));
  }
  if (isObject(value)) {
    const properties = isObject(schema["properties"]) ? schema["properties"] : {};
    const required = Array.isArray(schema["required"]) ? schema["required"] : [];
    for (const name of required) if (typeof name === "string" && !Object.hasOwn(value, name)) fault(`lacks “${name}”`);
    for (const [name, member] of Object.entries(value)) {
      const place = path ? `${path}.${name}` : name;
      inner(member, Object.hasOwn(properties, name) ? properties[name] : schema["additionalProperties"], place);
    }
  }
}

function compile(pattern: unknown): RegExp | null {
  try {
    return typeof pattern === "string" ? new RegExp(pattern, "u") : null;
  } catch {
    return null;
  }
}

/** Returns the fault of a text that should be a JSON Schema of an object; null if there is none. */
export function schemaFault(text: string): string | null {
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    return `This is no JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
  if (!isObject(schema)) return "A schema is a JSON object.";
  return faultIn(schema, "", 0);
}

function faultIn(schema: unknown, path: string, depth: number): string | null {
  if (typeof schema === "boolean" || depth > MAX_DEPTH) return null;
  const at = path ? ` at ${path}` : "";
  if (!isObject(schema)) return `The schema${at} must be an object.`;
  const types = [schema["type"] ?? []].flat();
  const unknown = types.find((type) => !TYPES.includes(String(type)));
  if (unknown !== undefined) return `Unknown type ${JSON.stringify(unknown)}${at}. Use ${TYPES.join(", ")}.`;
  const { required, enum: options, properties, items } = schema as Record<string, unknown>;
  if (required !== undefined && !Array.isArray(required)) return `“required”${at} must be a list of names.`;
  if (options !== undefined && !Array.isArray(options)) return `“enum”${at} must be a list of values.`;
  if (properties !== undefined && !isObject(properties)) return `“properties”${at} must be an object.`;
  const names = isObject(properties) ? Object.keys(properties) : [];
  const missing = Array.isArray(required) && isObject(properties) ? required.find((name) => !names.includes(String(name))) : undefined;
  if (missing !== undefined) return `“required”${at} names ${JSON.stringify(missing)}, which “properties” lacks.`;
  for (const name of names) {
    const fault = faultIn((properties as Schema)[name], path ? `${path}.${name}` : name, depth + 1);
    if (fault) return fault;
  }
  return items === undefined ? null : faultIn(items, `${path}[]`, depth + 1);
}
