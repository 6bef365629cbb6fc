/** Checks the compressed sizes of the built pages: the first load, and everything together. */
import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';

const folder = new URL('../../dist/console/', import.meta.url);

function gzipped(names: readonly string[]): number {
  return names.reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, folder))).length, 0);
}

test('the first load and all pages together stay within their size budgets', () => {
  const index = readFileSync(new URL('index.html', folder), 'utf8');
  const first = [...index.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map(([, path = '']) => path);
  const all = readdirSync(new URL('assets/', folder))
    .filter((name) => /\.(?:js|css)$/.test(name))
    .map((name) => `assets/${name}`);
  expect(first.length).toBeGreaterThanOrEqual(2);
  expect(gzipped(first.filter((path) => path.endsWith('.js')))).toBeLessThanOrEqual(60 * 1024);
  expect(gzipped(first.filter((path) => path.endsWith('.css')))).toBeLessThanOrEqual(10 * 1024);
  expect(gzipped(all)).toBeLessThanOrEqual(150 * 1024);
});

test('the pages refer to no other origin and contain no inline code', () => {
  const index = readFileSync(new URL('index.html', folder), 'utf8');
  expect(index).not.toMatch(/https?:|<style|style=|<script(?![^>]*\bsrc=)|\son\w+=/);
});

test('the playground page stays within its budget, and loads the proof of work only when needed', () => {
  const play = new URL('../../dist/play/', import.meta.url);
  const index = readFileSync(new URL('index.html', play), 'utf8');
  const first = [...index.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map(([, path = '']) => path);
  const sizeOf = (names: readonly string[]): number =>
    names.reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, play))).length, 0);
  expect(first.length).toBeGreaterThanOrEqual(2);
  expect(sizeOf(first)).toBeLessThanOrEqual(20 * 1024);
  expect(index).not.toMatch(/https?:|<style|style=|<script(?![^>]*\bsrc=)|\son\w+=/);
  const all = readdirSync(new URL('assets/', play)).filter((name) => /\.(?:js|css)$/.test(name));
  expect(all.length).toBeGreaterThan(first.length);
});
