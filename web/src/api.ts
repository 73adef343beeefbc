// Requests to the server, and the types of its answers.

/** A refused request: the server's status and message. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly body: unknown,
  ) {
    super(message);
  }
}

export interface Page {
  version: string;
  page_version: string;
  access: "full" | "read";
  name: string;
  kind: string;
  program: string;
  since_ms: number;
  now_ms: number;
  language: "links" | "commands";
  features: string[];
  limits: Record<string, number>;
}

export interface Thing {
  object: string;
  kind: "link" | "path" | "lane" | "pipe" | "sched" | "queue";
  name: string;
  from?: string | null;
  to?: string | null;
  /** The name of both directions of a link, if they have one. */
  whole?: string | null;
  /** The object that serves this one. */
  parent?: string | null;
  spec?: string;
  algorithm?: string;
  weight?: number;
  rate_bps?: number | null;
  delay_ns?: number;
  /** Whether a mask creates instances. */
  masked?: boolean;
  aqm?: { algorithm: string; settings: Record<string, string> } | null;
}

export interface Rule {
  id: number;
  number: number;
  set: number;
  enabled: boolean;
  action: string;
  command: string;
  counters: { packets: number; bytes: number; last_match_s?: number };
}

export interface Diagnostic {
  severity: "error" | "warning" | "note";
  code: string;
  message: string;
  line: number;
  text: string;
  /** The marked part of `text`, in bytes of UTF-8. */
  start: number;
  end: number;
  label: string;
  help: string[];
}

export interface ChangeReply {
  applied: boolean;
  change: number | null;
  revision: number;
  links?: { name: string; spec: string }[];
  diagnostics: Diagnostic[];
  rendered?: string;
  notices?: string[];
  commands?: string[];
}

export interface Change {
  number: number;
  t_ms: number;
  what: string;
  before?: string;
  after?: string;
  undoes?: number | null;
  by?: string;
}

export interface PlanStep {
  at_ms: number;
  link: string | null;
  action: string;
  line: number;
  done_ms: number | null;
  error: string | null;
}

export interface Plan {
  text: string;
  steps: PlanStep[];
  state: "none" | "running" | "done" | "stopped" | "failed";
  began_ms: number | null;
  diagnostics: Diagnostic[];
}

async function send(method: string, path: string, body?: unknown): Promise<unknown> {
  const request: RequestInit = { method };
  if (body !== undefined) {
    request.headers = { "Content-Type": "application/json" };
    request.body = JSON.stringify(body);
  }
  const response = await fetch(path, request);
  const text = await response.text();
  let answer: unknown = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    answer = null;
  }
  if (!response.ok) {
    const problem = (answer ?? {}) as { message?: string; error?: string };
    const message = problem.message ?? problem.error ?? `${response.status} ${response.statusText}`;
    throw new Refused(response.status, message, answer);
  }
  return answer;
}

export async function get<T>(path: string): Promise<T> {
  return (await send("GET", path)) as T;
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  return (await send("POST", path, body)) as T;
}

export async function remove(path: string): Promise<void> {
  await send("DELETE", path);
}

/** Sends a change, or only checks it. A refusal with diagnostics is an answer too. */
export async function change(
  words: string,
  link: string | undefined,
  checkOnly: boolean,
): Promise<ChangeReply> {
  try {
    return await post<ChangeReply>("/v1/change", {
      words,
      ...(link === undefined ? {} : { link }),
      check_only: checkOnly,
    });
  } catch (error) {
    if (error instanceof Refused && error.status === 422) {
      const reply = error.body as ChangeReply | null;
      if (reply && Array.isArray(reply.diagnostics)) return reply;
    }
    throw error;
  }
}
