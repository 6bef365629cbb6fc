/** The metrics of a process's surroundings that run out without a request: its certificate and its disk. */
import { statfs } from 'node:fs/promises';
import { Gauge, type Registry } from 'prom-client';
import { dataFiles } from './data-files.ts';
import type { Certificate } from './tls.ts';

interface ProcessResources {
  readonly certificate?: Certificate | undefined;
  readonly dataDir: string;
}

export function observeResources(registry: Registry, { certificate, dataDir }: ProcessResources): void {
  if (certificate)
    new Gauge({
      name: 'headgate_tls_certificate_expiry_seconds',
      help: 'until the certificate of the listeners expires; negative afterwards',
      registers: [registry],
      collect() {
        this.set((Date.parse(certificate.validUntil) - Date.now()) / 1000);
      },
    });
  new Gauge({
    name: 'headgate_file_bytes',
    help: 'size of a file of the data folder',
    labelNames: ['file'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { name, bytes } of dataFiles(dataDir)) this.set({ file: name }, bytes);
    },
  });
  new Gauge({
    name: 'headgate_data_bytes_free',
    help: 'free on the disk of the data folder, for a process that is not root; -1 while it cannot be read',
    registers: [registry],
    async collect() {
      const disk = await statfs(dataDir).catch(() => undefined);
      this.set(disk === undefined ? -1 : disk.bavail * disk.bsize);
    },
  });
}
