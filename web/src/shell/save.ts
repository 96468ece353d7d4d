const REVOKE_MS = 60_000;

/** Saves content as a file in the downloads of the browser. */
export function saveFile(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), REVOKE_MS);
}

/** Saves rows as a CSV file. */
export function saveCsv(name: string, rows: readonly (readonly (string | number)[])[]): void {
  const text = rows.map((row) => row.map(csvCell).join(",")).join("\r\n");
  saveFile(name, new Blob([`${text}\r\n`], { type: "text/csv;charset=utf-8" }));
}

/** Returns a cell of a CSV file. Spreadsheets would run a text that begins as a formula does. */
function csvCell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) && !/^-?[\d.]+$/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
