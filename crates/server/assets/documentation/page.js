// Renders openapi.json as a page. Its texts become text nodes and are never parsed as HTML.
"use strict";

let api = {};

const METHODS = ["get", "post", "put", "patch", "delete"];
const byId = (id) => document.getElementById(id);

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(2).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

// `code` in backticks is the only mark-up of descriptions.
function inline(text) {
  return String(text ?? "").split("`").map((part, index) => (index % 2 ? el("code", {}, part) : part));
}

function prose(text) {
  return String(text ?? "").split(/\n\s*\n/).filter((part) => part.trim()).map((part) => el("p", {}, inline(part)));
}

function resolve(value) {
  const seen = new Set();
  while (value && value.$ref && !seen.has(value.$ref)) {
    seen.add(value.$ref);
    const steps = value.$ref.replace(/^#\//, "").split("/").map((step) => step.replace(/~1/g, "/").replace(/~0/g, "~"));
    value = steps.reduce((place, step) => place?.[step], api);
  }
  return value ?? {};
}

const choices = (schema) => schema.oneOf ?? schema.anyOf ?? schema.allOf;

function typeText(schema) {
  if (schema?.$ref) return schema.$ref.split("/").pop();
  const options = choices(schema ?? {});
  if (options) return [...new Set(options.map(typeText))].join(schema.allOf ? " and " : " or ");
  const types = [schema?.type ?? (schema?.properties ? "object" : "any")].flat();
  const named = types.map((type) => {
    if (type === "array") return "list of " + typeText(schema.items);
    if (type === "object" && typeof schema.additionalProperties === "object") return "map of " + typeText(schema.additionalProperties);
    return type;
  });
  return named.join(" or ");
}

function range(least, most, what) {
  if (least !== undefined && most !== undefined) return `${least} to ${most}${what}`;
  if (least !== undefined) return `at least ${least}${what}`;
  if (most !== undefined) return `at most ${most}${what}`;
  return undefined;
}

function bounds(schema) {
  const shown = [
    // A minimum of zero alone is not shown: all counts have it.
    range(schema.minimum === 0 && schema.maximum === undefined ? undefined : schema.minimum, schema.maximum, ""),
    range(schema.minItems, schema.maxItems, " items"),
    range(schema.minLength, schema.maxLength, " characters"),
    schema.enum && "one of " + schema.enum.map((value) => JSON.stringify(value)).join(", "),
    schema.const !== undefined ? "always " + JSON.stringify(schema.const) : undefined,
    schema.pattern && "matches " + schema.pattern,
    schema.default !== undefined ? "default " + JSON.stringify(schema.default) : undefined,
    schema.format && !/^u?int\d+$|^double$|^float$/.test(schema.format) ? schema.format : undefined,
  ];
  return shown.filter((text) => text !== undefined).join("; ");
}

// Returns the objects below a schema whose fields can be shown, with their names.
function objectsIn(schema) {
  const found = resolve(schema);
  const options = choices(found);
  if (options) {
    const merged = options.flatMap(objectsIn);
    return found.properties ? [{ name: "", schema: found }, ...merged] : merged;
  }
  if (found.properties) return [{ name: schema.$ref ? schema.$ref.split("/").pop() : "", schema: found }];
  if (found.items) return objectsIn(found.items);
  if (typeof found.additionalProperties === "object") return objectsIn(found.additionalProperties);
  return [];
}

// `necessity` is a word such as "required", or undefined.
function fieldRow(name, schema, necessity, description, place, answer) {
  const own = resolve(schema);
  const limits = bounds({ ...own, ...schema });
  const row = el("li", {},
    el("code", { class: "name" }, name),
    el("span", { class: "type" }, [typeText(schema), place].filter(Boolean).join(", ")),
    limits && el("span", { class: "bounds" }, limits),
    necessity && el("span", { class: "necessity" }, necessity),
    schema?.deprecated && el("span", { class: "necessity" }, "deprecated"),
    prose(description ?? schema?.description ?? own.description));
  row.append(...objectsIn(schema ?? {}).map((object) => lazyFields(object, answer)));
  return row;
}

// The list is filled when the reader opens it, because schemas can be recursive.
function lazyFields({ name, schema }, answer) {
  const box = el("details", {}, el("summary", {}, name ? `Fields of ${name}` : "Fields"));
  box.addEventListener("toggle", () => {
    if (box.open && box.childElementCount === 1) box.append(fieldList(schema, answer));
  });
  return box;
}

// Requests mark required fields; responses mark fields that may be absent.
function fieldList(schema, answer) {
  const required = new Set(schema.required ?? []);
  const names = Object.keys(schema.properties ?? {});
  names.sort((a, b) => required.has(b) - required.has(a));
  return el("ul", { class: "fields" }, names.map((name) => {
    const necessity = answer ? !required.has(name) && "may be absent" : required.has(name) && "required";
    return fieldRow(name, schema.properties[name], necessity, undefined, undefined, answer);
  }));
}

// Renders the top schema of a request or a response: its fields, or its type if it has no fields.
function schemaView(schema, answer) {
  const objects = objectsIn(schema ?? {});
  if (objects.length === 0) return el("p", {}, typeText(schema));
  return el("div", {}, objects.map(({ name, schema: object }) => [
    objects.length > 1 && name ? el("p", { class: "kind" }, name) : undefined,
    prose(object.description),
    fieldList(object, answer),
  ].flat()));
}

function sample(schema, depth) {
  const found = resolve(schema);
  const given = found.example ?? found.default ?? found.const ?? found.enum?.[0];
  if (given !== undefined) return given;
  const option = choices(found)?.find((one) => one.type !== "null");
  if (option) return sample(option, depth);
  const type = [found.type].flat().find((one) => one !== "null");
  if (found.properties && depth < 6) {
    return Object.fromEntries((found.required ?? []).map((name) => [name, sample(found.properties[name], depth + 1)]));
  }
  return { array: [], object: {}, boolean: false, integer: found.minimum ?? 1, number: found.minimum ?? 1 }[type] ?? "text";
}

const quoted = (text) => "'" + text.replace(/'/g, "'\\''") + "'";

function curl(method, path, operation, change) {
  const base = new URL(".", location.href).href.replace(/\/$/, "");
  const query = [];
  for (const parameter of parametersOf(operation)) {
    const value = parameter.example ?? sample(parameter.schema, 0);
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURI(String(value)));
    if (parameter.in === "query" && parameter.required) query.push(parameter.name + "=" + encodeURIComponent(String(value)));
  }
  const address = base + path + (query.length ? "?" + query.join("&") : "");
  const lines = [`curl ${change ? "-N " : ""}${query.length ? quoted(address) : address}`];
  if (method !== "get" && method !== "post") lines.push(`-X ${method.toUpperCase()}`);
  if (operation.security?.length !== 0) lines.push('-H "Authorization: Bearer $TOLLGATE_API_KEY"');
  const json = bodyOf(operation);
  if (json) {
    const body = { ...(json.example ?? sample(json.schema, 0)), ...change };
    const short = JSON.stringify(body);
    lines.push("-H 'Content-Type: application/json'", "-d " + quoted(short.length < 100 ? short : JSON.stringify(body, null, 2)));
  } else if (method === "post") {
    lines.push("-X POST");
  }
  return lines.join(" \\\n  ");
}

const parametersOf = (operation) => (operation.parameters ?? []).map(resolve);
const bodyOf = (operation) => resolve(operation.requestBody).content?.["application/json"];

function example(text) {
  const button = el("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(box.querySelector("code"));
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  const box = el("div", { class: "example" }, el("pre", { tabindex: "0" }, el("code", {}, text)), button);
  return box;
}

function responseView(status, response) {
  const { description, content, headers } = resolve(response);
  const box = el("details", { class: "response" },
    el("summary", {}, el("b", {}, status === "default" ? "4xx, 5xx" : status), inline(description)));
  for (const [type, { schema }] of Object.entries(content ?? {})) {
    box.append(el("p", { class: "kind" }, el("code", {}, type)), schemaView(schema, true));
  }
  const names = Object.keys(headers ?? {});
  if (names.length) {
    const list = names.flatMap((name, index) => [index ? ", " : "", el("code", {}, name)]);
    box.append(el("p", { class: "kind" }, el("a", { href: "#headers" }, "Headers"), ": ", list));
  }
  return box;
}

function operationView(id, method, path, operation) {
  const parameters = parametersOf(operation);
  const body = bodyOf(operation);
  const streams = body && objectsIn(body.schema).some(({ schema }) => schema.properties?.stream);
  const section = el("section", {},
    el("h3", { id }, el("span", { class: `method ${method}` }, method.toUpperCase()), el("code", { class: "path" }, path)),
    prose(operation.summary), prose(operation.description !== operation.summary ? operation.description : ""),
    operation.deprecated && el("p", { class: "necessity" }, "Deprecated."),
    el("h4", {}, "Example"), example(curl(method, path, operation)));
  if (streams) section.append(el("p", {}, "The same, streamed:"), example(curl(method, path, operation, { stream: true })));
  if (parameters.length) {
    section.append(el("h4", {}, "Parameters"), el("ul", { class: "fields" }, parameters.map((parameter) =>
      fieldRow(parameter.name, parameter.schema ?? {}, parameter.required && "required", parameter.description ?? "", `in the ${parameter.in}`))));
  }
  if (body) section.append(el("h4", {}, "Request body"), schemaView(body.schema));
  const responses = Object.entries(operation.responses ?? {});
  const failures = responses.filter(([, response]) => response.$ref).map(([status]) => status);
  section.append(el("h4", {}, "Responses"),
    ...responses.filter(([, response]) => !response.$ref).map(([status, response]) => responseView(status, response)));
  if (failures.length) {
    section.append(el("p", { class: "kind" }, "Errors: ", el("a", { href: "#error-codes" }, failures.join(", "))));
  }
  return section;
}

function operationsByTag() {
  const groups = new Map((api.tags ?? []).map((tag) => [tag.name, { about: tag.description, operations: [] }]));
  for (const [path, item] of Object.entries(api.paths ?? {})) {
    for (const method of METHODS.filter((one) => item[one])) {
      const tag = item[method].tags?.[0] ?? "Other";
      if (!groups.has(tag)) groups.set(tag, { operations: [] });
      groups.get(tag).operations.push({ method, path, operation: item[method] });
    }
  }
  return [...groups].filter(([, group]) => group.operations.length);
}

function showOperations() {
  const first = byId("toc").children[1];
  for (const [tag, { about, operations }] of operationsByTag()) {
    const group = "group-" + tag.toLowerCase().replace(/[^a-z0-9]+/g, "-");
    const links = el("ul", {});
    byId("operations").append(el("h2", { id: group }, tag), ...prose(about));
    for (const { method, path, operation } of operations) {
      const id = operation.operationId ?? method + path.replace(/[^a-z0-9]+/gi, "-");
      byId("operations").append(operationView(id, method, path, operation));
      links.append(el("li", {}, el("a", { href: "#" + id }, id.replace(/_/g, " "))));
    }
    first.before(el("li", {}, el("a", { href: "#" + group }, tag), links));
  }
}

function showErrors() {
  const columns = [["status", "Status"], ["code", "Code"], ["type", "Type"], ["meaning", "Meaning"], ["retry", "Retry"], ["billed", "Billed"]];
  const rows = (api["x-error-codes"] ?? []).map((row) => el("tr", {}, columns.map(([key, label]) =>
    el("td", { "data-label": label }, key === "code" || key === "type" ? el("code", {}, row[key]) : inline(row[key])))));
  byId("error-codes").append(el("table", {},
    el("thead", {}, el("tr", {}, columns.map(([, label]) => el("th", { scope: "col" }, label)))), el("tbody", {}, rows)));
}

function showHeaders() {
  const headers = Object.entries(api.components?.headers ?? {});
  byId("header-list").append(el("ul", { class: "fields" }, headers.map(([name, header]) =>
    fieldRow(name, header.schema ?? {}, false, header.description))));
}

// Links https URLs and e-mail addresses; other contacts stay plain text.
function showSupport() {
  const support = api["x-support"];
  if (!support) return;
  const href = /^https:\/\//.test(support) ? support : /^[^\s@:]+@[^\s@:]+$/.test(support) ? "mailto:" + support : undefined;
  for (const place of document.querySelectorAll(".support")) {
    const contact = href ? el("a", { href, rel: "noreferrer" }, support) : el("b", {}, support);
    place.append("Support: ", contact, ". Quote the ", el("code", {}, "x-request-id"), " of an affected response.");
    place.hidden = false;
  }
}

async function show() {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error("status " + answer.status);
  api = await answer.json();
  const title = api.info?.title ?? "API";
  document.title = title + " API documentation";
  byId("title").replaceChildren(title + " API ", el("small", {}, "version " + (api.info?.version ?? "?")));
  byId("about").replaceChildren(...inline(api.info?.description), " OpenAPI document: ", el("a", { href: "openapi.json" }, "openapi.json"), ".");
  showOperations();
  showErrors();
  showHeaders();
  showSupport();
  const setKey = byId("set-key");
  setKey.replaceChildren(example(setKey.textContent.trim()));
  if (matchMedia("(max-width: 52rem)").matches) byId("contents").open = false;
  if (location.hash) byId(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

show().catch((error) => {
  const trouble = byId("trouble");
  trouble.textContent = "The OpenAPI document could not be displayed: " + error.message;
  trouble.hidden = false;
});
