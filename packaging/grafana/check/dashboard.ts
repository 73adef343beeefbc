// What a dashboard may hold. Grafana's own types leave open what some panels and sources take; this
// file declares that. check.mjs makes a JSON schema of the result.

import type * as dashboard from "@grafana/schema/dist/types/raw/dashboard/x/types.gen.js";
import type { FieldConfig, Options } from "@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen.js";

/** A query of Grafana's Prometheus source, of which the package has no types. */
interface PrometheusQuery {
  refId: string;
  datasource: Source;
  expr: string;
  editorMode: "code";
  format?: "time_series" | "table" | "heatmap";
  instant?: boolean;
  range?: boolean;
  interval?: string;
  legendFormat?: string;
}

/** The query of a variable. */
interface VariableQuery {
  query: string;
  refId: string;
}

/** The source is a variable of the dashboard, so that the dashboard fits every Grafana. */
interface Source {
  type: "prometheus";
  uid: "${datasource}";
}

type Defaults = Omit<dashboard.FieldConfig, "custom"> & { custom?: Partial<FieldConfig> };

interface TimeSeries extends Omit<dashboard.Panel, "type" | "targets" | "options" | "fieldConfig" | "datasource"> {
  type: "timeseries";
  id: number;
  title: string;
  description: string;
  gridPos: dashboard.GridPos;
  datasource: Source;
  targets: PrometheusQuery[];
  options: Options;
  fieldConfig: Omit<dashboard.FieldConfigSource, "defaults"> & { defaults: Defaults };
}

interface Variable extends Omit<dashboard.VariableModel, "query"> {
  query?: string | VariableQuery;
}

export interface Weir extends Omit<dashboard.Dashboard, "panels" | "templating"> {
  uid: string;
  title: string;
  panels: (TimeSeries | dashboard.RowPanel)[];
  templating: { list: Variable[] };
}
