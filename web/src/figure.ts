// Numbers that change: their digits and unit keep their place.

import { h, say, flag } from "./dom";
import { Steady, type Unit } from "./format";

export class Figure {
  readonly node: HTMLElement;
  private readonly number = h("b");
  private readonly unit = h("small");
  private readonly steady: Steady;

  constructor(unit: Unit) {
    this.steady = new Steady(unit);
    this.node = h("span", { class: "num" }, this.number, this.unit);
  }

  set(value: number | null | undefined): void {
    const [digits, unit] = this.steady.split(value ?? NaN);
    say(this.number, digits);
    say(this.unit, unit);
  }
}

/** A number in large type with its name. */
export class Tile {
  readonly node: HTMLElement;
  private readonly figure: Figure;
  private readonly detail = h("small", { class: "detail" });

  constructor(name: string, unit: Unit) {
    this.figure = new Figure(unit);
    this.node = h("div", null, h("dt", null, name), h("dd", null, this.figure.node, this.detail));
  }

  set(value: number | null | undefined, detail = "", bad = false): void {
    this.figure.set(value);
    say(this.detail, detail);
    flag(this.node, "bad", bad);
  }
}
