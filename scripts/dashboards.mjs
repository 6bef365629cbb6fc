/** Writes the dashboards in deploy/grafana from the list of panels below; with --check it only compares. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const folder = join(resolve(import.meta.dirname, '..'), 'deploy/grafana');
const gateway = 'job="headgate-gateway",instance=~"$instance"';
const plane = 'job="headgate-control-plane",instance=~"$instance"';
const source = { type: 'prometheus', uid: `\${DS_PROMETHEUS}` };

/** `queries`: expression and legend. */
const graph = (title, unit, ...queries) => ({ kind: 'timeseries', title, unit, queries });
const stat = (title, unit, ...queries) => ({ kind: 'stat', title, unit, queries });
const quantiles = (metric, by = '', filter = gateway) =>
  [0.5, 0.95, 0.99].map((q) => [
    `histogram_quantile(${q}, sum by (le${by}) (rate(${metric}_bucket{${filter}}[$__rate_interval])))`,
    `p${q * 100}`,
  ]);

const dashboards = {
  overview: {
    title: 'Headgate: overview',
    variables: ['headgate-gateway', 'model'],
    panels: [
      stat('Requests per second', 'reqps', [
        `sum(rate(headgate_requests_total{${gateway}}[$__rate_interval]))`,
        '',
      ]),
      stat('Not served', 'percentunit', [
        `sum(rate(headgate_requests_total{${gateway},outcome=~"InferenceUnavailableError|InternalError|aborted"}[$__rate_interval])) / sum(rate(headgate_requests_total{${gateway}}[$__rate_interval]))`,
        '',
      ]),
      stat('Streams open', 'short', [`sum(headgate_streams_open{${gateway}})`, '']),
      stat('Oldest proof of freshness', 's', [`max(headgate_fold_lag_seconds{${gateway}})`, '']),
      graph('Requests by outcome', 'reqps', [
        `sum by (outcome) (rate(headgate_requests_total{${gateway},model=~"$model"}[$__rate_interval]))`,
        '{{outcome}}',
      ]),
      graph('Refusals by type', 'reqps', [
        `sum by (type) (rate(headgate_refusals_total{${gateway}}[$__rate_interval]))`,
        '{{type}}',
      ]),
      graph('Duration', 's', ...quantiles('gen_ai_server_request_duration_seconds')),
      graph('Time to the first token', 's', ...quantiles('gen_ai_server_time_to_first_token_seconds')),
      graph('What the gateway adds, 99th percentile by phase', 's', [
        `histogram_quantile(0.99, sum by (le, phase) (rate(headgate_gateway_overhead_seconds_bucket{${gateway}}[$__rate_interval])))`,
        '{{phase}}',
      ]),
      graph('Tokens per second', 'short', [
        `sum by (gen_ai_token_type) (rate(gen_ai_client_token_usage_sum{${gateway},model=~"$model"}[$__rate_interval]))`,
        '{{gen_ai_token_type}}',
      ]),
      graph('Answers that ended early, by who ended them', 'reqps', [
        `sum by (who) (rate(headgate_stream_aborts_total{${gateway}}[$__rate_interval]))`,
        '{{who}}',
      ]),
      graph('Freshness: ready to 15 s, lagging to 30 s, fenced at 45 s', 's', [
        `headgate_fold_lag_seconds{${gateway}}`,
        '{{instance}}',
      ]),
      graph('Revocation until it is in force', 's', ...quantiles('headgate_revocation_propagation_seconds')),
      graph('Usage rows not yet shipped', 'short', [`headgate_outbox_rows{${gateway}}`, '{{instance}}']),
    ],
  },
  'control-plane': {
    title: 'Headgate: control plane',
    variables: ['headgate-control-plane'],
    panels: [
      stat('Replicas that reach the log', 'short', [`sum(headgate_log_reachable{${plane}})`, '']),
      stat('Gateways diverged', 'short', [`max(sum by (instance) (headgate_fold_diverged{${plane}}))`, '']),
      stat('Nodes up', 'short', [`max(sum by (instance) (headgate_node_up{${plane}}))`, '']),
      stat('Agents attached', 'short', [`sum(headgate_agent_sessions{${plane}})`, '']),
      graph('Position', 'short', [`headgate_fold_position{${plane}}`, '{{instance}}']),
      graph('Gateways: commits not yet applied', 'short', [
        `max by (gateway) (headgate_gateway_lag_events{${plane}})`,
        '{{gateway}}',
      ]),
      graph('Gateways: since the last report', 's', [
        `min by (gateway) (headgate_gateway_seen_seconds{${plane}})`,
        '{{gateway}}',
      ]),
      graph('Gateways by state', 'short', [
        `sum by (state) (max by (gateway, state) (headgate_gateway_state{${plane}}))`,
        '{{state}}',
      ]),
      graph('Events folded per second', 'short', [
        `sum by (type) (rate(headgate_fold_events_total{${plane}}[$__rate_interval]))`,
        '{{type}}',
      ]),
      graph('One slice of the fold', 's', ...quantiles('headgate_fold_apply_seconds', '', plane)),
      graph(
        'Records skipped, snapshots quarantined',
        'short',
        [`increase(headgate_fold_skipped_total{${plane}}[$__rate_interval])`, 'skipped {{instance}}'],
        [`increase(headgate_fold_quarantined_total{${plane}}[$__rate_interval])`, 'quarantined {{instance}}'],
      ),
      graph('Usage rows by result', 'short', [
        `sum by (outcome) (rate(headgate_usage_rows_total{${plane}}[$__rate_interval]))`,
        '{{outcome}}',
      ]),
      graph('Counters and usage rows differ by', 'short', [
        `headgate_counters_difference_tokens{${plane}}`,
        '{{instance}}',
      ]),
      graph('Free on the disk of the data folder', 'bytes', [
        `headgate_data_bytes_free{${plane}}`,
        '{{instance}}',
      ]),
    ],
  },
  engines: {
    title: 'Headgate: engines',
    variables: ['headgate-gateway', 'model'],
    panels: [
      stat('Weights in flight', 'short', [`sum(headgate_limiter_in_flight_units{${gateway}})`, '']),
      stat('Engines up, by their agents', 'short', ['sum(headgate_agent_engine_up)', '']),
      stat('Requests running (vLLM)', 'short', ['sum(vllm:num_requests_running)', '']),
      stat('Requests waiting (vLLM)', 'short', ['sum(vllm:num_requests_waiting)', '']),
      graph('In flight by engine', 'short', ['headgate_agent_engine_in_flight', '{{instance}}']),
      graph(
        'vLLM: running and waiting',
        'short',
        ['sum by (instance) (vllm:num_requests_running)', 'running {{instance}}'],
        ['sum by (instance) (vllm:num_requests_waiting)', 'waiting {{instance}}'],
      ),
      graph('vLLM: KV cache used', 'percentunit', ['vllm:kv_cache_usage_perc', '{{instance}}']),
      graph('Prompt tokens that nodes had cached', 'percentunit', [
        `sum by (model) (rate(headgate_cached_prompt_tokens_total{${gateway},model=~"$model"}[$__rate_interval])) / sum by (model) (rate(gen_ai_client_token_usage_sum{${gateway},gen_ai_token_type="input",model=~"$model"}[$__rate_interval]))`,
        '{{model}}',
      ]),
      graph(
        'Affinity: hits and spills',
        'reqps',
        [`sum by (by) (rate(headgate_affinity_hits_total{${gateway}}[$__rate_interval]))`, 'hit: {{by}}'],
        [`sum(rate(headgate_affinity_spills_total{${gateway}}[$__rate_interval]))`, 'spill'],
      ),
      graph('Nodes up', 'short', ['min by (node) (headgate_node_up)', '{{node}}']),
      graph('Unavailable, by model', 'reqps', [
        `sum by (model) (rate(headgate_requests_total{${gateway},outcome="InferenceUnavailableError",model=~"$model"}[$__rate_interval]))`,
        '{{model}}',
      ]),
      graph('Tokens generated per second, by model', 'short', [
        `sum by (model) (rate(gen_ai_client_token_usage_sum{${gateway},gen_ai_token_type="output",model=~"$model"}[$__rate_interval]))`,
        '{{model}}',
      ]),
    ],
  },
};

