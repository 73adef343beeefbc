// The drawing between the cards of the overview: dots move along curves from card to card. A higher
// rate makes a curve wider. Each gap between two columns has one canvas for the curves, drawn when
// the values change, and one for the dots, drawn in every frame.

import { h } from "./dom";
import { colour, still } from "./theme";

export interface Edge {
  from: HTMLElement;
  to: HTMLElement;
  /** bit/s */
  rate: () => number;
  /** Drops in the last period. */
  drops: () => number;
}

interface Placed {
  edge: Edge;
  x0: number;
  y0: number;
  x1: number;
  y1: number;
  length: number;
  /** The position of the first dot on the curve, px. */
  phase: number;
  /** The rate as a share of the largest rate. */
  part: number;
  /** Whether there were drops in the last period. */
  dropping: boolean;
}

interface Gap {
  left: number;
  right: number;
  top: number;
  bottom: number;
  curves: HTMLCanvasElement;
  dots: HTMLCanvasElement;
  edges: Placed[];
}

export class Flow {
  private gaps: Gap[] = [];
  private last = 0;

  constructor(private readonly stage: HTMLElement) {}

  /** Reads the places of the cards. Cards below one another have no curves between them. */
  place(edges: Edge[]): void {
    const box = this.stage.getBoundingClientRect();
    for (const gap of this.gaps) {
      gap.curves.remove();
      gap.dots.remove();
    }
    this.gaps = [];
    for (const edge of edges) {
      const a = edge.from.getBoundingClientRect();
      const b = edge.to.getBoundingClientRect();
      const forward = a.right < b.left;
      if (!forward && !(b.right < a.left)) continue;
      const x0 = (forward ? a.right : a.left) - box.left;
      const x1 = (forward ? b.left : b.right) - box.left;
      const [y0, y1] = [a.top + a.height / 2 - box.top, b.top + b.height / 2 - box.top];
      const length = Math.hypot(x1 - x0, y1 - y0);
      this.gap(Math.min(x0, x1), Math.max(x0, x1)).edges.push({
        edge,
        x0,
        y0,
        x1,
        y1,
        length,
        phase: 0,
        part: 0,
        dropping: false,
      });
    }
    for (const gap of this.gaps) this.fit(gap);
    this.update();
  }

  private gap(left: number, right: number): Gap {
    const known = this.gaps.find(
      (gap) => gap.left === Math.floor(left) && gap.right === Math.ceil(right),
    );
    if (known) return known;
    const gap: Gap = {
      left: Math.floor(left),
      right: Math.ceil(right),
      top: 0,
      bottom: 0,
      curves: h("canvas", { "aria-hidden": "true" }),
      dots: h("canvas", { "aria-hidden": "true" }),
      edges: [],
    };
    this.gaps.push(gap);
    return gap;
  }

  /** Fits the canvases of a gap to its curves, because a smaller canvas costs less. */
  private fit(gap: Gap): void {
    const ys = gap.edges.flatMap((p) => [p.y0, p.y1]);
    gap.top = Math.floor(Math.min(...ys)) - MARGIN;
    gap.bottom = Math.ceil(Math.max(...ys)) + MARGIN;
    const ratio = devicePixelRatio || 1;
    for (const canvas of [gap.curves, gap.dots]) {
      canvas.style.left = `${gap.left}px`;
      canvas.style.top = `${gap.top}px`;
      canvas.style.width = `${gap.right - gap.left}px`;
      canvas.style.height = `${gap.bottom - gap.top}px`;
      canvas.width = Math.round((gap.right - gap.left) * ratio);
      canvas.height = Math.round((gap.bottom - gap.top) * ratio);
      this.stage.append(canvas);
    }
  }

  private context(gap: Gap, canvas: HTMLCanvasElement): CanvasRenderingContext2D {
    const ctx = canvas.getContext("2d")!;
    const ratio = devicePixelRatio || 1;
    ctx.setTransform(ratio, 0, 0, ratio, -gap.left * ratio, -gap.top * ratio);
    ctx.clearRect(gap.left, gap.top, gap.right - gap.left, gap.bottom - gap.top);
    return ctx;
  }

  /** Reads the rates, and draws the curves. */
  update(): void {
    const all = this.gaps.flatMap((gap) => gap.edges);
    const most = Math.max(1, ...all.map((p) => p.edge.rate()));
    for (const gap of this.gaps) {
      const ctx = this.context(gap, gap.curves);
      for (const p of gap.edges) {
        p.part = p.edge.rate() / most;
        p.dropping = p.edge.drops() > 0;
        const middle = (p.x0 + p.x1) / 2;
        ctx.beginPath();
        ctx.moveTo(p.x0, p.y0);
        ctx.bezierCurveTo(middle, p.y0, middle, p.y1, p.x1, p.y1);
        ctx.strokeStyle = p.part > 0 ? colour("accent", 0.28) : colour("rule");
        ctx.lineWidth = p.part > 0 ? 2 + 6 * Math.sqrt(p.part) : 1.5;
        ctx.stroke();
      }
      if (still()) this.dots(gap, 0);
    }
  }

  /** Moves the dots. */
  draw(now: number): void {
    const seconds = Math.min(0.1, (now - this.last) / 1000);
    this.last = now;
    if (still()) return;
    for (const gap of this.gaps) this.dots(gap, seconds);
  }

  private dots(gap: Gap, seconds: number): void {
    const ctx = this.context(gap, gap.dots);
    for (const p of gap.edges) {
      if (p.part <= 0) continue;
      const speed = Math.sqrt(p.part);
      p.phase = (p.phase + seconds * (14 + 66 * speed)) % SPACE;
      const middle = (p.x0 + p.x1) / 2;
      const size = 1.6 + 1.8 * speed;
      ctx.fillStyle = colour(p.dropping ? "bad" : "accent");
      ctx.beginPath();
      for (let at = p.phase; at < p.length; at += SPACE) {
        const t = at / p.length;
        const u = 1 - t;
        const x = u * u * u * p.x0 + 3 * u * t * middle + t * t * t * p.x1;
        const y = (u * u * u + 3 * u * u * t) * p.y0 + (3 * u * t * t + t * t * t) * p.y1;
        ctx.moveTo(x + size, y);
        ctx.arc(x, y, size, 0, 7);
      }
      ctx.fill();
    }
  }
}

/** The space above and below the ends of curves, px. */
const MARGIN = 6;
/** The distance between two dots, px. */
const SPACE = 22;
