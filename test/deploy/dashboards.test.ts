/** Tests the dashboards in deploy/grafana: each metric and label must exist, and panels must not overlap. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../..');
const folder = join(root, 'deploy/grafana');

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number };
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
}
interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: string }[] };
  readonly panels: readonly Panel[];
}

const names = readdirSync(folder).sort();
const dashboards = names.map(
  (name) => [name, JSON.parse(readFileSync(join(folder, name), 'utf8')) as Dashboard] as const,
);

/**
 * Metrics and their labels according to docs/metrics.md. metrics.process.test.ts compares this list with running processes.
 */
const labels = new Map(
  [...readFileSync(join(root, 'docs/metrics.md'), 'utf8').matchAll(/^\| `(\w+)` \| \w+ \| ([^|]*) \|/gm)].map(
    ([, name, list]) => [name as string, (list as string).split(',').map((label) => label.trim())] as const,
  ),
);

test.each(dashboards)('%s reads metrics and labels that exist', (_, { panels, templating }) => {
  const own = ['le', 'job', 'instance'];
  for (const { title, targets } of panels)
    for (const { expr, legendFormat } of targets) {
      const withoutLabels = expr.replaceAll(/by \([^)]*\)|\{[^}]*\}/g, ' ');
      const metrics = [...withoutLabels.matchAll(/\b(?:headgate|gen_ai)_[a-z_]+/g)].map(([name]) =>
        name.replace(/_(?:bucket|count|sum)$/, ''),
      );
      expect(metrics.length > 0 || expr.includes('vllm:'), title).toBe(true);
      expect(
        metrics.filter((name) => !labels.has(name)),
        title,
      ).toEqual([]);
      const known = new Set([...own, ...metrics.flatMap((name) => labels.get(name) ?? [])]);
      const used = [
        ...[...expr.matchAll(/[{,]\s*(\w+)(?==|!=|=~)/g)].map(([, label]) => label as string),
        ...[...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list]) => (list as string).split(/,\s*/)),
        ...[...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label as string),
      ];
      expect(
        used.filter((label) => !known.has(label)),
        title,
      ).toEqual([]);
      const variables = [...expr.matchAll(/\$(?!__)(\w+)/g)].map(([, name]) => name);
      expect(variables.filter((name) => !templating.list.some((each) => each.name === name))).toEqual([]);
    }
});

test.each(dashboards)('the panels of %s have unique ids and are placed side by side', (_, { panels }) => {
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (__, at) => `${x + (at % w)} ${y + Math.floor(at / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
});

const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
test.skipIf(!hasPromtool)('Prometheus can parse every query', () => {
  const expressions = dashboards.flatMap(([, { panels }]) =>
    panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  );
  const rules = expressions.map((expr, n) => ({
    record: `dashboards:query${n}`,
    expr: expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$\w+/g, '.*'),
  }));
  const file = join(mkdtempSync(join(tmpdir(), 'headgate-dashboards-')), 'rules.yaml');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboards', rules }] }));
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' });
  rmSync(dirname(file), { recursive: true });
  expect(status, `${stdout}${stderr}`).toBe(0);
});
