// Measures what the page costs in Chromium: processor time of all its processes, frames a second,
// the time to the first view, and the bytes that arrive.
//
//   node bench/web/measure.mjs [--address 'http://127.0.0.1:8080/#token=…'] [--seconds 20]
//
// Without an address, the stand-in of the tests serves made-up values: a bridge with rules, pipes,
// a scheduler, and a pipe with 10,000 instances. scripts/web test must have run once, for the
// packages.

import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const require = createRequire(join(ROOT, "web/package.json"));
const { chromium } = require("playwright-core");
const { StandIn, TOKEN } = await import(join(ROOT, "web/test/stand-in.mjs"));
const { values } = parseArgs({
  options: {
    address: { type: "string" },
    seconds: { type: "string", default: "20" },
  },
});
const seconds = Number(values.seconds);

let stand;
let address = values.address;
if (!address) {
  stand = new StandIn({ folder: join(ROOT, "crates/weir-control/page") });
  address = `${await stand.listen()}/#token=${TOKEN}`;
}
const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args,
});
const system = await browser.newBrowserCDPSession();
const page = await (
  await browser.newContext({ viewport: { width: 1280, height: 800 } })
).newPage();
// Counts the frames in which the page draws, and notes the first moment with content.
await page.addInitScript(() => {
  globalThis.drawn = new Set();
  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...rest) {
    globalThis.drawn.add(document.timeline.currentTime);
    return clear.apply(this, rest);
  };
  const watch = new MutationObserver(() => {
    if (!document.querySelector(".thing, .row .key, .uplot")) return;
    watch.disconnect();
    requestAnimationFrame(() =>
      setTimeout(() => (globalThis.firstView = performance.now())),
    );
  });
  watch.observe(document, { childList: true, subtree: true });
});
let bytes = 0;
const network = await page.context().newCDPSession(page);
await network.send("Network.enable");
network.on(
  "Network.webSocketFrameReceived",
  ({ response }) => (bytes += response.payloadData.length),
);
network.on(
  "Network.loadingFinished",
  ({ encodedDataLength }) => (bytes += encodedDataLength),
);

await page.goto(address);
await page.waitForSelector("main .view");
const views = [
  ["overview", "#/"],
  ["instances", "#/instances"],
  ["one object", undefined],
];
await page.waitForFunction(() => globalThis.firstView !== undefined);
const cold = await page.evaluate(() => globalThis.firstView);
const first = bytes;
await page.reload();
await page.waitForFunction(() => globalThis.firstView !== undefined);
console.log(
  `first view: ${cold.toFixed(0)} ms, again ${(await page.evaluate(() => globalThis.firstView)).toFixed(0)} ms; ${first} bytes until then`,
);
const object = await page.evaluate(
  () =>
    [...document.querySelectorAll(".thing header a")]
      .map((a) => a.getAttribute("href"))
      .find((href) => !href.includes("lane") && href.includes("/o/")) ?? "#/",
);
for (const [name, hash] of views) {
  await page.evaluate((to) => (location.hash = to), hash ?? object);
  await page.waitForTimeout(3000);
  const before = await processes();
  const got = bytes;
  await page.evaluate(() => globalThis.drawn.clear());
  const began = performance.now();
  await page.waitForTimeout(seconds * 1000);
  const after = await processes();
  const frames = await page.evaluate(() => globalThis.drawn.size);
  const took = (performance.now() - began) / 1000;
  const parts = Object.keys(after).map(
    (type) =>
      `${type} ${((100 * (after[type] - (before[type] ?? 0))) / took).toFixed(1)} %`,
  );
  const sum = Object.keys(after).reduce(
    (total, type) => total + after[type] - (before[type] ?? 0),
    0,
  );
  console.log(
    `${name}: ${((100 * sum) / took).toFixed(1)} % of a core (${parts.join(", ")}), ${(frames / took).toFixed(1)} frames/s, ${((bytes - got) / took / 1000).toFixed(1)} kB/s`,
  );
}
await browser.close();
stand?.close();

/** The processor time of Chromium's processes by type, s. */
async function processes() {
  const { processInfo } = await system.send("SystemInfo.getProcessInfo");
  const out = {};
  for (const { type, cpuTime } of processInfo)
    out[type] = (out[type] ?? 0) + cpuTime;
  return out;
}
process.exit(0);
