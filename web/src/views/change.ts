// Changes: objects and commands of any kind, the history with undo, and timed plans.

import { post, Refused, type ChangeReply } from "../api";
import type { App, View } from "../app";
import { h, put, say } from "../dom";
import { Form, lastChange } from "../form";
import { clock } from "../format";
import { freePipe, inWords, ownPipe } from "../spec";
import { words } from "../text";
import { planner } from "./plan";

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
      ...some
        .slice(0, MOST)
        .map((t) =>
          h(
            "option",
            { value: t.object, selected: t.object === chosen },
            `${t.name}: ${inWords(t) || words.perfect}`,
          ),
        ),
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
          c.number === last &&
            app.mayChange &&
            app.can("undo") &&
            h(
              "button",
              {
                type: "button",
                class: "small",
                onclick: () => void undo(app, c.number, trouble),
              },
              words.undo,
            ),
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
  const stops = [
    app.on("things", fill),
    app.on("changes", showHistory),
    () => form?.close(),
    () => plan?.close(),
  ];
  return {
    node,
    title: words.change,
    pace: () => 1000,
    close: () => stops.forEach((stop) => stop()),
  };
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

/** Maximum number of objects in the list; other objects are found among the instances. */
const MOST = 200;
