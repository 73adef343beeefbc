// Builds the page: src/ becomes the files in crates/weir-control/page/, which the crate embeds.
// They are kept in git, so that `cargo build` needs no Node. With --check, the script only
// compares them with src/.
//
// index.html names the hash of all sources. The test of the crate compares it with the sources.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync, existsSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = dirname(HERE);
const OUT = join(ROOT, "crates/weir-control/page");
/** The style sheets of the reports, which give the page its colours. */
const REPORT = join(ROOT, "crates/weir-report/src/html/report.css");
const PLOT = join(ROOT, "crates/weir-report/src/plot/plot.css");
/** The most that a first visit may transfer, in bytes. */
const MOST = 200_000;

// Colours that only the page needs: edges of fields, filled buttons, warnings, the heat map.
const OWN_LIGHT = [
  "--edge:#808a96",
  "--accent-fill:#0072b2",
  "--warn:#8a5a00",
  "--heat-low:#d3e5f2",
  "--heat-high:#08396b",
];
const OWN_DARK = [
  "--edge:#6f7b8a",
  "--accent-fill:#0f6ba5",
  "--warn:#f2bd4b",
  "--heat-low:#1f3447",
  "--heat-high:#a8dcff",
];

/** All files that the result depends on, in the order of their paths. */
function sources() {
  const walk = (folder) =>
    readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? walk(path) : [path];
    });
  const own = ["build.mjs", "package.json", "package-lock.json"].map((name) => join(HERE, name));
  return [...walk(join(HERE, "src")), ...own, REPORT, PLOT].sort((a, b) =>
    relative(ROOT, a) < relative(ROOT, b) ? -1 : 1,
  );
}

function sourceHash() {
  const hash = createHash("sha256");
  for (const path of sources()) {
    const content = readFileSync(path);
    hash.update(`${relative(ROOT, path)}\0${content.length}\0`);
    hash.update(content);
  }
  return hash.digest("hex");
}

/** The colours of the reports and of their plots, for one theme: declarations of tokens. */
function colours(dark) {
  const block = (path, selector) => {
    const css = readFileSync(path, "utf8");
    const found = dark
      ? new RegExp(`@media \\(prefers-color-scheme:dark\\)\\{${selector}\\{([^}]*)\\}`).exec(css)
      : new RegExp(`^${selector}\\{([^}]*)\\}`, "m").exec(css);
    if (!found) throw new Error(`${path} has no colours`);
    return found[1].split(";");
  };
  const tokens = block(REPORT, ":root").filter((line) => line.startsWith("--"));
  const palette = block(PLOT, "\\.weir-plot").filter((line) => /^--c\d:/.test(line));
  const own = dark ? OWN_DARK : OWN_LIGHT;
  return [...tokens, ...palette, ...own].join(";");
}

/** The colours for the theme of the system, and for each theme that the user chooses. */
function themes() {
  const [light, dark] = [colours(false), colours(true)];
  return `:root{color-scheme:light dark;${light}}@media (prefers-color-scheme:dark){:root{${dark}}}
:root[data-theme=light]{${light};color-scheme:light}:root[data-theme=dark]{${dark};color-scheme:dark}
`;
}

const short = (content) => createHash("sha256").update(content).digest("hex").slice(0, 10);

async function build() {
  const esbuild = await import("esbuild");
  const bundled = await esbuild.build({
    entryPoints: [join(HERE, "src/main.ts")],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: "es2022",
    legalComments: "inline",
    banner: { js: "/*! Weir, MIT OR Apache-2.0. With uPlot, (c) Leon Sorokin, MIT. */" },
  });
  const style = await esbuild.transform(
    themes() + readFileSync(join(HERE, "src/page.css"), "utf8"),
    { loader: "css", minify: true },
  );
  const script = bundled.outputFiles[0].text;
  const names = { script: `page-${short(script)}.js`, style: `page-${short(style.code)}.css` };
  const index = readFileSync(join(HERE, "src/index.html"), "utf8")
    .replace("SOURCES", sourceHash())
    .replace("STYLE", names.style)
    .replace("SCRIPT", names.script);
  return new Map([
    ["index.html", index],
    ["icon.svg", readFileSync(join(HERE, "src/icon.svg"), "utf8")],
    [names.script, script],
    [names.style, style.code],
  ]);
}

const files = await build();
let wire = 0;
for (const [name, content] of files) {
  const packed = gzipSync(content, { level: 9 }).length;
  wire += packed;
  console.log(`${name}: ${content.length} bytes, ${packed} compressed`);
}
console.log(`all: ${wire} bytes compressed`);
if (wire > MOST) {
  console.error(`web/build: more than ${MOST} bytes over the wire`);
  process.exit(1);
}
if (process.argv.includes("--check")) {
  const present = existsSync(OUT) ? readdirSync(OUT) : [];
  const stale = [...files]
    .filter(
      ([name, content]) =>
        !present.includes(name) || readFileSync(join(OUT, name), "utf8") !== content,
    )
    .map(([name]) => name);
  const extra = present.filter((name) => !files.has(name));
  if (stale.length || extra.length) {
    console.error(
      `web/build: not as built from the sources: ${[...stale, ...extra].join(", ")}; run web/build`,
    );
    process.exit(1);
  }
} else {
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(OUT, { recursive: true });
  for (const [name, content] of files) writeFileSync(join(OUT, name), content);
}
