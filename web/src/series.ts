// The samples that are kept of one object: the last minutes in full, and a day in buckets with the
// least, mean and most.

/** Rows of a series, as columns of equal length. */
export interface Slice {
  /** Times in s, ascending. */
  t: Float64Array;
  /** For each channel its means, and its least and greatest values. */
  mean: Float64Array[];
  low: Float64Array[];
  high: Float64Array[];
}

class Ring {
  readonly t: Float64Array;
  readonly mean: Float64Array[];
  readonly low: Float64Array[];
  readonly high: Float64Array[];
  length = 0;
  private head = 0;

  constructor(
    readonly capacity: number,
    channels: number,
  ) {
    const column = () => new Float64Array(capacity);
    this.t = column();
    this.mean = Array.from({ length: channels }, column);
    this.low = Array.from({ length: channels }, column);
    this.high = Array.from({ length: channels }, column);
  }

  push(t: number, mean: ArrayLike<number>, low: ArrayLike<number>, high: ArrayLike<number>): void {
    const at = this.head;
    this.t[at] = t;
    for (let c = 0; c < this.mean.length; c++) {
      this.mean[c]![at] = mean[c]!;
      this.low[c]![at] = low[c]!;
      this.high[c]![at] = high[c]!;
    }
    this.head = (at + 1) % this.capacity;
    this.length = Math.min(this.length + 1, this.capacity);
  }

  /** The position of the n-th oldest row. */
  private at(n: number): number {
    return (this.head - this.length + n + this.capacity) % this.capacity;
  }

  first(): number {
    return this.length ? this.t[this.at(0)]! : Infinity;
  }

  last(): number {
    return this.length ? this.t[this.at(this.length - 1)]! : -Infinity;
  }

  /** The number of the first row with a time of at least `from`. */
  private find(from: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (this.t[this.at(mid)]! < from) low = mid + 1;
      else high = mid;
    }
    return low;
  }

  /** The rows between two times, with one more on each side so that lines reach the edges. */
  slice(from: number, to: number): Slice {
    const begin = Math.max(0, this.find(from) - 1);
    const end = Math.min(this.length, this.find(to) + 1);
    return {
      t: this.copy(this.t, begin, end),
      mean: this.mean.map((c) => this.copy(c, begin, end)),
      low: this.low.map((c) => this.copy(c, begin, end)),
      high: this.high.map((c) => this.copy(c, begin, end)),
    };
  }

  private copy(column: Float64Array, begin: number, end: number): Float64Array {
    const out = new Float64Array(end - begin);
    if (end <= begin) return out;
    const from = this.at(begin);
    const until = from + (end - begin);
    if (until <= this.capacity) out.set(column.subarray(from, until));
    else {
      out.set(column.subarray(from, this.capacity));
      out.set(column.subarray(0, until - this.capacity), this.capacity - from);
    }
    return out;
  }
}

/** A bucket that is being filled. */
class Bucket {
  private readonly sum: Float64Array;
  private readonly count: Float64Array;
  private readonly low: Float64Array;
  private readonly high: Float64Array;
  private start = NaN;

  constructor(
    readonly seconds: number,
    readonly ring: Ring,
    channels: number,
  ) {
    this.sum = new Float64Array(channels);
    this.count = new Float64Array(channels);
    this.low = new Float64Array(channels).fill(Infinity);
    this.high = new Float64Array(channels).fill(-Infinity);
  }

  add(t: number, mean: ArrayLike<number>, low: ArrayLike<number>, high: ArrayLike<number>): void {
    const start = Math.floor(t / this.seconds) * this.seconds;
    if (start !== this.start) {
      this.close();
      this.start = start;
    }
    for (let c = 0; c < this.sum.length; c++) {
      if (Number.isNaN(mean[c]!)) continue;
      this.sum[c]! += mean[c]!;
      this.count[c]! += 1;
      this.low[c] = Math.min(this.low[c]!, low[c]!);
      this.high[c] = Math.max(this.high[c]!, high[c]!);
    }
  }

  close(): void {
    if (!Number.isNaN(this.start)) {
      const mean = this.sum.map((sum, c) => (this.count[c]! ? sum / this.count[c]! : NaN));
      const of = (v: Float64Array) => v.map((x) => (Number.isFinite(x) ? x : NaN));
      this.ring.push(this.start + this.seconds / 2, mean, of(this.low), of(this.high));
    }
    this.sum.fill(0);
    this.count.fill(0);
    this.low.fill(Infinity);
    this.high.fill(-Infinity);
    this.start = NaN;
  }
}

/** The samples of one object, by channel. */
export class Series {
  private readonly full: Ring;
  private readonly buckets: Bucket[];
  private readonly none: Float64Array;

  /** `channels` quantities; `rows` samples are kept in full. */
  constructor(
    readonly channels: number,
    rows = FULL_ROWS,
  ) {
    this.full = new Ring(rows, channels);
    this.buckets = BUCKETS.map(([s, n]) => new Bucket(s, new Ring(n, channels), channels));
    this.none = new Float64Array(channels).fill(NaN);
  }

