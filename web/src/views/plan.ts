// Timed plans: steps over time, typed or added by a form, checked while they are typed, drawn over
// time, started and stopped. The server carries a plan out, so it goes on without this page.

import { get, post, remove, Refused, type Diagnostic, type Plan, type PlanStep } from "../api";
import type { App } from "../app";
import { h, put, s, say } from "../dom";
import { diagnostic } from "../form";
import { elapsed, exact } from "../format";
import { words } from "../text";

export function planner(app: App): { node: HTMLElement; close: () => void } {
  const area = h("textarea", {
    id: "plan",
    rows: "6",
    spellcheck: "false",
    autocapitalize: "off",
    placeholder: commands(app) ? words.planCommands : words.planExample,
    readonly: !app.mayChange,
  });
  const report = h("div", { class: "report", "aria-live": "polite" });
  const now = h("p", { class: "note countdown", role: "timer", hidden: true });
  const picture = h("div", { class: "planned", hidden: true });
  const list = h("ol", { class: "planlist" });
  const begin = h("button", { type: "button", class: "primary", disabled: true }, words.planBegin);
  const end = h("button", { type: "button", hidden: true }, words.planEnd);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running: Plan | undefined;
  let state: Plan["state"] = "none";
  let asked = 0;
  let mark: SVGElement | undefined;

  const show = (plan: Plan) => {
    picture.hidden = plan.steps.length === 0;
    mark = draw(app, plan, picture);
    put(list, ...plan.steps.map((step, i) => item(plan, step, i)));
    move();
  };
  /** Moves the mark of the present, and counts down to the next step. */
  const move = () => {
    now.hidden = running === undefined;
    if (!running || running.began_ms === null) return;
    const at = app.stream.now() * 1000 - running.began_ms;
    mark?.setAttribute("x", percent(at, running));
    const next = nextOf(running);
    const step = running.steps[next];
    say(
      now,
      step
        ? words.planNext(
            next + 1,
            running.steps.length,
            elapsed(Math.max(0, step.at_ms - at) * 1e6),
          )
        : words.planLast,
    );
  };
  const check = async () => {
    const turn = ++asked;
    if (running) return;
    if (!area.value.trim()) {
      begin.disabled = true;
      picture.hidden = true;
      put(list);
      put(report);
      return;
    }
    try {
      const plan = await post<Plan>("/v1/plan", { text: area.value, check_only: true });
      if (turn !== asked || running) return;
      show(plan);
      put(
        report,
        ...plan.diagnostics.map(inLine),
        h("p", { class: "good" }, words.planSteps(plan.steps.length)),
      );
      begin.disabled = !app.mayChange;
    } catch (error) {
      if (turn === asked) wrong(error);
    }
  };
  const wrong = (error: unknown) => {
    begin.disabled = true;
    const body =
      error instanceof Refused
        ? (error.body as { line?: number; diagnostics?: Diagnostic[] } | null)
        : null;
    const message = error instanceof Refused ? error.message : words.notSent;
    if (body?.diagnostics?.length) put(report, ...body.diagnostics.map(inLine));
    else
      put(
        report,
        h("p", { class: "bad" }, body?.line ? `${words.line(body.line)}: ` : "", message),
      );
  };
  /** Shows the server's plan; a finished plan only if the page has seen it run. */
  const take = (plan: Plan) => {
    const was = state;
    state = plan.state;
    running = plan.state === "running" ? plan : undefined;
    end.hidden = !running || !app.mayChange;
    begin.hidden = running !== undefined;
    area.readOnly = running !== undefined || !app.mayChange;
    builder.disabled = area.readOnly;
    if (running) {
      if (area.value !== plan.text) area.value = plan.text;
      show(plan);
      if (was !== "running") put(report, h("p", { class: "good" }, words.planState.running));
    } else if (was === "running") {
      show(plan);
      const failed = plan.steps.find((step) => step.error !== null);
      put(
        report,
        failed
          ? h("p", { class: "bad" }, words.planFailed(failed.line, failed.error!))
          : h(
              "p",
              { class: plan.state === "done" ? "good" : "note" },
              plan.state === "none" ? "" : words.planState[plan.state],
            ),
      );
      begin.disabled = !app.mayChange || !area.value.trim();
      move();
    }
  };
  const load = () =>
    get<Plan>("/v1/plan").then(
      (plan) => {
        if (state === "none" && !area.value && plan.text) {
          area.value = plan.text;
          if (plan.state !== "running") void check();
        }
        take(plan);
      },
      () => undefined,
    );
  area.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => void check(), CHECK_AFTER);
  });
  begin.addEventListener("click", () => {
    clearTimeout(timer);
    asked++;
    begin.disabled = true;
    post<Plan>("/v1/plan", { text: area.value, check_only: false }).then((plan) => {
      take(plan);
      end.focus();
    }, wrong);
  });
  end.addEventListener("click", () => {
    void remove("/v1/plan")
      .then(load)
      .then(() => begin.focus());
  });
  const builder = adder(app, (line) => {
    const lines = area.value.split("\n").filter((one) => one.trim());
    area.value = [...lines, line].join("\n");
    void check();
  });
  void load();
  // The stream reports changes of the configuration; the progress of a plan is requested while it
  // runs.
  const poll = setInterval(() => {
    if (running && !document.hidden) void load();
  }, POLL);
  const clock = setInterval(move, 200);
  const stop = app.on("changes", () => void load());
  const node = h(
    "section",
    { class: "card changes" },
    h("h2", null, words.plan),
    h("p", { class: "note" }, commands(app) ? words.planHelpCommands : words.planHelp),
    builder,
    h("label", { for: "plan" }, words.planText),
    area,
    report,
    h("div", { class: "buttons" }, begin, end, now),
    picture,
    list,
  );
  return {
    node,
    close: () => {
      clearInterval(poll);
      clearInterval(clock);
      clearTimeout(timer);
      stop();
    },
  };
}

