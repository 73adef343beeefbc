// Changes: the language for everything, the history with undo, and timed plans.

import { get, post, remove, Refused, type ChangeReply, type Plan } from "../api";
import type { App, View } from "../app";
import { flag, h, put, s, say } from "../dom";
import { Form, lastChange } from "../form";
import { clock, text } from "../format";
import { freePipe, inWords, ownPipe } from "../spec";
import { words } from "../text";

/** `given` is an instance, as `pipe:7/KEY`, that is to get a pipe of its own. */
export function changeView(app: App, given = ""): View {
  const place = h("div");
  const pick = h("select", { id: "change-what" });
  let form: Form | undefined;
  const [parent = "", ...key] = given.split("/");
  const script = () => {
    const pipe = app.thing(parent);
    return (pipe && ownPipe(pipe, key.join("/"), app.rules, freePipe(app.things), 2)) ?? "";
  };
  const choose = () => {
    form?.close();
    form = new Form(app, app.thing(pick.value), pick.value ? "" : script());
    put(place, form.node);
  };
  const fill = () => {
    const chosen = pick.value;
    const some = app.things.filter((t) => t.kind !== "lane" && t.kind !== "path");
    put(
      pick,
      app.page.language === "commands" && h("option", { value: "" }, words.anything),
      ...some.slice(0, MOST).map((t) => h("option", { value: t.object, selected: t.object === chosen }, `${t.name}: ${inWords(t) || words.perfect}`)),
    );
    if (!form || pick.value !== chosen) choose();
  };
  pick.addEventListener("change", choose);
  const list = h("ol", { class: "history", reversed: true });
  const showHistory = () => {
    const last = lastChange(app);
    put(
      list,
      ...[...app.changes].reverse().map((c) =>
        h(
          "li",
          null,
          h("time", { datetime: new Date(c.t_ms).toISOString() }, clock(c.t_ms / 1000)),
          " ",
          h("code", null, c.what),
          c.by && h("small", null, ` ${c.by}`),
          c.number === last && app.mayChange && app.can("undo") && h("button", { type: "button", class: "small", onclick: () => void undo(app, c.number, trouble) }, words.undo),
        ),
      ),
    );
    empty.hidden = app.changes.length > 0;
  };
  const empty = h("p", { class: "note" }, words.noChanges);
  const trouble = h("p", { class: "bad", role: "alert" });
  const plan = app.can("plan") ? planner(app) : undefined;
  const node = h(
    "div",
    { class: "view" },
    h("h1", null, words.change),
    h("div", { class: "pick" }, h("label", { for: "change-what" }, words.changeWhat), pick),
    given && script() && h("p", { class: "note" }, words.ownPipeHelp),
    place,
    h("section", { class: "card changes" }, h("h2", null, words.history), trouble, empty, list),
    plan?.node,
  );
  fill();
  showHistory();
  const stops = [app.on("things", fill), app.on("changes", showHistory), () => form?.close(), () => plan?.close()];
  return { node, title: words.change, pace: () => 1000, close: () => stops.forEach((stop) => stop()) };
}

async function undo(app: App, number: number, trouble: HTMLElement): Promise<void> {
  try {
    await post<ChangeReply>("/v1/undo", { change: number });
    say(trouble, "");
    await app.load();
  } catch (error) {
    say(trouble, error instanceof Refused ? error.message : words.notSent);
  }
}

