// Finds the customer with the longest queue among ten thousand on the page of a real daemon, and
// doubles this customer's rate, as a person would: with pauses to read. Prints the time of each step.
//
//   sudo node bench/web/customers.mjs target/release/weir [PAUSE_MS]     once scripts/web test has run
//
// A bridge between two namespaces carries 5,000 small packets a second to 10,000 addresses, each
// with its own instance of a pipe of 500 kbit/s. One address gets 800 kbit/s more, so its queue is full.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const { chromium } = createRequire(
  new URL("../../web/package.json", import.meta.url),
)("playwright-core");
const [given = "target/release/weir", pause = "1500"] = process.argv.slice(2);
const weir = resolve(given);
const SLOW = "10.2.31.7";
/** The script waits until the longest queue has more packets than this. A queue holds 50. */
const LONG = 10;
/** Sends to all customers in turn, and 100 longer packets a second to one of them. */
const SPRAY = `
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to = [(f"10.2.{i >> 8}.{i & 255}", 9) for i in range(256, 10256)]
number, due = 0, time.monotonic()
while True:
    for _ in range(50):
        s.sendto(bytes(172), to[number % 10000])
        number += 1
    s.sendto(bytes(1000), ("${SLOW}", 9))
    due += 0.01
    time.sleep(max(due - time.monotonic(), 0))
`;

const run = (...words) =>
  execFileSync(words[0], words.slice(1), { env: process.env });
const folder = mkdtempSync(join(tmpdir(), "weir-customers-"));
process.env.WEIR_SOCKET = join(folder, "socket");
const children = [];
let browser;
try {
  for (const side of ["l", "r"]) {
    run("ip", "netns", "add", `weircu${side}`);
    run(
      "ip",
      "link",
      "add",
      `weircu${side}`,
      "type",
      "veth",
      "peer",
      "name",
      "e",
      "netns",
      `weircu${side}`,
    );
    run("ip", "link", "set", `weircu${side}`, "up");
    run("ip", "-n", `weircu${side}`, "link", "set", "e", "up", "arp", "off");
  }
  run("ip", "-n", "weircul", "addr", "add", "10.1.0.1/24", "dev", "e");
  run("ip", "-n", "weircul", "route", "add", "10.2.0.0/15", "dev", "e");
  const words = [
    "serve",
    "--bridge",
    "weircul,weircur",
    "--state",
    join(folder, "state"),
    "--socket",
    process.env.WEIR_SOCKET,
    "--web",
    "127.0.0.1:0",
    "--user",
    "0",
  ];
  const daemon = spawn(weir, words, { stdio: ["ignore", "inherit", "pipe"] });
  children.push(daemon);
  const address = await new Promise((found, failed) => {
    let text = "";
    daemon.stderr.on("data", (data) => {
      const match = /http:\S+/.exec((text += data));
      if (match) found(match[0]);
    });
    daemon.once("exit", () => failed(new Error(`the daemon ended:\n${text}`)));
  });
  run(
    weir,
    "pipe",
    "1",
    "config",
    "bw",
    "500kbit/s",
    "queue",
    "50",
    "mask",
    "dst-ip",
    "0xffffffff",
  );
  run(
    weir,
    "add",
    "100",
    "pipe",
    "1",
    "ip",
    "from",
    "any",
    "to",
    "10.2.0.0/15",
    "in",
    "recv",
    "weircul",
  );
  children.push(
    spawn("ip", ["netns", "exec", "weircul", "python3", "-c", SPRAY], {
      stdio: "inherit",
    }),
  );
  const root = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  browser = await chromium.launch({
    executablePath: run("which", "chromium").toString().trim(),
    args: root,
  });
  const page = await (
    await browser.newContext({ viewport: { width: 1280, height: 800 } })
  ).newPage();
  // Within this time, all customers receive packets.
  await page.waitForTimeout(10_000);

  const began = Date.now();
  const step = async (what) => {
    console.log(
      `${((Date.now() - began) / 1000).toFixed(1).padStart(5)} s  ${what}`,
    );
    await page.waitForTimeout(Number(pause));
  };
  await page.goto(address);
  await page.waitForSelector(".thing");
  await step("the overview");
  await page.click("nav >> text=Instances");
  await page.waitForSelector(".rows .row .key");
  await step(await page.textContent("text=/in total/ >> nth=-1"));
  await page.click(".sort >> text=Packets waiting");
  await page.waitForFunction(
    (least) =>
      Number(document.querySelector(".rows .queue b")?.textContent) > least,
    LONG,
  );
  await step(
    `${await page.textContent(".rows .key >> nth=0")} has ${await page.textContent(".rows .queue >> nth=0")} waiting`,
  );
  await page.click(".rows .key >> nth=0");
  await page.waitForSelector(".report .good");
  await step(
    `the page offers: ${(await page.inputValue(".change textarea")).replace("\n", "; ")}`,
  );
  await page.click(".change button[type=submit]");
  await page.waitForSelector("text=In force");
  await step("in force");
} finally {
  await browser?.close();
  for (const child of children.reverse()) child.kill("SIGTERM");
  await new Promise((done) => setTimeout(done, 1000));
  for (const side of ["l", "r"]) {
    try {
      run("ip", "link", "del", `weircu${side}`);
      run("ip", "netns", "del", `weircu${side}`);
    } catch {
      // The interface or the namespace does not exist.
    }
  }
  rmSync(folder, { recursive: true, force: true });
}
