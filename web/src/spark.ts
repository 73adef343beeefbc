// Small plots without axes: the last values of one quantity.

import { colour } from "./theme";

/**
 * Draws values as an area, scaled so that the highest reaches the top. The width holds `slots`
 * values; fewer are drawn at the right. A NaN is a gap.
 */
export function spark(
  canvas: HTMLCanvasElement,
  values: ArrayLike<number>,
  slots: number,
  colourNumber = 0,
): void {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (!width || !height) return;
  if (canvas.width !== Math.round(width * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const ctx = canvas.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  let top = 0;
  for (let i = 0; i < values.length; i++) if (values[i]! > top) top = values[i]!;
  const y = (v: number) => height - 1 - (top > 0 ? (v / top) * (height - 3) : 0);
  const x = (i: number) => ((i + slots - values.length) / Math.max(1, slots - 1)) * width;
  ctx.strokeStyle = colour("rule");
  ctx.beginPath();
  ctx.moveTo(0, height - 0.5);
  ctx.lineTo(width, height - 0.5);
  ctx.stroke();
  let begin = -1;
  for (let i = 0; i <= values.length; i++) {
    const known = i < values.length && !Number.isNaN(values[i]!);
    if (known && begin < 0) begin = i;
    if (known || begin < 0) continue;
    ctx.beginPath();
    for (let j = begin; j < i; j++) ctx.lineTo(x(j), y(values[j]!));
    ctx.strokeStyle = colour(colourNumber);
    ctx.lineWidth = 1.4;
    ctx.stroke();
    ctx.lineTo(x(i - 1), height);
    ctx.lineTo(x(begin), height);
    ctx.fillStyle = colour(colourNumber, 0.18);
    ctx.fill();
    begin = -1;
  }
}

/** The last values of a quantity. */
export class Tail {
  private values: number[] = [];

  constructor(readonly slots: number) {}

  push(value: number): void {
    this.values.push(value);
    if (this.values.length > this.slots) this.values.splice(0, this.values.length - this.slots);
  }

  draw(canvas: HTMLCanvasElement, colourNumber = 0): void {
    spark(canvas, this.values, this.slots, colourNumber);
  }
}
