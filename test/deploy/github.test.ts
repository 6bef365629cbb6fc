/** Checks that the CI workflow runs the same commands as developers, and that the issue forms are valid. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

const root = resolve(import.meta.dirname, '../..');
const read = (path: string): unknown => parse(readFileSync(join(root, '.github', path), 'utf8'));

test('the workflow’s jobs together run every part of the tests through .ci/run', () => {
  const { jobs } = read('workflows/ci.yml') as {
    jobs: { tests: { strategy: { matrix: { part: string[] } }; steps: { run?: string }[] } };
  };
  const { stderr } = spawnSync('node', ['tools/scripts/test.mjs', '--part=none'], {
    cwd: root,
    encoding: 'utf8',
  });
  expect(stderr).toContain(`there are ${jobs.tests.strategy.matrix.part.join(', ')}\n`);
  expect(jobs.tests.steps.at(-1)?.run).toMatch(/^bash \.ci\/run \$\{\{ matrix\.part \}\}$/);
});

test('every test project belongs to one part or has its own command', () => {
  const config = readFileSync(join(root, 'vitest.config.ts'), 'utf8');
  const projects = [...config.matchAll(/name: '([\w-]+)'/g)].map(([, name]) => name);
  const script = readFileSync(join(root, 'tools/scripts/test.mjs'), 'utf8');
  const [parts = ''] = /const parts = \{[^}]*\}/.exec(script) ?? [];
  const left = projects.filter((name) => !parts.includes(`'${name}'`));
  expect(left).toEqual(['engines', 'release', 'clients']);
});

test('every issue form asks questions with unique names', () => {
  const forms = readdirSync(join(root, '.github/ISSUE_TEMPLATE')).filter((name) => name !== 'config.yml');
  expect(forms.length).toBeGreaterThan(0);
  for (const name of forms) {
    const form = read(`ISSUE_TEMPLATE/${name}`) as {
      name: string;
      description: string;
      body: { type: string; id?: string; attributes: { label?: string; value?: string } }[];
    };
    expect([name, form.name, form.description]).toEqual([name, expect.any(String), expect.any(String)]);
    const ids = form.body.flatMap(({ id }) => id ?? []);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { type, attributes } of form.body)
      expect(type === 'markdown' ? attributes.value : attributes.label).toEqual(expect.any(String));
  }
});

test('the security policy links to existing pages', () => {
  const text = readFileSync(join(root, '.github/SECURITY.md'), 'utf8');
  for (const [, path = ''] of text.matchAll(/\]\(\.\.\/([^)]+)\)/g))
    expect(existsSync(join(root, path)), path).toBe(true);
});
