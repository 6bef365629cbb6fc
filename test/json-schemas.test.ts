import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { jsonSchemaFiles } from './support/json-schemas.ts';

const folder = new URL('../schemas/json/', import.meta.url);
const files = jsonSchemaFiles();

// To write the files after an intended schema change, run `HEADGATE_WRITE_SCHEMAS=1 npx vitest run
// test/json-schemas.test.ts`.
if (process.env['HEADGATE_WRITE_SCHEMAS'] === '1') {
  mkdirSync(folder, { recursive: true });
  for (const [file, text] of Object.entries(files)) writeFileSync(new URL(file, folder), text);
}

test.each(Object.keys(files))('schemas/json/%s matches the zod schema', (file) => {
  expect(readFileSync(new URL(file, folder), 'utf8')).toBe(files[file]);
});

test('schemas/json contains nothing else', () => {
  expect(readdirSync(folder).sort()).toEqual(Object.keys(files).sort());
});

test('the schema file contains every event type with its version', () => {
  const events = JSON.parse(readFileSync(new URL('events.json', folder), 'utf8')) as Record<
    string,
    { version: number; data: object }
  >;
  expect(Object.keys(events)).toContain('key.revoked');
  for (const [type, { version, data }] of Object.entries(events)) {
    expect([type, version]).toEqual([type, expect.any(Number)]);
    expect(data).toMatchObject({ type: 'object', additionalProperties: false });
  }
});
