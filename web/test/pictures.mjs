// Compares every view, at three widths, light and dark, with accepted pictures in accepted/.
//
// The stand-in and the page stop their clocks at one time, and the font is fixed. The page draws
// only when the test says so: after it has sent all requests, and again after it has received all
// data. So no picture depends on the speed of the machine. Two runs differ only by a few pixels,
// where the graphics process rounds an edge. Another version of Chromium also rounds curves and
// letters differently. So the test compares the mean colours of tiles. `scripts/web accept` writes
// new pictures, at half the size, to be checked before they are committed; `--shots DIR` writes
// them at full size, too.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { open, withBrowser } from "./browser.mjs";
import { VIEWS as LIVE_VIEWS, enter, standIn } from "./looks.mjs";
import { VIEWS as STUDY_VIEWS } from "./studies.mjs";

const VIEWS = { ...LIVE_VIEWS, ...STUDY_VIEWS };
const ACCEPTED = join(dirname(fileURLToPath(import.meta.url)), "accepted");
/** The file with the major version of the Chromium that made the pictures. */
const MAKER = join(ACCEPTED, "chromium");
/** Pictures that differ are kept here, beside the installed packages, for inspection. */
const DIFFERENT = join(dirname(dirname(fileURLToPath(import.meta.url))), "node_modules/.different");
/** The time at which all clocks are stopped. */
const STILL = Date.UTC(2026, 0, 15, 10, 30, 0);
const FONT = "DejaVu Sans";
const STYLE = `*{font-family:"${FONT}"!important}code,code *,pre,textarea,.change input{font-family:"${FONT} Mono"!important}.scroller{height:760px!important}`;
/** A timer that is set more often than this is taken for a poll. */
const POLLS = 8;
const WIDTHS = [390, 1280, 1920];
/** The side of a tile, in pixels of the half-size picture. */
const TILE = 8;
/** The mean of each colour channel of a tile may differ by this much, of 255. */
const COLOUR = 14;
/** The most pictures of a view that are compared: one that differs is taken again. */
const ATTEMPTS = 3;
/** The share of the tiles that may differ. A missing button changes a larger share. */
const SHARE = 0.0005;

/**
 * Stops the clocks and fixes the font of a page, before its scripts run. The page draws only when
 * `frame()` is called. `busy()` counts the answers, timers and messages for which the page still
 * waits. Timers are shortened, so that a page is soon idle. A view that polls asks POLLS times and
 * is then idle, too. Functions that the page repeats by `setInterval` run before each frame and at
 * no other time, because the clock of the stand-in shows earlier times while `tell()` runs.
 */
function freeze([still, style, POLLS]) {
  let clock = 100_000;
  Date.now = () => still;
  performance.now = () => clock;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(style);
  document.adoptedStyleSheets = [sheet];

  let waiting = 0;
  const { fetch, setTimeout, clearTimeout, WebSocket, requestAnimationFrame } = globalThis;
  const counted = (promise) => (waiting++, promise.finally(() => waiting--));
  globalThis.fetch = (...request) => counted(fetch(...request));
  for (const name of ["text", "json"]) {
    const read = Response.prototype[name];
    Response.prototype[name] = function () {
      return counted(read.call(this));
    };
  }
  const timers = new Set();
  const timesSet = new Map();
  globalThis.setTimeout = (act, time, ...more) => {
    // A poll sets the same timer each time. The last of these timers never fires.
    const which = `${time} ${act}`;
    timesSet.set(which, (timesSet.get(which) ?? 0) + 1);
    if (timesSet.get(which) > POLLS) return setTimeout(() => {}, 2 ** 31 - 1);
    const timer = setTimeout(
      () => {
        timers.delete(timer);
        act(...more);
      },
      Math.min(time, 20),
    );
    timers.add(timer);
    return timer;
  };
  globalThis.clearTimeout = (timer) => {
    timers.delete(timer);
    clearTimeout(timer);
  };
  const repeated = new Map();
  let intervals = 0;
  globalThis.setInterval = (act) => {
    repeated.set(--intervals, act);
    return intervals;
  };
  globalThis.clearInterval = (timer) => repeated.delete(timer);
  let [asked, answered, told] = [0, 0, 0];
  let greeted = false;
  globalThis.WebSocket = class extends WebSocket {
    constructor(...where) {
      super(...where);
      this.addEventListener("message", ({ data }) => {
        if (data.includes('"type":"hello"')) greeted = true;
        else if (data.includes('"type":"subscribed"')) answered++;
        else told++;
      });
    }
    send(text) {
      if (text.includes('"subscribe"')) asked++;
      super.send(text);
    }
  };
  let frames = [];
  let time = 0;
  globalThis.requestAnimationFrame = (act) => frames.push(act);
  globalThis.drawing = {
    busy: async () => {
      // Sizes are observed when the browser lays the page out, so two of its own frames pass first.
      for (let frame = 0; frame < 2; frame++)
        await new Promise((done) => requestAnimationFrame(done));
      return waiting + timers.size + (greeted ? 0 : 1) + (asked - answered);
    },
    told: () => told,
    /** Calls a function in the browser's next frame. */
    nextFrame: requestAnimationFrame.bind(globalThis),
    /** Advances the clock, because the page does not draw a view twice at the same time. */
    later: () => (clock += 1000),
    frame: () => {
      const due = frames;
      frames = [];
      time += 1000;
      for (const act of repeated.values()) act();
      for (const act of due) act(time);
    },
  };
}

