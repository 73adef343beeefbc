// The entry: signs in, builds the frame of the page, and shows the view that the address names.

import { App, type View } from "./app";
import { get, post, Refused, type Page } from "./api";
import { flag, h, put, say } from "./dom";
import { elapsed, text } from "./format";
import { savedTheme, setTheme, type Theme } from "./theme";
import { words } from "./text";
import { overview } from "./views/overview";
import { objectView } from "./views/object";
import { instances } from "./views/instances";
import { rulesView } from "./views/rules";
import { changeView } from "./views/change";
import { kernelView } from "./views/kernel";
import { scenariosView } from "./views/scenarios";
import { schedulersView } from "./views/schedulers";

interface Tab {
  path: string;
  name: string;
  shown: (app: App) => boolean;
  open: (app: App, rest: string) => View;
}

const TABS: Tab[] = [
  { path: "", name: words.overview, shown: () => true, open: (app) => overview(app) },
  {
    path: "instances",
    name: words.instances,
    shown: (app) => app.can("top") && app.page.language === "commands",
    open: (app, rest) => instances(app, rest),
  },
  {
    path: "rules",
    name: words.rules,
    shown: (app) => app.can("rules") && app.page.language === "commands",
    open: (app) => rulesView(app),
  },
  {
    path: "change",
    name: words.change,
    shown: (app) => app.can("change") || app.can("changes"),
    open: (app, rest) => changeView(app, rest),
  },
  {
    path: "scenarios",
    name: words.scenarios,
    shown: (app) => app.can("studies"),
    open: (app) => scenariosView(app),
  },
  {
    path: "schedulers",
    name: words.sideBySideTab,
    shown: (app) => app.can("studies"),
    open: (app) => schedulersView(app),
  },
  {
    path: "kernel",
    name: words.kernel,
    shown: (app) => app.can("studies"),
    open: (app, rest) => kernelView(app, rest),
  },
];

async function start(): Promise<void> {
  setTheme(savedTheme());
  const token = /^#token=(.*)$/.exec(location.hash)?.[1];
  if (token !== undefined) history.replaceState(null, "", location.pathname);
  const root = document.getElementById("page")!;
  if (token !== undefined && !(await signIn(root, token))) return;
  try {
    open(root, await get<Page>("/v1/page"));
  } catch (error) {
    if (error instanceof Refused && error.status === 401) askToken(root, words.tokenNeeded);
    else broken(root, error);
  }
}

async function signIn(root: HTMLElement, token: string): Promise<boolean> {
  try {
    await post("/v1/login", { token: decodeURIComponent(token).trim() });
    return true;
  } catch (error) {
    if (error instanceof Refused)
      askToken(root, error.status === 401 ? words.tokenWrong : error.message);
    else broken(root, error);
    return false;
  }
}

function askToken(root: HTMLElement, reason: string): void {
  const input = h("input", {
    id: "token",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
  });
  const note = h("p", { class: "note", role: "alert" }, reason);
  const form = h(
    "form",
    { class: "sign card" },
    h("p", { class: "brand" }, words.brand),
    h("h1", null, words.signIn),
    note,
    h("label", { for: "token" }, words.token),
    input,
    h("button", { type: "submit", class: "primary" }, words.open),
    h("p", { class: "remark" }, words.tokenWhere),
  );
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    // Only a new page has no timers and listeners of the one before.
    void signIn(root, input.value).then((known) => known && location.reload());
  });
  put(root, h("main", { class: "middle" }, form));
  input.focus();
}

function broken(root: HTMLElement, error: unknown): void {
  put(
    root,
    h(
      "main",
      { class: "middle" },
      h(
        "div",
        { class: "card sign", role: "alert" },
        h("h1", null, words.unreachable),
        h("p", { class: "note" }, String((error as Error)?.message ?? error)),
        h(
          "button",
          { type: "button", class: "primary", onclick: () => location.reload() },
          words.reload,
        ),
      ),
    ),
  );
}

