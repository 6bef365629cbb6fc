/** All fuzz targets, in the order in which they run. */
import type { Target } from './campaign.ts';
import { httpTarget } from './http-target.ts';

export const targets: readonly Target[] = [httpTarget];
