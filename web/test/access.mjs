// Tests of the page of the real command, in Chromium: access over TLS, by another name and from
// another page, and the page's history after a restart of the daemon.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createServer } from "node:http";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gaps, open, rows, withBrowser } from "./browser.mjs";
import { Command, missing } from "./live.mjs";

/** A link with a page, and a ping over it. */
function pinging(weir, ...more) {
  return new Command(weir, [
    "pair",
    "--web",
    "127.0.0.1:0",
    ...more,
    "--link",
    "bw 4Mbit/s",
    "--left",
    "sleep 600",
    "--right",
    "ping -q -i 0.05 left",
  ]);
}

async function inFolder(test) {
  const folder = mkdtempSync(join(tmpdir(), "weir-page-"));
  try {
    return await test(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Makes foreign names resolve to this machine, as an attacker can (DNS rebinding). */
const REBOUND = ["--host-resolver-rules=MAP *.example 127.0.0.1"];

export const tests = {
  "the page works over TLS, and its cookie goes no other way": ({ weir }) => {
    const reason = missing(weir);
    if (reason) return reason;
    try {
      execFileSync("openssl", ["version"], { stdio: "ignore" });
    } catch {
      return "openssl is missing; install it with scripts/setup test";
    }
    return inFolder((folder) =>
      withBrowser(async (browser) => {
        const [cert, key] = ["lab.pem", "lab.key"].map((name) => join(folder, name));
        const names = "subjectAltName=DNS:localhost,DNS:lab.example";
        execFileSync(
          "openssl",
          [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "30",
            "-keyout",
            key,
            "-out",
            cert,
            "-subj",
            "/CN=lab",
            "-addext",
            names,
          ],
          { stdio: "ignore" },
        );
        const pair = pinging(weir, "--web-cert", cert, "--web-key", key);
        try {
          const address = await pair.address();
          assert.match(address, /^https:\/\/localhost:/);
          const page = await open(browser, { ignoreHTTPSErrors: true });
          // The server also answers to the name in its certificate.
          await page.goto(address.replace("localhost", "lab.example"));
          await page.waitForSelector(".thing");
          await page.click("text=to-left");
          await page.waitForSelector(".uplot");
          await page.waitForSelector(".pill.good");
          await page.waitForFunction(() =>
            /\d/.test(document.querySelector(".tiles b").textContent),
          );
          const cookies = await page.context().cookies();
          assert.ok(
            cookies.length === 1 && cookies[0].secure && cookies[0].httpOnly,
            JSON.stringify(cookies),
          );
          assert.equal(cookies[0].sameSite, "Strict");
          await page.fill(".change textarea", "bw 2Mbit/s");
          await page.waitForSelector(".report .good");
          await page.click(".change button[type=submit]");
          await page.waitForSelector("text=In force");
          await page.done();
          // Without an exception for the certificate, a browser refuses it.
          const strict = await open(browser);
          await assert.rejects(strict.goto(address), /CERT/);
          await strict.done();
        } finally {
          await pair.end();
        }
      }, REBOUND),
    );
  },

  "another name and another page do not reach the links": ({ weir }) => {
    const reason = missing(weir);
    if (reason) return reason;
    return withBrowser(async (browser) => {
      const pair = pinging(weir);
      const server = createServer((_, response) => {
        response.writeHead(200, { "Content-Type": "text/html" });
        response.end("<title>evil</title>");
      });
      await new Promise((done) => server.listen(0, "127.0.0.1", done));
      try {
        const address = new URL(await pair.address());
        const page = await open(browser);
        await page.goto(address.href);
        await page.waitForSelector(".thing");
        // A foreign name that was made to lead to this machine.
        const rebound = await open(browser);
        const answer = await rebound.goto(`http://evil.example:${address.port}/`);
        assert.equal(answer.status(), 403);
        // Chromium reports that it ignores headers for names without TLS, so `done()` would fail.
        await rebound.context().close();
        // A page from another server, in the browser that has the cookie.
        const other = await page.context().newPage();
        await other.goto(`http://evil.example:${server.address().port}/`);
        const tried = await other.evaluate(async (at) => {
          const tell = (promise) =>
            promise.then(
              (answer) => `${answer.type} ${answer.status}`,
              (error) => error.name,
            );
          const body = JSON.stringify({ words: "loss 100%" });
          const headers = { "Content-Type": "application/json" };
          const stream = new Promise((done) => {
            const socket = new WebSocket(`ws://${at}/v1/stream`);
            socket.onopen = () => done("open");
            socket.onerror = () => done("refused");
          });
          const frame = document.createElement("iframe");
          frame.src = `http://${at}/`;
          document.body.append(frame);
          return {
            change: await tell(
              fetch(`http://${at}/v1/change`, {
                method: "POST",
                credentials: "include",
                headers,
                body,
              }),
            ),
            form: await tell(
              fetch(`http://${at}/v1/change`, {
                method: "POST",
                credentials: "include",
                mode: "no-cors",
                body,
              }),
            ),
            look: await tell(fetch(`http://${at}/v1/objects`, { credentials: "include" })),
            stream: await stream,
          };
        }, address.host);
        // The browser sends a form and hides the answer, so the objects are compared below.
        assert.deepEqual(
          { ...tried, form: "" },
          { change: "TypeError", form: "", look: "TypeError", stream: "refused" },
        );
        const objects = await page.evaluate(() =>
          fetch("/v1/objects").then((answer) => answer.json()),
        );
        assert.deepEqual(
          objects.objects.map((one) => one.spec),
          ["bw 4Mbit/s", "bw 4Mbit/s"],
        );
        await page.done();
      } finally {
        server.close();
        await pair.end();
      }
    }, REBOUND);
  },

  "graphs of a daemon that was killed do not start empty": ({ weir }) => {
    const reason = missing(weir);
    if (reason) return reason;
    return inFolder((folder) =>
      withBrowser(async (browser) => {
        const start = (port) =>
          new Command(weir, [
            "serve",
            "--bridge",
            "weirtest2,weirtest3",
            "--state",
            join(folder, "state"),
            "--socket",
            join(folder, "socket"),
            "--web",
            `127.0.0.1:${port}`,
            "--user",
            "0",
          ]);
        let daemon = start(0);
        const history = join(folder, "state/web-history/10s");
        const object = "#/o/lane%3Aweirtest2-weirtest3";
        const see = async (page, address) => {
          await page.goto(address);
          await page.waitForSelector("main .view");
          await page.evaluate((hash) => (location.hash = hash), object);
          await page.waitForSelector(".uplot");
        };
        try {
          const address = await daemon.address();
          const page = await open(browser);
          await see(page, address);
          // A record holds the points of ten seconds. The file grows by whole records.
          const length = () => (existsSync(history) ? statSync(history).size : 0);
          for (let records = 0, last = 0; records < 2;) {
            await page.waitForTimeout(200);
            if (length() > last) [records, last] = [records + 1, length()];
          }
          daemon.child.kill("SIGKILL");
          await daemon.ended;
          const killed = Date.now() / 1000;
          await page.waitForSelector(".banner.bad");
          await page.waitForTimeout(4000);
          daemon = start(new URL(address).port);
          await daemon.address();
          await page.waitForSelector(".banner.bad", { state: "detached", timeout: 30_000 });
          const gap = async (shown) => {
            for (let i = 0; i < 100; i++) {
              await shown.waitForTimeout(200);
              const all = await rows(shown);
              if (gaps(all).length) return [all[0].time_s, ...gaps(all)];
            }
            return [];
          };
          // The open page continues after a gap.
          const [, ...found] = await gap(page);
          assert.equal(found.length, 1, JSON.stringify(found));
          await page.done();
          // A new page begins with the points from before the kill.
          const fresh = await open(browser);
          await see(fresh, address);
          const [first, ...between] = await gap(fresh);
          assert.ok(first < killed, `the first value is ${first - killed} s after the kill`);
          assert.equal(between.length, 1, JSON.stringify(between));
          const [[from, to]] = between;
          assert.ok(from <= killed + 1 && to > killed, `${from - killed} s to ${to - killed} s`);
          await fresh.done();
        } finally {
          await daemon.end();
        }
      }),
    );
  },
};