const variables = {
  'headgate-gateway': query(
    'instance',
    'label_values(headgate_build_info{job="headgate-gateway"}, instance)',
  ),
  'headgate-control-plane': query(
    'instance',
    'label_values(headgate_build_info{job="headgate-control-plane"}, instance)',
  ),
  model: query('model', 'label_values(headgate_requests_total, model)'),
};

function query(name, text) {
  return {
    ...{ name, type: 'query', datasource: source, query: text, definition: text },
    ...{
      refresh: 2,
      includeAll: true,
      multi: true,
      allValue: '.*',
      current: { text: 'All', value: '$__all' },
    },
  };
}

function panelOf({ kind, title, unit, queries }, index, stats) {
  const isStat = kind === 'stat';
  const row = index - stats;
  const gridPos = isStat
    ? { h: 4, w: 6, x: index * 6, y: 0 }
    : { h: 8, w: 12, x: (row % 2) * 12, y: 4 + Math.floor(row / 2) * 8 };
  return {
    ...{ id: index + 1, type: kind, title, datasource: source, gridPos },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(([expr, legendFormat], at) => ({
      ...{ refId: String.fromCharCode(65 + at), datasource: source, expr, legendFormat },
    })),
  };
}

function dashboardOf(name, { title, variables: names, panels }) {
  const stats = panels.filter(({ kind }) => kind === 'stat').length;
  return {
    ...{ uid: `headgate-${name}`, title, tags: ['headgate'], schemaVersion: 39, version: 1, editable: true },
    __inputs: [
      {
        name: 'DS_PROMETHEUS',
        label: 'Prometheus',
        type: 'datasource',
        pluginId: 'prometheus',
        pluginName: 'Prometheus',
      },
    ],
    ...{ time: { from: 'now-1h', to: 'now' }, refresh: '30s', timezone: 'browser' },
    templating: { list: names.map((each) => variables[each]) },
    panels: panels.map((panel, index) => panelOf(panel, index, stats)),
  };
}

mkdirSync(folder, { recursive: true });
for (const [name, dashboard] of Object.entries(dashboards)) {
  const path = join(folder, `${name}.json`);
  const text = `${JSON.stringify(dashboardOf(name, dashboard), null, 2)}\n`;
  if (!process.argv.includes('--check')) writeFileSync(path, text);
  else if (!existsSync(path) || readFileSync(path, 'utf8') !== text) {
    process.stderr.write(`${path} is not what scripts/dashboards.mjs writes; run it\n`);
    process.exitCode = 1;
  }
}
