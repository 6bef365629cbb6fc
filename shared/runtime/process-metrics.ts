/** Metrics of resources that can run out even without requests: the certificate's validity and the disk. */
import { statfs } from 'node:fs/promises';
import type { Registry } from 'prom-client';
import { wallClockMs } from './clock.ts';
import { dataFiles } from './data-files.ts';
import { ObservedMetrics } from './observed-metrics.ts';
import type { Certificate } from './tls.ts';

interface ProcessResources {
  readonly certificate?: Certificate | undefined;
  readonly dataDir: string;
}

export function observeResources(registry: Registry, { certificate, dataDir }: ProcessResources): void {
  const metrics = new ObservedMetrics(registry);
  if (certificate)
    metrics.gauge(
      'headgate_tls_certificate_expiry_seconds',
      'time until the certificate of the listeners expires; negative afterwards',
      () => (Date.parse(certificate.validUntil) - wallClockMs()) / 1000,
    );
  metrics.gauges('headgate_file_bytes', 'size of a file in the data folder', 'file', () =>
    dataFiles(dataDir).map(({ name, bytes }) => [name, bytes] as const),
  );
  metrics.gauge(
    'headgate_data_bytes_free',
    'free bytes on the disk of the data folder; -1 if they cannot be read',
    async () => {
      const disk = await statfs(dataDir).catch(() => undefined);
      return disk === undefined ? -1 : disk.bavail * disk.bsize;
    },
  );
}
