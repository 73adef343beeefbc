"use strict";
// The index of a plot's values. In a collection, each chapter numbers its plots from 0.
const weirPlot = (holder) => Number(holder.dataset.plot) + Number(holder.closest("[data-first]")?.dataset.first ?? 0);
// Shows values under the pointer and zooms plots over time. Pictures are complete without this.
(() => {
  const plots = JSON.parse(document.getElementById("weir-plots").textContent);
  const scales = {
    bps: [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]],
    ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
    bytes: [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
    s: [[1, "s"]], count: [[1, ""]], fraction: [[0.01, "%"]],
  };
  const text = (v, unit) => {
    const [size, name] = scales[unit].find(([s]) => Math.abs(v) >= s * 0.9995) || scales[unit].at(-1);
    const n = v / size;
    const digits = unit === "count" ? Math.round(n).toLocaleString("en") : unit === "s" ? n.toFixed(n < 100 ? 2 : 1) : String(+n.toPrecision(n >= 100 ? Math.ceil(Math.log10(n + 1)) : 3));
    return name ? digits + " " + name : digits;
  };
  const node = (name, attributes, parent) => {
    const n = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [k, v] of Object.entries(attributes)) n.setAttribute(k, v);
    parent?.append(n);
    return n;
  };
  // Index of the last row that begins at or before x.
  const before = (rows, x) => {
    let low = 0, high = rows.length;
    while (low < high) { const mid = (low + high) >> 1; if (rows[mid][0] <= x) low = mid + 1; else high = mid; }
    return low - 1;
  };
  const read = (curve, x, units) => {
    const rows = curve.points, i = before(rows, x);
    if (curve.shape === "none" || curve.shape === "dot" || !rows.length) return null;
    if (curve.shape === "bar") return i >= 0 && x < rows[i][1] ? text(rows[i][2], units.y) : units.kind === "time" ? "0" : null;
    if (curve.shape === "step") {
      if (i < 0) return null;
      const row = rows[Math.min(i, Math.max(0, rows.length - 2))];
      if (row.includes(null)) return null;
      return row.length > 2 && row[1] !== row[2] ? text(row[1], units.y) + " to " + text(row[2], units.y) : text(row[1], units.y);
    }
    if (i < 0) return text(0, units.y);
    if (i === rows.length - 1) return text(rows[i][1], units.y);
    const [[x0, y0], [x1, y1]] = [rows[i], rows[i + 1]];
    return text(x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : y1, units.y);
  };
  const timed = [];
  let zoom = null;

  class View {
    constructor(svg, data) {
      this.svg = svg;
      this.data = data;
      [this.left, this.top, this.right, this.bottom] = svg.dataset.frame.split(",").map(Number);
      [this.low, this.high, this.log, this.unit] = svg.dataset.x.split(",").map(Number);
      this.full = [this.low, this.high];
      this.group = svg.querySelector(".data");
      this.ticks = svg.querySelector(".xticks");
      this.original = this.ticks.innerHTML;
      this.holder = svg.closest(".plot");
      if (data.detail) {
        this.detail = data.finer ??= new WeirDetail(data.detail);
        [this.bottomValue, this.topValue] = svg.dataset.y.split(",").map(Number);
        this.picture = this.group.innerHTML;
      }
      svg.setAttribute("tabindex", "0");
      svg.addEventListener("pointermove", (e) => this.move(e));
      svg.addEventListener("pointerleave", () => this.start === undefined && this.leave());
      svg.addEventListener("blur", () => this.leave());
      svg.addEventListener("keydown", (e) => this.key(e));
      if (data.kind === "time") {
        timed.push(this);
        svg.addEventListener("pointerdown", (e) => this.down(e));
        svg.addEventListener("pointerup", (e) => this.up(e));
        svg.addEventListener("pointercancel", () => this.forget());
        svg.addEventListener("dblclick", () => setZoom(null));
      }
    }
    px(e) {
      const box = this.svg.getBoundingClientRect();
      return Math.min(this.right, Math.max(this.left, (e.clientX - box.left) * this.svg.viewBox.baseVal.width / box.width));
    }
    value(px) {
      const part = (px - this.left) / (this.right - this.left);
      return this.log ? this.low * Math.pow(this.high / this.low, part) : this.low + part * (this.high - this.low);
    }
    move(e) {
      const px = this.px(e);
      this.show(px);
      if (this.start !== undefined) {
        this.box ??= node("rect", { class: "select", y: this.top, height: this.bottom - this.top }, this.svg);
        this.box.setAttribute("x", Math.min(px, this.start));
        this.box.setAttribute("width", Math.abs(px - this.start));
      }
    }
    show(px) {
      const x = this.value(px);
      this.at = px;
      this.line ??= node("path", { class: "cursor" }, this.svg);
      this.line.setAttribute("d", `M${px} ${this.top}V${this.bottom}`);
      const rows = this.detail ? this.finer(x) : this.data.curves.map((c) => [c, read(c, x, this.data)]).filter(([, v]) => v !== null);
      this.tip ??= this.holder.appendChild(Object.assign(document.createElement("div"), { className: "tip" }));
      // In a zoomed plot, the time has enough digits to distinguish two pixels.
      const digits = Math.max(2, Math.ceil(-Math.log10((this.high - this.low) / 500)));
      this.tip.replaceChildren(this.data.x === "s" ? x.toFixed(digits) + " s" : text(x, this.data.x), ...rows.map(([c, v]) => {
        const row = document.createElement("div"), key = document.createElement("b");
        key.style.background = getComputedStyle(this.svg).getPropertyValue("--c" + c.colour);
        row.append(key, c.name + " " + v);
        return row;
      }));
      const scale = this.svg.getBoundingClientRect().width / this.svg.viewBox.baseVal.width, at = px * scale;
      const flip = at + this.tip.offsetWidth + 16 > this.holder.offsetWidth;
      this.tip.style.left = Math.max(0, flip ? at - this.tip.offsetWidth - 12 : at + 12) + "px";
    }
    // The values in the range of the pixel under the pointer.
    finer(x) {
      const pixel = (this.high - this.low) / (this.right - this.left) / 2, found = this.detail.range(x - pixel, x + pixel);
      if (!found) return [];
      const [band, mean] = this.data.curves, unit = this.data.y;
      const exact = found.mean < 10 && unit === "count" ? String(+found.mean.toPrecision(3)) : text(found.mean, unit);
      return [[band, found.low === found.high ? text(found.low, unit) : text(found.low, unit) + " to " + text(found.high, unit)], [mean, exact]];
    }
    leave() {
      this.tip?.remove();
      this.line?.remove();
      this.tip = this.line = this.at = undefined;
    }
    down(e) {
      if (e.button !== 0 || e.pointerType === "touch") return;
      this.start = this.px(e);
      this.svg.setPointerCapture(e.pointerId);
    }
    up(e) {
      const from = this.start, to = this.px(e);
      this.forget();
      if (from !== undefined && Math.abs(to - from) > 6) setZoom([this.value(Math.min(from, to)), this.value(Math.max(from, to))]);
    }
    forget() {
      this.start = undefined;
      this.box?.remove();
      this.box = undefined;
    }
    key(e) {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (step) {
        e.preventDefault();
        this.show(Math.min(this.right, Math.max(this.left, (this.at ?? this.left) + step * (e.shiftKey ? 40 : 4))));
      } else if (e.key === "Escape") { this.leave(); setZoom(null); }
      else if (this.data.kind === "time" && (e.key === "+" || e.key === "-") && this.at !== undefined) {
        const x = this.value(this.at), factor = e.key === "+" ? 0.5 : 2;
        setZoom([x - (x - this.low) * factor, x + (this.high - x) * factor]);
      }
    }
    apply(range) {
      this.leave();
      [this.low, this.high] = range ? [Math.max(this.full[0], range[0]), Math.min(this.full[1], range[1])] : this.full;
      if (!(this.high > this.low)) [this.low, this.high] = this.full;
      const whole = this.low === this.full[0] && this.high === this.full[1];
      const k = (this.full[1] - this.full[0]) / (this.high - this.low);
      const shift = this.left - k * (this.left + (this.low - this.full[0]) / (this.full[1] - this.full[0]) * (this.right - this.left));
      if (whole) { this.group.removeAttribute("transform"); this.ticks.innerHTML = this.original; if (this.detail) this.group.innerHTML = this.picture; }
      else if (this.detail) { this.redraw(); this.retick(); }
      else { this.group.setAttribute("transform", `translate(${shift} 0) scale(${k} 1)`); this.retick(); }
      this.button?.remove();
      this.button = undefined;
      if (!whole) {
        this.button = this.holder.appendChild(Object.assign(document.createElement("button"), { className: "reset", textContent: "whole run" }));
        this.button.addEventListener("click", () => setZoom(null));
      }
    }
    redraw() {
      const x = (v) => this.left + (v - this.low) / (this.high - this.low) * (this.right - this.left);
      const y = (v) => this.bottom - (v - this.bottomValue) / (this.topValue - this.bottomValue) * (this.bottom - this.top);
      this.group.innerHTML = this.detail.draw(this.low, this.high, Math.round(this.right - this.left), x, y);
    }
    retick() {
      const span = (this.high - this.low) / this.unit, raw = span / ((this.right - this.left) / 68);
      const base = Math.pow(10, Math.floor(Math.log10(raw))), step = [1, 2, 5, 10].map((f) => f * base).find((s) => s >= raw);
      const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
      this.ticks.replaceChildren();
      for (let i = Math.ceil(this.low / this.unit / step - 1e-9); i * step <= this.high / this.unit + 1e-9; i++) {
        const px = this.left + (i * step * this.unit - this.low) / (this.high - this.low) * (this.right - this.left);
        node("path", { d: `M${px} ${this.bottom}v5` }, this.ticks);
        node("text", { x: px, y: this.bottom + 18 }, this.ticks).textContent = (i * step).toFixed(decimals);
      }
    }
  }
  const setZoom = (range) => {
    zoom = range && range[1] - range[0] > 0 ? range : null;
    for (const view of timed) view.apply(zoom);
  };
  for (const holder of document.querySelectorAll(".plot[data-plot]")) {
    for (const svg of holder.querySelectorAll("svg")) new View(svg, plots[weirPlot(holder)]);
  }
  addEventListener("resize", () => document.activeElement?.blur?.());
})();
