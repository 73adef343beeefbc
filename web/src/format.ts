// Numbers with units: three significant digits, as in the reports.

/** A kind of quantity. */
export type Unit = "bps" | "ns" | "bytes" | "count" | "pps" | "fraction" | "packets";

type Step = readonly [size: number, name: string];

const STEPS: Record<Unit, readonly Step[]> = {
  bps: [
    [1e9, "Gbit/s"],
    [1e6, "Mbit/s"],
    [1e3, "kbit/s"],
    [1, "bit/s"],
  ],
  ns: [
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "µs"],
    [1, "ns"],
  ],
  bytes: [
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
    [1, "B"],
  ],
  count: [[1, ""]],
  packets: [[1, "pkts"]],
  pps: [
    [1e6, "M/s"],
    [1e3, "k/s"],
    [1, "/s"],
  ],
  fraction: [[0.01, "%"]],
};

/** The unit in which a value is most readable. 0.9995 of a unit rounds to it at three digits. */
export function step(value: number, unit: Unit): Step {
  const steps = STEPS[unit];
  const size = Math.abs(value);
  return (
    steps.find(([s]) => size >= s * 0.9995) ?? (size === 0 ? zero(unit) : steps[steps.length - 1]!)
  );
}

/** The unit of zero: the one that the quantity usually has. */
function zero(unit: Unit): Step {
  const steps = STEPS[unit];
  const wanted = unit === "bps" ? "kbit/s" : unit === "ns" ? "µs" : steps[steps.length - 1]![1];
  return steps.find(([, name]) => name === wanted)!;
}

/** A count with thousands separators. */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en");
}

/**
 * The digits of a value in a unit: three significant ones, with trailing zeros. Whole counts,
 * nanoseconds and numbers from 1,000 have all digits before the point, and none after it.
 */
export function digits(value: number, unit: Unit, [size]: Step): string {
  if (!Number.isFinite(value)) return "–";
  const n = value / size;
  if (unit === "count" || unit === "packets") {
    return Number.isInteger(n) || Math.abs(n) >= 100
      ? count(n)
      : n.toFixed(Math.abs(n) < 9.995 ? 2 : 1);
  }
  if (value === 0) return "0";
  const large = Math.abs(n);
  if (unit === "ns" && size === 1) return count(n);
  if (large >= 999.5) return count(n);
  return n.toFixed(large >= 99.95 ? 0 : large >= 9.995 ? 1 : 2);
}

/** A value with its unit. */
export function text(value: number, unit: Unit): string {
  if (!Number.isFinite(value)) return "–";
  const chosen = step(value, unit);
  const number = digits(value, unit, chosen);
  return chosen[1] ? `${number} ${chosen[1]}` : number;
}

/** A configured value with all its digits, but at most nine, such as `4 Mbit/s`. */
export function exact(value: number, unit: Unit): string {
  const [size, name] = step(value, unit);
  return `${+(value / size).toPrecision(9)} ${name}`;
}

/** A value as an axis names it: without trailing zeros. */
export function tick(value: number, chosen: Step): string {
  if (value === 0) return "0";
  return String(+(value / chosen[0]).toPrecision(4));
}

/** Keeps the unit of a value that changes, so that its text does not jump between two units. */
export class Steady {
  private chosen: Step | undefined;

  constructor(readonly unit: Unit) {}

  /** The digits and the unit. */
  split(value: number): [string, string] {
    if (!Number.isFinite(value)) return ["–", ""];
    const size = this.chosen?.[0] ?? 0;
    const large = Math.abs(value);
    // Zero keeps the present unit. Values below a quarter of this unit get a smaller unit.
    const stays = this.chosen && (large === 0 || (large >= size * 0.25 && large < size * 999.5));
    if (!stays) this.chosen = step(value, this.unit);
    return [digits(value, this.unit, this.chosen!), this.chosen![1]];
  }
}

/** A duration in words, such as `3 h 05 min`. */
export function elapsed(ns: number): string {
  const seconds = Math.floor(ns / 1e9);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${two(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${two(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${two(hours % 24)} h`;
}

/** The time of day in this machine's time zone, with up to three decimals of the seconds. */
export function clock(seconds: number, decimals = 0): string {
  const date = new Date(seconds * 1000);
  const whole = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (decimals === 0) return whole;
  const part = String(date.getMilliseconds()).padStart(3, "0").slice(0, decimals);
  return `${whole}.${part}`;
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}
