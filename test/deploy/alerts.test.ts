/** Tests the rules in deploy/prometheus: promtool must fire each rule once, and each rule must have a runbook. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { runs } from '../support/budget.ts';

const root = resolve(import.meta.dirname, '../..');
const folder = join(root, 'deploy/prometheus');
const runbooks = join(root, 'docs/runbooks');

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: Readonly<Record<'summary' | 'description' | 'runbook_url', string>>;
}
interface RuleTest {
  readonly alert_rule_test: readonly { readonly alertname: string; readonly exp_alerts: readonly object[] }[];
}
const read = (name: string): unknown => parse(readFileSync(join(folder, name), 'utf8'));
const { groups } = read('headgate.rules.yaml') as { groups: readonly { rules: readonly Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const testFiles = ['headgate.rules.test.yaml', 'headgate.rules.slow.test.yaml'];
const cases = testFiles
  .flatMap((name) => (read(name) as { tests: readonly RuleTest[] }).tests)
  .flatMap((each) => each.alert_rule_test);

const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
const isRequired = (process.env['HEADGATE_REQUIRE'] ?? '').split(',').includes('prometheus');
// Skipped in the fast tier, because it takes two seconds of CPU time.
const isAsked = isRequired || (hasPromtool && runs({ fast: 0, full: 1 }) > 0);
if (!hasPromtool && !isRequired)
  console.warn('SKIPPED: the alerts need promtool (Debian: apt-get install prometheus)');

test.skipIf(!isAsked)('promtool accepts the rules and every series of their tests', () => {
  for (const words of [
    ['check', 'rules', 'headgate.rules.yaml'],
    ['test', 'rules', ...testFiles],
  ]) {
    const { status, stdout, stderr } = spawnSync('promtool', words, { cwd: folder, encoding: 'utf8' });
    expect(status, `${stdout}${stderr}`).toBe(0);
  }
});

test.each(rules.map((rule) => [rule.alert, rule] as const))(
  '%s fires in a test, stays quiet in another, and has a runbook',
  (name, rule) => {
    expect(cases.some((each) => each.alertname === name && each.exp_alerts.length > 0)).toBe(true);
    expect(cases.some((each) => each.alertname === name && each.exp_alerts.length === 0)).toBe(true);
    expect(['critical', 'warning', 'info']).toContain(rule.labels.severity);
    expect(rule.annotations.runbook_url).toBe(`docs/runbooks/${name}.md`);
    const page = readFileSync(join(runbooks, `${name}.md`), 'utf8');
    expect(page).toContain(`Severity: ${rule.labels.severity}.`);
    expect(page, 'the page shows the expression of the rule').toContain(rule.expr);
  },
);

/** Metrics and their labels according to the docs. metrics.process.test.ts compares this list with running processes. */
const labels = new Map(
  [...readFileSync(join(root, 'docs/metrics.md'), 'utf8').matchAll(/^\| `(\w+)` \| \w+ \| ([^|]*) \|/gm)].map(
    ([, name, list]) => [name as string, (list as string).split(',').map((label) => label.trim())] as const,
  ),
);

test.each(rules.map((rule) => [rule.alert, rule] as const))(
  '%s reads metrics and labels that exist',
  (_, { expr, annotations }) => {
    const metrics = [...expr.matchAll(/\b(?:headgate|gen_ai)_[a-z_]+/g)].map(([name]) =>
      name.replace(/_(?:bucket|count|sum)$/, ''),
    );
    const known = new Set(['le', 'job', 'instance', ...metrics.flatMap((name) => labels.get(name) ?? [])]);
    expect(metrics.filter((name) => !labels.has(name))).toEqual([]);
    const text = `${expr} ${annotations.summary} ${annotations.description}`;
    const used = [
      ...[...text.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label as string),
      ...[...expr.matchAll(/[{,]\s*(\w+)(?==|!=|=~)/g)].map(([, label]) => label as string),
      ...[...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list]) => (list as string).split(/,\s*/)),
    ];
    expect(used.filter((label) => !known.has(label))).toEqual([]);
  },
);

test('each runbook belongs to an alert', () => {
  const alerts = new Set(rules.map((rule) => `${rule.alert}.md`));
  expect(readdirSync(runbooks).filter((page) => !alerts.has(page))).toEqual([]);
});
