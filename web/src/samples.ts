// The measurements of one object, as channels of a series.

import { Series } from "./series";
import type { Part } from "./stream";

/** The channels of an object. Drops and marks by reason have further channels after these. */
export const CHANNELS = [
  "in_bps",
  "out_bps",
  "in_pps",
  "out_pps",
  "queue_packets",
  "queue_bytes",
  "wait_p50_ns",
  "wait_p99_ns",
  "wait_max_ns",
  "total_p50_ns",
  "total_p99_ns",
  "late_p50_ns",
  "late_p99_ns",
  "late_max_ns",
  "drops",
  "marks",
  "rate_bps",
] as const;
export type Channel = (typeof CHANNELS)[number];

export function channel(name: Channel): number {
  return CHANNELS.indexOf(name);
}

/** Where a field of a point goes: its channel, and whether it is the least, mean or most. */
const PLACES: Record<string, [number, "low" | "mean" | "high"]> = {};
for (const [i, name] of CHANNELS.entries()) PLACES[name] = [i, "mean"];
for (const name of ["in_bps", "out_bps"] as const) PLACES[`${name}_max`] = [channel(name), "high"];
for (const name of ["queue_packets", "queue_bytes"] as const) {
  PLACES[`${name}_min`] = [channel(name), "low"];
  PLACES[`${name}_mean`] = [channel(name), "mean"];
  PLACES[`${name}_max`] = [channel(name), "high"];
}
/** Counts of an interval, which a series holds per second. */
const COUNTS = new Set<string>(["drops", "marks"]);
/** The number of all channels, with those for drops and marks by reason. */
const TOTAL = CHANNELS.length + 8;

/** Packets by reason. */
type Reasons = Partial<Record<"drops" | "marks", Record<string, number>>>;

export class Samples {
  readonly series = new Series(TOTAL);
  /** The reasons of drops and marks that occurred, in the order of their channels. */
  readonly reasons: { name: string; kind: "drops" | "marks"; channel: number }[] = [];
  /** Numbers of drops and marks since the page began to watch the object. */
  readonly sums = new Map<string, number>();
  /** Grows with every new reason, after which plots of reasons must be built again. */
  version = 0;
  /** The newest value of each field. */
  newest: Record<string, number | null> = {};
  private readonly mean = new Float64Array(TOTAL);
  private readonly low = new Float64Array(TOTAL);
  private readonly high = new Float64Array(TOTAL);

  take(part: Part, fields: string[]): void {
    for (const point of part.points ?? []) this.point(point, fields, part.history === true);
  }

  private point(point: unknown[], fields: string[], past: boolean): void {
    const { mean, low, high } = this;
    mean.fill(NaN, 0, CHANNELS.length);
    low.fill(NaN);
    high.fill(NaN);
    mean.fill(0, CHANNELS.length);
    let t = NaN;
    let span = 0;
    let reasons: Reasons | null = null;
    for (let i = 0; i < fields.length; i++) {
      const name = fields[i]!;
      const value = point[i];
      if (name === "t_ms") t = (value as number) / 1000;
      else if (name === "span_ms") span = (value as number) / 1000;
      else if (name === "reasons") reasons = value as Reasons | null;
      else {
        const number = typeof value === "number" ? value : NaN;
        const place = PLACES[name];
        if (place)
          (place[1] === "mean" ? mean : place[1] === "low" ? low : high)[place[0]] = number;
      }
    }
    // After a reconnection, the first points may be known already.
    if (!(t > this.series.last())) return;
    for (let i = 0; i < fields.length; i++) {
      const value = point[i];
      this.newest[fields[i]!] = typeof value === "number" ? value : null;
    }
    for (const name of COUNTS) {
      const count = mean[channel(name as Channel)]!;
      if (count > 0 && !past) this.sums.set(name, (this.sums.get(name) ?? 0) + count);
      mean[channel(name as Channel)] = span > 0 ? count / span : count;
    }
    for (const kind of ["drops", "marks"] as const) {
      for (const [name, count] of Object.entries((reasons as Reasons | null)?.[kind] ?? {})) {
        const at = this.reason(name, kind);
        mean[at]! += span > 0 ? count / span : count;
      }
    }
    for (let c = 0; c < TOTAL; c++) {
      if (Number.isNaN(low[c]!)) low[c] = mean[c]!;
      if (Number.isNaN(high[c]!)) high[c] = mean[c]!;
    }
    const last = this.series.last();
    // Nothing is known about the time between the last sample and the beginning of this one.
    if (t - span > last + Math.max(0.25, 1.5 * span)) this.series.gap(last + 0.001);
    this.series.push(t, mean, low, high);
  }

  private reason(name: string, kind: "drops" | "marks"): number {
    const known = this.reasons.find((r) => r.name === name && r.kind === kind);
    if (known) return known.channel;
    const at = CHANNELS.length + this.reasons.length;
    // Once all channels have a reason, further reasons are added to the last channel.
    if (at >= TOTAL) return TOTAL - 1;
    this.reasons.push({ name, kind, channel: at });
    this.version++;
    return at;
  }
}