/** A plan: its text, its steps over time, and where it is. */
function planner(app: App): { node: HTMLElement; close: () => void } {
  const area = h("textarea", { id: "plan", rows: "6", spellcheck: "false", placeholder: words.planExample, disabled: !app.mayChange });
  const picture = h("div", { class: "scroll plan" });
  const note = h("p", { "aria-live": "polite" });
  const begin = h("button", { type: "button", class: "primary", disabled: true }, words.planBegin);
  const end = h("button", { type: "button", hidden: true }, words.planEnd);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let shown: Plan | undefined;
  const show = (plan: Plan) => {
    shown = plan;
    put(picture, plan.steps.length > 0 && draw(app, plan));
    end.hidden = plan.state !== "running";
    const failed = plan.steps.find((step) => step.error !== null);
    say(note, failed ? failed.error! : plan.state === "none" ? "" : words.planState[plan.state]);
    flag(note, "bad", failed !== undefined);
  };
  const check = async () => {
    if (!area.value.trim()) {
      begin.disabled = true;
      put(picture);
      say(note, "");
      return;
    }
    try {
      const plan = await post<Plan>("/v1/plan", { text: area.value, check_only: true });
      put(picture, draw(app, plan));
      say(note, words.planSteps(plan.steps.length));
      flag(note, "bad", false);
      begin.disabled = !app.mayChange;
    } catch (error) {
      const line = error instanceof Refused ? (error.body as { line?: number } | null)?.line : undefined;
      say(note, `${line ? `${words.line(line)}: ` : ""}${error instanceof Refused ? error.message : words.notSent}`);
      flag(note, "bad", true);
      begin.disabled = true;
    }
  };
  area.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => void check(), 200);
  });
  begin.addEventListener("click", () => {
    post<Plan>("/v1/plan", { text: area.value, check_only: false }).then(show, (error: unknown) => {
      say(note, error instanceof Error ? error.message : words.notSent);
      flag(note, "bad", true);
    });
  });
  const load = () =>
    get<Plan>("/v1/plan").then(
      (plan) => {
        if (!area.value && plan.text) area.value = plan.text;
        if (plan.state !== "none" && (plan.state !== shown?.state || plan.state === "running")) show(plan);
      },
      () => undefined,
    );
  end.addEventListener("click", () => void remove("/v1/plan").then(load));
  void load();
  const poll = setInterval(() => {
    if (shown?.state === "running" && !document.hidden) void load();
  }, 500);
  const node = h(
    "section",
    { class: "card changes" },
    h("h2", null, words.plan),
    h("p", { class: "note" }, words.planHelp),
    h("label", { for: "plan", class: "sr" }, words.plan),
    area,
    picture,
    note,
    h("div", { class: "buttons" }, begin, end),
  );
  return {
    node,
    close: () => {
      clearInterval(poll);
      clearTimeout(timer);
    },
  };
}

/** The steps of a plan along the time. */
function draw(app: App, plan: Plan): SVGElement {
  const width = 860;
  const row = 26;
  const last = Math.max(1, ...plan.steps.map((step) => step.at_ms));
  const x = (ms: number) => 16 + (ms / last) * (width - 320);
  const height = 34 + plan.steps.length * row;
  const node = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": plan.steps.map((p) => `${text(p.at_ms * 1e6, "ns")} ${p.action}`).join("; "), class: "planned" });
  node.append(s("path", { d: `M16 14H${x(last)}`, class: "axis" }));
  plan.steps.forEach((step, i) => {
    const y = 36 + i * row;
    const state = step.error !== null ? "bad" : step.done_ms !== null ? "done" : "";
    node.append(
      s("path", { d: `M${x(step.at_ms)} 14V${y}h10`, class: `stem ${state}` }),
      s("circle", { cx: x(step.at_ms), cy: 14, r: 4, class: state }),
      s("text", { x: x(step.at_ms) + 14, y: y + 4 }, `${text(step.at_ms * 1e6, "ns")}  ${step.action}`, state === "done" ? "  ✓" : ""),
    );
  });
  if (plan.state === "running" && plan.began_ms !== null) {
    const at = Math.min(last, app.stream.now() * 1000 - plan.began_ms);
    node.append(s("circle", { cx: x(at), cy: 14, r: 6, class: "now" }));
  }
  return node;
}

/** The objects that the list offers; the others are found among the instances. */
const MOST = 200;
