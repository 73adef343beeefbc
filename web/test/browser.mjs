// Chromium for the tests, or the reason why there is none.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

function find() {
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    try {
      return execFileSync("which", [name], { encoding: "utf8" }).trim();
    } catch {
      // Try the next name.
    }
  }
  return undefined;
}

/** The running browser and its command line. Tests share it, because a start costs time. */
let running;

async function browserWith(executablePath, more) {
  const command = [executablePath, ...more].join(" ");
  if (running?.command === command && running.browser.isConnected()) return running.browser;
  await endBrowser();
  // Chromium refuses to sandbox itself for root.
  const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  // Pictures must not depend on the settings of the system for fonts and colours.
  const args = [
    ...sandbox,
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--force-color-profile=srgb",
    ...more,
  ];
  running = { command, browser: await chromium.launch({ executablePath, args }) };
  return running.browser;
}

export async function endBrowser() {
  await running?.browser.close();
  running = undefined;
}

/**
 * Runs a test with a browser, to which `more` arguments are passed. Tests with equal arguments
 * share a browser; each test opens its own contexts. Without a browser, the result is the reason
 * for skipping the test.
 */
export async function withBrowser(test, more = []) {
  const executablePath = find();
  if (!executablePath) return "chromium is missing; install it with scripts/setup browser";
  const browser = await browserWith(executablePath, more);
  try {
    return await test(browser);
  } finally {
    // A test that failed leaves its contexts open. If the browser has crashed, closing them fails,
    // which must not hide the error of the test.
    await Promise.allSettled(browser.contexts().map((context) => context.close()));
  }
}

/** Opens a page. Its `done()` closes it, and fails if there were errors on the page. */
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.stack ?? String(error)));
  page.on("console", (message) => {
    // The console reports a refused request too, which is not an error of the page.
    if (
      message.type() === "error" &&
      !/Failed to load resource|WebSocket connection/.test(message.text())
    )
      errors.push(message.text());
  });
  page.done = async () => {
    await context.close();
    if (errors.length) throw new Error(`errors on the page:\n${errors.join("\n")}`);
  };
  return page;
}

/** The rows of a plot as the page saves them: numbers by column, NaN where nothing is known. */
export async function rows(page, chart = 0) {
  await page.click(`.chart >> nth=${chart} >> summary`);
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.click(`.chart >> nth=${chart} >> button:has-text("CSV")`),
  ]);
  const [head, ...lines] = readFileSync(await file.path(), "utf8")
    .trim()
    .split("\n");
  const names = head.split(",");
  return lines.map((line) =>
    Object.fromEntries(
      line.split(",").map((cell, i) => [names[i], cell === "" ? NaN : Number(cell)]),
    ),
  );
}

/** The gaps of a plot's line: the times of the last known point before and the first one after. */
export function gaps(all) {
  const known = (row) =>
    Object.entries(row).some(([name, value]) => name !== "time_s" && !Number.isNaN(value));
  const found = [];
  for (let i = 1; i + 1 < all.length; i++) {
    if (!known(all[i]) && known(all[i - 1])) {
      const next = all.slice(i).find(known);
      if (next) found.push([all[i - 1].time_s, next.time_s]);
    }
  }
  return found;
}
