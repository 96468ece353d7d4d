// Amounts are decimal strings. They are cut and compared as integers, never as floats.

const DECIMALS = 12;

/** Returns an amount in units of 10⁻¹². */
export function toUnits(amount: string): bigint {
  const isNegative = amount.startsWith("-");
  const [whole = "0", fraction = ""] = amount.replace("-", "").split(".");
  const units = BigInt(whole + fraction.padEnd(DECIMALS, "0").slice(0, DECIMALS));
  return isNegative ? -units : units;
}

/** Cuts an amount to a number of decimals, and groups its thousands. */
export function amount(value: string, decimals: number): string {
  const units = toUnits(value);
  const digits = (units < 0n ? -units : units).toString().padStart(DECIMALS + 1, "0");
  const whole = digits.slice(0, -DECIMALS).replace(/\B(?=(\d{3})+$)/g, ",");
  const fraction = digits.slice(-DECIMALS).slice(0, decimals);
  return `${units < 0n ? "−" : ""}${whole}${decimals > 0 ? `.${fraction}` : ""}`;
}

/** Rounds an amount up to a number of decimals, for limits that no charge exceeds. */
export function amountUp(value: string, decimals: number): string {
  const step = 10n ** BigInt(DECIMALS - decimals);
  const steps = (toUnits(value) + step - 1n) / step;
  return amount(fromUnits(steps * step), decimals);
}

const MIN_PRICE_DECIMALS = 2;

/** Returns a price with all its decimals, at least two, such as `0.10` and `0.075`. */
export function price(value: string): string {
  const [, fraction = ""] = value.split(".");
  return amount(value, Math.max(MIN_PRICE_DECIMALS, fraction.replace(/0+$/, "").length));
}

const SMALL_DECIMALS = 6;

/** Returns an amount with six decimals; a smaller one as `< 0.000001`. */
export function smallAmount(value: string): string {
  const units = toUnits(value);
  const isTiny = units > 0n && units < 10n ** BigInt(DECIMALS - SMALL_DECIMALS);
  return isTiny ? "< 0.000001" : amount(value, SMALL_DECIMALS);
}

/** Returns the share of an amount in another, from 0 to 1, for the width of a bar. */
export function share(part: string, whole: string): number {
  const total = toUnits(whole);
  if (total <= 0n) return 0;
  const thousandths = Number((toUnits(part) * 1000n) / total);
  return Math.min(Math.max(thousandths / 1000, 0), 1);
}

export function add(left: string, right: string): string {
  return fromUnits(toUnits(left) + toUnits(right));
}

/** Returns units of 10⁻¹² as an amount with all its decimals. */
export function fromUnits(units: bigint): string {
  const digits = (units < 0n ? -units : units).toString().padStart(DECIMALS + 1, "0");
  return `${units < 0n ? "-" : ""}${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS)}`;
}

/** Returns an amount with all its decimals but trailing zeros, and at least two. */
export function whole(value: string): string {
  const [, fraction = ""] = value.split(".");
  return amount(value, Math.max(2, fraction.replace(/0+$/, "").length));
}

export function isZero(value: string): boolean {
  return toUnits(value) === 0n;
}