/** Whether the system has the font; letters of another font have other widths. */
function hasFont() {
  try {
    return execFileSync("fc-list", [FONT, "family"], { encoding: "utf8" }).trim() !== "";
  } catch {
    return false;
  }
}

/**
 * A screenshot at half its size, as WebP in base64, and the share of its tiles that differ from an
 * accepted picture.
 */
async function compare(tool, shot, accepted) {
  return tool.evaluate(
    async ([now, before, TILE, COLOUR]) => {
      const load = async (type, base64) =>
        createImageBitmap(await (await fetch(`data:image/${type};base64,${base64}`)).blob());
      const canvas = (image, width, height) => {
        const made = Object.assign(document.createElement("canvas"), { width, height });
        const pen = made.getContext("2d", { willReadFrequently: true });
        pen.imageSmoothingQuality = "high";
        pen.drawImage(image, 0, 0, width, height);
        return made;
      };
      const tiles = ({ width, height }, pixels) => {
        const columns = Math.ceil(width / TILE);
        const sums = new Float64Array(columns * Math.ceil(height / TILE) * 4);
        for (let y = 0; y < height; y++) {
          for (let x = 0; x < width; x++) {
            const tile = (Math.floor(y / TILE) * columns + Math.floor(x / TILE)) * 4;
            for (let c = 0; c < 3; c++) sums[tile + c] += pixels[(y * width + x) * 4 + c];
            sums[tile + 3]++;
          }
        }
        return sums;
      };
      const means = (made) =>
        tiles(made, made.getContext("2d").getImageData(0, 0, made.width, made.height).data);
      const image = await load("png", now);
      const halved = canvas(image, image.width >> 1, image.height >> 1);
      // The number of empty rows below the last element varies, so they are cut off.
      const bytes = halved.getContext("2d").getImageData(0, 0, halved.width, halved.height).data;
      const stride = halved.width * 4;
      const blank = (y) =>
        bytes
          .subarray(y * stride, (y + 1) * stride)
          .every((value, i) => value === bytes[(halved.height - 1) * stride + (i % 4)]);
      let height = halved.height;
      while (height > 1 && blank(height - 1)) height--;
      const cropped = Object.assign(document.createElement("canvas"), {
        width: halved.width,
        height,
      });
      cropped.getContext("2d", { willReadFrequently: true }).drawImage(halved, 0, 0);
      const webp = cropped.toDataURL("image/webp", 0.85).split(",")[1];
      if (!before) return { webp };
      const old = await load("webp", before);
      // The new picture is decoded from WebP, too: the format changes the colours of thin lines.
      const lossy = await load("webp", webp);
      const size = `${cropped.width}x${cropped.height}`;
      if (`${old.width}x${old.height}` !== size)
        return { webp, reason: `is ${size} in size, was ${old.width}x${old.height}` };
      const [a, b] = [lossy, old].map((image) => means(canvas(image, image.width, image.height)));
      let different = 0;
      for (let i = 0; i < a.length; i += 4) {
        if ([0, 1, 2].some((c) => Math.abs(a[i + c] - b[i + c]) > COLOUR * a[i + 3])) different++;
      }
      return { webp, share: different / (a.length / 4) };
    },
    [shot.toString("base64"), accepted?.toString("base64"), TILE, COLOUR],
  );
}

/** Waits until a function returns true in the page. */
async function until(page, what, test, argument) {
  for (let attempt = 0; attempt < 3000; attempt++) {
    if (await page.evaluate(test, argument)) return;
    await page.waitForTimeout(20);
  }
  throw new Error(`the page never ${what}`);
}

