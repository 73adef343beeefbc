// The drawing behind the cards of the overview: curves from card to card, as wide as their rate,
// along which dots move.

import { colour, still } from "./theme";

export interface Edge {
  from: HTMLElement;
  to: HTMLElement;
  /** bit/s */
  rate: () => number;
  /** Drops per second. */
  drops: () => number;
}

interface Placed {
  edge: Edge;
  x0: number;
  y0: number;
  x1: number;
  y1: number;
  phase: number;
}

export class Flow {
  readonly canvas: HTMLCanvasElement;
  private placed: Placed[] = [];
  private width = 0;
  private height = 0;
  private last = 0;

  constructor(private readonly stage: HTMLElement, canvas: HTMLCanvasElement) {
    this.canvas = canvas;
  }

  /** Reads the places of the cards. Cards below one another have no curves between them. */
  place(edges: Edge[]): void {
    const box = this.stage.getBoundingClientRect();
    this.width = box.width;
    this.height = box.height;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(box.width * ratio);
    this.canvas.height = Math.round(box.height * ratio);
    const phases = new Map(this.placed.map((p) => [p.edge, p.phase]));
    this.placed = [];
    for (const edge of edges) {
      const a = edge.from.getBoundingClientRect();
      const b = edge.to.getBoundingClientRect();
      const y0 = a.top + a.height / 2 - box.top;
      const y1 = b.top + b.height / 2 - box.top;
      if (a.right < b.left) this.placed.push({ edge, x0: a.right - box.left, y0, x1: b.left - box.left, y1, phase: phases.get(edge) ?? 0 });
      else if (b.right < a.left) this.placed.push({ edge, x0: a.left - box.left, y0, x1: b.right - box.left, y1, phase: phases.get(edge) ?? 0 });
    }
  }

  draw(now: number): void {
    const ctx = this.canvas.getContext("2d");
    if (!ctx || !this.placed.length) return;
    const ratio = devicePixelRatio || 1;
    const seconds = Math.min(0.1, (now - this.last) / 1000);
    this.last = now;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, this.width, this.height);
    const most = Math.max(1, ...this.placed.map((p) => p.edge.rate()));
    for (const p of this.placed) {
      const rate = p.edge.rate();
      const part = rate / most;
      const middle = (p.x0 + p.x1) / 2;
      ctx.beginPath();
      ctx.moveTo(p.x0, p.y0);
      ctx.bezierCurveTo(middle, p.y0, middle, p.y1, p.x1, p.y1);
      ctx.strokeStyle = rate > 0 ? colour("accent", 0.28) : colour("rule");
      ctx.lineWidth = rate > 0 ? 2 + 6 * Math.sqrt(part) : 1.5;
      ctx.stroke();
      if (rate <= 0) continue;
      const drops = p.edge.drops() > 0;
      if (!still()) p.phase = (p.phase + seconds * (14 + 66 * Math.sqrt(part))) % GAP;
      const length = Math.max(1, Math.hypot(p.x1 - p.x0, p.y1 - p.y0));
      const size = 1.6 + 1.8 * Math.sqrt(part);
      ctx.fillStyle = colour(drops ? "bad" : "accent");
      for (let at = p.phase; at < length; at += GAP) {
        const t = at / length;
        const u = 1 - t;
        const x = u * u * u * p.x0 + 3 * u * t * middle + t * t * t * p.x1;
        const y = (u * u * u + 3 * u * u * t) * p.y0 + (3 * u * t * t + t * t * t) * p.y1;
        ctx.beginPath();
        ctx.arc(x, y, size, 0, 7);
        ctx.fill();
      }
    }
  }
}

/** The distance between two dots, px. */
const GAP = 22;