/** Groups the thousands of a number. The formats of `Intl` take long when they are used first. */
export function count(value: number): string {
  return Number.isSafeInteger(value) ? String(value).replace(/\B(?=(\d{3})+$)/g, ",") : value.toLocaleString("en");
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Returns a large number such as `212.4 M`; smaller ones in full. */
export function compact(value: number): string {
  for (const [size, suffix] of [[1e9, "B"], [1e6, "M"], [1e5, "K"]] as const) {
    if (value >= size) return `${count(Math.round((value / (suffix === "K" ? 1e3 : size)) * 10) / 10)} ${suffix}`;
  }
  return count(value);
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Returns the time from now, such as `2 min ago` or `in 7 days`. */
export function relative(time: string, now = Date.now()): string {
  const seconds = Math.round((Date.parse(time) - now) / 1000);
  const distance = Math.abs(seconds);
  if (distance < 45) return "now";
  const [number, unit] =
    distance < 55 * MINUTE
      ? [Math.max(1, Math.round(distance / MINUTE)), "min"]
      : distance < 22 * HOUR
        ? [Math.max(1, Math.round(distance / HOUR)), "h"]
        : [Math.max(1, Math.round(distance / DAY)), Math.round(distance / DAY) <= 1 ? "day" : "days"];
  if (unit === "days" && number > 30) return date(time);
  return seconds < 0 ? `${number} ${unit} ago` : `in ${number} ${unit}`;
}

/** Short names of the months. */
export const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sept", "Oct", "Nov", "Dec"] as const;

function dayOf(at: Date): string {
  return `${at.getDate()} ${MONTHS[at.getMonth()]}`;
}

/** Returns the time of day with seconds. */
function timeOf(at: Date): string {
  return at.toTimeString().slice(0, 8);
}

/** Returns the time zone of a time, such as `UTC`, `UTC+1` or `UTC−3:30`. */
function zoneOf(at: Date): string {
  const ahead = -at.getTimezoneOffset();
  if (ahead === 0) return "UTC";
  const minutes = Math.abs(ahead) % 60;
  return `UTC${ahead < 0 ? "−" : "+"}${Math.floor(Math.abs(ahead) / 60)}${minutes ? `:${String(minutes).padStart(2, "0")}` : ""}`;
}

export function date(time: string): string {
  const at = new Date(time);
  return `${dayOf(at)} ${at.getFullYear()}`;
}

export function dateTime(time: string): string {
  const at = new Date(time);
  return `${date(time)}, ${timeOf(at)} ${zoneOf(at)}`;
}

/** Returns a time within the next weeks, such as `3 Dec, 18:12`. */
export function dayTime(time: string): string {
  const at = new Date(time);
  return `${dayOf(at)}, ${timeOf(at).slice(0, 5)}`;
}

/** Returns the time of day for today, else the date. */
export function clock(time: string): string {
  const isToday = new Date(time).toDateString() === new Date().toDateString();
  return isToday ? timeOf(new Date(time)) : date(time);
}

/** Returns the RFC 3339 form of a time in seconds since 1970. */
export function fromSeconds(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

/** Returns a duration such as `40 ms`, `2.06 s`, `12 s`, `3 min 5 s` or `2 h 10 min`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(Math.round(ms), 0)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  const whole = Math.round(seconds);
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)} min ${whole % MINUTE} s`;
  return `${Math.floor(whole / HOUR)} h ${Math.floor((whole % HOUR) / MINUTE)} min`;
}

const KIB = 1024;

/** Returns a size such as `812 bytes`, `18 KiB` or `1.4 MiB`. */
export function size(bytes: number): string {
  if (bytes < KIB) return plural(bytes, "byte");
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = bytes / KIB;
  let unit = 0;
  while (value >= KIB && unit < units.length - 1) {
    value /= KIB;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : count(Math.round(value))} ${units[unit] ?? ""}`;
}

/** Returns a number of tokens such as `8,191`, `400 k` or `1 M`. */
export function tokens(value: number): string {
  if (value < 10_000) return count(value);
  if (value < 1_000_000) return `${Math.round(value / 1000)} k`;
  return `${(value / 1_000_000).toFixed(2).replace(/\.?0+$/, "")} M`;
}

export function initials(name: string): string {
  const words = name.split(/[\s.@_-]+/).filter(Boolean);
  return ((words[0]?.[0] ?? "?") + (words[1]?.[0] ?? "")).toUpperCase();
}

/** Returns a waiting time such as `14 minutes`, rounded up. */
export function minutes(seconds: number | null): string {
  return plural(Math.max(1, Math.ceil((seconds ?? 900) / MINUTE)), "minute");
}