function commands(app: App): boolean {
  return app.page.language === "commands";
}

/** Fields for one more step. */
function adder(app: App, add: (line: string) => void): HTMLFieldSetElement {
  const at = h("input", {
    id: "plan-at",
    type: "text",
    placeholder: "10s",
    size: "6",
    spellcheck: "false",
    autocomplete: "off",
  });
  const link = h("select", { id: "plan-link" });
  const what = h("input", {
    id: "plan-what",
    type: "text",
    placeholder: commands(app) ? "pipe 1 config bw 500kbit/s" : "bw 500kbit/s loss 5%",
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
  });
  const links = app.things.filter((thing) => thing.kind === "link");
  put(
    link,
    h("option", { value: "" }, words.allLinks),
    ...links.map((thing) => h("option", { value: thing.name }, thing.name)),
  );
  const act = () => {
    const parts = [at.value.trim() || "0s", link.value, what.value.trim() || "reset"];
    add(parts.filter(Boolean).join(" "));
    what.value = "";
    at.value = "";
    at.focus();
  };
  const keys = (e: KeyboardEvent) => {
    if (e.key !== "Enter") return;
    e.preventDefault();
    act();
  };
  at.addEventListener("keydown", keys);
  what.addEventListener("keydown", keys);
  const part = (label: string, input: HTMLElement) =>
    h("div", null, h("label", { for: input.id }, label), input);
  return h(
    "fieldset",
    { class: "adder", disabled: !app.mayChange },
    h("legend", { class: "sr" }, words.planOneMore),
    part(words.planAt, at),
    links.length > 0 && part(words.planLink, link),
    part(words.planWhat, what),
    h("button", { type: "button", onclick: act }, words.planAdd),
  );
}

/** A diagnostic with the number of its line in the plan. */
function inLine(one: Diagnostic): HTMLElement {
  return diagnostic({ ...one, message: `${words.line(one.line)}: ${one.message}` });
}

/** The index of the next step; the number of steps if none is left. */
function nextOf(plan: Plan): number {
  const at = plan.steps.findIndex((step) => step.done_ms === null && step.error === null);
  return at < 0 ? plan.steps.length : at;
}

function item(plan: Plan, step: PlanStep, i: number): HTMLElement {
  const next = plan.state === "running" && i === nextOf(plan);
  const told =
    step.error !== null
      ? step.error
      : step.done_ms !== null
        ? words.stepDone
        : next
          ? words.stepNext
          : "";
  return h(
    "li",
    {
      class: step.error !== null ? "bad" : step.done_ms !== null ? "done" : next ? "next" : null,
      "aria-current": next ? "step" : null,
    },
    h("b", null, after(step.at_ms)),
    h("code", null, step.link ? `${step.link} ${step.action}` : step.action),
    h("span", { class: "what" }, told),
  );
}

