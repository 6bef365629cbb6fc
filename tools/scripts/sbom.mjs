// Prints a CycloneDX bill of materials of the packages used at run time: `npm run --silent sbom > headgate.cdx.json`. It
// reads the lock file, so it matches the image and `npm ci`. Do not use `npm sbom` (11.19), because it omits runtime packages
// that development also needs.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

const read = (name) => JSON.parse(readFileSync(resolve(import.meta.dirname, '../..', name), 'utf8'));
const { name, version, license } = read('package.json');
const { packages } = read('package-lock.json');
const installed = new Map(Object.entries(packages).filter(([path, { dev }]) => path !== '' && dev !== true));

const nameOf = (path) => packages[path].name ?? path.split('node_modules/').pop();
const purlOf = (path) => `pkg:npm/${nameOf(path).replace('@', '%40')}@${packages[path].version}`;

/** Finds the folder from which a package loads another package: its own node_modules folder, or one above it. */
function pathOf(from, wanted) {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const path = `${folder === '' ? '' : `${folder}/`}node_modules/${wanted}`;
    if (installed.has(path)) return path;
    if (folder === '') return undefined;
  }
}

function needsOf(path) {
  const { dependencies, optionalDependencies, peerDependencies } = packages[path];
  const names = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies });
  const found = names.map((wanted) => pathOf(path, wanted)).filter((each) => each !== undefined);
  return [...new Set(found.map(purlOf))].sort();
}

function hashOf(integrity) {
  const [algorithm, content] = integrity.split('-');
  return { alg: algorithm.replace('sha', 'SHA-'), content: Buffer.from(content, 'base64').toString('hex') };
}

function licenceOf(text) {
  return /[ ()]/.test(text) ? { expression: text } : { license: { id: text } };
}

const components = new Map(
  [...installed].map(([path, { version, license, integrity, optional }]) => {
    const [, group, own] = /^(?:(@[^/]+)\/)?(.*)$/.exec(nameOf(path));
    const component = {
      'bom-ref': purlOf(path),
      type: 'library',
      ...(group && { group }),
      name: own,
      version,
      scope: optional ? 'optional' : 'required',
      ...(integrity && { hashes: [hashOf(integrity)] }),
      ...(license && { licenses: [licenceOf(license)] }),
      purl: purlOf(path),
    };
    return [purlOf(path), component];
  }),
);
const own = `pkg:npm/${name}@${version}`;
const needs = new Map([[own, new Set(needsOf(''))]]);
for (const path of installed.keys())
  needs.set(purlOf(path), new Set([...(needs.get(purlOf(path)) ?? []), ...needsOf(path)]));

const bill = {
  $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
  bomFormat: 'CycloneDX',
  specVersion: '1.5',
  version: 1,
  metadata: {
    component: {
      'bom-ref': own,
      type: 'application',
      name,
      version,
      licenses: [licenceOf(license)],
      purl: own,
    },
  },
  components: [...components.values()],
  dependencies: [...needs].map(([ref, dependsOn]) => ({ ref, dependsOn: [...dependsOn] })),
};
console.log(JSON.stringify(bill, null, 2));