  /** Adds a sample; a channel without a value is NaN. */
  push(
    t: number,
    mean: ArrayLike<number>,
    low: ArrayLike<number> = mean,
    high: ArrayLike<number> = mean,
  ): void {
    // A repeated or an older sample would draw a line backwards.
    if (t <= this.full.last()) return;
    this.full.push(t, mean, low, high);
    for (const bucket of this.buckets) bucket.add(t, mean, low, high);
  }

  /** Ends the line at `t`: nothing is known until the next sample. */
  gap(t: number): void {
    if (this.full.length === 0 || t <= this.full.last()) return;
    this.full.push(t, this.none, this.none, this.none);
    for (const bucket of this.buckets) {
      bucket.close();
      bucket.ring.push(t, this.none, this.none, this.none);
    }
  }

  first(): number {
    return Math.min(this.full.first(), ...this.buckets.map((b) => b.ring.first()));
  }

  last(): number {
    return this.full.last();
  }

  get length(): number {
    return this.full.length;
  }

  private cached: { key: string; slice: Slice } | undefined;

  /**
   * The finest rows that reach back to `from`, and are not many more than `pixels`. Several plots
   * ask for the same range, so the last answer is kept.
   */
  view(from: number, to: number, pixels: number): Slice {
    // Rounded up, so that plots of almost equal widths share an answer.
    const width = Math.ceil(pixels / 64) * 64;
    const key = `${from} ${to} ${width} ${this.full.last()}`;
    if (this.cached?.key !== key) this.cached = { key, slice: this.find(from, to, width) };
    return this.cached.slice;
  }

  private find(from: number, to: number, pixels: number): Slice {
    const span = to - from;
    const reaches = (ring: Ring) => ring.first() <= from || ring.length < ring.capacity;
    if (reaches(this.full) && span <= FULL_SPAN * 1.5) {
      return decimate(this.full.slice(from, to), from, to, pixels);
    }
    for (const bucket of this.buckets) {
      if (reaches(bucket.ring) && span / bucket.seconds <= 4 * pixels) {
        return decimate(join(bucket.ring.slice(from, to), this.full, to), from, to, pixels);
      }
    }
    const last = this.buckets[this.buckets.length - 1]!;
    return decimate(join(last.ring.slice(from, to), this.full, to), from, to, pixels);
  }
}

/** Adds the last full row, because the bucket that is being filled is not among the rows. */
function join(rows: Slice, full: Ring, to: number): Slice {
  const last = full.last();
  const end = rows.t.length ? rows.t[rows.t.length - 1]! : -Infinity;
  if (!(last > end) || last > to) return rows;
  const newest = full.slice(last, last + 1);
  const n = newest.t.length;
  const append = (a: Float64Array, b: Float64Array) => {
    const out = new Float64Array(a.length + 1);
    out.set(a);
    out[a.length] = b[n - 1]!;
    return out;
  };
  return {
    t: append(rows.t, newest.t),
    mean: rows.mean.map((c, i) => append(c, newest.mean[i]!)),
    low: rows.low.map((c, i) => append(c, newest.low[i]!)),
    high: rows.high.map((c, i) => append(c, newest.high[i]!)),
  };
}

/**
 * At most two rows per pixel. A group of rows becomes one row with their least, mean and most, so
 * that no peak disappears. Groups begin at multiples of their width, so that they do not change
 * while the range moves. A gap stays a row of NaN.
 */
export function decimate(rows: Slice, from: number, to: number, pixels: number): Slice {
  const n = rows.t.length;
  if (n <= 2 * pixels || !(to > from)) return rows;
  // A power of two of a second, so that a range that grows slowly keeps its groups.
  const width = 2 ** Math.ceil(Math.log2((to - from) / pixels));
  const starts: number[] = [];
  let group = NaN;
  for (let i = 0; i < n; i++) {
    const known = rows.mean.some((column) => !Number.isNaN(column[i]!));
    const of = known ? Math.floor(rows.t[i]! / width) : -i - 1;
    if (of !== group) starts.push(i);
    group = of;
  }
  const m = starts.length;
  const t = new Float64Array(m);
  for (let g = 0; g < m; g++) t[g] = rows.t[starts[g]!]!;
  const reduce = (column: Float64Array, take: (a: number, b: number) => number, mean: boolean) => {
    const out = new Float64Array(m);
    for (let g = 0; g < m; g++) {
      const end = g + 1 < m ? starts[g + 1]! : n;
      let value = NaN;
      let count = 0;
      for (let i = starts[g]!; i < end; i++) {
        const v = column[i]!;
        if (Number.isNaN(v)) continue;
        value = count ? take(value, v) : v;
        count++;
      }
      out[g] = mean && count ? value / count : value;
    }
    return out;
  };
  return {
    t,
    mean: rows.mean.map((c) => reduce(c, (a, b) => a + b, true)),
    low: rows.low.map((c) => reduce(c, Math.min, false)),
    high: rows.high.map((c) => reduce(c, Math.max, false)),
  };
}

/** Full rows: 3 minutes of samples 20 times a second. */
const FULL_ROWS = 3600;
/** Plots have full resolution up to a range of 1.5 times this, s. */
const FULL_SPAN = 180;
/** Buckets: their length in s and their number, for one hour and for one day. */
const BUCKETS: readonly (readonly [number, number])[] = [
  [1, 3600],
  [15, 5760],
];
