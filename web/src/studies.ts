// Studies: what the server computes beside the links. Their types and requests.

import { get, post, remove, Refused, type Diagnostic } from "./api";

export interface Study {
  number: number;
  name: string;
  state: "running" | "done" | "failed" | "cancelled";
  /** The part that is done, from 0 to 1. */
  part: number;
  events: number;
  finished: number;
  runs: number;
  seconds: number;
  error: string | null;
  tables: string | null;
  comparable: boolean;
}

export interface Studies {
  available: boolean;
  why: string | null;
  limits?: {
    text_bytes: number;
    runs: number;
    processor_s: number;
    memory_bytes: number;
    result_bytes: number;
    kept: number;
  };
  examples: { name: string; text: string }[];
  studies: Study[];
}

export interface Check {
  summary: string | null;
  name: string | null;
  runs: number;
  /** Why a correct scenario is not simulated here. */
  refusal: string | null;
  diagnostics: Diagnostic[];
}

export interface Comparison {
  sides: [string, string];
  blocks: { name: string; rows: string[][] }[];
  only_left: string[];
  only_right: string[];
  remark: string;
}

export const listStudies = () => get<Studies>("/v1/studies");
export const checkScenario = (text: string) => post<Check>("/v1/studies/check", { text });
export const startStudy = (study: { text: string; runs?: number; seed?: number }) =>
  post<{ number: number }>("/v1/studies", study);
export const endStudy = (number: number) => remove(`/v1/studies/${number}`);
export const compareStudies = (left: number, right: number) =>
  get<Comparison>(`/v1/studies/compare?left=${left}&right=${right}`);

/** The server's message if it refused a request; `otherwise` for all other errors. */
export function why(error: unknown, otherwise: string): string {
  return error instanceof Refused ? error.message : otherwise;
}