/** A time after the start, such as `90 s` or `5 min`. */
function after(ms: number): string {
  if (ms === 0) return "0 s";
  return ms >= 120_000 && ms % 60_000 === 0 ? `${ms / 60_000} min` : exact(ms * 1e6, "ns");
}

/** The end of the axis, ms. The bar of the last step needs room after its start. */
function length(plan: Plan): number {
  return Math.max(1, last(plan)) * 1.2;
}

/** The time of the last step in ms. */
function last(plan: Plan): number {
  return Math.max(0, ...plan.steps.map((step) => step.at_ms));
}

function percent(ms: number, plan: Plan): string {
  return `${Math.min(100, (100 * Math.max(0, ms)) / length(plan)).toFixed(3)}%`;
}

/**
 * The steps of a plan over time: a row for each link, in which a change lasts until the next one.
 * Positions are in percent, so that letters keep their size. Returns the mark of the present.
 */
function draw(app: App, plan: Plan, place: HTMLElement): SVGElement {
  const all = commands(app) ? words.commands : words.allLinks;
  const rows = [...new Set(plan.steps.map((step) => step.link ?? ""))];
  const height = rows.length * ROW + AXIS;
  const picture = s("svg", {
    height: String(height),
    role: "img",
    "aria-label": words.planPicture(plan.steps.length, elapsed(last(plan) * 1e6)),
  });
  for (const ms of ticks(length(plan))) {
    picture.append(
      s("line", {
        x1: percent(ms, plan),
        x2: percent(ms, plan),
        y1: 0,
        y2: height - AXIS + 5,
        class: "tick",
      }),
      s(
        "text",
        {
          x: percent(ms, plan),
          y: height - 5,
          class: "label",
          "text-anchor": ms === 0 ? "start" : "middle",
        },
        after(ms),
      ),
    );
  }
  rows.forEach((link, row) => {
    const steps = plan.steps.filter((step) => (step.link ?? "") === link);
    steps.forEach((step, i) => {
      // A reset of all links ends the change of each link.
      const reset = plan.steps.find(
        (other) => other.link === null && other.action === "reset" && other.at_ms > step.at_ms,
      );
      const until = Math.min(steps[i + 1]?.at_ms ?? length(plan), reset?.at_ms ?? Infinity);
      const width = `${((100 * Math.max(0, until - step.at_ms)) / length(plan)).toFixed(3)}%`;
      const state = step.error !== null ? "bad" : step.done_ms !== null ? "done" : "";
      picture.append(
        s(
          "svg",
          {
            x: percent(step.at_ms, plan),
            y: row * ROW,
            width,
            height: ROW - 4,
            class: `span ${state}`,
          },
          s("rect", { width: "100%", height: "100%", rx: 4 }),
          s("text", { x: 8, y: 19 }, step.action),
          s("title", null, `${after(step.at_ms)} ${step.action}`),
        ),
      );
    });
  });
  const mark = s("rect", {
    x: 0,
    y: 0,
    width: 2,
    height: height - AXIS + 5,
    class: "now",
    visibility: plan.state === "running" ? "visible" : "hidden",
  });
  picture.append(mark);
  put(
    place,
    h(
      "div",
      { class: "names", "aria-hidden": "true" },
      ...rows.map((link) => h("span", { title: link || all }, link || all)),
    ),
    picture,
  );
  return mark;
}

/** Round times in ms, at most six. */
function ticks(length: number): number[] {
  const step = STEPS.find((size) => length / size <= 5) ?? STEPS[STEPS.length - 1]!;
  return Array.from({ length: Math.floor(length / step) + 1 }, (_, i) => i * step);
}

/** The possible distances of ticks, ms. */
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3,
  900e3, 1800e3, 3600e3, 7200e3, 18000e3, 36000e3,
];
/** The height of a row and of the axis, px. */
const ROW = 32;
const AXIS = 24;
/** The pause after the last key before a plan is checked, ms. */
const CHECK_AFTER = 200;
/** The time between two requests while a plan runs, ms. */
const POLL = 500;
