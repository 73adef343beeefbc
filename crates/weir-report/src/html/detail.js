"use strict";
// A quantity over time, in finer steps than in the picture, decoded from text. Any part
// of the time can be drawn.
class WeirDetail {
  constructor({ offset, period, end, items }) {
    const bytes = Uint8Array.from(atob(items), (c) => c.charCodeAt(0));
    let at = 0, place = 0, low = 0;
    const number = () => {
      let value = 0, size = 1, byte;
      do { byte = bytes[at++]; value += (byte & 127) * size; size *= 128; } while (byte > 127);
      return value;
    };
    [this.from, this.low, this.high, this.mean, this.end] = [[], [], [], [], end];
    while (at < bytes.length) {
      const from = place + number();
      place = from + number();
      const step = number();
      low += step % 2 ? -(step + 1) / 2 : step / 2;
      const more = number();
      this.from.push(offset + from * period);
      this.low.push(low);
      this.high.push(low + more);
      this.mean.push(more ? low + more * bytes[at++] / 255 : low);
    }
  }
  // The index of the last item that begins at or before x, or of the first item if none does.
  index(x) {
    let low = 0, high = this.from.length;
    while (low < high) { const mid = (low + high) >> 1; if (this.from[mid] <= x) low = mid + 1; else high = mid; }
    return Math.max(0, low - 1);
  }
  // The end of an item is the start of the next: a length is assumed to hold between readings.
  until(i) { return i + 1 < this.from.length ? this.from[i + 1] : Math.max(this.end, this.from[i]); }
  // Least, greatest and mean between two times; null outside the readings.
  range(from, to) {
    if (!this.from.length || to < this.from[0] || from > this.end) return null;
    let low = Infinity, high = 0, sum = 0, weight = 0;
    for (let i = this.index(from); i < this.from.length && this.from[i] <= to; i++) {
      const span = Math.max(1e-12, Math.min(to, this.until(i)) - Math.max(from, this.from[i]));
      low = Math.min(low, this.low[i]);
      high = Math.max(high, this.high[i]);
      sum += this.mean[i] * span;
      weight += span;
    }
    return { from, to, low, high, mean: sum / weight };
  }
  // The items between two times; if there are too many, the extremes and the mean of each column.
  parts(from, to, columns) {
    const first = this.index(from), last = this.index(to), parts = [];
    if (!this.from.length || to < this.from[0] || from > this.end) return parts;
    if (last - first <= 2 * columns) {
      for (let i = first; i <= last; i++) {
        parts.push({ from: Math.max(from, this.from[i]), to: Math.min(to, this.until(i)), low: this.low[i], high: this.high[i], mean: this.mean[i] });
      }
      return parts;
    }
    for (let c = 0; c < columns; c++) {
      const part = this.range(from + (to - from) * c / columns, from + (to - from) * (c + 1) / columns);
      if (part) parts.push(part);
    }
    return parts;
  }
  // The paths of the band and of the mean, as in the picture; x and y convert values to positions.
  draw(from, to, columns, x, y) {
    const parts = this.parts(from, to, columns), f = (n) => n.toFixed(1);
    if (!parts.length) return "";
    const top = parts.map((p, i) => `${i ? "V" : "M" + f(x(p.from)) + " "}${f(y(p.high))}H${f(x(p.to))}`).join("");
    const back = parts.toReversed().map((p) => `V${f(y(p.low))}H${f(x(p.from))}`).join("");
    const mean = parts.map((p, i) => `${i ? "V" : "M" + f(x(p.from)) + " "}${f(y(p.mean))}H${f(x(p.to))}`).join("");
    return `<path class="band c5" d="${top}${back}Z"/><path class="line c0" d="${mean}"/>`;
  }
}
