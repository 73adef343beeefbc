// The range of time that all plots show: it follows the present, or stands still.

export class Timeline {
  /** The length of the range, s. */
  span = 60;
  /** The end of a range that stands still; absent while it follows the present. */
  private held: number | undefined;
  /** The present of this frame: all plots of a frame show the same range. */
  private present = NaN;
  /** The moment under the cursor, s; it is one for all plots. */
  cursor: number | undefined;
  private readonly listeners = new Set<() => void>();

  /** `now` is the time of the daemon in s, `oldest` the first moment with data. */
  constructor(
    readonly now: () => number,
    readonly oldest: () => number,
  ) {}

  get live(): boolean {
    return this.held === undefined;
  }

  range(): [number, number] {
    const end = this.held ?? (Number.isNaN(this.present) ? this.now() : this.present);
    return [end - this.span, end];
  }

  /** Begins a frame. */
  tick(): void {
    this.present = this.now();
  }

  follow(): void {
    this.held = undefined;
    this.tell();
  }

  hold(): void {
    this.held ??= this.now();
    this.tell();
  }

  toggle(): void {
    if (this.live) this.hold();
    else this.follow();
  }

  setSpan(seconds: number): void {
    this.span = Math.min(MOST, Math.max(LEAST, seconds));
    this.tell();
  }

  /** Shows the time from `from` to `to`, and stands still. */
  show(from: number, to: number): void {
    this.span = Math.min(MOST, Math.max(LEAST, to - from));
    this.held = (from + to) / 2 + this.span / 2;
    this.clamp();
    this.tell();
  }

  /** Moves the range by a part of its length. A range that reaches the present follows it again. */
  pan(part: number): void {
    const end = (this.held ?? this.now()) + part * this.span;
    this.held = end >= this.now() ? undefined : end;
    this.clamp();
    this.tell();
  }

  /**
   * Changes the length by a factor. The moment `around` keeps its place; without it, the middle, or
   * the end while the range follows the present.
   */
  zoom(factor: number, around?: number): void {
    const [from, to] = this.range();
    const span = Math.min(MOST, Math.max(LEAST, this.span * factor));
    if (this.live && around === undefined) {
      this.setSpan(span);
      return;
    }
    const centre = around ?? (from + to) / 2;
    const end = centre + (to - centre) * (span / this.span);
    this.span = span;
    this.held = end >= this.now() ? (this.live ? undefined : this.now()) : end;
    this.clamp();
    this.tell();
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private clamp(): void {
    if (this.held === undefined) return;
    const oldest = this.oldest();
    if (Number.isFinite(oldest)) this.held = Math.max(this.held, oldest + this.span * 0.1);
    this.held = Math.min(this.held, this.now());
  }

  private tell(): void {
    for (const listener of this.listeners) listener();
  }
}

/** The shortest and the longest range, s. */
const LEAST = 0.5;
const MOST = 24 * 3600;
