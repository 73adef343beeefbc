// Chromium for the tests, or the reason why there is none.

import { execFileSync } from "node:child_process";
import { chromium } from "playwright-core";

function find() {
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    try {
      return execFileSync("which", [name], { encoding: "utf8" }).trim();
    } catch {
      // The next name.
    }
  }
  return undefined;
}

/** Runs a test with a browser; without one the result is the reason for skipping. */
export async function withBrowser(test) {
  const executablePath = find();
  if (!executablePath) return "chromium is missing; install it with scripts/setup browser";
  // Chromium refuses to sandbox itself for root.
  const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  // Pictures must not depend on the settings of the system for fonts and colours.
  const args = [...sandbox, "--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb"];
  const browser = await chromium.launch({ executablePath, args });
  try {
    return await test(browser);
  } finally {
    await browser.close();
  }
}

/** A page whose errors end the test. */
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.stack ?? String(error)));
  page.on("console", (message) => {
    // A refused request is also an error of the console.
    if (message.type() === "error" && !/Failed to load resource|WebSocket connection/.test(message.text())) errors.push(message.text());
  });
  page.done = async () => {
    await context.close();
    if (errors.length) throw new Error(`errors on the page:\n${errors.join("\n")}`);
  };
  return page;
}
