// Installs SGLang without a GPU from PyPI, on top of vLLM's environment, which contains most of what SGLang needs. SGLang's
// CPU kernels are not on PyPI. So a stand-in declares their names and fails if one is called, which never happens with plain
// torch. The one kernel module that SGLang really uses comes from the GPU wheel.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { keep, python312, run, sitePackages } from './install-tools.mjs';
import { install as installVllm } from './install-vllm.mjs';

const version = '0.5.23';
const kernels = 'sglang-kernel==0.4.10';
/**
 * Packages that SGLang imports and vLLM does not. They are installed with `--no-deps`, because their pinned versions
 * contradict vLLM's.
 */
const companions = [
  ...['orjson', 'uvloop', 'uvicorn', 'IPython', 'interegular', 'xxhash', 'zstandard', 'python-multipart'],
  ...['kernels', 'openai-harmony==0.0.4', 'blobfile==3.0.0', 'gguf', 'modelscope', 'outlines==0.1.11'],
  ...['torch_memory_saver', 'py-spy', 'nvidia-ml-py', 'easydict', 'distro', 'soundfile==0.13.1'],
  ...['timm==1.0.25', 'tml-renderers', 'datasets', 'scipy', 'pandas', 'decorator', 'traitlets'],
  ...['prompt_toolkit', 'matplotlib-inline', 'stack_data', 'jedi', 'parso', 'pexpect', 'ptyprocess'],
  ...['executing', 'asttokens', 'pure_eval', 'wcwidth', 'pygments', 'dill', 'multiprocess', 'pyarrow'],
  ...['httpx', 'lxml'],
];

const standIn = `# Names of the kernels for processors, which are not installed. Calling one fails.
import importlib.machinery, importlib.util, os, sys, types

__version__ = '99.0.0'

def _missing(name):
    def call(*args, **named):
        raise NotImplementedError('kernel ' + name + ' is not installed')
    call.__name__ = name
    return call

def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    return _missing(name)

class _Module(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        return __getattr__(name)

class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.startswith('sgl_kernel.'):
            return None
        return importlib.machinery.ModuleSpec(name, _Finder, is_package=True)
    @staticmethod
    def create_module(spec):
        return _Module(spec.name)
    @staticmethod
    def exec_module(module):
        pass

def _real(name):
    path = os.path.join(os.path.dirname(__file__), name + '.py')
    spec = importlib.util.spec_from_file_location('sgl_kernel.' + name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules['sgl_kernel.' + name] = module
    spec.loader.exec_module(module)
    return module

scalar_type = _real('scalar_type')
scalar_types = scalar_type.scalar_types
ScalarType = scalar_type.ScalarType
sys.meta_path.insert(0, _Finder)
`;

export function install(folder, cache) {
  const base = join(cache, 'vllm');
  mkdirSync(base, { recursive: true });
  installVllm(base);
  const venv = join(folder, 'venv');
  keep(folder, `sglang ${version}, ${kernels}`, () => fill(folder, venv, join(base, 'venv')));
  return {
    command: [join(venv, 'bin/python'), '-m', 'sglang.launch_server'],
    env: {
      PATH: `${join(venv, 'bin')}:${process.env.PATH}`,
      HF_HUB_OFFLINE: '1',
      SGLANG_USE_CPU_ENGINE: '1',
      OMP_NUM_THREADS: '1',
    },
  };
}

function fill(folder, venv, base) {
  rmSync(venv, { recursive: true, force: true });
  run(python312(), ['-m', 'venv', venv]);
  const pip = (...args) => run(join(venv, 'bin/pip'), ['--quiet', '--disable-pip-version-check', ...args]);
  const site = sitePackages(venv);
  // Python reads this file last, so packages in this environment take precedence over vLLM's.
  writeFileSync(join(site, 'zz-vllm.pth'), sitePackages(base));
  pip('install', '--no-deps', `sglang==${version}`, ...companions);
  const kernel = join(site, 'sgl_kernel');
  mkdirSync(kernel, { recursive: true });
  writeFileSync(join(kernel, '__init__.py'), standIn);
  const wheels = join(folder, 'wheels');
  rmSync(wheels, { recursive: true, force: true });
  mkdirSync(wheels);
  pip('download', '--no-deps', '--only-binary=:all:', '--dest', wheels, kernels);
  const script =
    'import sys, zipfile\n' +
    'zipfile.ZipFile(sys.argv[1]).extract("sgl_kernel/scalar_type.py", sys.argv[2])';
  run(join(venv, 'bin/python'), ['-c', script, join(wheels, readdirSync(wheels)[0]), site]);
  rmSync(wheels, { recursive: true });
}