/** A page for pictures of one width and colour scheme, with stopped clocks. */
async function still(browser, width, colorScheme) {
  const page = await open(browser, {
    // The window is as high as the longest view: plots out of sight are not drawn.
    viewport: { width, height: width < 500 ? 4200 : 2000 },
    colorScheme,
    bypassCSP: true,
    reducedMotion: "reduce",
    timezoneId: "UTC",
    locale: "en-US",
  });
  await page.addInitScript(freeze, [STILL, STYLE, POLLS]);
  page.tools = await page.context().newCDPSession(page);
  return page;
}

/** A screenshot of a view, once nothing on it changes any more. */
async function picture(page, stand, address, [hash, ready, complete], width) {
  const idle = () => until(page, "is idle", async () => (await globalThis.drawing.busy()) === 0);
  const draw = async () => {
    for (let frame = 0; frame < 3; frame++) {
      await page.evaluate(() => globalThis.drawing.frame());
      await idle();
    }
  };
  await enter(page, address, hash, complete ?? ready);
  await idle();
  await draw();
  await page.evaluate(() => globalThis.drawing.later());
  const messages = stand.tell();
  await until(page, "was told everything", (n) => globalThis.drawing.told() === n, messages);
  await idle();
  await draw();
  await page.waitForSelector(ready);
  // The height is asked for anew each time: the layout may settle after the first measurement.
  let [height, last] = [0, -1];
  for (let attempt = 0; attempt < 20 && height !== last; attempt++) {
    last = height;
    height = await page.evaluate(async () => {
      await new Promise((done) => globalThis.drawing.nextFrame(done));
      return Math.ceil(document.querySelector("main .view").getBoundingClientRect().bottom);
    });
  }
  // `optimizeForSpeed` compresses less, which takes a fraction of the time.
  const clip = { x: 0, y: 0, width, height, scale: 1 };
  const options = { format: "png", clip, optimizeForSpeed: true };
  const { data } = await page.tools.send("Page.captureScreenshot", options);
  return Buffer.from(data, "base64");
}

export const tests = {
  "every view looks like its accepted picture": ({ accept, shots }) => {
    if (!hasFont()) return `the font ${FONT} is missing; install it with scripts/setup browser`;
    return withBrowser(async (browser) => {
      const [version] = browser.version().split(".");
      if (accept) {
        rmSync(ACCEPTED, { recursive: true, force: true });
        mkdirSync(ACCEPTED);
        writeFileSync(MAKER, `${version}\n`);
      }
      const maker = readFileSync(MAKER, "utf8").trim();
      if (version !== maker)
        return `the pictures are of Chromium ${maker}, and this is ${version}; look at them and run scripts/web accept`;
      if (shots) mkdirSync(shots, { recursive: true });
      rmSync(DIFFERENT, { recursive: true, force: true });
      const tool = await open(browser);
      const bad = [];
      const one = async (page, name, view, width, colorScheme) => {
        const title = `${name}-${width}-${colorScheme}`;
        const path = join(ACCEPTED, `${title}.webp`);
        if (!accept && !existsSync(path)) return bad.push(`${title} has no accepted picture`);
        const stand = { kind: name === "run" ? "run" : "serve", still: STILL };
        let webp, reason, share;
        for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
          const shot = await standIn(stand, (stand, address) =>
            picture(page, stand, address, view, width),
          );
          if (shots) writeFileSync(join(shots, `${title}.png`), shot);
          ({ webp, share, reason } = await compare(
            tool,
            shot,
            accept ? undefined : readFileSync(path),
          ));
          if (accept) return writeFileSync(path, Buffer.from(webp, "base64"));
          if (!reason && share <= SHARE) return undefined;
        }
        mkdirSync(DIFFERENT, { recursive: true });
        writeFileSync(join(DIFFERENT, `${title}.webp`), Buffer.from(webp, "base64"));
        return bad.push(
          `${title} ${reason ?? `differs in ${(100 * share).toFixed(2)} % of its tiles`}`,
        );
      };
      const views = [...Object.entries(VIEWS), ["run", VIEWS.overview]];
      const pages = WIDTHS.flatMap((width) => ["light", "dark"].map((scheme) => [width, scheme]));
      // Most of the time is waiting, so several pictures are taken at the same time.
      const some = async () => {
        for (let next = pages.shift(); next; next = pages.shift()) {
          const page = await still(browser, ...next);
          for (const [name, view] of views) await one(page, name, view, ...next);
          await page.done();
        }
      };
      await Promise.all([some(), some(), some()]);
      await tool.done();
      assert.deepEqual(bad, [], `look at web/node_modules/.different, then run scripts/web accept`);
      return undefined;
    });
  },
};