function open(root: HTMLElement, page: Page): void {
  const app = new App(page, () => askToken(root, words.tokenNeeded));
  const main = h("main", { id: "main", tabindex: "-1" });
  const nav = h("nav", { "aria-label": words.parts });
  const banners = h("div", { class: "banners", "aria-live": "polite" });
  put(
    root,
    h(
      "a",
      {
        class: "skip",
        href: "#main",
        onclick: (e: Event) => {
          e.preventDefault();
          main.focus();
        },
      },
      words.skip,
    ),
    header(app, nav),
    banners,
    main,
  );
  let view: View | undefined;
  let shown: string | undefined;
  const show = () => {
    const [first = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
    const key = location.hash;
    if (key === shown) return;
    shown = key;
    view?.close?.();
    const argument = decodeURIComponent(rest.join("/"));
    const tab = TABS.find((t) => t.path === first && t.shown(app));
    view = first === "o" ? objectView(app, argument) : (tab ?? TABS[0]!).open(app, argument);
    put(main, view.node);
    document.title = `${view.title} · ${app.page.name} · Weir`;
    for (const link of nav.querySelectorAll("a")) {
      const here = link.getAttribute("href") === `#/${tab ? first : ""}`;
      if (here) {
        link.setAttribute("aria-current", "page");
        // On a narrow screen the list of tabs is wider than the screen.
        link.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else link.removeAttribute("aria-current");
    }
    scrollTo(0, 0);
  };
  const tabs = () => {
    put(
      nav,
      ...TABS.filter((tab) => tab.shown(app)).map((tab) =>
        h("a", { href: `#/${tab.path}` }, tab.name),
      ),
    );
    shown = undefined;
    show();
  };
  addEventListener("hashchange", () => {
    show();
    main.focus({ preventScroll: true });
  });
  app.on("link", () => banner(app, banners));
  app.on("stale", () => banner(app, banners));
  setInterval(() => banner(app, banners), 1000);
  keys(app);
  // The tabs wait for the objects, because a view looks for its object when it opens.
  void app.known.finally(() => {
    tabs();
    loop(app, () => view);
  });
}

/**
 * Calls the view about 30 times a second after an input and otherwise at the view's own pace, but
 * not while the page is hidden. Requesting a frame costs processor time even if nothing is drawn.
 */
function loop(app: App, view: () => View | undefined): void {
  let moved = 0;
  let last = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const step = (now: number) => {
    if (now - last < FRAME - 4) {
      requestAnimationFrame(step);
      return;
    }
    last = now;
    app.timeline.tick();
    view()?.frame?.(now);
    const pace = now - moved < SETTLED ? FRAME : (view()?.pace?.() ?? FRAME);
    // The screen's next frame begins at most 16 ms after the timer.
    timer = setTimeout(() => requestAnimationFrame(step), Math.max(0, pace - 12));
  };
  app.timeline.listen(() => {
    moved = performance.now();
    clearTimeout(timer);
    timer = setTimeout(() => requestAnimationFrame(step), 0);
  });
  requestAnimationFrame(step);
}

function header(app: App, nav: HTMLElement): HTMLElement {
  const pill = h("span", { class: "pill" }, words.connecting);
  const title = h("span", { class: "subject" });
  const version = h("span", { class: "version" });
  const theme = h("select", { "aria-label": words.theme, class: "small" });
  for (const [value, name] of [
    ["auto", words.themeAuto],
    ["light", words.themeLight],
    ["dark", words.themeDark],
  ] as const) {
    theme.append(h("option", { value, selected: savedTheme() === value }, name));
  }
  theme.addEventListener("change", () => setTheme(theme.value as Theme));
  const tell = () => {
    const { page } = app;
    say(title, page.kind === "serve" ? page.program || page.name : `${page.kind} ${page.name}`);
    title.title = page.program;
    say(version, `${page.version}${page.access === "read" ? ` · ${words.readOnly}` : ""}`);
    const [state, name] =
      app.link.state !== "open"
        ? app.link.state === "away"
          ? (["bad", words.away] as const)
          : (["", words.connecting] as const)
        : app.health?.status === "stalled"
          ? (["bad", words.stalled] as const)
          : app.health?.status === "degraded"
            ? (["warn", words.degraded] as const)
            : (["good", words.live] as const);
    pill.className = `pill ${state}`;
    say(pill, name);
  };
  for (const topic of ["page", "link", "health"] as const) app.on(topic, tell);
  tell();
  return h(
    "header",
    { class: "bar" },
    h("a", { class: "brand", href: "#/" }, words.brand),
    title,
    nav,
    h("div", { class: "status" }, pill, version, theme),
  );
}

/** Shows a lost connection, an old page, and clocks that differ. */
function banner(app: App, place: HTMLElement): void {
  const lines: [string, string][] = [];
  if (app.link.state === "away") {
    const gone = Math.max(0, app.stream.now() - app.link.since);
    lines.push(["bad", words.awayFor(elapsed(gone * 1e9))]);
  }
  if (app.stale) lines.push(["warn", words.oldPage]);
  const skew = app.stream.skew();
  if (Math.abs(skew) > 2) lines.push(["", words.skew(text(Math.abs(skew) * 1e9, "ns"), skew > 0)]);
  const key = JSON.stringify(lines);
  if (place.dataset["key"] === key) return;
  place.dataset["key"] = key;
  put(
    place,
    ...lines.map(([state, line]) =>
      h(
        "p",
        { class: `banner ${state}` },
        line,
        line === words.oldPage &&
          h(
            "button",
            { type: "button", class: "small", onclick: () => location.reload() },
            words.reload,
          ),
      ),
    ),
  );
  flag(place, "any", lines.length > 0);
}

function keys(app: App): void {
  addEventListener("keydown", (e) => {
    const target = e.target as HTMLElement;
    if (
      e.ctrlKey ||
      e.metaKey ||
      e.altKey ||
      /^(INPUT|TEXTAREA|SELECT|BUTTON|SUMMARY)$/.test(target.tagName)
    )
      return;
    if (e.key === " ") {
      e.preventDefault();
      app.timeline.toggle();
    } else if (e.key === "/") {
      const search = document.querySelector<HTMLInputElement>("input[type=search]");
      if (!search) return;
      e.preventDefault();
      search.focus();
    }
  });
}

/** The time between two frames, ms. */
const FRAME = 1000 / 30;
/** The time after an input during which the view's own pace does not count, ms. */
const SETTLED = 600;

void start();
